// The overview: a thumbnail of the matrix of every layer and head of the chosen kind, all on one colour scale.

import { createButton, element } from '../drawing/dom.js';
import { KINDS, matrixOf } from '../domain/payload.js';
import { palette, stepOf } from '../drawing/colormap.js';
import { sideOf } from '../state/comparison.js';
import { chooseHead, chooseKind, extendSelection } from '../state/actions.js';
import { chosenHeads, headsOfKind, isMemory, sameHead } from '../domain/heads.js';
import { differs, focusOf, isMuted, sameSpot } from '../state/queries.js';
import { fixed } from '../drawing/numbers.js';
import { headName, kindName } from '../state/labels.js';
import { canSort, MARKED, darknessOf, darknessOfFactor, importanceOf, measureOf } from '../state/measures.js';
import { sortedHeads, labelOfMeasure, sortsOf } from '../state/measures.js';
import { isTaught, roleDefinition, taughtName } from '../domain/roles.js';
import { roleSymbol, tabs } from '../drawing/widgets.js';
import { createPager, drawPager, linesOf, pageOf, pagesOf, turnTo } from './pages.js';
import { drawScale, drawThumbnail } from './thumbnails.js';
import { say, sayParts, tell } from '../locales/language.js';

const MEANING = {
  encoder: () => say('Each source token reads all source tokens.'),
  decoder: () => say('Each step of the translation reads the tokens written so far.'),
  cross: () => say('Each step of the translation reads the source tokens.'),
};

const MEMORY = () =>
  [
    say('This decoder has no self-attention; it keeps a running memory.'),
    say('Where others have heads, it has memories, from short to long: groups of numbers that forget alike.'),
    say('Firefox rounds further than this page, so it words some sentences differently.'),
  ].join(' ');

export function createOverview(store) {
  const choose = (kind) => store.change(chooseKind(store.get(), kind));
  const kinds = KINDS.map((kind) =>
    createButton('hl-tab', () => choose(kind), { 'data-kind': kind, title: MEANING[kind]() }, kindName(kind)),
  );
  const sort = createSort(store);
  const grid = element('div', { class: 'hl-overview', role: 'grid', 'aria-label': say('Heads by layer') });
  const pager = createPager();
  const { scale, masked, roles, ...legend } = createLegend();
  const memory = element('p', { class: 'hl-memory hl-soft', hidden: true }, MEMORY());
  const tint = element('p', { class: 'hl-mark-legend hl-soft' });
  const title = element('h2', {});
  const shown = { title, kinds, sort, pager, grid, masked, scale, roles, memory, tint };
  const parts = { store, ...shown, cells: [], canvases: new Map() };
  store.subscribe((state, before) => renderOverview(parts, state, before));
  listenOverview(parts);
  return element(
    'section',
    { class: 'hl-panel hl-heads', 'aria-label': store.get().side === 'B' ? say('Heads of B') : say('Heads') },
    element('div', { class: 'hl-bar' }, title, tabs(say('Kind of attention'), ...kinds), sort),
    pager,
    grid,
    memory,
    tint,
    legend.node,
  );
}

function createSort(store) {
  const sort = element('select', { class: 'hl-select', 'aria-label': say('Order of the heads') });
  sort.addEventListener('change', () => {
    const by = sort.value === '' ? null : sort.value;
    store.change({ sort: by, ...(by && turnTo({ ...store.get(), sort: by }, 0)) });
  });
  return sort;
}

// What colours, hatches and glyphs mean.
function createLegend() {
  const scale = element('canvas', { class: 'hl-scale', 'aria-hidden': 'true' });
  const roles = element('ul', { class: 'hl-roles', 'aria-label': say('Roles of heads') });
  const hatch = element('span', { class: 'hl-hatch', 'aria-hidden': 'true' });
  const masked = element('span', { class: 'hl-legend-row' }, hatch, say('masked'));
  const [none, all] = [element('span', {}, say('weight 0')), element('span', {}, '1')];
  const row = element('div', { class: 'hl-legend-row' }, none, scale, all, masked);
  const signs = element('summary', {}, say('Signs'));
  return { node: element('details', { class: 'hl-legend hl-soft' }, signs, row, roles), scale, masked, roles };
}

function renderOverview(parts, state, before) {
  if (state.theme !== before.theme || !parts.scaled) {
    drawScale(parts.scale, state.theme, 'lamp');
    parts.scaled = true;
  }
  if (!state.record) return;
  if (differs(state, before, ['record', 'sideB', 'beside']))
    parts.title.textContent = sideOf(state) && `${say('Heads')} ${sideOf(state)}`;
  if (state.record !== before.record) drawSorts(parts.sort, state.record);
  const isWeighed = importanceOf(state) !== importanceOf(before);
  const isOther =
    differs(state, before, ['record', 'kind', 'theme', 'sort']) || (state.sort === 'importance' && isWeighed);
  const isMoved = differs(state, before, ['layer', 'head', 'selection', 'browsed']);
  const redrawn = (isOther || isMoved) && turnPage(parts, state, isOther);
  const holdsFocus = parts.grid.contains(document.activeElement);
  if (redrawn) drawHeads(parts, state);
  if (redrawn || isWeighed) {
    for (const option of parts.sort.options) option.disabled = option.value !== '' && !canSort(state, option.value);
    tintHeads(parts, state);
  }
  if (redrawn || isMoved) markChosen(parts, state, holdsFocus);
  if (redrawn || state.mutes !== before.mutes) markMuted(parts, state);
  if (redrawn || !sameSpot(focusOf(state), focusOf(before))) band(parts.grid, state);
}

