// Analysis of heads: gates, importance, norm-based weights and single cells, as
// model/analysis defines them.

import { matchInOrder } from '../domain/math.js';
import { predict } from './model.js';
import { createSequence, crossMemories, decodeAfter, encodeAfter, repeated, softmax, withoutHeads } from './network.js';
import { kindsOf } from './payload.js';
import { pass, read } from './translator.js';
import { message } from '../locales/language.js';

const ROWS = 64; // rows that are computed before other requests get a turn

// Gates of every head: 0 for these heads, [kind, layer, head] each, and 1 for all others.
export function gatesOf({ encoder, decoder, heads }, ablated) {
  const open = (layers) => layers.map(() => new Float32Array(heads).fill(1));
  const gates = { encoder: open(encoder), decoder: open(decoder), cross: open(decoder) };
  for (const [kind, layer, head] of ablated) gates[kind][layer][head] = 0;
  return gates;
}

// Change of the target's log-probability, in nats, when each head alone is ablated: [layer][head] by kind. `pause` lets other
// requests run and throws an error when this one is cancelled.
export async function importance(translator, text, target, pause) {
  const { model } = translator;
  const { encoder, decoder, heads } = model.network;
  const source = read(translator, text, null);
  const { trace, steps } = pass(translator, source, target, null);
  const intact = totalOf(steps, target);
  const result = kindsOf((kind) => (kind === 'encoder' ? encoder : decoder).map(() => Array(heads).fill(0)));
  const size = Math.max(1, Math.floor(ROWS / Math.max(source.ids.length, target.length)));
  const count = heads * (encoder.length + 2 * decoder.length);
  let done = 0;
  for (const { kind, layer, ablated } of workOf(model.network, size)) {
    const totals = totalsWithout(model, { trace, cross: source.cross }, target, { kind, layer, ablated });
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

// Log-probability of the target without each of these heads of an attention. Nothing before that attention changes, and for
// heads of the encoder nothing before the decoder's first cross-attention.
function totalsWithout(model, { trace, cross }, target, { kind, layer, ablated }) {
  const { network } = model;
  const count = ablated.length;
  const without = withoutHeads(network, kind, layer, trace, ablated);
  const rowsOf = (crossOf) =>
    ablated.flatMap((_, copy) => {
      const sequence = createSequence(network, crossOf(copy));
      return target.map((__, position) => ({ sequence, position }));
    });
  if (kind !== 'encoder')
    return totalsOf(
      model,
      decodeAfter(
        network,
        kind,
        layer,
        rowsOf(() => cross),
        without,
      ),
      target,
    );
  const memories = crossMemories(network, encodeAfter(network, layer, without, count), count);
  const rows = rowsOf((copy) => memories[copy]);
  return totalsOf(model, decodeAfter(network, 'decoder', 0, rows, repeated(trace.inputs.cross[0], count)), target);
}

// Log-probability of the target for each of some copies.
function totalsOf(model, hidden, target) {
  const steps = predict(model, hidden);
  const { length } = target;
  return Array.from({ length: steps.length / length }, (_, copy) =>
    totalOf(steps.slice(copy * length, (copy + 1) * length), target),
  );
}

function totalOf(steps, target) {
  return steps.reduce((total, { logits, norm }, step) => total + logits[target[step]] - norm, 0);
}

// ||a_ij f(x_j)|| of every head (Kobayashi et al. 2020), as arrays in the form of a trace.
export function normWeights({ model: { network } }, trace) {
  return kindsOf((kind) => {
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
}

function outputOf(network, kind, layer) {
  if (kind === 'cross') return network.decoder[layer].cross.output;
  return network[kind][layer].self.output;
}

// f(x_j) of each head and key, f(x) = (x W_V + b_V) W_O of that head: what key j would add at weight 1.
export function headVectors(network, kind, layer, { array, start, stride }, count) {
  const { products, heads, headWidth, width } = network;
  const output = outputOf(network, kind, layer);
  return Array.from({ length: heads }, (_, head) => {
    const values = new Float32Array(count * width);
    for (let key = 0; key < count; key += 1) {
      const from = start + key * stride + width + head * headWidth;
      values.set(array.subarray(from, from + headWidth), key * width + head * headWidth);
    }
    const vectors = products.multiply(output, count, values);
    for (let place = 0; place < vectors.length; place += 1) vectors[place] -= output.bias[place % width];
    return vectors;
  });
}

// ||f(x_j)|| of each head and key.
function vectorNorms(network, kind, layer, memory, count) {
  const { width } = network;
  return headVectors(network, kind, layer, memory, count).map((vectors) =>
    Array.from({ length: count }, (_, key) => Math.hypot(...vectors.subarray(key * width, (key + 1) * width))),
  );
}

// How one weight is computed: query, key, products, scores and softmax of the row, and what each key adds.
export function cellOf({ model: { network } }, trace, { kind, layer, head, row, column }) {
  const { headWidth, width } = network;
  const { columns, queries, memories } = trace[kind];
  const memory = memories[layer];
  const slice = ({ array, start, stride }, place) =>
    Array.from(array.subarray(start + place * stride, start + place * stride + width)).slice(
      head * headWidth,
      (head + 1) * headWidth,
    );
  const query = slice(queries[layer], row);
  const keys = Array.from({ length: columns }, (_, place) => slice(memory, place));
  const scale = headWidth ** -0.5;
  const dot = (key) => key.reduce((total, value, place) => total + value * query[place], 0);
  const allowed = kind === 'decoder' ? row + 1 : columns;
  const scores = keys.map((key, place) => (place < allowed ? dot(key) * scale : null));
  const weights = Float32Array.from(scores.slice(0, allowed));
  softmax(weights);
  const norms = vectorNorms(network, kind, layer, memory, columns)[head];
  const all = scores.map((_, place) => weights[place] ?? 0);
  return {
    query,
    key: keys[column],
    products: keys[column].map((value, place) => value * query[place]),
    scale,
    score: dot(keys[column]) * scale,
    scores,
    weights: all,
    norms: all.map((weight, place) => weight * norms[place]),
  };
}

// The words of two texts; a word is marked if the other text does not have it at that place. As few words as possible are
// marked. The punctuation around a word does not count.
export function changedWords(original, changed) {
  const [before, after] = [original, changed].map((text) => text.split(/\s+/u).filter(Boolean));
  const nameOf = (word) => word.replaceAll(/^[^\p{L}\p{N}_]+|[^\p{L}\p{N}_]+$/gu, '') || word;
  const places = matchInOrder(before.map(nameOf), after.map(nameOf));
  return [
    before.map((word, place) => [word, places[place] === null]),
    after.map((word, place) => [word, !places.includes(place)]),
  ];
}
