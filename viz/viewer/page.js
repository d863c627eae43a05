// The page around the viewer: translating, the link that opened the page, menus, and the request that describes the
// record on screen. Functions that return updates are for Gradio's widgets; site.js has plain widgets.

import { element, find, matches, nameInvisible } from './drawing/dom.js';
import { escaped } from './domain/files.js';
import { taskOf } from './domain/payload.js';
import { chapterAddress, prefixOfAddress, taskOfAddress, toAddress } from './state/permalink.js';
import { recordOfB } from './state/comparison.js';
import { fittingPrefix, splitPrefix } from './domain/language_prefix.js';
import { LIMITS } from './domain/limits.js';
import { keepStored, stored } from './transport/storage.js';
import { offerViewer, restoreTheme, whenMounted } from './top_bar.js';
import { followTyping } from './typing.js';
import { toggleDisclosure, togglePopover } from './drawing/widgets.js';
import { send, whyNot } from './transport/requests.js';
import { sameQuestion } from './state/questions.js';
import { trainingStep } from './state/queries.js';
import { forgetModel } from './state/actions.js';
import { createStore } from './state/store.js';
import { createCalls, fileOf, save } from './drawing/files.js';
import { onScreen, titleWithModel, withAnswers } from './documents.js';
import { drawPrefixLists } from './prefix/lists.js';
import { chooseLanguage, offerLanguages, say, speak, spokenLanguage } from './locales/language.js';
import { reopenIn, takeTyped, tellTitle, translatePage } from './locales/language.js';

const LANGUAGE = 'headlight.language'; // in the browser's storage
const UNSAID = '#hl-options-button:not([aria-expanded]), #hl-export:not([aria-expanded])'; // buttons as Gradio makes them
const ENDINGS = ['.html', '.json', '.npz'];

const drawnPrefixes = new WeakMap(); // { model, prefix } by the element
const store = createStore(); // the viewer's store; the viewer may be mounted after the page has read its address
const ofPage = () => store.get().page;
const change = (changes) => store.change({ page: { ...ofPage(), ...changes } });

// What the viewer needs of the page around it. `playground` is { playground, engine }: functions that give the function
// that makes the playground, and the text of the engine's script.
/** @type {(translateAddress: Page['translateAddress'], playground: Pick<Page, 'playground' | 'engine'>) => Page} */
export function createPage(translateAddress, playground) {
  return { store, translateAddress, openExport, otherModels, openModel, ...playground };
}

// Speaks the language that the person wants, of English and `codes`; `own` is the language of an exported file. `fetchTexts` gives
// the catalogue of a language; a page whose catalogue does not arrive speaks English.
export async function speakAsWanted(codes, fetchTexts, own = null) {
  const code = chooseLanguage(codes, stored(LANGUAGE), own);
  const texts = codes.includes(code) ? await fetchTexts(code).catch(() => null) : null;
  if (texts) speak(code, texts);
}

function takeLanguage(value) {
  keepStored(LANGUAGE, value);
  reopenIn(value, ofPage().model);
}

// Makes the mounted viewer available to the page's own widgets, and translates these.
export function provide(mounted) {
  restoreTheme();
  document.addEventListener('keydown', translateOnEnter);
  translatePage(document.body);
  followTyping(store, mounted.ask.isHere);
  store.subscribe(showWaiting);
  store.subscribe(closeExport);
  window.Headlight.viewer = mounted;
  offerViewer(mounted);
}

// A number that was typed takes effect when its box is left.
function translateOnEnter({ key, target }) {
  if (key !== 'Enter' || !matches(target, '#hl-options input')) return;
  target.blur();
  find('#hl-translate').click();
}

// Shows a translation and returns the updates of the message and of the Export button, which needs a record.
export async function translate(...inputs) {
  const { notice, error, hint } = await showTranslation(...inputs);
  if (hint !== undefined) return [`<span class="hl-soft">${escaped(hint)}</span>`];
  if (error !== undefined) return [escaped(error)];
  return notice === undefined ? [] : [escaped(notice), update({ interactive: true })];
}

