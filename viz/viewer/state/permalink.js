// The state as the hash of the page's address, so that a link opens the same view. Heads, layers, rows and columns
// count from 1 there, as on screen: #v=2&model=de-en&text=Guten+Tag&kind=cross&layer=4&head=7&row=3&column=2
// An address is untrusted input: each parameter is checked on its own, and invalid ones are ignored.

import { chosenValue, valueNamed } from '../values/values.js';
import { LIMITS, THRESHOLDS } from '../domain/limits.js';
import { KINDS, forcedIds, targetIds } from '../domain/payload.js';
import { importanceOf, measuresOf, sortsOf } from './measures.js';
import { NO_SIDE_B, SIDE_B_BY } from './comparison.js';
import { QUESTIONS } from '../instruments/instruments.js';
import { prefixOfWritten, writtenPrefix } from '../domain/language_prefix.js';
import { clearestHead, headOf } from './actions.js';
import { sourceView } from './queries.js';
import { BASELINES, CHOICES, FOUND_OVER, LINKED, REDUCTIONS, SCALES, TABS } from './store.js';
import { chosenLanguage } from '../locales/language.js';

// Version 1 had no forced tokens, hypotheses, own translations, comparisons and training steps. A parameter that a
// version adds is ignored by earlier versions, so links of every version open in this page.
const VERSION = 2;
const LONGEST_NAME = 255; // of the directory of a model
const LONGEST_TEXT = 2000;
const LONGEST_STEP = 9; // digits
const LONGEST_LESSON = 90; // minutes
const GREEDY = 1; // the beam of an address that names none
const NAMES = ['reduce', 'scale', 'sort', 'panel', 'linkedBy']; // choices whose value is one of a list

// Always names kind, layer and head; writes other choices only if they differ from the choices of a new page. What a
// sentence of In short opened is not written.
/** @type {(state: State) => string} */
export function toAddress(opened) {
  const state = /** @type {State} */ ({ ...opened, ...opened.aside });
  /** @type {{ [name: string]: any }} */
  const parameters = { v: VERSION, ...taskParameters(state.home.record), ...viewParameters(state) };
  Object.assign(parameters, { kind: state.kind, layer: state.layer + 1 });
  parameters.head = state.head === null ? 'all' : state.head + 1;
  if (state.selection.length > 0)
    parameters.heads = state.selection.map(([, layer, head]) => `${layer + 1}.${head + 1}`).join(',');
  if (state.mutes.length > 0)
    parameters.mute = state.mutes.map(([kind, layer, head]) => `${kind}.${layer + 1}.${head + 1}`).join(',');
  Object.assign(parameters, insteadParameters(state.instead), sideBParameters(state.sideB));
  for (const name of NAMES) if (state[name] !== CHOICES[name]) parameters[name] = state[name];
  Object.assign(parameters, linkOfValue(state));
  if (importanceOf(state) && state.importance?.isAsked) parameters.marks = 'importance';
  if (state.removedAt !== null) parameters.without = state.removedAt + 1;
  if (state.hideSpecials) parameters.specials = 'hidden';
  if (state.words) parameters.words = 'merged';
  if (!state.fit) parameters.size = 'scroll';
  if (state.finder) parameters.find = [state.finder.over, state.finder.x, state.finder.y].join('.');
  if (state.questions.length > 0) parameters.ask = state.questions.join(',');
  if (state.other !== null) parameters.other = state.other;
  if (state.gold !== '') parameters.gold = state.gold;
  if (state.threshold !== CHOICES.threshold) parameters.threshold = state.threshold;
  if (state.flow !== CHOICES.flow) parameters.flow = state.flow;
  Object.assign(parameters, courseParameters(state));
  if (chosenLanguage()) parameters.lang = chosenLanguage();
  return hashOf({ ...parameters, ...pinParameters(state.pin), ...stepParameters(state) });
}

// The address of a translation, with further parameters.
/** @type {(task: Task | null, parameters: object) => string} */
export function addressOf(record, parameters) {
  return hashOf({ v: VERSION, ...taskParameters(record), ...parameters });
}

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

