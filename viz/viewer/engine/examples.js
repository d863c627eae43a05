// What every head does over some sentences, and its clearest examples, as model/analysis/examples.py defines it.

import { sum } from '../domain/math.js';
import { KINDS } from '../domain/payload.js';
import { added } from '../domain/survey.js';
import { readable } from './interventions.js';
import { measuresAndSums, strongestOf } from './measures.js';
import { rounded } from './payload.js';
import { translate } from './translator.js';
import { message } from '../locales/language.js';

const HITS = 10; // strongest cells of a head that are kept
const HITS_OF_ONE = 2; // of them from the same sentence
const PAIRS = 10;

// Other requests get a turn after each sentence. The viewer asks again for the next ones.
export async function examples({ translator, settings }, { sentences, ...options }, pause) {
  const found = /** @type {any} */ ({ sentences: {}, skipped: [], kinds: {} });
  for (const [place, sentence] of sentences.entries()) {
    await pause(message('{done} of {count} sentences', { done: place + 1, count: sentences.length }));
    const translation = readable(() => translate(translator, sentence, options));
    if (translation.said) found.skipped.push([place, translation.said]);
    else addTo(found, place, translation, settings.definitions);
  }
  const kinds = Object.entries(found.kinds).map(([kind, one]) => [kind, printed(one)]);
  return { ...found, kinds: Object.fromEntries(kinds) };
}

function addTo(found, place, translation, definitions) {
  const { tokens, trace } = translation;
  const { source, predicted, read } = tokens;
  const texts = (side) => side.map(({ text }) => text);
  found.sentences[place] = { source: texts(source), predicted: texts(predicted) };
  const { roles, sums } = measuresAndSums(translation, definitions);
  const sides = { encoder: [source, source], decoder: [predicted, read], cross: [predicted, source] };
  for (const kind of KINDS) {
    const [queries, keys] = sides[kind];
    const { layers, heads, rows, columns, weights } = trace[kind];
    const one = (found.kinds[kind] ??= createSurvey(layers, heads));
    const all = Array.from({ length: layers * heads }, (_, head) =>
      Array.from({ length: rows }, (__, row) => weights.subarray(...lineOf((head * rows + row) * columns, columns))),
    );
    one.rows += rows;
    one.pool = one.pool ? added(one.pool, sums[kind]) : sums[kind];
    addDistances(one.distances, all);
    all.forEach((lines, head) => {
      const survey = one.heads[Math.floor(head / heads)][head % heads];
      const role = roles[kind][Math.floor(head / heads)][head % heads];
      survey.roles[role] = (survey.roles[role] ?? 0) + 1;
      survey.hits = [...survey.hits, ...hitsOf(lines, queries, keys, place)].sort(byWeight).slice(0, HITS);
      count(survey.pairs, lines, queries, keys);
      if (kind === 'cross') count(survey.read_pairs, lines, read, keys);
    });
  }
}

function lineOf(start, length) {
  return [start, start + length];
}

function createSurvey(layers, heads) {
  const size = layers * heads;
  const head = () => ({ hits: [], pairs: new Map(), read_pairs: new Map(), roles: {} });
  return {
    rows: 0,
    pool: null,
    distances: Array.from({ length: size }, () => new Float64Array(size)),
    heads: Array.from({ length: layers }, () => Array.from({ length: heads }, head)),
  };
}

// Adds the Jensen-Shannon divergence of every two heads in bits, summed over the rows.
function addDistances(distances, heads) {
  const rows = heads[0].length;
  const own = heads.map((lines) => sum(lines.map(bitsOf)));
  heads.forEach((lines, one) => {
    for (let other = 0; other < one; other += 1) {
      const mixed = sum(lines.map((line, row) => bitsOfMean(line, heads[other][row])));
      const distance = Math.min(rows, Math.max(0, mixed - (own[one] + own[other]) / 2));
      distances[one][other] += distance;
      distances[other][one] += distance;
    }
  });
}

function bitsOf(line) {
  return bitsOfMean(line, line);
}

// The entropy of the mean of two rows.
function bitsOfMean(one, other) {
  let bits = 0;
  for (let key = 0; key < one.length; key += 1) {
    const weight = (one[key] + other[key]) / 2;
    if (weight > 0) bits -= weight * Math.log2(weight);
  }
  return bits;
}

// The strongest cells between words.
function hitsOf(lines, queries, keys, place) {
  const cells = lines.flatMap((line, row) =>
    queries[row].word === null
      ? []
      : [...line.keys()]
          .filter((key) => keys[key].word !== null && line[key] > 0)
          .map((key) => [line[key], place, row, key]),
  );
  return cells.sort(byWeight).slice(0, HITS_OF_ONE);
}

function byWeight(one, other) {
  return other[0] - one[0] || one[1] - other[1];
}

// Counts the texts of each row and of its strongest key, special tokens left out.
function count(pairs, lines, queries, keys) {
  lines.forEach((line, row) => {
    const key = keys[strongestOf(line).key];
    if (queries[row].word === null || key.word === null) return;
    const name = JSON.stringify([queries[row].text, key.text]);
    pairs.set(name, (pairs.get(name) ?? 0) + 1);
  });
}

function printed({ rows, pool, distances, heads }) {
  return {
    rows,
    pool,
    distances: distances.map((line) => Array.from(line, rounded)),
    heads: heads.map((layer) =>
      layer.map(({ hits, pairs, read_pairs: read, roles }) => ({
        hits: hits.map(([weight, ...cell]) => [rounded(weight), ...cell]),
        pairs: mostOf(pairs),
        read_pairs: mostOf(read),
        roles,
      })),
    ),
  };
}

function mostOf(pairs) {
  const all = [...pairs].map(([name, number]) => JSON.parse(name).concat(number));
  return all.sort(byCount).slice(0, PAIRS);
}

function byCount(one, other) {
  if (one[2] !== other[2]) return other[2] - one[2];
  return one[0] === other[0] ? compare(one[1], other[1]) : compare(one[0], other[0]);
}

function compare(one, other) {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
