// The difference of weights: the heads on screen minus others, or A minus B.

import { foldHeads, subtract } from '../domain/fold.js';
import { chosenHeads, sameHead } from '../domain/heads.js';
import { fixed, forPointer } from '../drawing/numbers.js';
import { OF_HEADS } from './of_heads.js';
import { say, sayParts } from '../locales/language.js';

/** @type {Value} */
export const difference = {
  ...OF_HEADS,
  name: 'difference',
  button: () => say('Compare'),
  meaning: () => say('keep this view and show how the next ones differ from it'),
  label: () => say('difference'),
  text: (number) => (number >= 0 ? `+${fixed(number)}` : fixed(number)),
  isSigned: true,
  canBeShown: (state) => !awaitsSecondHead(state),
  isChosen: ({ reference }) => reference !== null,
  // Choosing it again ends the comparison.
  choose: (state, keep) =>
    state.valueName === difference.name
      ? { valueName: 'weight', reference: null }
      : compareWith(state.reference ?? keep(state)),
  linkOf,
  gridOf: (state, reference) => ({
    ...subtract(foldHeads(state, state.record.attention[state.kind]), foldReference(state, reference)),
    high: 1,
  }),
  hint: (state) =>
    awaitsSecondHead(state)
      ? forPointer(
          say('Now choose the second head: one of the small squares, or an arrow key.'),
          say('Now choose the second head: tap one of the small squares.'),
        )
      : '',
  factsOf,
  sayRow: (names) => sayParts('{row} differs most at {column} {value}', names),
  sayColumn: (names) => sayParts('{column} differs most in {row} {value}', names),
};

/** @type {(reference: Reference) => Changes} */
export const compareWith = (reference) => ({ valueName: difference.name, reference });

// Subtracts the heads of the reference if they are of this kind, otherwise the heads on screen.
/** @type {(state: State, reference: Reference | null) => Grid | null} */
function foldReference(state, reference) {
  if (!reference) return null;
  const { record, heads = null } = reference;
  const chosen = heads?.[0][0] === state.kind ? heads : chosenHeads(state);
  const array = record.attention[state.kind];
  const there = chosen.filter(([, layer, head]) => layer < array.layers && head < array.heads);
  return there.length > 0 ? foldHeads(state, array, { record, heads: there }) : null;
}

/** @type {(state: State, reference: Reference | null) => string[]} */
function factsOf(state, reference) {
  if (awaitsSecondHead(state) || !reference) return [say('choose a second head to compare')];
  const { label: view, own = say('this view') } = reference;
  return [say('each value: {own} minus {view}', { own, view })];
}

// Whether the heads on screen are still the reference itself.
/** @type {(state: State) => boolean} */
function awaitsSecondHead(state) {
  const { valueName, reference, record } = state;
  const { heads } = reference ?? {};
  if (valueName !== difference.name || !heads || !record || reference?.record !== record) return false;
  const shown = chosenHeads(state);
  return shown.length === heads.length && shown.every((one) => heads.some((other) => sameHead(one, other)));
}

// The own translation, or heads of the record on screen or of the model's own. A comparison with another sentence does not
// fit into a link.
/** @type {(state: State) => { [parameter: string]: string } | null} */
function linkOf({ home, record, reference }) {
  if (!reference) return null;
  if (reference.record === home.scored) return { compare: 'reference' };
  if (!reference.heads || (reference.record !== record && reference.record !== home.record)) return null;
  const heads = reference.heads.map(([kind, layer, head]) => `${kind}.${layer + 1}.${head + 1}`).join(',');
  return { compare: heads, ...(reference.record === record ? {} : { compared: 'own' }) };
}
