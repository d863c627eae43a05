// Selects the facts that In short mentions, by the thresholds of model/analysis/thresholds.py.

import { THRESHOLDS } from '../domain/limits.js';
import { importanceOf } from '../state/measures.js';
import { headsWith, neededHeads } from '../domain/heads.js';
import { continues, isOfLetters } from '../domain/payload.js';
import { lossWithout, tokenWithout } from '../values/leave_one_out.js';
import { firstLens } from '../instruments/lens.js';
import { sum } from '../domain/math.js';
import { ZERO } from '../state/store.js';

const MOST = 6; // sentences
const JOINED = '…'; // where an apostrophe joins a word with its neighbour
const NEVER = ['<pad>', '<unk>', '<s>']; // no search chooses these tokens

// How log p changes without each head's output, whatever muted heads give; null if it is not known.
export const importanceWithout = ({ importance }) => importanceOf({ importance, ablation: ZERO });

// What is known of a translation: the record, and, once it is measured, `leave_one_out`, `lens`, `importance` and `summary`. The
// facts of the record come first, then the most useful ones, { name, ... } each; steps and places count from 0.
export function factsOf(state) {
  const { record, values, lens, summary } = state;
  const { leave_one_out: leaveOneOut } = values;
  const importance = importanceWithout(state);
  const words = { source: wordsOf(record.tokens.source, isOfLetters(record)), target: targetWords(record) };
  const hasOthers = words.source.length > 1; // everything depends on a word that is alone
  const spelled = spelledWord(record, words);
  const missing = missingWords(record, words);
  const found = [
    missing,
    missing?.words.includes(spelled?.word) ? null : spelled, // one warning about a word is enough
    hesitation(record, words, summary?.rivals ?? []),
    leaveOneOut && doubtedWord(record, words, leaveOneOut),
    leaveOneOut && hasOthers && dependence(record, words, leaveOneOut, summary?.rivals ?? []),
    importance && headsNeeded(importance, summary?.heads ?? []),
    leaveOneOut && hasOthers && spareWords(words, leaveOneOut),
    leaveOneOut && movedWord(words, leaveOneOut),
    lens && lateWords(record, words, firstLens(lens)),
  ];
  return found.filter(Boolean).slice(0, MOST);
}

export const targetWords = (record) => wordsOf(record.tokens.predicted, isOfLetters(record));

// The words of a sentence, { places, text, name } each, without </s> and punctuation. The name is "didn…" if an apostrophe
// joins a word with the next one. `written` counts words as they are
// written, from 1; words of equal names have it as their `number`, too. A word keeps the characters that
// the model does not know: it is hidden as a whole. A model of letters has letters.
export function wordsOf(tokens, areAlone) {
  const words = new Map();
  tokens.forEach(({ word, text }, place) => {
    if (word === null) return;
    const name = areAlone ? place : word;
    const found = words.get(name) ?? { places: [], text: '' };
    words.set(name, { places: [...found.places, place], text: found.text + text });
  });
  const found = [...words.values()]
    .filter(({ text }) => /[\p{L}\p{N}]/u.test(text))
    .map((word) => Object.assign(word, { name: nameOf(word, tokens) }));
  const isRepeated = ({ name }) => found.filter((other) => other.name === name).length > 1;
  let number = 0; // of the word as it is written
  return found.map((word) => {
    if (!word.name.startsWith(JOINED)) number += 1;
    return Object.assign(word, { written: number }, isRepeated(word) ? { number } : {});
  });
}

