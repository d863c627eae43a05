// Challenges: a goal, and the record of the person in this browser. While one is on, the page gives no hints.

import { element } from '../drawing/dom.js';
import { actionButton, sayNote } from '../drawing/widgets.js';
import { keepStored, storedFields } from '../transport/storage.js';
import { message, say, tell } from '../locales/language.js';
import { SWITCHES, USUAL } from './settings.js';

const STORED = 'headlight.records';
const [GOOD, BAD] = [0.95, 0.1]; // shares of unseen words

// `scoreOf(training)` is what a training is worth, or null; `better` chooses of two scores. The usual model solves none in the
// best way, nor does the smallest: tests/viz/playground/test_switches.py trains them.
const CHALLENGES = {
  smallest: {
    task: 'sort',
    goal: message('Sort 95 % of the unseen words within 1000 steps, with as few parameters as you can.'),
    scoreOf: ({ settings, steps, share, parameters }) =>
      settings.task === 'sort' && steps <= 1000 && share >= GOOD ? parameters : null,
    better: Math.min,
    record: (score) => say('Your record: {count} parameters', { count: score }),
  },
  fastest: {
    task: 'reverse',
    goal: message('Spell 95 % of the unseen words backwards after as few steps as you can.'),
    scoreOf: ({ settings, steps, share }) => (settings.task === 'reverse' && steps > 0 && share >= GOOD ? steps : null),
    better: Math.min,
    record: (score) => say('Your record: {count} steps', { count: score }),
  },
  broken: {
    task: 'reverse',
    goal: message(
      'Change a single switch so that the model spells less than 10 % backwards after 300 steps. How many such switches do you find?',
    ),
    scoreOf: ({ settings, steps, share }) => {
      const changed = Object.keys(SWITCHES).filter((name) => settings[name] !== USUAL[name]);
      return steps >= 300 && share < BAD && changed.length === 1 ? changed[0] : null;
    },
    better: (one, other) => [...new Set([one, other].join(',').split(','))].join(','),
    record: (score) => say('Found so far: {count}', { count: String(score).split(',').length }),
  },
};

// Returns { node, note(trainings), goalOf(name) }. `begin(name, task)` begins a challenge.
export function createChallenges(begin) {
  const records = storedFields(STORED, isRecord);
  const lines = Object.entries(CHALLENGES).map(([name, { task, goal }]) => {
    const record = element('span', { class: 'hl-soft', role: 'status' });
    const node = element(
      'li',
      {},
      tell(goal),
      ' ',
      actionButton(say('Take it on'), () => begin(name, task)),
      ' ',
      record,
    );
    return { name, node, record };
  });
  const draw = () => {
    for (const { name, record } of lines)
      record.textContent = name in records ? CHALLENGES[name].record(records[name]) : '';
  };
  draw();
  return {
    node: element(
      'section',
      { class: 'hl-panel hl-challenges' },
      element('h3', {}, say('Challenges')),
      element('ol', {}, ...lines.map(({ node }) => node)),
      sayNote('During a challenge the switches give no hints.'),
    ),
    goalOf: (name) => (name === null ? '' : tell(CHALLENGES[name].goal)),
    // Looks at the trainings as they are now.
    note(trainings) {
      for (const [name, { scoreOf, better }] of Object.entries(CHALLENGES))
        for (const score of trainings.map(scoreOf).filter((one) => one !== null))
          records[name] = name in records ? better(records[name], score) : score;
      keepStored(STORED, JSON.stringify(records));
      draw();
    },
  };
}

const isRecord = ([name, score]) =>
  Object.hasOwn(CHALLENGES, name) && (name === 'broken' ? typeof score === 'string' : Number.isFinite(score));