// Shows a translation. Returns { notice }, what its link asked for in vain; { error }, one sentence; { hint } where a
// page opens without a sentence; or {} if another translation or Cancel has replaced it.
export async function showTranslation(text, model, beam, penalty) {
  const { linked, refused: notice, isTyped, typed } = ofPage();
  const view = viewOf(text);
  change({ linked: null, refused: '', view, isTyped: false, typed: isTyped ? typed + 1 : 0 });
  for (const button of document.querySelectorAll(UNSAID)) button.setAttribute('aria-expanded', 'false');
  const sentence = takeTypedPrefix(text, model);
  // A page of a model without examples opens empty.
  if (linked !== null && !sentence?.trim()) return { hint: say('Type a sentence') };
  const { prefix } = ofPage();
  if (!isWithin(beam, 1, LIMITS.beam) || !Number.isInteger(beam) || !isWithin(penalty, 0, LIMITS.penalty))
    return {
      error: say(
        'The beam size is a whole number from 1 to {beam}, the length penalty one from 0 to {penalty}.',
        LIMITS,
      ),
    };
  const question = { do: 'translate', model, text: sentence, beam_size: beam, length_penalty: penalty, forced: [] };
  if (prefix) question.language_prefix = prefix;
  drawPrefix();
  offerLanguages(find('#hl-language select'), takeLanguage);
  const { client, show } = await whenMounted;
  const { answer, error } = (await send(client, 'translate', question)) ?? {};
  if (answer !== undefined) show(answer, { view });
  else if (error !== undefined) await fillPanels(question);
  else return {};
  return error === undefined ? { notice } : { error: `${error}${stillShown(model)}` };
}

// What is on screen where another model failed, after its error.
function stillShown(model) {
  const { record } = store.get();
  if (!record || record.model.name === model) return '';
  const named = { title: tellTitle(record.model.title), text: record.source_text };
  return ` ${say('Below is still “{text}” by {title}.', named)}`;
}

const isWithin = (value, least, most) => typeof value === 'number' && value >= least && value <= most;

// The address whose view a translation opens: the address of a link, also while its sentence is tried again. A chapter of Learn
// stays open when another sentence takes the place of the chapter's own. Null for no view.
function viewOf(text) {
  const { linked, opened, view: former } = ofPage();
  const { translating, record } = store.get();
  const isAgain = record === null && (taskOfAddress(opened).text ?? text) === text;
  return linked ?? (isAgain ? opened : chapterAddress(translating && former));
}

// If the first sentence of a page is refused, the sentence of its link is shown, or else the model's first example.
async function fillPanels(question) {
  const { model, text: refused } = question;
  const { client, show } = await whenMounted;
  if (store.get().record) return;
  const { opened } = ofPage();
  const { text: ofLink } = taskOfAddress(opened);
  const text = [ofLink, ...examplesOf(model)].find((one) => one && one !== refused);
  if (text === undefined) return;
  const { answer } = (await send(client, 'translate', { ...question, text })) ?? {};
  if (answer !== undefined) show(answer, { view: text === ofLink ? opened : null });
}

export function cancel() {
  store.get().translating?.cancel();
}

function showWaiting({ translating, waiting }, before) {
  if (translating === before.translating && waiting === before.waiting) return;
  document.body.classList.toggle('hl-pending', translating !== null);
  find('#hl-queue-position [role="status"]').textContent = translating?.waiting ?? '';
}

// The widgets' values from the address, or the values of a new page: sentence, model, beam size, length penalty, and the
// buttons with the model's examples. Gradio hands over what the page knows of its models with each address; the first
// one stays, since openModel adds to it.
export function takeAddress(given) {
  const { model: former, site: known } = ofPage();
  const site = former === null ? given : known;
  const task = taskOfAddress(location.hash);
  const isLoaded = task.model !== null && Object.hasOwn(site.languages, task.model);
  const model = isLoaded ? task.model : (site.readers[spokenLanguage()] ?? site.first);
  const opened = location.hash;
  const typed = takeTyped(task.text);
  const prefix = prefixOfAddress(location.hash);
  change({ site, model, opened, linked: location.hash });
  // A link says nothing of a prompt if the sentence has none.
  choosePrefix(prefix ?? (task.text !== null && !choicesOf(model).codes ? '' : null));
  change({ refused: refusalOf(task.model, isLoaded, prefix) });
  const options = [task.beam ?? site.beam, task.alpha ?? 1];
  return [typed ?? task.text ?? examplesOf(model)[0], model, ...options, ...exampleButtons(model)];
}

