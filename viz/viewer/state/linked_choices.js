// How a link holds each choice: `write` gives its parameters, none for the choice of a new page; `parse` gives the choice, or the
// choice of a new page. Heads, layers, rows and columns count from 1 in a link, as on screen.

import { valueNamed, chosenValue } from '../values/values.js';
import { THRESHOLDS } from '../domain/limits.js';
import { measuresOf, sortsOf } from './measures.js';
import { NO_SIDE_B, SIDE_B_BY } from './comparison.js';
import { QUESTIONS } from '../instruments/instruments.js';
import { prefixOfWritten, writtenPrefix } from '../domain/language_prefix.js';
import { LONGEST_NAME, LONGEST_TEXT, headsOf, idsOf, index, numberOf, placeOf } from './parameters.js';
import { BASELINES, CHOICES, FOUND_OVER, LINKED, REDUCTIONS, SCALES, TABS } from './store.js';

const LONGEST_STEP = 9; // digits
const LONGEST_LESSON = 90; // minutes

/** @typedef {{ [parameter: string]: string | number }} Written */
/** @typedef {{ kind: Kind; record: TranslationRecord }} About */
/** @typedef {{ write(state: State): Written; parse(parameters: URLSearchParams, about: About): any }} LinkedChoice */

// A choice with one parameter. `parse` gives null or undefined for a text that is no such choice.
/** @type {(name: string, parameter: string, write: (value: any) => string | number, parse: (text: string, about: About) => any) => { [choice: string]: LinkedChoice }} */
const single = (name, parameter, write, parse) => ({
  [name]: {
    write(state) {
      const text = state[name] === CHOICES[name] ? '' : write(state[name]);
      return text === '' ? {} : { [parameter]: text };
    },
    parse: (parameters, about) => parse(parameters.get(parameter) ?? '', about) ?? CHOICES[name],
  },
});
const same = (value) => value;
// One of a list; on, which has the text `on`, or off.
const oneOf = (name, list) => single(name, name, same, (text) => list.find((one) => one === text));
const onOff = (name, parameter, on) =>
  single(
    name,
    parameter,
    () => on,
    (text) => (text === on) !== CHOICES[name],
  );
const nameOfHead = ([, layer, head]) => `${layer + 1}.${head + 1}`;
const withKind = (head) => `${head[0]}.${nameOfHead(head)}`;
const listOf = (write) => (list) => list.map(write).join();

/** @type {{ [choice: string]: LinkedChoice }} */
export const LINKED_CHOICES = {
  kind: { write: ({ kind }) => ({ kind }), parse: (_, { kind }) => kind },
  layer: { write: ({ layer }) => ({ layer: layer + 1 }), parse: (parameters) => index(parameters, 'layer') ?? 0 },
  head: {
    write: ({ head }) => ({ head: head === null ? 'all' : head + 1 }),
    parse: (parameters) => (parameters.get('head') === 'all' ? null : (index(parameters, 'head') ?? 0)),
  },
  ...single('selection', 'heads', listOf(nameOfHead), (text, { kind }) => headsOf(text, kind)),
  ...single('mutes', 'mute', listOf(withKind), (text) => headsOf(text)),
  ablation: { write: ({ ablation }) => writeAblation(ablation), parse: parseAblation },
  sideB: { write: ({ sideB }) => writeSideB(sideB), parse: parseSideB },
  ...oneOf('reduce', REDUCTIONS),
  ...oneOf('scale', SCALES),
  ...single('sort', 'sort', same, (text, { record }) => sortsOf(record).find(({ name }) => name === text)?.name),
  ...oneOf('panel', TABS),
  ...oneOf('linkedBy', LINKED),
  valueName: {
    write: (state) => linkOfValue(state) ?? {},
    parse: (parameters) => valueNamed(parameters.get('value') ?? parameters.get('mode')).name, // mode in earlier releases
  },
  ...single('removedAt', 'without', (place) => place + 1, placeOf),
  ...onOff('hideSpecials', 'specials', 'hidden'),
  ...onOff('words', 'words', 'merged'),
  ...onOff('fit', 'size', 'scroll'),
  ...single('finder', 'find', ({ over, x, y }) => `${over}.${x}.${y}`, parseFinder),
  ...single('questions', 'ask', listOf(same), parseQuestions),
  ...single('other', 'other', same, (text) => idsOf(text)?.[0]),
  ...single('gold', 'gold', same, (text) => text.slice(0, LONGEST_TEXT)),
  ...single('threshold', 'threshold', same, (text) => numberOf(text, 0, 1)),
  ...single('flow', 'flow', same, (text) => numberOf(text, THRESHOLDS.flow, 1)),
  learn: { write: writeCourse, parse: (parameters) => parseCourse(parameters).learn },
  minutes: { write: () => ({}), parse: (parameters) => parseCourse(parameters).minutes }, // `learn` writes both
  pin: { write: ({ pin }) => writePin(pin), parse: parsePin },
  step: { write: writeStep, parse: (parameters) => index(parameters, 'step') ?? 0 },
};

