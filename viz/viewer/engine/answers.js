// Answers the viewer's requests in the protocol of viz/server/handlers: one function for each value of `do`.

import { rounded } from '../domain/math.js';
import { LIMITS, THRESHOLDS } from '../domain/limits.js';
import { neededHeads } from '../domain/heads.js';
import { kindsOf } from '../domain/payload.js';
import { cellOf, changedWords, importance, normWeights } from './analysis.js';
import { scoreSplit, writing } from './circuits.js';
import { contributions } from './contributions.js';
import { aboutBaseline, baselineOf, gatesAsked, gatesOf } from './ablation.js';
import { hypothesisOf, packValues, payloadOf } from './payload.js';
import { examples } from './examples.js';
import { filesOf, partsOf } from './export.js';
import { leaveOneOut } from './leave_one_out.js';
import { createLens, lens } from './lens.js';
import { links } from './links.js';
import { removal } from './removal.js';
import { routes } from './routes.js';
import { normalise } from './text/tokenizer.js';
import { beginsTrained, createTraining, earlierParts, trainingHeads, trainingStep } from './training.js';
import { pass, encodeSource, score, searchFor, targetIds, translate } from './translator.js';
import { fault, message } from '../locales/language.js';

const SENTENCES = ['text', 'other']; // fields of requests
const LISTS = ['sample', 'sentences'];
const [HEADS, LENS] = ['heads.json', 'lens.safetensors'];

