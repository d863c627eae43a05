// The page without a server: plain widgets in place of Gradio's, and the Worker in which the models run.

import { createButton, element, find } from './drawing/dom.js';
import { fixed } from './drawing/numbers.js';
import { withDocuments } from './documents.js';
import { startWorker, workerAsker } from './transport/requests.js';
import { cancel, chooseModel, createPage, provide, takeAddress, prepareExport, saveWithModel } from './page.js';
import { showTranslation, toggleExportOfFiles, speakAsWanted } from './page.js';
import { openAbout, openHelp, openLearn, openPlayground, restoreTheme, toggleOptions, toggleTheme } from './top_bar.js';
import { BACKWARDS } from './learn/chapters.js';
import { isPlayground, withOwnModels } from './playground/entry.js';
import { mount } from './viewer.js';
import { rewriteAddress } from './state/parameters.js';
import { say } from './locales/language.js';

const MEGABYTE = 1e6;
// By the names of viz/widgets.py.
const ACTIONS = { cancel, openAbout, openHelp, openLearn, openPlayground, toggleOptions, toggleTheme };

// `site` has what page.js knows of the models, their names, the settings of the engine, the requests whose answer is
// stored, and the view to open where the address names none. `engine` gives the text of the engine's script, `playground`
// the function that makes the playground, `embedded` the files of a model that are in the page, or null, `stored` the
// stored answer of a model, and `texts` the catalogue of a language.
export async function startSite(site, sources) {
  if (location.hash === '' && site.view) rewriteAddress(site.view);
  const widgets = findWidgets();
  const actions = { ...ACTIONS, toggleExport: () => openExport(widgets) };
  /** @type {NodeListOf<HTMLElement>} */
  const buttons = document.querySelectorAll('[data-action]');
  for (const button of buttons) button.addEventListener('click', actions[button.dataset.action ?? '']);
  await speakAsWanted(site.locales, sources.texts, site.locale);
  const asker = createAsker(site, sources, (loading) => showLoading(widgets.progress, loading));
  const ask = withDocuments(withOwnModels(asker, sources.engine, site.settings), site, sources.parts);
  widgets.ask = ask;
  const { playground, engine } = sources;
  const page = createPage(() => translateAddress(widgets, site), { playground, engine });
  const viewer = mount(widgets.viewer, { address: true, ask, about: site.about, page });
  followTheme(); // before `provide`, which restores the theme that the person chose
  provide(viewer);
  listen(widgets);
  widgets.sentence.readOnly = false; // until now the first sentence would have replaced what a person typed
  await translateAddress(widgets, site);
  if (site.parts && Object.hasOwn(site.models, BACKWARDS.model)) keepForLearn(ask);
}

// Learn begins with a model of its own, which a later visit without a connection needs too.
function keepForLearn(ask) {
  if (navigator.connection?.saveData) return;
  ask({ do: 'keep', model: BACKWARDS.model }).catch(() => {}); // the next visit tries again
}

// Requests

// An `ask` that gives a stored answer at once, and otherwise asks the Worker. It starts the Worker when it is first needed or
// has failed, and hands it the files that are in the page.
function createAsker(site, { engine, embedded, stored }, onLoading) {
  /** @type {Promise<{ ask: Ask; postMessage: (message: any) => void }> | null} */
  let starting = null;
  const given = new Set();
  const forget = () => {
    starting = null;
    given.clear();
  };
  const askWorker = async (request, showPosition, signal) => {
    starting ??= startEngine(site, engine, onLoading, forget).catch((error) => {
      forget();
      throw error;
    });
    const worker = await starting;
    const { model: name } = request;
    const files = given.has(name) ? null : embedded(name);
    if (files) worker.postMessage({ embedded: { name, files } });
    given.add(name);
    return worker.ask(request, showPosition, signal);
  };
  const ask = async (request, ...rest) => {
    const answer = isStored(site, request) ? await stored(request.model).catch(() => null) : null;
    return answer ?? askWorker(request, ...rest);
  };
  const kept = site.parts ? () => ask({ do: 'kept' }) : null; // one file has its models inside
  return Object.assign(ask, { kept, isLocal: true });
}

async function startEngine({ settings, models, parts }, engine, onLoading, onFailure) {
  const code = await engine().catch(() => {
    throw new Error(say('The model could not be loaded; check the connection, then try again.'));
  });
  const worker = startWorker(code, 'serve');
  worker.addEventListener('error', () => {
    worker.terminate();
    onFailure();
  });
  const address = parts && new URL('models/', document.baseURI).href; // one file has its models inside
  worker.postMessage({ start: { settings, models, address } });
  worker.addEventListener('message', ({ data }) => data.loading && onLoading(data.loading));
  return { ask: workerAsker(worker), postMessage: (message) => worker.postMessage(message) };
}

// Whether the page has the answer: the translation of this sentence, into this language, with these options.
function isStored({ stored }, { do: what, model, forced, ...task }) {
  if (what !== 'translate' || forced.length > 0 || !Object.hasOwn(stored, model)) return false;
  const known = stored[model];
  return Object.keys({ ...known, ...task }).every((name) => known[name] === task[name]);
}

// Widgets

