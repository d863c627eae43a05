// Asking the server. Of each name one question is open at a time; an answer that nobody waits for is dropped.

import { decode } from './payload.js';

const DOING = {
  beams: 'Searching with a beam',
  cell: 'Reading the cell',
  force: 'Continuing from there',
  importance: 'Silencing each head in turn',
  mute: 'Translating without these heads',
  score: 'Scoring your translation',
  target: 'Reading this hypothesis',
  training: 'Reading the record of the training',
  training_step: 'Reading this step of the training',
  tour: 'Opening the model that reverses words',
  values: 'Computing these values',
};
const OF_TRAINING = ['training', 'training_step'];
const questions = new WeakMap(); // of each store, the open question of each name

export const FILE_ONLY = 'This view is a file; the page, where the model runs, can do this.';

// Why the server cannot be asked now, in one sentence; null when it can.
export function whyNot(state, ask, name) {
  if (!ask) return FILE_ONLY;
  if (state.visit?.what !== 'training' || OF_TRAINING.includes(name)) return null;
  return 'This is a model in training, of which only the attention is kept. Go back to the translation to ask this.';
}

// Ask about the record on screen. Returns the answer, passed through `read`, or null when it was refused,
// cancelled, overtaken by a newer question of this name or by another record, or failed; `error` then says why.
export async function request(store, ask, name, question, read = (answer) => answer) {
  const refusal = whyNot(store.get(), ask, name);
  if (refusal) store.change({ error: refusal });
  if (refusal) return null;
  const { close, isOpen, tellPlace } = openQuestion(store, name);
  try {
    const answer = await read(await ask({ ...identityOf(store.get().record), ...question }, tellPlace));
    return isOpen() ? answer : null;
  } catch (error) {
    if (isOpen()) store.change({ error: error.message });
    return null;
  } finally {
    close();
  }
}

// Where a request stands that others keep waiting; nothing when the server is at it.
export function waitingText(place) {
  return place ? `number ${place} in the queue` : '';
}

// For `read`: an answer that is a payload, as a record.
export function readRecord(payload) {
  return decode(JSON.stringify(payload));
}

function identityOf({ model, source_text: text, options }) {
  return { model: model.name, text, ...options };
}

function openQuestion(store, name) {
  const all = questionsOf(store);
  const mine = { what: DOING[name] ?? 'Asking the model', record: store.get().record };
  const isOpen = () => all.get(name) === mine;
  const close = () => {
    if (!isOpen()) return;
    all.delete(name);
    store.change({ busy: [...all.values()].at(-1) ?? null });
  };
  const tellPlace = (place) => isOpen() && store.change({ busy: { ...mine, waiting: waitingText(place) } });
  mine.cancel = close;
  all.set(name, mine); // takes the place of an older one, whose answer nobody waits for now
  store.change({ busy: mine, error: null });
  return { close, isOpen, tellPlace };
}

// Another record on screen closes every question about the former one.
function questionsOf(store) {
  if (questions.has(store)) return questions.get(store);
  const all = new Map();
  questions.set(store, all);
  store.subscribe(({ record }) => {
    for (const question of [...all.values()]) if (question.record !== record) question.cancel();
  });
  return all;
}
