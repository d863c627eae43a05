// The Transformer of model/network, in eval mode: encoder layers, decoder layers and the output projection. Every
// attention weight can be traced.
//
// Rows of several sentences or hypotheses go through the products together; each row attends to the keys of its own
// sequence. Keys and values of a layer are a `memory` { array, start, stride }: the key of position p begins at
// start + p * stride, its value d_model numbers later.

import { addWeighted, dot, softmax } from './tensors/vectors.js';

export const EPSILON = 1e-5; // of LayerNorm
const FIRST_CAPACITY = 32; // positions of a new cache
const NOTHING = [];
const STEP = 1e-4;

// The error function, by a series whose terms are all positive, so that nothing cancels (Abramowitz and Stegun 7.1.6).
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let total = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total); n += 1) {
    term *= (2 * x * x) / (2 * n + 1);
    total += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * total;
}

export const ACTIVATIONS = {
  relu: (x) => (x + Math.abs(x)) / 2, // the same as Math.max(0, x) without a branch, which is hard to predict here
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
  gelu_new: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
};

// The slope of the activation, by a difference small enough for the smooth ones.
/** @type {(network: Pick<Network, 'activate'>, x: number) => number} */
export function slopeOf({ activate }, x) {
  if (activate === ACTIVATIONS.relu) return Number(x > 0);
  return (activate(x + STEP) - activate(x - STEP)) / (2 * STEP);
}

// `blocks` are the layers with their matrices and norms, `products` computes products with the matrices.
/** @type {(config: any, blocks: any, products: Products) => Network} */
export function createNetwork(config, blocks, products) {
  const { d_model: width, n_heads: heads, norm, activation = 'relu' } = config;
  return {
    ...blocks,
    products,
    width,
    heads,
    headWidth: width / heads,
    preNorm: norm === 'pre',
    activate: ACTIVATIONS[activation],
  };
}

// The encoder

// Encodes `count` copies of a sentence of embedded rows, copy i with gates[i] and without the places hidden[i]. The trace,
// if one is wanted, is of a single copy.
/** @type {(network: any, x: Float32Array, count: number, how?: { gates?: (Gates | null)[]; hidden?: number[][]; trace?: any }) => Float32Array} */
export const encode = (network, x, count, { gates = [], hidden = [], trace = null } = {}) =>
  encodeFrom(network, 0, x, count, { gates, hidden, trace });

// Encodes copies from what the attention of a layer added to them.
/** @type {(network: Network, layer: number, x: Float32Array, count: number) => Float32Array} */
export function encodeAfter(network, layer, x, count) {
  const attended = feedForward(network, network.encoder[layer], x.length / network.width, x);
  return encodeFrom(network, layer + 1, attended, count, { gates: [], hidden: [], trace: null });
}

function encodeFrom(network, first, x, count, options) {
  let rows = x;
  for (let layer = first; layer < network.encoder.length; layer += 1)
    rows = encoderLayer(network, layer, rows, count, options);
  if (options.trace) options.trace.last.encoder = rows;
  return network.preNorm ? normalise(rows, network.encoderNorm) : rows;
}

function encoderLayer(network, layer, x, count, { gates, hidden, trace }) {
  const { width, products } = network;
  const block = network.encoder[layer];
  const rows = x.length / width;
  const length = rows / count;
  trace?.inputs.encoder.push(x);
  const projected = products.multiply(block.self.project, rows, pre(network, x, block.selfNorm));
  const joined = new Float32Array(rows * width);
  for (let copy = 0; copy < count; copy += 1) {
    const start = copy * length * 3 * width;
    const memory = { array: projected, start: start + width, stride: 3 * width };
    for (let row = 0; row < length; row += 1) {
      const gate = gates[copy]?.('encoder', layer, row);
      const query = { array: projected, start: start + row * 3 * width };
      const output = { array: joined, start: (copy * length + row) * width };
      attend(network, query, memory, length, gate, output, weightsOf(trace?.encoder, layer, row), hidden[copy]);
    }
    trace?.keep('encoder', { array: projected, start, stride: 3 * width }, memory, joined);
  }
  const attended = post(network, x, products.multiply(block.self.output, rows, joined), block.selfNorm);
  return feedForward(network, block, rows, attended);
}

