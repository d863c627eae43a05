// The matrix of the chosen heads: tokens on both axes, values in the cells, and the exact value below.

import { element, tokenText } from '../drawing/dom.js';
import { togglePin } from '../state/actions.js';
import { differs, focusOf, isCell, sameSpot } from '../state/queries.js';
import { gridChanged, gridFocus, shownGrid, spotAt } from '../state/grid.js';
import { createScale, drawCells, fit, isSmall, writeScale } from './cells.js';
import { createMagnifier, drawMagnifier } from './magnifier.js';
import { fixed } from '../drawing/numbers.js';
import { titleOfMatrix } from '../state/labels.js';
import { rowLabel } from '../drawing/names.js';
import { describe, describeView, plain } from './readout.js';
import { say } from '../locales/language.js';

const BAR = 8; // space for a scroll bar on each side

export function createMatrix(store, heading, table) {
  const isB = store.get().side === 'B';
  const cells = createCells(isB);
  const readout = element('p', { class: 'hl-readout' });
  const facts = element('p', { class: 'hl-facts hl-soft' });
  const scale = createScale();
  const texts = element('div', { tabindex: 0 }, readout, facts); // long ones scroll
  const footer = element('div', { class: 'hl-matrix-footer' }, texts, scale.node);
  const magnifier = createMagnifier();
  const node = element(
    'section',
    { class: 'hl-panel hl-centre', 'aria-label': isB ? say('Matrix of B') : say('Matrix') },
    ...heading,
    // The readout stays visible over the matrix, never over the heading.
    element('div', { class: 'hl-matrix-part' }, cells.scroll, footer, magnifier.node),
    table.node,
  );
  const parts = { store, ...cells, magnifier, readout, facts, footer, scale };
  listenMatrix(parts);
  new ResizeObserver(() => layOut(parts, store.get())).observe(node);
  store.subscribe((state, before) => renderMatrix(parts, state, before));
  return node;
}

function createCells(isB) {
  const canvas = element('canvas', { 'aria-hidden': 'true' });
  const bands = ['row', 'column', 'cell'].map((name) =>
    element('div', { class: `hl-band hl-band-${name}`, hidden: true }),
  );
  const id = isB ? 'hl-active-cell-of-b' : 'hl-active-cell';
  const active = element('div', { role: 'gridcell', id, class: 'hl-unseen' });
  const hidden = element('div', { class: 'hl-hidden-mass hl-soft hl-number' });
  const field = element('div', { class: 'hl-field' }, canvas, ...bands, hidden);
  const rowLabels = element('div', { class: 'hl-row-labels' });
  const columnLabels = element('div', { class: 'hl-column-labels' });
  const hint = element('span', { class: 'hl-row-hint' });
  const extent = element('span', { class: 'hl-extent' });
  const corner = element('div', { class: 'hl-corner hl-soft' }, extent, hint);
  const unseenRow = element('div', { role: 'row', class: 'hl-unseen' }, active);
  const attributes = { class: 'hl-scroll hl-matrix', tabindex: '0', role: 'grid', 'aria-activedescendant': id };
  const scroll = element('div', attributes, corner, columnLabels, rowLabels, field, unseenRow);
  return { canvas, bands, active, field, rowLabels, columnLabels, hidden, hint, extent, scroll };
}

function renderMatrix(parts, state, before) {
  if (!state.record) return;
  const redrawn = gridChanged(state, before);
  if (redrawn) {
    parts.grid = shownGrid(state);
    describeGrid(parts, state);
    drawLabels(parts, state);
    writeHidden(parts);
  }
  if (redrawn || differs(state, before, ['theme', 'scale', 'fit', 'isPrinting'])) {
    if (!layOut(parts, state)) drawCells(parts, state);
    writeScale(parts.scale, state);
  }
  if (redrawn || differs(state, before, ['removed', 'pin'])) parts.facts.textContent = describeView(state);
  if (redrawn || state.hover !== before.hover || state.pin !== before.pin) lightMatrix(parts, state);
  if (state.pin && state.pin !== before.pin && !state.hover) bringIntoView(parts, state);
}

