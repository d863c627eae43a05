// A small matrix of signed values with names on both sides; its numbers are read one at a time.

import { createButton, element } from './dom.js';
import { forPointer, signed } from './numbers.js';
import { largest } from '../domain/math.js';
import { addGridFocus, tint } from './widgets.js';
import { say } from '../locales/language.js';

const hint = () => forPointer(say('Point at a cell to read its value.'), say('Tap a cell to read its value.'));

// `values` is [row][column]. Returns its elements: the matrix and the line that reads a cell.
/** @type {(matrix: { label: string; rows: string[]; columns: string[]; values: number[][] }) => Element[]} */
export function smallMatrix({ label, rows, columns, values }) {
  const most = largest(values.flat());
  const readout = element('p', { class: 'hl-soft hl-number hl-map-readout' }, hint());
  const cells = values.map((line, row) => line.map((value, column) => cellOf(rows[row], columns[column], value)));
  for (const cell of cells.flat()) tint(cell, Number(cell.dataset.value), most);
  const read = ({ target }) => {
    const cell = target.closest?.('.hl-map-cell');
    if (cell) readout.textContent = cell.getAttribute('aria-label');
  };
  addGridFocus(cells);
  const names = columns.map((name) => element('th', { scope: 'col' }, element('span', {}, name)));
  const lines = cells.map((line, row) =>
    element('tr', {}, element('th', { scope: 'row' }, rows[row]), ...line.map((cell) => element('td', {}, cell))),
  );
  const table = element(
    'table',
    { class: 'hl-small-matrix', 'aria-label': label, onpointerover: read, onfocusin: read, onclick: read },
    element('thead', {}, element('tr', {}, element('td'), ...names)),
    element('tbody', {}, ...lines),
  );
  return [element('div', { class: 'hl-scroll' }, table), readout];
}

function cellOf(row, column, value) {
  const attributes = { 'aria-label': `${row} × ${column}: ${signed(value)}`, 'data-value': value };
  return createButton('hl-map-cell', null, attributes);
}