// Keys and values of the encoder's output for each decoder layer and sentence; sentence i is read without the places hidden[i].
/** @type {(network: Network, encoded: Float32Array, count: number, hidden?: number[][]) => CrossMemory[]} */
export function crossMemories({ products, decoder, width }, encoded, count, hidden = []) {
  const rows = encoded.length / width;
  const layers = decoder.map(({ cross }) => products.multiply(cross.keysValues, rows, encoded));
  const length = rows / count;
  return Array.from({ length: count }, (_, copy) => ({
    length,
    hidden: hidden[copy],
    layers: layers.map((array) => ({ array, start: copy * length * 2 * width, stride: 2 * width })),
  }));
}

// The decoder

// A hypothesis that the decoder reads: what it attends to, its gates and its cache.
/** @type {(network: Network, cross: CrossMemory, gates?: Gates | null) => Sequence} */
export function createSequence({ decoder, width }, cross, gates = null) {
  const layers = decoder.map(() => ({
    array: new Float32Array(FIRST_CAPACITY * 2 * width),
    start: 0,
    stride: 2 * width,
  }));
  return { cross, gates, layers };
}

// A copy that continues the same beginning on its own.
/** @type {(sequence: Sequence) => Sequence} */
export function copySequence({ cross, gates, layers }) {
  return { cross, gates, layers: layers.map((memory) => ({ ...memory, array: memory.array.slice() })) };
}

// Reads embedded rows, each { sequence, position }; returns the hidden rows before the output.
/** @type {(network: Network, rows: Row[], x: Float32Array, how?: { trace?: Trace | null }) => Float32Array} */
export const decode = (network, rows, x, { trace = null } = {}) => decodeFrom(network, 0, rows, x, trace);

// Reads rows from what an attention of a layer, `decoder` or `cross`, added to them.
/** @type {(network: Network, kind: Kind, layer: number, rows: Row[], x: Float32Array) => Float32Array} */
export function decodeAfter(network, kind, layer, rows, x) {
  const crossed = kind === 'cross' ? x : crossAttend(network, layer, rows, x, null);
  return decodeFrom(network, layer + 1, rows, feedForward(network, network.decoder[layer], rows.length, crossed), null);
}

function decodeFrom(network, first, rows, x, trace) {
  let hidden = x;
  for (let layer = first; layer < network.decoder.length; layer += 1)
    hidden = decoderLayer(network, layer, rows, hidden, trace);
  if (trace) trace.last.decoder = hidden;
  return normaliseOutput(network, hidden);
}

// The decoder's final norm, which only pre-norm has.
/** @type {(network: Pick<Network, 'preNorm' | 'decoderNorm'>, x: Float32Array) => Float32Array} */
export const normaliseOutput = ({ preNorm, decoderNorm }, x) => (preNorm ? normalise(x, decoderNorm) : x);

function decoderLayer(network, layer, rows, x, trace) {
  const { width, products } = network;
  const block = network.decoder[layer];
  const count = rows.length;
  trace?.inputs.decoder.push(x);
  const projected = products.multiply(block.self.project, count, pre(network, x, block.selfNorm));
  rows.forEach(({ sequence, position }, row) => {
    const memory = withRoom(sequence.layers[layer], position);
    memory.array.set(projected.subarray((3 * row + 1) * width, (3 * row + 3) * width), position * memory.stride);
  });
  const joined = new Float32Array(count * width);
  rows.forEach(({ sequence, position }, row) => {
    const query = { array: projected, start: row * 3 * width };
    const output = { array: joined, start: row * width };
    const weights = weightsOf(trace?.decoder, layer, position);
    const gate = sequence.gates?.('decoder', layer, position);
    attend(network, query, sequence.layers[layer], position + 1, gate, output, weights);
  });
  trace?.keep('decoder', { array: projected, start: 0, stride: 3 * width }, rows[0].sequence.layers[layer], joined);
  const attended = post(network, x, products.multiply(block.self.output, count, joined), block.selfNorm);
  return feedForward(network, block, count, crossAttend(network, layer, rows, attended, trace));
}

