// The matrix of the chosen head: tokens on both axes, values in the cells, the exact value written beneath.

import { element, sizeCanvas, tokenText } from './dom.js';
import { axes, isAllowed, matrixOf } from './payload.js';
import { palette, stepOf } from './colour.js';
import { focusOf, isCell, sameSpot, selectionChanged, toggleAverage, togglePin } from './state.js';
import { kindName } from './atlas.js';
import { describe, plain } from './readout.js';

const CELL = { width: [16, 44], height: [18, 30] };
const ROOM = 344; // the height that rows share before they get their least height
const WRITTEN = { from: 0.05, width: 28, height: 20 }; // a value is written into a cell of this size

export function createMatrix(store) {
  const title = element('h2');
  const rowHint = element('span', { class: 'hl-soft hl-row-hint' });
  const average = element('button', { type: 'button', class: 'hl-tab', onclick: () => store.change(toggleAverage(store.get())) }, 'Average');
  const canvas = element('canvas', { 'aria-hidden': 'true' });
  const bands = ['row', 'column', 'cell'].map((name) => element('div', { class: `hl-band hl-band-${name}`, hidden: true }));
  const active = element('div', { role: 'gridcell', id: 'hl-active-cell', class: 'hl-unseen' });
  const field = element('div', { class: 'hl-field' }, canvas, ...bands);
  const rowLabels = element('div', { class: 'hl-row-labels' });
  const columnLabels = element('div', { class: 'hl-column-labels' });
  const corner = element('div', { class: 'hl-corner hl-soft' }, element('span', {}, 'from ↓'), element('span', {}, 'to →'));
  const scroll = element('div', { class: 'hl-scroll hl-matrix', tabindex: '0', role: 'grid', 'aria-activedescendant': 'hl-active-cell' },
    corner, columnLabels, rowLabels, field, element('div', { role: 'row', class: 'hl-unseen' }, active));
  const readout = element('p', { class: 'hl-readout' });
  const node = element('section', { class: 'hl-panel hl-centre', 'aria-label': 'Matrix' },
    element('div', { class: 'hl-bar' }, title, rowHint, element('div', { class: 'hl-tabs' }, average)), scroll, readout);
  const parts = { store, title, rowHint, average, canvas, bands, active, field, rowLabels, columnLabels, scroll, readout };
  listenMatrix(parts);
  new ResizeObserver(() => layOut(parts, store.get())).observe(node);
  store.subscribe((state, before) => renderMatrix(parts, state, before));
  return node;
}

function renderMatrix(parts, state, before) {
  if (!state.record) return;
  if (selectionChanged(state, before)) {
    parts.matrix = matrixOf(state.record, state.kind, state.layer, state.head);
    writeTitle(parts, state);
    if (state.record !== before.record || state.kind !== before.kind) drawLabels(parts, state);
    if (!layOut(parts, state)) drawCells(parts, state);
  }
  if (selectionChanged(state, before) || !sameSpot(focusOf(state), focusOf(before)) || state.pin !== before.pin) {
    lightMatrix(parts, state);
  }
  if (state.pin && state.pin !== before.pin && !state.hover) bringIntoView(parts, state.pin);
}

function writeTitle({ title, rowHint, average, scroll }, state) {
  const head = state.head === null ? 'average of its heads' : `head ${state.head + 1}`;
  title.textContent = `${kindName(state.kind)} · layer ${state.layer + 1} · ${head}`;
  rowHint.textContent = state.kind === 'encoder' ? '' : 'row: reads → predicts';
  average.setAttribute('aria-pressed', state.head === null);
  const { rows, columns } = state.record.attention[state.kind];
  scroll.setAttribute('aria-label', `${title.textContent}, ${rows} rows, ${columns} columns`);
  scroll.setAttribute('aria-rowcount', rows);
  scroll.setAttribute('aria-colcount', columns);
}

function drawLabels({ rowLabels, columnLabels, scroll }, state) {
  const { rows, reads, columns } = axes(state.record, state.kind);
  rowLabels.replaceChildren(
    ...rows.map((token, row) => {
      const reading = reads && [tokenText(reads[row], 'hl-reads'), element('span', { class: 'hl-reads' }, '→')];
      return element('div', { class: 'hl-row-label', 'data-row': row }, ...(reading ?? []), tokenText(token, 'hl-name'));
    }),
  );
  columnLabels.replaceChildren(
    ...columns.map((token, column) => element('div', { class: 'hl-column-label', 'data-column': column }, tokenText(token, 'hl-name'))),
  );
  scroll.scrollTo(0, 0);
}

// Fit the cells to the panel; returns whether the size changed, and with it the drawing.
function layOut(parts, state) {
  if (!state.record) return false;
  const { scroll, rowLabels, columnLabels } = parts;
  const { rows, columns } = state.record.attention[state.kind];
  const longest = Math.max(...[...columnLabels.children].map((label) => label.firstChild.offsetWidth));
  const steep = (scroll.clientWidth - rowLabels.offsetWidth) / columns < 26;
  const slope = ((steep ? 62 : 38) * Math.PI) / 180;
  const overhang = Math.ceil(longest * Math.cos(slope));
  const room = scroll.clientWidth - rowLabels.offsetWidth - overhang;
  const size = {
    width: bounded(Math.floor(room / columns), CELL.width),
    height: bounded(Math.floor(ROOM / rows), CELL.height),
    top: Math.ceil(longest * Math.sin(slope)) + 16,
    slope: steep ? 62 : 38,
    overhang,
    ratio: window.devicePixelRatio,
  };
  const key = JSON.stringify([size, rows, columns]);
  if (key === parts.key) return false;
  parts.key = key;
  parts.size = size;
  for (const [name, value] of [['cell-width', size.width], ['cell-height', size.height], ['label-top', size.top], ['overhang', overhang]]) {
    scroll.style.setProperty(`--hl-${name}`, `${value}px`);
  }
  scroll.style.setProperty('--hl-slope', `${-size.slope}deg`);
  drawCells(parts, state);
  lightMatrix(parts, state);
  return true;
}

