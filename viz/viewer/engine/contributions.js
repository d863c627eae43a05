// Why this word: a logit, or the lead of a word over another, as the sum of what all parts add, as
// model/analysis/logit_attribution.py defines it.

import { kindsOf } from '../domain/payload.js';
import { dot, rounded, sum } from '../domain/math.js';
import { gateGradients, normBack, sumsOfHeads, turnedBack } from './gradients.js';
import { normaliseOutput } from './network.js';
import { rowAt, stacksOf } from './stack.js';
import { sliceOf } from './tensors/products.js';

/** @type {(translator: Translator, asked: { text: string; ids: number[]; step: number; word: number; other?: number | null }) => any} */
export function contributions(translator, { text, ids, step, word, other = null }) {
  const { network } = translator.model;
  const { products, output } = network;
  const { encoder, decoder } = stacksOf(translator, text, ids.slice(0, step + 1));
  const words = other === null ? [word] : [word, other];
  const [own, rival = new Float32Array(network.width)] = words.map((id) => products.rowOf(output, id));
  const direction = new Float64Array(decoder.x.length);
  const last = rowAt(network, direction, step);
  last.set(own.map((value, place) => value - rival[place]));
  const memory = { flow: new Float64Array(encoder.x.length), bias: 0 };
  const shares = sharesOf(decoder, direction, memory);
  const through = sharesOf(encoder, memory.flow, null);
  const bias = output.bias[word] - (other === null ? 0 : output.bias[other]);
  const gradient = gateGradients({ encoder, decoder }, direction);
  const { target } = translator.tokenizers;
  return {
    logit: rounded(dot(rowAt(network, normaliseOutput(network, decoder.x), step), last) + bias),
    decoder: { ...shares, bias: rounded(shares.bias + bias) },
    encoder: { ...through, bias: rounded(through.bias + memory.bias) },
    gradient: kindsOf((kind) => gradient[kind].map((heads) => heads.map(rounded))),
    tokens: Object.fromEntries(words.map((id) => [id, target.tokens([id])[0]])),
  };
}

// Walks back from the output of a stack, whose product with `direction` is the number to split. Adds to `memory` the direction of
// each row of the encoder's output, and the biases, whose sum is what the heads of cross-attention add.
function sharesOf({ network, rows, sublayers, norm, x, tokens, positions }, direction, memory) {
  let [flow, bias] = [direction, 0];
  const addBias = (vector) => flow.forEach((value, place) => (bias += value * vector[place % network.width]));
  const passNorm = (each, at) => {
    addBias(each.bias);
    flow = normBack(each, at, flow, true);
  };
  const heads = /** @type {any} */ ({});
  const feedForward = /** @type {number[]} */ ([]);
  if (norm) passNorm(norm, x);
  for (const { kind, norm: own, attention, y, sum: after } of sublayers.toReversed()) {
    if (!network.preNorm) passNorm(own, after);
    if (!attention) {
      feedForward.unshift(rounded(dot(flow, y)));
      continue;
    }
    const { matrices, outputs } = attention;
    const asked = turnedBack(matrices.output, flow);
    heads[kind] = [sumsOfHeads(network, asked, outputs).map(rounded), ...(heads[kind] ?? [])];
    addBias(matrices.output.bias);
    if (kind === 'cross') passToMemory(network, attention, asked, memory);
  }
  const along = (vectors) =>
    Array.from({ length: rows }, (_, row) => rounded(dot(rowAt(network, flow, row), rowAt(network, vectors, row))));
  return { tokens: along(tokens), positions: along(positions), heads, feed_forward: feedForward, bias };
}

// What the heads of cross-attention ask of each row of the encoder's output.
function passToMemory({ width, heads, headWidth }, { matrices, rows, columns, weightOf }, asked, memory) {
  const values = new Float64Array(columns * width);
  for (let head = 0; head < heads; head += 1)
    for (let row = 0; row < rows; row += 1)
      for (let key = 0; key < columns; key += 1)
        for (let at = head * headWidth; at < (head + 1) * headWidth; at += 1)
          values[key * width + at] += weightOf(head, row, key) * asked[row * width + at];
  const matrix = sliceOf(matrices.keysValues, width, 2 * width);
  turnedBack(matrix, values).forEach((value, place) => (memory.flow[place] += value));
  memory.bias += sum(Array.from(values, (value, place) => value * matrix.bias[place % width]));
}