// The parameters of the chosen value; null if a link cannot hold it.
/** @type {(state: State) => Written | null} */
export function linkOfValue(state) {
  const value = chosenValue(state);
  return value.linkOf(state, value);
}

// What muted heads give instead of their own output.
/** @type {(ablation: Ablation) => Written} */
const writeAblation = ({ baseline, sentence, row }) => ({
  ...(baseline !== CHOICES.ablation.baseline && { baseline }),
  ...(baseline === 'sentence' && sentence.length <= LONGEST_TEXT && { by: sentence }),
  ...(row !== null && { only: row + 1 }),
});

/** @type {(parameters: URLSearchParams) => Ablation} */
function parseAblation(parameters) {
  const wanted = parameters.get('baseline') ?? parameters.get('instead') ?? CHOICES.ablation.baseline; // instead in earlier releases
  const baseline = BASELINES.find((one) => one === wanted);
  const row = index(parameters, 'only');
  if (!baseline || (baseline === CHOICES.ablation.baseline && row === null)) return CHOICES.ablation;
  const text = parameters.get('by') ?? '';
  return { baseline, sentence: baseline === 'sentence' && text.length <= LONGEST_TEXT ? text : '', row };
}

// What stands beside the view.
/** @type {(sideB: SideB | null) => Written} */
function writeSideB(sideB) {
  if (!sideB?.by || sideB.with.length > LONGEST_TEXT) return {};
  return {
    ...{ beside: sideB.by, with: sideB.with },
    ...(sideB.to !== '' && { into: writtenPrefix(sideB.to) }),
    ...(sideB.separate && { apart: 'yes' }),
  };
}

/** @type {(parameters: URLSearchParams) => SideB | null} */
function parseSideB(parameters) {
  const [wanted, text, prefix] = ['beside', 'with', 'into'].map((name) => parameters.get(name) ?? '');
  const by = SIDE_B_BY.find((one) => one === wanted);
  const longest = by ? { model: LONGEST_NAME, step: LONGEST_STEP, sentence: LONGEST_TEXT }[by] : 0;
  if (!by || text === '' || text.length > longest || prefix.length > LONGEST_NAME) return CHOICES.sideB;
  if (by === 'step' && !/^\d+$/.test(text)) return CHOICES.sideB;
  const to = by === 'model' && prefix !== '' ? prefixOfWritten(prefix) : NO_SIDE_B.to;
  return { by, with: text, to, separate: parameters.get('apart') === 'yes' };
}

// The open head finder: which sentences, and the measures of both axes.
/** @type {(text: string, about: About) => State['finder']} */
function parseFinder(text, { record }) {
  const [over, x, y, ...more] = text.split('.');
  const names = measuresOf(record).map(({ name }) => name);
  const isKnown = more.length === 0 && FOUND_OVER.includes(over) && [x, y].every((name) => names.includes(name));
  return isKnown ? { over, x, y } : null;
}

/** @type {(text: string) => string[] | null} */
function parseQuestions(text) {
  const names = text.split(',');
  const asked = QUESTIONS.filter((name) => names.includes(name));
  return asked.length > 0 ? asked : null;
}

// The open chapter of Learn, and the time for it.
/** @type {(course: { learn: number | null; minutes: number | null }) => { [name: string]: number }} */
export function writeCourse({ learn, minutes }) {
  if (learn === null) return {};
  return minutes === null ? { learn } : { learn, minutes };
}

/** @type {(parameters: URLSearchParams) => { learn: number | null; minutes: number | null }} */
export function parseCourse(parameters) {
  const [learn, minutes] = ['learn', 'minutes'].map((name) => index(parameters, name));
  if (learn === null) return { learn: CHOICES.learn, minutes: CHOICES.minutes };
  return { learn: learn + 1, minutes: minutes === null ? CHOICES.minutes : Math.min(minutes + 1, LONGEST_LESSON) };
}

/** @type {(pin: Spot | null) => Written} */
const writePin = (pin) => ({
  ...(pin && pin.row !== null && { row: pin.row + 1 }),
  ...(pin && pin.column !== null && { column: pin.column + 1 }),
  ...(pin?.token && { pin: 'token' }),
});

/** @type {(parameters: URLSearchParams) => Spot | null} */
function parsePin(parameters) {
  /** @type {Spot} */
  const pin = { row: index(parameters, 'row'), column: index(parameters, 'column') };
  if (pin.row === null && pin.column === null) return null;
  const step = index(parameters, 'step');
  if (step !== null) pin.step = step;
  return parameters.get('pin') === 'token' ? { ...pin, token: true } : pin;
}

// The step on screen in the tab Step, unless the pinned row says it. A row of the encoder does not say it, nor does a head that
// lights another row for the word of a step.
/** @type {(state: State) => Written} */
function writeStep({ panel, step, kind, pin }) {
  const isImplied = kind !== 'encoder' && pin?.row === step;
  return panel === 'step' && step > 0 && !isImplied ? { step: step + 1 } : {};
}
