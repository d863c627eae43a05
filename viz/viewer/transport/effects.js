// Requests that follow a change of the state, to a server or a Worker. Panels call these functions or change the state;
// the answers go into the state.

import { readable, visible } from '../drawing/dom.js';
import { decode, givenIds, targetIds, taskOf } from '../domain/payload.js';
import { changedHeads } from '../state/labels.js';
import { importanceOf, importanceBeside } from '../state/measures.js';
import { removedPlaces } from '../values/leave_one_out.js';
import { USUAL, chosenValue } from '../values/values.js';
import { ZERO } from '../state/store.js';
import { besideQuestion, isUpToDate } from '../state/comparison.js';
import { baselineGiven, isOutcome, muteQuestion } from '../state/mutes.js';
import { isAnswered, ofPinnedCell, sameQuestion } from '../state/questions.js';
import { SUBJECTS, openQuestions, questionOf } from '../instruments/instruments.js';
import { isRequested, request, whyNot } from './requests.js';
import { addSurvey, partOf } from '../domain/survey.js';
import { changeView, chooseKind, closeView, goHome, openView } from '../state/actions.js';
import { PINNED, differs, isExplained, pinnedCell, sameSpot, sourceView } from '../state/queries.js';
import { compareWith } from '../values/difference.js';
import { createBesideView } from '../state/sides.js';
import { say } from '../locales/language.js';

const BEAM_OF_TREE = 4; // after a greedy search, which has no tree to draw
const OPENING = ['force', 'score', 'target', 'training_step']; // requests whose answers open another view

// Requests that follow from a change of the state.
export function startEffects(client) {
  client.store.subscribe((state, before) => {
    if (!state.record) return;
    followMutes(client, state, before);
    followValue(client, state, before);
    followPin(client, state, before);
    followRemoved(client, state, before);
    followSummary(client, state, before);
    followTraining(client, state, before);
    followQuestions(client, state, before);
    followBeside(client, state, before);
  });
}

// The same for side B, which is about its values, its word links and its heads.
export function startEffectsOfB(client) {
  client.store.subscribe((state, before) => {
    if (!state.record) return;
    followValue(client, state, before);
    followQuestions(client, state, before);
    followImportance(client, state, before);
  });
}

// Asks what the muted heads change, again for each new record. If the translation with muted heads is on screen and
// the muted heads change, the model's own translation is shown again.
function followMutes(client, state, before) {
  if (!differs(state, before, ['record', 'mutes', 'instead'])) return;
  const { store } = client;
  if (state.shown?.type === 'muted') {
    const isOther = state.mutes !== sourceView(state).mutes || state.instead !== before.instead;
    if (isOther) store.change({ ...closeView(state), mutes: state.mutes });
  } else if (state.mutes.length === 0) {
    if (state.muted) store.change({ muted: null });
  } else if (!isOutcome(state)) {
    if (muteQuestion(state) && !whyNot(client, 'mute')) askMuted(client);
  }
}

// The given tokens of a translation, for a request; nothing if there are none.
function givenPrefix(record) {
  const prefix = givenIds(record);
  return prefix.length > 0 ? { prefix } : {};
}

// Tokens that were given stay given with heads muted, so that only the heads make a difference. If the request fails,
// restores the muted heads of the last answer, so that the marks on the heads agree with it.
export async function askMuted(client) {
  const { store } = client;
  const { mutes, instead, record } = store.get();
  const read = async (answer) => ({ ...answer, heads: mutes, instead, record: await decode(answer.payload) });
  const asked = muteQuestion(store.get());
  if (!asked) return;
  const question = { ...asked, ids: targetIds(record), ...givenPrefix(record), heads: mutes };
  const muted = await request(client, 'mute', question, read);
  const state = store.get();
  if (muted === undefined || differs(state, { mutes, instead, record }, ['mutes', 'instead', 'record'])) return;
  if (muted) store.change({ muted });
  else if (state.muted) store.change({ mutes: state.muted.heads, instead: state.muted.instead });
  else store.change({ mutes: [] });
}

