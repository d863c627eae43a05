// What every value of a cell must fulfil. tests/browser/test_viewer_values.py tests what the page says of each.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { shownGrid } from '../viewer/state/grid.js';
import { KINDS } from '../viewer/domain/payload.js';
import { chooseKind, openView } from '../viewer/state/actions.js';
import { availableValues, chooseValue, nextValue } from '../viewer/state/value_choice.js';
import { fromAddress, isLinkable, toAddress } from '../viewer/state/permalink.js';
import { compareWith } from '../viewer/values/difference.js';
import { sharesOf } from '../viewer/values/norm_share.js';
import { OF_HEADS } from '../viewer/values/of_heads.js';
import { USUAL, VALUES, valueNamed } from '../viewer/values/values.js';
import { opened, record } from './record.mjs';

const OWN = ['name', 'button', 'meaning', 'label', 'gridOf']; // what no value takes from the usual one
const TEXTS = ['button', 'meaning', 'label'];
const FORMER = { without: 'leave_one_out', norm: 'transformed_norm' }; // in links of the release before

// The numbers that a server would bring.
function numbers() {
  const { encoder, decoder, cross } = record.attention;
  const source = record.tokens.source.map((_, place) => [place]);
  return {
    transformed_norm: { encoder, decoder, cross },
    leave_one_out: {
      groups: source,
      losses: source.map(() => record.tokens.predicted.map(() => 0.5)),
      likeliest: [],
      tokens: {},
    },
  };
}

// A state that shows a value, with a cell of cross-attention pinned.
function showing(value) {
  const store = opened();
  store.change({ values: numbers(), ...chooseKind(store.get(), 'cross'), layer: 0, head: 0 });
  store.change({ pin: { row: 1, column: 1 }, ...chooseValue(store.get(), value) });
  if (!value.canBeShown(store.get(), value)) store.change({ head: 1 }); // the second head of a comparison
  return store;
}

test('each value has every field, a name of its own, and names itself where it is shown', () => {
  for (const value of VALUES) {
    assert.deepEqual(Object.keys(value).sort(), [...Object.keys(OF_HEADS), ...OWN].sort(), value.name);
    for (const field of TEXTS) assert.match(value[field](), /\w/);
    assert.match(value.text(0.25), /0\.2500$/);
    assert.ok(value.kinds.length > 0 && value.kinds.every((kind) => KINDS.includes(kind)));
    assert.equal(shownGrid(showing(value).get()).value, value);
  }
  for (const field of ['name', ...TEXTS]) {
    const texts = VALUES.map((value) => (field === 'name' ? value.name : value[field]()));
    assert.equal(new Set(texts).size, VALUES.length, field);
  }
});

test('a button, the key N and a link choose each value', () => {
  for (const value of VALUES) {
    const store = showing(value);
    assert.equal(store.get().valueName, value.name);
    const reached = new Set();
    for (const _ of VALUES) {
      store.change(nextValue(store.get(), true));
      reached.add(store.get().valueName);
    }
    assert.ok(reached.has(value.name), value.name);
    const link = value.linkOf(showing(value).get(), value);
    const opensByName = link.value ?? USUAL.name;
    if (!link.compare) assert.equal(fromAddress(toAddress(showing(value).get()), record).valueName, opensByName);
  }
});

test('links of the release before open the values by their former names', () => {
  for (const [former, name] of Object.entries(FORMER)) {
    assert.equal(valueNamed(former).name, name);
    for (const asked of [`mode=${former}`, `mode=${name}`, `value=${name}`])
      assert.equal(fromAddress(`#v=2&kind=cross&layer=1&head=1&${asked}`, record).valueName, name);
  }
  assert.equal(fromAddress('#kind=cross&mode=constructor', record).valueName, USUAL.name);
});

test('a value whose numbers nobody can bring is not offered', () => {
  const state = opened().get();
  const offered = availableValues(state, false);
  assert.deepEqual(
    offered,
    VALUES.filter(({ request }) => !request),
  );
  assert.deepEqual(availableValues({ ...state, values: numbers() }, false), VALUES);
});