function bounded(value, [least, most]) {
  return Math.min(most, Math.max(least, value));
}

function drawCells({ canvas, matrix, size }, state) {
  const { rows, columns, values } = matrix;
  const { css, ink, theme } = palette(state.theme);
  const context = sizeCanvas(canvas, columns * size.width, rows * size.height);
  const hatch = hatching(context, theme);
  const written = size.width >= WRITTEN.width && size.height >= WRITTEN.height;
  context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (let row = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const weight = values[row * columns + column];
      const [left, top] = [column * size.width, row * size.height];
      const allowed = isAllowed(state.record, state.kind, row, column);
      context.fillStyle = allowed ? css[stepOf(weight)] : hatch;
      context.fillRect(left, top, size.width - 1, size.height - 1);
      if (!written || !allowed || weight < WRITTEN.from) continue;
      context.fillStyle = ink[stepOf(weight)];
      context.fillText(shortValue(weight), left + (size.width - 1) / 2, top + size.height / 2);
    }
  }
}

function shortValue(weight) {
  const text = weight.toFixed(2);
  return text.startsWith('0') ? text.slice(1) : text;
}

// Thin diagonal lines: a cell that the mask forbids must not look like a weight of zero.
function hatching(context, theme) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const pen = tile.getContext('2d');
  pen.strokeStyle = theme === 'dark' ? '#3d3a34' : '#d5d0c6';
  pen.lineWidth = 1;
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift - 1, 7);
    pen.lineTo(shift + 7, -1);
  }
  pen.stroke();
  return context.createPattern(tile, 'repeat');
}

function lightMatrix(parts, state) {
  const { bands, rowLabels, columnLabels, matrix, size, readout, active } = parts;
  const focus = focusOf(state);
  const [rowBand, columnBand, cellBand] = bands;
  place(rowBand, focus?.row ?? null, (row) => [0, row * size.height, matrix.columns * size.width, size.height]);
  place(columnBand, focus?.column ?? null, (column) => [column * size.width, 0, size.width, matrix.rows * size.height]);
  place(cellBand, isCell(focus) ? focus : null, ({ row, column }) => [column * size.width, row * size.height, size.width, size.height]);
  cellBand.classList.toggle('hl-pinned', sameSpot(focus, state.pin));
  relight(parts, 'litRow', rowLabels, focus?.row);
  relight(parts, 'litColumn', columnLabels, focus?.column);
  const sentence = describe(state, matrix);
  readout.replaceChildren(...sentence);
  active.textContent = plain(sentence);
  active.setAttribute('aria-rowindex', (focus?.row ?? 0) + 1);
  active.setAttribute('aria-colindex', (focus?.column ?? 0) + 1);
}

function place(band, spot, boxOf) {
  band.hidden = spot === null;
  if (spot === null) return;
  const [left, top, width, height] = boxOf(spot);
  band.style.transform = `translate(${left}px, ${top}px)`;
  band.style.width = `${width - 1}px`;
  band.style.height = `${height - 1}px`;
}

function relight(parts, name, labels, index) {
  parts[name]?.classList.remove('hl-lit');
  parts[name] = labels.children[index ?? -1] ?? null;
  parts[name]?.classList.add('hl-lit');
}

function bringIntoView({ scroll, size, rowLabels, columnLabels }, { row, column }) {
  const shift = (start, length, before, view, at) => {
    if (start < at) return start;
    return start + length + before > at + view ? start + length + before - view : at;
  };
  const { clientWidth, clientHeight, scrollLeft, scrollTop } = scroll;
  const left = column === null ? scrollLeft : shift(column * size.width, size.width, rowLabels.offsetWidth, clientWidth, scrollLeft);
  const top = row === null ? scrollTop : shift(row * size.height, size.height, columnLabels.offsetHeight, clientHeight, scrollTop);
  if (left !== scrollLeft || top !== scrollTop) scroll.scrollTo(left, top);
}

function listenMatrix(parts) {
  const { store, field, rowLabels, columnLabels, scroll } = parts;
  const cellAt = (event) => {
    const box = field.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / parts.size.height);
    const column = Math.floor((event.clientX - box.left) / parts.size.width);
    const { rows, columns } = parts.matrix;
    return row >= 0 && column >= 0 && row < rows && column < columns ? { row, column } : null;
  };
  const labelAt = (event) => {
    const label = event.target.closest('[data-row], [data-column]');
    const index = (name) => (label?.dataset[name] === undefined ? null : Number(label.dataset[name]));
    return label && { row: index('row'), column: index('column') };
  };
  for (const [area, spotAt] of [[field, cellAt], [rowLabels, labelAt], [columnLabels, labelAt]]) {
    area.addEventListener('pointermove', (event) => {
      if (event.pointerType === 'touch' || !parts.matrix) return;
      const spot = spotAt(event);
      if (!sameSpot(spot, store.get().hover)) store.change({ hover: spot });
    });
    area.addEventListener('click', (event) => {
      const spot = parts.matrix && spotAt(event);
      if (spot) store.change(togglePin(store.get(), spot));
    });
  }
  scroll.addEventListener('pointerleave', () => store.get().hover && store.change({ hover: null }));
}
