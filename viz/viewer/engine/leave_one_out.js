// What each token of a translation loses while source tokens are hidden, as model/analysis/leave_one_out.py defines it.

import { rounded } from '../domain/math.js';
import { copiesTogether } from './analysis.js';
import { predict } from './model.js';
import { createSequence, crossMemories, decodeAfter, encode, repeated } from './network.js';
import { largestPlaces } from './search.js';
import { INVISIBLE } from './text/tokenizer.js';
import { pass, encodeSource } from './translator.js';
import { message } from '../locales/language.js';

// `losses` and the likeliest words `likeliest` are [group][step]; `groups` are places of source tokens.
/** @type {(translator: Translator, text: string, target: number[], pause: any) => Promise<any>} */
export async function leaveOneOut(translator, text, target, pause) {
  const { model, tokenizers } = translator;
  const source = encodeSource(translator, text, null);
  const { trace, steps: intact } = pass(translator, source, target, null);
  const groups = tokensAndWords(tokenizers.source.sourceTokens(text.replaceAll(INVISIBLE, '')));
  const size = copiesTogether(source.ids.length, target.length);
  const found = [];
  for (let start = 0; start < groups.length; start += size) {
    found.push(...stepsWithout(model, trace, target, groups.slice(start, start + size)));
    await pause(message('{done} of {count} source tokens', { done: found.length, count: groups.length }));
  }
  const chances = intact.map(({ logits, norm }, step) => logits[target[step]] - norm);
  const likeliest = found.map((steps) => steps.map((step) => step.likeliest));
  return {
    groups,
    losses: found.map((steps) => steps.map(({ chance }, step) => rounded(chances[step] - chance))),
    likeliest,
    tokens: Object.fromEntries([...new Set(likeliest.flat())].map((id) => [id, tokenizers.target.tokens([id])[0]])),
  };
}

// The log-probability of each target token and the likeliest token of its step, without each of these groups. Nothing changes
// before the decoder's first cross-attention.
function stepsWithout(model, { inputs }, target, hidden) {
  const { network } = model;
  const count = hidden.length;
  const encoded = encode(network, repeated(inputs.encoder[0], count), count, { hidden });
  const rows = crossMemories(network, encoded, count, hidden).flatMap((cross) => {
    const sequence = createSequence(network, cross);
    return target.map((_, position) => ({ sequence, position }));
  });
  const written = decodeAfter(network, 'decoder', 0, rows, repeated(inputs.cross[0], count));
  const steps = predict(model, written, ({ logits, norm }, row) => ({
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
