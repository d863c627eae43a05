// Text in, translation out, with every attention weight: what model/translator.py does with a checkpoint.

import { LIMITS, THRESHOLDS } from '../domain/limits.js';
import { sum } from '../domain/math.js';
import { embed, predict } from './model.js';
import { createSequence, createTrace, crossMemories, decode, encode, cutTrace } from './network.js';
import { largestPlaces, lengthLimit, lengthPenalty, search } from './search.js';
import { TARGET_CODE } from './text/sentencepiece.js';
import { BOS_ID, EOS_ID, INVISIBLE, PAD_ID, SPACE, UNK, UNK_ID, normalise } from './text/tokenizer.js';
import { fault, message } from '../locales/language.js';

const LEADING_CODE = /^>>[^<>\s]+<</u;
const WORD = /\p{L}{2,}/gu; // of two letters or more
const nothing = () => fault('There is nothing to translate; type a sentence.');

// `tokenizers` are { source, target }. The identity has `language`, the name of the language that the model reads, and
// `codes`, one of which must begin each sentence; most models have none.
/** @type {(model: any, tokenizers: Tokenizers, identity: { language: any; codes: string[] }) => Translator} */
export function createTranslator(model, tokenizers, { language, codes }) {
  return { model, tokenizers, language, codes, kept: {} };
}

// The ids of a sentence with its </s>. Throws an error with the sentence to show if it cannot be translated.
/** @type {(translator: Translator, text: string) => number[]} */
function sourceIds({ tokenizers: { source }, language }, text) {
  if (normalise(text) === '') throw nothing();
  checkCharacters(text);
  const ids = source.encode(text.replaceAll(INVISIBLE, ''));
  const pieces = ids.map((id) => source.piece(id)).filter((piece) => !TARGET_CODE.test(piece));
  if (ids.length > 0 && pieces.length === 0) throw nothing();
  if (pieces.every((piece) => [UNK, SPACE].includes(piece)))
    throw fault('The model knows none of these characters; it reads {language}.', { language: [language, {}] });
  if (ids.length >= LIMITS.source_tokens)
    throw fault('The sentence has {tokens} tokens; the limit is {limit}. Split it into shorter ones.', {
      tokens: ids.length + 1,
      limit: LIMITS.source_tokens,
    });
  return [...ids, EOS_ID];
}

// A given target as ids: of a text, or the ids themselves. Throws an error if no translation can have them.
/** @type {(translator: Pick<Translator, 'tokenizers'>, given: string | number[]) => number[]} */
export function targetIds({ tokenizers: { target } }, given) {
  if (typeof given === 'string') checkCharacters(given);
  const ids = typeof given === 'string' ? target.encode(given.replaceAll(INVISIBLE, '')) : [...given];
  const wrong = ids.find((id) => !(id >= 0 && id < target.size) || id === PAD_ID || id === BOS_ID);
  if (wrong !== undefined)
    throw fault('A translation cannot contain token {token}; give ids of the vocabulary.', { token: String(wrong) });
  if (ids.slice(0, -1).includes(EOS_ID)) throw fault('The given translation continues after its </s>; end it there.');
  const most = LIMITS.target_tokens;
  if (ids.length > most)
    throw fault('The given translation has {tokens} tokens; the limit is {limit}. Split it into shorter ones.', {
      tokens: ids.length,
      limit: most,
    });
  return ids;
}

function checkCharacters(text) {
  const { source_tokens: tokens, characters_per_token: characters } = LIMITS;
  const [length, most] = [[...text].length, tokens * characters];
  if (length <= most) return;
  throw fault(
    'The text has {length:,} characters; the limit is {most:,}. Translate one sentence of at most {tokens} tokens at a time.',
    { length, most, tokens },
  );
}

// A search without a record: what was read, what was found, and the best ids. The translation begins with the ids `forced`,
// and nothing reads the source tokens in the places `hidden`. For the other options see search.js.
/** @type {(translator: Translator, text: string, options: any) => any} */
export function searchFor(translator, text, { beamSize = 1, forced = [], hidden = [], gates = null, ...how }) {
  const given = targetIds(translator, forced);
  const started = performance.now();
  const source =
    hidden.length > 0 ? encodeAnew(translator, text, gates, hidden) : encodeSource(translator, text, gates);
  const encoded = performance.now();
  const limit = lengthLimit(source.ids.length);
  // A greedy search has one hypothesis, so its own steps are the record; others need another pass.
  const trace = beamSize === 1 ? traceOf(translator, source, limit) : null;
  const isOpen = given.at(-1) !== EOS_ID && given.length < limit;
  const { found, nodes } = isOpen
    ? search(translator.model, source.cross, { beamSize, forced: given, gates, limit, trace, ...how })
    : { found: [], nodes: [] };
  const timings = { encode: encoded - started, search: performance.now() - encoded };
  return { source, given, gates, trace, found, nodes, ids: found[0]?.ids ?? given, timings };
}

