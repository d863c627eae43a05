// The difference of weights: the heads on screen minus others, or A minus B.

import { foldHeads, subtract } from '../domain/fold.js';
import { chosenHeads, sameHead } from '../domain/heads.js';
import { fixed, forPointer } from '../drawing/numbers.js';
import { OF_HEADS } from './of_heads.js';
import { say, sayParts } from '../locales/language.js';

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
    state.mode === difference.name ? { mode: 'weight', reference: null } : compareWith(state.reference ?? keep(state)),
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

export function compareWith(reference) {
  return { mode: difference.name, reference };
}

// A reference with heads of this kind is compared by those heads, otherwise by the heads on screen.
function foldReference(state, { record, heads = null }) {
  const chosen = heads?.[0][0] === state.kind ? heads : chosenHeads(state);
  const array = record.attention[state.kind];
  const there = chosen.filter(([, layer, head]) => layer < array.layers && head < array.heads);
  return there.length > 0 ? foldHeads(state, array, { record, heads: there }) : null;
}

function factsOf(state, reference) {
  if (awaitsSecondHead(state)) return [say('choose a second head to compare')];
  const { label: view, own = say('this view') } = reference;
  return [say('each value: {own} minus {view}', { own, view })];
}

// Whether the heads on screen are still the reference itself.
function awaitsSecondHead(state) {
  const { mode, reference, record } = state;
  if (mode !== difference.name || !reference?.heads || reference.record !== record) return false;
  const shown = chosenHeads(state);
  return (
    shown.length === reference.heads.length &&
    shown.every((one) => reference.heads.some((other) => sameHead(one, other)))
  );
}

// The own translation, or heads of the record on screen or of the model's own. A comparison with another sentence does not
// fit into a link.
function linkOf({ home, record, reference }) {
  if (reference.record === home.scored) return { compare: 'reference' };
  if (reference.record !== record && reference.record !== home.record) return null;
  const heads = reference.heads.map(([kind, layer, head]) => `${kind}.${layer + 1}.${head + 1}`).join(',');
  return { compare: heads, ...(reference.record === record ? {} : { compared: 'own' }) };
}
