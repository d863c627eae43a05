// The memory of a training, and the codes of its weights.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { codesOf } from '../viewer/playground/directory.js';
import { createMemory } from '../viewer/playground/memory.js';
import { batchOf } from '../viewer/playground/tasks.js';
import { createTraining, shareRight } from '../viewer/playground/worker.js';

test('a memory that is full says so', async () => {
  for (const wasm of [true, false]) {
    const memory = await createMemory({ wasm, size: 16 });
    memory.take(12);
    assert.throws(() => memory.take(5), /ran out of its memory/);
    memory.release(4);
    assert.deepEqual([...memory.take(8)], Array(8).fill(0));
  }
});

test('the largest model fits into the memory', async () => {
  const largest = { layers: 2, heads: 4, width: 64, positions: true, mask: true, rate: 0.01, seed: 1 };
  const training = await createTraining({ ...largest, task: 'numbers' });
  const longest = ['siebenhundertsiebenundsiebzig', '777'].map(training.tokenizer.encode);
  shareRight({ ...training, tests: batchOf(Array(100).fill(longest)) });
});

test('the codes of a row add up to 255, each within 1 of its weight', () => {
  const weights = [0.1, 0.2, 0.7, 1 / 3, 1 / 3, 1 / 3, 1, 0, 0, 0.001, 0.998, 0.001];
  const codes = codesOf(weights, 3);
  for (let start = 0; start < weights.length; start += 3)
    assert.equal(codes[start] + codes[start + 1] + codes[start + 2], 255);
  weights.forEach((weight, place) => assert.ok(Math.abs(codes[place] - 255 * weight) <= 1));
  assert.deepEqual([...codes.slice(6, 9)], [255, 0, 0]);
});
