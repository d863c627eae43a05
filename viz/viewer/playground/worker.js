// The Worker in which the playground trains: one training, or two that step together.

import { EOS_ID, UNK_ID, createTokenizer } from '../engine/text/tokenizer.js';
import { turn } from '../engine/worker.js';
import { fault, message } from '../locales/language.js';
import { codesOf, directoryOf } from './directory.js';
import { TASKS, batchOf, createRandom, drawSources, tokenizerSettings } from './tasks.js';
import { createTrainer, forward, step } from './trainer.js';

const BATCH = 64; // words of a step
const TESTED = 100; // unseen words
const WARM_UP = 100; // steps until the learning rate is reached; then it falls with the root of the step
const PERIOD = 100; // milliseconds between two frames
const failed = message('The training failed; reload the page, then try again.');
const LOGGED = 25; // steps between two lines of the log

// Messages to the Worker: { start: [settings…] } begins trainings anew; { pace } steps a second, 0 for a pause; { steps: 1 }
// takes one step; { word } is written in each frame; { save: side }. Messages from it: { frames: [frame…] }, one for each
// training; { directory, side }; and { said }, what went wrong.
export function train(scope) {
  const run = { trainings: [], pace: 0, due: 0, at: 0, word: '', isRunning: false };
  const guarded = (act) =>
    act().catch(({ said = failed }) => {
      run.pace = 0;
      scope.postMessage({ said });
    });
  scope.addEventListener('message', ({ data }) => guarded(() => take(scope, run, data, guarded)));
}

async function take(scope, run, data, guarded) {
  if (data.start) {
    run.pace = 0;
    run.trainings = await Promise.all(data.start.map((settings) => createTraining(settings, data.options)));
  }
  if (data.word !== undefined) run.word = data.word;
  if (data.steps) run.trainings.forEach(trainOnce);
  if (data.pace !== undefined) run.pace = data.pace;
  if (data.save !== undefined) {
    const { identity, files } = directoryOf(run.trainings[data.save]);
    scope.postMessage({ directory: { identity, files }, side: data.save, opens: data.opens });
  } else post(scope, run);
  if (run.pace && !run.isRunning) guarded(() => keepTraining(scope, run)).finally(() => (run.isRunning = false));
}

// Trains at the pace until that is 0; lets messages that wait be read after each step.
async function keepTraining(scope, run) {
  run.isRunning = true;
  while (run.pace) {
    const now = performance.now();
    if (now >= run.due) {
      run.due = Math.max(run.due + 1000 / run.pace, now);
      run.trainings.forEach(trainOnce);
      if (now - run.at >= PERIOD) post(scope, run);
    }
    await (run.due - now > 20 ? new Promise((resolve) => setTimeout(resolve, 10)) : turn());
  }
  post(scope, run);
}

function post(scope, run) {
  run.at = performance.now();
  if (run.trainings.length > 0) scope.postMessage({ frames: run.trainings.map((each) => frameOf(each, run.word)) });
}

// As training/run/probes.py: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24 and so on.
function isProbed(steps) {
  let rest = steps;
  while (rest > 3 && rest % 2 === 0) rest /= 2;
  return rest <= 3;
}

// Trainings

export async function createTraining(settings, options) {
  const task = TASKS[settings.task];
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
  const tests = batchOf(draw(TESTED, true));
  return {
    ...{ settings, task, tokenizer, trainer, draw, tests, steps: 0, loss: null, log: [], probes: new Map() },
    examples: task.examples.map(pairOf),
  };
}

export function trainOnce(training) {
  const { settings, trainer, draw, log } = training;
  training.steps += 1;
  const rate = settings.rate * Math.min(training.steps / WARM_UP, Math.sqrt(WARM_UP / training.steps));
  const batch = batchOf(draw(BATCH, false), !settings.mask);
  training.loss = step(trainer, batch, rate, { isCausal: settings.mask }).loss;
  if (!Number.isFinite(training.loss))
    throw fault('The loss is not a number any more: choose a lower learning rate, and start again.');
  if (training.steps % LOGGED === 0)
    log.push({
      step: training.steps,
      'train/loss': training.loss,
      'validation/exact_match': 100 * shareRight(training),
    });
  if (isProbed(training.steps)) frameOf(training, '');
}

// The share of unseen words that the model writes without an error. It writes them so exactly if each letter is the
// likeliest one after the right letters before it.
export function shareRight({ trainer, tests }) {
  const { likeliest } = forward(trainer, tests);
  const { labels, targets } = tests;
  const words = targets
    .slice(1)
    .filter((end, word) =>
      labels.slice(targets[word], end).every((label, place) => label === likeliest[targets[word] + place]),
    );
  return words.length / TESTED;
}

// What the page draws: the weights of the examples as codes, and the examples and the word of the person as written now.
export function frameOf(training, word) {
  const { trainer, settings, examples, steps, loss, probes } = training;
  const isCausal = settings.mask;
  const batch = batchOf(examples, !isCausal);
  const { weights, logProbabilities: chances } = forward(trainer, batch, { isCausal });
  const read = examples.map(([source, target], place) => {
    const [rows, columns] = [target.length + 1, source.length + 1];
    const codes = (kind, [height, width]) => ({
      ...{ rows: height, columns: width },
      codes: weights[kind].map((sentences) => codesOf(sentences[place], width)),
    });
    return {
      encoder: codes('encoder', [columns, columns]),
      decoder: codes('decoder', [rows, rows]),
      cross: codes('cross', [rows, columns]),
      chances: chances.subarray(batch.targets[place], batch.targets[place + 1]).slice(),
    };
  });
  if (isProbed(steps)) probes.set(steps, read);
  const written = write(training, [...training.task.examples, ...(word ? [word] : [])]);
  return { steps, loss, share: shareRight(training), examples: read, written };
}

// What the model writes for each text, greedily. The decoder never sees what it has not written yet.
export function write({ trainer, tokenizer, task }, texts) {
  const limit = task.longest[1] + 1;
  const found = texts.map((text) => ({ source: tokenizer.encode(text), ids: [], done: false }));
  for (let length = 0; length < limit && found.some(({ done }) => !done); length += 1) {
    const open = found.filter(({ done }) => !done);
    const batch = batchOf(open.map(({ source, ids }) => [source, ids]));
    const { likeliest } = forward(trainer, batch);
    open.forEach((one, place) => {
      const next = likeliest[batch.targets[place + 1] - 1];
      if (next === EOS_ID) one.done = true;
      else one.ids.push(next);
    });
  }
  return found.map(({ source, ids }) => ({ text: tokenizer.decode(ids), isReadable: !source.includes(UNK_ID) }));
}
