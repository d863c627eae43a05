import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createProgress } from '../viewer/learn/progress.js';

const known = new Map();
Object.defineProperty(globalThis, 'localStorage', {
  value: { getItem: (name) => known.get(name) ?? null, setItem: (name, text) => known.set(name, text) },
});
const nothing = createProgress().get();

function progressOf(stored) {
  known.set('headlight.learned', stored);
  return createProgress().get();
}

test('what a person has done is there again', () => {
  createProgress().change({ tasks: ['1.1'], guesses: { 1: 0 } });
  assert.deepEqual(createProgress().get(), { ...nothing, tasks: ['1.1'], guesses: { 1: 0 } });
});

test('what another program has stored is no progress', () => {
  const strange = '{"tasks": 1, "understood": ["<b>"], "guesses": {"1": {}}, "other": 1}';
  for (const stored of ['1.1,1.2', '[]', 'null', strange, '{', '']) assert.deepEqual(progressOf(stored), nothing);
});
