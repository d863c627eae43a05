// A model from its files: the network with its matrices, embeddings with positions, and what config.json says.

import { createNetwork } from './network.js';
import { createProducts, sliceOf } from './tensors/products.js';
import { sum } from '../domain/math.js';
import { SCALES, parseTensors, storedMatrix, tensorNamed, toFloat32 } from './tensors/safetensors.js';

// `config` is the value of config.json, `weights` the bytes of model.safetensors.
/** @type {(config: any, weights: ArrayBuffer, options?: object) => Promise<any>} */
export async function createModel(config, weights, options = {}) {
  const shape = config.model;
  const { tensors } = parseTensors(weights);
  const products = await createProducts(matricesOf(shape, tensors), options);
  const arrayOf = (name) => toFloat32(tensorNamed(tensors, name));
  const norm = (name) => ({ weight: arrayOf(`${name}.weight`), bias: arrayOf(`${name}.bias`) });
  const blocks = blocksOf(shape, (name) => products.matrices[`${name}.weight`], norm);
  const parameters = sum([...tensors].map(([name, tensor]) => (name.endsWith(SCALES) ? 0 : sizeOf(tensor))));
  return { config, parameters, network: createNetwork(shape, blocks, products), positionOf: createPositions(shape) };
}

const sizeOf = ({ shape }) => shape.reduce((size, length) => size * length, 1);

// Each matrix of the file with its bias. The output projection of tied weights is the embedding itself.
function matricesOf({ tied, separate_output: separate }, tensors) {
  const matrices = {};
  for (const name of tensors.keys()) {
    const matrix = storedMatrix(tensors, name);
    if (!matrix) continue;
    const isOutput = tied && !separate && name === 'source_embedding.tokens.weight';
    const bias = tensors.get(isOutput ? 'output.bias' : name.replace(/weight$/, 'bias'));
    matrices[name] = { ...matrix, bias: bias ? toFloat32(bias) : null };
  }
  return matrices;
}

// The parts of the network. `matrix` and `norm` give the matrix and the norm of a name, `slice` some rows of a matrix.
/** @type {(shape: any, matrix: (name: string) => any, norm: (name: string) => any, slice?: (matrix: any, start: number, end: number) => any) => any} */
export function blocksOf(shape, matrix, norm, slice = sliceOf) {
  const { tied, separate_output: separate, d_model: width } = shape;
  const attention = (block) => ({
    self: { project: matrix(`${block}.self_attention.project`), output: matrix(`${block}.self_attention.output`) },
    selfNorm: norm(`${block}.self_residual.norm`),
  });
  const feedForward = (block) => ({
    inner: matrix(`${block}.feed_forward.inner`),
    outer: matrix(`${block}.feed_forward.outer`),
    feedForwardNorm: norm(`${block}.feed_forward_residual.norm`),
  });
  const cross = (block) => {
    const project = matrix(`${block}.cross_attention.project`);
    return {
      cross: {
        queries: slice(project, 0, width),
        keysValues: slice(project, width, 3 * width),
        output: matrix(`${block}.cross_attention.output`),
      },
      crossNorm: norm(`${block}.cross_residual.norm`),
    };
  };
  const numbered = (side, count, make) => Array.from({ length: count }, (_, layer) => make(`${side}.${layer}`));
  const source = matrix('source_embedding.tokens');
  return {
    source,
    target: tied ? source : matrix('target_embedding.tokens'),
    output: tied && !separate ? source : matrix('output'),
    encoder: numbered('encoder', shape.n_encoder_layers, (block) => ({ ...attention(block), ...feedForward(block) })),
    decoder: numbered('decoder', shape.n_decoder_layers, (block) => ({
      ...attention(block),
      ...cross(block),
      ...feedForward(block),
    })),
    encoderNorm: shape.norm === 'pre' ? norm('encoder_norm') : null,
    decoderNorm: shape.norm === 'pre' ? norm('decoder_norm') : null,
  };
}

// Token embeddings times sqrt(d_model), plus positions (sections 3.4 and 3.5). `side` is source or target.
/** @type {(model: any, side: 'source' | 'target', ids: number[], positions?: number[]) => Float32Array} */
export function embed(model, side, ids, positions = ids.map((_, place) => place)) {
  const { width, products, ...matrices } = model.network;
  const factor = Math.fround(Math.sqrt(width));
  const x = new Float32Array(ids.length * width);
  ids.forEach((id, row) => {
    const vector = products.rowOf(matrices[side], id);
    const position = model.positionOf(positions[row]);
    for (let place = 0; place < width; place += 1) x[row * width + place] = vector[place] * factor + position[place];
  });
  return x;
}

// A function that gives the encoding of each position: sine at even places and cosine at odd ones, each step rounded to
// 32 bits as in Python; zeros for a model without positions.
/** @type {(shape: any) => (position: number) => Float32Array} */
export function createPositions({ d_model: width, positions = 'sinusoidal' }) {
  const known = [];
  const rate = Math.fround(-Math.log(10000) / width);
  const valueOf = (position, place) => {
    const frequency = Math.fround(Math.exp(Math.fround((place - (place % 2)) * rate)));
    const angle = Math.fround(position * frequency);
    return place % 2 ? Math.cos(angle) : Math.sin(angle);
  };
  return (position) => {
    known[position] ??= Float32Array.from({ length: width }, (_, place) =>
      positions === 'none' ? 0 : valueOf(position, place),
    );
    return known[position];
  };
}

// What `use` makes of the prediction for each hidden row: { logits, norm }. A logit minus the norm, the logarithm of the sum
// of the exponentials, is a log-probability. `use` copies the logits that it keeps.
/** @type {(model: any, hidden: Float32Array, use?: (step: { logits: Float32Array; norm: number }, row: number) => any) => any[]} */
export function predict({ network: { products, output, width } }, hidden, use = copied) {
  const found = [];
  products.forEachRow(output, hidden.length / width, hidden, (logits, row) =>
    found.push(use({ logits, norm: products.logSumExp(logits) }, row)),
  );
  return found;
}

const copied = ({ logits, norm }) => ({ logits: logits.slice(), norm });
