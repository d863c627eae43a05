// Whether the weights tell the truth: a word's probability without the strongest cells, by attention rollout and by random
// cells, as model/analysis/faithfulness.py computes it. The random numbers are torch's.

import { dot, rounded, sum } from '../domain/math.js';
import { copiesTogether, headVectors, hiddenWith } from './analysis.js';
import { meanOver } from './measures.js';
import { predict } from './model.js';
import { attend, post } from './network.js';
import { attentionIn, rowAt, stacksOf } from './stack.js';

const MOST_REMOVED = 10; // cells
const RANDOM_ORDERS = 5; // the chart draws the mean of their curves

/** @type {(translator: Translator, asked: any, pause: Pause) => Promise<any>} */
export async function removal(translator, { text, ids, kind, layer, head = null, row, step }, pause) {
  const { model, tokenizers } = translator;
  const stacks = stacksOf(translator, text, ids);
  const { sublayer, attention } = attentionIn(stacks, kind, layer);
  const heads = head === null ? Array.from({ length: model.network.heads }, (_, each) => each) : [head];
  const count = kind === 'decoder' ? row + 1 : attention.columns;
  const orders = ordersOf(scoresOf(model.network, stacks.trace, sublayer, heads, row), count);
  const firstOf = ({ order }) => Array.from({ length: order.length + 1 }, (_, removed) => order.slice(0, removed));
  const nameOf = (removed) => removed.toSorted().join(); // their order does not matter
  const removals = new Map(orders.flatMap(firstOf).map((removed) => [nameOf(removed), removed]));
  const gates = [...removals.values()].map((removed) =>
    gatesWithout(model.network, { kind, layer, attention }, heads, row, removed, count),
  );
  const chances = await chancesWith(model, stacks, { kind, layer, gates, row, step }, ids[step], pause);
  const known = Object.fromEntries([...removals.keys()].map((name, place) => [name, chances[place]]));
  const curves = orders.map(({ name, order }) => ({
    name,
    order,
    probabilities: firstOf({ order }).map((removed) => known[nameOf(removed)]),
  }));
  const random = curves.splice(-RANDOM_ORDERS).map(({ probabilities }) => probabilities);
  const means = random[0].map((_, removed) => sum(random.map((each) => each[removed])) / RANDOM_ORDERS);
  curves.push({ name: 'random', order: [], probabilities: means });
  for (const curve of curves) curve.probabilities = curve.probabilities.map(rounded);
  return {
    curves,
    tokens: { [ids[step]]: tokenizers.target.tokens([ids[step]])[0] },
  };
}

function scoresOf(network, trace, { kind, layer, attention, x, y, norm, sum: after }, heads, row) {
  const { keys, columns, weightOf } = attention;
  const { width } = network;
  const vectors = headVectors(network, kind, layer, keys, columns);
  const each = (scoreOf) => Array.from({ length: columns }, (_, key) => scoreOf(key));
  const lost = each((key) =>
    Float64Array.from({ length: width }, (_, at) =>
      sum(heads.map((head) => weightOf(head, row, key) * vectors[head][key * width + at])),
    ),
  );
  const [read, added, written] = [x, y, after].map((rows) => rowAt(network, rows, row));
  const whole = network.preNorm ? written : post(network, read, added.slice(), norm);
  const without = (part) =>
    post(
      network,
      read,
      added.map((value, at) => value - part[at]),
      norm,
    );
  return {
    weight: each((key) => sum(heads.map((head) => weightOf(head, row, key))) / heads.length),
    norm: lost.map((part) => Math.hypot(...part)),
    rollout: rolloutRow(trace, kind, layer, row),
    'value zeroing': lost.map((part) => turned(without(part), whole)),
  };
}

// The cosine distance.
const turned = (one, other) => 1 - dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other));

// The order in which keys are removed, by each ranking and at random. The random orders are the orders of torch.randperm.
function ordersOf(scores, count) {
  const keys = Array.from({ length: count }, (_, key) => key);
  const random = createRandom(0);
  const shuffled = () => {
    const order = [...keys];
    for (let place = 0; place + 1 < count; place += 1) {
      const other = place + (random() % (count - place));
      [order[place], order[other]] = [order[other], order[place]];
    }
    return order;
  };
  const ranked = Object.entries(scores).map(([name, values]) => ({
    name,
    order: keys.toSorted((one, other) => values[other] - values[one]),
  }));
  const others = Array.from({ length: RANDOM_ORDERS }, () => ({ name: 'random', order: shuffled() }));
  return [...ranked, ...others].map(({ name, order }) => ({ name, order: order.slice(0, MOST_REMOVED) }));
}

