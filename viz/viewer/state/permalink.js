// The state as the hash of the page's address, so that a link opens the same view:
// #v=2&model=de-en&text=Guten+Tag&kind=cross&layer=4&head=7&row=3&column=2

import { LIMITS } from '../domain/limits.js';
import { KINDS, forcedIds, targetIds } from '../domain/payload.js';
import { importanceOf } from './measures.js';
import { prefixOfWritten, writtenPrefix } from '../domain/language_prefix.js';
import { clearestHead, headOf } from './actions.js';
import { LINKED_CHOICES, linkOfValue, parseCourse, writeCourse } from './linked_choices.js';
import { LONGEST_NAME, LONGEST_TEXT, hashOf, headsOf, idsOf, numberOf, parse, textOf } from './parameters.js';
import { sourceView } from './queries.js';
import { CHOICES } from './store.js';
import { chosenLanguage } from '../locales/language.js';

// Version 1 had no forced tokens, hypotheses, own translations, comparisons and training steps. A parameter that a
// version adds is ignored by earlier versions, so links of every version open in this page.
const VERSION = 2;
const GREEDY = 1; // the beam of an address that names none

// Always names kind, layer and head; writes other choices only if they differ from the choices of a new page. What a
// sentence of In short opened is not written.
/** @type {(state: State) => string} */
export function toAddress(opened) {
  const state = /** @type {State} */ ({ ...opened, ...opened.aside });
  const choices = Object.values(LINKED_CHOICES).map(({ write }) => write(state));
  const language = chosenLanguage();
  return hashOf({
    ...{ v: VERSION, ...taskParameters(state.home.record), ...viewParameters(state) },
    ...Object.assign({}, ...choices),
    ...(importanceOf(state) && state.importance?.isAsked && { marks: 'importance' }),
    ...(language && { lang: language }),
  });
}

// The address of a translation, with further parameters.
/** @type {(task: Task | null, parameters: object) => string} */
export const addressOf = (record, parameters) => hashOf({ v: VERSION, ...taskParameters(record), ...parameters });

/** @type {(task: Task | null) => { [name: string]: string | number }} */
function taskParameters(record) {
  if (!record) return {};
  /** @type {{ [name: string]: string | number }} */
  const parameters = { model: record.model.name };
  if (record.source_text.length <= LONGEST_TEXT) parameters.text = record.source_text;
  if (record.language_prefix) parameters.to = writtenPrefix(record.language_prefix);
  const { beam_size: beam = GREEDY, length_penalty: alpha = 1 } = record.options ?? {};
  if (beam > GREEDY) parameters.beam = beam;
  if (alpha !== 1) parameters.alpha = alpha;
  return parameters;
}

// The address of one cell in the translation of another sentence by the model on screen.
/** @type {(state: State, text: string, cell: Cell) => string} */
export function addressOfCell({ record, panel }, text, { kind, layer, head, row, column }) {
  const task = taskParameters({ ...record, source_text: text });
  const place = { kind, layer: layer + 1, head: head + 1, row: row + 1, column: column + 1 };
  return hashOf({ v: VERSION, ...task, ...place, panel });
}

// What is on screen in place of the model's own translation.
function viewParameters(state) {
  const { home, shown } = state;
  const { type, record, step, sentence } = sourceView(state);
  const parameters = {};
  if (type === 'forced') parameters.forced = forcedIds(record).join('.');
  if (type === 'hypothesis') parameters.hypothesis = targetIds(record).join('.');
  if (type === 'training') parameters.training = `${step}.${Number(sentence) + 1}`;
  if (home.scored && home.scored.text.length <= LONGEST_TEXT) parameters.reference = home.scored.text;
  const opened = [type === 'reference' && 'reference', shown?.type === 'muted' && 'muted'].filter(Boolean);
  return opened.length > 0 ? { ...parameters, show: opened.join(',') } : parameters;
}

// Whether a link opens the same view.
/** @type {(state: State) => boolean} */
export const isLinkable = (state) =>
  linkOfValue(state) !== null && state.home.record.source_text.length <= LONGEST_TEXT;

// The chapter of Learn that an address opens, as an address for any sentence; null if it opens none.
/** @type {(address: string | null) => string | null} */
export function chapterAddress(address) {
  const parameters = parse(address ?? '');
  const course = parseCourse(parameters);
  if (course.learn === null) return null;
  const panel = parameters.get('panel');
  return hashOf({ ...writeCourse(course), ...(panel && { panel }) });
}

