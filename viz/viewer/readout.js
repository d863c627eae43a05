// The sentence beneath the matrix: the exact value of the cell, or the strongest link of a row or a column.

import { element, tokenText } from './dom.js';
import { axes, isAllowed } from './payload.js';
import { entropy, rankInRow, rowOf, strongest, valueAt } from './measures.js';
import { focusOf, isCell } from './state.js';

// Returns the pieces of the sentence: elements and strings.
export function describe(state, matrix) {
  const focus = focusOf(state);
  if (!focus) return [element('span', { class: 'hl-soft' }, 'Point at a cell to read its weight; click to keep it.')];
  const names = axes(state.record, state.kind);
  if (isCell(focus)) return describeCell(state, matrix, names, focus);
  return focus.row !== null ? describeRow(matrix, names, focus.row) : describeColumn(matrix, names, focus.column);
}

export function plain(pieces) {
  return pieces.map((piece) => piece.textContent ?? piece).join('');
}

function describeCell(state, matrix, names, { row, column }) {
  const link = element('strong', {}, tokenText(names.rows[row]), ' ← ', tokenText(names.columns[column]));
  if (!isAllowed(state.record, state.kind, row, column)) return [link, ' not allowed by the mask'];
  const value = element('span', { class: 'hl-value' }, valueAt(matrix, row, column).toFixed(4));
  return [link, ' ', value, ` · rank ${rankInRow(matrix, row, column)} of ${allowedIn(state, matrix, row)} · ${rowEntropy(matrix, row)}`];
}

function allowedIn(state, matrix, row) {
  let count = 0;
  for (let column = 0; column < matrix.columns; column += 1) count += isAllowed(state.record, state.kind, row, column);
  return count;
}

function rowEntropy(matrix, row) {
  return `row entropy ${entropy(rowOf(matrix, row)).toFixed(2)} bit`;
}

function describeRow(matrix, names, row) {
  const column = strongest(rowOf(matrix, row));
  const value = valueAt(matrix, row, column).toFixed(4);
  return [
    element('strong', {}, tokenText(names.rows[row])),
    ' reads most from ',
    element('strong', {}, tokenText(names.columns[column])),
    ` ${value} · ${rowEntropy(matrix, row)}`,
  ];
}

function describeColumn(matrix, names, column) {
  const weights = Array.from({ length: matrix.rows }, (_, row) => valueAt(matrix, row, column));
  const row = strongest(weights);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return [
    element('strong', {}, tokenText(names.columns[column])),
    ' is read most by ',
    element('strong', {}, tokenText(names.rows[row])),
    ` ${weights[row].toFixed(4)} · ${total.toFixed(2)} in all rows together`,
  ];
}
