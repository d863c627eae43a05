// What every head does over some sentences, and its clearest examples, as model/analysis/examples.py defines it.

import { kindsOf } from '../domain/payload.js';
import { rounded, sum } from '../domain/math.js';
import { LISTED, addSurvey, byWeight } from '../domain/survey.js';
import { readable } from './ablation.js';
import { linesOf, measuresAndSums, strongestOf, tableOf } from './measures.js';
import { translate } from './translator.js';
import { message } from '../locales/language.js';

const HITS_OF_ONE = 2; // cells of a head from the same sentence

// Other requests get a turn after each sentence. The viewer asks again for the next ones.
/** @type {(loaded: Loaded, asked: { sentences: string[]; [option: string]: any }, pause: Pause) => Promise<any>} */
export async function examples({ translator, settings }, { sentences, ...options }, pause) {
  const nothing = { sentences: {}, skipped: [], kinds: {} };
  let found = addSurvey(null, nothing, 0);
  for (const [place, sentence] of sentences.entries()) {
    await pause(message('{done} of {count} sentences', { done: place + 1, count: sentences.length }));
    const translation = readable(() => translate(translator, sentence, options));
    const { said } = translation;
    found = addSurvey(found, said ? { ...nothing, skipped: [[0, said]] } : surveyOf(translation, settings), place);
  }
  const kinds = Object.entries(found.kinds).map(([kind, one]) => [kind, printed(one)]);
  return { ...found, kinds: Object.fromEntries(kinds) };
}

function surveyOf(translation, { definitions }) {
  const { source, predicted, read } = translation.tokens;
  const texts = (side) => side.map(({ text }) => text);
  const { roles, sums } = measuresAndSums(translation, definitions);
  const sides = { encoder: [source, source], decoder: [predicted, read], cross: [predicted, source] };
  const ofKind = (kind) => {
    const [queries, keys] = sides[kind];
    const trace = translation.trace[kind];
    const all = tableOf(trace, (weights) => linesOf(weights, trace));
    const headOf = (role, lines) => ({
      hits: hitsOf(lines, queries, keys),
      pairs: pairsOf(lines, queries, keys),
      read_pairs: kind === 'cross' ? pairsOf(lines, read, keys) : [],
      roles: { [role]: 1 },
    });
    return {
      rows: trace.rows,
      pool: sums[kind],
      distances: distancesOf(all.flat()),
      heads: roles[kind].map((layer, at) => layer.map((role, head) => headOf(role, all[at][head]))),
    };
  };
  return {
    sentences: { 0: { source: texts(source), predicted: texts(predicted) } },
    skipped: [],
    kinds: kindsOf(ofKind),
  };
}

// The Jensen-Shannon divergence of every two heads in bits, summed over the rows.
function distancesOf(heads) {
  const rows = heads[0].length;
  const own = heads.map((lines) => sum(lines.map((line) => bitsOfMean(line, line))));
  const distances = heads.map(() => Array(heads.length).fill(0));
  heads.forEach((lines, one) => {
    for (let other = 0; other < one; other += 1) {
      const mixed = sum(lines.map((line, row) => bitsOfMean(line, heads[other][row])));
      const distance = Math.min(rows, Math.max(0, mixed - (own[one] + own[other]) / 2));
      distances[one][other] = distance;
      distances[other][one] = distance;
    }
  });
  return distances;
}

function bitsOfMean(one, other) {
  let bits = 0;
  for (let key = 0; key < one.length; key += 1) {
    const weight = (one[key] + other[key]) / 2;
    if (weight > 0) bits -= weight * Math.log2(weight);
  }
  return bits;
}

function hitsOf(lines, queries, keys) {
  const cells = lines.flatMap((line, row) =>
    queries[row].word === null
      ? []
      : [...line.keys()]
          .filter((key) => keys[key].word !== null && line[key] > 0)
          .map((key) => [line[key], 0, row, key]),
  );
  return cells.sort(byWeight).slice(0, HITS_OF_ONE);
}

// The texts of each row and of its strongest key, special tokens left out, each counted once.
const pairsOf = (lines, queries, keys) =>
  lines.flatMap((line, row) => {
    const [query, key] = [queries[row], keys[strongestOf(line).key]];
    return query.word === null || key.word === null ? [] : [[query.text, key.text, 1]];
  });

function printed({ distances, heads, ...kind }) {
  const headOf = ({ hits, pairs, read_pairs: read, roles }) => ({
    hits: hits.map(([weight, ...cell]) => [rounded(weight), ...cell]),
    pairs: mostOf(pairs),
    read_pairs: mostOf(read),
    roles,
  });
  return {
    ...kind,
    distances: distances.map((line) => Array.from(line, rounded)),
    heads: heads.map((layer) => layer.map(headOf)),
  };
}

const mostOf = (pairs) => [...pairs.values()].sort(byCount).slice(0, LISTED);

function byCount(one, other) {
  if (one[2] !== other[2]) return other[2] - one[2];
  return one[0] === other[0] ? compare(one[1], other[1]) : compare(one[0], other[0]);
}

function compare(one, other) {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
