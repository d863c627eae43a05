// Requests that follow a change of the state, or that panels ask, to a server or a Worker. The answers go into the state.

import { decode, forcedIds, targetIds } from '../domain/payload.js';
import { importanceOf, importanceBeside } from '../state/measures.js';
import { removedPlaces } from '../values/leave_one_out.js';
import { USUAL, chosenValue } from '../values/values.js';
import { ZERO, stateOf } from '../state/store.js';
import { besideQuestion, isUpToDate } from '../state/comparison.js';
import { baselineGiven, isOutcome, muteQuestion } from '../state/questions.js';
import { isAnswered, ofPinnedCell, sameQuestion } from '../state/questions.js';
import { SUBJECTS, openQuestions, questionOf } from '../instruments/instruments.js';
import { isRequested, request, whyNot } from './requests.js';
import { askTraining } from './views.js';
import { addSurvey, partOf } from '../domain/survey.js';
import { changeView, closeView } from '../state/actions.js';
import { PINNED, differs, isExplained, pinnedCell, sameSpot, sourceView } from '../state/queries.js';
import { createBesideView } from '../state/sides.js';

const BEAM_OF_TREE = 4; // after a greedy search, which has no tree to draw

/** @type {(client: Client) => void} */
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
/** @type {(client: Client) => void} */
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
  if (!differs(state, before, ['record', 'mutes', 'ablation'])) return;
  const { store } = client;
  if (state.shown?.type === 'muted') {
    const isOther = state.mutes !== sourceView(state).mutes || state.ablation !== before.ablation;
    if (isOther) store.change({ ...closeView(state), mutes: state.mutes });
  } else if (state.mutes.length === 0) {
    if (state.muted) store.change({ muted: null });
  } else if (!isOutcome(state)) {
    if (muteQuestion(state) && !whyNot(client, 'mute')) askMuted(client);
  }
}

// The forced tokens of a translation, for a request; nothing if there are none.
function forcedGiven(record) {
  const forced = forcedIds(record);
  return forced.length > 0 ? { forced } : {};
}

// Forced tokens stay forced while heads are muted, so that only the heads make a difference. If the request fails,
// restores the muted heads of the last answer, so that the marks on the heads agree with it.
/** @type {(client: Client) => Promise<void>} */
export async function askMuted(client) {
  const { store } = client;
  const { mutes, ablation, record } = stateOf(store);
  const decodeOutcome = async (answer) => ({ ...answer, heads: mutes, ablation, record: await decode(answer.payload) });
  const asked = muteQuestion(stateOf(store));
  if (!asked) return;
  const question = { ...asked, ids: targetIds(record), ...forcedGiven(record), heads: mutes };
  const muted = await request(client, 'mute', question, decodeOutcome);
  const state = stateOf(store);
  if (muted === undefined || differs(state, { mutes, ablation, record }, ['mutes', 'ablation', 'record'])) return;
  if (muted) store.change({ muted });
  else if (state.muted) store.change({ mutes: state.muted.heads, ablation: state.muted.ablation });
  else store.change({ mutes: [] });
}

// Numbers that the record does not have: asked once for each record; without an answer, weights are shown again.
async function followValue(client, state, before) {
  const { record, values } = state;
  const { request: name, decode: decodeNumbers } = chosenValue(state);
  if (!name || values[name] || !differs(state, before, ['record', 'valueName'])) return;
  const question = { do: name, ids: targetIds(record) };
  if (isRequested(client, name, question)) return;
  const numbers = await request(client, name, question, decodeNumbers);
  const { store } = client;
  const now = stateOf(store);
  if (numbers === undefined || now.record !== record) return;
  if (numbers) store.change({ values: { ...now.values, [name]: numbers } });
  else if (chosenValue(now).request === name) store.change({ valueName: USUAL.name });
}

// Asks for the whole translation without the source word that is removed, or that is pinned while losses are shown.
async function followRemoved(client, state, before) {
  const { record } = state;
  const places = removedPlaces(state);
  if (
    !places ||
    !differs(state, before, ['record', 'removedAt', 'valueName', 'pin', 'words']) ||
    whyNot(client, 'remove_word')
  )
    return;
  if (sameQuestion(state.removed?.places, places)) return;
  const answer = await request(client, 'remove_word', { do: 'remove_word', places, ...forcedGiven(record) });
  const { store } = client;
  if (answer && stateOf(store).record === record) store.change({ removed: { places, text: answer.text } });
}

// Asks what In short says beyond the record; a moment later, because a link that is being opened may choose another view. In
// short is not about muted heads, so nothing is asked for a translation with muted heads.
function followSummary(client, state, before) {
  const running = client.requests.get('summary');
  if (state.translating && running?.isOpen) running.cancel(); // the next sentence comes first
  if (state.record === before.record) return;
  queueMicrotask(() => {
    const { record, summary, shown } = stateOf(client.store);
    if (summary || shown?.type === 'muted') return;
    if (!whyNot(client, 'summary') && !isRequested(client, 'summary', summaryQuestion(record))) askSummary(client);
  });
}

