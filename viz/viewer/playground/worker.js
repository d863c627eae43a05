// The Worker in which the playground trains: one training, or two that step together.

import { sum } from '../domain/math.js';
import { EOS_ID, UNK_ID, createTokenizer } from '../engine/text/tokenizer.js';
import { turn } from '../engine/worker.js';
import { fault, message } from '../locales/language.js';
import { codesOf, directoryOf } from './directory.js';
import { batchOf, createRandom, drawSources, taskNamed, tokenizerSettings } from './tasks.js';
import { createTrainer, forward, step } from './trainer.js';

const BATCH = 64; // words of a step
const TESTED = 100; // unseen words
const WARM_UP = 100; // steps until the learning rate is reached; then it falls with the root of the step
const LOGGED = 25; // steps between two lines of the log
const LONGEST_TARGET = 17; // tokens: 8 letters twice, and </s>
const PERIOD = 100; // milliseconds between two frames
const failed = message('The training failed; reload the page, then try again.');

// Messages to the Worker: { start: [settings…], number, pairs } begins trainings anew; { pace } steps a second, 0 for a pause,
// { until } a step at which it pauses; { steps: 1 } takes one step; { word } is written in each frame; { save: side, opens }.
// Messages from it: { frames, number }, a frame for each training; { directory, opens }; and { said }, what went wrong.
export function train(scope) {
  const run = { scope, trainings: [], number: 0, pace: 0, until: 0, due: 0, at: 0, word: '', isRunning: false };
  const guarded = (act) =>
    act().catch(({ said = failed }) => {
      run.pace = 0;
      scope.postMessage({ said });
    });
  const keep = () => guarded(() => keepTraining(run)).finally(() => (run.isRunning = false));
  scope.addEventListener('message', ({ data }) =>
    guarded(async () => {
      await take(run, data);
      if (run.pace && !run.isRunning) keep();
    }),
  );
}

async function take(run, { start, number, pairs, pace, until = 0, steps, word, save, opens }) {
  if (start) {
    Object.assign(run, { pace: 0, trainings: [] });
    const trainings = await Promise.all(start.map((settings) => createTraining(settings, { pairs })));
    if (number > run.number) Object.assign(run, { trainings, number });
  }
  run.word = word ?? run.word;
  if (pace !== undefined) Object.assign(run, { pace, until });
  if (steps) run.trainings.forEach(trainOnce);
  if (save === undefined) post(run);
  else run.scope.postMessage({ directory: await directoryOf(withLastStep(run.trainings[save])), opens });
}

// Trains at the pace until that is 0; lets messages that wait be read after each step.
async function keepTraining(run) {
  run.isRunning = true;
  while (run.pace) {
    const now = performance.now();
    if (now >= run.due) {
      run.due = Math.max(run.due + 1000 / run.pace, now);
      run.trainings.forEach(trainOnce);
      if (run.trainings[0]?.trainer.steps === run.until) run.pace = 0;
      if (now - run.at >= PERIOD) post(run);
    }
    await (run.due - now > 20 ? new Promise((resolve) => setTimeout(resolve, 10)) : turn());
  }
  post(run);
}

function post(run) {
  run.at = performance.now();
  const frames = run.trainings.map((each) => frameOf(each, run.word));
  if (frames.length > 0) run.scope.postMessage({ frames, number: run.number });
}

// Trainings

/** @type {(settings: any, options?: { pairs?: any; wasm?: boolean; size?: number }) => Promise<any>} */
export async function createTraining(settings, { pairs, ...options } = {}) {
  const task = taskNamed(settings.task, pairs);
  const tokenizer = createTokenizer(tokenizerSettings(task));
  const { width, heads, layers } = settings;
  const shape = {
    ...{ source_vocabulary: tokenizer.size, target_vocabulary: tokenizer.size, d_model: width, d_ff: 2 * width },
    ...{ n_heads: heads, n_encoder_layers: layers, n_decoder_layers: layers, dropout: 0, norm: 'pre', tied: true },
    ...{ separate_output: false, positions: settings.positions ? 'sinusoidal' : 'none' },
  };
  const trainer = await createTrainer(shape, createRandom(settings.seed), options);
  const pairOf = (text) => [tokenizer.encode(text), tokenizer.encode(task.write(text))];
  const random = createRandom(settings.seed + 1e6); // two trainings of one seed read the same words
  const draw = (count, heldOut) => drawSources(task, count, random, heldOut).map(pairOf);
  const [tests, examples] = [batchOf(draw(sizeOf(task, TESTED), true)), task.examples.map(pairOf)];
  return { settings, task, tokenizer, trainer, draw, tests, examples, loss: null, log: [], probes: new Map() };
}

