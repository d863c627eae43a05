// The words of a sentence that seem to be missing from its translation, as model/analysis/omissions.py defines them.

import { focusesOf } from './measures.js';
import { headsWith } from '../domain/heads.js';
import { THRESHOLDS } from '../domain/limits.js';

const N_FREE = 2; // heads that decide together in a model without a head that was taught to align

// The source words that seem to be missing, the clearest one first.
/** @type {(translation: any) => number[]} */
export function missingWords(translation) {
  const { tokens, trace, taught } = translation;
  const { focus, offsets } = focusesOf(
    trace.cross,
    tokens.source.map(({ word }) => word !== null),
  );
  const heads = taught ? [taught] : headsOfMostFocus(focus);
  const rows = heads.map(([layer, head]) =>
    largestWeights(trace.cross, layer, head, rowsOf(tokens, offsets[layer][head])),
  );
  const words = Map.groupBy(
    tokens.source.flatMap(({ word, text }, place) => (word === null ? [] : [{ word, text, place }])),
    ({ word }) => word,
  );
  if (words.size < 2) return [];
  const least = taught ? THRESHOLDS.missing : THRESHOLDS.missing_free;
  return [...words]
    .map(([word, parts]) => ({
      word,
      absence: absenceOf(parts, rows) + THRESHOLDS.early_end * surpriseOfEnd(translation),
    }))
    .filter(({ absence }) => absence >= least)
    .sort((one, other) => other.absence - one.absence)
    .map(({ word }) => word);
}

// Minus the log-probability of </s>: much where the model expected more.
const surpriseOfEnd = ({ tokens: { predicted }, logProbabilities }) =>
  predicted.at(-1).text === '</s>' ? -logProbabilities.at(-1) : 0;

function headsOfMostFocus(focus) {
  const ranked = headsWith({ cross: focus }).sort((one, other) => other.value - one.value);
  return ranked.slice(0, N_FREE).map(({ head: [, ...at] }) => at);
}

// The rows of a head that align a word of the translation: they predict the word or, with an offset of −1, read it.
const rowsOf = ({ predicted, read }, offset) =>
  (offset < 0 ? read : predicted).flatMap(({ word }, row) => (word === null ? [] : [row]));

function largestWeights({ heads, rows: size, columns, weights }, layer, head, rows) {
  const start = (layer * heads + head) * size;
  const weightAt = (row, column) => weights[(start + row) * columns + column];
  return Array.from({ length: columns }, (_, column) =>
    rows.reduce((most, row) => Math.max(most, weightAt(row, column)), 0),
  );
}

// In nats; the largest weight that the heads give to a word, the mean over its tokens, and its letters.
function absenceOf(parts, largest) {
  const text = parts
    .map((part) => part.text)
    .join('')
    .trim();
  if (!/\p{L}/u.test(text)) return -Infinity;
  const total = largest.flatMap((row) => parts.map(({ place }) => row[place])).reduce((sum, weight) => sum + weight, 0);
  const letters = Math.min([...text].length, THRESHOLDS.letters);
  return THRESHOLDS.letter * letters - Math.log(total / (parts.length * largest.length) + THRESHOLDS.unread);
}
