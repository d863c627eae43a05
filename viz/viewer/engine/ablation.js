// Ablation, as model/analysis/patching.py defines it: heads give zero, their mean, or what they give for another sentence.

import { kindsOf } from '../domain/payload.js';
import { pass, encodeSource, translate } from './translator.js';
import { fault, message } from '../locales/language.js';

export const ZERO = { outputs: null };

// Gates that close these heads, [kind, layer, head] each, in all rows or in one. A baseline has outputs,
// [layer] by kind, to put in place of the outputs of the heads: one row for all rows (a mean), or row by row; in rows that it
// does not have, heads keep their own output.
/** @type {(network: any, heads: any[], baseline?: any, only?: number | null) => Gates} */
export function gatesOf({ width }, heads, { outputs } = ZERO, only = null) {
  const gateOf = (kind, layer, row) => {
    const closed = heads.filter((one) => one[0] === kind && one[1] === layer).map(([, , head]) => head);
    if (closed.length === 0 || (only !== null && row !== only)) return null;
    if (!outputs) return { closed, outputs: null };
    const own = outputs[kind][layer];
    const start = own.length === width ? 0 : row * width;
    return start < own.length ? { closed, outputs: own.subarray(start, start + width) } : null;
  };
  return Object.assign(gateOf, { isOfEncoder: heads.some(([kind]) => kind === 'encoder') });
}

// The gates of a request. A row belongs to the source for heads of the encoder, and to the translation for the others.
/** @type {(translator: Translator, asked: { heads: Head[]; row?: number | null }, baseline: any, translation: { tokens: any; ids: number[] }) => Gates} */
export function gatesAsked({ model: { network } }, { heads, row = null }, baseline, { tokens, ids }) {
  if (row === null) return gatesOf(network, heads, baseline);
  const [source, steps] = [tokens.source.length, ids.length];
  const kinds = [...new Set(heads.map(([kind]) => kind))];
  if (kinds.some((kind) => row >= (kind === 'encoder' ? source : steps)))
    throw fault('There is no row {row}; the sentence has {source} rows and its translation {steps}.', {
      row,
      source,
      steps,
    });
  const rowsOf = (kind) => (baseline.name === 'sentence' ? baseline.rows[kind] : Infinity);
  const short = kinds.find((kind) => row >= rowsOf(kind));
  if (short)
    throw fault('There is no row {row} to replace; rows go from 0 to {last}.', { row, last: rowsOf(short) - 1 });
  if (kinds.includes('encoder') && kinds.length > 1)
    throw fault('A row belongs to the source or to the translation; choose heads of one of them.');
  return gatesOf(network, heads, baseline, row);
}

// What muted heads give instead of nothing; the last mean is kept, because the page asks for the same one at every click.
/** @type {(loaded: Loaded, asked: { baseline?: string; sample?: string[]; other?: string }, pause: Pause) => Promise<any>} */
export async function baselineOf(loaded, { baseline = 'zero', sample = [], other = '' }, pause) {
  if (baseline === 'mean') return meanOf(loaded, sample, pause);
  if (baseline !== 'sentence') return ZERO;
  const { text, trace } = translationOf(loaded.translator, other);
  return about(
    'sentence',
    kindsOf((kind) => trace[kind].outputs),
    loaded,
    { translation: text },
  );
}

async function meanOf(loaded, sample, pause) {
  const key = JSON.stringify(sample);
  if (loaded.mean?.key !== key) loaded.mean = { key, baseline: await meanOver(loaded, sample, pause) };
  return loaded.mean.baseline;
}

// Sentences that the model cannot read are left out.
async function meanOver(loaded, sample, pause) {
  const { width } = loaded.translator.model.network;
  const sums = kindsOf(() => /** @type {Float64Array[]} */ ([]));
  const counts = kindsOf(() => 0);
  let sentences = 0;
  for (const [place, sentence] of sample.entries()) {
    await pause(message('{done} of {count} sentences', { done: place, count: sample.length }));
    const found = readable(() => translationOf(loaded.translator, sentence));
    if (found.said) continue;
    sentences += 1;
    kindsOf((kind) => {
      const { outputs } = found.trace[kind];
      outputs.forEach((rows, layer) => {
        const total = (sums[kind][layer] ??= new Float64Array(width));
        rows.forEach((value, at) => (total[at % width] += value));
      });
      counts[kind] += outputs[0].length / width;
    });
  }
  if (sentences === 0) throw fault('The model can read none of these sentences; give others.');
  const means = kindsOf((kind) => sums[kind].map((total) => Float32Array.from(total, (value) => value / counts[kind])));
  return about('mean', means, loaded, { sentences });
}

// What `find` returns, or the error of a sentence that the model cannot read.
/** @type {<Found extends object>(find: () => Found) => Found & { said?: Said }} */
export function readable(find) {
  try {
    return find();
  } catch (error) {
    if (error.said) return error;
    throw error;
  }
}

// The greedy translation, with the trace of a pass over it.
function translationOf(translator, sentence) {
  const { text, tokens } = translate(translator, sentence, {});
  const ids = tokens.predicted.map(({ id }) => id);
  return { text, trace: pass(translator, encodeSource(translator, sentence, null), ids, null).trace };
}

function about(name, outputs, { translator }, { sentences = 0, translation = '' }) {
  const { width } = translator.model.network;
  return { outputs, name, sentences, translation, rows: kindsOf((kind) => outputs[kind][0].length / width) };
}

/** @type {(baseline: any) => { baseline?: MuteBaseline }} */
export const aboutBaseline = ({ outputs, ...baseline }) => (outputs ? { baseline } : {});