function crossAttend(network, layer, rows, x, trace) {
  const { width, products } = network;
  const block = network.decoder[layer];
  trace?.inputs.cross.push(x);
  const queries = products.multiply(block.cross.queries, rows.length, pre(network, x, block.crossNorm));
  const joined = new Float32Array(rows.length * width);
  rows.forEach(({ sequence: { cross, gates }, position }, row) => {
    const query = { array: queries, start: row * width };
    const output = { array: joined, start: row * width };
    const weights = weightsOf(trace?.cross, layer, position);
    const gate = gates?.('cross', layer, position);
    attend(network, query, cross.layers[layer], cross.length, gate, output, weights, cross.hidden);
  });
  trace?.keep('cross', { array: queries, start: 0, stride: width }, rows[0].sequence.cross.layers[layer], joined);
  return post(network, x, products.multiply(block.cross.output, rows.length, joined), block.crossNorm);
}

// A cache that can hold this position; it doubles when it is full.
function withRoom(memory, position) {
  if ((position + 1) * memory.stride > memory.array.length) {
    const larger = new Float32Array(2 * memory.array.length);
    larger.set(memory.array);
    memory.array = larger;
    return withRoom(memory, position);
  }
  return memory;
}

// What the rows of a trace from `first` on, `count` of them, are after an attention, once for each of these gates.
/** @type {(network: any, kind: Kind, layer: number, trace: any, gates: Gates[], first?: number, count?: number) => Float32Array} */
export function attendedWith(network, kind, layer, { inputs, [kind]: all }, gates, first = 0, count = all.rows) {
  const { width, products } = network;
  const block = (kind === 'encoder' ? network.encoder : network.decoder)[layer];
  const [{ output }, norm] = kind === 'cross' ? [block.cross, block.crossNorm] : [block.self, block.selfNorm];
  const [x, joined] = [inputs[kind][layer], all.outputs[layer]].map((rows) =>
    repeated(rows.subarray(first * width, (first + count) * width), gates.length),
  );
  gates.forEach((gateOf, copy) => {
    for (let row = 0; row < count; row += 1) {
      const start = (copy * count + row) * width;
      close(network, gateOf(kind, layer, first + row), joined, start);
    }
  });
  return post(network, x, products.multiply(output, x.length / width, joined), norm);
}

// Puts what a gate says in the place of the outputs of its heads.
function close({ headWidth }, gate, outputs, start) {
  gate?.closed.forEach((head) => {
    const from = head * headWidth;
    if (gate.outputs) outputs.set(gate.outputs.subarray(from, from + headWidth), start + from);
    else outputs.fill(0, start + from, start + from + headWidth);
  });
}

/** @type {(x: Float32Array, count: number) => Float32Array} */
export function repeated(x, count) {
  const copies = new Float32Array(x.length * count);
  for (let copy = 0; copy < count; copy += 1) copies.set(x, copy * x.length);
  return copies;
}

// Parts of a layer

// Scaled dot-product attention of one row over the first `count` keys without the `hidden` ones, for each head (equation
// 1). The output is added to what is there; then the gate closes heads.
/** @type {(network: Pick<Network, 'width' | 'heads' | 'headWidth'>, query: Vector, memory: Memory, count: number, gate: Gate, output: Vector, weights: Memory | null, hidden?: number[]) => void} */
export function attend(network, query, memory, count, gate, output, weights, hidden = NOTHING) {
  const { heads, headWidth, width } = network;
  const scale = headWidth ** -0.5;
  const scores = new Float32Array(count);
  const { array: queries } = query; // the loops below are the engine's hottest in JavaScript
  const { array: keys, stride } = memory;
  const { array: outputs } = output;
  for (let head = 0; head < heads; head += 1) {
    const [from, to] = [query.start + head * headWidth, output.start + head * headWidth];
    const at = memory.start + head * headWidth;
    for (let key = 0; key < count; key += 1)
      scores[key] = dot(queries, from, keys, at + key * stride, headWidth) * scale;
    for (const key of hidden) scores[key] = -Infinity;
    softmax(scores);
    if (weights) weights.array.set(scores, weights.start + head * weights.stride);
    addWeighted(scores, { all: keys, at: at + width, stride }, outputs, to, headWidth);
  }
  close(network, gate, outputs, output.start);
}

const feedForward = (network, block, rows, x) =>
  post(network, x, narrowed(network, block, rows, widened(network, block, rows, x)), block.feedForwardNorm);

