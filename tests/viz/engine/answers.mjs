// Answers the requests in questions.json with the engine and writes answers.json: how test_answers.py asks it.

import { readFileSync, writeFileSync } from 'node:fs';

import { answer } from '../viewer/engine/answers.js';
import { createModel } from '../viewer/engine/model.js';
import { createTokenizers } from '../viewer/engine/text/files.js';
import { createTranslator } from '../viewer/engine/translator.js';

const { models, settings, requests, wasm } = JSON.parse(readFileSync('questions.json', 'utf8'));

// The files of a model directory, as the worker finds them on a server.
function filesOf({ directory, files }) {
  const path = (name) => `${directory}/${name}`;
  return {
    has: (name) => files.includes(name),
    text: async (name) => readFileSync(path(name), 'utf8'),
    bytes: async (name) => new Uint8Array(readFileSync(path(name))).buffer,
  };
}

async function load(identity) {
  const files = filesOf(identity);
  const model = await createModel(JSON.parse(await files.text('config.json')), await files.bytes('model.safetensors'), {
    wasm,
  });
  const translator = createTranslator(model, await createTokenizers(files), settings.limits, identity);
  return { identity, translator, settings, files };
}

const loaded = {};
const replies = [];
for (const request of requests) {
  loaded[request.model] ??= await load(models[request.model]);
  try {
    replies.push({ answer: await answer(loaded[request.model], request, async () => {}) });
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
