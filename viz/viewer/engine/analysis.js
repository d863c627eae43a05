// What the model's inside says about its heads: gates, importance, norm-based weights, rollout and single cells, as
// model/analysis defines them.

import { predict } from './model.js';
import { createSequence, crossMemories, decode, encode, softmax } from './network.js';
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

// Change of the target's log-probability, in nats, when each head alone is ablated: [layer][head] by kind. An ablation
// changes nothing below its layer, so it starts with what the intact model computed there. `pause` lets other requests
// run and throws an error when this one is cancelled.
export async function importance(translator, text, target, pause) {
  const { model } = translator;
  const { encoder, decoder, heads } = model.network;
  const source = read(translator, text, null);
  const { trace, steps } = pass(translator, source, target, null);
  const intact = totalOf(steps, target);
  const result = kindsOf((kind) => (kind === 'encoder' ? encoder : decoder).map(() => Array(heads).fill(0)));
  const work = workOf(model.network, Math.max(1, Math.floor(ROWS / Math.max(source.ids.length, target.length))));
  const count = heads * (encoder.length + 2 * decoder.length);
  let done = 0;
  for (const { layer, ablated } of work) {
    const gates = ablated.map((head) => gatesOf(model.network, [head]));
    const totals =
      ablated[0][0] === 'encoder'
        ? withoutEncoderHeads(model, trace, target, layer, gates)
        : totalsFrom(model, trace.inputs.decoder[layer], target, layer, gates, () => source.cross);
    ablated.forEach(([kind, at, head], place) => {
      result[kind][at][head] = totals[place] - intact;
    });
    done += ablated.length;
    await pause(message('{done} of {count} heads', { done, count }));
  }
  return result;
}

// Heads in groups that share a layer.
function workOf({ encoder, decoder, heads }, size) {
  const groups = [];
  for (const [kind, layers] of Object.entries({ encoder, decoder, cross: decoder }))
    for (let layer = 0; layer < layers.length; layer += 1)
      for (let start = 0; start < heads; start += size) {
        const length = Math.min(size, heads - start);
        groups.push({ layer, ablated: Array.from({ length }, (_, place) => [kind, layer, start + place]) });
      }
  return groups;
}

function withoutEncoderHeads(model, { inputs }, target, layer, gates) {
  const { network } = model;
  const encoded = encode(network, repeated(inputs.encoder[layer], gates.length), gates.length, { gates, from: layer });
  const cross = crossMemories(network, encoded, gates.length);
  return totalsFrom(model, inputs.decoder[0], target, 0, gates, (copy) => cross[copy]);
}

// Log-probability of the target for each of the gates, from this layer of the decoder on.
function totalsFrom(model, x, target, layer, gates, crossOf) {
  const { network } = model;
  const rows = gates.flatMap((each, copy) => {
    const sequence = createSequence(network, crossOf(copy), each);
    return target.map((_, position) => ({ sequence, position }));
  });
  const steps = predict(model, decode(network, rows, repeated(x, gates.length), { from: layer }));
  return gates.map((_, copy) => totalOf(steps.slice(copy * target.length, (copy + 1) * target.length), target));
}

function totalOf(steps, target) {
  return steps.reduce((total, { logits, norm }, step) => total + logits[target[step]] - norm, 0);
}

function repeated(x, count) {
  const copies = new Float32Array(x.length * count);
  for (let copy = 0; copy < count; copy += 1) copies.set(x, copy * x.length);
  return copies;
}

