// The Worker in which the models run: it loads a model when it is first asked for, and answers requests.

import { answer } from './answers.js';
import { createFiles } from './files.js';
import { createModel } from './model.js';
import { createTokenizers } from './text/files.js';
import { createTranslator } from './translator.js';
import { fault } from '../locales/language.js';

const WEIGHTS = 'model.safetensors';
const WORK = 50; // milliseconds before other requests get a turn
const noMemory = () => fault('This device has not enough memory for this model; close other pages, then try again.');
const unexpected = () => fault('The model in this page failed; reload the page, then try again.');

// Messages to the Worker: { start: { settings, models, address } } first; { embedded: { name, files } } for a model
// whose files are in the page; { id, request }; and { cancel: id }. Messages from it: { id, answer }, { id, error, said },
// { id, progress }, and { loading: { model, count, size } } while a model arrives.
export function serve(scope) {
  const engine = { scope, models: {}, settings: null, address: null, embedded: {}, loaded: new Map() };
  const cancelled = new Set();
  const asked = new Set(); // requests without an answer
  scope.addEventListener('message', ({ data }) => {
    if (data.start) Object.assign(engine, data.start);
    else if (data.embedded) engine.embedded[data.embedded.name] = data.embedded.files;
    else if (asked.has(data.cancel)) cancelled.add(data.cancel);
    else if (data.request) {
      asked.add(data.id);
      reply(engine, data, cancelled).finally(() => [asked, cancelled].forEach((ids) => ids.delete(data.id)));
    }
  });
}

async function reply(engine, { id, request }, cancelled) {
  const post = (message) => engine.scope.postMessage({ id, ...message });
  let since = performance.now();
  const pause = async (progress) => {
    if (performance.now() - since < WORK) return; // each message makes the page draw
    post({ progress });
    await turn();
    since = performance.now();
    if (cancelled.has(id)) throw fault('Cancelled.');
  };
  try {
    if (request.do === 'keep') post({ answer: await keepFiles(engine, request.model) });
    else if (request.do === 'kept') post({ answer: await keptModels(engine) });
    else post({ answer: await answer(await load(engine, request.model), request, pause) });
  } catch (error) {
    const { message, said } = faultOf(error);
    post({ error: message, said });
  }
}

// Our own errors have a sentence for the person; the language's have none.
function faultOf(error) {
  if (error instanceof RangeError) return noMemory();
  return error.said ? error : unexpected();
}

// Lets messages that wait be read.
/** @type {() => Promise<void>} */
export const turn = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener('message', () => [port1.close(), resolve()]);
    port1.start();
    port2.postMessage(null);
  });

// Each model is loaded once; a failed attempt is repeated by the next request.
function load(engine, name) {
  if (!Object.hasOwn(engine.models, name))
    throw fault('There is no model “{name}” in this page; choose another.', { name });
  if (!engine.loaded.has(name)) {
    const loading = openModel(engine, name);
    engine.loaded.set(name, loading);
    loading.catch(() => engine.loaded.delete(name));
  }
  return engine.loaded.get(name);
}

// Fetches the files of a model for a later visit, without a bar.
async function keepFiles({ models, address }, name) {
  const files = createFiles({ listed: models[name].files, embedded: null, address: `${address}${name}/` });
  for (const file of Object.keys(models[name].files)) await files.bytes(file);
  return true;
}

// The titles of the models whose weights the browser has kept.
async function keptModels({ models, address }) {
  const named = Object.entries(models);
  const kept = named.map(([name, { files }]) =>
    createFiles({ listed: files, embedded: null, address: `${address}${name}/` }).isKept(WEIGHTS),
  );
  const isKept = await Promise.all(kept);
  return named.filter((_, place) => isKept[place]).map(([, { title }]) => title);
}

async function openModel({ scope, models, settings, embedded, address }, name) {
  const identity = models[name];
  const counts = {};
  const report = (file, count) => {
    counts[file] = count;
    const received = Object.values(counts).reduce((total, each) => total + each, 0);
    scope.postMessage({ loading: { model: name, count: received, size: identity.size } });
  };
  const place = { listed: identity.files, embedded: embedded[name] ?? null, address: `${address}${name}/` };
  const files = createFiles(place, report);
  const [config, tokenizers, weights] = await Promise.all([
    files.text('config.json').then(JSON.parse),
    createTokenizers(files),
    files.bytes(WEIGHTS),
  ]);
  const model = await createModel(config, weights);
  scope.postMessage({ loading: { model: name, count: identity.size, size: identity.size } });
  const translator = createTranslator(model, tokenizers, identity);
  return { identity, translator, settings, files: createFiles(place) }; // no bar for files that only a panel needs
}
