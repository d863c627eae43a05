// Why this word: its logit, or its lead over another word, as a sum over all parts of the model. With two sides, the other word
// can be the word that side B has in its place: then the parts decide which of both words is written.

import { element, replaceKeepingFocus, visible } from '../drawing/dom.js';
import { fixed, signed } from '../drawing/numbers.js';
import { kindName } from '../state/labels.js';
import { headsWith } from '../domain/heads.js';
import { largest, sum } from '../domain/math.js';
import { targetIds } from '../domain/payload.js';
import { wordOfOtherSide } from '../state/comparison.js';
import { choiceTabs, note, numberText, sayNote, signedLine } from '../drawing/widgets.js';
import { headList, headMap } from './head_map.js';
import { say } from '../locales/language.js';

const LARGEST = 10; // parts in the ranking
const PATHS = {
  direct: [
    () => say('Direct'),
    () =>
      say(
        'What each head adds to this number itself. Decoder and Cross are parts of the sum above; Encoder splits what Cross adds once more, by where it came from.',
      ),
  ],
  gradient: [
    () => say('Through all layers'),
    () =>
      say(
        "How much the number would grow if the head's output were slightly larger, its effect through later heads and layers included (a gradient, so for small changes only).",
      ),
  ],
};

export const contributions = {
  name: 'contributions',
  panel: 'step',
  title: () => say('Why this word?'),
  doing: () => say('Adding up what wrote this word'),
  ask: contributionsOf,
  create(store) {
    const shown = { path: 'direct' };
    return {
      draw: (state, answer, question) => {
        const map = element('div');
        const draw = (path) => {
          shown.path = path;
          replaceKeepingFocus(map, ...mapOf(store, state, answer, path, draw));
        };
        draw(shown.path);
        const both = answerOfBoth(state, answer, question);
        return [
          chooserOf(store, state),
          ...(both ? decisionOf(state, both, question) : partsOf(state, answer, question)),
          map,
        ];
      },
    };
  },
};

function contributionsOf(state) {
  const { record, step } = state;
  const ids = targetIds(record);
  const other = otherWord(state);
  return { ids, step, word: ids[step], ...(other === null ? {} : { other }) };
}

// The id of the other word: an alternative at this step, or the word of the other side. Both sides are about the same two words.
/** @type {(state: State) => number | null} */
export function otherWord(state) {
  const { record, step, other, side } = state;
  const { id: word } = record.tokens.predicted[step];
  const ofOtherSide = wordOfOtherSide(state);
  if (ofOtherSide !== null && other === (side === 'B' ? word : ofOtherSide.id)) return ofOtherSide.id;
  return (record.alternatives[step] ?? []).some(({ id }) => id === other && id !== word) ? other : null;
}

function chooserOf(store, state) {
  const { record, step } = state;
  const { id: word } = record.tokens.predicted[step];
  const ofOtherSide = wordOfOtherSide(state);
  const likely = (record.alternatives[step] ?? []).filter(({ id }) => id !== word && id !== ofOtherSide?.id);
  const others = ofOtherSide === null ? likely : [ofOtherSide, ...likely];
  const options = others.map((one) =>
    element('option', { value: one.id }, say('and not “{word}”', { word: visible(one) })),
  );
  const choice = element(
    'select',
    { class: 'hl-box', 'aria-label': say('Compared with') },
    element('option', { value: '' }, say('by itself')),
    ...options,
  );
  choice.value = String(otherWord(state) ?? '');
  choice.addEventListener('change', () => store.change({ other: choice.value === '' ? null : Number(choice.value) }));
  return element(
    'label',
    { class: 'hl-asked-word' },
    say('Why “{word}”', { word: visible(record.tokens.predicted[step]) }),
    choice,
  );
}

// The lead of A's word in A plus the lead of B's word in B, part by part. Null until B has answered.
function answerOfBoth(state, answer, { word, other }) {
  const asked = state.beside?.answers.contributions;
  if (
    other === undefined ||
    wordOfOtherSide(state)?.id !== other ||
    asked?.question.word !== other ||
    asked.question.other !== word
  )
    return null;
  if (!asked.answer) return null;
  const [a, b] = [answer.decoder, asked.answer.decoder];
  const add = (one, two) => (Array.isArray(one) ? one.map((value, place) => add(value, two[place])) : one + two);
  const decoder = {
    tokens: [sum(a.tokens) + sum(b.tokens)], // the sentences have other lengths
    positions: [sum(a.positions) + sum(b.positions)],
    heads: { decoder: add(a.heads.decoder, b.heads.decoder), cross: add(a.heads.cross, b.heads.cross) },
    feed_forward: add(a.feed_forward, b.feed_forward),
    bias: a.bias + b.bias,
  };
  return { tokens: answer.tokens, decoder, logit: answer.logit + asked.answer.logit };
}

