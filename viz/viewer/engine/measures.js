// Measures and roles of heads, as model/analysis/measures.py defines them; its docstrings say what each one means.

import { KINDS } from '../domain/payload.js';
import { entropy, rounded, sum } from '../domain/math.js';
import { THRESHOLDS } from '../domain/limits.js';
import { roleOf } from '../domain/roles.js';
import { EOS } from './text/tokenizer.js';

const PUNCTUATION = /^\p{P}*$/u;
const isCross = ({ kind }) => kind === 'cross';

// The measures that are a mean over the rows of a head; null where a measure has no meaning.
/** @type {{ [measure: string]: (lines: any[], context: any) => any }} */
const MEANS = {
  confidence(lines, { countedRows, countedKeys }) {
    const counted = lines.filter((_, row) => countedRows[row]);
    const largest = (line) => line.reduce((most, weight, key) => (countedKeys[key] ? Math.max(most, weight) : most), 0);
    return sum(counted.map(largest)) / Math.max(1, counted.length);
  },
  entropy: (lines) => sum(lines.map(entropy)) / lines.length,
  sinks: (lines, { sinks }) => sum(lines.map((line) => sum(line.filter((_, key) => sinks[key])))) / lines.length,
  focus: (lines, context) => (isCross(context) ? focusOf(lines, context.words) : null),
  focus_offset: (lines, context) => (isCross(context) ? focusOffsetOf(lines, context.words, context.mean) : null),
};

// The measures of all heads by kind and name, [layer][head], their roles, and what even rows give each role.
/** @type {(translation: { tokens: any; trace: Trace }, definitions: Definitions) => MeasuredHeads} */
export function measureHeads(translation, definitions) {
  const { sums: _, ...found } = measuresAndSums(translation, definitions);
  return found;
}

// The same with their sums over the rows, as model/analysis/pooling.py adds up many records.
/** @type {(translation: { tokens: any; trace: Trace }, definitions: Definitions) => MeasuredHeads & { sums: ByKind<any> }} */
export function measuresAndSums({ tokens, trace }, definitions) {
  const { source, read, predicted } = tokens;
  const words = predicted.map((token) => !isEnd(token));
  const rows = { encoder: source.map((token) => !isEnd(token)), decoder: words, cross: words };
  const keys = { encoder: source, decoder: read, cross: source };
  const [measures, roles, even, sums] = /** @type {ByKind<any>[]} */ ([{}, {}, {}, {}]);
  for (const kind of KINDS) {
    const context = { ...contextOf(kind, rows[kind], keys[kind]), mean: meanOver(trace[kind]) };
    const found = tableOf(trace[kind], (weights) => measuresOf(weights, trace[kind], context));
    even[kind] = evenOf(context, trace[kind].rows, definitions);
    roles[kind] = found.map((heads) =>
      heads.map((head) => roleOf(definitions, kind, (name) => head[String(name)], even[kind])),
    );
    const { counts, able, ...means } = tablesOf(found);
    measures[kind] = Object.fromEntries(
      Object.entries(means).map(([name, table]) => [name, mapped(table, fourDecimals)]),
    );
    sums[kind] = sumsOf(means, counts, able[0][0], { rows: trace[kind].rows, even: even[kind] }, definitions);
  }
  return { measures, roles, even, sums };
}

// From a list of values for each head to a table of each value, [layer][head].
function tablesOf(found) {
  const names = Object.keys(found[0][0]);
  return Object.fromEntries(names.map((name) => [name, mapped(found, (head) => head[name])]));
}

const mapped = (table, change) => table.map((heads) => heads.map(change));

function sumsOf(means, counts, able, { rows, even }, { roles }) {
  const offsets = Object.values(roles).flatMap(({ measure, offset }) => (measure === 'offset_share' ? [offset] : []));
  const at = (list, offset) => list[offset + rows - 1] ?? 0;
  const summed = (table) => (table[0][0] === null ? null : mapped(table, (value) => value * rows));
  return {
    queries: rows,
    sums: Object.fromEntries(Object.keys(MEANS).map((name) => [name, summed(means[name])])),
    counts: offsets.map((offset) => mapped(counts, (list) => at(list, offset))),
    able: offsets.map((offset) => at(able, offset)),
    even: Object.fromEntries(Object.entries(even).map(([role, share]) => [role, share * rows])),
  };
}

const isEnd = ({ special, piece }) => special && piece === EOS;

// Four decimals; a value in the middle goes to the even digit, as in Python.
function fourDecimals(value) {
  if (value === null) return null;
  const nearest = Math.round(value * 1e4);
  return (nearest - value * 1e4 === 0.5 && nearest % 2 !== 0 ? nearest - 1 : nearest) / 1e4;
}

// A value for the matrix of each head, [layer][head].
/** @type {<Found>(trace: Pick<KindTrace, 'layers' | 'heads' | 'rows' | 'columns' | 'weights'>, valueOf: (weights: Float32Array) => Found) => Found[][]} */
export function tableOf({ layers, heads, rows, columns, weights }, valueOf) {
  const size = rows * columns;
  return Array.from({ length: layers }, (_, layer) =>
    Array.from({ length: heads }, (__, head) => {
      const start = (layer * heads + head) * size;
      return valueOf(weights.subarray(start, start + size));
    }),
  );
}

