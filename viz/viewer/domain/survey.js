// What every head does over many sentences: answers about some sentences each, added up in the browser.

import { LIMITS } from './limits.js';
import { sum } from './math.js';

export const MOST_SENTENCES = 200;
const LISTED = 10; // hits and pairs of a head
const ALIKE = 3;

// The sentences of a pasted text: its lines, or if it is one line, what ends with a full stop or the like.
export function sentencesOf(text) {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const parts = lines.length > 1 ? lines : text.split(/(?<=[.!?…]["”“»’)]*)\s+/u);
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

// The sentences from `start` on that one request asks about; at least one.
export function partOf(sentences, start) {
  let characters = 0;
  const part = sentences.slice(start, start + LIMITS.sentences);
  const tooMany = part.findIndex((one) => (characters += one.length) > LIMITS.listed);
  return tooMany < 0 ? part : part.slice(0, Math.max(1, tooMany));
}

// Adds the answer about the sentences from `start` on; `survey` is null at first.
export function addSurvey(survey, answer, start) {
  const moved = move(answer, start);
  if (!survey) return moved;
  const kinds = { ...survey.kinds };
  for (const [kind, found] of Object.entries(moved.kinds)) kinds[kind] = kinds[kind] ? join(kinds[kind], found) : found;
  return {
    sentences: { ...survey.sentences, ...moved.sentences },
    skipped: [...survey.skipped, ...moved.skipped],
    kinds,
  };
}

// Sentences are named by their place in the answer; here, by their place among all.
function move({ sentences, skipped, kinds }, start) {
  const head = (one) => ({
    ...one,
    hits: one.hits.map(([weight, place, ...cell]) => [weight, place + start, ...cell]),
  });
  return {
    sentences: Object.fromEntries(Object.entries(sentences).map(([place, one]) => [Number(place) + start, one])),
    skipped: skipped.map(([place, reason]) => [place + start, reason]),
    kinds: Object.fromEntries(
      Object.entries(kinds).map(([kind, found]) => [
        kind,
        { ...found, heads: found.heads.map((row) => row.map(head)) },
      ]),
    ),
  };
}

function join(one, other) {
  return {
    rows: one.rows + other.rows,
    distances: one.distances.map((row, place) => row.map((value, column) => value + other.distances[place][column])),
    heads: one.heads.map((row, layer) => row.map((head, place) => joinHeads(head, other.heads[layer][place]))),
  };
}

function joinHeads(one, other) {
  const hits = [...one.hits, ...other.hits].sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, LISTED);
  const [pairs, read] = ['pairs', 'read_pairs'].map((name) => joinPairs(one[name], other[name]));
  const roles = { ...one.roles };
  for (const [role, count] of Object.entries(other.roles)) roles[role] = (roles[role] ?? 0) + count;
  return { hits, pairs, read_pairs: read, roles };
}

function joinPairs(pairs, others) {
  const counts = new Map();
  for (const [query, key, count] of [...pairs, ...others]) {
    const name = JSON.stringify([query, key]);
    counts.set(name, (counts.get(name) ?? 0) + count);
  }
  return [...counts].map(([name, count]) => JSON.parse(name).concat(count));
}

// What one head does: { hits, pairs, roles, sentences, alike }; null if no sentence could be read. The pairs name the token
// that a row predicts, or with an offset of −1 the one that it reads.
export function headSurvey({ kinds }, [kind, layer, head], offset = 0) {
  const found = kinds[kind];
  const one = found?.heads[layer]?.[head];
  if (!one) return null;
  const pairs = [...(offset < 0 ? one.read_pairs : one.pairs)].sort((a, b) => b[2] - a[2]).slice(0, LISTED);
  const roles = Object.entries(one.roles).sort((a, b) => b[1] - a[1]);
  return { hits: one.hits, pairs, roles, sentences: sum(Object.values(one.roles)), alike: alikeTo(found, layer, head) };
}

// The heads of the same kind with the least distance, in bits, 0 to 1.
function alikeTo({ distances, rows, heads }, layer, head) {
  const width = heads[0].length;
  const own = layer * width + head;
  const all = distances[own].map((value, place) => ({
    layer: Math.floor(place / width),
    head: place % width,
    distance: value / rows,
  }));
  return all
    .filter((_, place) => place !== own)
    .sort((one, other) => one.distance - other.distance)
    .slice(0, ALIKE);
}
