// The matrix as an HTML table, for screen readers and for reading every number. It is built when it is opened.

import { element, tokenText } from '../drawing/dom.js';
import { gridChanged, shownGrid } from '../state/grid.js';
import { hasValue } from '../domain/fold.js';
import { fixed } from '../drawing/numbers.js';
import { titleOfMatrix } from '../state/labels.js';
import { rowName } from '../drawing/names.js';
import { say } from '../locales/language.js';

// Returns { node, toggle }: `toggle` opens it in place of the matrix or closes it, and says whether it is open.
export function createTable(store) {
  const attributes = { tabindex: '0', role: 'region', 'aria-label': say('Table of values'), hidden: true };
  const node = element('div', { class: 'hl-scroll hl-table', ...attributes });
  const draw = (state) => node.replaceChildren(...(node.hidden || !state.record ? [] : [tableOf(state)]));
  store.subscribe((state, before) => {
    if (!node.hidden && state.record && gridChanged(state, before)) draw(state);
  });
  const toggle = () => {
    node.hidden = !node.hidden;
    draw(store.get());
    return !node.hidden;
  };
  return { node, toggle };
}

function tableOf(state) {
  const grid = shownGrid(state);
  const totals = totalsOf(grid);
  const heads = grid.columnGroups.map(({ token }) => element('th', { scope: 'col' }, tokenText(token)));
  const rows = grid.rowGroups.map((group, row) => {
    const cells = grid.columnGroups.map((_, column) => element('td', {}, cellText(grid, row * grid.columns + column)));
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, ...rowName(group)),
      ...cells,
      element('td', {}, fixed(totals.rows[row], 2)),
    );
  });
  const last = totals.columns.map((total) => element('td', {}, fixed(total, 2)));
  return element(
    'table',
    {},
    element('caption', {}, `${titleOfMatrix(state)} · ${grid.value.label()}`),
    element('thead', {}, element('tr', {}, element('td', {}, say('from ↓ to →')), ...heads, totalHead('col'))),
    element('tbody', {}, ...rows),
    element('tfoot', {}, element('tr', {}, totalHead('row'), ...last, element('td', {}))),
  );
}

const totalHead = (scope) => element('th', { scope }, say('total'));

function totalsOf({ rows, columns, values }) {
  const totals = { rows: Array(rows).fill(0), columns: Array(columns).fill(0) };
  values.forEach((value, cell) => {
    totals.rows[Math.floor(cell / columns)] += value;
    totals.columns[cell % columns] += value;
  });
  return totals;
}

const cellText = ({ value, values, status }, cell) => (hasValue(status[cell]) ? value.text(values[cell]) : '–');
