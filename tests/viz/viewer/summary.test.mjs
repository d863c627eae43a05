// What In short says: each fact from measured numbers, and only beyond its threshold.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ZERO } from '../viewer/state/store.js';
import { THRESHOLDS } from '../viewer/domain/limits.js';
import { factsOf, wordsOf } from '../viewer/summary/facts.js';
import { token } from './record.mjs';

const SOURCE = [token('Hund', 0), token('Mü', 1), token('ll', 1), token('er', 1), token('.', 2), token('</s>', null)];
const TARGET = [
  ['dog', 0],
  ['miller', 1],
  ['.', 2],
  ['</s>', null],
].map(numbered);
const GROUPS = [[0], [1], [2], [3], [4], [5], [1, 2, 3]];
const NOTHING = { summary: null, importance: null, lens: null, values: { leave_one_out: null } };

function numbered([text, word], id) {
  return Object.assign(token(text, word), { id });
}

function recordWith(chances) {
  return {
    text: 'dog miller.',
    tokens: { source: SOURCE, predicted: TARGET },
    log_probabilities: chances.map(Math.log),
    alternatives: TARGET.map(({ id }, step) => [
      { id, log_probability: Math.log(chances[step]) },
      { id: 7, text: 'other', log_probability: -2 },
    ]),
  };
}

// What the words lose without each group: `losses[group]`, nothing where it is missing.
function withoutOf(losses, likeliest = 7) {
  return {
    groups: GROUPS,
    losses: GROUPS.map((_, group) => losses[group] ?? [0, 0, 0, 0]),
    likeliest: GROUPS.map(() => TARGET.map(() => likeliest)),
    tokens: { 7: { id: 7, text: 'other' }, 0: TARGET[0] },
  };
}

function fact(name, state) {
  const found = factsOf({ ...NOTHING, record: recordWith([0.9, 0.8, 0.9, 1]), ...state });
  return found.find((one) => one.name === name);
}

test('words are joined without punctuation, and letters stay alone', () => {
  assert.deepEqual(
    wordsOf(SOURCE, false).map(({ text }) => text),
    ['Hund', 'Müller'],
  );
  assert.deepEqual(
    wordsOf(SOURCE, true).map(({ places }) => places),
    [[0], [1], [2], [3]],
  );
});

test('a word in many short pieces is named', () => {
  assert.equal(fact('spelled', {}).word.text, 'Müller');
  const tokens = { source: [...'abc'].map((letter) => token(letter, 0)), predicted: [numbered(['c', 0], 0)] };
  const letters = { ...recordWith([0.9]), tokens };
  assert.equal(fact('spelled', { record: letters }), undefined); // a model of letters
});

test('a word in two pieces is named if an unsure word depends on it', () => {
  const pieces = [token('Mül', 0), token('ler', 0), token('</s>', null)];
  const stateWith = (chance, loss) => ({
    record: { ...recordWith([0.9, chance, 0.9, 1]), tokens: { source: pieces, predicted: TARGET } },
    values: {
      leave_one_out: {
        groups: [[0], [1], [2], [0, 1]],
        losses: [[], [], [], [0, loss, 0, 0]].map((row) => TARGET.map((_, step) => row[step] ?? 0)),
        likeliest: [0, 0, 0, 0].map(() => TARGET.map(() => 7)),
        tokens: { 7: { id: 7, text: 'other' } },
      },
    },
  });
  const doubted = fact('doubted', stateWith(0.4, 1.5));
  assert.deepEqual([doubted.word.text, doubted.made.text, doubted.pieces.length], ['Müller', 'miller', 2]);
  assert.equal(fact('doubted', stateWith(THRESHOLDS.unsure, 1.5)), undefined);
  assert.equal(fact('doubted', stateWith(0.4, 0.9)), undefined);
});

test('it was in doubt below the threshold, and at no special token', () => {
  const { steps, count } = fact('unsure', { record: recordWith([0.49, 0.3, 0.9, 0.1]) });
  assert.deepEqual([steps.map(({ step }) => step), count], [[1, 0], 2]);
  assert.equal(steps[0].rival.id, 7);
  const sure = fact('sure', { record: recordWith([0.9, THRESHOLDS.unsure, 0.9, 0.1]) });
  assert.deepEqual(
    sure.steps.map(({ step, chance, rival }) => [step, chance, rival.id]),
    [[1, THRESHOLDS.unsure, 7]],
  );
});

