// Requests to what answers them: a server, or a Worker in which the model runs; the viewer does not know which. At most
// one request of each name is open; a newer one of that name, another record on screen, or Cancel closes it, and its
// answer is then ignored.

import { NEEDS_SERVER } from '../engine/server_only.js';
import { sameQuestion } from './instruments/questions.js';
import { taskOf } from './payload.js';
import { trainingStep } from './store.js';

const DOING = {
  beams: 'Searching with a beam',
  beside: 'Reading what stands beside',
  cell: 'Explaining the cell',
  contributions: 'Adding up what wrote this word',
  examples: 'Reading sentences',
  force: 'Translating from the forced word',
  importance: 'Muting each head in turn',
  lens: 'Reading the model after each layer',
  links: 'Linking the words',
  mute: 'Translating with heads muted',
  removal: 'Removing cells of this row',
  score: 'Scoring your translation',
  score_split: 'Splitting the score',
  target: 'Reading this hypothesis',
  training: 'Reading the training record',
  training_heads: 'Measuring the heads at each step',
  training_step: 'Reading this step of the training',
  tour: 'Opening the model that reverses words',
  values: 'Computing these values',
  writing: 'Reading what the head writes',
};
const OF_TRAINING = ['beside', 'training', 'training_heads', 'training_step'];
const NO_SERVER = 'This file has no model. The line at its top says how to do this in Headlight.';
const IN_TRAINING =
  'Not available for a model in training: only its attention was saved. Go back to the model’s own translation.';

// Returns the function `ask` for a Worker that runs viz/viewer/engine/worker.js; page.js has the one for the server.
// An `ask` sends a request and returns the answer or throws an error with the sentence to show. `showPosition` gets
// the position in the queue, or the progress as text; `signal` cancels the work. An `ask` that cannot answer every
// request names those in its property `refuses`.
export function workerAsker(worker) {
  const open = new Map(); // by number
  let count = 0;
  worker.addEventListener('message', ({ data: { id, answer, error, progress } }) => {
    if (!open.has(id)) return;
    const { resolve, reject, showPosition } = open.get(id);
    if (progress !== undefined) return showPosition?.(progress);
    open.delete(id);
    return error === undefined ? resolve(answer) : reject(new Error(error));
  });
  return (question, showPosition, signal) =>
    new Promise((resolve, reject) => {
      const id = (count += 1);
      open.set(id, { resolve, reject, showPosition });
      signal?.addEventListener('abort', () => worker.postMessage({ cancel: id }));
      worker.postMessage({ id, request: question });
    });
}

// `ask` is null in an exported file without a model.
export function createServer(store, ask) {
  const server = { store, ask, requests: new Map() }; // the latest request of each name
  store.subscribe(({ record }) => {
    for (const one of server.requests.values()) if (one.isOpen && one.record !== record) one.cancel();
  });
  return server;
}

// Why a request is not possible now, in one sentence; null when it is possible.
export function whyNot({ store, ask }, name) {
  if (!ask) return NO_SERVER;
  if (ask.refuses?.includes(name)) return NEEDS_SERVER;
  return trainingStep(store.get()) && !OF_TRAINING.includes(name) ? IN_TRAINING : null;
}

// Sends a request about the record on screen and returns the answer, passed through `read`. Returns null when the
// request was refused, cancelled or failed (`error` says why), and undefined when a newer one has replaced it.
export async function request(server, name, question, read = (answer) => answer) {
  const { store, ask, requests } = server;
  const refusal = whyNot(server, name);
  if (refusal) store.change({ error: refusal });
  if (refusal) return null;
  const task = taskOf(store.get().record);
  const mine = openRequest(server, name, question);
  let answer = null;
  try {
    answer = await read(await ask({ ...task, ...question }, mine.showPosition, mine.signal));
  } catch (error) {
    if (mine.isOpen) store.change({ error: error.message });
  }
  if (requests.get(name) !== mine) return undefined;
  if (!mine.isOpen) return null;
  mine.cancel();
  return answer;
}

// The position of a waiting request in the server's queue, or the progress, as text; empty if neither is known.
export function waitingText(position) {
  if (typeof position === 'string') return position;
  return position ? `number ${position} in the queue` : '';
}

// Whether this is being asked now.
export function isRequested({ requests }, name, question) {
  const open = requests.get(name);
  return Boolean(open?.isOpen) && sameQuestion(open.question, question);
}

function openRequest({ store, requests }, name, question) {
  const aborting = new AbortController();
  const mine = {
    signal: aborting.signal,
    what: DOING[name],
    question,
    record: store.get().record,
    isOpen: true,
    cancel() {
      mine.isOpen = false;
      aborting.abort();
      store.change({ busy: [...requests.values()].findLast(({ isOpen }) => isOpen) ?? null });
    },
    showPosition(position) {
      if (mine.isOpen) store.change({ busy: { ...mine, waiting: waitingText(position) } });
    },
  };
  const replaced = requests.get(name);
  if (replaced?.isOpen) replaced.cancel();
  requests.delete(name); // so that the latest request is last
  requests.set(name, mine);
  store.change({ busy: mine, error: null });
  return mine;
}
