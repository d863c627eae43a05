// How kinds, heads and values are called wherever the viewer writes about them.

import { effectiveMode } from './store.js';

const KIND_NAMES = { encoder: 'Encoder', decoder: 'Decoder', cross: 'Cross' };

export function kindName(kind) {
  return KIND_NAMES[kind];
}

// What the matrix shows: "Cross · layer 3 · head 6".
export function titleOf(state) {
  const { kind, layer, head, selection, reduce } = state;
  if (effectiveMode(state) === 'rollout') return `${kindName(kind)} · layers 1 to ${layer + 1} · rollout`;
  const several = reduce === 'max' ? 'largest' : 'average';
  if (selection.length > 0) return `${kindName(kind)} · ${several} of ${selection.length} heads`;
  return `${kindName(kind)} · layer ${layer + 1} · ${head === null ? `${several} of its heads` : `head ${head + 1}`}`;
}

// Heads in short, "3.6, 4.1": layer and head, counted from 1.
export function listOf(heads) {
  return heads.map(([, layer, head]) => `${layer + 1}.${head + 1}`).join(', ');
}

export function fourDigits(value) {
  return value.toFixed(4).replace('-', '−');
}

// A value as the mode has it: differences carry their sign, norms and rollouts their name.
export function valueText(mode, value) {
  if (mode === 'difference') return value >= 0 ? `+${fourDigits(value)}` : fourDigits(value);
  return fourDigits(value);
}