test('a word given by the person is no hesitation', () => {
  const record = { ...recordWith([0.1, 0.8, 0.9, 1]), n_forced: 1 };
  assert.equal(fact('unsure', { record }), undefined);
});

test('the word that depends most is an unsure one if it depends clearly on a source word', () => {
  const values = { leave_one_out: withoutOf({ 0: [5, 0, 0, 0], 6: [0, 2, 0, 0] }) };
  assert.equal(fact('depends', { values }).word.text, 'dog');
  const unsure = fact('depends', { values, record: recordWith([0.9, 0.4, 0.9, 1]) });
  assert.deepEqual([unsure.word.text, unsure.from.text], ['miller', 'Müller']);
  assert.equal(unsure.factor, Math.exp(2));
  assert.equal(unsure.other.text, 'other');
  assert.equal(fact('depends', { values: { leave_one_out: withoutOf({ 0: [0.9, 0, 0, 0] }) } }), undefined);
});

test('the first choice without a word may be the same', () => {
  const values = { leave_one_out: withoutOf({ 0: [5, 0, 0, 0] }, 0) };
  assert.equal(fact('depends', { values }).other, null);
});

test('a word counts if some word loses a tenth of its probability without it', () => {
  const just = -Math.log(0.9);
  const spare = fact('spare', {
    values: { leave_one_out: withoutOf({ 0: [just, 0, 0, 0], 6: [0, just - 1e-6, 0, 0] }) },
  });
  assert.deepEqual(
    spare.words.map(({ text }) => text),
    ['Müller'],
  );
  const needed = withoutOf({ 0: [just, 0, 0, 0], 6: [0, just, 0, 0] });
  assert.equal(fact('spare', { values: { leave_one_out: needed } }), undefined);
});

test('of the words that passed two others, the one that moved most is named', () => {
  const source = ['a', 'b', 'c', 'd'].map((text, word) => token(text, word));
  const predicted = ['D', 'A', 'B', 'C'].map((text, word) => numbered([text, word], word));
  const record = { ...recordWith([0.9, 0.9, 0.9, 0.9]), tokens: { source, predicted } };
  const losses = [3, 0, 1, 2].map((_, place) => predicted.map((__, step) => Number((step + 3) % 4 === place) * 3));
  const without = {
    groups: source.map((_, place) => [place]),
    losses,
    likeliest: losses.map((row) => row.map(() => 0)),
  };
  without.tokens = { 0: predicted[0] };
  const { word, source: from, count } = fact('moved', { record, values: { leave_one_out: without } });
  assert.deepEqual([from.text, word.text, from.written, word.written, count], ['d', 'D', 4, 1, 1]);
  const weak = { ...without, losses: losses.map((row) => row.map((loss) => loss / 4)) };
  assert.equal(fact('moved', { record, values: { leave_one_out: weak } }), undefined);
  assert.equal(fact('in order', { record, values: { leave_one_out: without } }), undefined);
  assert.equal(fact('in order', { record, values: { leave_one_out: weak } }), undefined); // no word depends on one clearly
  const straight = {
    ...without,
    losses: losses.map((_, place) => predicted.map((__, step) => Number(step === place) * 3)),
  };
  assert.ok(fact('in order', { record, values: { leave_one_out: straight } }));
});

test('a place is one of words as they are written: past “didn’t” is one place', () => {
  const pieces = [' didn', "'", 't', ' Buch'];
  const predicted = pieces.map((text, word) =>
    Object.assign(numbered([text, word], word), { piece: text.replace(' ', '▁') }),
  );
  const source = ['Buch', 'nicht', 'tat'].map((text, word) => token(text, word));
  const record = { ...recordWith([0.9, 0.9, 0.9, 0.9]), tokens: { source, predicted } };
  const from = [1, null, 2, 0]; // the source word that each token depends on
  const losses = source.map((_, place) => from.map((own) => Number(own === place) * 3));
  const without = { groups: [[0], [1], [2]], losses, likeliest: losses.map((row) => row.map(() => 0)) };
  without.tokens = { 0: predicted[0] };
  assert.equal(fact('moved', { record, values: { leave_one_out: without } }), undefined);
});

