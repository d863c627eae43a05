// The routes of a word as points and lines.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { pathsOf, placesOf, through } from '../viewer/instruments/route_picture.js';

const CONNECTIONS = [
  { kind: 'cross', layer: 0, row: 1, column: null, head: null, flow: 0.6 },
  { kind: 'cross', layer: 0, row: 1, column: 2, head: 3, flow: 0.4 },
  { kind: 'decoder', layer: 0, row: 1, column: 1, head: null, flow: 0.57 },
  { kind: 'decoder', layer: 0, row: 1, column: 0, head: 1, flow: 0.03 },
  { kind: 'encoder', layer: 0, row: 2, column: 2, head: null, flow: 0.4 },
];

test('a path leads from what is read to what reads it', () => {
  const paths = pathsOf({ connections: CONNECTIONS }, 0.03, 1);
  assert.deepEqual(
    paths.map(({ from, to }) => [from, to]),
    [
      ['decoder 1 1', 'decoder 2 1'],
      ['encoder 1 2', 'decoder 2 1'],
      ['decoder 0 1', 'decoder 1 1'],
      ['decoder 0 0', 'decoder 1 1'],
      ['encoder 0 2', 'encoder 1 2'],
    ],
  );
});

test('only what carries enough is drawn, and only the places that it touches', () => {
  const paths = pathsOf({ connections: CONNECTIONS }, 0.04, 1);
  assert.equal(paths.length, 4);
  assert.deepEqual(placesOf(paths), { encoder: [2], decoder: [1] });
});

test('a line lights what reaches it and where it leads', () => {
  const paths = pathsOf({ connections: CONNECTIONS }, 0, 1);
  const [kept, crossed, , other, encoder] = paths;
  assert.deepEqual(through(paths, encoder), new Set([encoder, crossed]));
  assert.deepEqual(through(paths, other), new Set([other, kept]));
});