test('choosing a head keeps every value of heads', () => {
  for (const value of VALUES) {
    const store = showing(value);
    store.change({ layer: 1 });
    assert.equal(store.get().valueName, value.isOfHeads ? value.name : USUAL.name);
  }
});

test('a row and a cell keep their name whichever head and value is chosen', () => {
  const { source, read, predicted } = record.tokens;
  const wanted = {
    encoder: source.map(({ text }) => text),
    decoder: predicted.map(({ text }, row) => `${read[row].text} → ${text}`),
  };
  wanted.cross = wanted.decoder;
  for (const value of VALUES) {
    const store = showing(value);
    for (const kind of value.kinds) {
      const { layers, heads } = record.attention[kind];
      for (let place = 0; place < layers * heads; place += 1) {
        const head = { kind, layer: Math.floor(place / heads), head: place % heads, selection: [] };
        store.change({
          ...head,
          valueName: value.name,
          ...alignedBy(-1, store.get().record),
          pin: { row: 1, column: 1 },
        });
        const { rowGroups, columnGroups } = shownGrid(store.get());
        const names = rowGroups.map(({ token, reads }) => (reads ? `${reads.text} → ${token.text}` : token.text));
        assert.deepEqual(names, wanted[kind]);
        assert.deepEqual(store.get().pin, { row: 1, column: 1 });
        assert.equal(store.get().step, kind === 'encoder' ? store.get().step : 1);
        assert.equal(columnGroups[1].token.text, kind === 'decoder' ? read[1].text : source[1].text);
      }
    }
  }
});

// The record with every head of cross-attention aligned to the word just written.
function alignedBy(offset, one) {
  const { cross } = one.measures;
  const role = Object.keys(one.definitions.roles).find((name) => one.definitions.roles[name].measure === 'focus');
  return {
    record: {
      ...one,
      roles: { ...one.roles, cross: one.roles.cross.map((heads) => heads.map(() => role)) },
      measures: {
        ...one.measures,
        cross: { ...cross, focus_offset: cross.focus.map((heads) => heads.map(() => offset)) },
      },
    },
  };
}

test('rows of a share add up to 1, also with hidden columns and merged words', () => {
  for (const value of VALUES.filter(({ isShare }) => isShare)) {
    for (const choices of [{}, { hideSpecials: true }, { words: true }]) {
      const store = showing(value);
      store.change(choices);
      const { rows, columns, values, high } = shownGrid(store.get());
      assert.equal(high, 1);
      for (let row = 0; row < rows; row += 1) {
        const total = values.subarray(row * columns, (row + 1) * columns).reduce((sum, one) => sum + one, 0);
        assert.ok(Math.abs(total - 1) < columns / 65535, `${value.name}: ${total}`); // each code is rounded by half a unit
      }
    }
  }
});

test('shares of norms: each row divided by its sum, and a row of zeros stays zeros', () => {
  const norms = { layers: 1, heads: 1, rows: 2, columns: 4, codes: Float64Array.of(1, 2, 5, 0, 0, 0, 0, 0), scale: 7 };
  const { codes, scale } = sharesOf(norms);
  assert.deepEqual(
    [...codes].map((code) => (code / 65535) * scale),
    [0.125, 0.25, 0.625, 0, 0, 0, 0, 0],
  );
  assert.equal(sharesOf(norms), sharesOf(norms));
});

test('no link holds a comparison with a typed translation that another one has replaced', () => {
  const store = showing(VALUES.at(-1));
  const typed = { ...record, text: 'typed' };
  store.change(openView(store.get(), typed, { type: 'reference', label: '' }));
  store.change(compareWith({ label: '', record: typed }));
  assert.equal(isLinkable(store.get()), false);
});

test('choosing the difference again ends the comparison', () => {
  const store = showing(VALUES.at(-1));
  store.change(compareWith(store.get().reference));
  store.change(chooseValue(store.get(), VALUES.at(-1)));
  assert.deepEqual([store.get().valueName, store.get().reference], [USUAL.name, null]);
});