/**
 * @typedef {{
 *   model: HTMLSelectElement; sentence: HTMLInputElement; prefix: HTMLElement; beam: HTMLInputElement; penalty: HTMLInputElement;
 *   examples: HTMLElement; message: HTMLElement; progress: HTMLElement; exporter: HTMLButtonElement;
 *   files: HTMLButtonElement[]; ready: any[]; withModel: HTMLElement; viewer: HTMLElement; ask: Ask | null;
 * }} Widgets
 */

/** @type {() => Widgets} */
const findWidgets = () => ({
  model: find('#hl-model select'),
  sentence: find('#hl-sentence input'),
  prefix: find('#hl-prefix'),
  beam: find('#hl-beam input'),
  penalty: find('#hl-penalty input'),
  examples: find('#hl-examples'),
  message: find('#hl-message [role="alert"]'),
  progress: find('#hl-progress [role="status"]'),
  exporter: find('#hl-export'), // which needs a record
  files: ['html', 'json', 'npz'].map((ending) => find(`#hl-export-${ending}`)),
  ready: [], // the files
  withModel: find('#hl-export-model'),
  viewer: find('#hl-viewer .headlight'),
  ask: null, // until the languages are known
});

/** @type {(widgets: Widgets) => void} */
function listen(widgets) {
  const { model, sentence, prefix, files, withModel } = widgets;
  // Not the form's submit, which a frame without allow-forms never sends. The Enter key clicks on the button too.
  find('#hl-translate').addEventListener('click', (event) => {
    event.preventDefault();
    translate(widgets);
  });
  const choose = () => {
    const [text, ...examples] = chooseModel(sentence.value, model.value);
    sentence.value = text;
    showExamples(widgets, examples);
    translate(widgets);
  };
  for (const type of ['change', 'choose']) model.addEventListener(type, choose); // by the person, or by openModel
  prefix.addEventListener('choose', () => translate(widgets));
  files.forEach((file, place) => file.addEventListener('click', () => download(widgets.ready[place])));
  withModel.addEventListener('click', async () => tellOfExport(widgets, await saveWithModel()));
}

// The menu opens without the files of the record before.
/** @type {(widgets: Widgets) => Promise<void>} */
async function openExport(widgets) {
  toggleExportOfFiles();
  for (const file of widgets.files) file.disabled = true;
  const { files, title, error } = await prepareExport();
  if (error !== undefined) tellOfExport(widgets, error);
  if (!files) return;
  widgets.ready = files;
  widgets.files.forEach((file, place) => (file.disabled = !files[place]));
  widgets.withModel.textContent = title;
}

function download({ url, orig_name: name }) {
  element('a', { href: url, download: name }).click();
}

/** @type {(widgets: Widgets, sentence: string) => void} */
function tellOfExport({ message }, sentence) {
  message.replaceChildren(...(sentence ? [element('span', {}, sentence)] : []));
}

// Translates what the address asks for, or the first example of the first model.
/** @type {(widgets: Widgets, site: any) => Promise<void>} */
function translateAddress(widgets, site) {
  const [text, model, beam, penalty, ...examples] = takeAddress(site);
  widgets.sentence.value = text;
  widgets.model.value = model;
  widgets.beam.value = beam;
  widgets.penalty.value = penalty;
  showExamples(widgets, examples);
  return translate(widgets);
}

/** @type {(widgets: Widgets, examples: any[]) => void} */
function showExamples(widgets, examples) {
  const take = (text) => {
    widgets.sentence.value = text;
    translate(widgets);
  };
  const shown = examples.filter(({ visible }) => visible);
  const buttons = shown.map(({ value }) => createButton('', () => take(value), {}, value));
  widgets.examples.replaceChildren(...buttons);
}

// After a stored answer the model is loaded for the next request.
/** @type {(widgets: Widgets) => Promise<void>} */
async function translate(widgets) {
  const { sentence, model, beam, penalty, message, exporter } = widgets;
  message.replaceChildren();
  const inputs = [sentence.value, model.value, beam.valueAsNumber, penalty.valueAsNumber];
  const { notice, error, hint } = await showTranslation(...inputs);
  if (hint !== undefined) return message.replaceChildren(element('span', { class: 'hl-soft' }, hint));
  if (error !== undefined) return showProblem(widgets, error);
  if (notice === undefined) return undefined; // replaced or cancelled
  message.replaceChildren(notice);
  exporter.disabled = false;
  if (isPlayground(location.hash)) return undefined; // a training needs the whole processor
  return widgets.ask?.({ do: 'load', model: model.value }).catch((failure) => showProblem(widgets, failure.message));
}

// One sentence, with a button that tries again.
/** @type {(widgets: Widgets, sentence: string) => void} */
function showProblem(widgets, sentence) {
  const again = createButton('', () => translate(widgets), {}, say('Try again'));
  widgets.message.replaceChildren(element('span', {}, sentence), again);
  widgets.progress.hidden = true;
}

// A bar with the name and the size of the model that arrives.
function showLoading(progress, { model, count, size }) {
  const megabytes = (bytes) => fixed(bytes / MEGABYTE, 1);
  const bar = element('progress', { max: size, value: count });
  const text = say('{model}: {count} of {size} MB', { model, count: megabytes(count), size: megabytes(size) });
  progress.replaceChildren(bar, element('span', {}, text));
  progress.hidden = count >= size;
}

// As the system, until the person chooses.
function followTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const follow = () => {
    document.body.classList.toggle('dark', dark.matches);
    restoreTheme();
  };
  dark.addEventListener('change', follow);
  follow();
}
