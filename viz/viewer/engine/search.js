// Beam search with a key-value cache, as model/decoding/search.py defines it; greedy decoding is a beam of 1.

import { copySequence, createSequence, decode } from './network.js';
import { embed, predict } from './model.js';
import { LIMITS, REASONS } from '../domain/limits.js';
import { BOS_ID, EOS_ID, NEVER_PREDICTED } from './text/tokenizer.js';

// Maximum number of target tokens, </s> included, for a source of this many tokens.
/** @type {(sourceLength: number) => number} */
export const lengthLimit = (sourceLength) => LIMITS.target_per_source * sourceLength + LIMITS.more_target;

// ((5 + length) / 6) ^ alpha, equation 14 of Wu et al. 2016.
/** @type {(length: number, alpha: number) => number} */
export const lengthPenalty = (length, alpha) => ((5 + length) / 6) ** alpha;

// Returns the finished hypotheses, the best first, { ids, logProbability, score, logProbabilities } each, and the nodes
// of the beam tree if `tree`. A finished hypothesis leaves the beam, which becomes one smaller. A search with one
// hypothesis can fill a `trace`; its result then has also the predictions of its `steps`. The search also ends when
// `isEnough(hypotheses)`, the ids of all that could still win.
/** @type {(model: any, cross: any, asked: any) => { found: any[]; nodes: any[] | null }} */
export function search(model, cross, asked) {
  const { alpha = 1, best = 1, forced = [], gates = null, tree = false, limit, isEnough = () => false } = asked;
  const options = { ...asked, alpha, best, lastPenalty: lengthPenalty(limit, alpha) };
  const nodes = tree ? [] : null;
  let beam = [startOf(model, createSequence(model.network, cross, gates), forced, options, nodes)];
  const finished = [];
  const idsOf = () => [...finished.map(({ ids }) => ids), ...beam.map(({ tokens }) => tokens)];
  while (beam.length > 0 && !isEnough(idsOf())) beam = extend(model, beam, finished, options, nodes);
  const found = finished.sort((one, other) => other.score - one.score);
  return { found: beam.length > 0 ? [{ ids: beam[0].tokens }] : found, nodes };
}

// The hypothesis that has read <s> and the forced tokens: tokens, log-probability up to each, predictions, cache and node.
function startOf(model, sequence, forced, { alpha, trace }, nodes) {
  const read = [BOS_ID, ...forced];
  const rows = read.map((_, position) => ({ sequence, position }));
  const steps = predict(model, decode(model.network, rows, embed(model, 'target', read), { trace }));
  const totals = [0];
  let node = /** @type {any} */ (null);
  forced.forEach((token, step) => {
    totals.push(Math.fround(totals[step] + chanceOf(steps[step], token)));
    const score = totals[step + 1] / lengthPenalty(step + 1, alpha);
    node = add(nodes, { step, token, parent: node, total: totals[step + 1], score, status: 'kept', reason: 'forced' });
  });
  return { tokens: forced, totals, steps, sequence, node };
}

const chanceOf = ({ logits, norm }, token) => Math.fround(logits[token] - norm);

// Replaces the hypotheses by their best extensions; hypotheses that end go to `finished`.
function extend(model, beam, finished, options, nodes) {
  const { beamSize, alpha, best, limit, lastPenalty } = options;
  const width = beamSize - finished.length;
  const length = beam[0].tokens.length + 1;
  const penalty = lengthPenalty(length, alpha);
  const alive = [];
  bestExtensions(beam, nodes ? 2 * beamSize : beamSize).forEach(({ parent, token, total }, rank) => {
    const isTaken = rank < width;
    const hasEnded = isTaken && (token === EOS_ID || length >= limit);
    const fate = fateOf(rank, { ...options, isTaken, hasEnded, isCut: length >= limit });
    const score = total / penalty;
    const node = add(nodes, { step: length - 1, token, parent: parent.node, total, score, ...fate });
    if (!isTaken) return;
    const tokens = [...parent.tokens, token];
    const totals = [...parent.totals, total];
    const { steps } = parent;
    if (hasEnded)
      finished.push({ ids: tokens, logProbability: total, score, logProbabilities: differences(totals), steps });
    else alive.push({ tokens, totals, parent, node });
  });
  if (finished.length >= best && alive.length > 0) {
    const threshold = finished.map(({ score }) => score).sort((one, other) => other - one)[best - 1];
    if (alive[0].totals.at(-1) / lastPenalty <= threshold) return giveUp(alive, nodes);
  }
  return advance(model, alive, options);
}

function fateOf(rank, { beamSize, isTaken, hasEnded, isCut }) {
  if (!isTaken) return { status: 'pruned', reason: rank < beamSize ? 'narrowed' : 'outscored' };
  if (hasEnded) return { status: 'finished', reason: isCut ? 'cut' : 'ended' };
  return { status: 'kept', reason: 'in_beam' };
}

// No hypothesis of the beam can still win.
function giveUp(alive, nodes) {
  if (nodes) for (const { node } of alive) Object.assign(nodes[node], { status: 'pruned', reason: REASONS.hopeless });
  return [];
}

function bestExtensions(beam, count) {
  const found = beam.flatMap((parent) => {
    const total = parent.totals.at(-1);
    const step = parent.steps.at(-1);
    return largestPlaces(step.logits, count, NEVER_PREDICTED.length).map((token) => ({
      parent,
      token,
      total: Math.fround(total + chanceOf(step, token)),
    }));
  });
  return found.sort((one, other) => other.total - one.total).slice(0, count);
}

// The places of the `count` largest values from place `first` on, the largest first.
/** @type {(values: ArrayLike<number>, count: number, first?: number) => number[]} */
export function largestPlaces(values, count, first = 0) {
  const places = [];
  let least = -Infinity; // of them, once there are enough
  for (let place = first; place < values.length; place += 1) {
    if (values[place] <= least) continue;
    let at = places.length;
    while (at > 0 && values[places[at - 1]] < values[place]) at -= 1;
    places.splice(at, 0, place);
    if (places.length > count) places.pop();
    if (places.length === count) least = values[places[count - 1]];
  }
  return places;
}

// Reads the newest token of each hypothesis. The first child of a parent takes over its cache, others copy it.
function advance(model, alive, { trace }) {
  const used = new Set();
  for (const one of alive) {
    const { parent } = one;
    one.sequence = used.has(parent) ? copySequence(parent.sequence) : parent.sequence;
    one.steps = trace ? parent.steps : []; // the steps of all hypotheses would take much memory
    used.add(parent);
    delete one.parent;
  }
  if (alive.length === 0) return [];
  const position = alive[0].tokens.length;
  const rows = alive.map(({ sequence }) => ({ sequence, position }));
  const read = alive.map(({ tokens }) => tokens.at(-1));
  const x = embed(
    model,
    'target',
    read,
    read.map(() => position),
  );
  predict(model, decode(model.network, rows, x, { trace })).forEach((step, row) => {
    alive[row].steps = [...alive[row].steps, step];
  });
  return alive;
}

function add(nodes, { reason, ...node }) {
  if (!nodes) return null;
  return nodes.push({ ...node, reason: REASONS[reason] }) - 1;
}

const differences = (totals) => totals.slice(1).map((total, place) => total - totals[place]);
