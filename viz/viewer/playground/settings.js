// The switches of a training, what to expect of each, and the address that holds them all.

import { chosenLanguage, say } from '../locales/language.js';
import { fixed } from '../core/labels.js';
import { TASKS } from './tasks.js';

const yes = () => say('on');
const no = () => say('off');

// Each switch has its values, the usual one first in `usual`, and a sentence on what to expect. The slow test
// test_switches.py trains to see that each sentence is true.
export const SWITCHES = {
  task: {
    values: Object.keys(TASKS),
    usual: 'reverse',
    label: () => say('Task'),
    text: (value) => TASKS[value].title(),
    hint: () => say('Copying takes fewer steps than spelling backwards, and sorting takes more.'),
  },
  layers: {
    values: [1, 2],
    usual: 1,
    label: () => say('Layers'),
    hint: () => say('One layer on each side is enough to spell backwards. With two, each step takes longer.'),
  },
  heads: {
    values: [1, 2, 4],
    usual: 2,
    label: () => say('Heads'),
    hint: () => say('One head is enough to spell backwards. With more, watch which of them does the work.'),
  },
  width: {
    values: [16, 32, 64],
    usual: 32,
    label: () => say('Width'),
    hint: () => say('A model of width 16 needs more steps than one of width 32.'),
  },
  positions: {
    values: [true, false],
    usual: true,
    label: () => say('Positions'),
    text: (value) => (value ? yes() : no()),
    hint: () => say('Without them, copying and spelling backwards stay below 10 %. Sorting does not need them. Why?'),
  },
  mask: {
    values: [true, false],
    usual: true,
    label: () => say('The decoder may peek'),
    text: (value) => (value ? no() : yes()),
    hint: () =>
      say('If it sees what it is to write, the loss falls to nothing, and not one unseen word comes out right.'),
  },
  rate: {
    values: [0.001, 0.003, 0.01, 0.03, 0.1],
    usual: 0.01,
    label: () => say('Learning rate'),
    text: (value) => fixed(value, 3),
    hint: () => say('At 0.001 it needs more steps. At 0.1 it does not learn to spell backwards.'),
  },
  seed: {
    values: [1, 2, 3, 4, 5],
    usual: 1,
    label: () => say('Seed'),
    hint: () => say('Another seed begins with other random weights. The same seed trains the same model again.'),
  },
};

const NAMES = Object.keys(SWITCHES);
const NAME = 'playground'; // the parameter of the address that has the task

export const USUAL = Object.fromEntries(NAMES.map((name) => [name, SWITCHES[name].usual]));

// The settings of the trainings that an address asks for, one or two. What it does not name, or names in vain, is usual;
// the second one has the names that end in 2, and is otherwise like the first.
export function settingsOf(address) {
  const parameters = new URLSearchParams(address.slice(1));
  const read = (name, suffix, otherwise) => {
    const written = parameters.get((name === 'task' ? NAME : name) + suffix);
    return (
      SWITCHES[name].values.find((value) => String(Number(value) || (value === false ? 0 : value)) === written) ??
      otherwise
    );
  };
  const settings = (suffix, base) => Object.fromEntries(NAMES.map((name) => [name, read(name, suffix, base[name])]));
  const first = settings('', USUAL);
  const isTwo = NAMES.some((name) => parameters.has(`${name}2`));
  return isTwo ? [first, { ...settings('2', first), task: first.task }] : [first];
}

// The address of one or two trainings.
export function addressOf([first, second = null]) {
  const written = (value) => (typeof value === 'boolean' ? Number(value) : value);
  const parameters = new URLSearchParams(NAMES.map((name) => [name === 'task' ? NAME : name, written(first[name])]));
  if (second) for (const name of NAMES) if (name !== 'task') parameters.set(`${name}2`, written(second[name]));
  const learn = new URLSearchParams(location.hash.slice(1)).get('learn');
  if (learn !== null) parameters.set('learn', learn);
  if (chosenLanguage()) parameters.set('lang', chosenLanguage());
  return `#${parameters}`;
}
