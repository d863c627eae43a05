// The atlas: every layer and head of the chosen kind as a thumbnail of its true matrix, on one colour scale.

import { element } from './dom.js';
import { KINDS, isAllowed, matrixOf, shrink } from './payload.js';
import { palette, stepOf } from './colour.js';
import { chooseKind, focusOf, sameSpot } from './state.js';

const LIMIT = 48; // cells along one side of a thumbnail
const NAMES = { encoder: 'Encoder', decoder: 'Decoder', cross: 'Cross' };
const MEANING = {
  encoder: 'Each source token gathers from all source tokens.',
  decoder: 'Each step of the translation looks back over the tokens written so far.',
  cross: 'Each step of the translation looks at the source tokens.',
};

export function kindName(kind) {
  return NAMES[kind];
}

export function createAtlas(store) {
  const choose = (kind) => store.change(chooseKind(store.get(), kind));
  const kinds = KINDS.map((kind) =>
    element('button', { type: 'button', class: 'hl-tab', 'data-kind': kind, onclick: () => choose(kind) }, NAMES[kind]),
  );
  const grid = element('div', { class: 'hl-atlas', role: 'grid', 'aria-label': 'Heads by layer' });
  const meaning = element('p', { class: 'hl-soft' });
  const scale = element('canvas', { width: 256, height: 1, class: 'hl-scale', 'aria-hidden': 'true' });
  const node = element(
    'section',
    { class: 'hl-panel hl-heads', 'aria-label': 'Heads' },
    element(
      'div',
      { class: 'hl-bar' },
      element('h2', {}, 'Heads'),
      element('div', { class: 'hl-tabs', role: 'group', 'aria-label': 'Kind of attention' }, ...kinds),
    ),
    grid,
    element('div', { class: 'hl-legend' }, legend(scale), meaning),
  );
  const parts = { store, kinds, grid, meaning, scale, cells: [] };
  store.subscribe((state, before) => renderAtlas(parts, state, before));
  return node;
}

function legend(scale) {
  return element(
    'div',
    { class: 'hl-legend-row hl-soft' },
    element('span', {}, 'weight 0'),
    scale,
    element('span', {}, '1'),
    element('span', { class: 'hl-hatch', 'aria-hidden': 'true' }),
    element('span', {}, 'masked'),
  );
}

function renderAtlas(parts, state, before) {
  const { store, kinds, grid, meaning, scale } = parts;
  if (state.theme !== before.theme || !parts.scaled) drawScale(parts, scale, state.theme);
  if (!state.record) return;
  if (['record', 'kind', 'theme'].some((name) => state[name] !== before[name])) {
    for (const button of kinds) button.setAttribute('aria-pressed', button.dataset.kind === state.kind);
    meaning.textContent = MEANING[state.kind];
    parts.cells = drawGrid(store, grid, state);
    select(parts, state);
  } else if (state.layer !== before.layer || state.head !== before.head) {
    select(parts, state);
  }
  if (!sameSpot(focusOf(state), focusOf(before)) || state.kind !== before.kind) band(grid, state);
}

function drawScale(parts, canvas, theme) {
  const { bytes } = palette(theme);
  paint(canvas, 256, 1, (cell) => bytes[cell]);
  parts.scaled = true;
}

function drawGrid(store, grid, state) {
  const { record, kind, theme } = state;
  const { layers, heads } = record.attention[kind];
  const places = [...Array(heads).keys(), null]; // the average stands after the last head
  grid.style.setProperty('--hl-heads', heads);
  const names = places.map((head) => element('span', { class: 'hl-soft' }, head === null ? 'avg' : String(head + 1)));
  const colours = palette(theme);
  const cells = [];
  const rows = [...Array(layers).keys()].map((layer) => {
    const thumbnails = places.map((head) => {
      const label = `layer ${layer + 1}, ${head === null ? 'average of its heads' : `head ${head + 1}`}`;
      const canvas = element('canvas', { 'aria-hidden': 'true' });
      thumbnail(canvas, record, kind, matrixOf(record, kind, layer, head), colours);
      const pick = () => store.change({ layer, head, lastHead: head ?? store.get().lastHead });
      const attributes = { type: 'button', role: 'gridcell', class: 'hl-thumbnail', 'aria-label': label, onclick: pick };
      const button = element('button', attributes, canvas);
      cells.push({ layer, head, button });
      return button;
    });
    return element('div', { role: 'row', class: 'hl-atlas-row' }, element('span', { class: 'hl-soft' }, String(layer + 1)), ...thumbnails);
  });
  const header = element('div', { class: 'hl-atlas-row hl-atlas-names', 'aria-hidden': 'true' }, element('span'), ...names);
  grid.replaceChildren(header, ...rows);
  return cells;
}

function thumbnail(canvas, record, kind, matrix, { bytes, theme }) {
  const small = shrink(matrix, LIMIT);
  const forbidden = theme === 'dark' ? [45, 43, 39] : [230, 226, 219]; // the colour of lines
  const allowed = (row, column) =>
    isAllowed(record, kind, Math.floor(((row + 1) * matrix.rows - 1) / small.rows), Math.ceil((column * matrix.columns) / small.columns));
  paint(canvas, small.columns, small.rows, (cell) => {
    const row = Math.floor(cell / small.columns);
    return allowed(row, cell % small.columns) ? bytes[stepOf(small.values[cell])] : forbidden;
  });
}

function paint(canvas, width, height, colourOf) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
  for (let cell = 0; cell < width * height; cell += 1) {
    const [red, green, blue] = colourOf(cell);
    image.data.set([red, green, blue, 255], 4 * cell);
  }
  context.putImageData(image, 0, 0);
}

function select({ cells }, state) {
  for (const { layer, head, button } of cells) {
    const chosen = layer === state.layer && head === state.head;
    button.setAttribute('aria-selected', chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
}

// One band over all thumbnails at once: where the row and the column in focus are, in shares of a side.
function band(grid, state) {
  const focus = focusOf(state);
  const { rows, columns } = state.record.attention[state.kind];
  const set = (name, index, size) => {
    const present = index !== null && index !== undefined;
    grid.classList.toggle(`hl-has-${name}`, present);
    grid.style.setProperty(`--hl-${name}-start`, present ? `${(100 * index) / size}%` : '0');
    grid.style.setProperty(`--hl-${name}-size`, present ? `${100 / size}%` : '0');
  };
  set('row', focus?.row, rows);
  set('column', focus?.column, columns);
}
