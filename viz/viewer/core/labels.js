// How the viewer writes numbers and the names of kinds and heads.

import { effectiveMode, isSubtracted, sideOf } from './instruments/comparison.js';
import { TAUGHT, isTaught } from './measures.js';
import { headsOfKind } from './store.js';

const KIND_NAMES = { encoder: 'Encoder', decoder: 'Decoder', cross: 'Cross' };

// How the natural logarithms of the page belong together.
export const LOG_P =
  'log p is the natural logarithm of a probability, in nats: 1 nat is a factor of 2.72. The score of a hypothesis is its log p divided by the length penalty.';

// A text for people with a mouse, or the one for people who touch the screen.
export function forPointer(mouse, touch) {
  return typeof matchMedia === 'function' && matchMedia('(hover: none)').matches ? touch : mouse;
}

export function fixed(value, digits = 4) {
  return value.toFixed(digits).replace('-', '−');
}

// Always with a sign, except for a value that rounds to 0.
export function signed(value, digits = 4) {
  const text = fixed(Math.abs(value), digits);
  if (Number(text) === 0) return text;
  return (value < 0 ? '−' : '+') + text;
}

// A value of the matrix; only differences have a plus sign.
export function valueText(mode, value) {
  return mode === 'difference' && value >= 0 ? `+${fixed(value)}` : fixed(value);
}

export function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

export function kindName(kind) {
  return KIND_NAMES[kind];
}

// What the matrix shows: "Cross · layer 3 · head 6". The head that was taught to align is called so.
export function titleOf(state) {
  const { kind, layer, head, selection, reduce } = state;
  if (effectiveMode(state) === 'rollout') return `${kindName(kind)} · layers 1 to ${layer + 1} · rollout`;
  const several = reduce === 'max' ? 'largest' : 'average';
  const all = state.record && selection.length === headsOfKind(state).length ? 'all ' : '';
  if (selection.length > 0) return `${kindName(kind)} · ${several} of ${all}${selection.length} heads`;
  const line = `${kindName(kind)} · layer ${layer + 1} · `;
  if (head === null) return `${line}${several} of its heads`;
  return `${line}head ${head + 1}${state.record && isTaught(state.record, kind, layer, head) ? ` · ${TAUGHT}` : ''}`;
}

// The same with the side of the view, or the difference of both sides: "A − B · Cross · layer 3 · head 6".
export function titleOfMatrix(state) {
  const side = isSubtracted(state) ? 'A − B' : sideOf(state);
  return side === '' ? titleOf(state) : `${side} · ${titleOf(state)}`;
}

// The muted heads, or those that give something else.
export function changedHeads(heads, { baseline, row }) {
  const given = { zero: 'muted', mean: 'set to the mean', sentence: 'patched' }[baseline];
  return `${plural(heads.length, 'head')} ${given}${row === null ? '' : ` in row ${row + 1}`}`;
}

// Short names of heads, "3.6, 4.1": layer and head, counted from 1.
export function listOf(heads) {
  return heads.map(([, layer, head]) => `${layer + 1}.${head + 1}`).join(', ');
}