export function trainOnce(training) {
  const { settings, task, trainer, draw, log } = training;
  const next = trainer.steps + 1;
  const rate = settings.rate * Math.min(next / WARM_UP, Math.sqrt(WARM_UP / next));
  const batch = batchOf(draw(sizeOf(task, BATCH), false), !settings.mask);
  training.loss = step(trainer, batch, rate, readingOf(settings)).loss;
  if (!Number.isFinite(training.loss))
    throw fault('The loss is not a number any more: choose a lower learning rate, and start again.');
  if (next % LOGGED === 0) log.push(logged(training));
  if (isProbed(next)) frameOf(training, '');
}

// Long words are fewer, so that they take no more memory.
const sizeOf = ({ size = 1 }, words) => Math.ceil(words * size);
const readingOf = ({ mask, last }) => ({ isCausal: mask, onlyLast: last });

function logged(training) {
  const { trainer, loss } = training;
  return { step: trainer.steps, 'train/loss': loss, 'validation/exact_match': 100 * shareRight(training) };
}

// The saved model also has the attention and the score of its last step.
function withLastStep(training) {
  const { trainer, loss, log, probes } = training;
  const { examples } = frameOf(training, '');
  const isLogged = loss === null || log.at(-1)?.step === trainer.steps;
  return {
    ...training,
    log: isLogged ? log : [...log, logged(training)],
    probes: new Map(probes).set(trainer.steps, examples),
  };
}

// As training/run/probes.py: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on.
const isProbed = (steps) => steps <= 3 || (steps % 2 === 0 && isProbed(steps / 2));

export const shareRight = (training) => shareOf(rightByLength(training));

const shareOf = (lengths) =>
  sum(lengths.map(([, share, count]) => share * count)) / sum(lengths.map(([, , count]) => count));

// The share of words written without an error by their number of letters: [letters, share, count of words] each. A word is right
// if each of its letters is the likeliest after the right letters before it.
export function rightByLength({ settings, trainer, tests: { sources, labels, targets }, tests }) {
  const { likeliest } = forward(trainer, tests, { onlyLast: settings.last });
  const isRight = (word) =>
    labels.every((id, at) => at < targets[word] || at >= targets[word + 1] || id === likeliest[at]);
  const words = new Map();
  for (let word = 0; word + 1 < targets.length; word += 1) {
    const letters = sources[word + 1] - sources[word] - 1;
    words.set(letters, [...(words.get(letters) ?? []), isRight(word)]);
  }
  return [...words]
    .sort(([one], [other]) => one - other)
    .map(([letters, found]) => [letters, sum(found.map(Number)) / found.length, found.length]);
}

// What the page draws: the weights of the examples as codes, and the examples and the word of the person as written now.
export function frameOf(training, word) {
  const { trainer, settings, loss, probes, task } = training;
  const isCausal = settings.mask;
  const batch = batchOf(training.examples, !isCausal);
  const { weights, logProbabilities } = forward(trainer, batch, readingOf(settings));
  const examples = training.examples.map(([source, target], place) => {
    const codes = (kind, rows, columns) => ({
      ...{ rows, columns },
      codes: weights[kind].map((sentences) => codesOf(sentences[place], columns)),
    });
    const [reads, writes] = [source.length + 1, target.length + 1];
    return {
      encoder: codes('encoder', reads, reads),
      decoder: codes('decoder', writes, writes),
      cross: codes('cross', writes, reads),
      logProbabilities: logProbabilities.slice(batch.targets[place], batch.targets[place + 1]),
    };
  });
  if (isProbed(trainer.steps)) probes.set(trainer.steps, examples);
  const written = write(training, word ? [...task.examples, word] : task.examples);
  const lengths = rightByLength(training);
  return {
    steps: trainer.steps,
    loss,
    share: shareOf(lengths),
    lengths,
    parameters: trainer.parameters,
    examples,
    written,
  };
}

// What the model writes for each text, greedily. The decoder never sees what it has not written yet.
export function write({ settings, task, trainer, tokenizer }, texts) {
  const { longestTarget = LONGEST_TARGET } = task;
  const found = texts.map((text) => ({ source: tokenizer.encode(text), ids: [], isOpen: true }));
  for (let length = 0; length < longestTarget && found.some(({ isOpen }) => isOpen); length += 1) {
    const open = found.filter(({ isOpen }) => isOpen);
    const batch = batchOf(open.map(({ source, ids }) => [source, ids]));
    const { likeliest } = forward(trainer, batch, { onlyLast: settings.last });
    open.forEach((one, place) => {
      const next = likeliest[batch.targets[place + 1] - 1];
      if (next === EOS_ID) one.isOpen = false;
      else one.ids.push(next);
    });
  }
  return found.map(({ source, ids }) => ({ text: tokenizer.decode(ids), isReadable: !source.includes(UNK_ID) }));
}
