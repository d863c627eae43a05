// A small Transformer that learns: the network of viz/viewer/engine with its gradients, and Adam.

import { sum } from '../domain/math.js';
import { blocksOf, createPositions } from '../engine/model.js';
import { attention, crossEntropy, embed, layerNorm, linear, relu, variable } from './layers.js';
import { createMemory } from './memory.js';

const BETAS = [0.9, 0.98];
const EPSILON = 1e-8; // of Adam

// A trainer of a pre-norm model with tied weights. `shape` is `model` of config.json, `random` gives numbers from 0 to 1.
export async function createTrainer(shape, random, options = {}) {
  const { d_model: d, d_ff: inner, source_vocabulary: vocabulary } = shape;
  const sizesOf = {
    tokens: [vocabulary, d],
    project: [3 * d, d],
    output: [d, d],
    inner: [inner, d],
    outer: [d, inner],
  };
  const memory = await createMemory(options);
  const weights = new Map();
  const create = (name, sizes, draw) => {
    const length = sizes.reduce((one, other) => one * other);
    const weight = { sizes, ...variable(memory, length), mean: memory.take(length), variance: memory.take(length) };
    weight.value.forEach((_, place) => (weight.value[place] = draw()));
    weights.set(name, weight);
    return weight;
  };
  const [zero, one] = [() => 0, () => 1];
  const matrix = (name) => {
    const part = name.split('.').at(-1);
    const [outputs, inputs] = sizesOf[part];
    const weight = create(`${name}.weight`, [outputs, inputs], initial(part, [outputs, inputs], random));
    return { outputs, inputs, weight, bias: part === 'tokens' ? null : create(`${name}.bias`, [outputs], zero) };
  };
  const norm = (name) => ({ weight: create(`${name}.weight`, [d], one), bias: create(`${name}.bias`, [d], zero) });
  const blocks = blocksOf(shape, matrix, norm, sliceOf);
  const parameters = sum([...weights.values()].map(({ value }) => value.length));
  return {
    shape,
    memory,
    weights,
    parameters,
    blocks,
    mark: memory.used(),
    positionOf: createPositions(shape),
    steps: 0,
  };
}

// Like model/network/transformer.py: Xavier uniform for every projection, W_Q, W_K and W_V each for itself, and a
// standard deviation of d_model^-0.5 for embeddings (Box and Muller 1958).
function initial(part, [outputs, inputs], random) {
  if (part === 'tokens')
    return () => Math.sqrt((-2 * Math.log(1 - random())) / inputs) * Math.cos(2 * Math.PI * random());
  const limit = Math.sqrt(6 / (part === 'project' ? 2 * inputs : outputs + inputs));
  return () => (2 * random() - 1) * limit;
}

function sliceOf({ inputs, weight, bias }, start, end) {
  const part = ({ value, gradient }, width) => ({
    value: value.subarray(start * width, end * width),
    gradient: gradient.subarray(start * width, end * width),
  });
  return { inputs, outputs: end - start, weight: part(weight, inputs), bias: part(bias, 1) };
}

// Reads a batch, { source, read, labels, sources, targets }: token ids end to end and the borders of the sentences. With
// `isCausal` the decoder sees nothing to its right; with `onlyLast` it sees the last position of the source alone; `learns` also
// computes gradients. Returns what crossEntropy returns, and the weights of each kind and layer; the next call overwrites them.
export function forward(trainer, batch, { isCausal = true, onlyLast = false, learns = false } = {}) {
  const { memory, shape, blocks, positionOf } = trainer;
  /** @type {{ memory: any; tape: (() => void)[] }} */
  const run = { memory, tape: [] };
  memory.release(trainer.mark);
  const weights = { encoder: [], decoder: [], cross: [] };
  const { d_model: width, n_heads: heads } = shape;
  const attend = (kind, x, matrix, queries, keys, reads) => {
    const found = attention(run, { width, heads, headWidth: width / heads }, queries, keys, reads);
    weights[kind].push(found.weights);
    linear(run, found.joined, matrix, x);
  };
  const readItself = (kind, x, { self, selfNorm }, borders, reads) => {
    const of = linear(run, layerNorm(run, x, selfNorm), self.project);
    const part = (start) => ({ of, stride: 3 * width, start, borders });
    attend(kind, x, self.output, part(0), part(width), reads);
  };
  const feedForward = (x, { inner, outer, feedForwardNorm }) =>
    linear(run, relu(run, linear(run, layerNorm(run, x, feedForwardNorm), inner)), outer, x);

  const x = embed(run, blocks.source, batch.source, batch.sources, positionOf);
  for (const block of blocks.encoder) {
    readItself('encoder', x, block, batch.sources, {});
    feedForward(x, block);
  }
  const encoded = layerNorm(run, x, blocks.encoderNorm);
  const y = embed(run, blocks.target, batch.read, batch.targets, positionOf);
  for (const block of blocks.decoder) {
    readItself('decoder', y, block, batch.targets, { isCausal });
    const asked = linear(run, layerNorm(run, y, block.crossNorm), block.cross.queries);
    const queries = { of: asked, stride: width, start: 0, borders: batch.targets };
    const known = linear(run, encoded, block.cross.keysValues);
    const keys = { of: known, stride: 2 * width, start: 0, borders: batch.sources };
    attend('cross', y, block.cross.output, queries, keys, { onlyLast });
    feedForward(y, block);
  }
  const logits = linear(run, layerNorm(run, y, blocks.decoderNorm), blocks.output);
  const result = crossEntropy(logits, batch.labels, shape.target_vocabulary);
  if (learns) {
    for (const { gradient } of trainer.weights.values()) gradient.fill(0);
    run.tape.reverse().forEach((back) => back());
  }
  return { ...result, weights };
}

// One step of Adam (Kingma and Ba 2015) at this learning rate.
export function step(trainer, batch, rate, options) {
  const result = forward(trainer, batch, { ...options, learns: true });
  trainer.steps += 1;
  const [meanScale, varianceScale] = BETAS.map((beta) => 1 - beta ** trainer.steps);
  for (const { value, gradient, mean, variance } of trainer.weights.values())
    for (let place = 0; place < value.length; place += 1) {
      const slope = gradient[place];
      mean[place] = BETAS[0] * mean[place] + (1 - BETAS[0]) * slope;
      variance[place] = BETAS[1] * variance[place] + (1 - BETAS[1]) * slope * slope;
      value[place] -= (rate * (mean[place] / meanScale)) / (Math.sqrt(variance[place] / varianceScale) + EPSILON);
    }
  return result;
}
