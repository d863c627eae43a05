// Opens another translation in place of the model's own: a step of the training, one with muted heads or with forced tokens, a
// hypothesis, or a translation that the person typed.

import { readable, visible } from '../drawing/dom.js';
import { decode, targetIds, taskOf } from '../domain/payload.js';
import { changedHeads } from '../state/labels.js';
import { sameQuestion } from '../state/questions.js';
import { stateOf } from '../state/store.js';
import { changeView, chooseKind, goHome, openView } from '../state/actions.js';
import { compareWith } from '../values/difference.js';
import { request } from './requests.js';
import { say } from '../locales/language.js';

const OPENING = ['force', 'score', 'target', 'training_step']; // requests whose answers open another view

// Adds to what is known of the training of a record's model.
function keepTraining(store, { model: { name } }, known) {
  const { trainings } = stateOf(store);
  store.change({ trainings: { ...trainings, [name]: { ...trainings[name], ...known } } });
}

// Returns whether the training of the model on screen is known.
/** @type {(client: Client) => Promise<boolean>} */
export async function askTraining(client) {
  const { store } = client;
  const { record } = stateOf(store);
  const training = await request(client, 'training', { do: 'training' });
  if (training) keepTraining(store, record, { ...training, records: new Map(), heads: new Map() }); // that were asked for
  return Boolean(training);
}

// Reads the record of a run that goes on once more, without a word in the status line.
/** @type {(client: Client) => Promise<void>} */
export async function fetchTrainingAgain({ store, ask }) {
  if (!ask) return;
  const { record } = stateOf(store);
  const training = await ask({ ...taskOf(record), do: 'training' }).catch(() => null); // the next one may arrive
  const { records: _, ...known } = stateOf(store).trainings[record.model.name];
  if (!training || sameQuestion(training, { ...known, heads: undefined })) return;
  keepTraining(store, record, { ...training, heads: new Map() });
}

// Asks for the measures and the role of every head at each saved step, for one sentence.
/** @type {(client: Client, sentence: number) => Promise<void>} */
export async function askTrainingHeads(client, sentence) {
  const { store } = client;
  const { record } = stateOf(store);
  const answer = await request(client, 'training_heads', { do: 'training_heads', sentence });
  if (!answer) return;
  const { heads } = stateOf(store).trainings[record.model.name];
  keepTraining(store, record, { heads: new Map(heads).set(sentence, answer.steps) });
}

// Shows one sentence at one saved step; returns whether it is on screen.
/** @type {(client: Client, step: number, sentence: number) => Promise<boolean>} */
export async function showTrainingStep(client, step, sentence) {
  const { store } = client;
  const { record, trainings } = stateOf(store);
  const { records } = trainings[record.model.name];
  const key = `${sentence}/${step}`;
  const question = { do: 'training_step', step, sentence };
  const shown = records.get(key) ?? (await request(client, 'training_step', question, decode));
  if (!shown) return false;
  keepTraining(store, record, {
    records: new Map(stateOf(store).trainings[record.model.name].records).set(key, shown),
  });
  open(store, shown, { type: 'training', label: say('training, step {step}', { step }), step, sentence });
  return true;
}

// The translation with muted heads is part of the answer that says what they change.
/** @type {(client: Client, outcome: { record: TranslationRecord; heads: readonly Head[]; ablation: Ablation }) => void} */
export function showMuted({ store }, { record, heads, ablation }) {
  const { shown } = stateOf(store);
  const changed = changedHeads(heads, ablation);
  const label = shown
    ? say('{view}, with {changed}', { view: shown.label, changed })
    : say('with {changed}', { changed });
  open(store, record, { type: 'muted', label });
}

/** @type {(client: Client, step: number, id: number) => Promise<void>} */
export const forceToken = (client, step, id) =>
  forceTokens(client, [...targetIds(stateOf(client.store).record).slice(0, step), id]);

/** @type {(client: Client, forced: number[]) => Promise<void>} */
export async function forceTokens(client, forced) {
  const record = await request(client, 'force', { do: 'translate', forced }, decode);
  if (!record) return;
  const last = record.tokens.predicted[record.n_forced - 1];
  const label = say('forced “{word}” at step {step}', { word: visible(last), step: record.n_forced });
  open(client.store, record, { type: 'forced', label });
}

// Shows exactly these tokens; the model's own translation is already there.
/** @type {(client: Client, ids: number[], status?: string | null) => Promise<void>} */
export async function showHypothesis(client, ids, status = null) {
  const { store } = client;
  const state = stateOf(store);
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

/** @type {(client: Client) => void} */
export function showReference({ store }) {
  const { scored } = stateOf(store).home;
  if (scored) open(store, scored, { type: 'reference', label: say('your own translation') });
}

// Shows how the model's own translation differs from the translation that the person typed.
/** @type {(client: Client) => void} */
export function compareWithReference({ store }) {
  store.change(goHome(stateOf(store)));
  const { scored } = stateOf(store);
  if (!scored) return;
  const reference = { label: say('your own translation'), record: scored };
  store.change({ ...chooseKind(stateOf(store), 'cross'), ...compareWith(reference) });
}

// Scores a translation that the person typed; returns whether there is a result.
/** @type {(client: Client, text: string) => Promise<boolean>} */
export async function scoreTranslation(client, text) {
  const { store } = client;
  const scored = await request(client, 'score', { do: 'score', target: text }, decode);
  const state = stateOf(store);
  if (scored) store.change(changeView(state, state.home, { scored }));
  return Boolean(scored);
}

// Cancels what would still open another view.
/** @type {(client: Client) => void} */
export function cancelViews({ requests }) {
  for (const name of OPENING) {
    const running = requests.get(name);
    if (running?.isOpen) running.cancel();
  }
}

function open(store, record, details) {
  store.change(openView(stateOf(store), record, details));
}
