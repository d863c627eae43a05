// The one state of the viewer, the one function that changes it, and what can be asked of it.
// Views draw from the state and send changes back; nothing else remembers anything.

import { KINDS, isAllowed, matrixOf, axes } from './payload.js';
import { sharpness } from './measures.js';

export const EMPTY = Object.freeze({
  record: null, // the decoded payload
  kind: 'cross',
  layer: 0,
  head: 0, // null: the average over the layer's heads
  lastHead: 0, // the head to come back to from the average
  hover: null, // a spot { row, column, token } of the current matrix; row or column may be null
  pin: null, // the same, kept; `token` says that the spot is a token's row and column, not a cell
  step: 0, // the decoder's step whose next words are listed
  theme: 'light',
});

export function createStore(initial = EMPTY) {
  let state = initial;
  const views = [];
  return {
    get: () => state,
    // A view is called with the new state and the one before.
    subscribe: (view) => views.push(view),
    change(changes) {
      const before = state;
      state = settle({ ...state, ...changes });
      for (const view of views) view(state, before);
    },
  };
}

// Keep every index inside the record, and let the step follow the row in focus.
function settle(state) {
  if (!state.record) return state;
  const { layers, heads, rows, columns } = state.record.attention[state.kind];
  const inside = (spot) => keepInside(spot, rows, columns);
  const settled = {
    ...state,
    layer: clamp(state.layer, layers),
    head: state.head === null ? null : clamp(state.head, heads),
    hover: inside(state.hover),
    pin: inside(state.pin),
    step: clamp(state.step, state.record.tokens.predicted.length),
  };
  const row = focusOf(settled)?.row ?? null;
  return state.kind === 'encoder' || row === null ? settled : { ...settled, step: row };
}

function clamp(value, size) {
  return Math.min(size - 1, Math.max(0, value));
}

function keepInside(spot, rows, columns) {
  if (!spot || (spot.row ?? 0) >= rows || (spot.column ?? 0) >= columns) return null;
  return spot;
}

// What is lit: the spot under the pointer, else the pinned one.
export function focusOf(state) {
  return state.hover ?? state.pin;
}

export function isCell(spot) {
  return Boolean(spot) && !spot.token && spot.row !== null && spot.column !== null;
}

export function sameSpot(one, other) {
  return one?.row === other?.row && one?.column === other?.column && Boolean(one?.token) === Boolean(other?.token);
}

export function selectionChanged(state, before) {
  return ['record', 'kind', 'layer', 'head', 'theme'].some((name) => state[name] !== before[name]);
}

// Changes, for `store.change`.

export function togglePin(state, spot) {
  return { pin: sameSpot(state.pin, spot) ? null : spot };
}

// The decoder and cross-attention have the same rows, so a pinned row stays; other pins have no counterpart.
export function chooseKind(state, kind) {
  if (kind === state.kind) return {};
  const row = kind === 'encoder' || state.kind === 'encoder' ? null : state.pin?.row ?? null;
  return { kind, hover: null, pin: row === null ? null : { row, column: null } };
}

// Left and right run through the heads and the average, which stands after the last head.
export function moveHead(state, distance) {
  const { heads } = state.record.attention[state.kind];
  const place = (state.head ?? heads) + distance;
  const next = Math.min(heads, Math.max(0, place));
  return { head: next === heads ? null : next };
}

export function moveLayer(state, distance) {
  return { layer: state.layer + distance };
}

// The pinned cell moves over the cells that the mask allows.
export function movePin(state, down, right) {
  const { rows, columns } = state.record.attention[state.kind];
  const from = state.pin ?? { row: 0, column: 0 };
  const row = clamp((from.row ?? 0) + (state.pin ? down : 0), rows);
  let column = clamp((from.column ?? 0) + (state.pin ? right : 0), columns);
  while (!isAllowed(state.record, state.kind, row, column)) column -= 1;
  return { pin: { row, column }, hover: null };
}

export function toggleAverage(state) {
  return state.head === null ? { head: state.lastHead } : { head: null, lastHead: state.head };
}

// A new record keeps the selection; the very first one opens on its sharpest cross-attention head.
export function show(state, record) {
  const changes = { record, hover: null, pin: null, step: 0 };
  if (state.record && sameShape(state.record, record)) return changes;
  return { ...changes, kind: 'cross', ...sharpestHead(record, 'cross') };
}

function sameShape(one, other) {
  const sizes = (record) => KINDS.flatMap((kind) => [record.attention[kind].layers, record.attention[kind].heads]);
  return one.model.name === other.model.name && String(sizes(one)) === String(sizes(other));
}

function sharpestHead(record, kind) {
  const { layers, heads } = record.attention[kind];
  const { columns } = axes(record, kind);
  let best = { layer: 0, head: 0, score: -1 };
  for (let layer = 0; layer < layers; layer += 1) {
    for (let head = 0; head < heads; head += 1) {
      const score = sharpness(matrixOf(record, kind, layer, head), columns);
      if (score > best.score) best = { layer, head, score };
    }
  }
  return { layer: best.layer, head: best.head };
}

// Where a token of the strip stands in the current matrix. Target place 0 is the start token, which only reads.
export function spotOfToken(state, side, place) {
  const length = state.record.tokens.predicted.length;
  if (state.kind === 'encoder') return side === 'source' ? { row: place, column: place, token: true } : null;
  if (side === 'source') return state.kind === 'cross' ? { row: null, column: place } : null;
  const row = place === 0 ? null : place - 1;
  const column = state.kind === 'decoder' && place < length ? place : null;
  if (row === null && column === null) return null;
  return { row, column, token: row !== null && column !== null };
}

// The other way: the places in the strip of a row and of a column, null where there is none.
export function placeOfRow(kind, row) {
  if (row === null || row === undefined) return null;
  return kind === 'encoder' ? { side: 'source', place: row } : { side: 'target', place: row + 1 };
}

export function placeOfColumn(kind, column) {
  if (column === null || column === undefined) return null;
  return { side: kind === 'decoder' ? 'target' : 'source', place: column };
}

// The address: #kind=cross&layer=4&head=7&row=3&column=2, counted from 1 as on the screen.

export function toAddress(state) {
  const words = { kind: state.kind, layer: state.layer + 1, head: state.head === null ? 'average' : state.head + 1 };
  if (state.pin && state.pin.row !== null) words.row = state.pin.row + 1;
  if (state.pin && state.pin.column !== null) words.column = state.pin.column + 1;
  return `#${new URLSearchParams(words)}`;
}

export function fromAddress(address) {
  const words = new URLSearchParams(address.replace(/^#/, ''));
  if (!KINDS.includes(words.get('kind'))) return {};
  const index = (name) => (/^[1-9]\d{0,3}$/.test(words.get(name) ?? '') ? Number(words.get(name)) - 1 : null);
  const pin = { row: index('row'), column: index('column') };
  return {
    kind: words.get('kind'),
    layer: index('layer') ?? 0,
    head: words.get('head') === 'average' ? null : index('head') ?? 0,
    pin: pin.row === null && pin.column === null ? null : pin,
  };
}
