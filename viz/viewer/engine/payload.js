// Writes a translation in the format of viz/payload.py, with raw 16-bit codes of the weights instead of compressed text.

import { rounded } from '../domain/math.js';
import { SCALE, kindsOf } from '../domain/payload.js';
import { splitPrefix } from '../domain/language_prefix.js';
import { measureHeads } from './measures.js';
import { missingWords } from './omissions.js';
import { normalise } from './text/tokenizer.js';
import { inEnglish } from '../locales/language.js';

const UNIT = 1e-4; // the last digit that the page shows

// `identity` has the model's name, title and languages, `asked` the request; `settings` come from viz/static/settings.py.
export function payloadOf(translation, identity, asked, settings) {
  const { prefix, sentence } = splitPrefix(normalise(translation.sourceText), identity);
  const [source, target] = translation.languages ?? [identity.source, identity.target];
  const { measures, roles, even } = measureHeads(translation, settings.definitions);
  return {
    version: settings.version,
    model: { name: identity.name, title: identity.title },
    source_text: sentence,
    language_prefix: prefix,
    text: translation.text,
    source_language: source,
    target_language: target,
    options: { beam_size: asked.beam_size, length_penalty: asked.length_penalty },
    n_forced: translation.forcedCount,
    tokens: translation.tokens,
    log_probabilities: translation.logProbabilities.map(rounded),
    alternatives: translation.alternatives.map((step) =>
      step.map(({ token, logProbability }) => ({ ...token, log_probability: rounded(logProbability) })),
    ),
    hypotheses: translation.hypotheses.map(hypothesisOf),
    notices: translation.notices.map(inEnglish),
    said: translation.notices,
    timings: translation.timings,
    masks: settings.masks,
    definitions: settings.definitions,
    measures,
    roles,
    even,
    taught: translation.taught ?? null,
    missing: missingWords(translation),
    attention: kindsOf((kind) => packed(translation.trace[kind], quantised(translation.trace[kind].weights))),
  };
}

export function hypothesisOf({ text, score, logProbability, ids, logProbabilities }) {
  return { text, score, log_probability: logProbability, ids, log_probabilities: logProbabilities.map(rounded) };
}

function packed({ layers, heads, rows, columns }, codes) {
  return { shape: [layers, heads, rows, columns], data: codes.buffer };
}

// The nearest code of each weight that still rounds to the same four decimal digits.
const quantised = (weights) =>
  Uint16Array.from(weights, (weight) => {
    const code = Math.round(weight * SCALE);
    return code + Math.sign(Math.round(weight * 1e4) - Math.round((code / SCALE) * 1e4));
  });

// Non-negative numbers of any size, { layers, heads, rows, columns, weights }, as codes of 32 bits.
export function packValues(values) {
  const codes = Uint32Array.from(values.weights, (value) => Math.round(value / UNIT));
  return { ...packed(values, codes), unit: UNIT, scale: Math.max(0, ...values.weights) || 1 };
}
