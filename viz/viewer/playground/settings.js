// The switches of a training, what to expect of each, and the address that holds them all.

import { chosenLanguage, message, say, tell } from '../locales/language.js';
import { writeCourse } from '../state/linked_choices.js';
import { courseOfAddress } from '../state/permalink.js';
import { fixed } from '../drawing/numbers.js';
import { OWN, TASKS } from './tasks.js';
import { element } from '../drawing/dom.js';

const onOff = (isOn) => (isOn ? say('on') : say('off'));

export const SWITCHES = {
  task: {
    values: [...Object.keys(TASKS), OWN],
    usual: 'reverse',
    label: message('Task'),
    text: (name) => (name === OWN ? say('Own pairs') : tell(TASKS[name].title)),
  },
  layers: { values: [1, 2], usual: 1, label: message('Layers') },
  heads: { values: [1, 2, 4], usual: 2, label: message('Heads') },
  width: { values: [16, 32, 64], usual: 32, label: message('Width') },
  positions: { values: [true, false], usual: true, label: message('Positions'), text: onOff },
  mask: { values: [true, false], usual: true, label: message('The decoder may peek'), text: (mask) => onOff(!mask) },
  last: {
    values: [false, true],
    usual: false,
    label: message('The decoder reads'),
    text: (last) => (last ? say('only the last state') : say('the whole word')),
  },
  rate: {
    values: [0.001, 0.003, 0.01, 0.03, 0.1],
    usual: 0.01,
    label: message('Learning rate'),
    text: (rate) => fixed(rate, 3),
  },
  seed: { values: [1, 2, 3, 4, 5], usual: 1, label: message('Seed') },
};

// What to expect of each switch. The slow test test_switches.py trains to see that each sentence is true.
const HINTS = {
  task: message('Copying takes fewer steps than spelling backwards, and sorting takes more.'),
  layers: message('One layer on each side is enough to spell backwards. With two, each step takes longer.'),
  heads: message('One head is enough to spell backwards. With more, watch which of them does the work.'),
  width: message('A model of width 16 needs more steps than one of width 32.'),
  positions: message(
    'Without them, the model sees which letters a word has, but not in which order. So copying and spelling backwards stay below 10 %; sorting needs no order.',
  ),
  mask: message(
    'If the decoder sees what it must write, the loss falls almost to zero, but it writes no unseen word correctly.',
  ),
  last: message(
    'If it reads only the last state of the encoder, the whole word must fit into one list of numbers. Short words still succeed, long ones do not.',
  ),
  rate: message('At 0.001 it needs more steps. At 0.1 it does not learn to spell backwards.'),
  seed: message('Another seed begins with other random weights. The same seed trains the same model again.'),
};

const NAMES = Object.keys(SWITCHES);
export const USUAL = Object.fromEntries(NAMES.map((name) => [name, SWITCHES[name].usual]));

const parameterOf = (name) => (name === 'task' ? 'playground' : name);
const written = (value) => String(typeof value === 'boolean' ? Number(value) : value);

const MOST_STEPS = 5000; // that a link can ask for

// The settings of the one or two trainings that an address asks for. A setting that it does not name, or gives no known value, is
// usual. Names that end in 2 are of the second training, which is otherwise like the first.
export function settingsOf(address) {
  const parameters = new URLSearchParams(address.slice(1));
  const valueIn = (name, suffix) =>
    SWITCHES[name].values.find((value) => written(value) === parameters.get(parameterOf(name) + suffix));
  const settings = (suffix, base) =>
    Object.fromEntries(NAMES.map((name) => [name, valueIn(name, suffix) ?? base[name]]));
  const first = settings('', USUAL);
  return NAMES.some((name) => parameters.has(`${name}2`)) ? [first, settings('2', first)] : [first];
}

// The step to which an address wants the training to go; 0 for none.
export function stepOf(address) {
  const text = new URLSearchParams(address.slice(1)).get('step') ?? '';
  return /^\d{1,4}$/.test(text) ? Math.min(Number(text), MOST_STEPS) : 0;
}

// The names of two trainings, with what differs between them: "A · Positions: on"; one alone has no name.
export function titlesOf(settings) {
  const [first, second] = settings;
  if (!second) return [''];
  const names = NAMES.filter((name) => first[name] !== second[name]);
  const write = (each) => names.map((name) => `${tell(SWITCHES[name].label)}: ${textOf(name, each)}`).join(', ');
  return settings.map((each, side) => `${'AB'[side]} · ${write(each)}`);
}

function textOf(name, settings) {
  const { text = String } = SWITCHES[name];
  return text(settings[name]);
}

export function addressOf([first, second = {}], step = 0) {
  const parameters = new URLSearchParams(NAMES.map((name) => [parameterOf(name), written(first[name])]));
  for (const name of NAMES.slice(1)) if (name in second) parameters.set(`${name}2`, written(second[name]));
  if (step > 0) parameters.set('step', String(step));
  const course = writeCourse(courseOfAddress(location.hash));
  for (const [name, value] of Object.entries(course)) parameters.set(name, String(value));
  const language = chosenLanguage();
  if (language) parameters.set('lang', language);
  return `#${parameters}`;
}

// A and B, where there are two.
export const nameOf = ({ settings }, side) => (settings.length > 1 ? 'AB'[side] : '');

export function createSwitches(play, side, begin) {
  const names = Object.keys(SWITCHES).filter((name) => name !== 'task');
  const title = `${say('Switches')} ${nameOf(play, side)}`.trim();
  const list = element(
    'div',
    { class: 'hl-play-switches' },
    ...names.map((name) => createSwitch(play, side, name, begin)),
  );
  return element('section', { class: 'hl-panel', 'aria-label': title }, element('h3', {}, title), list);
}

// A list of values. A change begins the training again, with `begin`, and is written into the address.
export function createSwitch(play, side, name, begin) {
  const { label, text = String } = SWITCHES[name];
  const values = SWITCHES[name].values.filter((value) => value !== OWN || play.pairs !== null);
  const id = `hl-play-${name}-${side}`;
  const own = play.settings[side][name];
  const options = values.map((value, place) => new Option(text(value), place, false, value === own));
  const list = element('select', { class: 'hl-box', 'aria-describedby': id }, ...options);
  list.addEventListener('change', () => {
    const change = { [name]: values[Number(list.value)] };
    const changed = (each, place) => (place === side || name === 'task' ? { ...each, ...change } : each);
    begin(play, play.settings.map(changed));
    play.node.querySelector(`[aria-describedby="${id}"]`)?.focus();
  });
  return element('label', {}, tell(label), list, element('span', { class: 'hl-soft', id }, tell(HINTS[name])));
}
