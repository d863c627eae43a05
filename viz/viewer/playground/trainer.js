// A small Transformer that learns: the network of viz/viewer/engine with its gradients, and Adam.

import { blocksOf, createPositions } from '../engine/model.js';
import { padded } from '../engine/tensors/products.js';
import { attention, crossEntropy, embed, layerNorm, linear, relu, variable } from './layers.js';
import { createMemory } from './memory.js';

const BETAS = [0.9, 0.98];
const EPSILON = 1e-8; // of Adam

// The shape of each weight by its name, in the order of Python's model. `shape` is `model` of config.json.
export function weightShapes({ source_vocabulary: vocabulary, d_model: d, d_ff: inner, ...shape }) {
  const matrix = (name, outputs, inputs) => [
    [`${name}.weight`, [outputs, inputs]],
    [`${name}.bias`, [outputs]],
  ];
  const norm = (name) => [
    [`${name}.weight`, [d]],
    [`${name}.bias`, [d]],
  ];
  const attentionOf = (name) => [
    ...matrix(`${name}_attention.project`, 3 * d, d),
    ...matrix(`${name}_attention.output`, d, d),
    ...norm(`${name}_residual.norm`),
  ];
  const layer = (name, kinds) => [
    ...kinds.flatMap((kind) => attentionOf(`${name}.${kind}`)),
    ...matrix(`${name}.feed_forward.inner`, inner, d),
    ...matrix(`${name}.feed_forward.outer`, d, inner),
    ...norm(`${name}.feed_forward_residual.norm`),
  ];
  const layers = (side, count, kinds) => Array.from({ length: count }, (_, place) => layer(`${side}.${place}`, kinds));
  return [
    ['source_embedding.tokens.weight', [vocabulary, d]],
    ...layers('encoder', shape.n_encoder_layers, ['self']).flat(),
    ...layers('decoder', shape.n_decoder_layers, ['self', 'cross']).flat(),
    ...norm('encoder_norm'),
    ...norm('decoder_norm'),
  ];
}

// A trainer of a pre-norm model with tied weights. `rows` are the most rows that a batch has, { source, target, weights };
// the last counts the attention weights of one head. `random` gives numbers from 0 to 1.
export async function createTrainer(shape, rows, random, options = {}) {
  const shapes = weightShapes(shape);
  const count = shapes.reduce((total, [, sizes]) => total + sizes.reduce((a, b) => a * b), 0);
  const memory = await createMemory(4 * padded(count) + roomOfStep(shape, rows, count), options);
  const all = variable(memory, count);
  const weights = new Map();
  let start = 0;
  for (const [name, sizes] of shapes) {
    const end = start + sizes.reduce((a, b) => a * b);
    weights.set(name, { sizes, value: all.value.subarray(start, end), gradient: all.gradient.subarray(start, end) });
    start = end;
  }
  const trainer = { shape, memory, weights, all, first: memory.take(count), second: memory.take(count), steps: 0 };
  trainer.mark = memory.used();
  trainer.positionOf = createPositions(shape);
  const matrix = (name) => matrixOf(weights, name);
  const norm = (name) => ({ weight: weights.get(`${name}.weight`), bias: weights.get(`${name}.bias`) });
  trainer.blocks = blocksOf(shape, matrix, norm, sliceOf);
  initialise(weights, shape.d_model, random);
  return trainer;
}

// An upper bound of what a step takes, in numbers.
function roomOfStep({ source_vocabulary: vocabulary, d_model: d, d_ff: inner, n_heads: heads, ...shape }, rows, count) {
  const { n_encoder_layers: encoders, n_decoder_layers: decoders } = shape;
  const feedForward = 3 * d + 1 + 2 * inner;
  const self = 3 * d + 1 + 8 * d;
  const cross = 3 * d + 1 + 4 * d;
  const source = 5 * d + 1 + encoders * (self + feedForward) + decoders * 4 * d;
  const target = 5 * d + 1 + decoders * (self + cross + feedForward) + 2 * padded(vocabulary);
  const turned = count + padded(vocabulary) * d;
  const gaps = 4 * 64 * (encoders + decoders + 2) + 12 * rows.sentences * (encoders + 2 * decoders); // of alignment
  return rows.source * source + rows.target * target + heads * rows.weights * (encoders + 2 * decoders) + turned + gaps;
}

function matrixOf(weights, name) {
  const weight = weights.get(`${name}.weight`);
  const [outputs, inputs] = weight.sizes;
  return { outputs, inputs, weight, bias: weights.get(`${name}.bias`) ?? null };
}