// Numbers that the record does not have: asked once for each record; without an answer, weights are shown again.
async function followValue(client, state, before) {
  const { record, values } = state;
  const { request: name, read } = chosenValue(state);
  if (!name || values[name] || !differs(state, before, ['record', 'mode'])) return;
  const question = { do: name, ids: targetIds(record) };
  if (isRequested(client, name, question)) return;
  const numbers = await request(client, name, question, read);
  const { store } = client;
  const now = store.get();
  if (numbers === undefined || now.record !== record) return;
  if (numbers) store.change({ values: { ...now.values, [name]: numbers } });
  else if (chosenValue(now).request === name) store.change({ mode: USUAL.name });
}

// The whole translation without the source word that is removed, or pinned while losses are shown.
async function followRemoved(client, state, before) {
  const { record } = state;
  const places = removedPlaces(state);
  if (
    !places ||
    !differs(state, before, ['record', 'removedAt', 'mode', 'pin', 'words']) ||
    whyNot(client, 'remove_word')
  )
    return;
  if (sameQuestion(state.removed?.places, places)) return;
  const answer = await request(client, 'remove_word', { do: 'remove_word', places, ...givenPrefix(record) });
  const { store } = client;
  if (answer && store.get().record === record) store.change({ removed: { places, text: answer.text } });
}

// What In short says beyond the record: not asked at once, since a link that is opened may choose another view. Muted heads
// are not part of it, so a translation with muted heads has its record alone.
function followSummary(client, state, before) {
  const running = client.requests.get('summary');
  if (state.translating && running?.isOpen) running.cancel(); // the next sentence comes first
  if (state.record === before.record) return;
  queueMicrotask(() => {
    const { record, summary, shown } = client.store.get();
    if (summary || shown?.type === 'muted') return;
    if (!whyNot(client, 'summary') && !isRequested(client, 'summary', summaryQuestion(record))) askSummary(client);
  });
}

function summaryQuestion(record) {
  return { do: 'summary', ids: targetIds(record), ...givenPrefix(record) };
}

// The instruments that the sentences open get their answers too.
export async function askSummary(client) {
  const { store } = client;
  const { record } = store.get();
  const answer = await request(client, 'summary', summaryQuestion(record));
  const now = store.get();
  if (!answer || now.record !== record) return;
  const { heads, rivals, importance, lens, leave_one_out: losses } = answer;
  store.change({
    summary: { heads, rivals },
    importance: importance ? { changes: importance, instead: ZERO } : now.importance,
    values: { ...now.values, leave_one_out: losses ?? now.values.leave_one_out },
    answers: { ...now.answers, lens: { question: questionOf(now, 'lens'), answer: lens } },
  });
}

// The pinned cell is explained while the panel Cell is open.
function followPin(client, state, before) {
  const moved = differs(state, before, ['panel', ...PINNED]);
  if (!moved || state.panel !== 'cell' || !pinnedCell(state) || isExplained(state) || whyNot(client, 'cell')) return;
  if (!isRequested(client, 'cell', cellQuestion(state))) askCell(client);
}

function cellQuestion(state) {
  return { do: 'cell', ...ofPinnedCell(state) };
}

export async function askCell(client) {
  const { store } = client;
  const place = pinnedCell(store.get());
  const answer = await request(client, 'cell', cellQuestion(store.get()));
  if (answer) store.change({ cell: { ...answer, ...place } });
}

// The open questions are asked again when what they are about changes, but not for every row that the pointer crosses. The
// person's own links are drawn with the pointer, so they are asked about at once.
function followQuestions(client, state, before) {
  const isPassing = state.hover && !sameSpot(state.hover, state.pin) && state.gold === before.gold;
  if (isPassing || !differs(state, before, ['hover', 'panel', ...SUBJECTS])) return;
  for (const name of openQuestions(state)) {
    const question = questionOf(state, name);
    const isDue = question && !isAnswered(state, name, question) && !isRequested(client, name, question);
    if (isDue && !whyNot(client, name)) askQuestion(client, name);
  }
}

// Asks an instrument about the view on screen. A request that fails or is cancelled is kept as one without an answer.
export async function askQuestion(client, name) {
  const { store } = client;
  const { record } = store.get();
  const question = questionOf(store.get(), name);
  const answer = await request(client, name, question);
  const now = store.get();
  if (answer === undefined || now.record !== record) return;
  store.change({ answers: { ...now.answers, [name]: { question, answer } } });
}

