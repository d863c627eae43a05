// How the viewer names kinds, heads, matrices and views.

import { isSubtracted, shownValue, sideOf } from './comparison.js';
import { isTaught, taughtName } from '../domain/roles.js';
import { headsOfKind } from '../domain/heads.js';
import { fixed } from '../drawing/numbers.js';
import { say, sayCount } from '../locales/language.js';

const KIND_NAMES = { encoder: () => say('Encoder'), decoder: () => say('Decoder'), cross: () => say('Cross') };

// How the natural logarithms of the page belong together.
export const logP = () =>
  say(
    'log p is the natural logarithm of a probability, in nats: 1 nat is a factor of {e}. The score of a hypothesis is its log p divided by ((5 + tokens) / 6) ^ length penalty.',
    { e: fixed(Math.E, 2) },
  );

/** @type {(kind: Kind) => string} */
export const kindName = (kind) => KIND_NAMES[kind]();

// What the matrix shows: its heads, unless its value is not about heads.
const titleOf = (state) => shownValue(state).title?.() ?? titleOfHeads(state);

// The heads on screen: "Cross · layer 3 · head 6". The head that was taught to align is called so.
/** @type {(state: State) => string} */
export function titleOfHeads(state) {
  const { kind, layer, head, selection, reduce } = state;
  const names = { kind: kindName(kind), layer: layer + 1 };
  const isMax = reduce === 'max';
  if (selection.length > 0) return titleOfSelection(state, { ...names, count: selection.length }, isMax);
  if (head === null && isMax) return say('{kind} · layer {layer} · largest of its heads', names);
  if (head === null) return say('{kind} · layer {layer} · average of its heads', names);
  const one = say('{kind} · layer {layer} · head {head}', { ...names, head: head + 1 });
  return state.record && isTaught(state.record, kind, layer, head) ? `${one} · ${taughtName()}` : one;
}

function titleOfSelection(state, names, isMax) {
  const isAll = state.record && names.count === headsOfKind(state).length;
  if (isAll && isMax) return say('{kind} · largest of all {count} heads', names);
  if (isAll) return say('{kind} · average of all {count} heads', names);
  return isMax ? say('{kind} · largest of {count} heads', names) : say('{kind} · average of {count} heads', names);
}

// The name of one head: "layer 3, head 6".
/** @type {(layer: number, head: number) => string} */
export const headName = (layer, head) => say('layer {layer}, head {head}', { layer: layer + 1, head: head + 1 });

// The name of a head of any kind: "Cross, layer 3, head 6".
/** @type {(head: Head) => string} */
export const fullHeadName = ([kind, layer, head]) => `${kindName(kind)}, ${headName(layer, head)}`;

// The title with the side of the view, or the difference of both sides: "A − B · Cross · layer 3 · head 6".
/** @type {(state: State) => string} */
export function titleOfMatrix(state) {
  const side = isSubtracted(state) ? 'A − B' : sideOf(state);
  return side === '' ? titleOf(state) : `${side} · ${titleOf(state)}`;
}

// How many heads are muted or give something else, and in which row: "2 heads muted in row 3".
/** @type {(heads: readonly Head[], ablation: Ablation) => string} */
export function changedHeads(heads, { baseline, row }) {
  const of = GIVEN[baseline];
  return row === null ? of.everywhere(heads.length) : of.inRow(heads.length, { row: row + 1 });
}

// What is on screen in place of the model's own translation; empty for that translation. An exported file may hold a
// translation with muted heads as its only one.
/** @type {(state: State) => string} */
export function labelOf({ shown, record: { muted } }) {
  if (shown) return shown.label;
  return muted ? say('with {changed}', { changed: changedHeads(muted.heads, muted.ablation) }) : '';
}

const GIVEN = {
  zero: {
    everywhere: (count) => sayCount(count, '{count} head muted', '{count} heads muted'),
    inRow: (count, row) => sayCount(count, '{count} head muted in row {row}', '{count} heads muted in row {row}', row),
  },
  mean: {
    everywhere: (count) => sayCount(count, '{count} head set to the mean', '{count} heads set to the mean'),
    inRow: (count, row) =>
      sayCount(count, '{count} head set to the mean in row {row}', '{count} heads set to the mean in row {row}', row),
  },
  sentence: {
    everywhere: (count) => sayCount(count, '{count} head patched', '{count} heads patched'),
    inRow: (count, row) =>
      sayCount(count, '{count} head patched in row {row}', '{count} heads patched in row {row}', row),
  },
};

// Short names of heads, "3.6, 4.1": layer and head, counted from 1.
/** @type {(heads: readonly Head[]) => string} */
export const listOf = (heads) => heads.map(([, layer, head]) => `${layer + 1}.${head + 1}`).join(', ');