function drawSorts(sort, record) {
  sort.replaceChildren(
    element('option', { value: '' }, say('by layer ▾')),
    ...sortsOf(record).map(({ name, label }) =>
      element('option', { value: name }, say('by {measure} ▾', { measure: label })),
    ),
  );
}

// Chooses the page; says whether its heads are to be drawn. The pager marks the pages of the chosen heads.
function turnPage(parts, state, isOther) {
  const pages = isOther ? pagesOf(state) : parts.pages;
  const page = pageOf(state, pages);
  const redrawn = isOther || page !== parts.page;
  Object.assign(parts, { pages, page });
  if (pages.length > 1 || !parts.pager.hidden) drawPager(parts.pager, parts.store, pages, page);
  return redrawn;
}

function drawHeads(parts, state) {
  const { kinds, sort, memory, masked, roles, grid } = parts;
  for (const button of kinds) button.setAttribute('aria-pressed', button.dataset.kind === state.kind);
  const isSorted = sortedHeads(state) !== null;
  sort.value = isSorted ? state.sort : '';
  memory.hidden = !isMemory(state.record, state.kind);
  masked.hidden = state.kind !== 'decoder';
  roles.replaceChildren(...roleLegend(state.record, state.kind));
  parts.cells = [];
  grid.classList.toggle('hl-sorted', isSorted);
  const { lines, columns } = linesOf(state);
  grid.style.setProperty('--hl-heads', columns);
  grid.style.setProperty('--hl-lines', lines);
  grid.replaceChildren(...(isSorted ? sortedRows(parts, state) : layerRows(parts, state)));
}

function sortedRows(parts, state) {
  const cells = parts.pages[parts.page].map(([layer, head]) => {
    const cell = drawHead(parts, state, layer, head);
    cell.append(element('span', { class: 'hl-soft', 'aria-hidden': 'true' }, `${layer + 1}.${head + 1}`));
    return cell;
  });
  return [element('div', { role: 'row', class: 'hl-overview-row' }, ...cells)];
}

// Rows are layers, columns are heads; the average of a layer comes after its last head.
function layerRows(parts, state) {
  const { heads } = state.record.attention[state.kind];
  const { columns } = linesOf(state);
  const places = [...Array(heads).keys(), null];
  const createRow = (name, first, cells) => {
    cells.forEach((cell, place) => place < heads && putIntoLine(cell, place, columns));
    return element('div', { role: 'row', class: `hl-overview-row ${name}` }, first, ...cells);
  };
  const names = places.map((head) => (head === null ? everyHead() : numberOf('columnheader', head)));
  const layers = [...new Set(parts.pages[parts.page].map(([layer]) => layer))];
  const rows = layers.map((layer) =>
    createRow(
      '',
      numberOf('rowheader', layer),
      places.map((head) => drawHead(parts, state, layer, head)),
    ),
  );
  return [createRow('hl-overview-names', element('span'), names), ...rows];
}

// The column after the number of the layer; heads that find no place go into another line.
function putIntoLine(cell, place, columns) {
  cell.style.gridArea = `${Math.floor(place / columns) + 1} / ${(place % columns) + 2}`;
}

// The number of a layer or of a head.
const numberOf = (role, index) => element('span', { role, class: 'hl-line' }, String(index + 1));

// The name of the last column: a button that chooses all heads of all layers.
function everyHead() {
  const label = say('average of all heads of all layers');
  const attributes = { tabindex: '-1', 'aria-label': `${say('avg')}: ${label}`, title: label };
  return element('span', { role: 'columnheader' }, createButton('hl-line', null, attributes, say('avg')));
}

// A canvas is used again for the head of that place in the next record: a new one takes longer than the picture in it.
function drawHead(parts, { record, kind, theme }, layer, head) {
  const place = `${layer}.${head}`;
  const canvas = parts.canvases.get(place) ?? element('canvas', { 'aria-hidden': 'true' });
  parts.canvases.set(place, canvas);
  drawThumbnail(canvas, record, kind, matrixOf(record, kind, layer, head), theme);
  const mark = element('span', { class: 'hl-mark' });
  const role = head === null ? null : record.roles[kind][layer][head];
  if (role) mark.append(roleSymbol(record, role));
  const name = head === null ? say('layer {layer}, average of its heads', { layer: layer + 1 }) : headName(layer, head);
  const label = isTaught(record, kind, layer, head) ? `${name}, ${taughtName()}` : name;
  const attributes = { role: 'gridcell', 'aria-label': label, 'data-layer': layer, 'data-head': head ?? '' };
  const picture = element('span', { class: 'hl-picture' }, canvas);
  const button = createButton('hl-thumbnail', null, attributes, picture, mark);
  parts.cells.push({ layer, head, role, button, mark });
  return button;
}

