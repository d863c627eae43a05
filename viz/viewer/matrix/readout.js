// The sentence below the matrix: the exact value of the cell, or the largest value of a row or a column.

import { element, tokenText } from '../core/dom.js';
import { entropy, rankOf, strongest, sum } from '../core/math.js';
import { focusOf, headsOfKind } from '../core/store.js';
import { awaitsSecondHead, referenceOf } from '../core/instruments/comparison.js';
import { FORBIDDEN, UNMATCHED, gridFocus, shownGrid } from '../core/grid.js';
import { fixed, forPointer, listOf, valueText } from '../core/labels.js';

// Returns the pieces of the sentence: elements and strings.
export function describe(state) {
  const grid = shownGrid(state);
  const focus = gridFocus(state);
  const { row, column } = focus;
  if (!focusOf(state)) return [soft(hintOf(state, grid))];
  if (row === null && column === null) return [soft('This token is hidden.')];
  if (focus.token && row !== null) return describeRow(grid, row);
  if (row !== null && column !== null) return describeCell(state, grid, row, column);
  return row !== null ? describeRow(grid, row) : describeColumn(grid, column);
}

function hintOf(state, { mode }) {
  if (awaitsSecondHead(state)) return 'Now choose the second head: one of the small squares, or an arrow key.';
  return forPointer(
    `Point at a cell to read its ${mode}; click to pin it.`,
    `Tap a cell to read its ${mode} and to pin it.`,
  );
}

// Facts about the whole matrix: its heads, what it is compared with, and how much is hidden.
export function describeView(state) {
  const { hidden, mode } = shownGrid(state);
  const facts = [];
  if (awaitsSecondHead(state)) facts.push(`comparing with ${state.reference.label}`);
  if (mode === 'difference') facts.push(`minus ${referenceOf(state).label}`);
  const { length } = state.selection;
  if (mode !== 'rollout' && length > 0 && length < headsOfKind(state).length)
    facts.push(`layer.head ${listOf(state.selection)}`);
  if (hidden?.length > 0) {
    facts.push(
      `hidden ${fixed(sum(hidden) / hidden.length)} of a row on average${mode === 'norm' ? '' : ', the rest scaled up'}`,
    );
  }
  return facts.join(' · ');
}

export function plain(pieces) {
  return pieces.map((piece) => piece.textContent ?? piece).join('');
}

function soft(text) {
  return element('span', { class: 'hl-soft' }, text);
}

function strong(...groups) {
  return element('strong', {}, ...groups.flatMap((group, place) => [place > 0 ? ' ← ' : null, tokenText(group.token)]));
}

function describeCell(state, grid, row, column) {
  const link = strong(grid.rowGroups[row], grid.columnGroups[column]);
  const status = grid.status[row * grid.columns + column];
  if (status === FORBIDDEN) return [link, ' not allowed by the mask'];
  if (status === UNMATCHED) return [link, ` has no counterpart in ${referenceOf(state).label}`];
  const values = rowOf(grid, row);
  const value = element('span', { class: 'hl-value' }, valueText(grid.mode, values[column]));
  const unit = grid.mode === 'weight' ? ' ' : ` ${grid.mode} `;
  return [link, unit, value, ` · rank ${rankOf(values, column)} of ${allowedIn(grid, row)}`, ...rowFacts(grid, row)];
}

function rowOf(grid, row) {
  return grid.values.subarray(row * grid.columns, (row + 1) * grid.columns);
}

function allowedIn(grid, row) {
  return grid.status.subarray(row * grid.columns, (row + 1) * grid.columns).filter((status) => status < FORBIDDEN)
    .length;
}

// Only rows of weights add up to 1 and have an entropy. The hidden share is always written.
function rowFacts(grid, row) {
  const facts = [];
  if ((grid.mode === 'weight' || grid.mode === 'rollout') && !grid.isMax)
    facts.push(` · row entropy ${entropy(rowOf(grid, row)).toFixed(2)} bit`);
  if (grid.hidden) facts.push(` · hidden ${fixed(grid.hidden[row])}`);
  return facts;
}

function describeRow(grid, row) {
  if (grid.columns === 0) return [soft('All tokens of this row are hidden.')];
  const values = rowOf(grid, row);
  const column = strongest(values.map(Math.abs));
  const verb = grid.mode === 'difference' ? ' differs most at ' : ' reads most from ';
  const value = ` ${valueText(grid.mode, values[column])}`;
  const sumsToOne = grid.mode === 'weight' || grid.mode === 'rollout';
  const total = sumsToOne && !grid.isMax ? [] : [` · ${fixed(sum(values), 2)} in the whole row`];
  return [
    strong(grid.rowGroups[row]),
    verb,
    strong(grid.columnGroups[column]),
    value,
    ...total,
    ...rowFacts(grid, row),
  ];
}

function describeColumn(grid, column) {
  if (grid.rows === 0) return [soft('All tokens of this column are hidden.')];
  const values = Float64Array.from({ length: grid.rows }, (_, row) => grid.values[row * grid.columns + column]);
  const row = strongest(values.map(Math.abs));
  const verb = grid.mode === 'difference' ? ' differs most in ' : ' is read most by ';
  const value = ` ${valueText(grid.mode, values[row])} · ${fixed(sum(values), 2)} in all rows together`;
  return [strong(grid.columnGroups[column]), verb, strong(grid.rowGroups[row]), value];
}
