// The record of a model's training: the curves of metrics.jsonl, and attention on a few sentence pairs at some steps,
// in the form that model/storage/probes.py describes.

import { kindsOf } from '../domain/payload.js';
import { THRESHOLDS } from '../domain/limits.js';
import { sum } from '../domain/math.js';
import { measureHeads } from './measures.js';
import { parseTensors, toFloat32 } from './tensors/safetensors.js';
import { BOS_ID, EOS_ID } from './text/tokenizer.js';
import { fault, inEnglish, message } from '../locales/language.js';

const LEVELS = 255; // codes of the weights

// `probes` are the bytes of probes.safetensors, `log` the text of metrics.jsonl or null.
/** @type {(probes: ArrayBuffer, log: string | null, sentences: any) => any} */
export function createTraining(probes, log, sentences) {
  const { tensors, metadata } = parseTensors(probes);
  const { earlier = [], steps: own, sentences: pairs } = JSON.parse(metadata.probes);
  for (const [place, part] of earlier.entries()) part.prefix = `earlier.${place}.`;
  const parts = [...earlier, { steps: own, sentences: pairs, prefix: '' }];
  const steps = parts.flatMap((part) => part.steps);
  return { tensors, parts, steps, sentences: pairs, ...curvesOf(log, sentences) };
}

// The parts with another vocabulary, by their last step; a part has a title if the next one has other languages.
/** @type {(record: any, identity: any) => any[]} */
export function earlierParts({ parts }, identity) {
  const own = [identity.source, identity.target];
  return parts.slice(0, -1).map(({ last, title, languages }, place) => {
    const after = parts[place + 1].languages ?? own;
    return { last, title: languages.every((one, side) => one === after[side]) ? '' : title };
  });
}

// Whether the record begins with a trained model, as `Probes.begin_trained` of model/storage/probes.py decides.
/** @type {(record: any, tokenizers: Tokenizers) => boolean} */
export function beginsTrained({ tensors, parts }, { target }) {
  const [{ prefix, steps, sentences, vocabulary = target.size }] = parts;
  const at = steps.indexOf(0);
  if (at < 0) return false;
  const values = sentences.flatMap((_, sentence) => chancesAt(tensors, `${prefix}${sentence}`, at));
  return -sum(values) / values.length < THRESHOLDS.trained * Math.log(vocabulary);
}

// The log-probabilities of a sentence's tokens at one of the steps; `name` begins the names of its tensors.
function chancesAt(tensors, name, at) {
  const { bytes, shape } = tensors.get(`${name}.log_probabilities`);
  const size = 4 * shape[1];
  return Array.from(toFloat32({ type: 'F32', bytes: bytes.subarray(at * size, (at + 1) * size) }));
}

function curvesOf(log, { noCurves }) {
  if (log === null) return { curves: [], notice: noCurves, said: [noCurves, {}] };
  const rows = log
    .split(/\r?\n/u)
    .slice(0, log.endsWith('\n') ? -1 : undefined)
    .map(rowOf);
  const curves = rows.filter(Boolean);
  const skipped = rows.length - curves.length;
  const said = skippedText(skipped);
  return { curves, notice: inEnglish(said), said };
}

/** @type {(skipped: number) => [string, Values]} */
function skippedText(count) {
  if (count === 0) return message('');
  if (count === 1) return message("1 line of this training's log cannot be read; the curves leave it out.");
  return message("{count:,} lines of this training's log cannot be read; the curves leave them out.", { count });
}

function rowOf(line) {
  try {
    const row = JSON.parse(line);
    const fits = Object.values(row).every((value) => typeof value === 'string' || Number.isFinite(value));
    return Number.isInteger(row.step) && row.step >= 0 && fits ? row : null;
  } catch {
    return null;
  }
}

function pairOf(sentences, place) {
  if (place in sentences) return sentences[place];
  throw fault('There is no sentence {sentence}; choose one of 0 to {last}.', {
    sentence: place,
    last: sentences.length - 1,
  });
}

/** @type {(record: any, tokenizers: Tokenizers, asked: { sentence: number }, definitions: Definitions) => any} */
export const trainingHeads = (record, tokenizers, { sentence }, definitions) =>
  record.steps.map((step) => measureHeads(trainingStep(record, tokenizers, { step, sentence }), definitions));

// One sentence at one step as a translation, whose tokens were all given.
/** @type {(record: any, tokenizers: Tokenizers, asked: { step: number; sentence: number }) => any} */
export function trainingStep({ tensors, parts, steps }, tokenizers, { step, sentence }) {
  const found = parts.find((one) => one.steps.includes(step));
  if (!found)
    throw fault('There is no probe of step {step}; choose one of {steps}.', { step, steps: steps.join(', ') });
  const at = found.steps.indexOf(step);
  const pair = pairOf(found.sentences, sentence);
  const tokens = tokensOf(found.tokens?.[sentence] ?? tokenized(pair, tokenizers), tokenizers);
  const name = `${found.prefix}${sentence}`;
  return {
    sourceText: pair.source,
    text: pair.target,
    languages: found.languages,
    tokens,
    trace: kindsOf((kind) => {
      const { bytes, shape } = tensors.get(`${name}.${kind}`);
      const [, layers, heads, rows, columns] = shape;
      const size = layers * heads * rows * columns;
      const codes = bytes.subarray(at * size, (at + 1) * size);
      return { layers, heads, rows, columns, weights: Float32Array.from(codes, (code) => code / LEVELS) };
    }),
    logProbabilities: chancesAt(tensors, name, at),
    alternatives: tokens.predicted.map(() => []), // only the attention was saved
    hypotheses: [],
    notices: [],
    timings: {},
    forcedCount: tokens.predicted.length,
  };
}

// The tokens of a pair of the last part, whose tokenizers the model has.
const tokenized = (pair, { source, target }) => ({
  source: source.sourceTokens(pair.source),
  predicted: target.tokens([...target.encode(pair.target), EOS_ID]),
});

// With what the decoder reads: <s>, then every predicted token but the last.
function tokensOf({ source, predicted }, { target }) {
  return { source, read: [...target.tokens([BOS_ID]), ...predicted.slice(0, -1)], predicted };
}
