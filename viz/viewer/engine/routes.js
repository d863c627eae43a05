// Through which layers, positions and heads a word reads the sentence, as model/analysis/routes.py defines it: ALTI+.

import { rounded } from '../domain/math.js';
import { THRESHOLDS } from '../domain/limits.js';
import { headVectors } from './analysis.js';

// The shares of the source and of the prefix in the word of a step, and the connections that carry most of it. `trace` is
// the trace of one pass over the translation.
/** @type {(translator: Translator, trace: Trace, step: number) => { source: number[]; prefix: number[]; connections: Connection[] }} */
export function routes({ model: { network } }, trace, step) {
  let prefix = Float64Array.from({ length: trace.decoder.rows }, (_, row) => Number(row === step));
  let source = new Float64Array(trace.cross.columns);
  const connections = [];
  const mix = (kind, layer, flow) => {
    const sublayer = subLayerOf(network, trace, kind, layer);
    const rows = Array.from(flow, (carried, row) => (carried > 0 ? altiShares(sublayer, row) : null));
    connections.push(...connectionsOf(sublayer, rows, flow));
    return rows;
  };
  for (let layer = network.decoder.length - 1; layer >= 0; layer -= 1) {
    const across = mix('cross', layer, prefix);
    const arrived = arrivals(across, prefix, source.length);
    source = source.map((value, key) => value + arrived[key]);
    prefix = prefix.map((flow, row) => flow && flow * (across[row]?.shares.at(-1) ?? 0));
    prefix = arrivals(mix('decoder', layer, prefix), prefix, prefix.length);
  }
  for (let layer = network.encoder.length - 1; layer >= 0; layer -= 1)
    source = arrivals(mix('encoder', layer, source), source, source.length);
  return { source: Array.from(source, rounded), prefix: Array.from(prefix, rounded), connections };
}

// An attention sub-layer: what its rows read, and the vector that each head adds for each key at weight 1.
function subLayerOf(network, trace, kind, layer) {
  const { heads, rows, columns, weights, memories } = trace[kind];
  const { width } = network;
  const vectors = headVectors(network, kind, layer, memories[layer], columns);
  const x = trace.inputs[kind][layer];
  return {
    kind,
    layer,
    heads,
    columns,
    width,
    isCross: kind === 'cross',
    weightOf: (head, row, key) => weights[((layer * heads + head) * rows + row) * columns + key],
    vectorOf: (head, key) => vectors[head].subarray(key * width, (key + 1) * width),
    inputOf: (row) => x.subarray(row * width, (row + 1) * width),
  };
}

// The output of a row without the bias of W_O, and the share of each key in it. In cross-attention the last share is the share of
// the residual; in self-attention the residual belongs to the row's own key.
function altiShares(sublayer, row) {
  const { columns, heads, width, isCross, weightOf, vectorOf, inputOf } = sublayer;
  const parts = Array.from({ length: columns }, (_, key) => {
    const part = new Float64Array(width);
    for (let head = 0; head < heads; head += 1) add(part, vectorOf(head, key), weightOf(head, row, key));
    return part;
  });
  if (isCross) parts.push(Float64Array.from(inputOf(row)));
  else add(parts[row], inputOf(row), 1);
  const y = new Float64Array(width);
  for (const part of parts) add(y, part, 1);
  const found = parts.map((part) => proximity(y, part));
  const total = found.reduce((sum, value) => sum + value, 0);
  const own = isCross ? columns : row;
  return { y, shares: found.map((value, key) => (total > 0 ? value / total : Number(key === own))) };
}

function add(total, vector, factor) {
  for (let place = 0; place < total.length; place += 1) total[place] += factor * vector[place];
}

// How much nearer to zero y is than to the part taken away, in L1 norms; 0 if it is not nearer.
function proximity(y, part) {
  let nearer = 0;
  for (let place = 0; place < y.length; place += 1) nearer += Math.abs(y[place]) - Math.abs(y[place] - part[place]);
  return Math.max(0, nearer);
}

function arrivals(rows, flow, length) {
  const found = new Float64Array(length);
  rows.forEach((row, place) => {
    for (let key = 0; row && key < length; key += 1) found[key] += flow[place] * row.shares[key];
  });
  return found;
}

function connectionsOf(sublayer, rows, flow) {
  const { kind, layer, columns } = sublayer;
  return rows.flatMap((found, row) =>
    (found?.shares ?? []).flatMap((share, key) => {
      if (flow[row] * share < THRESHOLDS.flow) return [];
      const column = key < columns ? key : null;
      const carried = flow[row] * share;
      const parts = partsOf(sublayer, row, column);
      const head = strongestHead(parts, found.y);
      const split = splitOf(parts, found.y).map((one) => rounded(carried * one));
      return [{ kind, layer, row, column, head, share: rounded(share), flow: rounded(carried), split }];
    }),
  );
}

// What each head brings over a connection, then what the position keeps; null for what has no part in it.
function partsOf({ heads, width, isCross, weightOf, vectorOf, inputOf }, row, column) {
  const brought = Array.from({ length: heads }, (_, head) => {
    if (column === null) return null;
    const part = new Float64Array(width);
    add(part, vectorOf(head, column), weightOf(head, row, column));
    return part;
  });
  const isOwn = isCross ? column === null : row === column;
  return [...brought, isOwn ? Float64Array.from(inputOf(row)) : null];
}

// The head that carries most of a connection; null if the residual carries more than every head.
function strongestHead(parts, y) {
  const found = parts.map((part) => (part ? proximity(y, part) : -1));
  const best = found.indexOf(Math.max(...found));
  return best === parts.length - 1 ? null : best;
}

// The shares of the parts in a connection: what y loses without them is divided in each dimension in proportion to their values.
function splitOf(parts, y) {
  const total = new Float64Array(y.length);
  for (const part of parts) if (part) add(total, part, 1);
  const split = parts.map((part) => {
    let share = 0;
    for (let place = 0; part && place < y.length; place += 1)
      if (total[place] !== 0)
        share += (part[place] * (Math.abs(y[place]) - Math.abs(y[place] - total[place]))) / total[place];
    return share;
  });
  const norm = split.reduce((sum, one) => sum + one, 0);
  return split.map((one, place) => (norm > 0 ? one / norm : Number(place === parts.length - 1)));
}
