// What the instruments do in the browser: questions, word links, and many sentences added up.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { drawLink, wayOf, waysOf } from '../viewer/instruments/links.js';
import { otherWord } from '../viewer/instruments/contributions.js';
import { isOutcome, muteQuestion } from '../viewer/state/questions.js';
import { toggleQuestion } from '../viewer/state/questions.js';
import { addSurvey, headSurvey, partOf, sentencesOf } from '../viewer/domain/survey.js';
import { CHOICES } from '../viewer/state/store.js';
import { opened } from './record.mjs';

const head = (hits, pairs, roles) => {
  const ofReading = pairs.map(([, ...rest]) => ['read', ...rest]);
  return { hits, pairs, read_pairs: ofReading, roles };
};
const answer = (heads, distance) => ({
  sentences: { 0: { source: ['a'], predicted: ['b'] } },
  skipped: [[1, 'too long']],
  kinds: {
    cross: {
      rows: 2,
      distances: [
        [0, distance],
        [distance, 0],
      ],
      heads: [heads],
    },
  },
});

test('a text is split at its lines, or at its full stops', () => {
  assert.deepEqual(sentencesOf(' Eins.\n\nZwei. Drei.\n'), ['Eins.', 'Zwei. Drei.']);
  assert.deepEqual(sentencesOf('Eins. „Zwei!“ Drei? 2.5 vier'), ['Eins.', '„Zwei!“', 'Drei?', '2.5 vier']);
  assert.deepEqual(sentencesOf(' \n '), []);
});

test('parts of the sentences add up, and keep their places', () => {
  const one = answer([head([[0.9, 0, 0, 0]], [['b', 'a', 2]], { mixed: 1 }), head([], [], { mixed: 1 })], 1);
  const two = answer([head([[0.95, 0, 1, 2]], [['b', 'a', 1]], { aligned: 1 }), head([], [], { mixed: 1 })], 3);
  const survey = addSurvey(addSurvey(null, one, 0), two, 20);
  assert.deepEqual(Object.keys(survey.sentences), ['0', '20']);
  assert.deepEqual(
    survey.skipped.map(([place]) => place),
    [1, 21],
  );
  assert.deepEqual(headSurvey(survey, ['cross', 0, 0]), {
    hits: [
      [0.95, 20, 1, 2],
      [0.9, 0, 0, 0],
    ],
    pairs: [['b', 'a', 3]],
    roles: [
      ['mixed', 1],
      ['aligned', 1],
    ],
    sentences: 2,
    alike: [{ layer: 0, head: 1, distance: 1 }],
  });
  assert.deepEqual(headSurvey(survey, ['cross', 0, 0], -1).pairs, [['read', 'a', 3]]);
  assert.equal(headSurvey(survey, ['encoder', 0, 0]), null);
});

test('links are drawn from a source word to a word of the translation, and removed by the same clicks', () => {
  const words = (...places) => places.map((word) => ({ word }));
  const record = { tokens: { source: words(0, 0, 1, null), predicted: words(0, 1, null) } };
  const draw = (gold, clicks) => {
    const state = { record, gold, drawing: { source: null } };
    for (const [side, place] of clicks) Object.assign(state, drawLink(state, side, place));
    return [state.gold, state.drawing.source];
  };
  const link = (source, target) => [
    ['source', source],
    ['target', target],
  ];
  assert.deepEqual(draw('', link(1, 2)), ['0-1', null]); // place 0 of the target is the start token
  assert.deepEqual(draw('0-1  1p0', link(2, 1)), ['0-1', null]);
  assert.deepEqual(draw('0-1', [...link(0, 2), ...link(2, 2)]), ['1-1', null]);
  assert.deepEqual(draw('', [['target', 1]]), ['', null]); // no source word is chosen
  assert.deepEqual(draw('', link(3, 1)), ['', null]); // </s> is no word
  assert.deepEqual(
    draw('', [
      ['source', 0],
      ['target', 0],
      ['target', 3],
    ]),
    ['', 0],
  );
  assert.deepEqual(
    draw('', [
      ['source', 0],
      ['source', 1],
    ]),
    ['', null],
  ); // the same word again
});

test('a question opens and closes', () => {
  assert.deepEqual(toggleQuestion({ questions: [] }, 'lens'), { questions: ['lens'] });
  assert.deepEqual(toggleQuestion({ questions: ['lens', 'writing'] }, 'lens'), { questions: ['writing'] });
});

test('the other word is one of the alternatives of the step', () => {
  const store = opened();
  const { record } = store.get();
  const taken = record.tokens.predicted[0].id;
  const one = record.alternatives[0].find(({ id }) => id !== taken);
  assert.equal(otherWord({ record, step: 0, other: one.id }), one.id);
  assert.equal(otherWord({ record, step: 0, other: taken }), null);
  assert.equal(otherWord({ record, step: 0, other: -1 }), null);
});

test('what heads give instead is asked for once it is complete', () => {
  const store = opened();
  assert.deepEqual(muteQuestion(store.get()), { do: 'mute' });
  store.change({ ablation: { baseline: 'sentence', sentence: '', row: 1 } });
  assert.equal(muteQuestion(store.get()), null);
  store.change({ ablation: { baseline: 'sentence', sentence: 'Ja.', row: 1 } });
  assert.deepEqual(muteQuestion(store.get()), { do: 'mute', baseline: 'sentence', other: 'Ja.', row: 1 });
});

test('an outcome belongs to its heads and to what they gave', () => {
  const store = opened();
  const mutes = [['cross', 0, 0]];
  store.change({ mutes, muted: { heads: mutes, ablation: CHOICES.ablation } });
  assert.equal(isOutcome(store.get()), true);
  store.change({ ablation: { ...CHOICES.ablation, row: 0 } });
  assert.equal(isOutcome(store.get()), false);
});

test('the links of a taught head are a way of their own, unless it is the clearest head', () => {
  const method = (links, place) => ({
    links,
    grown: links,
    head: ['cross', 0, place],
    errors: null,
  });
  const methods = (taught) => [method([[0, 0]], 0), { ...method([[1, 0]]), head: null }, method([[1, 1]], taught)];
  const ways = waysOf({ methods: methods(1), gold: null });
  assert.deepEqual(
    ways.map(({ name }) => name),
    ['best', 'joined', 'average', 'taught'],
  );
  assert.deepEqual(ways.at(-1).links, [[1, 1]]);
  const same = { methods: methods(0), gold: null };
  assert.equal(waysOf(same).length, 3);
  assert.equal(wayOf(same, 'taught').name, 'joined');
});

test('a request asks about few enough sentences and characters, and about one at least', () => {
  const sentences = [...Array(30).fill('Ein Hund.'), 'a'.repeat(5000), 'b'.repeat(4000), 'c'.repeat(9000), 'Ende.'];
  const sizes = [];
  for (let done = 0; done < sentences.length; done += sizes.at(-1)) sizes.push(partOf(sentences, done).length);
  assert.deepEqual(sizes, [20, 11, 1, 1, 1]);
});
