import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FORBIDDEN, PALED, SHOWN, UNMATCHED } from '../viewer/domain/fold.js';
import { gridFocus, movePin, shares, shownGrid, spotAt } from '../viewer/state/grid.js';
import { NO_SIDE_B, whySeparate } from '../viewer/state/comparison.js';
import { matchInOrder, matchWithReplaced } from '../viewer/domain/math.js';
import { chooseHead, chooseKind, toggleAverage } from '../viewer/state/actions.js';
import { difference } from '../viewer/values/difference.js';
import { weight } from '../viewer/values/weight.js';
import { createBesideView, createStoreOfB, stateOfB } from '../viewer/state/sides.js';
import { opened, recordOf, token } from './record.mjs';

const END = token('</s>', null);
const SOURCE = [token('Hünd', 0), token('chen', 0), token('da', 1), END];
const TARGET = [token('pup', 0), token('py', 0), END];
const FIRST = [
  [0.25, 0.25, 0.25, 0.25],
  [0.5, 0.0, 0.25, 0.25],
  [0.0, 0.0, 0.0, 1.0],
];
const SECOND = [
  [1, 0, 0, 0],
  [0, 1, 0, 0],
  [0, 0, 1, 0],
];

function grid(changes, record = recordOf(SOURCE, TARGET, [FIRST, SECOND])) {
  const store = opened(record);
  store.change({ head: 0, ...changes });
  return shownGrid(store.get());
}

function near(values, expected) {
  assert.equal(values.length, expected.length);
  expected.forEach((value, cell) =>
    assert.ok(Math.abs(values[cell] - value) < 1e-4, `${cell}: ${values[cell]}, not ${value}`),
  );
}

test('without choices the grid is the matrix', () => {
  const { values, status, hidden } = grid({});
  near(values, FIRST.flat());
  assert.ok(status.every((one) => one === SHOWN));
  assert.equal(hidden, null);
});

test('the largest of several heads is taken after merging and renormalising', () => {
  const all = { head: null, reduce: 'max' };
  near(grid({ ...all, words: true }).values, [1, 0.25, 0.25, 0, 1, 1]);
  const { values, hidden } = grid({ ...all, words: true, hideSpecials: true });
  near(values, [1, 1 / 3]);
  near(hidden, [0.25]);
});

test('merged words sum their keys and average their queries', () => {
  const { rows, columns, values, rowGroups, columnGroups } = grid({ words: true });
  assert.deepEqual([rows, columns], [2, 3]);
  near(values, [0.5, 0.25, 0.25, 0, 0, 1]);
  assert.deepEqual(
    columnGroups.map((group) => group.token.text),
    ['Hündchen', 'da', '</s>'],
  );
  assert.deepEqual(
    rowGroups.map((group) => group.token.text),
    ['puppy', '</s>'],
  );
  assert.deepEqual(
    rowGroups.map((group) => group.reads.text),
    ['<s>', 'puppy'],
  );
});

test('hidden specials scale up the rest, and their share is kept', () => {
  const { rows, values, hidden } = grid({ hideSpecials: true });
  assert.equal(rows, 2);
  near(values, [1 / 3, 1 / 3, 1 / 3, 2 / 3, 0, 1 / 3]);
  near(hidden, [0.25, 0.25]);
});

test('a row with all its weight on hidden tokens stays empty', () => {
  const { values, hidden, columns, status } = grid(chooseKindOf('decoder', { hideSpecials: true }));
  near(values.subarray(0, columns), Array(columns).fill(0));
  assert.equal(hidden[0], 1);
  assert.equal(status[columns + 1], FORBIDDEN);
});

function chooseKindOf(kind, changes) {
  return { kind, layer: 0, head: 0, ...changes };
}

test('an unknown word is not a hidden special', () => {
  const record = recordOf([{ ...token('Xyz', 0), special: true }, END], [END], [[[0.5, 0.5]]]);
  assert.equal(grid({ hideSpecials: true }, record).columns, 1);
});

test('the threshold makes all but the largest cells pale', () => {
  assert.deepEqual(
    [...grid({ threshold: 0.75 }).status],
    [SHOWN, SHOWN, SHOWN, PALED, SHOWN, PALED, SHOWN, PALED, PALED, PALED, PALED, SHOWN],
  );
  near(grid({ threshold: 0.5 }).values, FIRST.flat());
});

test('the average and the largest of heads', () => {
  near(grid({ head: null }).values.subarray(0, 4), [0.625, 0.125, 0.125, 0.125]);
  near(grid({ head: null, reduce: 'max' }).values.subarray(0, 4), [1, 0.25, 0.25, 0.25]);
  const selection = [
    ['cross', 0, 0],
    ['cross', 0, 1],
  ];
  near(grid({ selection }).values.subarray(4, 8), [0.25, 0.5, 0.125, 0.125]);
});