const HANDLERS = {
  load: () => null, // only loads the model; a server has loaded all of them
  translate: (loaded, asked) => payload(loaded, asked, translate(loaded.translator, asked.text, optionsOf(asked))),
  target: (loaded, asked) => payload(loaded, asked, score(loaded.translator, asked.text, asked.ids)),
  score: (loaded, asked) => payload(loaded, asked, score(loaded.translator, asked.text, asked.target)),
  mute,
  importance: headImportance,
  transformed_norm: norms,
  cell: ({ translator }, asked) => cellOf(translator, traceOf(translator, asked), asked),
  beams,
  corpus,
  lens: async (loaded, asked) => {
    const through = await jacobianLensOf(loaded);
    return lens(loaded.translator, asked.ids, traceOf(loaded.translator, asked), through);
  },
  leave_one_out: ({ translator }, { text, ids }, pause) =>
    leaveOneOut(translator, text, targetIds(translator, ids), pause),
  remove_word: ({ translator }, asked) => ({ text: translate(translator, asked.text, optionsOf(asked)).text }),
  routes: ({ translator }, asked) => routes(translator, traceOf(translator, asked), stepOf(asked)),
  contributions: ({ translator }, asked) => contributions(translator, { ...asked, step: stepOf(asked) }),
  score_split: ({ translator }, asked) => scoreSplit(translator, asked),
  writing: ({ translator }, asked) => writing(translator, asked),
  removal: ({ translator }, asked, pause) => removal(translator, asked, pause),
  links: ({ translator }, asked) => links(score(translator, asked.text, asked.ids), asked),
  examples: (loaded, asked, pause) => examples(loaded, { ...optionsOf(asked), sentences: asked.sentences }, pause),
  export: exported,
  portable: (loaded, asked) =>
    partsOf(loaded, payload(loaded, asked, translate(loaded.translator, asked.text, optionsOf(asked)))),
  summary: summaryOf,
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
/** @type {(loaded: Loaded, asked: Question, pause: Pause) => Answer} */
export const answer = (loaded, asked, pause) => HANDLERS[asked.do](loaded, withPrefix(asked), pause);

function withPrefix({ language_prefix: prefix = '', ...asked }) {
  const join = (text) => (prefix && normalise(text) ? prefix + text : text);
  const given = Object.entries(asked).map(([name, value]) => {
    if (SENTENCES.includes(name)) return [name, join(value)];
    return [name, LISTS.includes(name) ? value.map(join) : value];
  });
  return { language_prefix: prefix, ...Object.fromEntries(given) };
}

const payload = ({ identity, settings }, asked, translation) => payloadOf(translation, identity, asked, settings);

/** @type {(asked: any) => any} */
function optionsOf({ beam_size: beamSize, length_penalty: alpha, forced = [], places = [] }) {
  return { beamSize, alpha, forced, hidden: places };
}

async function corpus({ files }) {
  if (!files.has(HEADS)) throw fault('Nobody has measured the heads of this model over many sentences.');
  return JSON.parse(await files.text(HEADS));
}

// The Jacobian lens of the model, or null without one. Read once; a failed attempt is repeated.
async function jacobianLensOf(loaded) {
  if (!loaded.files.has(LENS)) return null;
  loaded.lens ??= await createLens(await loaded.files.bytes(LENS));
  return loaded.lens;
}

// The translation with `heads` muted, the original, and how they were muted.
async function mutedOf(loaded, asked, pause) {
  const { translator } = loaded;
  const baseline = await baselineOf(loaded, asked, pause);
  const original = targetOf(translator, asked);
  const gates = gatesAsked(translator, asked, baseline, original);
  return { baseline, original, gates, ablated: translate(translator, asked.text, { ...optionsOf(asked), gates }) };
}

// The same with what muting them costs each token of `ids`.
async function mute(loaded, asked, pause) {
  const { translator } = loaded;
  const { baseline, original, gates, ablated } = await mutedOf(loaded, asked, pause);
  const rescored = score(translator, asked.text, original.ids, gates);
  const [before, after] = changedWords(original.text, ablated.text);
  return {
    text: ablated.text,
    words: after,
    original_words: before,
    differences: rescored.logProbabilities.map((value, step) => rounded(value - original.logProbabilities[step])),
    payload: payload(loaded, asked, ablated),
    ...aboutBaseline(baseline),
  };
}

// The translation that a request is about: its `ids`, or the model's own.
/** @type {(translator: Translator, asked: { text: string; ids?: number[]; [option: string]: any }) => any} */
function targetOf(translator, { text, ids, ...options }) {
  const found = ids ? score(translator, text, ids) : translate(translator, text, optionsOf(options));
  return { ...found, ids: found.tokens.predicted.map(({ id }) => id) };
}

// The files of the translation on screen, which is computed again: with muted heads if these are shown.
async function exported(loaded, asked, pause) {
  const { settings, translator } = loaded;
  if (!asked.shows_muted) {
    const translation = translate(translator, asked.text, optionsOf(asked));
    return filesOf(translation, payload(loaded, asked, translation), settings.generator);
  }
  const { ablated } = await mutedOf(loaded, asked, pause);
  const { heads, baseline = 'zero', other = '', row = null, language_prefix: prefix } = asked;
  const muted = { heads, ablation: { baseline, sentence: other.slice(prefix.length), row } };
  return filesOf(ablated, { ...payload(loaded, asked, ablated), muted }, settings.generator);
}

async function headImportance(loaded, asked, pause) {
  const { translator } = loaded;
  const { text, ids } = asked;
  const baseline = await baselineOf(loaded, asked, pause);
  const target = ids ? targetIds(translator, ids) : targetOf(translator, { text, beam_size: 1, length_penalty: 1 }).ids;
  const found = await importance(translator, text, target, baseline, pause);
  return { ...kindsOf((kind) => found[kind].map((heads) => heads.map(rounded))), ...aboutBaseline(baseline) };
}

// For In short: answers of other instruments, and the translation without each of the heads that it needs most.
async function summaryOf(loaded, asked, pause) {
  const { model, tokenizers } = loaded.translator;
  const { parameters, network } = model;
  const { encoder, decoder, heads: width } = network;
  const isSmall = width * (encoder.length + 2 * decoder.length) * parameters <= LIMITS.head_work;
  const changes = isSmall ? await headImportance(loaded, asked, pause) : null;
  const heads = [];
  const needed = changes ? neededHeads(changes) : [];
  for (const { head } of needed) {
    const muting = { ...optionsOf(asked), gates: gatesOf(network, [head]) };
    const { ids } = searchFor(loaded.translator, asked.text, muting);
    heads.push({ head, text: tokenizers.target.decode(ids) });
    await pause(message('{done} of {count} heads', { done: heads.length, count: needed.length }));
  }
  const rivals = isSmall ? rivalsOf(targetOf(loaded.translator, asked), asked) : [];
  return {
    leave_one_out: parameters <= LIMITS.weights ? await HANDLERS.leave_one_out(loaded, asked, pause) : null,
    lens: await HANDLERS.lens(loaded, asked),
    importance: changes,
    heads,
    rivals: rivals.map(({ step, id }) => wordAt(loaded.translator, asked, step, id)),
  };
}

// The unsure steps of words, or else the least sure one, each with its likeliest other token.
function rivalsOf({ tokens: { predicted }, logProbabilities: chances, alternatives }, { forced = [] }) {
  const steps = [...predicted.keys()]
    .filter(
      (step) => step >= forced.length && predicted[step].word !== null && /[\p{L}\p{N}]/u.test(predicted[step].text),
    )
    .sort((one, other) => chances[one] - chances[other]);
  const unsure = steps.filter((step) => chances[step] < Math.log(THRESHOLDS.unsure)).slice(0, THRESHOLDS.named);
  return (unsure.length > 0 ? unsure : steps.slice(0, 1))
    .map((step) => ({ step, other: alternatives[step].find(({ token }) => token.id !== predicted[step].id)?.token }))
    .filter(({ other }) => other && !other.special)
    .map(({ step, other }) => ({ step, id: other.id }));
}

// The word that begins with another token at a step. The search ends when all that it keeps has the same word there.
function wordAt(translator, asked, step, id) {
  const wordOf = (ids) => {
    const tokens = translator.tokenizers.target.tokens(ids);
    const pieces = tokens.filter(({ word }) => word === tokens[step].word);
    const after = tokens[tokens.indexOf(pieces.at(-1)) + 1];
    const text = pieces.map((one) => one.text).join('');
    const isJoined = ["'", '’'].includes(after?.piece); // by an apostrophe with the next word
    return { text: `${text.trim()}${isJoined ? '…' : ''}`, pieces: pieces.length, isWhole: after !== undefined };
  };
  const isEnough = (all) => {
    const [first, ...others] = all.map(wordOf);
    return first.isWhole && others.every(({ text, isWhole }) => isWhole && text === first.text);
  };
  const given = { ...optionsOf(asked), forced: [...asked.ids.slice(0, step), id], isEnough };
  const { text, pieces } = wordOf(searchFor(translator, asked.text, given).ids);
  return { step, id, text, pieces };
}

function norms({ translator }, asked) {
  const found = normWeights(translator, traceOf(translator, asked));
  return kindsOf((kind) => packValues(found[kind]));
}

function stepOf({ step, ids }) {
  if (step < ids.length) return step;
  throw fault('There is no step {step}; the last one is {last}.', { step, last: ids.length - 1 });
}

const traceOf = (translator, { text, ids }) =>
  pass(translator, encodeSource(translator, text, null), targetIds(translator, ids), null).trace;

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
    const nothing = { curves: [], steps: [], sentences: [], goes_on: false, begins_trained: false, earlier: [] };
    return { ...nothing, notice, said: [notice, {}] };
  }
  const found = await trainingOf(loaded);
  const { curves, steps, sentences: pairs, notice, said } = found;
  const begins = beginsTrained(found, loaded.translator.tokenizers);
  const earlier = earlierParts(found, loaded.identity);
  return { curves, steps, sentences: pairs, goes_on: false, begins_trained: begins, earlier, notice, said };
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