function describeGrid({ scroll, hint, grid }, state) {
  const { rows, columns } = grid;
  hint.textContent = state.kind === 'encoder' ? say('from ↓  to →') : say('reads → writes');
  scroll.setAttribute(
    'aria-label',
    say('{title}, {rows} rows, {columns} columns', { title: titleOfMatrix(state), rows, columns }),
  );
  scroll.setAttribute('aria-rowcount', rows);
  scroll.setAttribute('aria-colcount', columns);
}

// The names stay while the next grid has the same ones.
function drawLabels(parts, state) {
  const { grid, rowLabels, columnLabels, scroll } = parts;
  const names = JSON.stringify([grid.rowGroups, grid.columnGroups]);
  if (names === parts.names) return;
  parts.names = names;
  rowLabels.replaceChildren(
    ...grid.rowGroups.map((group, row) =>
      element('div', { class: 'hl-row-label', 'data-row': row }, ...rowLabel(group)),
    ),
  );
  columnLabels.replaceChildren(
    ...grid.columnGroups.map(({ token }, column) =>
      element('div', { class: 'hl-column-label', 'data-column': column }, tokenText(token, 'hl-name')),
    ),
  );
  if (!state.pin) scroll.scrollTo(0, 0);
}

// The share of each row that is on hidden tokens, to the right of the row; of a running memory, the share of nothing.
function writeHidden({ hidden, columnLabels, grid }) {
  const nothing = grid.isMax ? null : grid.nothing;
  const masses = nothing ?? grid.hidden ?? [];
  hidden.replaceChildren(...masses.map((mass) => element('div', { class: 'hl-mass' }, fixed(mass, 2))));
  hidden.hidden = masses.length === 0;
  columnLabels.querySelector('.hl-hidden-name')?.remove();
  if (masses.length > 0)
    columnLabels.append(
      element('span', { class: 'hl-hidden-name hl-soft' }, nothing ? say('(nothing)') : say('hidden')),
    );
}

// Fits the cells to the panel and draws them if their size changed; returns whether it did.
function layOut(parts, state) {
  if (!state.record || !parts.grid) return false;
  const { scroll, rowLabels, columnLabels, hidden, grid } = parts;
  const wasSmall = scroll.classList.contains('hl-small');
  scroll.classList.remove('hl-small'); // its names are smaller than the names of the next cells may be
  const names = [...columnLabels.querySelectorAll('.hl-name')];
  const longest = Math.max(0, ...names.map((label) => label.offsetWidth));
  const room = { width: scroll.offsetWidth - rowLabels.offsetWidth - BAR, height: scroll.offsetHeight - BAR };
  const size = fit(grid, longest, room, hidden.offsetWidth, state.fit);
  scroll.classList.toggle('hl-small', wasSmall);
  const key = JSON.stringify([size, grid.rows, grid.columns]);
  if (key === parts.key) return false;
  Object.assign(parts, { key, size });
  const lengths = {
    'cell-width': size.width,
    'cell-height': size.height,
    'label-top': size.top,
    overhang: size.overhang,
  };
  for (const [property, value] of Object.entries(lengths)) scroll.style.setProperty(`--hl-${property}`, `${value}px`);
  scroll.style.setProperty('--hl-slope', `${-size.slope}deg`);
  scroll.classList.toggle('hl-small', isSmall(size));
  thin(rowLabels, size.stride.rows);
  thin(columnLabels, size.stride.columns);
  writeExtent(parts);
  drawCells(parts, state);
  lightMatrix(parts, state);
  return true;
}

// Where cells are smaller than a name, only every so many names are shown, and the name in focus.
function thin(labels, stride) {
  labels.classList.toggle('hl-thinned', stride > 1);
  [...labels.children].forEach((label, index) => label.classList.toggle('hl-skipped', index % stride !== 0));
}

// Which rows are in sight, while not all of them are.
function writeExtent({ extent, scroll, columnLabels, size, grid }) {
  const room = scroll.clientHeight - columnLabels.offsetHeight;
  const first = Math.ceil(scroll.scrollTop / size.height);
  const last = Math.min(grid.rows, Math.floor((scroll.scrollTop + room) / size.height));
  extent.textContent =
    grid.rows * size.height > room + 1
      ? say('rows {first}–{last} of {count}', { first: first + 1, last, count: grid.rows })
      : '';
}