// What muted heads give instead of their own output.
function insteadParameters({ baseline, sentence, row }) {
  const parameters = baseline === CHOICES.instead.baseline ? {} : { instead: baseline };
  if (baseline === 'sentence' && sentence.length <= LONGEST_TEXT) parameters.by = sentence;
  return row === null ? parameters : { ...parameters, only: row + 1 };
}

/** @type {(parameters: URLSearchParams) => Instead} */
function insteadOf(parameters) {
  const wanted = parameters.get('instead') ?? CHOICES.instead.baseline;
  const baseline = BASELINES.find((one) => one === wanted);
  const row = index(parameters, 'only');
  if (!baseline || (baseline === CHOICES.instead.baseline && row === null)) return CHOICES.instead;
  const text = parameters.get('by') ?? '';
  return { baseline, sentence: baseline === 'sentence' && text.length <= LONGEST_TEXT ? text : '', row };
}

// What stands beside the view.
function sideBParameters(sideB) {
  if (!sideB?.by || sideB.with.length > LONGEST_TEXT) return {};
  const parameters = { beside: sideB.by, with: sideB.with };
  if (sideB.to !== '') parameters.into = writtenPrefix(sideB.to);
  return sideB.separate ? { ...parameters, apart: 'yes' } : parameters;
}

