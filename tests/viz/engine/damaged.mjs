// Opens a model whose files were damaged, once for each damage in damages.json, and writes what came of it to
// outcomes.json: 'answer', or the name of the class of the error.

import { readFileSync, writeFileSync } from 'node:fs';

import { answer } from '../viewer/engine/answers.js';
import { createModel } from '../viewer/engine/model.js';
import { createTokenizers } from '../viewer/engine/text/files.js';
import { createTranslator } from '../viewer/engine/translator.js';

const { identity, settings, request, names, damages } = JSON.parse(readFileSync('damages.json', 'utf8'));
const intact = Object.fromEntries(names.map((name) => [name, readFileSync(`${identity.directory}/${name}`)]));

function damaged(bytes, { start, length, byte }) {
  if (byte === null) return Buffer.concat([bytes.subarray(0, start), bytes.subarray(start + length)]);
  const copy = Buffer.from(bytes);
  copy.fill(byte, start, Math.min(start + length, copy.length));
  return copy;
}

async function outcomeOf(damage) {
  const content = { ...intact, [damage.name]: damaged(intact[damage.name], damage) };
  const files = {
    has: (name) => names.includes(name),
    text: async (name) => content[name].toString('utf8'),
    bytes: async (name) => new Uint8Array(content[name]).buffer,
  };
  try {
    const model = await createModel(
      JSON.parse(await files.text('config.json')),
      await files.bytes('model.safetensors'),
    );
    const translator = createTranslator(model, await createTokenizers(files), identity);
    await answer({ identity, translator, settings, files }, request, async () => {});
    return 'answer';
  } catch (error) {
    return error.constructor.name;
  }
}

const outcomes = [];
for (const damage of damages) outcomes.push(await outcomeOf(damage));
writeFileSync('outcomes.json', JSON.stringify(outcomes));
