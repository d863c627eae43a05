// What each token of a translation loses while source tokens are hidden, as model/analysis/leave_one_out.py defines it.

import { embed, predict } from './model.js';
import { createSequence, crossMemories, decode, encode, repeated } from './network.js';
import { rounded } from './payload.js';
import { largestPlaces } from './search.js';
import { BOS_ID, INVISIBLE } from './text/tokenizer.js';
import { sourceIds } from './translator.js';
import { message } from '../locales/language.js';

const ROWS = 64; // rows that are computed before other requests get a turn

// `losses` and the likeliest words `instead` are [group][step]; `groups` are places of source tokens.
/** @type {(translator: Translator, text: string, target: number[], pause: any) => Promise<any>} */
export async function leaveOneOut(translator, text, target, pause) {
  const { tokenizers } = translator;
  const source = sourceIds(translator, text);
  const groups = tokensAndWords(tokenizers.source.sourceTokens(text.replaceAll(INVISIBLE, '')));
  const size = Math.max(1, Math.floor(ROWS / Math.max(source.length, target.length)));
  const found = [];
  for (let start = 0; start <= groups.length; start += size) {
    const hidden = [[], ...groups].slice(start, start + size); // the first group hides nothing
    found.push(...stepsWithout(translator.model, source, target, hidden));
    const done = Math.min(start, groups.length);
    await pause(message('{done} of {count} source tokens', { done, count: groups.length }));
  }
  const [intact, ...without] = found;
  const instead = without.map((steps) => steps.map(({ likeliest }) => likeliest));
  return {
    groups,
    losses: without.map((steps) => steps.map(({ chance }, step) => rounded(intact[step].chance - chance))),
    instead,
    tokens: Object.fromEntries([...new Set(instead.flat())].map((id) => [id, tokenizers.target.tokens([id])[0]])),
  };
}

// The log-probability of each target token and the likeliest token of its step, without each of these groups.
function stepsWithout(model, source, target, hidden) {
  const { network } = model;
  const count = hidden.length;
  const encoded = encode(network, repeated(embed(model, 'source', source), count), count, { hidden });
  const rows = crossMemories(network, encoded, count, hidden).flatMap((cross) => {
    const sequence = createSequence(network, cross);
    return target.map((_, position) => ({ sequence, position }));
  });
  const read = embed(model, 'target', [BOS_ID, ...target.slice(0, -1)]);
  const steps = predict(model, decode(network, rows, repeated(read, count)), ({ logits, norm }, row) => ({
    chance: logits[target[row % target.length]] - norm,
    likeliest: largestPlaces(logits, 1)[0],
  }));
  return hidden.map((_, copy) => steps.slice(copy * target.length, (copy + 1) * target.length));
}

// Each token alone, then the tokens of each word that has several.
function tokensAndWords(tokens) {
  const words = new Map();
  tokens.forEach(({ word }, place) => {
    if (word !== null) words.set(word, [...(words.get(word) ?? []), place]);
  });
  return [...tokens.map((_, place) => [place]), ...[...words.values()].filter((group) => group.length > 1)];
}