/** @type {(parameters: URLSearchParams) => SideB | null} */
function sideBOf(parameters) {
  const [wanted, text, prefix] = ['beside', 'with', 'into'].map((name) => parameters.get(name) ?? '');
  const by = SIDE_B_BY.find((one) => one === wanted);
  const longest = by ? { model: LONGEST_NAME, step: LONGEST_STEP, sentence: LONGEST_TEXT }[by] : 0;
  if (!by || text === '' || text.length > longest || prefix.length > LONGEST_NAME) return CHOICES.sideB;
  if (by === 'step' && !/^\d+$/.test(text)) return CHOICES.sideB;
  const to = by === 'model' && prefix !== '' ? prefixOfWritten(prefix) : NO_SIDE_B.to;
  return { by, with: text, to, separate: parameters.get('apart') === 'yes' };
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

function linkOfValue(state) {
  const value = chosenValue(state);
  return value.linkOf(state, value);
}

// Whether a link opens the same view.
/** @type {(state: State) => boolean} */
export function isLinkable(state) {
  return linkOfValue(state) !== null && state.home.record.source_text.length <= LONGEST_TEXT;
}

function pinParameters(pin) {
  const parameters = {};
  if (pin && pin.row !== null) parameters.row = pin.row + 1;
  if (pin && pin.column !== null) parameters.column = pin.column + 1;
  if (pin?.token) parameters.pin = 'token';
  return parameters;
}

// The step on screen in the tab Step, unless the pinned row says it. A row of the encoder does not say it, nor does a head that
// lights another row for the word of a step.
function stepParameters({ panel, step, kind, pin }) {
  const isImplied = kind !== 'encoder' && pin?.row === step;
  return panel === 'step' && step > 0 && !isImplied ? { step: step + 1 } : {};
}

// The chapter of Learn that an address opens, as an address for any sentence; null if it opens none.
/** @type {(address: string | null) => string | null} */
export function chapterAddress(address) {
  const parameters = parse(address ?? '');
  const learn = chapterOf(parameters);
  if (learn === null) return null;
  const panel = parameters.get('panel');
  const minutes = minutesOf(parameters);
  return hashOf({ ...courseParameters({ learn, minutes }), ...(panel && { panel }) });
}

// The choices in an address, for `store.change`; {} if it has none. The record says what heads can be sorted by.
/** @type {(address: string, record: TranslationRecord) => Changes} */
export function fromAddress(address, record) {
  const parameters = parse(address);
  const learn = chapterOf(parameters);
  const kind = KINDS.find((one) => one === parameters.get('kind'));
  if (!kind) return learn === null ? {} : chapterChoices(parameters, learn, record);
  const head = parameters.get('head') === 'all' ? null : (index(parameters, 'head') ?? 0);
  const choices = {
    ...CHOICES,
    kind,
    valueName: valueNamed(parameters.get('value') ?? parameters.get('mode')).name, // called mode in earlier releases
    layer: index(parameters, 'layer') ?? 0,
    head,
    selection: headsOf((parameters.get('heads') ?? '').split(','), (text) => `${kind}.${text}`),
    mutes: headsOf((parameters.get('mute') ?? '').split(',')),
    instead: insteadOf(parameters),
    pin: pinOf(parameters),
    removedAt: index(parameters, 'without'),
    step: index(parameters, 'step') ?? 0,
    hideSpecials: parameters.get('specials') === 'hidden',
    words: parameters.get('words') === 'merged',
    fit: parameters.get('size') !== 'scroll',
    threshold: number(parameters, 'threshold', 0, 1) ?? CHOICES.threshold,
    flow: number(parameters, 'flow', THRESHOLDS.flow, 1) ?? CHOICES.flow,
    finder: finderOf(parameters.get('find') ?? '', record),
    questions: questionsOf(parameters.get('ask') ?? ''),
    other: idsOf(parameters.get('other'))?.[0] ?? CHOICES.other,
    gold: (parameters.get('gold') ?? CHOICES.gold).slice(0, LONGEST_TEXT),
    learn,
    minutes: learn === null ? null : minutesOf(parameters),
    sideB: sideBOf(parameters),
  };
  const sorts = sortsOf(record).map(({ name }) => name);
  const known = { reduce: REDUCTIONS, scale: SCALES, sort: sorts, panel: TABS, linkedBy: LINKED };
  for (const name of NAMES) if (known[name].includes(parameters.get(name))) choices[name] = parameters.get(name);
  return choices;
}

// A chapter begins with nothing but its sentence, the head that shows its word pairs best, and its tab.
function chapterChoices(parameters, learn, record) {
  const questions = questionsOf(parameters.get('ask') ?? '');
  const panel = TABS.find((name) => name === parameters.get('panel')) ?? CHOICES.panel;
  return { ...CHOICES, ...headOf(clearestHead(record)), questions, panel, learn, minutes: minutesOf(parameters) };
}

// What an address asks to open in place of the model's own translation; null for what it does not ask for.
/** @param {string} address */
export function viewOfAddress(address) {
  const parameters = parse(address);
  const shown = (parameters.get('show') ?? '').split(',');
  const [, step, sentence = ''] = /^(\d{1,9})\.([1-9]\d{0,3})$/.exec(parameters.get('training') ?? '') ?? [];
  const compared = headsOf((parameters.get('compare') ?? '').split(','));
  return {
    forced: idsOf(parameters.get('forced')),
    hypothesis: idsOf(parameters.get('hypothesis')),
    training: step === undefined ? null : { step: Number(step), sentence: Number(sentence) - 1 },
    reference: textOf(parameters, 'reference', LONGEST_TEXT),
    showsReference: shown.includes('reference'),
    showsMuted: shown.includes('muted'),
    comparesReference: parameters.get('compare') === 'reference',
    compared: compared.length > 0 ? compared : null,
    comparesOwn: parameters.get('compared') === 'own',
    marksImportance: parameters.get('marks') === 'importance',
    sortsByImportance: parameters.get('sort') === 'importance',
  };
}

// The open head finder: which sentences, and the measures of both axes.
function finderOf(text, record) {
  const [over, x, y, ...more] = text.split('.');
  const names = measuresOf(record).map(({ name }) => name);
  const isKnown = more.length === 0 && FOUND_OVER.includes(over) && [x, y].every((name) => names.includes(name));
  return isKnown ? { over, x, y } : CHOICES.finder;
}

function questionsOf(text) {
  const names = text.split(',');
  const asked = QUESTIONS.filter((name) => names.includes(name));
  return asked.length > 0 ? asked : CHOICES.questions;
}

// The open chapter of Learn in an address, and the time for it; both null without one.
/** @type {(address: string) => { learn: number | null; minutes: number | null }} */
export function courseOfAddress(address) {
  const parameters = new URLSearchParams(address.slice(1));
  const learn = chapterOf(parameters);
  return { learn, minutes: learn === null ? null : minutesOf(parameters) };
}

// The same as parameters of an address.
/** @type {(course: { learn: number | null; minutes: number | null }) => { [name: string]: number }} */
export function courseParameters({ learn, minutes }) {
  if (learn === null) return {};
  return minutes === null ? { learn } : { learn, minutes };
}

function minutesOf(parameters) {
  const minutes = index(parameters, 'minutes');
  return minutes === null ? null : Math.min(minutes + 1, LONGEST_LESSON);
}

function chapterOf(parameters) {
  const place = index(parameters, 'learn');
  return place === null ? CHOICES.learn : place + 1;
}

function idsOf(text) {
  if (!/^\d{1,7}(\.\d{1,7})*$/.test(text ?? '')) return null;
  const ids = text.split('.').map(Number);
  return ids.length <= LIMITS.target_tokens ? ids : null;
}

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
  const beam = number(parameters, 'beam', 1, LIMITS.beam);
  const unsaid = text === null && model === null ? null : GREEDY;
  return {
    model,
    text,
    beam: Number.isInteger(beam) ? beam : unsaid,
    alpha: number(parameters, 'alpha', 0, LIMITS.penalty),
  };
}

