// Requests to what answers them: a server, or a Worker in which the model runs; the viewer does not know which. At most
// one request of each name is open; a newer one of that name, another record on screen, or Cancel closes it, and its
// answer is then ignored.

import { needsServer } from './server_only.js';
import { sameQuestion } from './instruments/questions.js';
import { taskOf } from './payload.js';
import { trainingStep } from './state/queries.js';
import { say, tell } from '../locales/language.js';

const DOING = {
  beams: () => say('Searching with a beam'),
  beside: () => say('Reading what stands beside'),
  cell: () => say('Explaining the cell'),
  contributions: () => say('Adding up what wrote this word'),
  examples: () => say('Reading sentences'),
  force: () => say('Translating from the forced word'),
  importance: () => say('Muting each head in turn'),
  lens: () => say('Reading the model after each layer'),
  links: () => say('Linking the words'),
  mute: () => say('Translating with heads muted'),
  removal: () => say('Removing cells of this row'),
  score: () => say('Scoring your translation'),
  score_split: () => say('Splitting the score'),
  target: () => say('Reading this hypothesis'),
  training: () => say('Reading the training record'),
  training_heads: () => say('Measuring the heads at each step'),
  training_step: () => say('Reading this step of the training'),
  tour: () => say('Opening the model that reverses words'),
  values: () => say('Computing these values'),
  writing: () => say('Reading what the head writes'),
};
const OF_TRAINING = ['beside', 'training', 'training_heads', 'training_step'];

// Returns the function `ask` for a Worker that runs viz/viewer/engine/worker.js; page.js has the one for the server.
// An `ask` sends a request and returns the answer or throws an error with the sentence to show. `showPosition` gets
// the position in the queue, or the progress as text; `signal` cancels the work. An `ask` that cannot answer every
// request names those in its property `refuses`.
export function workerAsker(worker) {
  const open = new Map(); // by number
  let count = 0;
  worker.addEventListener('error', () => {
    for (const { reject } of open.values())
      reject(new Error(say('The model in this page failed; reload the page, then try again.')));
    open.clear();
  });
  worker.addEventListener('message', ({ data: { id, answer, said, progress } }) => {
    if (!open.has(id)) return;
    const { resolve, reject, showPosition } = open.get(id);
    if (progress !== undefined) return showPosition?.(progress);
    open.delete(id);
    return said === undefined ? resolve(answer) : reject(new Error(tell(said)));
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
  if (!ask) return say('This file has no model. The line at its top says how to do this in Headlight.');
  if (ask.refuses?.includes(name)) return tell(needsServer().said);
  if (!trainingStep(store.get()) || OF_TRAINING.includes(name)) return null;
  return say(
    'Not available for a model in training: only its attention was saved. Go back to the model’s own translation.',
  );
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
  if (typeof position === 'number') return say('number {position} in the queue', { position });
  return position ? tell(position) : '';
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
    what: DOING[name](),
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