// The mean of some heads, as rows: `count` heads from `first` on, in the order of the layers.
/** @type {(trace: Pick<KindTrace, 'layers' | 'heads' | 'rows' | 'columns' | 'weights'>, first?: number, count?: number) => number[][]} */
export function meanOver({ layers, heads, rows, columns, weights }, first = 0, count = layers * heads) {
  const size = rows * columns;
  const meanAt = (cell) => {
    let total = 0;
    for (let head = first; head < first + count; head += 1) total += weights[head * size + cell];
    return total / count;
  };
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns }, (__, column) => meanAt(row * columns + column)),
  );
}

// What the measures need to know of the tokens, the same for every head.
const contextOf = (kind, countedRows, keys) => ({
  kind,
  countedRows,
  countedKeys: keys.map((token) => !isEnd(token)),
  sinks: sinksOf(keys),
  words: keys.map(({ word }) => word !== null),
});

// Special tokens, and every mark between the last word and </s>.
function sinksOf(tokens) {
  const sinks = tokens.map(({ word }) => word === null);
  for (let place = tokens.length - 1; place >= 0; place -= 1) {
    if (!sinks[place] && !PUNCTUATION.test(tokens[place].text)) break;
    sinks[place] = true;
  }
  return sinks;
}

function measuresOf(weights, { rows, columns }, context) {
  const lines = linesOf(weights, { rows, columns });
  const means = Object.entries(MEANS).map(([name, valueOf]) => [name, valueOf(lines, context)]);
  return {
    ...Object.fromEntries(means),
    ...offsetOf(lines.map(strongestOf), rows, columns, context.kind === 'decoder'),
  };
}

/** @type {(weights: Float32Array, size: { rows: number; columns: number }) => Float32Array[]} */
export const linesOf = (weights, { rows, columns }) =>
  Array.from({ length: rows }, (_, row) => weights.subarray(row * columns, (row + 1) * columns));

// The focus of each head of cross-attention on the source, and which rows align, [layer][head].
/** @type {(cross: KindTrace, words: boolean[]) => { focus: number[][]; offsets: number[][] }} */
export function focusesOf(cross, words) {
  const mean = meanOver(cross);
  const each = (valueOf) => tableOf(cross, (weights) => valueOf(linesOf(weights, cross)));
  return {
    focus: each((lines) => focusOf(lines, words)),
    offsets: each((lines) => focusOffsetOf(lines, words, mean)),
  };
}

/** @type {(line: ArrayLike<number>) => { key: number; weight: number }} */
export function strongestOf(line) {
  let key = 0;
  for (let place = 1; place < line.length; place += 1) if (line[place] > line[key]) key = place;
  return { key, weight: line[key] };
}

// The most common offset from a query to its strongest key; entry d of the counts is the offset d - (rows - 1).
function offsetOf(strongest, rows, columns, isCausal) {
  const [counts, able] = [0, 1].map(() => Array(rows + columns - 1).fill(0));
  strongest.forEach(({ key, weight }, row) => {
    const allowed = isCausal ? row + 1 : columns;
    if (allowed < 2) return; // a row without a choice
    for (let column = 0; column < allowed; column += 1) able[column - row + rows - 1] += 1;
    if (weight > 0) counts[key - row + rows - 1] += 1;
  });
  const most = Math.max(...able);
  // Counts decide; `able`, never above the number of rows, breaks ties.
  const ranks = counts.map((count, place) => (2 * able[place] < most ? -1 : count * (rows + 1) + able[place]));
  const best = ranks.indexOf(Math.max(...ranks));
  return {
    offset: best - (rows - 1),
    offset_share: counts[best] / Math.max(1, able[best]),
    offset_queries: able[best],
    counts,
    able,
  };
}

function focusOf(lines, words) {
  const keys = words.flatMap((isWord, key) => (isWord ? [key] : []));
  const total = sum(keys.map((key) => Math.max(...lines.map((line) => line[key]))));
  return total / Math.min(lines.length, Math.max(1, keys.length));
}

// 0 if the rows align the words that they predict, -1 if they align the words that they read: the mean of all heads decides.
function focusOffsetOf(lines, words, mean) {
  let [predicting, reading] = [0, 0];
  for (let row = 0; row < lines.length - 1; row += 1)
    for (let key = 0; key < words.length; key += 1) {
      if (!words[key]) continue;
      predicting += lines[row][key] * mean[row][key];
      reading += lines[row + 1][key] * mean[row][key];
    }
  return reading > THRESHOLDS.clearly * predicting ? -1 : 0;
}

// The evidence for each role of a kind if every row spread its weight evenly over what it may read.
function evenOf(context, rows, { roles }) {
  const { kind, words } = context;
  const lines = Array.from({ length: rows }, (_, row) => {
    const allowed = kind === 'decoder' ? row + 1 : words.length;
    return words.map((_word, key) => (key < allowed ? 1 / allowed : 0));
  });
  const evidence = ({ measure, offset }) =>
    measure in MEANS ? MEANS[measure](lines, context) : chanceOf(lines, offset);
  const known = Object.entries(roles).filter(([, { measure, kinds }]) => measure && kinds.includes(kind));
  return Object.fromEntries(known.map(([role, one]) => [role, rounded(evidence(one))]));
}

// The mean chance of an offset in the rows that can have it and have a choice; 1 if no row can.
function chanceOf(lines, offset) {
  const chances = lines.map((line, row) => line[row + offset]).filter((chance) => chance > 0 && chance < 1);
  return chances.length > 0 ? sum(chances) / chances.length : 1;
}