// The codes or the prompt before the sentence in an address; null if they are missing or too long.
/** @type {(address: string) => string | null} */
export function prefixOfAddress(address) {
  const written = textOf(parse(address), 'to', LONGEST_NAME);
  return written === null ? null : prefixOfWritten(written);
}

// A text of at most so many characters; null if it is missing or longer.
/** @type {(parameters: URLSearchParams, name: string, longest: number) => string | null} */
function textOf(parameters, name, longest) {
  const text = parameters.get(name);
  return text !== null && text.length <= longest ? text : null;
}

/** @type {(parameters: { [name: string]: any }) => string} */
function hashOf(parameters) {
  return `#${new URLSearchParams(parameters)}`;
}

function parse(address) {
  return new URLSearchParams(address.length <= LIMITS.address ? address.replace(/^#/, '') : '');
}

/** @type {(parameters: URLSearchParams, name: string) => number | null} */
function index(parameters, name) {
  return /^[1-9]\d{0,3}$/.test(parameters.get(name) ?? '') ? Number(parameters.get(name)) - 1 : null;
}

// A number, at least and at most these; null if it is missing or invalid.
function number(parameters, name, least, most) {
  const text = parameters.get(name) ?? '';
  return /^\d{1,4}(\.\d{1,4})?$/.test(text) ? Math.min(most, Math.max(least, Number(text))) : null;
}

/** @type {(parameters: URLSearchParams) => Spot | null} */
function pinOf(parameters) {
  /** @type {Spot} */
  const pin = { row: index(parameters, 'row'), column: index(parameters, 'column') };
  if (pin.row === null && pin.column === null) return null;
  const step = index(parameters, 'step');
  if (step !== null) pin.step = step;
  return parameters.get('pin') === 'token' ? { ...pin, token: true } : pin;
}

/** @type {(texts: string[], complete?: (text: string) => string) => readonly Head[]} */
function headsOf(texts, complete = (text) => text) {
  const pattern = new RegExp(`^(${KINDS.join('|')})\\.([1-9]\\d{0,2})\\.([1-9]\\d{0,2})$`);
  /** @type {(text: string) => Head[]} */
  const headIn = (text) => {
    const [, kind, layer, head] = pattern.exec(complete(text)) ?? [];
    return kind ? [[/** @type {Kind} */ (kind), Number(layer) - 1, Number(head) - 1]] : [];
  };
  const heads = texts.slice(0, LIMITS.heads).flatMap(headIn);
  return heads.length > 0 ? heads : CHOICES.mutes;
}