// A translation with its record; `nodes` is the beam tree if `tree`.
/** @type {(translator: Translator, text: string, options?: any) => any} */
export function translate(translator, text, options) {
  const { source, given, gates, trace, found, nodes, ids, timings } = searchFor(translator, text, options);
  const started = performance.now();
  const isTraced = trace && found.length > 0;
  const passed = isTraced
    ? { trace: cutTrace(trace, ids.length), steps: found[0].steps }
    : pass(translator, source, ids, gates);
  const about = { forcedCount: given.length, alpha: options.alpha, isMuted: gates !== null };
  const result = resultOf(translator, source, ids, about, passed);
  const { target } = translator.tokenizers;
  const withText = (one) => Object.assign(one, { text: target.decode(one.ids) });
  if (found.length > 0) result.hypotheses = found.map(withText);
  return { ...result, timings: { ...timings, record: performance.now() - started }, nodes };
}

// Log-probabilities and attention of a given translation: text, to which </s> is added, or ids as they are.
/** @type {(translator: Translator, text: string, given: string | number[], gates?: Gates | null) => any} */
export function score(translator, text, given, gates = null) {
  const ids = targetIds(translator, given);
  if (ids.length === 0) throw fault('There is no translation to score; give one.');
  if (typeof given === 'string') ids.push(EOS_ID);
  const started = performance.now();
  const source = encodeSource(translator, text, gates);
  const encoded = performance.now();
  const result = resultOf(translator, source, ids, { forcedCount: ids.length }, pass(translator, source, ids, gates));
  return { ...result, timings: { encode: encoded - started, record: performance.now() - encoded } };
}

// What `make` returns, or what it last returned for the same key: the page asks several questions about one translation.
function lastOf(translator, name, key, make) {
  if (translator.kept[name]?.key !== key) translator.kept[name] = { key, value: make() };
  return translator.kept[name].value;
}

// An encoded sentence: ids, the weights, and what the decoder attends to.
/** @type {(translator: Translator, text: string, gates: Gates | null) => any} */
export function encodeSource(translator, text, gates) {
  if (gates?.isOfEncoder) return encodeAnew(translator, text, gates, []);
  return lastOf(translator, 'source', text, () => encodeAnew(translator, text, null, []));
}

// The same without the places `hidden`.
function encodeAnew(translator, text, gates, hidden) {
  const { model } = translator;
  const ids = sourceIds(translator, text);
  checkPlaces(hidden, ids.length);
  const trace = createTrace(model.network, ids.length, 0);
  const encoded = encode(model.network, embed(model, 'source', ids), 1, { gates: [gates], hidden: [hidden], trace });
  const [cross] = crossMemories(model.network, encoded, 1, [hidden]);
  return { text, ids, trace, cross };
}

function checkPlaces(hidden, count) {
  if (hidden.some((place) => place >= count) || new Set(hidden).size === count)
    throw fault('Hide some of the {count} source tokens, not all.', { count });
}

// Room for the weights of a target of this length, with the encoder's weights.
function traceOf({ model }, source, length) {
  const trace = createTrace(model.network, source.ids.length, length);
  trace.encoder = source.trace.encoder;
  trace.inputs.encoder = source.trace.inputs.encoder;
  trace.last.encoder = source.trace.last.encoder;
  return trace;
}

// One pass over a target: the trace of every weight, and what each step predicts.
/** @type {(translator: Translator, source: any, target: number[], gates: Gates | null) => { trace: Trace; steps: any[] }} */
export function pass(translator, source, target, gates) {
  if (source !== translator.kept.source?.value || gates) return passAnew(translator, source, target, gates);
  const key = JSON.stringify([source.text, target]);
  return lastOf(translator, 'pass', key, () => passAnew(translator, source, target, null));
}

function passAnew({ model }, source, target, gates) {
  const trace = traceOf({ model }, source, target.length);
  const sequence = createSequence(model.network, source.cross, gates);
  const rows = target.map((_, position) => ({ sequence, position }));
  const hidden = decode(model.network, rows, embed(model, 'target', [BOS_ID, ...target.slice(0, -1)]), { trace });
  return { trace, steps: predict(model, hidden) };
}