// What stands beside the view is asked for when the person chooses it, and again when the view that it follows changes.
async function followBeside(client, state, before) {
  const question = besideQuestion(state);
  if (!question || isUpToDate(state) || !differs(state, before, ['sideB', 'record', 'shown'])) return;
  if (isRequested(client, 'beside', question) || whyNot(client, 'beside')) return;
  const record = await request(client, 'beside', question, decode);
  if (record !== undefined) client.store.change({ beside: createBesideView(client.store.get(), question, record) });
}

// The heads of B are measured after the heads of A.
function followImportance(client, state, before) {
  if (!importanceBeside(state) || importanceOf(state)) return;
  if (importanceBeside(state) === importanceBeside(before) && !differs(state, before, ['record', 'instead'])) return;
  if (!whyNot(client, 'importance')) askImportance(client);
}

// Reads sentences in parts, so that there is progress and Cancel stops soon. Earlier parts are kept then.
export async function askExamples(client, sentences) {
  const { store } = client;
  const { name } = store.get().record.model;
  let survey = { sentences, done: 0, found: /** @type {any} */ (null) };
  const keep = () => store.change({ surveys: { ...store.get().surveys, [name]: survey } });
  // The server counts the sentences of a part.
  const ofAll = ([text, counts]) => [text, { done: survey.done + counts.done, count: sentences.length }];
  keep();
  while (survey.done < sentences.length) {
    const part = partOf(sentences, survey.done);
    const answer = await request(client, 'examples', { do: 'examples', sentences: part }, inNextTask, ofAll);
    if (!answer) return;
    survey = { sentences, done: survey.done + part.length, found: addSurvey(survey.found, answer, survey.done) };
    keep();
  }
}

// A large answer arrives in one task of the page, and is added up and drawn in another one.
function inNextTask(answer) {
  return new Promise((resolve) => setTimeout(() => resolve(answer)));
}

// The training of a model is read when its panel is open.
function followTraining(client, state, before) {
  const { panel, record, trainings } = state;
  if (panel !== 'training' || trainings[record.model.name] || !differs(state, before, ['panel', 'record'])) return;
  if (!whyNot(client, 'training')) askTraining(client);
}

// Adds to what is known of the training of a record's model.
function keepTraining(store, { model: { name } }, known) {
  const { trainings } = store.get();
  store.change({ trainings: { ...trainings, [name]: { ...trainings[name], ...known } } });
}

// Returns whether the training of the model on screen is known.
export async function askTraining(client) {
  const { store } = client;
  const { record } = store.get();
  const training = await request(client, 'training', { do: 'training' });
  if (training) keepTraining(store, record, { ...training, records: new Map(), heads: new Map() }); // that were asked for
  return Boolean(training);
}

// Reads the record of a run that goes on once more, without a word in the status line.
export async function readTrainingAgain({ store, ask }) {
  const { record } = store.get();
  const training = await ask({ ...taskOf(record), do: 'training' }).catch(() => null); // the next one may arrive
  const { records: _, ...known } = store.get().trainings[record.model.name];
  if (!training || sameQuestion(training, { ...known, heads: undefined })) return;
  keepTraining(store, record, { ...training, heads: new Map() });
}

// What every head was at each saved step, for one sentence.
export async function askTrainingHeads(client, sentence) {
  const { store } = client;
  const { record } = store.get();
  const answer = await request(client, 'training_heads', { do: 'training_heads', sentence });
  if (!answer) return;
  const { heads } = store.get().trainings[record.model.name];
  keepTraining(store, record, { heads: new Map(heads).set(sentence, answer.steps) });
}

// Shows one sentence at one saved step; returns whether it is on screen.
export async function showTrainingStep(client, step, sentence) {
  const { store } = client;
  const { record, trainings } = store.get();
  const { records } = trainings[record.model.name];
  const key = `${sentence}/${step}`;
  const question = { do: 'training_step', step, sentence };
  const shown = records.get(key) ?? (await request(client, 'training_step', question, decode));
  if (!shown) return false;
  keepTraining(store, record, { records: new Map(store.get().trainings[record.model.name].records).set(key, shown) });
  open(store, shown, { type: 'training', label: say('training, step {step}', { step }), step, sentence });
  return true;
}