function listenOverview({ store, grid }) {
  grid.addEventListener('click', (event) => {
    const state = store.get();
    const thumbnail = event.target.closest('.hl-thumbnail');
    const all = event.target.closest('button.hl-line');
    if (thumbnail) {
      const layer = Number(thumbnail.dataset.layer);
      const head = thumbnail.dataset.head === '' ? null : Number(thumbnail.dataset.head);
      const isAdded = event.shiftKey && head !== null;
      store.change(isAdded ? extendSelection(state, layer, head) : chooseHead(state, layer, head));
    } else if (all) {
      store.change({ selection: headsOfKind(state) });
    }
  });
}

// The cell of the chosen head is the tab stop of the grid and keeps the focus. All heads on screen are outlined.
function markChosen({ cells }, state, holdsFocus) {
  const shown = chosenHeads(state);
  const isStop = ({ layer, head }) => layer === state.layer && head === state.head;
  const stopped = cells.find(isStop) ?? cells[0]; // on another page it is the first head
  for (const { layer, head, button } of cells) {
    const current = layer === state.layer && head === state.head && state.selection.length === 0;
    const together =
      state.selection.length > 0 && head !== null && shown.some((one) => sameHead(one, [state.kind, layer, head]));
    const stop = button === stopped.button;
    button.setAttribute('aria-selected', current || together);
    button.tabIndex = stop ? 0 : -1;
    if (stop && holdsFocus) button.focus({ preventScroll: true });
  }
}

function markMuted({ cells }, state) {
  for (const { layer, head, role, button } of cells) {
    const muted = head !== null && isMuted(state, [state.kind, layer, head]);
    button.classList.toggle('hl-muted', muted);
    const facts = [
      muted ? say('muted') : null,
      role && tell(role),
      isTaught(state.record, state.kind, layer, head) ? taughtName() : null,
      state.sort && head !== null ? measured(state, layer, head) : null,
    ];
    button.title = facts.filter(Boolean).join(' · ');
  }
}

function measured(state, layer, head) {
  const value = measureOf(state, state.sort, layer, head);
  return value === null ? null : `${labelOfMeasure(state.record, state.sort)} ${fixed(value)}`;
}

// The importance of each head for this sentence, as the colour of its mark.
function tintHeads({ cells, tint }, state) {
  const importance = importanceOf(state);
  const { css, ink } = palette(state.theme);
  tint.style.visibility = importance ? 'visible' : 'hidden'; // its room is there before, so that nothing moves
  tint.replaceChildren(...sayMarks(state.ablation.baseline, scaleOfMarks(css)));
  for (const { layer, head, mark } of cells) {
    const step = importance && head !== null ? stepOf(darknessOf(importance, [state.kind, layer, head])) : null;
    mark.style.background = step === null ? '' : css[step];
    mark.style.color = step === null ? '' : ink[step];
  }
}

function sayMarks(baseline, scale) {
  if (baseline === 'mean') return sayParts('Marks: {scale} times less likely with the head at its mean', { scale });
  if (baseline === 'sentence') return sayParts('Marks: {scale} times less likely with the head patched', { scale });
  return sayParts('Marks: {scale} times less likely with the head silent', { scale });
}

function scaleOfMarks(css) {
  const one = (factor) => {
    const sample = element('span', { class: 'hl-mark-sample', 'aria-hidden': 'true' });
    sample.style.background = css[stepOf(darknessOfFactor(factor))];
    return [' ', sample, String(factor)];
  };
  return element('span', { class: 'hl-number' }, ...MARKED.flatMap(one).slice(1));
}

// Marks the row and the column in focus on all thumbnails at once, as shares of their sides.
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

// The roles that heads of this kind have, in the order of the definitions.
function roleLegend(record, kind) {
  const present = new Set(record.roles[kind].flat());
  const roles = Object.keys(record.definitions.roles).filter((role) => present.has(role));
  const items = roles.map((role) =>
    element('li', { title: roleDefinition(record, role) }, roleSymbol(record, role), tell(role)),
  );
  return [...items, ...taughtItem(record, kind)];
}

function taughtItem({ taught }, kind) {
  if (!taught || kind !== 'cross') return [];
  return [
    element(
      'li',
      {},
      say('{head}: {role}', {
        head: say('layer {layer}, head {head}', { layer: taught[0] + 1, head: taught[1] + 1 }),
        role: taughtName(),
      }),
    ),
  ];
}
