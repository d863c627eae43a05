// Loads models from their directories as the page's worker does from a server.

import { readFileSync } from 'node:fs';

import { createModel } from '../viewer/engine/model.js';
import { createTokenizers } from '../viewer/engine/text/files.js';
import { createTranslator } from '../viewer/engine/translator.js';

// Returns a function that loads a model by its name, once.
export function loaderOf(models, settings, wasm = true) {
  const loaded = {};
  return (name) => (loaded[name] ??= load(models[name], settings, wasm));
}

async function load(identity, settings, wasm) {
  const files = filesOf(identity);
  const model = await createModel(JSON.parse(await files.text('config.json')), await files.bytes('model.safetensors'), {
    wasm,
  });
  const translator = createTranslator(model, await createTokenizers(files), identity);
  return { identity, translator, settings, files };
}

function filesOf({ directory, files }) {
  const path = (name) => `${directory}/${name}`;
  return {
    has: (name) => Object.hasOwn(files, name),
    text: async (name) => readFileSync(path(name), 'utf8'),
    bytes: async (name) => new Uint8Array(readFileSync(path(name))).buffer,
  };
}
