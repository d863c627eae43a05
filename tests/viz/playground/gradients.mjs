// Trains on the batches of questions.json and writes answers.json: how test_trainer.py asks the trainer.

import { readFileSync, writeFileSync } from 'node:fs';

import { createTrainer, forward, step } from '../viewer/playground/trainer.js';

const { shape, weights, batches, isCausal, rate, wasm } = JSON.parse(readFileSync('questions.json', 'utf8'));
const trainer = await createTrainer(shape, Math.random, { wasm });
for (const [name, values] of Object.entries(weights)) trainer.weights.get(name).value.set(values);

const { loss, weights: found } = forward(trainer, batches[0], { isCausal, learns: true });
const attention = Object.fromEntries(
  Object.entries(found).map(([kind, layers]) => [kind, layers.map((sentences) => sentences.map((each) => [...each]))]),
);
const gradients = Object.fromEntries([...trainer.weights].map(([name, { gradient }]) => [name, [...gradient]]));
const losses = rate ? batches.map((batch) => step(trainer, batch, rate, { isCausal }).loss) : [];
writeFileSync('answers.json', JSON.stringify({ loss, attention, gradients, losses }));