test('heads are needed from a loss of a third on', () => {
  const table = (least) => ({
    changes: { encoder: [[0, least]], decoder: [[0.1, 0]], cross: [[-0.2, 0]] },
    ablation: ZERO,
  });
  const least = -Math.log(1.5);
  const { heads, count } = fact('heads', {
    importance: table(least),
    summary: { heads: [{ head: ['encoder', 0, 1], text: 'cat' }], rivals: [] },
  });
  assert.deepEqual(heads, [{ head: ['encoder', 0, 1], factor: Math.exp(-least), text: 'cat' }]);
  assert.equal(count, 6);
  assert.equal(fact('no head', { importance: table(-0.3) }).share, Math.exp(-0.3));
});

test('the words that were decided in the last layer are named if they are few', () => {
  const words = [0, 1, 2].map((layer) => TARGET.map(({ id }) => [layer === 2 ? id : 7]));
  const lens = { words, leads_from: [2, 1, 0, 2], tokens: { 7: { text: 'other' } } };
  const never = fact('late', { lens: { ...lens, tokens: { 7: { text: '<s>' } } } });
  assert.equal(never.words[0].other, null); // nothing that it could have written
  const { words: named, ...place } = fact('late', { lens });
  assert.deepEqual([named, place], [[{ step: 0, other: { text: 'other' } }], { name: 'late', layer: 2, layers: 3 }]);
  const both = fact('late', { lens: { ...lens, leads_from: [2, 2, 0, 2] } });
  assert.deepEqual(
    both.words.map(({ step }) => step),
    [0, 1],
  );
  for (const leads of [
    [0, 0, 0, 2], // all words in the first layer
    [2, null, 0, 2], // a word that never leads
  ])
    assert.equal(fact('late', { lens: { ...lens, leads_from: leads } }), undefined);
});

test('a word keeps the characters that the model does not know', () => {
  const piece = (word, text, special = false) => ({ word, text, special });
  const words = wordsOf([
    piece(0, 'Sch'),
    piece(0, '☃', true),
    piece(0, 'ee'),
    piece(1, '.'),
    piece(null, '</s>', true),
  ]);
  assert.deepEqual(words, [{ places: [0, 1, 2], text: 'Sch☃ee', name: 'Sch☃ee', written: 1 }]);
});

test('equal words have numbers, and an apostrophe shows where a word was cut', () => {
  const tokens = [
    ['▁the', 0],
    ['▁didn', 1],
    ["'", 2],
    ['t', 3],
    ['▁the', 4],
    ["▁'", 5],
    ['▁t', 6],
  ].map(([piece, word]) => Object.assign(token(piece.replace('▁', ' '), word), { piece }));
  assert.deepEqual(
    wordsOf(tokens, false).map(({ name, written, number }) => [name, written, number]),
    [
      ['the', 1, 1],
      ['didn…', 2, undefined],
      ['…t', 2, undefined],
      ['the', 3, 3],
      ['t', 4, undefined],
    ],
  );
});

test('the words that seem to be missing are named in their order, and each gets one warning', () => {
  const record = { ...recordWith([0.9, 0.9, 0.9, 1]), missing: [1, 0] };
  const { words, count } = fact('missing', { record });
  assert.deepEqual([words.map(({ text }) => text), count], [['Müller', 'Hund'], 2]);
  assert.equal(fact('spelled', { record }), undefined);
  assert.ok(fact('spelled', { record: { ...record, missing: [] } }));
  assert.equal(fact('missing', { record: { ...record, missing: undefined } }), undefined); // an older payload
});

test('a number is not spelled, and one word alone is not compared with others', () => {
  const source = [token('1', 0), token('9', 0), token('9', 0), token('</s>', null)];
  const record = { ...recordWith([0.9, 0.9, 0.9, 1]), tokens: { source, predicted: TARGET } };
  const without = {
    groups: [[0], [1], [2], [3], [0, 1, 2]],
    losses: GROUPS.slice(0, 5).map(() => [9, 0, 0, 0]),
    likeliest: GROUPS.slice(0, 5).map(() => [7, 7, 7, 7]),
    tokens: { 7: { id: 7, text: 'other' } },
  };
  const names = factsOf({ ...NOTHING, record, values: { leave_one_out: without } }).map(({ name }) => name);
  assert.deepEqual(names, ['sure']);
});
