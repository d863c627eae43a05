// Gradients, backwards through the network: how fast a number at the decoder's output changes with the output of each head. A
// training of the playground uses the step through an attention too.

import { kindsOf } from '../domain/payload.js';
import { EPSILON, slopeOf } from './network.js';

// d number / d gate of each head, [layer][head] by kind. `direction` is the gradient of the number at the decoder's output rows.
/** @type {(stacks: any, direction: Floats) => ByKind<number[][]>} */
export function gateGradients({ encoder, decoder }, direction) {
  const found = kindsOf(() => []);
  const memory = new Float64Array(encoder.x.length);
  descend(decoder, direction, found, memory);
  descend(encoder, memory, found, null);
  return found;
}

function descend({ network, norm, x, sublayers }, direction, found, memory) {
  let flow = norm ? normBack(norm, x, direction) : direction;
  for (const one of sublayers.toReversed()) {
    if (!network.preNorm) flow = normBack(one.norm, one.sum, flow);
    const own = one.attention ? attentionBack(network, one, flow, found, memory) : feedForwardBack(network, one, flow);
    const read = network.preNorm ? normBack(one.norm, one.x, own) : own;
    flow = flow.map((value, place) => value + read[place]);
  }
}

function feedForwardBack(network, { block, wide }, flow) {
  const gradient = turnedBack(block.outer, flow);
  for (let place = 0; place < gradient.length; place += 1) gradient[place] *= slopeOf(network, wide[place]);
  return turnedBack(block.inner, gradient);
}

// Adds the gradients of the gates to `found`, and the gradient of the encoder's output to `memory`.
function attentionBack(network, { kind, layer, attention }, flow, found, memory) {
  const { width } = network;
  const { matrices, queries, keys, outputs, weights, rows, columns } = attention;
  const joined = { gradient: turnedBack(matrices.output, flow) };
  found[kind][layer] = sumsOfHeads(network, joined.gradient, outputs);
  const [asking, asked] = [queries, keys].map(({ array }) => ({
    value: array,
    gradient: new Float64Array(array.length),
  }));
  for (let row = 0; row < rows; row += 1)
    attendBack(network, asking, { of: asked, stride: keys.stride }, joined, {
      query: queries.start + row * queries.stride,
      key: keys.start,
      output: row * width,
      count: kind === 'decoder' ? row + 1 : columns,
      found: { array: weights, start: row * columns, stride: rows * columns },
    });
  if (kind === 'cross') {
    turnedBack(matrices.keysValues, asked.gradient).forEach((value, place) => (memory[place] += value));
    return turnedBack(matrices.queries, asking.gradient);
  }
  const all = new Float64Array(rows * 3 * width);
  for (let row = 0; row < rows; row += 1) {
    const [query, key] = [queries.start + row * queries.stride, keys.start + row * keys.stride];
    all.set(asking.gradient.subarray(query, query + width), row * 3 * width);
    all.set(asked.gradient.subarray(key, key + 2 * width), (row * 3 + 1) * width);
  }
  return turnedBack(matrices.project, all);
}

// The product of two arrays of joined heads, for each head.
/** @type {(network: Pick<Network, 'width' | 'heads' | 'headWidth'>, one: Floats, other: Floats) => number[]} */
export function sumsOfHeads({ width, heads, headWidth }, one, other) {
  const sums = Array(heads).fill(0);
  one.forEach((value, place) => (sums[Math.floor((place % width) / headWidth)] += value * other[place]));
  return sums;
}

// Rows of gradients at the outputs of a matrix, as gradients at its inputs.
/** @type {(matrix: Product, gradient: Floats) => Float64Array} */
export function turnedBack({ codes, scales, inputs, outputs, width }, gradient) {
  const rows = Math.floor(gradient.length / outputs);
  const result = new Float64Array(rows * inputs);
  for (let row = 0; row < rows; row += 1)
    for (let output = 0; output < outputs; output += 1) {
      const factor = gradient[row * outputs + output] * scales[output];
      if (factor === 0) continue; // most rows of a decoder
      const [at, from] = [row * inputs, output * width];
      for (let input = 0; input < inputs; input += 1) result[at + input] += factor * codes[from + input];
    }
  return result;
}

// The gradient at the rows x that a norm reads; with a frozen norm, whose scale stays, it is exact for any change.
/** @type {(norm: Norm, x: Float32Array, gradient: Floats, isFrozen?: boolean) => Float64Array} */
export function normBack({ weight }, x, gradient, isFrozen = false) {
  const width = weight.length;
  const result = new Float64Array(gradient.length);
  for (let start = 0; start < x.length; start += width) {
    const { mean, factor } = scaleOf(x.subarray(start, start + width));
    let [total, along] = [0, 0];
    for (let place = 0, at = start; place < width; place += 1, at += 1) {
      result[at] = gradient[at] * weight[place];
      total += result[at];
      along += isFrozen ? 0 : result[at] * (x[at] - mean) * factor;
    }
    for (let at = start; at < start + width; at += 1)
      result[at] = factor * (result[at] - (total + (x[at] - mean) * factor * along) / width);
  }
  return result;
}

// The mean of a row, and what LayerNorm multiplies it by.
/** @type {(row: Float32Array) => { mean: number; factor: number }} */
export function scaleOf(row) {
  const mean = row.reduce((total, value) => total + value, 0) / row.length;
  const variance = row.reduce((total, value) => total + (value - mean) ** 2, 0) / row.length;
  return { mean, factor: 1 / Math.sqrt(variance + EPSILON) };
}

// The gradients of one row of an attention: `queries`, `keys.of` and `joined` are { value, gradient }.
/** @type {(network: Pick<Network, 'width' | 'heads' | 'headWidth'>, queries: Variable, keys: { of: Variable; stride: number }, joined: Pick<Variable, 'gradient'>, row: { query: number; key: number; output: number; count: number; found: Memory }) => void} */
export function attendBack({ width, headWidth, heads }, queries, { of: keys, stride }, joined, row) {
  const gradients = new Float32Array(row.count); // of the weights of a head
  for (let head = 0; head < heads; head += 1) {
    const [query, first, output] = [row.query, row.key, row.output].map((start) => start + head * headWidth);
    const weights = row.found.array.subarray(row.found.start + head * row.found.stride);
    let mean = 0;
    for (let key = 0, at = first + width; key < row.count; key += 1, at += stride) {
      let gradient = 0;
      for (let place = 0; place < headWidth; place += 1) {
        gradient += joined.gradient[output + place] * keys.value[at + place];
        keys.gradient[at + place] += weights[key] * joined.gradient[output + place];
      }
      gradients[key] = gradient;
      mean += gradient * weights[key];
    }
    for (let key = 0, at = first; key < row.count; key += 1, at += stride) {
      const gradient = weights[key] * (gradients[key] - mean) * headWidth ** -0.5; // of query times key
      for (let place = 0; place < headWidth; place += 1) {
        queries.gradient[query + place] += gradient * keys.value[at + place];
        keys.gradient[at + place] += gradient * queries.value[query + place];
      }
    }
  }
}