function resultOf(translator, source, target, { forcedCount, alpha = 1, isMuted = false }, { trace, steps }) {
  const { tokenizers } = translator;
  const logProbabilities = steps.map(({ logits, norm }, step) => logits[target[step]] - norm);
  const total = sum(logProbabilities);
  const text = tokenizers.target.decode(target);
  const tokens = {
    source: tokenizers.source.sourceTokens(source.text.replaceAll(INVISIBLE, '')),
    read: tokenizers.target.tokens([BOS_ID, ...target.slice(0, -1)]),
    predicted: tokenizers.target.tokens(target),
  };
  const alternativesOf = ({ logits, norm }) =>
    largestPlaces(logits, LIMITS.alternatives).map((id) => ({
      token: tokenizers.target.tokens([id])[0],
      logProbability: logits[id] - norm,
    }));
  const own = { ids: target, text, logProbability: total, score: total / lengthPenalty(target.length, alpha) };
  const chosen = logProbabilities.slice(forcedCount);
  const isChanged = isMuted || forcedCount > 0;
  const notices =
    chosen.length > 0
      ? noticesOf(translator, tokens.source, own, { chosen, isChanged, given: source.text })
      : givenNotices(logProbabilities);
  if (target.includes(UNK_ID))
    notices.push(message('The given translation has characters that the model reads as <unk>.'));
  return {
    sourceText: normalise(source.text),
    text,
    tokens,
    trace,
    logProbabilities,
    notices,
    forcedCount,
    alternatives: steps.map(alternativesOf),
    hypotheses: [{ ...own, logProbabilities }],
    taught: translator.model.config.model.taught_head,
  };
}

// What is said of a translation that was given as a whole.
function givenNotices(logProbabilities) {
  const isUnrelated = sum(logProbabilities) / logProbabilities.length < THRESHOLDS.unrelated;
  return isUnrelated ? [message('The given translation hardly belongs to this sentence, as the model sees it.')] : [];
}

// Warnings. `chosen` are the log-probabilities of the model's own tokens; `isChanged` says that words were forced or heads muted.
function noticesOf({ tokenizers, language, codes }, source, { ids, text: translation }, { chosen, isChanged, given }) {
  const notices = [];
  const unknown = source.filter(({ special, word }) => special && word !== null).map(({ text }) => text);
  if (unknown.length > 0) {
    const listed = [...new Set(unknown)].map((text) => `“${text}”`).join(', ');
    notices.push(message('The model does not know {words} and reads it as <unk>.', { words: listed }));
    if (unknown.some((text) => text !== text.toLowerCase()) && knowsNoCapitals(tokenizers.source))
      notices.push(message('The model knows lower-case letters only.'));
  }
  if (given.search(INVISIBLE) !== -1)
    notices.push(message('Invisible characters, such as soft hyphens, were left out of the sentence.'));
  const visible = given.replaceAll(INVISIBLE, '').trimStart();
  const [code] = visible.match(LEADING_CODE) ?? [];
  if (code && codes.length > 0 && !codes.includes(code))
    notices.push(message('The model has no language {code} and reads the code as text.', { code }));
  if (codes.length > 0 && !codes.includes(source[0].piece))
    notices.push(message('Begin the sentence with the code of a target language, such as {code}.', { code: codes[0] }));
  const reads = /** @type {[string, Values]} */ ([language, {}]);
  if (!isChanged && isCopied(visible.replace(LEADING_CODE, ''), translation))
    notices.push(
      message('Many words of the sentence stand unchanged in the translation; the model reads {language}.', {
        language: reads,
      }),
    );
  else if (sum(chosen) / chosen.length < THRESHOLDS.unsure_translation)
    notices.push(
      isChanged
        ? message('After your change, the model is unsure of this translation.')
        : message('The model is unsure of this translation; it reads {language}.', { language: reads }),
    );
  if (ids.at(-1) !== EOS_ID) notices.push(message('The translation was cut at the length limit.'));
  return notices;
}

// Whether so many words stand in the translation as they are that it is hardly one.
function isCopied(sentence, translation) {
  const [words, kept] = [sentence, translation].map((text) => text.toLowerCase().match(WORD) ?? []);
  const repeated = words.filter((word) => kept.includes(word)).length;
  return words.length >= THRESHOLDS.copied_words && repeated >= THRESHOLDS.copied * words.length;
}

function knowsNoCapitals(tokenizer) {
  const pieces = Array.from({ length: tokenizer.size }, (_, id) => tokenizer.piece(id));
  return pieces.every((piece) => piece === piece.toLowerCase());
}
