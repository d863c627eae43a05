// What every head does over many sentences: answers about some sentences each, added up in the browser.

import { LIMITS } from './limits.js';
import { sum } from './math.js';
import { roleOf } from './roles.js';

export const MOST_SENTENCES = 200;
export const LISTED = 10; // hits and pairs of a head
const ALIKE = 3;

// The sentences of a pasted text: its lines, or if it is one line, what ends with a full stop or the like.
/** @type {(text: string) => string[]} */
export function sentencesOf(text) {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const parts = lines.length > 1 ? lines : text.split(/(?<=[.!?…]["”“»’)]*)\s+/u);
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

// The sentences from `start` on that one request asks about; at least one.
/** @type {(sentences: string[], start: number) => string[]} */
export function partOf(sentences, start) {
  let characters = 0;
  const part = sentences.slice(start, start + LIMITS.sentences);
  const tooMany = part.findIndex((one) => (characters += one.length) > LIMITS.listed);
  return tooMany < 0 ? part : part.slice(0, Math.max(1, tooMany));
}

// Adds the answer about the sentences from `start` on to the survey, which is null at first. An answer names sentences by their
// place in it, the survey by their place among all.
/** @type {(survey: any, answer: any, start: number) => any} */
export function addSurvey(survey, { sentences, skipped, kinds }, start) {
  const found = { ...(survey ?? { sentences: {}, skipped: [], kinds: {} }) };
  for (const [place, one] of Object.entries(sentences)) found.sentences[Number(place) + start] = one;
  found.skipped.push(...skipped.map(([place, reason]) => [place + start, reason]));
  for (const [kind, one] of Object.entries(kinds)) {
    const known = found.kinds[kind] ?? {
      rows: 0,
      heads: one.heads.map((layer) =>
        layer.map(() => ({ hits: [], pairs: new Map(), read_pairs: new Map(), roles: {} })),
      ),
    };
    one.heads.forEach((layer, at) => layer.forEach((head, place) => addHead(known.heads[at][place], head, start)));
    const [pool, distances] = ['pool', 'distances'].map((name) =>
      known[name] ? added(known[name], one[name]) : one[name],
    );
    found.kinds[kind] = { rows: known.rows + one.rows, pool, distances, heads: known.heads };
  }
  return found;
}

function addHead(known, { hits, pairs, read_pairs: read, roles }, start) {
  const moved = hits.map(([weight, place, ...cell]) => [weight, place + start, ...cell]);
  known.hits = [...known.hits, ...moved].sort(byWeight).slice(0, LISTED);
  addPairs(known.pairs, pairs);
  addPairs(known.read_pairs, read);
  for (const [role, count] of Object.entries(roles)) known.roles[role] = (known.roles[role] ?? 0) + count;
}

// Counts of pairs of texts, [query, key, count] by a name.
function addPairs(known, pairs) {
  for (const [query, key, count] of pairs) {
    const name = JSON.stringify([query, key]);
    known.set(name, [query, key, (known.get(name)?.[2] ?? 0) + count]);
  }
}

// The largest first, then the earlier sentence.
/** @type {(one: number[], other: number[]) => number} */
export const byWeight = (one, other) => other[0] - one[0] || one[1] - other[1];

// Numbers in the same form, added.
/** @type {(one: any, other: any) => any} */
export function added(one, other) {
  if (typeof one === 'number') return one + other;
  if (Array.isArray(one)) return one.map((each, place) => added(each, other[place]));
  return one && Object.fromEntries(Object.entries(one).map(([name, each]) => [name, added(each, other[name])]));
}

// The measures and the roles of all heads over the rows of the survey, as MeasurePool of model/analysis/pooling.py has them.
/** @type {(survey: any, definitions: Definitions) => MeasuredHeads | null} */
export function measuredOf({ kinds }, definitions) {
  if (Object.values(kinds).some(({ pool }) => !pool)) return null;
  /** @type {any} */
  const found = { measures: {}, roles: {}, even: {} };
  const offsets = Object.values(definitions.roles).flatMap(({ measure, offset }) =>
    measure === 'offset_share' ? [offset] : [],
  );
  for (const [kind, { pool }] of /** @type {[Kind, any][]} */ (Object.entries(kinds))) {
    const heads = headsOf(pool, offsets);
    const even = Object.fromEntries(Object.entries(pool.even).map(([role, total]) => [role, total / pool.queries]));
    found.even[kind] = even;
    found.roles[kind] = heads.map((row) =>
      row.map((one) => roleOf(definitions, kind, (name) => one[String(name)], even)),
    );
    const names = Object.keys(heads[0][0]);
    found.measures[kind] = Object.fromEntries(
      names.map((name) => [name, heads.map((row) => row.map((one) => one[name]))]),
    );
  }
  return found;
}

// The measures of each head, [layer][head].
function headsOf({ queries, sums, counts, able }, offsets) {
  const mean = (table, layer, head) => table && table[layer][head] / queries;
  return counts[0].map((row, layer) =>
    row.map((_, head) => {
      const shares = offsets.map((_offset, place) => counts[place][layer][head] / Math.max(1, able[place]));
      const best = shares.indexOf(Math.max(...shares));
      return {
        ...Object.fromEntries(Object.entries(sums).map(([name, table]) => [name, mean(table, layer, head)])),
        focus_offset: sums.focus_offset && Math.round(mean(sums.focus_offset, layer, head)) + 0,
        offset_share: sums.entropy && shares[best],
        offset: sums.entropy && offsets[best],
      };
    }),
  );
}

// What one head does: { hits, pairs, roles, sentences, alike }; null if no sentence could be read. The pairs name the token
// that a row predicts, or with an offset of −1 the token that it reads.
/** @type {(survey: any, head: Head, offset?: number) => any} */
export function headSurvey({ kinds }, [kind, layer, head], offset = 0) {
  const found = kinds[kind];
  const one = found?.heads[layer]?.[head];
  if (!one) return null;
  const pairs = [...(offset < 0 ? one.read_pairs : one.pairs).values()].sort((a, b) => b[2] - a[2]).slice(0, LISTED);
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
