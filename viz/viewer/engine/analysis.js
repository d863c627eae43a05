// Analysis of heads: importance, norm-based weights and single cells, as model/analysis defines them.

import { kindsOf } from '../domain/payload.js';
import { dot, matchInOrder, rounded, sum } from '../domain/math.js';
import { predict } from './model.js';
import { gatesOf } from './ablation.js';
import { attendedWith, copySequence, crossMemories, decodeAfter, encodeAfter, repeated } from './network.js';
import { softmax } from './tensors/vectors.js';
import { pass, encodeSource } from './translator.js';
import { message } from '../locales/language.js';

const ROWS = 64; // rows that are computed before other requests get a turn

// Change of the target's log-probability, in nats, when each head alone gives what the baseline gives: [layer][head] by kind.
// `pause` lets other requests run and throws an error when this one is cancelled.
/** @type {(translator: Translator, text: string, target: number[], baseline: any, pause: Pause) => Promise<ByKind<number[][]>>} */
export async function importance(translator, text, target, baseline, pause) {
  const { model } = translator;
  const { encoder, decoder, heads } = model.network;
  const source = encodeSource(translator, text, null);
  const { trace, steps } = pass(translator, source, target, null);
  const intact = sum(steps.map(({ logits, norm }, step) => logits[target[step]] - norm));
  const result = kindsOf((kind) => (kind === 'encoder' ? encoder : decoder).map(() => Array(heads).fill(0)));
  const size = copiesTogether(source.ids.length, target.length);
  const count = heads * (encoder.length + 2 * decoder.length);
  let done = 0;
  for (const { kind, layer, ablated } of workOf(model.network, size)) {
    const gates = ablated.map((head) => gatesOf(model.network, [[kind, layer, head]], baseline));
    const hidden = hiddenWith(model.network, { trace, cross: source.cross }, { kind, layer, gates }, 0, target.length);
    const totals = totalsOf(model, hidden, target);
    ablated.forEach((head, place) => {
      result[kind][layer][head] = totals[place] - intact;
    });
    done += ablated.length;
    await pause(message('{done} of {count} heads', { done, count }));
  }
  return result;
}

// Heads in groups that share an attention.
function workOf({ encoder, decoder, heads }, size) {
  const groups = [];
  for (const [kind, layers] of Object.entries({ encoder, decoder, cross: decoder }))
    for (let layer = 0; layer < layers.length; layer += 1)
      for (let start = 0; start < heads; start += size) {
        const length = Math.min(size, heads - start);
        groups.push({ kind, layer, ablated: Array.from({ length }, (_, place) => start + place) });
      }
  return groups;
}

// How many copies of a pair are computed before other requests get a turn.
/** @type {(source: number, target: number) => number} */
export const copiesTogether = (source, target) => Math.max(1, Math.floor(ROWS / Math.max(source, target)));

// The hidden rows of the decoder from `first` up to `end` for each of these gates, which close heads of one attention. Nothing
// before that attention changes, and for heads of the encoder nothing before the decoder's first cross-attention.
/** @type {(network: Network, passed: { trace: Trace; cross: CrossMemory }, place: { kind: Kind; layer: number; gates: Gates[] }, first: number, end: number) => Float32Array} */
export function hiddenWith(network, { trace, cross }, { kind, layer, gates }, first, end) {
  const rowsOf = (crossOf) =>
    gates.flatMap((_, copy) => {
      const sequence = copySequence({ cross: crossOf(copy), gates: null, layers: trace.decoder.memories });
      return Array.from({ length: end - first }, (__, place) => ({ sequence, position: first + place }));
    });
  if (kind !== 'encoder') {
    const x = attendedWith(network, kind, layer, trace, gates, first, end - first);
    const rows = rowsOf(() => cross);
    return decodeAfter(network, kind, layer, rows, x);
  }
  const encoded = encodeAfter(network, layer, attendedWith(network, kind, layer, trace, gates), gates.length);
  const memories = crossMemories(network, encoded, gates.length);
  const own = trace.inputs.cross[0].subarray(first * network.width, end * network.width);
  return decodeAfter(
    network,
    'decoder',
    0,
    rowsOf((copy) => memories[copy]),
    repeated(own, gates.length),
  );
}

function totalsOf(model, hidden, target) {
  const { length } = target;
  const chances = predict(model, hidden, ({ logits, norm }, row) => logits[target[row % length]] - norm);
  return Array.from({ length: chances.length / length }, (_, copy) =>
    sum(chances.slice(copy * length, (copy + 1) * length)),
  );
}