test('norms have their own arrays; without them, weights are shown', () => {
  const array = { layers: 1, heads: 1, rows: 3, columns: 4, codes: new Uint16Array(12).fill(65535), scale: 2.5 };
  assert.equal(grid({ valueName: 'transformed_norm' }).value, weight);
  const norm = grid({
    valueName: 'transformed_norm',
    values: { transformed_norm: { cross: array } },
    hideSpecials: true,
  });
  near(norm.values.subarray(0, 3), [2.5, 2.5, 2.5]);
  near(norm.hidden, [0.25, 0.25]);
  assert.equal(norm.high, 2.5);
});

test('a difference is taken where both have the row and the column', () => {
  const record = recordOf(SOURCE, TARGET, [FIRST, SECOND]);
  const other = recordOf(SOURCE, [token('a', 0), token('cub', 1), token('py', 1), END], [[SECOND[0], ...SECOND]]);
  const { values, status, columns } = grid(
    { valueName: 'difference', reference: { label: 'x', record: other } },
    record,
  );
  assert.ok([...status.subarray(0, columns)].every((one) => one === UNMATCHED));
  near(values.subarray(columns, 2 * columns), [0.5, -1, 0.25, 0.25]);
});

test('a reference with its own heads is compared with those', () => {
  const record = recordOf(SOURCE, TARGET, [FIRST, SECOND]);
  const reference = { label: 'x', record, heads: [['cross', 0, 1]] };
  near(grid({ valueName: 'difference', reference }, record).values.subarray(0, 4), [-0.75, 0.25, 0.25, 0.25]);
  const own = grid({ head: 1 }, record).values;
  near(grid({ head: 1, valueName: 'difference', reference }, record).values, own); // a second head is not chosen yet
});

test('positions in the colour map: shared, by row, and around the middle', () => {
  near(shares(grid({}), 1, 'shared'), [0.5, 0, 0.25, 0.25]);
  near(shares(grid({}), 1, 'row'), [1, 0, 0.5, 0.5]);
  const found = { value: difference, rows: 1, columns: 2, values: Float64Array.of(-0.5, 0.25), high: 1 };
  near(shares(found, 0, 'shared'), [0.25, 0.625]);
  near(shares(found, 0, 'row'), [0, 0.75]);
});

test('the longest common subsequence of names is matched', () => {
  assert.deepEqual(matchInOrder([...'abcd'], [...'xbyd']), [null, 1, null, 3]);
  assert.deepEqual(matchInOrder([...'ab'], []), [null, null]);
  assert.deepEqual(matchInOrder([...'aa'], [...'aaa']), [0, 1]);
});

test('of two equal names the one at the nearer place is matched, but never at the cost of another match', () => {
  assert.deepEqual(matchInOrder([...'xa'], [...'aa']), [null, 1]);
  assert.deepEqual(matchInOrder([...'aa'], [...'xa']), [null, 1]);
  assert.deepEqual(matchInOrder([...'the dog sees the'], [...'a cat sees the']).slice(-4), [10, 11, 12, 13]);
  assert.deepEqual(matchInOrder([...'ab'], [...'xxxxab']), [4, 5]);
});

test('as many names in place of others are matched one by one', () => {
  assert.deepEqual(matchWithReplaced([...'abcd'], [...'xbyd']), [0, 1, 2, 3]);
  assert.deepEqual(matchWithReplaced([...'abc'], [...'axxc']), [0, null, 3]);
  assert.deepEqual(matchWithReplaced([...'ab'], [...'xy']), [0, 1]);
  assert.deepEqual(matchWithReplaced([...'ab'], []), [null, null]);
  assert.deepEqual(matchWithReplaced([], [...'ab']), []);
});

test('a word that was replaced is subtracted too, and named with the other one', () => {
  const replaced = recordOf([SOURCE[0], SOURCE[1], token('dort', 1), END], TARGET, [SECOND]);
  const sideB = { ...NO_SIDE_B, by: 'sentence', with: 'x' };
  const found = grid({ sideB, beside: { question: { do: 'translate' }, record: replaced } });
  assert.ok(found.status.every((one) => one === SHOWN));
  near(
    found.values,
    FIRST.flat().map((value, cell) => value - SECOND.flat()[cell]),
  );
  const names = found.columnGroups.map(({ token: { text } }) => text);
  assert.deepEqual(names, ['Hünd', 'chen', 'da ≠ dort', '</s>']);
});

test('what stands beside is subtracted, cell by cell, where it has both tokens', () => {
  const other = recordOf([SOURCE[0], token('da', 1), END], TARGET, [
    [
      [0.5, 0.25, 0.25],
      [1, 0, 0],
      [0, 1, 0],
    ],
  ]);
  const question = { do: 'translate' };
  const sideB = { ...NO_SIDE_B, by: 'sentence', with: 'x' };
  const changes = { sideB, beside: { question, record: other } };
  const { value, values, status } = grid(changes);
  assert.equal(value, difference);
  near(values, [-0.25, 0, 0, 0, -0.5, 0, 0.25, 0.25, 0, 0, -1, 1]);
  assert.deepEqual([...status].slice(0, 4), [SHOWN, UNMATCHED, SHOWN, SHOWN]);
  near(grid({ ...changes, sideB: { ...sideB, separate: true } }).values, FIRST.flat());
  near(grid({ ...changes, head: 1 }).values, SECOND.flat()); // which has no second head
});