function sliceOf({ inputs, weight, bias }, start, end) {
  const part = ({ value, gradient }, width) => ({
    value: value.subarray(start * width, end * width),
    gradient: gradient.subarray(start * width, end * width),
  });
  return { inputs, outputs: end - start, weight: part(weight, inputs), bias: part(bias, 1) };
}

// Like model/network/transformer.py: Xavier uniform for every projection, W_Q, W_K and W_V each for itself, and a
// standard deviation of d_model^-0.5 for embeddings.
function initialise(weights, width, random) {
  for (const [
    name,
    {
      sizes: [outputs, inputs],
      value,
    },
  ] of weights) {
    const limit = Math.sqrt(6 / (name.includes('project') ? 2 * width : outputs + inputs));
    if (name.endsWith('norm.weight')) value.fill(1);
    else if (name.startsWith('source_embedding'))
      for (let place = 0; place < value.length; place += 1)
        value[place] = Math.sqrt((-2 * Math.log(1 - random())) / width) * Math.cos(2 * Math.PI * random());
    else if (inputs) for (let place = 0; place < value.length; place += 1) value[place] = (2 * random() - 1) * limit;
  }
}

// Reads a batch: { source, read, labels, sources, targets }, token ids end to end and the borders of the sentences. The
// decoder sees what is to its right unless `isCausal`. Returns the loss, which labels were the likeliest token, the
// logits, and the weights of each kind and layer; `learns` also computes gradients. Nothing of it outlives the next call.
export function forward(trainer, batch, { isCausal = true, learns = false } = {}) {
  const { memory, shape, blocks, positionOf } = trainer;
  const run = { memory, tape: [] };
  memory.release(trainer.mark);
  const weights = { encoder: [], decoder: [], cross: [] };
  const { d_model: width, n_heads: heads } = shape;
  const sizes = { width, heads, headWidth: width / heads };
  const attend = (kind, x, matrix, queries, keys, isMasked = false) => {
    const found = attention(run, sizes, queries, keys, isMasked);
    weights[kind].push(found.weights);
    linear(run, found.joined, matrix, x);
  };
  const readItself = (kind, x, { self, selfNorm }, borders, isMasked) => {
    const of = linear(run, layerNorm(run, x, selfNorm), self.project);
    const part = (start) => ({ of, stride: 3 * width, start, borders });
    attend(kind, x, self.output, part(0), part(width), isMasked);
  };
  const feedForward = (x, { inner, outer, feedForwardNorm }) =>
    linear(run, relu(run, linear(run, layerNorm(run, x, feedForwardNorm), inner)), outer, x);

  const x = embed(run, blocks.source, batch.source, batch.sources, positionOf);
  for (const block of blocks.encoder) {
    readItself('encoder', x, block, batch.sources, false);
    feedForward(x, block);
  }
  const encoded = layerNorm(run, x, blocks.encoderNorm);
  const y = embed(run, blocks.target, batch.read, batch.targets, positionOf);
  for (const block of blocks.decoder) {
    readItself('decoder', y, block, batch.targets, isCausal);
    const queries = {
      of: linear(run, layerNorm(run, y, block.crossNorm), block.cross.queries),
      stride: width,
      start: 0,
    };
    const keys = { of: linear(run, encoded, block.cross.keysValues), stride: 2 * width, start: 0 };
    attend('cross', y, block.cross.output, { ...queries, borders: batch.targets }, { ...keys, borders: batch.sources });
    feedForward(y, block);
  }
  const logits = linear(run, layerNorm(run, y, blocks.decoderNorm), blocks.output);
  const result = crossEntropy(logits, batch.labels, shape.target_vocabulary);
  if (learns) {
    trainer.all.gradient.fill(0);
    while (run.tape.length > 0) run.tape.pop()();
  }
  return { ...result, logits: logits.value, weights };
}

// One step of Adam (Kingma and Ba 2015) at this learning rate. Throws an error if the loss is not a number.
export function step(trainer, batch, rate, options) {
  const result = forward(trainer, batch, { ...options, learns: true });
  const {
    all: { value, gradient },
    first,
    second,
  } = trainer;
  trainer.steps += 1;
  const [mean, variance] = BETAS.map((beta) => 1 - beta ** trainer.steps);
  for (let place = 0; place < value.length; place += 1) {
    const slope = gradient[place];
    first[place] = BETAS[0] * first[place] + (1 - BETAS[0]) * slope;
    second[place] = BETAS[1] * second[place] + (1 - BETAS[1]) * slope * slope;
    value[place] -= (rate * (first[place] / mean)) / (Math.sqrt(second[place] / variance) + EPSILON);
  }
  return result;
}
