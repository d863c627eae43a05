// The loss without a removed word: the log-probability that words lose when a source word is hidden from every layer.

import { element, readable, tokenText } from '../drawing/dom.js';
import { groupRows } from '../domain/fold.js';
import { sum } from '../domain/math.js';
import { fixed, percent, signed } from '../drawing/numbers.js';
import { axes, placesOfWord, placesToRemove } from '../domain/payload.js';
import { OF_HEADS } from './of_heads.js';
import { say, sayParts } from '../locales/language.js';

const LEAST_HIGH = 1; // nats: the darkest colour, if no word loses more

/** @type {Value} */
export const leaveOneOut = {
  ...OF_HEADS,
  name: 'leave_one_out',
  formerNames: ['without'],
  button: () => say('Remove a word'),
  meaning: () =>
    say(
      'how much log p each word of the translation loses when one source word is hidden from every layer: what it needs, not what one head reads; of these values the one to trust most, by the study',
    ),
  label: () => say('loss'),
  unit: () => say('nat'),
  isOfHeads: false,
  kinds: ['cross'], // whose rows and columns it has
  request: 'leave_one_out',
  doing: () => say('Hiding each source word in turn'),
  title: () => say('Loss without each source word'),
  arcs: () => say('Each word is joined with the word without which it loses most.'),
  factsOf: (state) => [translationWithout(state)].filter(Boolean),
  gridOf,
  sayCell,
  sayRow: (names, loss) =>
    sayParts('{row} changes most without {column}: its log p by {value}', { ...names, value: changeText(loss) }),
  sayColumn: (names, loss) =>
    sayParts('Without {column}, {row} changes most: its log p by {value}', { ...names, value: changeText(loss) }),
};

// A merged word loses what its tokens lose together, and the tokens of a merged source word are hidden together.
/** @type {(state: State) => ValueGrid} */
function gridOf(state) {
  const { rowGroups, columnGroups } = groupRows(state, axes(state.record, 'cross'));
  const lossOf = (row, column) => lossWithout(state.values.leave_one_out, column.places, row.places);
  const values = Float64Array.from(rowGroups.flatMap((row) => columnGroups.map((column) => lossOf(row, column))));
  return {
    rows: rowGroups.length,
    columns: columnGroups.length,
    values,
    status: new Uint8Array(values.length),
    rowGroups,
    columnGroups,
    hidden: null,
    high: values.reduce((most, value) => Math.max(most, value), LEAST_HIGH),
  };
}

// The loss, the probabilities that it comes from, and what the model would write at the word's first token.
/** @type {(state: State, grid: Grid, cell: any) => (Node | string)[]} */
function sayCell(
  { record, values: { leave_one_out: answer } },
  { rowGroups, columnGroups },
  { row, column, number: loss, names },
) {
  const [{ places: steps }, { places: hidden }] = [rowGroups[row], columnGroups[column]];
  const before = sum(steps.map((step) => record.log_probabilities[step]));
  const instead = tokenWithout(answer, hidden, steps[0]);
  const found = {
    ...names,
    value: element('span', { class: 'hl-value' }, fixed(Math.abs(loss))),
    before: percent(Math.exp(before)),
    after: percent(Math.exp(before - loss)),
    other: element('strong', {}, tokenText(instead)),
  };
  const isOther = instead.id !== record.tokens.predicted[steps[0]].id;
  if (loss < 0)
    return isOther
      ? sayParts(
          'Without {column}, {row} gains {value} nat of log p: {before} become {after}; likeliest is {other}',
          found,
        )
      : sayParts(
          'Without {column}, {row} gains {value} nat of log p: {before} become {after}; it stays the likeliest',
          found,
        );
  return isOther
    ? sayParts(
        'Without {column}, {row} loses {value} nat of its log p: {before} become {after}; likeliest is {other}',
        found,
      )
    : sayParts(
        'Without {column}, {row} loses {value} nat of its log p: {before} become {after}; it stays the likeliest',
        found,
      );
}

// A loss as a change, so that a gain has a plus.
const changeText = (loss) => `${signed(-loss)} ${leaveOneOut.unit()}`;

// What the tokens of these steps lose together without these source tokens, in nats.
/** @type {(answer: Answer, places: number[], steps: number[]) => number} */
export function lossWithout({ groups, losses }, places, steps) {
  const found = losses[groupOf(groups, places)];
  return sum(steps.map((step) => found[step]));
}

/** @type {(answer: Answer, places: number[], step: number) => Token} */
export const tokenWithout = ({ groups, likeliest, tokens }, places, step) =>
  tokens[likeliest[groupOf(groups, places)][step]];

const groupOf = (groups, places) =>
  groups.findIndex((group) => group.length === places.length && group[0] === places[0]);

// The places of the source word that is removed, or pinned while losses are chosen; null without one.
/** @type {(state: State) => number[] | null} */
export function removedPlaces({ record, valueName, kind, pin, words, removedAt }) {
  if (removedAt !== null) return placesToRemove(record, removedAt);
  const column = pin?.column ?? null;
  if (valueName !== leaveOneOut.name || kind !== 'cross' || column === null) return null;
  return words ? placesOfWord(record.tokens.source, column) : [column];
}

// What the whole translation is without that source word; empty until it is known.
/** @type {(state: State) => string} */
export function translationWithout(state) {
  const { record, removed } = state;
  const places = removedPlaces(state);
  if (!removed || !places || String(removed.places) !== String(places)) return '';
  const word = readable(places.map((place) => record.tokens.source[place].text).join('')).trim();
  return removed.text === record.text
    ? say('Without “{word}” the translation is the same.', { word })
    : say('Without “{word}” the translation is “{text}”', { word, text: readable(removed.text) });
}
