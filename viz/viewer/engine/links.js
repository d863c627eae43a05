// Word links, as model/analysis/alignment.py defines them: which words of a sentence and its translation belong together.

import { focusesOf, meanOver } from './measures.js';
import { groupsOf } from '../domain/fold.js';
import { mostFocused } from '../domain/heads.js';
import { rounded, sum } from '../domain/math.js';
import { fault } from '../locales/language.js';

const LONGEST = 30; // characters of a wrong link in a sentence

// Links by the head of most focus, by the average and, if given, by one head of cross-attention; errors against the person's own
// links, `gold` in Pharaoh form. The translation comes from a pass over given ids.
/** @type {(translation: any, asked: { head?: any; gold?: string }) => any} */
export function links({ tokens, trace: { cross } }, { head = null, gold = '' }) {
  if (head && head[0] !== 'cross') throw fault('Only a head of cross-attention links words; choose one.');
  const [source, target, read] = [tokens.source, tokens.predicted, tokens.read].map(wordsOf);
  const { focus, offsets } = focusesOf(
    cross,
    tokens.source.map(({ word }) => word !== null),
  );
  const best = mostFocused(focus).slice(1);
  const reference = gold.trim() === '' ? null : parseGold(gold, source.length, target.length);
  const found = (name, at) => {
    const shifted = at !== null && offsets[at[0]][at[1]] < 0;
    const choices = choicesOf(
      at ? meanOver(cross, at[0] * cross.heads + at[1], 1) : meanOver(cross),
      shifted ? read : target,
      source,
    );
    return methodOf(name, at && ['cross', ...at], shifted, choices, reference);
  };
  const methods = [found('best head', best), found('average', null)];
  const textsOf = (words) => words.map(({ token }) => token.text.trim());
  const everyRow = { places: [...tokens.predicted.keys()] };
  return {
    methods: head ? [...methods, found('head', head.slice(1))] : methods,
    coverage: source.map((word) => rounded(totalOf(meanOver(cross), everyRow, word))), // about 1 for a word translated once
    source_words: textsOf(source),
    target_words: textsOf(target),
    gold: reference && sorted(reference.possible),
  };
}

const wordsOf = (tokens) => groupsOf(tokens, true).filter(({ token }) => token.word !== null);

// All that the tokens of one word read from the tokens of another.
const totalOf = (weights, row, column) =>
  sum(row.places.flatMap((to) => column.places.map((from) => weights[to][from])));

// The links by which each word of the translation chooses a source word, and by which each source word chooses.
function choicesOf(weights, rows, columns) {
  const totals = rows.map((row) => columns.map((column) => totalOf(weights, row, column)));
  const turned = columns.map((_, from) => totals.map((line) => line[from]));
  return {
    forward: strongest(totals).map(([to, from]) => nameOf([from, to])),
    backward: strongest(turned).map(nameOf),
    sources: columns.length,
  };
}

function methodOf(name, head, shifted, { forward, backward, sources }, reference) {
  const shared = forward.filter((link) => backward.includes(link));
  const either = new Set([...forward, ...backward]);
  const grown = growDiagonally(new Set(shared), sorted(either));
  const linked = new Set(sorted(grown).map(([from]) => from));
  return {
    name,
    head,
    shifted,
    agreement: either.size > 0 ? rounded(shared.length / either.size) : 0,
    links: sorted(forward),
    grown: sorted(grown),
    unlinked: Array.from({ length: sources }, (_, from) => from).filter((from) => !linked.has(from)),
    errors: reference && { links: errorOf(forward, reference), grown: errorOf([...grown], reference) },
  };
}

const nameOf = (link) => link.join('-');

function sorted(names) {
  const found = [...names].map((name) => name.split('-').map(Number));
  return found.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
}

// The largest value of each row, [row, column]; none if all are 0.
function strongest(rows) {
  const found = rows.map((values, row) => [row, values.indexOf(Math.max(...values))]);
  return found.filter(([row, column]) => rows[row][column] > 0);
}

// The shared links, and links of either direction that touch one of them while one of their words has no link (grow-diag).
function growDiagonally(found, candidates) {
  const [from, to] = [0, 1].map((side) => new Set(sorted(found).map((link) => link[side])));
  for (let size = -1; size !== found.size;) {
    size = found.size;
    for (const [source, target] of candidates) {
      const near = [-1, 0, 1].flatMap((i) => [-1, 0, 1].map((j) => nameOf([source + i, target + j])));
      if ((from.has(source) && to.has(target)) || !near.some((link) => found.has(link))) continue;
      found.add(nameOf([source, target]));
      from.add(source);
      to.add(target);
    }
  }
  return found;
}

// The links that a person has written, such as 0-0 1p1, where p is a possible link.
function parseGold(line, sources, targets) {
  const [sure, possible] = [new Set(), new Set()];
  for (const link of line.split(/\s+/u).filter(Boolean)) {
    const [, from, kind, to] = /^([0-9]{1,6})([-p])([0-9]{1,6})$/u.exec(link) ?? [];
    if (kind === undefined)
      throw fault('{link} is not a valid link; write 3-4 or 3p4.', { link: `'${link.slice(0, LONGEST)}'` });
    const name = nameOf([Number(from), Number(to)]);
    possible.add(name);
    if (kind === '-') sure.add(name);
  }
  for (const [source, target] of sorted(possible))
    if (source >= sources || target >= targets)
      throw fault(
        'The link {source}-{target} is outside the sentence; its words are 0 to {last_source}, and those of the translation 0 to {last_target}.',
        { source, target, last_source: sources - 1, last_target: targets - 1 },
      );
  return { sure, possible };
}

// The alignment error rate (Och and Ney 2003).
function errorOf(found, { sure, possible }) {
  const hits = sum(found.map((link) => Number(sure.has(link)) + Number(possible.has(link))));
  const total = found.length + sure.size;
  return total > 0 ? rounded(1 - hits / total) : 0;
}
