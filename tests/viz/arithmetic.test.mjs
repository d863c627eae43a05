// Run by test_viewer.py in a folder with the viewer, one payload, and the weights that it was made from.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { lamp, toOklab } from './viewer/colour.js';
import { confidence, entropy, isPunctuation, massOn, rankInRow, rowOf, sharpness } from './viewer/measures.js';
import { axes, decode, isAllowed, matrixOf, shrink } from './viewer/payload.js';
import {
  EMPTY, chooseKind, createStore, fromAddress, moveHead, moveLayer, movePin, show, spotOfToken, toAddress, toggleAverage, togglePin,
} from './viewer/state.js';

const record = await decode(readFileSync('payload.json', 'utf8'));
const weights = JSON.parse(readFileSync('weights.json', 'utf8'));
const opened = () => {
  const store = createStore(EMPTY);
  store.change(show(store.get(), record));
  return store;
};

test('decoding gives every weight to four digits', () => {
  for (const kind of ['encoder', 'decoder', 'cross']) {
    weights[kind].forEach((heads, layer) =>
      heads.forEach((rows, head) => {
        const { values, columns } = matrixOf(record, kind, layer, head);
        rows.forEach((row, r) => row.forEach((weight, c) => assert.equal(values[r * columns + c].toFixed(4), weight.toFixed(4))));
      }),
    );
  }
});

test('the average is the mean over the heads', () => {
  const { values } = matrixOf(record, 'cross', 1, null);
  const mean = weights.cross[1].reduce((sum, rows) => sum + rows[0][1], 0) / 3;
  assert.ok(Math.abs(values[1] - mean) < 2e-5);
});

test('another version is refused', async () => {
  await assert.rejects(decode('{"version": 1}'), /version 2 of the data, not 1/);
});

test('only the decoder is masked', () => {
  assert.ok(!isAllowed(record, 'decoder', 0, 1));
  assert.ok(isAllowed(record, 'decoder', 1, 1));
  assert.ok(isAllowed(record, 'cross', 0, 3));
});

test('rows of the decoder read one token and predict another', () => {
  const { rows, reads, columns } = axes(record, 'decoder');
  assert.equal(reads[0].text, '<s>');
  assert.equal(rows[0].text, 'the');
  assert.deepEqual(columns, reads);
});

test('measures of a small matrix', () => {
  const matrix = { rows: 2, columns: 3, values: Float64Array.from([0.5, 0.5, 0, 0, 0.25, 0.75]) };
  const tokens = [{ text: 'a' }, { text: '.' }, { text: '</s>', special: true }];
  assert.equal(entropy(rowOf(matrix, 0)), 1);
  assert.equal(rankInRow(matrix, 1, 1), 2);
  assert.equal(rankInRow(matrix, 0, 1), 1);
  assert.equal(confidence(matrix, tokens), (0.5 + 0.25) / 2);
  assert.equal(massOn(matrix, tokens, isPunctuation), (0.5 + 0.25) / 2);
  assert.equal(sharpness(matrix, tokens), 0.25);
});

test('a thumbnail keeps the largest weight of each block', () => {
  const values = new Float64Array(100);
  values[37] = 0.9;
  const small = shrink({ rows: 10, columns: 10, values }, 5);
  assert.equal(small.values[1 * 5 + 3], 0.9);
  assert.equal(shrink({ rows: 1, columns: 1, values: Float64Array.of(1) }, 48).values[0], 1);
});

test('the lamp is monotone in lightness and even in steps', () => {
  for (const theme of ['light', 'dark']) {
    const colours = lamp(theme).map(toOklab);
    const sign = theme === 'light' ? -1 : 1;
    const steps = colours.slice(1).map((colour, index) => Math.hypot(...colour.map((value, axis) => value - colours[index][axis])));
    colours.slice(1).forEach((colour, index) => assert.ok(sign * (colour[0] - colours[index][0]) >= -0.002));
    const even = steps.reduce((sum, step) => sum + step, 0) / steps.length;
    steps.forEach((step) => assert.ok(step < 2.5 * even, `${theme} ${step} ${even}`));
  }
});

test('moves stay inside the model', () => {
  const store = opened();
  for (let times = 0; times < 9; times += 1) store.change(moveLayer(store.get(), 1));
  assert.equal(store.get().layer, 1);
  for (let times = 0; times < 9; times += 1) store.change(moveHead(store.get(), 1));
  assert.equal(store.get().head, null);
  store.change(moveHead(store.get(), -1));
  assert.equal(store.get().head, 2);
  store.change(toggleAverage(store.get()));
  store.change(toggleAverage(store.get()));
  assert.equal(store.get().head, 2);
});

test('a pin moves over allowed cells, follows its row between kinds, and leaves', () => {
  const store = opened();
  store.change(chooseKind(store.get(), 'decoder'));
  store.change(movePin(store.get(), 0, 0));
  store.change(movePin(store.get(), 0, 1));
  assert.deepEqual(store.get().pin, { row: 0, column: 0 });
  store.change(movePin(store.get(), 1, 0));
  store.change(movePin(store.get(), 0, 1));
  assert.deepEqual(store.get().pin, { row: 1, column: 1 });
  assert.equal(store.get().step, 1);
  store.change(chooseKind(store.get(), 'cross'));
  assert.deepEqual(store.get().pin, { row: 1, column: null });
  store.change(togglePin(store.get(), { row: 1, column: null }));
  assert.equal(store.get().pin, null);
});

test('a token of the strip knows its row and column', () => {
  const at = (kind, side, place) => spotOfToken({ record, kind }, side, place);
  assert.deepEqual(at('encoder', 'source', 2), { row: 2, column: 2, token: true });
  assert.deepEqual(at('cross', 'source', 2), { row: null, column: 2 });
  assert.deepEqual(at('cross', 'target', 2), { row: 1, column: null, token: false });
  assert.deepEqual(at('decoder', 'target', 2), { row: 1, column: 2, token: true });
  assert.equal(at('cross', 'target', 0), null);
});

test('the address and the state say the same', () => {
  const store = opened();
  const state = { kind: 'decoder', layer: 1, head: null, pin: { row: 2, column: 1 } };
  store.change(state);
  assert.deepEqual(fromAddress(toAddress(store.get())), state);
  store.change(fromAddress('#kind=encoder&layer=99&head=77&row=999'));
  assert.equal(store.get().layer, 1);
  assert.equal(store.get().pin, null);
  assert.deepEqual(fromAddress('#kind=<script>'), {});
});
