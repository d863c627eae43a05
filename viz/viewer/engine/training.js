// The record of a model's training: the curves of metrics.jsonl, and attention on a few sentence pairs at some steps,
// in the form that model/storage/probes.py describes.

import { sum } from '../core/math.js';
import { measureHeads } from './measures.js';
import { readTensors, toFloat32 } from './tensors/safetensors.js';
import { BOS_ID, EOS_ID } from './text/tokenizer.js';
import { kindsOf } from './payload.js';
import { fault, inEnglish, message } from '../locales/language.js';

const LEVELS = 255; // codes of the weights
const TRAINED_BELOW = 0.5; // of the loss of a uniform guess, as in model/storage/probes.py

// `probes` are the bytes of probes.safetensors, `log` the text of metrics.jsonl or null.
export function createTraining(probes, log, sentences) {
  const { tensors, metadata } = readTensors(probes);
  const header = JSON.parse(metadata.probes);
  return { tensors, ...header, ...curvesOf(log, sentences) };
}

// Whether the run began with the weights of a trained model, as `Probes.begin_trained` of model/storage/probes.py decides.
export function beginsTrained({ tensors, steps, sentences }, { target }) {
  const at = steps.indexOf(0);
  if (at < 0) return false;
  const values = sentences.flatMap((_, sentence) => {
    const { shape } = tensors.get(`${sentence}.log_probabilities`);
    return chancesAt(tensors, sentence, at, shape[1]);
  });
  return -sum(values) / values.length < TRAINED_BELOW * Math.log(target.size);
}

// The log-probabilities of a sentence's tokens at one of the steps.
function chancesAt(tensors, sentence, at, count) {
  const { bytes } = tensors.get(`${sentence}.log_probabilities`);
  return Array.from(toFloat32({ type: 'F32', bytes: bytes.subarray(at * 4 * count, (at + 1) * 4 * count) }));
}

// The valid rows of the log, and a notice about the others.
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

function skippedText(count) {
  if (count === 0) return message('');
  if (count === 1) return message("1 line of this training's log cannot be read; the curves leave them out.");
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

// The measures and the roles of all heads for one sentence, at each step.
export function trainingHeads(record, tokenizers, { sentence }, definitions) {
  return record.steps.map((step) => measureHeads(trainingStep(record, tokenizers, { step, sentence }), definitions));
}

// One sentence at one step as a translation, whose tokens were all given.
export function trainingStep({ tensors, steps, sentences }, { source, target }, { step, sentence }) {
  const at = steps.indexOf(step);
  if (at < 0)
    throw fault('There is no probe of step {step}; choose one of {steps}.', { step, steps: steps.join(', ') });
  const pair = pairOf(sentences, sentence);
  const ids = [...target.encode(pair.target), EOS_ID];
  const part = (name, size) => tensors.get(name).bytes.subarray(at * size, (at + 1) * size);
  return {
    sourceText: pair.source,
    text: pair.target,
    tokens: {
      source: source.sourceTokens(pair.source),
      read: target.tokens([BOS_ID, ...ids.slice(0, -1)]),
      predicted: target.tokens(ids),
    },
    trace: kindsOf((kind) => {
      const [, layers, heads, rows, columns] = tensors.get(`${sentence}.${kind}`).shape;
      const codes = part(`${sentence}.${kind}`, layers * heads * rows * columns);
      return { layers, heads, rows, columns, weights: Float32Array.from(codes, (code) => code / LEVELS) };
    }),
    logProbabilities: chancesAt(tensors, sentence, at, ids.length),
    alternatives: ids.map(() => []), // only the attention was saved
    hypotheses: [],
    notices: [],
    timings: {},
    prefixLength: ids.length,
  };
}