// The choices in an address, for `store.change`; {} if it has none. The record says what heads can be sorted by.
/** @type {(address: string, record: TranslationRecord) => Changes} */
export function fromAddress(address, record) {
  const parameters = parse(address);
  const kind = KINDS.find((one) => one === parameters.get('kind'));
  if (!kind) return chapterChoices(parameters, record);
  const choices = Object.entries(LINKED_CHOICES);
  return Object.fromEntries(choices.map(([name, choice]) => [name, choice.parse(parameters, { kind, record })]));
}

// A chapter begins with nothing but its sentence, the head that shows its word pairs best, its tab and its question.
/** @type {(parameters: URLSearchParams, record: TranslationRecord) => Changes} */
function chapterChoices(parameters, record) {
  const course = parseCourse(parameters);
  if (course.learn === null) return {};
  const head = headOf(clearestHead(record));
  const [questions, panel] = ['questions', 'panel'].map((name) =>
    LINKED_CHOICES[name].parse(parameters, { kind: head.kind, record }),
  );
  return { ...CHOICES, ...head, questions, panel, ...course };
}

// What an address asks to open in place of the model's own translation; null for what it does not ask for.
/** @param {string} address */
export function viewOfAddress(address) {
  const parameters = parse(address);
  const shown = (parameters.get('show') ?? '').split(',');
  const [, step, sentence = ''] = /^(\d{1,9})\.([1-9]\d{0,3})$/.exec(parameters.get('training') ?? '') ?? [];
  return {
    forced: idsOf(parameters.get('forced')),
    hypothesis: idsOf(parameters.get('hypothesis')),
    training: step === undefined ? null : { step: Number(step), sentence: Number(sentence) - 1 },
    reference: textOf(parameters, 'reference', LONGEST_TEXT),
    showsReference: shown.includes('reference'),
    showsMuted: shown.includes('muted'),
    comparesReference: parameters.get('compare') === 'reference',
    compared: headsOf(parameters.get('compare')),
    comparesOwn: parameters.get('compared') === 'own',
    marksImportance: parameters.get('marks') === 'importance',
    sortsByImportance: parameters.get('sort') === 'importance',
  };
}

// The open chapter of Learn in an address, and the time for it; both null without one.
/** @type {(address: string) => { learn: number | null; minutes: number | null }} */
export const courseOfAddress = (address) => parseCourse(new URLSearchParams(address.slice(1)));

// Whether an address asks for the translation that is on screen. What it leaves out may be anything.
/** @type {(address: string, record: TranslationRecord) => boolean} */
export function asksFor(address, { model, source_text: text, options, language_prefix: prefix = '' }) {
  const task = taskOfAddress(address);
  if (task.model === null && task.text === null) return true;
  const sameOptions =
    task.beam === (options?.beam_size ?? GREEDY) && (task.alpha ?? 1) === (options?.length_penalty ?? 1);
  const samePrefix = (prefixOfAddress(address) ?? prefix) === prefix;
  return (task.model ?? model.name) === model.name && (task.text ?? text) === text && sameOptions && samePrefix;
}

// What an address asks to translate: { model, text, beam, alpha }; a field that is missing or invalid is null. A
// sentence without a beam is translated greedily, as by the page that wrote its link.
/** @type {(address: string) => { model: string | null; text: string | null; beam: number | null; alpha: number | null }} */
export function taskOfAddress(address) {
  const parameters = parse(address);
  const [text, model] = [textOf(parameters, 'text', LONGEST_TEXT), textOf(parameters, 'model', LONGEST_NAME)];
  const beam = numberOf(parameters.get('beam') ?? '', 1, LIMITS.beam);
  const unsaid = text === null && model === null ? null : GREEDY;
  return {
    model,
    text,
    beam: Number.isInteger(beam) ? beam : unsaid,
    alpha: numberOf(parameters.get('alpha') ?? '', 0, LIMITS.penalty),
  };
}

// The codes or the prompt before the sentence in an address; null if they are missing or too long.
/** @type {(address: string) => string | null} */
export function prefixOfAddress(address) {
  const written = textOf(parse(address), 'to', LONGEST_NAME);
  return written === null ? null : prefixOfWritten(written);
}