// ||a_ij f(x_j)|| of every head (Kobayashi et al. 2020), as arrays like those of a trace.
export function normWeights({ model: { network } }, trace) {
  return kindsOf((kind) => {
    const { layers, heads, rows, columns, weights } = trace[kind];
    const norms = new Float32Array(weights.length);
    for (let layer = 0; layer < layers; layer += 1) {
      const vectors = vectorNorms(network, outputOf(network, kind, layer), trace[kind].memories[layer], columns);
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

// ||f(x_j)|| of each head and key, f(x) = (x W_V + b_V) W_O of that head: what key j would add at weight 1.
function vectorNorms({ products, heads, headWidth, width }, output, { array, start, stride }, count) {
  return Array.from({ length: heads }, (_, head) => {
    const values = new Float32Array(count * width);
    for (let key = 0; key < count; key += 1) {
      const from = start + key * stride + width + head * headWidth;
      values.set(array.subarray(from, from + headWidth), key * width + head * headWidth);
    }
    const vectors = products.multiply(output, count, values);
    return Array.from({ length: count }, (__, key) =>
      Math.hypot(...output.bias.map((bias, place) => vectors[key * width + place] - bias)),
    );
  });
}

// Attention rollout (Abnar and Zuidema 2020), extended to the decoder as in model/analysis/attribution.py. Arrays like
// those of a trace, with one head.
export function rollout(trace) {
  const means = kindsOf((kind) => meansOf(trace[kind]));
  const encoder = [];
  for (const layer of means.encoder) {
    const step = halved(layer);
    encoder.push(encoder.length === 0 ? step : times(step, encoder.at(-1)));
  }
  const [decoder, cross] = [[], []];
  let prefix = identity(trace.decoder.rows);
  let source = means.cross[0].map((row) => row.map(() => 0));
  means.decoder.forEach((layer, place) => {
    const step = halved(layer);
    prefix = scaled(times(step, prefix), 0.5);
    source = plus(scaled(times(step, source), 0.5), scaled(times(means.cross[place], encoder.at(-1)), 0.5));
    decoder.push(prefix);
    cross.push(source);
  });
  const rolled = { encoder, decoder, cross };
  return kindsOf((kind) => {
    const { layers, rows, columns } = trace[kind];
    return { layers, heads: 1, rows, columns, weights: Float32Array.from(rolled[kind].flat(2)) };
  });
}

// The mean over the heads of each layer, as lists of rows.
function meansOf({ layers, heads, rows, columns, weights }) {
  const at = (layer, head, row, column) => weights[((layer * heads + head) * rows + row) * columns + column];
  const range = (length, valueOf) => Array.from({ length }, (_, place) => valueOf(place));
  return range(layers, (layer) =>
    range(rows, (row) =>
      range(columns, (column) => range(heads, (head) => at(layer, head, row, column)).reduce((a, b) => a + b) / heads),
    ),
  );
}

function identity(size) {
  return Array.from({ length: size }, (_, row) => Array.from({ length: size }, (__, column) => Number(row === column)));
}

function halved(layer) {
  return plus(scaled(layer, 0.5), scaled(identity(layer.length), 0.5));
}

function scaled(matrix, factor) {
  return matrix.map((row) => row.map((value) => value * factor));
}

function plus(one, other) {
  return one.map((row, place) => row.map((value, column) => value + other[place][column]));
}

function times(one, other) {
  return one.map((row) =>
    other[0].map((_, column) => row.reduce((total, value, place) => total + value * other[place][column], 0)),
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
  const norms = vectorNorms(network, outputOf(network, kind, layer), memory, columns)[head];
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

// The words of two texts; a word is marked if the other text does not have it at that place.
export function changedWords(original, changed) {
  const [before, after] = [original, changed].map((text) => text.split(/\s+/u).filter(Boolean));
  const marks = [before, after].map((words) => words.map((word) => [word, true]));
  for (const [a, b, size] of matchingBlocks(before, after, 0, before.length, 0, after.length))
    for (let place = 0; place < size; place += 1) marks[0][a + place][1] = marks[1][b + place][1] = false;
  return marks;
}

// Blocks that two lists share, as difflib.SequenceMatcher finds them: the longest first, then those on its sides.
function matchingBlocks(one, other, oneStart, oneEnd, otherStart, otherEnd) {
  let [a, b, size] = [oneStart, otherStart, 0];
  for (let i = oneStart; i < oneEnd; i += 1)
    for (let j = otherStart; j < otherEnd; j += 1) {
      let length = 0;
      while (i + length < oneEnd && j + length < otherEnd && one[i + length] === other[j + length]) length += 1;
      if (length > size) [a, b, size] = [i, j, length];
    }
  if (size === 0) return [];
  return [
    ...matchingBlocks(one, other, oneStart, a, otherStart, b),
    [a, b, size],
    ...matchingBlocks(one, other, a + size, oneEnd, b + size, otherEnd),
  ];
}