const summaryQuestion = (record) => ({ do: 'summary', ids: targetIds(record), ...forcedGiven(record) });

// The instruments that the sentences open get their answers too.
/** @type {(client: Client) => Promise<void>} */
export async function askSummary(client) {
  const { store } = client;
  const { record } = stateOf(store);
  const answer = await request(client, 'summary', summaryQuestion(record));
  const now = stateOf(store);
  if (!answer || now.record !== record) return;
  const { heads, rivals, importance, lens, leave_one_out: losses } = answer;
  const question = questionOf(now, 'lens');
  store.change({
    summary: { heads, rivals },
    importance: importance ? { changes: importance, ablation: ZERO } : now.importance,
    values: { ...now.values, leave_one_out: losses ?? now.values.leave_one_out },
    answers: question ? { ...now.answers, lens: { question, answer: lens } } : now.answers,
  });
}

// The pinned cell is explained while the panel Cell is open.
function followPin(client, state, before) {
  const moved = differs(state, before, ['panel', ...PINNED]);
  if (!moved || state.panel !== 'cell' || !pinnedCell(state) || isExplained(state) || whyNot(client, 'cell')) return;
  if (!isRequested(client, 'cell', cellQuestion(state))) askCell(client);
}

/** @type {(state: State) => Question} */
const cellQuestion = (state) => ({ do: 'cell', ...ofPinnedCell(state) });

/** @type {(client: Client) => Promise<void>} */
export async function askCell(client) {
  const { store } = client;
  const place = pinnedCell(stateOf(store));
  const answer = await request(client, 'cell', cellQuestion(stateOf(store)));
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
/** @type {(client: Client, name: string) => Promise<void>} */
export async function askQuestion(client, name) {
  const { store } = client;
  const { record } = stateOf(store);
  const question = questionOf(stateOf(store), name);
  if (!question) return;
  const answer = await request(client, name, question);
  const now = stateOf(store);
  if (answer === undefined || now.record !== record) return;
  store.change({ answers: { ...now.answers, [name]: { question, answer } } });
}

// What stands beside the view is asked for when the person chooses it, and again when the view that it follows changes.
async function followBeside(client, state, before) {
  const question = besideQuestion(state);
  if (!question || isUpToDate(state) || !differs(state, before, ['sideB', 'record', 'shown'])) return;
  if (isRequested(client, 'beside', question) || whyNot(client, 'beside')) return;
  const record = await request(client, 'beside', question, decode);
  if (record !== undefined) client.store.change({ beside: createBesideView(stateOf(client.store), question, record) });
}

// The heads of B are measured after the heads of A.
function followImportance(client, state, before) {
  if (!importanceBeside(state) || importanceOf(state)) return;
  if (importanceBeside(state) === importanceBeside(before) && !differs(state, before, ['record', 'ablation'])) return;
  if (!whyNot(client, 'importance')) askImportance(client);
}

// Reads sentences in parts, so that there is progress and Cancel stops soon. Earlier parts are kept then.
/** @type {(client: Client, sentences: string[]) => Promise<void>} */
export async function askExamples(client, sentences) {
  const { store } = client;
  const { name } = stateOf(store).record.model;
  let survey = { sentences, done: 0, found: /** @type {any} */ (null) };
  const keep = () => store.change({ surveys: { ...stateOf(store).surveys, [name]: survey } });
  // The progress counts the sentences of a part.
  /** @type {Count} */
  const ofAll = ([text, { done }]) => [text, { done: survey.done + Number(done), count: sentences.length }];
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
const inNextTask = (answer) => new Promise((resolve) => setTimeout(() => resolve(answer)));

// The training of a model is read when its panel is open.
function followTraining(client, state, before) {
  const { panel, record, trainings } = state;
  if (panel !== 'training' || trainings[record.model.name] || !differs(state, before, ['panel', 'record'])) return;
  if (!whyNot(client, 'training')) askTraining(client);
}

/** @type {(client: Client) => Promise<void>} */
export async function askImportance(client) {
  const { store } = client;
  const before = stateOf(store);
  const given = baselineGiven(before);
  if (!given) return;
  const refusal = whyNot(client, 'importance');
  if (refusal) return store.change({ error: refusal });
  const { ablation } = before;
  const decodeChanges = ({ baseline, ...changes }) => ({ changes, baseline, ablation, isAsked: true });
  const ids = targetIds(sourceView(before).record);
  const importance = await request(client, 'importance', { do: 'importance', ids, ...given }, decodeChanges);
  const state = stateOf(store);
  const view = sourceView(state);
  const usual = importanceOf({ importance: view.importance, ablation: ZERO });
  if (importance) store.change(changeView(state, view, { importance: { ...importance, usual } }));
}

/** @type {(client: Client) => Promise<void>} */
export async function askBeams(client) {
  const { store } = client;
  const size = stateOf(store).home.record.options?.beam_size ?? 1;
  const beams = await request(client, 'beams', { do: 'beams', beam_size: size > 1 ? size : BEAM_OF_TREE });
  const state = stateOf(store);
  if (beams) store.change(changeView(state, state.home, { beams }));
}