// The two halves of a feed-forward network: its inner numbers before the activation, and what it adds.
/** @type {(network: Pick<Network, 'products' | 'preNorm'>, block: any, rows: number, x: Float32Array) => Float32Array} */
export const widened = ({ products, preNorm }, block, rows, x) =>
  products.multiply(block.inner, rows, pre({ preNorm }, x, block.feedForwardNorm));

/** @type {(network: Pick<Network, 'products' | 'activate'>, block: any, rows: number, wide: Float32Array) => Float32Array} */
export function narrowed({ products, activate }, block, rows, wide) {
  const active = new Float32Array(wide.length);
  for (let place = 0; place < wide.length; place += 1) active[place] = activate(wide[place]); // map takes five times as long
  return products.multiply(block.outer, rows, active);
}

// LayerNorm around a sub-layer, as model/network/layers.py: Residual places it.
const pre = ({ preNorm }, x, norm) => (preNorm ? normalise(x, norm) : x);

// Changes y.
/** @type {(network: Pick<Network, 'preNorm'>, x: Float32Array, y: Float32Array, norm: Norm) => Float32Array} */
export function post({ preNorm }, x, y, norm) {
  for (let place = 0; place < y.length; place += 1) y[place] += x[place];
  return preNorm ? y : normalise(y, norm);
}

// LayerNorm of each row. A training keeps the rows before gain and bias, `unit`, and the factor of each row.
/** @type {(x: Float32Array, norm: any, result?: Float32Array, kept?: any) => Float32Array} */
export function normalise(x, { weight, bias }, result = new Float32Array(x.length), kept = null) {
  const width = weight.length;
  for (let start = 0; start < x.length; start += width) {
    let mean = 0;
    for (let place = 0; place < width; place += 1) mean += x[start + place];
    mean /= width;
    let variance = 0;
    for (let place = 0; place < width; place += 1) variance += (x[start + place] - mean) ** 2;
    const factor = 1 / Math.sqrt(variance / width + EPSILON);
    for (let place = 0; place < width; place += 1)
      result[start + place] = (x[start + place] - mean) * factor * weight[place] + bias[place];
    if (!kept) continue;
    kept.factors[start / width] = factor;
    for (let place = 0; place < width; place += 1) kept.unit[start + place] = (x[start + place] - mean) * factor;
  }
  return result;
}

// Traces

// Where the weights of a row go; null without a trace.
function weightsOf(kind, layer, row) {
  if (!kind) return null;
  const { heads, rows, columns, weights } = kind;
  return { array: weights, start: (layer * heads * rows + row) * columns, stride: rows * columns };
}

// Room for every weight of a sentence and a target, [layer, head, query, key], and for what each layer reads and adds: its
// input, its queries, its keys and values, and the outputs of its heads.
/** @type {(network: any, sourceLength: number, targetLength: number) => any} */
export function createTrace({ encoder, decoder, heads }, sourceLength, targetLength) {
  const array = (layers, rows, columns) => ({
    layers,
    heads,
    rows,
    columns,
    weights: new Float32Array(layers * heads * rows * columns),
    queries: [],
    memories: [],
    outputs: [],
  });
  const trace = {
    encoder: array(encoder.length, sourceLength, sourceLength),
    decoder: array(decoder.length, targetLength, targetLength),
    cross: array(decoder.length, targetLength, sourceLength),
    inputs: { encoder: [], decoder: [], cross: [] },
    last: { encoder: null, decoder: null }, // the rows after the last layer of each side, before its norm
    keep(kind, queries, memory, outputs) {
      trace[kind].queries.push(queries);
      trace[kind].memories.push(memory);
      trace[kind].outputs.push(outputs);
    },
  };
  return trace;
}

// The weights of the first `length` steps of a trace that has room for more.
/** @type {(trace: Trace, length: number) => ByKind<KindTrace>} */
export function cutTrace(trace, length) {
  const { decoder, cross } = trace;
  const cut = (kind, columns) => {
    const weights = new Float32Array(kind.layers * kind.heads * length * columns);
    for (let line = 0; line < kind.layers * kind.heads * length; line += 1) {
      const start = (Math.floor(line / length) * kind.rows + (line % length)) * kind.columns;
      weights.set(kind.weights.subarray(start, start + columns), line * columns);
    }
    return { ...kind, rows: length, columns, weights };
  };
  return { encoder: trace.encoder, decoder: cut(decoder, length), cross: cut(cross, cross.columns) };
}
