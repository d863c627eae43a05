import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { contrast, diverging, lamp, palette, toOklab } from '../viewer/drawing/colormap.js';
import { entropy, rankOf, strongest } from '../viewer/domain/math.js';
import {
  axes,
  combine,
  decode,
  isAllowed,
  isOfLetters,
  matrixOf,
  shrink,
  unpackKinds,
} from '../viewer/domain/payload.js';
import { record, weights } from './record.mjs';

test('decoding gives every weight to four digits', () => {
  for (const kind of ['encoder', 'decoder', 'cross']) {
    weights[kind].forEach((heads, layer) =>
      heads.forEach((rows, head) => {
        const { values, columns } = matrixOf(record, kind, layer, head);
        rows.forEach((row, r) =>
          row.forEach((weight, c) => assert.equal(values[r * columns + c].toFixed(4), weight.toFixed(4))),
        );
      }),
    );
  }
});

test('the average is the mean over the heads', () => {
  const { values } = matrixOf(record, 'cross', 1, null);
  const mean = weights.cross[1].reduce((sum, rows) => sum + rows[0][1], 0) / 3;
  assert.ok(Math.abs(values[1] - mean) < 2e-5);
});

test('the largest of the heads is taken cell by cell', () => {
  const { values } = combine(
    record.attention.cross,
    [
      [0, 0],
      [1, 2],
    ],
    'max',
  );
  const most = Math.max(weights.cross[0][0][0][1], weights.cross[1][2][0][1]);
  assert.ok(Math.abs(values[1] - most) < 2e-5);
});

test('a packed value is its code times the scale', () => {
  const array = { heads: 1, rows: 1, columns: 2, codes: Uint16Array.of(65535, 32768), scale: 3 };
  const { values } = combine(array, [[0, 0]]);
  assert.equal(values[0], 3);
  assert.ok(Math.abs(values[1] - 1.5) < 1e-4);
});

test('larger values keep four digits', async () => {
  const values = [23.4567, 0, 0.0001, 7.12345];
  const codes = Uint32Array.from(values, (value) => Math.round(value / 1e-4)); // this machine is little-endian
  const stream = new Blob([codes]).stream().pipeThrough(new CompressionStream('deflate'));
  const data = Buffer.from(await new Response(stream).arrayBuffer()).toString('base64');
  const packed = { shape: [1, 1, 2, 2], data, unit: 1e-4, scale: 23.4567 };
  const { cross } = await unpackKinds({ encoder: packed, decoder: packed, cross: packed });
  const shown = [...combine(cross, [[0, 0]]).values].map((value) => value.toFixed(4));
  assert.deepEqual(shown, ['23.4567', '0.0000', '0.0001', '7.1235']);
});

test('another version is rejected', async () => {
  await assert.rejects(decode({ version: 1 }), /version 3 of the data, not 1/);
});

test('a payload of release 0.2 says how many tokens were forced under another name', async () => {
  const { n_forced: count, ...others } = JSON.parse(readFileSync('payload.json', 'utf8'));
  const former = await decode({ ...others, n_prefix: count + 1 });
  assert.equal(former.n_forced, count + 1);
  assert.ok(!('n_prefix' in former));
});

test('a payload of release 0.2 says what muted heads give under another name', async () => {
  const payload = JSON.parse(readFileSync('payload.json', 'utf8'));
  const ablation = { baseline: 'mean', sentence: '', row: 1 };
  const muted = { heads: [['cross', 0, 1]], instead: ablation };
  assert.deepEqual((await decode({ ...payload, muted })).muted.ablation, ablation);
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

test('numbers about a row', () => {
  assert.equal(entropy([0.5, 0.5, 0]), 1);
  assert.equal(entropy([1, 0]), 0);
  assert.equal(rankOf([0, 0.25, 0.75], 1), 2);
  assert.equal(rankOf([0.5, 0.5], 1), 1);
  assert.equal(strongest([0.1, 0.7, 0.2]), 1);
});

test('a thumbnail keeps the largest weight of each block', () => {
  const values = new Float64Array(100);
  values[37] = 0.9;
  const small = shrink({ rows: 10, columns: 10, values }, 5);
  assert.equal(small.values[1 * 5 + 3], 0.9);
  assert.equal(shrink({ rows: 1, columns: 1, values: Float64Array.of(1) }, 48).values[0], 1);
});

test('the lamp is monotone in lightness and has even steps', () => {
  for (const theme of ['light', 'dark']) {
    const colours = lamp(theme).map(toOklab);
    const sign = theme === 'light' ? -1 : 1;
    const steps = colours
      .slice(1)
      .map((colour, index) => Math.hypot(...colour.map((value, axis) => value - colours[index][axis])));
    colours.slice(1).forEach((colour, index) => assert.ok(sign * (colour[0] - colours[index][0]) >= -0.002));
    const even = steps.reduce((sum, step) => sum + step, 0) / steps.length;
    steps.forEach((step) => assert.ok(step < 2.5 * even, `${theme} ${step} ${even}`));
  }
});

test('the diverging map has the panel colour in the middle and gets darker or lighter to both sides', () => {
  for (const [theme, panel] of [
    ['light', [255, 255, 255]],
    ['dark', [26, 25, 23]],
  ]) {
    const colours = diverging(theme);
    assert.equal(colours.length, 256);
    assert.deepEqual(colours[127], panel);
    assert.deepEqual(colours[128], panel);
    const sign = theme === 'light' ? -1 : 1;
    for (const half of [colours.slice(0, 128).reverse(), colours.slice(128)]) {
      const lightness = half.map((colour) => toOklab(colour)[0]);
      lightness
        .slice(1)
        .forEach((value, step) => assert.ok(sign * (value - lightness[step]) >= -0.004, `${theme} ${step}`));
    }
  }
});

test('the text of a value is readable on its colour', () => {
  for (const theme of ['light', 'dark']) {
    for (const map of ['lamp', 'diverging']) {
      const { bytes, ink } = palette(theme, map);
      bytes.forEach((colour, step) => {
        const letters = ink[step] === '#ffffff' ? [255, 255, 255] : [28, 27, 25];
        assert.ok(contrast(colour, letters) >= 4.1, `${theme} ${map} ${step} ${contrast(colour, letters)}`);
      });
    }
  }
});

test('tokens of one character that spaces separate are words, not letters', () => {
  const tokens = (texts, wordOf) => texts.map((text, place) => ({ text, special: false, word: wordOf(place) }));
  const letters = tokens(['l', 'a', 'm', 'p'], () => 0);
  const atoms = tokens(['C', 'C', 'O'], (place) => place);
  assert.ok(isOfLetters({ tokens: { source: letters, predicted: letters } }));
  assert.ok(!isOfLetters({ tokens: { source: atoms, predicted: atoms } }));
  assert.ok(isOfLetters({ tokens: { source: letters.slice(0, 1), predicted: letters } }));
});