function lightMatrix(parts, state) {
  const { bands, rowLabels, columnLabels, grid, size, readout, active } = parts;
  const focus = gridFocus(state);
  const { row, column } = focus;
  const [rowBand, columnBand, cellBand] = bands;
  place(rowBand, row !== null && [0, row * size.height, grid.columns * size.width, size.height]);
  place(columnBand, column !== null && [column * size.width, 0, size.width, grid.rows * size.height]);
  place(
    cellBand,
    column !== null &&
      row !== null &&
      isCell(focus) && [column * size.width, row * size.height, size.width, size.height],
  );
  cellBand.classList.toggle('hl-pinned', sameSpot(focusOf(state), state.pin));
  relight(parts, 'litRow', rowLabels, row);
  relight(parts, 'litColumn', columnLabels, column);
  drawMagnifier(parts.magnifier, parts, state, focus);
  const sentence = describe(state);
  readout.replaceChildren(...sentence);
  active.textContent = focusOf(state) ? plain(sentence) : '';
  active.setAttribute('aria-rowindex', (row ?? 0) + 1);
  active.setAttribute('aria-colindex', (column ?? 0) + 1);
}

function place(band, box) {
  band.hidden = box === false;
  if (!box) return;
  const [left, top, width, height] = box;
  Object.assign(band.style, {
    transform: `translate(${left}px, ${top}px)`,
    width: `${width - 1}px`,
    height: `${height - 1}px`,
  });
}

function relight(parts, key, labels, index) {
  parts[key]?.classList.remove('hl-lit');
  parts[key] = labels.children[index ?? -1];
  parts[key]?.classList.add('hl-lit');
}

function bringIntoView({ scroll, rowLabels, columnLabels, size, grid }, state) {
  if (grid.rows * grid.columns === 0) return;
  const { row, column } = gridFocus(state, state.pin);
  const [left, top] = [(column ?? 0) * size.width, (row ?? 0) * size.height];
  const frame = {
    width: scroll.clientWidth - rowLabels.offsetWidth,
    height: scroll.clientHeight - columnLabels.offsetHeight,
  };
  const into = (at, start, length, room) => Math.min(start, Math.max(at, start + length - room));
  scroll.scrollTo({
    left: column === null ? scroll.scrollLeft : into(scroll.scrollLeft, left, size.width, frame.width),
    top: row === null ? scroll.scrollTop : into(scroll.scrollTop, top, size.height, frame.height),
  });
}

function listenMatrix(parts) {
  const { store, field, rowLabels, columnLabels, scroll } = parts;
  const cellAt = (event) => {
    const box = field.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / parts.size.height);
    const column = Math.floor((event.clientX - box.left) / parts.size.width);
    const { rows, columns } = parts.grid;
    return row >= 0 && column >= 0 && row < rows && column < columns ? spotAt(parts.grid, row, column) : null;
  };
  const labelAt = (event) => {
    const label = event.target.closest('[data-row], [data-column]');
    const index = (side) => (label?.dataset[side] === undefined ? null : Number(label.dataset[side]));
    return label && spotAt(parts.grid, index('row'), index('column'));
  };
  for (const [area, spotOf] of [
    [field, cellAt],
    [rowLabels, labelAt],
    [columnLabels, labelAt],
  ]) {
    area.addEventListener('pointermove', (event) => {
      if (event.pointerType === 'touch' || !parts.grid) return;
      const spot = spotOf(event);
      if (!sameSpot(spot, store.get().hover)) store.change({ hover: spot });
    });
    area.addEventListener('click', (event) => {
      const spot = parts.grid && spotOf(event);
      if (!spot) return;
      store.change(togglePin(store.get(), spot));
      if (event.pointerType === 'touch') parts.footer.scrollIntoView({ block: 'nearest' });
    });
  }
  scroll.addEventListener('scroll', () => parts.grid && writeExtent(parts));
  scroll.addEventListener('pointerleave', () => store.get().hover && store.change({ hover: null }));
}
