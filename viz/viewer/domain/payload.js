// Decodes the payload of viz/payload.py into arrays: [layer, head, row, column]; rows are queries, columns are keys.

import { fromBase64 } from './files.js';
import { say } from '../locales/language.js';

const VERSION = 3;
export const SCALE = 65535; // the code of 1
/** @type {Kind[]} */
export const KINDS = ['encoder', 'decoder', 'cross'];

/** @type {<Found>(valueOf: (kind: Kind) => Found) => ByKind<Found>} */
export function kindsOf(valueOf) {
  return { encoder: valueOf('encoder'), decoder: valueOf('decoder'), cross: valueOf('cross') };
}

// Returns the payload with `attention[kind]` decoded to { layers, heads, rows, columns, codes, scale }.
/** @type {(payload: any) => Promise<TranslationRecord>} */
export async function decode(payload) {
  if (payload.version !== VERSION) {
    throw new Error(
      say('This page reads version {version} of the data, not {other}.', { version: VERSION, other: payload.version }),
    );
  }
  return { ...withPresentNames(payload), attention: await unpackKinds(payload.attention) };
}

// Release 0.2 had other names for the number of forced tokens, and for what muted heads give.
function withPresentNames({ n_prefix: nPrefix, n_forced: forced = nPrefix, muted, ...payload }) {
  const renamed = muted?.instead ? { ...muted, ablation: muted.instead } : muted;
  return { ...payload, n_forced: forced, ...(renamed && { muted: renamed }) };
}

// Decodes { encoder, decoder, cross }. Each is { shape, data } with 16-bit codes for values from 0 to 1, or has also
// { unit, scale } and 32-bit codes for larger values. `data` is compressed and written in base64 by a server; a Worker
// gives the codes as they are. A decoded value is code / 65535 * scale.
/** @type {(packed: ByKind<any>) => Promise<ByKind<HeadArray>>} */
export async function unpackKinds(packed) {
  const unpacked = await Promise.all(KINDS.map((kind) => unpack(packed[kind])));
  const [encoder, decoder, cross] = unpacked;
  return { encoder, decoder, cross };
}

async function unpack({ shape, data, unit = null, scale = 1 }) {
  const buffer = typeof data === 'string' ? await inflate(data) : data;
  const codes =
    unit === null
      ? new Uint16Array(buffer)
      : Float64Array.from(new Uint32Array(buffer), (code) => ((code * unit) / scale) * SCALE);
  const [layers, heads, rows, columns] = shape;
  return { layers, heads, rows, columns, codes, scale };
}

// Little-endian, as every machine that runs a browser.
function inflate(data) {
  const stream = new Blob([fromBase64(data)]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).arrayBuffer();
}

// Whether a model reads and writes letters: it knows no longer piece, and its letters make words. The tokens of a tutorial's
// model, which spaces separate, are words of their own.
/** @type {(record: TranslationRecord) => boolean} */
export function isOfLetters({ tokens: { source, predicted } }) {
  const read = source.filter(({ special }) => !special);
  const areWords = read.length > 1 && new Set(read.map(({ word }) => word)).size === read.length;
  return !areWords && [...source, ...predicted].every(({ special, text }) => special || [...text.trim()].length <= 1);
}

// The matrix of one head, or the mean over the layer's heads if `head` is null: { rows, columns, values }.
/** @type {(record: TranslationRecord, kind: Kind, layer: number, head: number | null) => Matrix} */
export function matrixOf(record, kind, layer, head) {
  const array = record.attention[kind];
  const heads = head === null ? [...Array(array.heads).keys()] : [head];
  return combine(
    array,
    heads.map((one) => [layer, one]),
  );
}

// Several heads, [layer, head] each, as one matrix: each cell is their mean or their largest value.
/** @type {(array: HeadArray, chosen: number[][], reduce?: string) => Matrix} */
export function combine({ heads, rows, columns, codes, scale }, chosen, reduce = 'mean') {
  const size = rows * columns;
  const values = new Float64Array(size);
  for (const [layer, head] of chosen) {
    const start = (layer * heads + head) * size;
    for (let cell = 0; cell < size; cell += 1) {
      const code = codes[start + cell];
      values[cell] = reduce === 'max' ? Math.max(values[cell], code) : values[cell] + code;
    }
  }
  const unit = scale / SCALE / (reduce === 'max' ? 1 : chosen.length);
  for (let cell = 0; cell < size; cell += 1) values[cell] *= unit;
  return { rows, columns, values };
}

