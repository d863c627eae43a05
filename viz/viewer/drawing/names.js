// How the page names a row and a cell. A row of the decoder and of cross-attention is a step of the translation: it reads
// one token and writes the next one, and both words are its name, whichever head or value is on screen.

import { element, tokenText, visible } from './dom.js';
import { axes } from '../domain/payload.js';

const WRITES = ' → ';
const READS_FROM = ' ← ';

// What is shown of a token; of another sentence no more is known.
/** @typedef {Pick<Token, 'text'> & Partial<Token>} Named */
/** @typedef {{ token: Named; reads: Named | null }} NamedRow */

// A row of a record, as the grid has it: { token, reads }; `reads` is null in the encoder.
/** @type {(record: TranslationRecord, kind: Kind, row: number) => NamedRow} */
export function rowAt(record, kind, row) {
  const { rows, reads } = axes(record, kind);
  return { token: rows[row], reads: reads && reads[row] };
}

// The name of a row as pieces of a sentence: "dog → is", or one word in the encoder.
/** @type {(row: NamedRow) => (Node | string)[]} */
export const rowName = ({ token, reads }) =>
  reads ? [tokenText(reads), WRITES, tokenText(token)] : [tokenText(token)];

// The name of a cell: its row, and the column that it reads from.
/** @type {(row: NamedRow, column: Named) => (Node | string)[]} */
export const cellName = (row, column) => [...rowName(row), READS_FROM, tokenText(column)];

// The name of a row where there are no elements, as in a picture.
/** @type {(row: NamedRow) => string} */
export const rowText = ({ token, reads }) =>
  reads ? [reads, token].map((one) => isolated(visible(one))).join(WRITES) : visible(token);

// The name of a row beside its cells. Where there is little room, the word that it writes stays in sight.
/** @type {(row: NamedRow) => Node[]} */
export function rowLabel({ token, reads }) {
  const soft = reads ? [tokenText(reads, 'hl-reads'), element('span', { class: 'hl-reads' }, '→')] : [];
  return [...soft, tokenText(token, 'hl-name')];
}

// Unicode isolates keep the order of two texts that are written from right to left.
/** @type {(text: string) => string} */
export const isolated = (text) => `\u2068${text}\u2069`;
