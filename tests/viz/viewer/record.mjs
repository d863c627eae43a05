// The payload that test_viewer.py wrote, the weights that it was made from, and a small record.

import { readFileSync } from 'node:fs';

import { decode } from '../viewer/domain/payload.js';
import { showRecord } from '../viewer/state/actions.js';
import { EMPTY, createStore } from '../viewer/state/store.js';

export const record = await decode(JSON.parse(readFileSync('payload.json', 'utf8')));
export const weights = JSON.parse(readFileSync('weights.json', 'utf8'));

export function opened(one = record) {
  const store = createStore(EMPTY);
  store.change(showRecord(store.get(), one));
  return store;
}

const SCALE = 65535;

// A record of one layer whose cross-attention has these heads, each a list of rows of weights.
export function recordOf(source, predicted, heads) {
  const rows = predicted.length;
  const array = (matrices, width) => ({
    layers: 1,
    heads: matrices.length,
    rows: matrices[0].length,
    columns: width,
    codes: Uint16Array.from(matrices.flat(2), (weight) => Math.round(weight * SCALE)),
    scale: 1,
  });
  const even = (size) => [Array.from({ length: size }, () => Array(size).fill(1 / size))];
  const causal = [
    Array.from({ length: rows }, (_, row) =>
      Array.from({ length: rows }, (__, column) => (column <= row ? 1 / (row + 1) : 0)),
    ),
  ];
  const read = [token('<s>', null), ...predicted.slice(0, -1)];
  return {
    model: { name: 'small', title: 'Small' },
    source_text: '',
    text: '',
    tokens: { source, read, predicted },
    masks: { encoder: 'full', decoder: 'causal', cross: 'full' },
    attention: {
      encoder: array(even(source.length), source.length),
      decoder: array(causal, rows),
      cross: array(heads, source.length),
    },
    definitions: { roles: { mixed: { measure: null } } },
    roles: { cross: [heads.map(() => 'mixed')] },
    measures: { cross: { focus: [heads.map(() => 0)] } },
  };
}

export function token(text, word) {
  return { text, word, special: word === null };
}