// ||a_ij f(x_j)|| of every head (Kobayashi et al. 2020), as arrays in the form of a trace.
/** @type {(translator: Translator, trace: Trace) => ByKind<any>} */
export const normWeights = ({ model: { network } }, trace) =>
  kindsOf((kind) => {
    const { layers, heads, rows, columns, weights } = trace[kind];
    const norms = new Float32Array(weights.length);
    for (let layer = 0; layer < layers; layer += 1) {
      const vectors = vectorNorms(network, kind, layer, trace[kind].memories[layer], columns);
      for (let head = 0; head < heads; head += 1)
        for (let row = 0; row < rows; row += 1) {
          const start = ((layer * heads + head) * rows + row) * columns;
          for (let key = 0; key < columns; key += 1) norms[start + key] = weights[start + key] * vectors[head][key];
        }
    }
    return { layers, heads, rows, columns, weights: norms };
  });

function outputOf(network, kind, layer) {
  if (kind === 'cross') return network.decoder[layer].cross.output;
  return network[kind][layer].self.output;
}

// f(x_j) of each head and key, f(x) = (x W_V + b_V) W_O of that head: what key j would add at weight 1.
/** @type {(network: Network, kind: Kind, layer: number, memory: Memory, count: number) => Float32Array[]} */
export function headVectors(network, kind, layer, { array, start, stride }, count) {
  const { width } = network;
  const values = new Float32Array(count * width);
  for (let key = 0; key < count; key += 1) {
    const from = start + key * stride + width;
    values.set(array.subarray(from, from + width), key * width);
  }
  return headOutputs(network, outputOf(network, kind, layer), values);
}

// What each head alone adds through W_O, without its bias, for each row of joined heads.
/** @type {(network: Network, output: Product, joined: Float32Array) => Float32Array[]} */
export const headOutputs = ({ products, heads, headWidth, width }, output, joined) =>
  Array.from({ length: heads }, (_, head) => {
    const own = new Float32Array(joined.length);
    for (let from = head * headWidth; from < joined.length; from += width)
      own.set(joined.subarray(from, from + headWidth), from);
    const vectors = products.multiply(output, joined.length / width, own);
    for (let place = 0; place < vectors.length; place += 1) vectors[place] -= output.bias[place % width];
    return vectors;
  });

// ||f(x_j)|| of each head and key.
function vectorNorms(network, kind, layer, memory, count) {
  const { width } = network;
  return headVectors(network, kind, layer, memory, count).map((vectors) =>
    Array.from({ length: count }, (_, key) => Math.hypot(...vectors.subarray(key * width, (key + 1) * width))),
  );
}

// How a weight is computed: query, key, products, scores and softmax of the row, and what each key adds.
/** @type {(translator: Translator, trace: Trace, place: Cell) => any} */
export function cellOf({ model: { network } }, trace, { kind, layer, head, row, column }) {
  const { headWidth } = network;
  const { columns, queries, memories } = trace[kind];
  const vectorAt = ({ array, start, stride }, place) =>
    array.subarray(start + place * stride + head * headWidth).subarray(0, headWidth);
  const query = vectorAt(queries[layer], row);
  const keys = Array.from({ length: columns }, (_, place) => vectorAt(memories[layer], place));
  const scale = headWidth ** -0.5;
  const scores = keys.map((key) => dot(key, query) * scale);
  const allowed = kind === 'decoder' ? row + 1 : columns;
  const weights = new Float32Array(columns).fill(-Infinity);
  weights.set(scores.slice(0, allowed));
  softmax(weights);
  const norms = vectorNorms(network, kind, layer, memories[layer], columns)[head].map(
    (norm, key) => norm * weights[key],
  );
  const all = (values) => Array.from(values, rounded);
  return {
    query: all(query),
    key: all(keys[column]),
    products: all(keys[column].map((value, place) => value * query[place])),
    bias: 0,
    scale,
    score: scores[column],
    scores: scores.map((score, key) => (key < allowed ? rounded(score) : null)),
    weights: all(weights),
    norm: norms[column],
    row_norms: all(norms),
  };
}

// The words of two texts; a word is marked if the other text does not have it at that place. As few words as possible are
// marked. The punctuation around a word does not count.
/** @type {(original: string, changed: string) => [before: [word: string, isChanged: boolean][], after: [word: string, isChanged: boolean][]]} */
export function changedWords(original, changed) {
  const [before, after] = [original, changed].map((text) => text.split(/\s+/u).filter(Boolean));
  const nameOf = (word) => word.replaceAll(/^[^\p{L}\p{N}_]+|[^\p{L}\p{N}_]+$/gu, '') || word;
  const places = matchInOrder(before.map(nameOf), after.map(nameOf));
  return [
    before.map((word, place) => [word, places[place] === null]),
    after.map((word, place) => [word, !places.includes(place)]),
  ];
}
