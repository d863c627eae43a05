// Answers the viewer's requests in the protocol of viz/server/handlers: one function for each value of `do`.

import { needsServer } from '../core/server_only.js';
import { cellOf, changedWords, gatesOf, importance, normWeights, rollout } from './analysis.js';
import { hypothesisOf, kindsOf, packValues, payloadOf, short } from './payload.js';
import { lens } from './lens.js';
import { normalise } from './text/tokenizer.js';
import { beginsTrained, createTraining, trainingHeads, trainingStep } from './training.js';
import { pass, read, score, targetIds, translate } from './translator.js';

const HANDLERS = {
  load: () => null, // only loads the model; a server has loaded all of them
  translate: (loaded, asked) => payload(loaded, asked, translate(loaded.translator, asked.text, optionsOf(asked))),
  target: (loaded, asked) => payload(loaded, asked, score(loaded.translator, asked.text, asked.ids)),
  score: (loaded, asked) => payload(loaded, asked, score(loaded.translator, asked.text, asked.target)),
  mute,
  importance: headImportance,
  values,
  cell,
  beams,
  lens: ({ translator }, asked) => lens(translator, asked.ids, traceOf(translator, asked)),
  training,
  training_heads: async (loaded, asked) => {
    const { settings, translator } = loaded;
    return { steps: trainingHeads(await trainingOf(loaded), translator.tokenizers, asked, settings.definitions) };
  },
  training_step: async (loaded, asked) =>
    payload(loaded, asked, trainingStep(await trainingOf(loaded), loaded.translator.tokenizers, asked)),
};

// `loaded` is a model: { identity, translator, settings, files }. `pause` is awaited between parts of long work; it
// gets the progress as text, and throws an error when the request is cancelled.
export function answer(loaded, asked, pause) {
  if (!Object.hasOwn(HANDLERS, asked.do)) throw needsServer();
  return HANDLERS[asked.do](loaded, { ...asked, text: joinCode(asked) }, pause);
}

// The sentence as a model of several target languages reads it.
function joinCode({ text, target_code: code = '' }) {
  return code && normalise(text) ? `${code} ${text}` : text;
}

function payload({ identity, settings }, asked, translation) {
  return payloadOf(translation, identity, asked, settings);
}

function optionsOf({ beam_size: beamSize, length_penalty: alpha, prefix = [] }) {
  return { beamSize, alpha, prefix };
}

// The translation with `heads` muted, and what muting them costs each token of `ids`.
function mute(loaded, asked) {
  if (asked.baseline || asked.row !== undefined) throw needsServer();
  const { translator } = loaded;
  const gates = gatesOf(translator.model.network, asked.heads);
  const original = targetOf(translator, asked);
  const ablated = translate(translator, asked.text, { ...optionsOf(asked), gates });
  const rescored = score(translator, asked.text, original.ids, gates);
  const [before, after] = changedWords(original.text, ablated.text);
  return {
    text: ablated.text,
    words: after,
    original_words: before,
    differences: rescored.logProbabilities.map((value, step) => short(value - original.logProbabilities[step])),
    payload: payload(loaded, asked, ablated),
  };
}

// The translation that a request is about: its `ids`, or the model's own.
function targetOf(translator, { text, ids, ...options }) {
  const found = ids ? score(translator, text, ids) : translate(translator, text, optionsOf(options));
  return { ...found, ids: found.tokens.predicted.map(({ id }) => id) };
}

// Change of the log-probability of `ids`, in nats, with each head alone muted.
async function headImportance({ translator }, { text, ids, baseline }, pause) {
  if (baseline) throw needsServer();
  const target = ids ? targetIds(translator, ids) : targetOf(translator, { text, beam_size: 1, length_penalty: 1 }).ids;
  const found = await importance(translator, text, target, pause);
  return kindsOf((kind) => found[kind].map((heads) => heads.map(short)));
}

// The norm-based weights or the rollout of `ids`, for every cell.
function values({ translator }, asked) {
  const trace = traceOf(translator, asked);
  const found = asked.mode === 'norm' ? normWeights(translator, trace) : rollout(trace);
  return kindsOf((kind) => packValues(found[kind]));
}

// How the weight at `row` and `column` of one head was computed.
function cell({ translator }, asked) {
  const found = cellOf(translator, traceOf(translator, asked), asked);
  const rounded = (numbers) => numbers.map((value) => (value === null ? null : short(value)));
  const { scale, score: value } = found;
  return {
    query: rounded(found.query),
    key: rounded(found.key),
    products: rounded(found.products),
    scale,
    score: value,
    scores: rounded(found.scores),
    weights: rounded(found.weights),
    norm: found.norms[asked.column],
    row_norms: rounded(found.norms),
  };
}

function traceOf(translator, { text, ids }) {
  return pass(translator, read(translator, text, null), targetIds(translator, ids), null).trace;
}

// Every hypothesis that the beam search considered, and all finished translations.
function beams({ translator }, asked) {
  const { tokenizers } = translator;
  const found = translate(translator, asked.text, { ...optionsOf(asked), best: asked.beam_size, tree: true });
  return {
    beam_size: asked.beam_size,
    nodes: found.nodes.map(({ token, total, ...node }) => ({
      ...node,
      token: tokenizers.target.tokens([token])[0],
      log_probability: total,
    })),
    hypotheses: found.hypotheses.map(hypothesisOf),
  };
}

// The curves of the model's training, the saved steps and sentences; `notice` says what is missing.
async function training(loaded) {
  if (!loaded.files.has('probes.safetensors')) {
    const notice = loaded.identity.no_training;
    const nothing = { curves: [], steps: [], sentences: [], goes_on: false, begins_trained: false };
    return { ...nothing, notice, said: [notice, {}] };
  }
  const found = await trainingOf(loaded);
  const { curves, steps, sentences: pairs, notice, said } = found;
  const begins = beginsTrained(found, loaded.translator.tokenizers);
  return { curves, steps, sentences: pairs, goes_on: false, begins_trained: begins, notice, said };
}

// Read once; a failed attempt is repeated.
async function trainingOf(loaded) {
  if (!loaded.training) {
    const { files, settings } = loaded;
    const log = files.has('metrics.jsonl') ? await files.text('metrics.jsonl') : null;
    loaded.training = createTraining(await files.bytes('probes.safetensors'), log, settings.sentences);
  }
  return loaded.training;
}
