// The page without a server: its model, sentence, options and examples, and the Worker in which the model runs.

import { element } from './core/dom.js';
import { taskOfAddress } from './core/permalink.js';
import { INSTRUMENTS } from './core/instruments/questions.js';
import { waitingText, workerAsker } from './core/requests.js';
import { mount } from './viewer.js';

const MEGABYTE = 1e6;

// `site` has the models by name, their examples and captions, the first payload of a model by its name, the limits of
// the options, and the settings of the engine. `engine` gives the text of the engine's script, `embedded` the files of
// a model that are in the page, or null, and `stored` the payload of a model's first example.
export async function startSite(site, { engine, embedded, stored }) {
  const page = Object.fromEntries(
    ['model', 'sentence', 'beam', 'penalty', 'examples', 'message', 'progress', 'options', 'form', 'cancel'].map(
      (name) => [name, document.getElementById(`hl-site-${name}`)],
    ),
  );
  const answerer = createAnswerer(site, { engine, embedded }, (loading) => showProgress(page, loading));
  const viewer = mount(document.querySelector('.headlight'), { address: true, ask: answerer });
  const state = { site, page, viewer, ask: answerer, stored, latest: null };
  window.Headlight.viewer = { ...viewer, ask: answerer };
  fill(state);
  await arrive(state);
}

// An `ask` that starts the Worker when it is first needed, and hands it the files that are in the page.
function createAnswerer({ settings, models }, { engine, embedded }, onLoading) {
  let starting = null;
  const given = new Set();
  const start = async () => {
    const url = URL.createObjectURL(
      new Blob([await engine(), '\nHeadlight.serve(self);'], { type: 'text/javascript' }),
    );
    const worker = new Worker(url);
    worker.postMessage({ start: { settings, models, address: new URL('models/', location.href.split('#')[0]).href } });
    worker.addEventListener('message', ({ data }) => data.loading && onLoading(data.loading));
    return { worker, ask: workerAsker(worker) };
  };
  const ask = async (request, showPosition, signal) => {
    starting ??= start().catch((error) => {
      starting = null;
      throw error;
    });
    const { worker, ask: askWorker } = await starting;
    const { model: name } = request;
    if (!given.has(name) && embedded(name)) worker.postMessage({ embedded: { name, files: embedded(name) } });
    given.add(name);
    return askWorker(request, showPosition, signal);
  };
  return Object.assign(ask, { refuses: INSTRUMENTS }); // until the engine has them
}

// The widgets

function fill(state) {
  const { page, site } = state;
  page.model.append(...Object.values(site.models).map(({ name, title }) => element('option', { value: name }, title)));
  page.model.addEventListener('change', () => chooseModel(state, page.model.value));
  page.form.addEventListener('submit', (event) => {
    event.preventDefault();
    translate(state);
  });
  page.cancel.addEventListener('click', () => finish(state));
  page.options.addEventListener('click', () => {
    const isOpen = document.getElementById('hl-site-choices').classList.toggle('hl-open');
    page.options.setAttribute('aria-expanded', isOpen);
  });
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const follow = () => document.body.classList.toggle('dark', dark.matches);
  dark.addEventListener('change', follow);
  follow();
  window.addEventListener('hashchange', ({ oldURL, newURL }) => {
    const [before, after] = [oldURL, newURL].map((url) => JSON.stringify(taskOfAddress(new URL(url).hash)));
    if (before !== after) location.reload();
  });
}

// What the link asks for, or the first example of the first model; a stored example is drawn at once.
async function arrive(state) {
  const { page, site } = state;
  const task = taskOfAddress(location.hash);
  const isKnown = task.model !== null && Object.hasOwn(site.models, task.model);
  const model = isKnown ? task.model : site.first;
  page.model.value = model;
  fillExamples(state, model);
  page.sentence.value = task.text ?? examplesOf(site, model)[0] ?? '';
  page.beam.value = Math.min(task.beam ?? 1, site.most.beam);
  page.penalty.value = Math.min(task.alpha ?? 1, site.most.penalty);
  await open(state);
}

// The stored example at once while the model arrives, or else the translation.
async function open(state) {
  if (!(await showStored(state))) return translate(state);
  const { model } = requestOf(state);
  return state.ask({ do: 'load', model }).catch((error) => showProblem(state, error));
}

// Draws the stored payload if it is of the model, the sentence and the options on the page; returns whether it is.
async function showStored(state) {
  const { viewer, site } = state;
  const { model, text, beam_size: beam, length_penalty: penalty } = requestOf(state);
  if (beam !== 1 || penalty !== 1 || text !== examplesOf(site, model)[0]) return false;
  const payload = await state.stored(model).catch(() => null);
  if (!payload) return false;
  await viewer.show(payload, { caption: captionOf(site, model, text) });
  return true;
}

function examplesOf({ examples }, model) {
  return Object.hasOwn(examples, model) ? examples[model] : [];
}

function captionOf({ captions }, model, text) {
  return Object.hasOwn(captions, model) && Object.hasOwn(captions[model], text) ? captions[model][text] : null;
}

function fillExamples(state, model) {
  const buttons = examplesOf(state.site, model).map((text) => {
    const button = element('button', { type: 'button' }, text);
    button.addEventListener('click', () => {
      state.page.sentence.value = text;
      translate(state);
    });
    return button;
  });
  state.page.examples.replaceChildren(...buttons);
}

function chooseModel(state, model) {
  fillExamples(state, model);
  const [first] = examplesOf(state.site, model);
  if (first) state.page.sentence.value = first;
  open(state);
}

// Translating

async function translate(state) {
  const { page, site, viewer, ask } = state;
  const request = requestOf(state);
  state.latest = request;
  document.body.classList.add('hl-pending');
  page.message.replaceChildren();
  try {
    const payload = await ask(request, (position) => {
      if (state.latest === request) page.message.textContent = waitingText(position);
    });
    if (state.latest !== request) return;
    finish(state);
    await viewer.show(payload, { caption: captionOf(site, request.model, request.text) });
  } catch (error) {
    if (state.latest === request) showProblem(state, error);
  }
}

function requestOf({ page }) {
  return {
    do: 'translate',
    model: page.model.value,
    text: page.sentence.value,
    beam_size: Number(page.beam.value),
    length_penalty: Number(page.penalty.value),
    prefix: [],
  };
}

function finish(state) {
  state.latest = null;
  document.body.classList.remove('hl-pending');
}

// One sentence, with a button that tries again.
function showProblem(state, error) {
  finish(state);
  state.page.progress.hidden = true;
  const again = element('button', { type: 'button' }, 'Try again');
  again.addEventListener('click', () => translate(state));
  state.page.message.replaceChildren(element('span', {}, error.message), again);
}

// A bar with the name and the size of the model that arrives.
function showProgress({ progress }, { model, count, size }) {
  const megabytes = (bytes) => (bytes / MEGABYTE).toFixed(1);
  const bar = element('progress', { max: size, value: count });
  const text = `${model}: ${megabytes(count)} of ${megabytes(size)} MB`;
  progress.replaceChildren(bar, element('span', {}, text));
  progress.hidden = count >= size;
}
