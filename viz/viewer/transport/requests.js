// Sends requests to a server, or to a Worker in which the model runs; the viewer does not know which. At most
// one request of each name is open; a newer one of that name, another record on screen, or Cancel closes it, and its
// answer is then ignored.

import { sameQuestion } from '../state/questions.js';
import { QUESTIONS, instrumentNamed } from '../instruments/instruments.js';
import { taskOf } from '../domain/payload.js';
import { trainingStep } from '../state/queries.js';
import { VALUES } from '../values/values.js';
import { say, tell } from '../locales/language.js';

// What `something` gives for each value that has a request, by the name of the request.
const ofValues = (something) =>
  Object.fromEntries(VALUES.filter(({ request: name }) => name).map((value) => [value.request, something(value)]));

// What the status line says meanwhile; an instrument and a value say it themselves.
const DOING = {
  beams: () => say('Searching with a beam'),
  beside: () => say('Computing the second view'),
  cell: () => say('Explaining the cell'),
  examples: () => say('Reading sentences'),
  force: () => say('Translating from the forced word'),
  importance: () => say('Trying each head in turn'),
  remove_word: () => say('Translating without this word'),
  mute: () => say('Translating with heads muted'),
  score: () => say('Scoring your translation'),
  target: () => say('Reading this hypothesis'),
  training: () => say('Reading the training record'),
  translate: () => '', // the page says it in a place of its own
  training_heads: () => say('Measuring the heads at each step'),
  training_step: () => say('Reading this step of the training'),
  summary: () => say('Measuring what mattered'),
  ...ofValues((value) => value.doing),
};
const OF_TRAINING = ['beside', 'training', 'training_heads', 'training_step'];
// What is computed of the tokens on screen with all heads.
const WITHOUT_MUTING = ['cell', 'remove_word', ...Object.keys(ofValues(() => null)), ...QUESTIONS];

// Starts a Worker with the engine's script; `name` is the function of the script that serves it.
/** @type {(code: string, name: string) => Worker} */
export function startWorker(code, name) {
  const script = new Blob([code, `\nHeadlight.${name}(self);`], { type: 'text/javascript' });
  return new Worker(URL.createObjectURL(script));
}

// Returns the function `ask` for a Worker that runs viz/viewer/engine/worker.js; gradio.js makes the `ask` of a server. It returns
// the answer or throws an error with the sentence to show.
/** @type {(worker: Worker) => Ask} */
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
/** @type {(store: Store, ask: Ask | null) => Client} */
export function createClient(store, ask) {
  const client = { store, ask, requests: new Map() }; // the latest request of each name
  store.subscribe(({ record }) => {
    for (const one of client.requests.values())
      if (one.isOpen && one.place === 'busy' && one.record !== record) one.cancel();
  });
  return client;
}

export const noModel = () => say('This file has no model. Its first line leads to Headlight, which can do this.');

// Why a request is not possible now, in one sentence; null when it is possible.
/** @type {(client: Client, name: string) => string | null} */
export function whyNot({ store, ask }, name) {
  if (!ask) return noModel();
  if (store.get().shown?.type === 'muted' && WITHOUT_MUTING.includes(name))
    return say('Not available with heads muted. Go back to the view without muting.');
  if (!trainingStep(store.get()) || OF_TRAINING.includes(name)) return null;
  return say(
    'Not available for a model in training: only its attention was saved. Go back to the model’s own translation.',
  );
}

// The same for a panel: a file without a model says it once, above all panels.
/** @type {(client: Client, reason: string) => string} */
export const refusalIn = ({ ask }, reason) => (ask ? reason : '');

// Sends a request about the record on screen and returns the answer, passed through `decode`. Returns null when the
// request was refused, cancelled or failed (`error` says why), and undefined when a newer one has replaced it.
// `count` changes the progress, [text, values], before it is shown.
/** @type {(client: Client, name: string, question: Question, decode?: (answer: Answer) => any, count?: Count) => Promise<any>} */
export async function request(client, name, question, decode, count) {
  const { store } = client;
  const { record } = store.get();
  const refusal = whyNot(client, name);
  if (refusal) store.change({ error: refusal });
  if (refusal || !record) return null;
  const found = await send(client, name, question, { task: taskOf(record), decode, count });
  if (found?.error !== undefined) store.change({ error: found.error });
  return found && (found.answer ?? null);
}

// Sends a question about a task. Returns { answer }, { error } with the sentence to show, or {} when it was cancelled;
// undefined when a newer one of the same name has replaced it.
/** @type {(client: Client, name: string, question: Question, how?: { task?: object; decode?: (answer: Answer) => any; count?: Count }) => Promise<{ answer?: any; error?: string } | undefined>} */
export async function send(client, name, question, { task = {}, decode = same, count = same } = {}) {
  const { ask, requests } = client;
  if (!ask) return { error: noModel() };
  const mine = openRequest(client, name, question, count);
  let found;
  try {
    found = { answer: await decode(await ask({ ...task, ...question }, mine.showPosition, mine.signal)) };
  } catch (error) {
    found = { error: error.message };
  }
  if (requests.get(name) !== mine) return undefined;
  if (!mine.isOpen) return {};
  mine.cancel();
  return found;
}

const same = (value) => value;

// The position of a waiting request in the server's queue, or the progress, as text; empty if neither is known.
/** @type {(position: Parameters<ShowPosition>[0], count: Count) => string} */
function waitingText(position, count) {
  if (typeof position === 'number') return say('number {position} in the queue', { position });
  return position ? tell(count(position)) : '';
}

// Whether this is being asked now.
/** @type {(client: Client, name: string, question: Question) => boolean} */
export function isRequested({ requests }, name, question) {
  const open = requests.get(name);
  return open !== undefined && open.isOpen && sameQuestion(open.question, question);
}

/** @type {(client: Client, name: string, question: Question, count: Count) => RunningRequest} */
function openRequest({ store, requests }, name, question, count) {
  const aborting = new AbortController();
  const place = name === 'translate' ? 'translating' : 'busy'; // in the state
  /** @type {RunningRequest} */
  const mine = {
    place,
    signal: aborting.signal,
    what: (DOING[name] ?? instrumentNamed(name).doing)(),
    question,
    record: store.get().record,
    isOpen: true,
    waiting: '',
    cancel() {
      mine.isOpen = false;
      aborting.abort();
      const open = [...requests.values()].filter((one) => one.isOpen && one.place === place);
      store.change({ [place]: open.at(-1) ?? null });
    },
    showPosition(position) {
      if (!mine.isOpen) return;
      mine.waiting = waitingText(position, count);
      store.change({ waiting: mine.waiting }); // a panel is not drawn anew for each step of the progress
    },
  };
  const replaced = requests.get(name);
  if (replaced?.isOpen) replaced.cancel();
  requests.delete(name); // so that the latest request is last
  requests.set(name, mine);
  store.change({ [place]: mine, error: null });
  return mine;
}