// The code of one weight; a larger code is a larger weight.
/** @type {(record: TranslationRecord, kind: Kind, place: number[]) => number} */
export function codeAt(record, kind, [layer, head, row, column]) {
  const { heads, rows, columns, codes } = record.attention[kind];
  return codes[((layer * heads + head) * rows + row) * columns + column];
}

// What every head of a kind gives to some columns in the mean over some rows, { layer, head, value } each. `left` are columns
// that are left out: the others are scaled up.
/** @type {(record: TranslationRecord, kind: Kind, places: { rows: number[]; columns: number[] }, left?: number[]) => { layer: number; head: number; value: number }[]} */
export function cellOfAllHeads(record, kind, places, left = []) {
  const { layers, heads } = record.attention[kind];
  const massOn = (layer, head, chosen) => {
    const cells = places.rows.flatMap((row) => chosen.map((column) => [layer, head, row, column]));
    return cells.reduce((sum, cell) => sum + codeAt(record, kind, cell), 0) / SCALE / places.rows.length;
  };
  return Array.from({ length: layers * heads }, (_, one) => {
    const [layer, head] = [Math.floor(one / heads), one % heads];
    const rest = 1 - massOn(layer, head, left);
    return { layer, head, value: rest > 0 ? massOn(layer, head, places.columns) / rest : 0 };
  });
}

// The places of the word that a token belongs to: the token and its neighbours of the same word.
/** @type {(tokens: Token[], place: number) => number[]} */
export function placesOfWord(tokens, place) {
  const { word } = tokens[place];
  const isOther = (token) => word === null || token.word !== word;
  const first = tokens.slice(0, place).findLastIndex(isOther) + 1;
  const next = tokens.slice(place + 1).findIndex(isOther);
  const last = next < 0 ? tokens.length - 1 : place + next;
  return Array.from({ length: last - first + 1 }, (_, each) => first + each);
}

// The places of the source that are removed together: all tokens of a word, or one letter of a model of letters.
/** @type {(record: TranslationRecord, place: number) => number[]} */
export const placesToRemove = (record, place) =>
  isOfLetters(record) ? [place] : placesOfWord(record.tokens.source, place);

// Whether a token continues the text before it: there is no space between them.
/** @type {(token: { piece?: string; word: number | null }) => boolean} */
export const continues = ({ piece = '▁', word }) => word !== null && !piece.startsWith('▁');

// What every request about a record says: its model, sentence and options, and what stands before the sentence.
/** @type {(record: TranslationRecord) => { model: string; text: string; language_prefix?: string }} */
export function taskOf({ model, source_text: text, options, language_prefix: prefix }) {
  return { model: model.name, text, ...options, ...(prefix ? { language_prefix: prefix } : {}) };
}

/** @type {(record: TranslationRecord) => number[]} */
export const targetIds = ({ tokens }) => tokens.predicted.map(({ id }) => id);

// The tokens that the model did not choose: a forced beginning, or a whole translation.
/** @type {(record: TranslationRecord) => number[]} */
export const forcedIds = (record) => targetIds(record).slice(0, record.n_forced ?? 0);

/** @type {(record: TranslationRecord, kind: Kind, row: number, column: number) => boolean} */
export const isAllowed = (record, kind, row, column) => record.masks[kind] !== 'causal' || column <= row;

// The tokens along both axes. A row of the decoder or of cross-attention reads a token (`reads`) and predicts one (`rows`).
/** @type {(record: TranslationRecord, kind: Kind) => { rows: Token[]; reads: Token[] | null; columns: Token[] }} */
export function axes(record, kind) {
  const { source, read, predicted } = record.tokens;
  if (kind === 'encoder') return { rows: source, reads: null, columns: source };
  return { rows: predicted, reads: read, columns: kind === 'cross' ? source : read };
}

// A smaller matrix. Each of its cells is the largest of a block, so that a thin diagonal stays visible.
/** @type {(matrix: Matrix, limit: number) => Matrix} */
export function shrink({ rows, columns, values }, limit) {
  const height = Math.min(rows, limit);
  const width = Math.min(columns, limit);
  if (height === rows && width === columns) return { rows, columns, values };
  const small = new Float64Array(height * width);
  for (let row = 0; row < rows; row += 1) {
    const line = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column += 1) {
      const cell = line + Math.floor((column * width) / columns);
      small[cell] = Math.max(small[cell], values[row * columns + column]);
    }
  }
  return { rows: height, columns: width, values: small };
}