// What a link asks for in vain, in one sentence; empty if nothing.
function refusalOf(model, isLoaded, prefix) {
  if (model?.startsWith('playground-') && !isLoaded)
    return say('Somebody trained the model of this link in the playground. A link of the playground trains it again.');
  if (model !== null && !isLoaded) {
    const name = nameInvisible(model);
    return say('The link asks for the model “{name}”, which is not here.', { name });
  }
  if (!isLoaded || prefix === null || prefix === ofPage().prefix) return '';
  return say('The link asks for the language or prompt “{prefix}”, which this model does not have.', {
    prefix: nameInvisible(prefix.trim()),
  });
}

// The sentence and the example buttons for a newly chosen model. A sentence stays if the new model reads its language.
export function chooseModel(sentence, model) {
  const { site, model: chosen, prefix, left } = ofPage();
  const [language, former] = [site.languages[model], site.languages[chosen]];
  change({ model });
  choosePrefix(prefix || null);
  if (language === former) return [sentence, ...exampleButtons(model)];
  change({ left: new Map(left).set(former, sentence) });
  return [left.get(language) ?? examplesOf(model)[0], ...exampleButtons(model)];
}

// Puts a model that was trained in this page into the list of models, and its first example on screen.
async function openModel(identity, files) {
  const { ask } = await whenMounted;
  await ask.add(identity, files);
  const { name, title, language, examples } = identity;
  store.change(forgetModel(store.get(), name));
  const { site } = ofPage();
  site.examples[name] = examples;
  site.languages[name] = language;
  /** @type {HTMLSelectElement} */
  const list = find('#hl-model select');
  [...list.options].find(({ value }) => value === name)?.remove();
  list.append(new Option(title, name));
  list.value = name;
  list.dispatchEvent(new Event('choose'));
}

// What a sentence of a model may begin with, as viz/about.py: prefix_choices gives it.
function choicesOf(model) {
  const { prefixes = {} } = ofPage().site;
  return Object.hasOwn(prefixes, model) ? prefixes[model] : {};
}

function choosePrefix(wanted) {
  change({ prefix: fittingPrefix(choicesOf(ofPage().model), wanted) });
}

// Codes or a prompt that a person has typed before the sentence become the choice, and leave the box. Returns the sentence.
function takeTypedPrefix(text, model) {
  const { codes = [], ...others } = choicesOf(model);
  const { prefix, sentence } = splitPrefix(text, { ...others, codes: codes.map(([code]) => code) });
  if (prefix === '') return text;
  change({ prefix });
  /** @type {HTMLInputElement} */
  const box = find('#hl-sentence :is(textarea, input)');
  box.value = sentence;
  box.dispatchEvent(new Event('input', { bubbles: true }));
  return sentence;
}

function drawPrefix() {
  const place = find('.hl-prefix');
  const { model, prefix } = ofPage();
  if (sameQuestion(drawnPrefixes.get(place), { model, prefix })) return; // a list keeps the focus
  drawnPrefixes.set(place, { model, prefix });
  drawPrefixLists(place, choicesOf(model), prefix, (chosen) => {
    drawnPrefixes.set(place, { model, prefix: chosen });
    change({ prefix: chosen });
    place.dispatchEvent(new Event('choose', { bubbles: true }));
  });
}

function examplesOf(model) {
  const examples = ofPage().site.examples[model] ?? [];
  return examples.length > 0 ? examples : [''];
}

const exampleButtons = (model) =>
  Array.from({ length: ofPage().site.buttons }, (_, place) => {
    const value = examplesOf(model)[place] ?? '';
    return update({ value, visible: value !== '' });
  });

// Shows the API calls, if there is a server. Returns { files, title }: the HTML, JSON and NPZ file of the record on screen, null
// for a file that does not exist, and the title of the page with the model; or { error }; or {} if the menu was closed, or
// opened anew, before the answer came.
export async function prepareExport() {
  const { client, ask, state } = await whenMounted;
  if (!isExportOpen()) return {};
  const exporting = {};
  change({ exporting });
  const isLate = () => ofPage().exporting !== exporting;
  try {
    const refusal = whyNoExport(client);
    if (refusal) throw new Error(refusal);
    const shown = state();
    const { files, python, curl } = await ask({ do: 'export', ...onScreen(shown) });
    if (isLate()) return {};
    ofPage().downloads.forEach((url) => URL.revokeObjectURL(url));
    const named = Object.entries(withAnswers(files, shown));
    const found = ENDINGS.map((ending) => named.find(([name]) => name.endsWith(ending)));
    const values = found.map((one) => one && fileOf(one));
    change({ downloads: values.flatMap((one) => one?.url ?? []) });
    showCalls([python, curl]);
    return { files: values, title: titleWithModel(ofPage().site.sizes, shown.home.record.model.name) };
  } catch (error) {
    return isLate() ? {} : { error: error.message };
  }
}

