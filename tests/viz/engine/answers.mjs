// Answers the requests in questions.json with the engine and writes answers.json: how test_answers.py asks it.

import { readFileSync, writeFileSync } from 'node:fs';

import { answer } from '../viewer/engine/answers.js';
import { withDocuments } from '../viewer/documents.js';
import { loaderOf } from './models.mjs';

const { models, settings, requests, wasm, site, parts } = JSON.parse(readFileSync('questions.json', 'utf8'));

const load = loaderOf(models, settings, wasm);
const ask = async (request) => answer(await load(request.model), request, async () => {});
const asked = parts ? withDocuments(ask, site, async () => parts) : ask;
const replies = [];
for (const request of requests) {
  try {
    replies.push({ answer: await asked(request) });
  } catch (error) {
    if (!(error instanceof Error) || error instanceof TypeError || error instanceof ReferenceError) throw error;
    replies.push({ error: error.message, said: error.said });
  }
}

// Codes of weights as lists.
const plain = (key, value) => {
  if (!(value instanceof ArrayBuffer)) return value;
  return Array.from(key === 'data' && value.byteLength % 2 === 0 ? new Uint8Array(value) : value);
};
writeFileSync('answers.json', JSON.stringify(replies, plain));
