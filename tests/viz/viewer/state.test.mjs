import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  asksFor,
  fromAddress,
  isLinkable,
  taskOfAddress,
  toAddress,
  viewOfAddress,
} from '../viewer/state/permalink.js';
import { movePin, shownGrid } from '../viewer/state/grid.js';
import { rangeNotices } from '../viewer/state/measures.js';
import { headsByDifference } from '../viewer/state/comparison.js';
import { cellOfAllHeads } from '../viewer/domain/payload.js';
import {
  chooseHead,
  chooseKind,
  changeView,
  closeView,
  extendSelection,
  moveHead,
  moveLayer,
  openView,
  showRecord,
  toggleAverage,
  toggleMute,
  togglePin,
} from '../viewer/state/actions.js';
import { chosenHeads } from '../viewer/domain/heads.js';
import { pinnedCell, placesOfRows, sourceView, spotOfToken } from '../viewer/state/queries.js';
import { CHOICES } from '../viewer/state/store.js';
import { CHAPTERS } from '../viewer/learn/chapters.js';
import { opened, record, recordOf, token, weights } from './record.mjs';

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

test('a pin moves over allowed cells, keeps its row between kinds, and is cleared', () => {
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

test('a token of the strip has a row and a column', () => {
  const at = (kind, side, place) => spotOfToken({ ...opened().get(), record, kind, head: null }, side, place);
  assert.deepEqual(at('encoder', 'source', 2), { row: 2, column: 2, token: true });
  assert.deepEqual(at('cross', 'source', 2), { row: null, column: 2 });
  assert.deepEqual(at('cross', 'target', 2), { row: 1, column: null, token: false, step: 1 });
  assert.deepEqual(at('decoder', 'target', 2), { row: 1, column: 2, token: true, step: 1 });
  assert.equal(at('cross', 'target', 0), null);
});

test('a head that looks up the word just written lights another row for a word, and names no row anew', () => {
  const words = ['a', 'b', 'c'].map((text, word) => token(text, word));
  const made = recordOf(words, [...words, token('</s>', null)], [Array.from({ length: 4 }, () => [0.4, 0.3, 0.3])]);
  const definitions = { roles: { wrote: { measure: 'focus' } } };
  const roles = { cross: [['wrote']] };
  const measures = { cross: { focus: [[1]], focus_offset: [[-1]] } };
  const store = opened({ ...made, definitions, roles, measures });
  const names = () => shownGrid(store.get()).rowGroups.map(({ token: { text }, reads }) => `${reads.text} → ${text}`);
  assert.deepEqual(names(), ['<s> → a', 'a → b', 'b → c', 'c → </s>']);
  const spot = spotOfToken(store.get(), 'target', 2); // b
  assert.deepEqual(spot, { row: 2, column: null, token: false, step: 1 });
  assert.deepEqual(placesOfRows(store.get(), [spot.row]), [{ side: 'target', place: 2 }]);
  store.change({ pin: spot });
  assert.equal(store.get().record.tokens.predicted[store.get().step].text, 'b');
  assert.equal(spotOfToken(store.get(), 'target', 4), null); // no row reads the end
  store.change({ record: { ...store.get().record, measures: { cross: { focus: [[1]] } } } }); // of an earlier release
  assert.deepEqual(spotOfToken(store.get(), 'target', 2).row, 1);
  assert.deepEqual(names()[0], '<s> → a');
});

const ADDRESSED = {
  kind: 'decoder',
  layer: 1,
  head: null,
  reduce: 'max',
  selection: [
    ['decoder', 0, 1],
    ['decoder', 1, 2],
  ],
  valueName: 'transformed_norm',
  pin: { row: 2, column: 2, token: true },
  mutes: [
    ['encoder', 0, 2],
    ['cross', 1, 0],
  ],
  hideSpecials: true,
  words: true,
  threshold: 0.9,
  flow: 0.1,
  finder: { over: 'sentence', x: 'entropy', y: 'offset_share' },
  scale: 'row',
  fit: false,
  sort: 'entropy',
  panel: 'mute',
  ablation: { baseline: 'sentence', sentence: 'Guten Tag & mehr', row: 1 },
  questions: ['lens', 'writing'],
  other: 17,
  linkedBy: 'own',
  removedAt: 1,
  gold: '0-0 2p1',
  learn: 3,
  minutes: 10,
  sideB: { by: 'model', with: 'de-fr', to: '>>fra<< ', separate: true },
};

test('the address contains every choice and the task', () => {
  assert.deepEqual(Object.keys(ADDRESSED).sort(), Object.keys(CHOICES).sort());
  const store = opened();
  store.change(ADDRESSED);
  const address = toAddress(store.get());
  assert.deepEqual(fromAddress(address, record), { ...ADDRESSED, step: 0 });
  assert.deepEqual(taskOfAddress(address), { model: 'de-en', text: record.source_text, beam: 1, alpha: null });
  const other = opened();
  other.change(fromAddress(address, record));
  for (const name of Object.keys(CHOICES)) assert.deepEqual(other.get()[name], store.get()[name], name);
});

test('a comparison with another sentence is not in the address, one with another head is', () => {
  const store = opened();
  const before = toAddress(store.get());
  const heads = [['cross', 0, 1]];
  store.change({ valueName: 'difference', reference: { label: 'another head', record: { ...record }, heads } });
  assert.equal(store.get().valueName, 'difference');
  assert.equal(toAddress(store.get()), before);
  assert.equal(isLinkable(store.get()), false);
  store.change({ reference: { label: 'another head', record, heads } });
  assert.deepEqual(viewOfAddress(toAddress(store.get())).compared, heads);
  assert.equal(isLinkable(store.get()), true);
});

test('the address of an old link asks for the same as it did', () => {
  const address = '#model=de-en&text=Guten+Tag&beam=2&kind=decoder&layer=2&head=3&panel=mute&mute=cross.1.2';
  const { kind, layer, head, panel, mutes } = fromAddress(address, record);
  assert.deepEqual([kind, layer, head, panel, mutes], ['decoder', 1, 2, 'mute', [['cross', 0, 1]]]);
  const nothing = viewOfAddress('#kind=cross&forced=1.x&hypothesis=-1&training=1.0&compare=<b>');
  assert.deepEqual(
    Object.values(nothing).filter((value) => value !== null && value !== false),
    [],
  );
  assert.equal(asksFor(address, { ...record, source_text: 'Guten Tag', options: { beam_size: 2 } }), true);
  assert.equal(asksFor(address, { ...record, source_text: 'Guten Tag', options: { beam_size: 1 } }), false);
});

test('the address of a new page is short and sets every choice', () => {
  const store = opened();
  const fresh = toAddress(store.get());
  assert.deepEqual([...new URLSearchParams(fresh.slice(1)).keys()], ['v', 'model', 'text', 'kind', 'layer', 'head']);
  store.change(ADDRESSED);
  store.change(fromAddress(fresh, record));
  assert.equal(toAddress(store.get()), fresh);
});

for (const pin of [
  { row: 1, column: 1, token: true },
  { row: 1, column: 1 },
  { row: null, column: 2 },
  { row: 0, column: null },
]) {
  test(`a pin survives the address: ${JSON.stringify(pin)}`, () => {
    const store = opened();
    store.change({ kind: 'encoder', pin });
    assert.deepEqual(fromAddress(toAddress(store.get()), record).pin, pin);
  });
}

test('the address contains the step that no pinned row implies', () => {
  const store = opened();
  const stepOfLink = () => fromAddress(toAddress(store.get()), record).step;
  store.change({ kind: 'encoder', panel: 'step', step: 2, pin: { row: 1, column: null } });
  assert.equal(stepOfLink(), 2);
  store.change({ kind: 'cross', pin: null });
  assert.equal(stepOfLink(), 2);
  store.change({ pin: { row: 1, column: null } });
  assert.equal(stepOfLink(), 0);
  store.change({ kind: 'encoder', pin: null, panel: 'head' });
  assert.equal(stepOfLink(), 0);
});

test('invalid parameters of an address are ignored', () => {
  assert.deepEqual(fromAddress('#kind=<script>', record), {});
  const nonsense =
    '#kind=cross&layer=-1&head=1e3&mode=eval&threshold=7&heads=1.x,a.b&mute=cross.0.1,<b>.1.1&row=99999&sort=constructor&panel=toString';
  assert.deepEqual(fromAddress(nonsense, record), { ...CHOICES, step: 0 });
  assert.deepEqual(taskOfAddress(`#model=${'x'.repeat(256)}&text=${'a'.repeat(5000)}&beam=1.5&alpha=NaN`), {
    model: null,
    text: null,
    beam: null,
    alpha: null,
  });
  const store = opened();
  store.change(fromAddress('#kind=encoder&layer=99&head=77&row=999&heads=9.9,8.8&mute=cross.100.1', record));
  const { layer, head, pin, selection, mutes } = store.get();
  assert.deepEqual([layer, head, pin, selection, mutes], [1, 2, null, [], []]);
});

test('shift-click adds heads and removes them', () => {
  const store = opened();
  store.change({ kind: 'cross', ...chooseHead(store.get(), 0, 1) });
  store.change(extendSelection(store.get(), 1, 2));
  assert.deepEqual(chosenHeads(store.get()), [
    ['cross', 0, 1],
    ['cross', 1, 2],
  ]);
  store.change(extendSelection(store.get(), 0, 1));
  assert.deepEqual(chosenHeads(store.get()), [['cross', 1, 2]]);
  assert.deepEqual([store.get().layer, store.get().head, store.get().selection], [1, 2, []]);
  store.change(toggleAverage(store.get()));
  assert.equal(chosenHeads(store.get()).length, 3);
});

test('the heads on screen are muted and unmuted', () => {
  const store = opened();
  store.change({ kind: 'cross', ...chooseHead(store.get(), 1, 0) });
  store.change(toggleMute(store.get()));
  assert.deepEqual(store.get().mutes, [['cross', 1, 0]]);
  store.change(toggleAverage(store.get()));
  store.change(toggleMute(store.get()));
  assert.equal(store.get().mutes.length, 3);
  store.change(toggleMute(store.get()));
  assert.deepEqual(store.get().mutes, []);
});

test('a new record keeps the choices but not the answers about the old one', () => {
  const store = opened();
  store.change({
    valueName: 'transformed_norm',
    mutes: [['cross', 0, 0]],
    pin: { row: 0, column: 0 },
    importance: {},
    muted: {},
    cell: {},
    values: { transformed_norm: {} },
  });
  store.change(showRecord(store.get(), { ...record }));
  const { pin, importance, muted, cell, values, mutes, valueName } = store.get();
  assert.deepEqual([pin, importance, muted, cell, values.transformed_norm], [null, null, null, null, undefined]);
  assert.deepEqual([mutes, valueName], [[['cross', 0, 0]], 'transformed_norm']);
});

test('closing a view restores the choices and the answers from before', () => {
  const store = opened();
  store.change({ kind: 'decoder', layer: 1, pin: { row: 1, column: 1 }, mutes: [['cross', 0, 0]], importance: {} });
  const before = store.get();
  store.change(openView(before, { ...record }, { type: 'forced', label: 'forced' }));
  assert.deepEqual([store.get().importance, store.get().mutes], [null, [['cross', 0, 0]]]);
  store.change({ kind: 'cross', pin: null, mutes: [], cell: {}, panel: 'step' });
  store.change(openView(store.get(), { ...record }, { type: 'training', label: 'training', step: 1, sentence: 0 }));
  store.change(closeView(store.get()));
  assert.deepEqual(store.get(), { ...before, panel: 'step' });
});

test('a muted view of a forced translation leads back to it', () => {
  const store = opened();
  store.change(openView(store.get(), { ...record, text: 'forced' }, { type: 'forced', label: 'forced' }));
  store.change({ mutes: [['cross', 0, 0]] });
  const forced = store.get().shown;
  store.change(openView(store.get(), { ...record, text: 'muted' }, { type: 'muted', label: 'muted' }));
  assert.equal(sourceView(store.get()), forced);
  store.change(changeView(store.get(), forced, { importance: {} }));
  store.change(closeView(store.get()));
  assert.equal(store.get().record.text, 'forced');
  assert.deepEqual(store.get().importance, {});
  store.change(closeView(store.get()));
  assert.equal(store.get().record, record);
});

test('a sentence after the training has the head that was chosen before', () => {
  for (const type of ['training', 'forced']) {
    const store = opened();
    store.change({ kind: 'encoder', layer: 1, head: 1 });
    store.change(openView(store.get(), { ...record }, { type, label: type, step: 1, sentence: 0 }));
    store.change({ kind: 'cross', layer: 0, head: 2 });
    store.change(showRecord(store.get(), { ...record }));
    const { kind, head } = store.get();
    assert.deepEqual([kind, head], type === 'forced' ? ['cross', 2] : ['encoder', 1]);
  }
});

test('answers about the translation with muted heads belong to its source', () => {
  const store = opened();
  store.change({ mutes: [['cross', 0, 0]] });
  store.change(openView(store.get(), { ...record, text: 'muted' }, { type: 'muted', label: 'muted' }));
  assert.equal(sourceView(store.get()).record, record);
  store.change(changeView(store.get(), sourceView(store.get()), { importance: {} }));
  assert.equal(store.get().importance, null);
  store.change(closeView(store.get()));
  assert.deepEqual(store.get().importance, {});
});

test('a record of another model starts with its clearest head', () => {
  const store = opened();
  store.change({
    kind: 'encoder',
    mutes: [['cross', 0, 0]],
    selection: [
      ['encoder', 0, 0],
      ['encoder', 0, 1],
    ],
  });
  store.change(openView(store.get(), { ...record, model: { name: 'other' } }, { type: 'forced', label: 'forced' }));
  const { kind, mutes, selection } = store.get();
  assert.deepEqual([kind, mutes, selection], ['cross', [], []]);
  store.change(closeView(store.get()));
  assert.deepEqual([store.get().kind, store.get().mutes], ['encoder', [['cross', 0, 0]]]);
});

test('a sentence outside of the training gets one warning', () => {
  const piece = (word) => ({ text: 'x', word, special: word === null });
  const notices = (words) =>
    rangeNotices({ tokens: { source: words.map(piece) } }, { trained: { tokens: 6, pieces: 2 } });
  assert.deepEqual(notices([0, 0, 1, 2, null]), []);
  assert.match(notices([0, 1, 2, 3, 4, 5, null])[0], /^Far longer than the training: 7 tokens/);
  assert.match(notices([0, 0, 0, 1, 1, null])[0], /into many pieces: 2\.5 a word/);
  assert.deepEqual(rangeNotices({ tokens: { source: [] } }, {}), []);
});

test('the weight of a cell in every head', () => {
  const all = cellOfAllHeads(record, 'cross', { rows: [1], columns: [2] });
  assert.equal(all.length, 6);
  for (const { layer, head, value } of all) assert.ok(Math.abs(value - weights.cross[layer][head][1][2]) < 2e-5);
});

test('the weights of whole words in every head are those of its matrix', () => {
  const words = [token('Ha', 0), token('us', 0), token('da', 1), token('</s>', null)];
  const heads = [
    [
      [0, 0.2, 0.4, 0.4],
      [0.6, 0.2, 0, 0.2],
      [0.2, 0.4, 0.2, 0.2],
    ],
    [
      [0.6, 0.2, 0.2, 0],
      [0, 0.2, 0.2, 0.6],
      [0.2, 0.4, 0.2, 0.2],
    ],
  ];
  const small = recordOf(words, [token('ho', 0), token('use', 0), token('</s>', null)], heads);
  for (const hideSpecials of [false, true]) {
    const left = hideSpecials ? [3] : [];
    const all = cellOfAllHeads(small, 'cross', { rows: [0, 1], columns: [0, 1] }, left);
    for (const { head, value } of all) {
      const state = { ...opened(small).get(), kind: 'cross', layer: 0, head, words: true, hideSpecials };
      assert.ok(Math.abs(value - shownGrid(state).values[0]) < 1e-9);
    }
  }
  const pin = { row: 0, column: 0 };
  const state = { ...opened(small).get(), kind: 'cross', head: 1, pin };
  assert.deepEqual(pinnedCell(state), { kind: 'cross', layer: 0, head: 1, row: 0, column: 0 });
  assert.deepEqual(pinnedCell({ ...state, head: 0, words: true }), {
    kind: 'cross',
    layer: 0,
    head: 0,
    row: 1,
    column: 0,
  });
});

test('a row and a column that are pinned one after the other are a cell', () => {
  const pinned = (...spots) => spots.reduce((pin, spot) => togglePin({ pin }, spot).pin, null);
  const [row, column] = [
    { row: 1, column: null },
    { row: null, column: 2 },
  ];
  assert.deepEqual(pinned(row, column), { row: 1, column: 2 });
  assert.deepEqual(pinned(column, row), { row: 1, column: 2 });
  assert.deepEqual(pinned(row, column, row), column);
  assert.deepEqual(pinned(row, column, { row: 0, column: null }), { row: 0, column: 2 });
  assert.deepEqual(pinned(row, row), null);
  assert.deepEqual(pinned({ row: 1, column: 1, token: true }, row), row);
});

test('own word links end with the translation that they are about', () => {
  const store = opened();
  store.change({ gold: '0-0' });
  store.change(openView(store.get(), { ...record, text: 'forced' }, { type: 'forced', label: 'forced' }));
  assert.equal(store.get().gold, '');
  store.change({ gold: '1-1' });
  store.change(closeView(store.get()));
  assert.equal(store.get().gold, '0-0');
  store.change(showRecord(store.get(), { ...record })); // the same words, as with another beam
  assert.equal(store.get().gold, '0-0');
  store.change(showRecord(store.get(), { ...record, source_text: 'another', text: record.text }));
  assert.equal(store.get().gold, '');
});

test('a chapter begins with nothing but its sentence, its clearest head and its tab', () => {
  const chosen = fromAddress('#learn=1&panel=step', record);
  const { kind, layer, head } = chosen;
  for (const name of Object.keys(CHOICES).filter((one) => !['kind', 'layer', 'head', 'panel', 'learn'].includes(one)))
    assert.equal(chosen[name], CHOICES[name], name);
  assert.deepEqual([chosen.panel, chosen.learn], ['step', 1]);
  const { focus } = record.measures.cross;
  assert.equal(kind, 'cross');
  assert.equal(focus[layer][head], Math.max(...focus.flat()));
});

test('heads are ranked by their difference over the tokens that both sides have', () => {
  const source = [token('ein', 0), token('Hund', 1), token('</s>', null)];
  const others = [token('ein', 0), token('Hund', 1), token('hier', 2), token('</s>', null)];
  const target = [token('a', 0), token('dog', 1)];
  const same = [
    [0.5, 0.25, 0.25],
    [0.25, 0.5, 0.25],
  ];
  const moved = [
    [1, 0, 0],
    [0, 0, 1],
  ];
  const before = [0, 1].map(() => same);
  const after = [same, moved].map((rows) => rows.map(([one, two, end]) => [one, two, 0, end]));
  const ranked = headsByDifference(recordOf(source, target, before), recordOf(others, target, after));
  const values = new Map(ranked.map(({ head, value }) => [head.join('.'), value]));
  assert.deepEqual(
    ranked.map(({ value }) => value),
    [...values.values()].sort((one, two) => two - one),
  );
  assert.ok(values.get('cross.0.0') < 1e-4);
  const moves = [0.5 + 0.25 + 0.25, 0.25 + 0.5 + 0.75]; // of both rows, without their signs
  assert.ok(Math.abs(values.get('cross.0.1') - (moves[0] + moves[1]) / 4) < 1e-4);
});

test('switching positions off is done by the person, not by the button for a second training', () => {
  const task = CHAPTERS.at(-1).tasks.at(-1);
  const trained = (...positions) => positions.map((one) => ({ settings: { positions: one }, steps: 300, share: 0 }));
  assert.equal(task.isDone({ played: trained(false) }), true);
  assert.equal(task.isDone({ played: trained(false, true) }), true);
  assert.equal(task.isDone({ played: trained(true, false) }), false);
  assert.equal(task.isDone({ played: null }), false);
});