// What each head matters, alone and in all rows, if it gives what muted heads give.
export async function askImportance(client) {
  const { store } = client;
  const before = store.get();
  const given = baselineGiven(before);
  if (!given) return;
  const refusal = whyNot(client, 'importance');
  if (refusal) return store.change({ error: refusal });
  const { instead } = before;
  const read = ({ baseline, ...changes }) => ({ changes, baseline, instead, isAsked: true });
  const ids = targetIds(sourceView(before).record);
  const importance = await request(client, 'importance', { do: 'importance', ids, ...given }, read);
  const state = store.get();
  const view = sourceView(state);
  const usual = importanceOf({ importance: view.importance, instead: ZERO });
  if (importance) store.change(changeView(state, view, { importance: { ...importance, usual } }));
}

// The translation with muted heads is part of the answer that says what they change.
export function showMuted({ store }, { record, heads, instead }) {
  const { shown } = store.get();
  const changed = changedHeads(heads, instead);
  const label = shown
    ? say('{view}, with {changed}', { view: shown.label, changed })
    : say('with {changed}', { changed });
  open(store, record, { type: 'muted', label });
}

export function forceToken(client, step, id) {
  return forceTokens(client, [...targetIds(client.store.get().record).slice(0, step), id]);
}

// Shows the translation that begins with these tokens.
export async function forceTokens(client, prefix) {
  const record = await request(client, 'force', { do: 'translate', prefix }, decode);
  if (!record) return;
  const last = record.tokens.predicted[record.n_prefix - 1];
  const label = say('forced “{word}” at step {step}', { word: visible(last), step: record.n_prefix });
  open(client.store, record, { type: 'forced', label });
}

export async function askBeams(client) {
  const { store } = client;
  const { beam_size: size } = store.get().home.record.options;
  const beams = await request(client, 'beams', { do: 'beams', beam_size: size > 1 ? size : BEAM_OF_TREE });
  const state = store.get();
  if (beams) store.change(changeView(state, state.home, { beams }));
}

// Shows exactly these tokens; the model's own translation is already there.
export async function showHypothesis(client, ids, status = null) {
  const { store } = client;
  const state = store.get();
  if (targetIds(state.home.record).join() === ids.join()) return store.change(goHome(state));
  const record = await request(client, 'target', { do: 'target', ids }, decode);
  if (record) open(store, record, { type: 'hypothesis', label: hypothesisName(status, readable(record.text)) });
  return undefined;
}

function hypothesisName(status, text) {
  if (status === 'kept') return say('kept hypothesis “{text}”', { text });
  if (status === 'pruned') return say('pruned hypothesis “{text}”', { text });
  return status === 'finished' ? say('finished hypothesis “{text}”', { text }) : say('hypothesis “{text}”', { text });
}

// Shows the translation that the person typed.
export function showReference({ store }) {
  const { scored } = store.get().home;
  if (scored) open(store, scored, { type: 'reference', label: say('your own translation') });
}

// Shows how the model's own translation differs from the translation that the person typed.
export function compareWithReference({ store }) {
  store.change(goHome(store.get()));
  const { scored } = store.get();
  const reference = { label: say('your own translation'), record: scored };
  store.change({ ...chooseKind(store.get(), 'cross'), ...compareWith(reference) });
}

// Scores a translation that the person typed; returns whether there is a result.
export async function scoreTranslation(client, text) {
  const { store } = client;
  const scored = await request(client, 'score', { do: 'score', target: text }, decode);
  const state = store.get();
  if (scored) store.change(changeView(state, state.home, { scored }));
  return Boolean(scored);
}

// Cancels what would still open another view.
export function cancelViews({ requests }) {
  for (const name of OPENING) if (requests.get(name)?.isOpen) requests.get(name).cancel();
}

function open(store, record, details) {
  store.change(openView(store.get(), record, details));
}