// Gates for one row: what each head gives without the removed keys; zero if all keys are removed.
/** @type {(network: any, place: any, heads: number[], row: number, removed: number[], count: number) => Gates} */
function gatesWithout(network, { kind, layer, attention: { queries, keys } }, heads, row, removed, count) {
  const outputs = new Float32Array(network.width);
  const query = { array: queries.array, start: queries.start + row * queries.stride };
  if (removed.length < count) attend(network, query, keys, count, null, { array: outputs, start: 0 }, null, removed);
  const gate = { closed: heads, outputs };
  return (ofKind, ofLayer, at) => (ofKind === kind && ofLayer === layer && at === row ? gate : null);
}

async function chancesWith(model, { trace, cross }, { kind, layer, gates, row, step }, word, pause) {
  const { width } = model.network;
  const first = kind === 'encoder' ? 0 : Math.min(row, step); // nothing changes before the row
  const size = copiesTogether(trace.cross.columns, step + 1 - first);
  const found = [];
  for (let start = 0; start < gates.length; start += size) {
    const part = gates.slice(start, start + size);
    const hidden = hiddenWith(model.network, { trace, cross }, { kind, layer, gates: part }, first, step + 1);
    const length = (step + 1 - first) * width;
    const last = new Float32Array(part.length * width);
    part.forEach((_, copy) =>
      last.set(hidden.subarray((copy + 1) * length - width, (copy + 1) * length), copy * width),
    );
    found.push(...predict(model, last).map(({ logits, norm }) => Math.exp(logits[word] - norm)));
    await pause('');
  }
  return found;
}

// Attention rollout, as model/analysis/attribution.py defines it: the row of a position after a
// layer, its shares of the prefix for `decoder`, of the source for the other kinds.
/** @type {(trace: ByKind<KindTrace>, kind: Kind, layer: number, row: number) => number[]} */
function rolloutRow({ encoder, decoder, cross }, kind, layer, row) {
  const layerOf = (array, at) => meanOver(array, at * array.heads, array.heads);
  const ownOf = (array, at) =>
    layerOf(array, at).map((line, place) => line.map((weight, key) => 0.5 * weight + 0.5 * Number(key === place)));
  const depth = kind === 'encoder' ? layer + 1 : encoder.layers;
  let encoded = ownOf(encoder, 0);
  for (let at = 1; at < depth; at += 1) encoded = product(ownOf(encoder, at), encoded);
  if (kind === 'encoder') return encoded[row];
  const places = [...Array(decoder.rows).keys()];
  let prefix = places.map((place) => places.map((key) => Number(key === place)));
  let source = prefix.map(() => Array(cross.columns).fill(0));
  for (let at = 0; at <= layer; at += 1) {
    const mixed = ownOf(decoder, at);
    const across = product(layerOf(cross, at), encoded);
    prefix = product(mixed, prefix).map((line) => line.map((value) => 0.5 * value));
    source = product(mixed, source).map((line, place) => line.map((value, key) => 0.5 * (value + across[place][key])));
  }
  return (kind === 'decoder' ? prefix : source)[row];
}

const product = (one, other) =>
  one.map((line) =>
    other[0].map((_, column) => line.reduce((total, value, place) => total + value * other[place][column], 0)),
  );

const [SIZE, MIDDLE] = [624, 397];

// The random numbers of torch, MT19937 (Matsumoto and Nishimura 1998): a function that gives whole numbers of 32 bits.
/** @type {(seed: number) => () => number} */
function createRandom(seed) {
  const state = new Uint32Array(SIZE);
  state[0] = seed;
  for (let place = 1; place < SIZE; place += 1)
    state[place] = Math.imul(1812433253, state[place - 1] ^ (state[place - 1] >>> 30)) + place;
  let at = SIZE;
  const twist = () => {
    for (let place = 0; place < SIZE; place += 1) {
      const both = (state[place] & 0x80000000) | (state[(place + 1) % SIZE] & 0x7fffffff);
      state[place] = state[(place + MIDDLE) % SIZE] ^ (both >>> 1) ^ (both & 1 ? 0x9908b0df : 0);
    }
    at = 0;
  };
  return () => {
    if (at === SIZE) twist();
    let value = state[(at += 1) - 1];
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c5680;
    value ^= (value << 15) & 0xefc60000;
    return (value ^ (value >>> 18)) >>> 0;
  };
}