// The same as updates of the message, the download buttons and the button for the page with its model.
export async function exportRecord() {
  const { error, files, title } = await prepareExport();
  if (error !== undefined) return offerNothing(escaped(error));
  if (!files) return [];
  const updates = files.map((value) => update({ value: value ?? null, interactive: Boolean(value) }));
  return ['', ...updates, update({ value: title })];
}

// Takes the files and the calls out of the menu; returns the updates.
function offerNothing(message) {
  showCalls([]);
  const nothing = update({ value: null, interactive: false });
  return [message, nothing, nothing, nothing, update({})];
}

function showCalls(calls) {
  document.querySelector('#hl-export-calls .headlight')?.replaceChildren(...createCalls(...calls));
}

// Why the record on screen cannot be exported, in one sentence; null if it can.
function whyNoExport(client) {
  if (!trainingStep(client.store.get())) return whyNot(client, 'export');
  return say(
    'The files hold no step of the training. Copy the link, save a picture, or go back to the model’s own translation.',
  );
}

// Downloads a page with the model, which opens on the view on screen; returns why it cannot, in one sentence, or ''.
export async function saveWithModel() {
  const { client, ask, state } = await whenMounted;
  const refusal = whyNoExport(client);
  if (refusal) return refusal;
  const request = {
    do: 'portable',
    ...taskOf(state().home.record),
    view: toAddress(state()),
    language: spokenLanguage(),
  };
  try {
    const { name, html } = await ask(request);
    if (html === undefined) return say('Not available for a model that was trained in this page.');
    save(new Blob([html], { type: 'text/html' }), name);
    return '';
  } catch (error) {
    return error.message;
  }
}

export const exportWithModel = async () => escaped(await saveWithModel());

const update = (properties) => ({ __type__: 'update', ...properties });

// The other models of the page, { name, title, to } each; models that read the same language come first. `to` is the prefix of
// the sentence: the prefix of the record on screen, if the model can read it.
/** @type {Page['otherModels']} */
function otherModels({ model: own, language_prefix: prefix = '' }) {
  const { site } = ofPage();
  const choices = (site.groups ?? []).flatMap(([, models]) => models).filter(([name]) => name !== own.name);
  const isSame = ([name]) => site.languages[name] === site.languages[own.name];
  const sorted = [...choices.filter(isSame), ...choices.filter((choice) => !isSame(choice))];
  const fitting = (name) => fittingPrefix(choicesOf(name), prefix || null);
  return sorted.map(([name, title]) => ({ name, title: tellTitle(title), to: fitting(name) }));
}

// The viewer's entries are put into the menu when it is opened: until then, one may exist without the other.
export function toggleExport() {
  const { entries, state } = window.Headlight.viewer;
  const isAlone = recordOfB(state()) === null;
  const note = say('The files hold A alone. To keep both sides, copy the link or save a picture.');
  const notes = isAlone ? [] : [element('span', { class: 'hl-soft' }, note)];
  find('#hl-export-view .headlight').replaceChildren(...entries, ...notes);
  togglePopover('hl-export', 'hl-export-menu');
}

// The menu of a page that also has files and calls: it opens without the files of the record before. Returns updates as
// `exportRecord` does.
export function toggleExportOfFiles() {
  toggleExport();
  return isExportOpen() ? offerNothing(update({})) : [];
}

const isExportOpen = () => document.querySelector('#hl-export-menu.hl-open') !== null;

// The menu is about the record on screen.
function closeExport({ record }, before) {
  if (record !== before.record && isExportOpen()) toggleDisclosure('hl-export', 'hl-export-menu');
}

function openExport() {
  if (!isExportOpen()) find('#hl-export').click();
  requestAnimationFrame(() => find('#hl-export-menu button').focus());
}
