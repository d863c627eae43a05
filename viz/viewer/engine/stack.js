// What every sub-layer reads and adds while the model reads one sentence pair, as model/analysis/trace.py defines it: the basis
// of the instruments. A frozen norm keeps the mean and scale of its input: it is linear then, so that parts add up exactly.

import { sum } from '../domain/math.js';
import { headOutputs } from './analysis.js';
import { scaleOf } from './gradients.js';
import { narrowed, post, widened } from './network.js';
import { pass, encodeSource, targetIds } from './translator.js';

// Both stacks while the model reads a sentence and writes these ids.
/** @type {(translator: Translator, text: string, ids: number[]) => any} */
export function stacksOf(translator, text, ids) {
  const { model } = translator;
  const source = encodeSource(translator, text, null);
  const { trace } = pass(translator, source, targetIds(translator, ids), null);
  const stacks = { encoder: stackOf(model, trace, 'encoder'), decoder: stackOf(model, trace, 'decoder') };
  return { ...stacks, trace, cross: source.cross };
}

// `tokens` and `positions` are the rows of the embedding. `sublayers` stand in the order of the computation: each reads the rows
// `x`, adds the rows `y` to them, and leaves the rows `sum`; `attention` is null for a feed-forward network. `x` are the rows
// after the last sub-layer, `norm` the final norm or null.
function stackOf({ network, positionOf }, trace, side) {
  const { width, products, preNorm } = network;
  const [embedded] = trace.inputs[side];
  const rows = embedded.length / width;
  const sublayers = [];
  let x = embedded;
  const follow = (about, y) => {
    sublayers.push({ ...about, x, y, sum: y.map((value, place) => value + x[place]) });
    x = post(network, x, y.slice(), about.norm);
  };
  const attend = (kind, layer, matrices, norm) => {
    const attention = { ...attentionOf(trace[kind], layer), matrices };
    follow({ kind, layer, norm, attention }, products.multiply(matrices.output, rows, attention.outputs));
  };
  network[side].forEach((block, layer) => {
    attend(side, layer, block.self, block.selfNorm);
    if (side === 'decoder') attend('cross', layer, block.cross, block.crossNorm);
    const wide = widened(network, block, rows, x);
    const about = { kind: 'feed forward', layer, norm: block.feedForwardNorm, attention: null, block, wide };
    follow(about, narrowed(network, block, rows, wide));
  });
  const positions = embedded.map((_, place) => positionOf(Math.floor(place / width))[place % width]);
  const tokens = embedded.map((value, place) => value - positions[place]);
  return { network, rows, tokens, positions, sublayers, x, norm: preNorm ? network[`${side}Norm`] : null };
}

function attentionOf({ rows, columns, heads, weights, queries, memories, outputs }, layer) {
  const own = weights.subarray(layer * heads * rows * columns, (layer + 1) * heads * rows * columns);
  const weightOf = (head, row, key) => own[(head * rows + row) * columns + key];
  const found = { queries: queries[layer], keys: memories[layer], outputs: outputs[layer] };
  return { ...found, rows, columns, weights: own, weightOf };
}

// The attention of a kind and layer, with its sub-layer's place in its stack.
/** @type {(stacks: any, kind: Kind, layer: number) => any} */
export function attentionIn({ encoder, decoder }, kind, layer) {
  const stack = kind === 'encoder' ? encoder : decoder;
  const place = stack.sublayers.findIndex((one) => one.kind === kind && one.layer === layer);
  return { stack, place, sublayer: stack.sublayers[place], attention: stack.sublayers[place].attention };
}

/** @type {<Rows extends Floats>(network: Pick<Network, 'width'>, x: Rows, row: number) => Rows} */
export const rowAt = ({ width }, x, row) => /** @type {any} */ (x.subarray(row * width, (row + 1) * width));

// The linear map of a norm that is frozen at the row x.
function frozen({ weight }, x) {
  const { factor } = scaleOf(x);
  return (part) => {
    const mean = sum(part) / part.length;
    return Float64Array.from(part, (value, place) => (value - mean) * factor * weight[place]);
  };
}

// What wrote the residual stream of a row, as sub-layer `place` reads it after its norm: the names of the parts, the biases last,
// and their vectors, which sum to what it reads. The number of sub-layers is the place of the stack's output.
/** @type {(stack: any, place: number, row: number) => any} */
export function partsRead(stack, place, row) {
  const { network, sublayers, norm: last } = stack;
  const names = [partOf('token'), partOf('position')];
  /** @type {Floats[]} */
  let vectors = [stack.tokens, stack.positions].map((x) => rowAt(network, x, row));
  let bias = new Float64Array(network.width);
  const passNorm = (norm, x) => {
    const image = frozen(norm, rowAt(network, x, row));
    vectors = vectors.map(image);
    bias = image(bias).map((value, at) => value + norm.bias[at]);
  };
  for (const { kind, layer, norm, attention, y, sum: after } of sublayers.slice(0, place)) {
    if (attention) {
      const { output } = attention.matrices;
      const outputs = headOutputs(network, output, rowAt(network, attention.outputs, row));
      names.push(...outputs.map((_, head) => partOf('head', kind, layer, head)));
      vectors.push(...outputs);
      bias = bias.map((value, at) => value + output.bias[at]);
    } else {
      names.push(partOf('feed forward', '', layer));
      vectors.push(rowAt(network, y, row));
    }
    if (!network.preNorm) passNorm(norm, after);
  }
  if (place === sublayers.length && last) passNorm(last, stack.x);
  else if (place < sublayers.length && network.preNorm) passNorm(sublayers[place].norm, sublayers[place].x);
  return { names: [...names, partOf('bias')], vectors: [...vectors, bias] };
}

/** @type {(name: string, kind?: string, layer?: number | null, head?: number | null) => object} */
const partOf = (name, kind = '', layer = null, head = null) => ({ name, kind, layer, head });

// What the output of the stack has of a vector that sub-layer `place` adds in a row, through the frozen norms after it.
/** @type {(stack: any, place: number, row: number, vector: Floats) => Floats} */
export function carried({ network, sublayers, x, norm }, place, row, vector) {
  const after = network.preNorm ? [] : sublayers.slice(place).map((one) => [one.norm, one.sum]);
  if (norm) after.push([norm, x]);
  return after.reduce((found, [each, at]) => frozen(each, rowAt(network, at, row))(found), vector);
}