test('the largest colour of norms is that of both sides, while there are two', () => {
  const norms = (scale) => ({
    layers: 1,
    heads: 2,
    rows: 3,
    columns: 4,
    codes: new Uint16Array(24).fill(65535),
    scale,
  });
  const store = opened(recordOf(SOURCE, TARGET, [FIRST, SECOND]));
  const question = { do: 'translate', forced: [], text: 'x', model: 'small', language_prefix: '' };
  const view = createBesideView(store.get(), question, recordOf(SOURCE, TARGET, [SECOND, FIRST]));
  const sideB = { ...NO_SIDE_B, by: 'sentence', with: 'x' };
  store.change({ head: 0, valueName: 'transformed_norm', values: { transformed_norm: { cross: norms(2) } } });
  store.change({ sideB, beside: { ...view, values: { transformed_norm: { cross: norms(5) } } } });
  for (const state of [store.get(), stateOfB(store.get())]) assert.equal(shownGrid(state).high, 5);
  store.change({ sideB: null });
  assert.equal(shownGrid(store.get()).high, 2);
});

test('a choice on side B is one of the state, and side B keeps its heads where A has none like them', () => {
  const store = opened(recordOf(SOURCE, TARGET, [FIRST, SECOND]));
  const question = { do: 'translate', forced: [], text: 'x', model: 'small', language_prefix: '' };
  store.change({ head: 0, sideB: { ...NO_SIDE_B, by: 'sentence', with: 'x' } });
  const third = recordOf([SOURCE[0], token('da', 1), END], TARGET, Array(3).fill(SECOND.map((row) => row.slice(1))));
  store.change({ beside: createBesideView(store.get(), question, third) });
  const storeOfB = createStoreOfB(store);
  let told = 0;
  storeOfB.subscribe((state, before) => (told += state.head === before.head ? 0 : 1));
  storeOfB.change(chooseHead(storeOfB.get(), 0, 1));
  assert.deepEqual([store.get().head, storeOfB.get().head, told], [1, 1, 1]);
  storeOfB.change({ pin: { row: 1, column: 1 }, words: true });
  assert.deepEqual([store.get().pin, store.get().words], [{ row: 1, column: 2 }, true]);
  assert.deepEqual(storeOfB.get().pin, { row: 1, column: 1 });
  storeOfB.change(chooseHead(storeOfB.get(), 0, 2)); // A has two heads
  assert.deepEqual([store.get().head, storeOfB.get().head, store.get().sideB.separate], [1, 2, true]);
  store.change(chooseHead(store.get(), 0, 0));
  assert.deepEqual([store.get().head, storeOfB.get().head], [0, 0]);
  storeOfB.change({ busy: 'asking', values: { norms: 'own' } });
  assert.deepEqual([store.get().busy, store.get().values, storeOfB.get().busy], [null, {}, 'asking']);
});

test('without enough tokens in common the matrices stand next to each other', () => {
  const store = opened(recordOf(SOURCE, TARGET, [FIRST]));
  const even = (size) => [Array.from({ length: 3 }, () => Array(size).fill(1 / size))];
  assert.equal(whySeparate(store.get(), recordOf(SOURCE, TARGET, even(4))), '');
  assert.match(whySeparate(store.get(), recordOf([END], TARGET, even(1))), /too few tokens/);
  store.change({ valueName: 'transformed_norm' });
  assert.match(whySeparate(store.get(), recordOf(SOURCE, TARGET, even(4))), /is for weights/);
});

test('spots of the record and of the grid', () => {
  const store = opened(recordOf(SOURCE, TARGET, [FIRST, SECOND]));
  store.change({ head: 0, words: true, hideSpecials: true, pin: { row: 1, column: 1 } });
  assert.deepEqual(gridFocus(store.get()), { row: 0, column: 0, token: false });
  assert.deepEqual(spotAt(shownGrid(store.get()), 0, 1), { row: 0, column: 2 });
  store.change({ pin: { row: 2, column: 3 } });
  assert.deepEqual(gridFocus(store.get()), { row: null, column: null, token: false });
});

test('the pin moves over merged words and allowed cells', () => {
  const store = opened(recordOf(SOURCE, TARGET, [FIRST, SECOND]));
  store.change({ words: true });
  store.change(movePin(store.get(), 0, 0));
  store.change(movePin(store.get(), 0, 1));
  assert.deepEqual(store.get().pin, { row: 0, column: 2 });
  store.change(chooseKind(store.get(), 'decoder'));
  store.change({ words: false, ...toggleAverage(store.get()), pin: { row: 0, column: 0 } });
  store.change(movePin(store.get(), 0, 1));
  assert.deepEqual(store.get().pin, { row: 0, column: 0 });
});
