// The tokenizers of imported models, which cut as model/text/sentencepiece.py does: SentencePiece (Kudo and Richardson 2018).

import { fromBase64 } from '../../domain/files.js';
import { createCharsmap } from './charsmap.js';
import { NEVER_PREDICTED, SPACE, UNK_ID, joinPairs, withVocabulary } from './tokenizer.js';

const UNKNOWN_PENALTY = 10; // an unknown character costs this much more than the least likely piece
export const TARGET_CODE = /^>>[^<>\s]+<<$/u; // which tells a model of many languages its target language
const BYTES = /(?:<0x[0-9A-F]{2}>)+/g;

// `settings` is the value of a tokenizer file of the type "sentencepiece".
/** @type {(settings: any) => Tokenizer} */
export function createSentencePiece({ vocabulary, ...settings }) {
  const scores = new Map(Object.entries(settings.scores));
  const cut = settings.algorithm === 'unigram' ? createUnigram(scores) : (text) => bytePairs(scores, text);
  const model = { ...settings, scores, cut, replace: createCharsmap(fromBase64(settings.charsmap)) };
  const ids = new Map(vocabulary.map((piece, id) => [piece, id]).slice(NEVER_PREDICTED.length + 1));
  const segments = (text) => {
    const found = segmentsOf(model, ids, text.replaceAll(/\p{Surrogate}/gu, '?'));
    return found.map((piece) => ({ id: ids.get(piece) ?? UNK_ID, text: piece }));
  };
  return withVocabulary(vocabulary, segments, {
    textOf(pieces) {
      const text = pieces.filter((piece) => !TARGET_CODE.test(piece)).join('');
      return settings.byte_fallback ? text.replaceAll(BYTES, textOfBytes) : text;
    },
    finish: (tokens) =>
      tokens.map((token) => (TARGET_CODE.test(token.piece) ? { ...token, special: true, word: null } : token)),
  });
}

// The pieces of a text with the code before it, if it begins with one.
function segmentsOf(model, ids, text) {
  const end = text.startsWith('>>') ? text.indexOf('<<') + 2 : 0;
  return end < 2 ? piecesOf(model, text) : [text.slice(0, end), ...piecesOf(model, text.slice(end))];
}

// Unknown characters in a row make one unknown piece.
function piecesOf(model, text) {
  const { scores, cut, byte_fallback: byteFallback } = model;
  const found = [];
  let wasKnown = true;
  for (const piece of cut(normalise(model, [...text]))) {
    const isKnown = scores.has(piece);
    if (!isKnown && byteFallback) found.push(...bytesOf(piece));
    else if (!isKnown && !wasKnown) found.push(found.pop() + piece);
    else found.push(piece);
    wasKnown = isKnown || byteFallback;
  }
  return found;
}

function bytesOf(text) {
  const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, '0');
  return Array.from(new TextEncoder().encode(text), (byte) => `<0x${hex(byte)}>`);
}

// The characters of a text as they are cut.
function normalise({ replace, add_space: addSpace, merge_spaces: mergeSpaces }, characters) {
  if (characters.length === 0) return [];
  const found = addSpace ? [SPACE] : [];
  let afterSpace = mergeSpaces;
  for (let start = 0; start < characters.length;) {
    const { text, end } = replace(characters, start);
    const kept = afterSpace ? text.replace(/^ +/, '') : text;
    if (kept !== '') {
      found.push(...kept.replaceAll(' ', SPACE));
      afterSpace = mergeSpaces && kept.endsWith(' ');
    }
    start = end;
  }
  while (mergeSpaces && found.at(-1) === SPACE) found.pop();
  return found;
}

// Cuts characters into the most probable pieces: the Viterbi algorithm (Kudo 2018). Sums are rounded to 32 bits as
// SentencePiece does, since that decides between equal segmentations.
function createUnigram(scores) {
  const longest = new Map(); // length of the longest piece that begins with each character
  let least = Infinity;
  for (const [piece, score] of scores) {
    const [first, { length }] = [String.fromCodePoint(piece.codePointAt(0)), [...piece]];
    longest.set(first, Math.max(longest.get(first) ?? 0, length));
    least = Math.min(least, score);
  }
  const unknown = Math.fround((scores.size === 0 ? 0 : least) - UNKNOWN_PENALTY);
  return (characters) => {
    const best = new Float32Array(characters.length + 1);
    const ends = characters.map(() => null); // the start and the text of the best piece that ends at each place
    characters.forEach((character, start) => {
      const last = Math.min(start + (longest.get(character) ?? 1), characters.length);
      for (let end = start + 1, piece = ''; end <= last; end += 1) {
        piece += characters[end - 1];
        const score = scores.get(piece) ?? (end === start + 1 ? unknown : null);
        if (score === null) continue;
        const total = Math.fround(best[start] + score);
        if (ends[end - 1] && total <= best[end]) continue;
        best[end] = total;
        ends[end - 1] = { start, piece };
      }
    });
    const found = [];
    for (let end = characters.length; end > 0; end = ends[end - 1].start) found.push(ends[end - 1].piece);
    return found.reverse();
  };
}

function bytePairs(scores, characters) {
  const rankOf = (left, right) => -(scores.get(left + right) ?? -Infinity);
  return joinPairs(characters, rankOf, (left, right) => left + right);
}

// Byte pieces in a row as text; each byte that is not UTF-8 becomes U+FFFD.
function textOfBytes(pieces) {
  const bytes = Uint8Array.from(pieces.matchAll(/[0-9A-F]{2}/g), ([byte]) => Number.parseInt(byte, 16));
  let text = '';
  for (let start = 0; start < bytes.length;) {
    const found = characterAt(bytes, start);
    text += found ?? '\ufffd';
    start += found ? new TextEncoder().encode(found).length : 1;
  }
  return text;
}

function characterAt(bytes, start) {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  for (let length = 1; length <= 4; length += 1) {
    try {
      return decoder.decode(bytes.subarray(start, start + length));
    } catch {
      // a longer character, or none
    }
  }
  return null;
}