function nameOf({ places, text }, tokens) {
  const joins = (place) => {
    const [mark, next] = [tokens[place], tokens[place + 1]];
    return mark && next && /^['’]$/.test(mark.text) && continues(mark) && continues(next);
  };
  const [before, after] = [places[0] - 1, places.at(-1) + 1];
  return `${joins(before) ? JOINED : ''}${text.trim()}${joins(after) ? JOINED : ''}`;
}

const hasLetters = ({ text }) => /\p{L}/u.test(text);

// The probability of all tokens of a word together.
const chanceOf = ({ log_probabilities: chances }, { places }) => Math.exp(sum(places.map((step) => chances[step])));

// The word of the source in the most pieces, if the model knows it only in short ones. The digits of a number are none.
function spelledWord({ tokens }, { source }) {
  const [word] = source.filter(isSpelled).sort((one, other) => other.places.length - one.places.length);
  return word ? { name: 'spelled', word, pieces: word.places.map((place) => tokens.source[place]) } : null;
}

function isSpelled(word) {
  const { places, text } = word;
  const isShort = [...text.trim()].length < THRESHOLDS.piece * places.length;
  return hasLetters(word) && places.length >= THRESHOLDS.spelled && isShort;
}

// The source words that seem to be missing from the translation: see model/analysis/omissions.py.
function missingWords({ tokens, missing = [] }, { source }) {
  const found = missing.flatMap((index) => source.filter(({ places }) => tokens.source[places[0]].word === index));
  return found.length > 0 ? { name: 'missing', words: found.slice(0, THRESHOLDS.named), count: found.length } : null;
}

// A word of the source in several longer pieces, on which the least likely of the unsure words depends.
function doubtedWord(record, { source, target }, leaveOneOut) {
  const { n_forced: given = 0, tokens } = record;
  const unsure = target.filter((made) => made.places[0] >= given && chanceOf(record, made) < THRESHOLDS.unsure);
  const [doubted] = source
    .filter((word) => word.places.length > 1 && hasLetters(word) && !isSpelled(word))
    .flatMap((word) => unsure.map((made) => ({ word, made })))
    .filter(({ word, made }) => lossWithout(leaveOneOut, word.places, made.places) >= THRESHOLDS.linked)
    .sort((one, other) => chanceOf(record, one.made) - chanceOf(record, other.made));
  return doubted
    ? { name: 'doubted', ...doubted, pieces: doubted.word.places.map((place) => tokens.source[place]) }
    : null;
}

// The steps at which the model was in doubt, the least likely first; without any, the least likely of all. Each has its rival; or
// null, if no other word has a share worth naming.
function hesitation(record, { target }, known) {
  const { log_probabilities: chances, n_forced: given = 0 } = record;
  const steps = target
    .flatMap(({ places }) => places)
    .filter((step) => step >= given)
    .map((step) => ({ step, chance: Math.exp(chances[step]), rival: rivalAt(record, step, known) }))
    .sort((one, other) => one.chance - other.chance);
  const unsure = steps.filter(({ chance }) => chance < THRESHOLDS.unsure);
  if (unsure.length > 0) return { name: 'unsure', steps: unsure.slice(0, THRESHOLDS.named), count: unsure.length };
  return steps.length > 0 ? { name: 'sure', steps: steps.slice(0, 1), isForced: given > 0 } : null;
}

// The likeliest other token of a step that could have been said, if it is likely enough to be a rival, with the `whole` word {
// text, pieces } that it would begin, if that is known; null if the record has none.
function rivalAt({ tokens, alternatives, log_probabilities: chances }, step, known) {
  const { id } = tokens.predicted[step];
  const found = (alternatives[step] ?? []).find((one) => one.id !== id && !NEVER.includes(one.piece));
  if (!found || found.log_probability < chances[step] + Math.log(THRESHOLDS.rival)) return null;
  return withWhole(found, step, known);
}

// A token with the `whole` word { text, pieces } that it would begin, if that is known.
function withWhole(token, step, known) {
  const whole = known.find((one) => one.step === step && one.id === token.id);
  return whole ? { ...token, whole } : token;
}

// The source word that the least likely word of the translation depends on most.
function dependence(record, { source, target }, leaveOneOut, known) {
  const losses = target.flatMap((word) =>
    source.map((from) => ({ word, from, loss: lossWithout(leaveOneOut, from.places, word.places) })),
  );
  const unsure = losses.filter(({ word }) => chanceOf(record, word) < THRESHOLDS.unsure);
  const clear = (found) => found.filter(({ loss }) => loss >= THRESHOLDS.linked);
  const candidates = clear(unsure).length > 0 ? clear(unsure) : clear(losses);
  const [most] = candidates.sort((one, other) => other.loss - one.loss);
  if (!most) return null;
  const { word, from, loss } = most;
  const step = word.places[0];
  const other = tokenWithout(leaveOneOut, from.places, step);
  return {
    name: 'depends',
    word,
    from,
    factor: Math.exp(loss),
    other: other.id === record.tokens.predicted[step].id ? null : withWhole(other, step, known),
  };
}

// The source words that can be left out one at a time without any word becoming less likely.
function spareWords({ source, target }, leaveOneOut) {
  const spare = source.filter((from) =>
    target.every((word) => lossWithout(leaveOneOut, from.places, word.places) < THRESHOLDS.lost),
  );
  if (target.length === 0) return null;
  return spare.length > 0 ? { name: 'spare', words: spare } : null;
}

// The word of the translation that moved most places, among the words that passed others on their way from the source. A word comes
// from the source word without which it loses most, unless another word that comes from it loses more.
function movedWord({ source, target }, leaveOneOut) {
  const lossOf = (from, word) => lossWithout(leaveOneOut, source[from].places, word.places);
  const largest = (losses) => losses.indexOf(Math.max(...losses));
  const links = target
    .map((word, to) => {
      const from = largest(source.map((_, place) => lossOf(place, word)));
      return { word, to, from, loss: from < 0 ? 0 : lossOf(from, word) };
    })
    .filter(({ loss }) => loss >= THRESHOLDS.linked)
    .filter((one, _, all) => !all.some((other) => other.from === one.from && other.loss > one.loss));
  const crosses = (one, other) => (one.from - other.from) * (one.to - other.to) < 0;
  const passedBy = (link) => links.filter((other) => crosses(link, other)).length;
  const distance = ({ from, to }) => Math.abs(target[to].written - source[from].written);
  const moved = links.filter((link) => Math.min(distance(link), passedBy(link)) >= THRESHOLDS.passed);
  const [most] = moved.sort((one, other) => distance(other) - distance(one) || other.loss - one.loss);
  if (most) return { name: 'moved', word: most.word, source: source[most.from], count: moved.length };
  return links.length >= THRESHOLDS.ordered && links.every((link) => passedBy(link) === 0)
    ? { name: 'in order' }
    : null;
}

// The heads without which the translation becomes clearly less likely, with what it is then where that is known.
function headsNeeded(importance, known) {
  const changes = headsWith(importance).map(({ value }) => value);
  const count = changes.length;
  const needed = neededHeads(importance);
  if (needed.length === 0) return { name: 'no head', count, share: Math.min(1, Math.exp(Math.min(...changes))) };
  const textOf = (head) => known.find((one) => String(one.head) === String(head))?.text ?? null;
  const heads = needed.map(({ head, value }) => ({ head, factor: Math.exp(-value), text: textOf(head) }));
  return { name: 'heads', count, heads };
}

// The words that became the likeliest only in the last deciding layer, each with the word that was the likeliest before, if
// that can be written. null if all were decided in the first layer, if more than three were decided last, or if a word never
// became the likeliest: the search took it for the whole sentence.
function lateWords({ n_forced: given = 0 }, { target }, { words, leads_from: leads, tokens: names }) {
  const steps = target.flatMap(({ places }) => places).filter((step) => step >= given);
  const layer = Math.max(...steps.map((step) => leads[step]));
  const late = steps.filter((step) => leads[step] === layer);
  if (!(layer > 0) || late.length > THRESHOLDS.named || steps.some((step) => leads[step] === null)) return null;
  const leaderOf = (step) => names[words[layer - 1][step][0]];
  const decided = late.map((step) => ({ step, other: NEVER.includes(leaderOf(step).text) ? null : leaderOf(step) }));
  return { name: 'late', words: decided, layer, layers: words.length };
}