function decisionOf({ record }, answer, { step, word, other }) {
  const name = (id) => visible(answer.tokens[id]);
  const names = { word: name(word), other: name(other) };
  return [
    sayNote('What decides between “{word}” in A and “{other}” in B: the lead of each in its sentence, added.', names),
    sumOf(record, answer, step, say('“{word}” in A, “{other}” in B', names)),
    element('h4', {}, say('The largest parts')),
    ranking(answer.decoder, visible(record.tokens.read[step])),
  ];
}

function partsOf({ record }, answer, { step, word, other }) {
  const { decoder, logit } = answer;
  const reads = visible(record.tokens.read[step]);
  const name = (id) => visible(answer.tokens[id]);
  const what =
    other === undefined
      ? say('logit of “{word}”', { word: name(word) })
      : say('lead of “{word}” over “{other}”', { word: name(word), other: name(other) });
  return [
    sumOf(record, answer, step, what),
    note(meaningOf(other, logit)),
    element('h4', {}, say('The largest parts')),
    ranking(decoder, reads),
  ];
}

function sumOf(record, { decoder, logit }, step, what) {
  const reads = visible(record.tokens.read[step]);
  const lines = [
    [say('reading “{word}”', { word: reads }), sum(decoder.tokens)],
    [say('its position'), sum(decoder.positions)],
    [say('heads of Decoder'), sum(decoder.heads.decoder.flat())],
    [say('heads of Cross'), sum(decoder.heads.cross.flat())],
    [say('feed-forward networks'), sum(decoder.feed_forward)],
    [say('biases'), decoder.bias],
  ];
  const most = largest(lines.map(([, value]) => value));
  return element(
    'ol',
    { class: 'hl-shares', 'aria-label': what },
    ...lines.map(([label, value]) => signedLine(label, value, most)),
    element('li', { class: 'hl-total' }, element('span', {}, what), element('span'), numberText(signed(logit, 2))),
  );
}

// Every part by itself, the largest first, whether it speaks for the word or against it.
function ranking({ heads, feed_forward: feedForward, tokens, positions, bias }, reads) {
  const ofHeads = headsWith(heads).map(({ head: [kind, layer, head], value }) => [
    `${kindName(kind)} ${layer + 1}.${head + 1}`,
    value,
  ]);
  const parts = [
    ...ofHeads,
    ...feedForward.map((value, layer) => [say('feed-forward, layer {layer}', { layer: layer + 1 }), value]),
    [say('reading “{word}”', { word: reads }), sum(tokens)],
    [say('its position'), sum(positions)],
    [say('biases'), bias],
  ];
  const first = parts.sort(([, one], [, other]) => Math.abs(other) - Math.abs(one)).slice(0, LARGEST);
  const [[, most]] = first;
  const lines = first.map(([label, value]) => signedLine(label, value, Math.abs(most)));
  return element('ol', { class: 'hl-shares', 'aria-label': say('The largest parts') }, ...lines);
}

// A lead of log 2 makes a word twice as likely.
function meaningOf(other, logit) {
  if (other === undefined)
    return say(
      'In this sentence, in logits. A single logit has a part that all words share; choose another word to leave it out.',
    );
  return say('In this sentence: the word is {factor} times as likely as the other.', {
    factor: fixed(Math.exp(logit), logit < 3 ? 2 : 0),
  });
}

function mapOf(store, state, answer, path, draw) {
  const values =
    path === 'gradient' ? answer.gradient : { ...answer.decoder.heads, encoder: answer.encoder.heads.encoder };
  /** @type {[string, string][]} */
  const entries = Object.entries(PATHS).map(([name, [label]]) => [name, label()]);
  return [
    element('h4', {}, say('Which head?')),
    choiceTabs(say('Which path'), entries, path, draw),
    note(PATHS[path][1]()),
    ...headMap(store, state, values),
    element('h4', {}, say('The heads that count most here')),
    headList(store, values, (value) => -Math.abs(value)),
  ];
}
