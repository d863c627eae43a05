// The arcs between the tokens of the strip: what each row of the matrix reads most.

import { shape } from '../drawing/dom.js';
import { strongest } from '../domain/math.js';
import { focusOf, isCell, placeOfColumn, placesOfRows, rowOffset } from '../state/queries.js';
import { gridFocus } from '../state/grid.js';
import { hasValue } from '../domain/fold.js';
import { hasLink } from '../instruments/links.js';

const DEEPEST = 40; // pixels: a curve goes three quarters as deep, and must not run behind the other line
const LEAST_SHARE = 0.25; // of the scale for an arc; the strongest cell of a row always has one

export const createArcs = () => shape('svg', { class: 'hl-arcs', 'aria-hidden': 'true' });

export function drawArcs(parts, grid, state) {
  const { arcs, body } = parts;
  const { kind } = state;
  arcs.setAttribute('width', body.offsetWidth);
  arcs.setAttribute('height', body.offsetHeight);
  parts.ends = endsOf(parts, grid, state);
  parts.drawn = [];
  for (let row = 0; row < grid.rows; row += 1) {
    // A head that looks up the word just written has nothing to look up before the first one.
    if (rowOffset(state) < 0 && grid.rowGroups[row].reads.word === null) continue;
    const sizes = Array.from({ length: grid.columns }, (_, column) => sizeOf(grid, row, column));
    const best = strongest(sizes);
    sizes.forEach((size, column) => {
      if (size < LEAST_SHARE && (column !== best || size === 0)) return;
      const path = arc(parts.ends, kind, row, column, size);
      path.dataset.ends = `${row}-${column}`;
      parts.drawn.push({ row, column, path });
    });
  }
  arcs.replaceChildren(...parts.drawn.map(({ path }) => path));
}

// Word links in place of the arcs: lines between the middles of words. Links of the way alone or the person alone look different.
export function drawLinks(parts, record, { links, gold }) {
  const { arcs, chips, body } = parts;
  arcs.setAttribute('width', body.offsetWidth);
  arcs.setAttribute('height', body.offsetHeight);
  const origin = body.getBoundingClientRect();
  const end = (side, tokens, word) => {
    const places = [...tokens.keys()].filter((place) => tokens[place].word === word);
    const { children } = chips[side];
    const boxes = places.map((place) => children[place + (side === 'target' ? 1 : 0)].getBoundingClientRect());
    return middleOf(boxes, side, origin);
  };
  const line = ([source, target], name) => {
    const { source: from, predicted: to } = record.tokens;
    const d = curve(end('source', from, source), end('target', to, target), 'cross');
    return shape('path', { d, class: name, 'data-link': `${source}-${target}` });
  };
  const missing = (gold ?? []).filter((link) => !hasLink(links, link));
  parts.drawn = [];
  arcs.replaceChildren(
    ...links.map((link) => line(link, gold && !hasLink(gold, link) ? 'hl-link hl-link-extra' : 'hl-link')),
    ...missing.map((link) => line(link, 'hl-link hl-link-missing')),
  );
}

function sizeOf(grid, row, column) {
  const cell = row * grid.columns + column;
  const value = grid.value.isSigned ? Math.abs(grid.values[cell]) : Math.max(0, grid.values[cell]);
  return hasValue(grid.status[cell]) ? Math.min(1, value / grid.high) : 0;
}

// The end of an arc at a word: in its middle, below source tokens and above target tokens.
function middleOf(boxes, side, origin) {
  const [left, right] = [Math.min(...boxes.map((box) => box.left)), Math.max(...boxes.map((box) => box.right))];
  return { x: (left + right) / 2 - origin.left, y: boxes[0][side === 'source' ? 'bottom' : 'top'] - origin.top };
}

function endsOf({ chips, body }, grid, state) {
  const origin = body.getBoundingClientRect();
  const boxes = {
    source: [...chips.source.children].map((button) => button.getBoundingClientRect()),
    target: [...chips.target.children].map((button) => button.getBoundingClientRect()),
  };
  const end = (places) => {
    const own = places.map(({ side, place }) => boxes[side][place]);
    return middleOf(own, places[0].side, origin);
  };
  return {
    rows: grid.rowGroups.map(({ places }) => end(placesOfRows(state, places))),
    columns: grid.columnGroups.map(({ places }) => end(places.map((column) => placeOfColumn(state.kind, column)))),
  };
}

function arc(ends, kind, row, column, size) {
  const d = curve(ends.columns[column], ends.rows[row], kind);
  return shape('path', { d, 'stroke-width': 0.5 + 4.5 * size, 'stroke-opacity': 0.15 + 0.7 * size });
}

function curve(from, to, kind) {
  if (kind === 'cross') {
    const middle = (from.y + to.y) / 2;
    return `M${from.x} ${from.y}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`;
  }
  const outwards = kind === 'encoder' ? 1 : -1;
  const spread = from.x === to.x ? 7 : 0;
  const depth = outwards * Math.min(DEEPEST, 16 + 0.22 * Math.abs(from.x - to.x));
  const [left, right] = [from.x - spread, to.x + spread];
  return `M${left} ${from.y}C${left} ${from.y + depth} ${right} ${to.y + depth} ${right} ${to.y}`;
}

// The tokens of one side whose row or column is in focus; all tokens of a merged word are lit.
export function litPlaces(state, grid, side) {
  const focus = focusOf(state);
  const whole = (groups, place) => groups.find(({ places }) => places.includes(place))?.places ?? [place];
  const places = [];
  if (focus && focus.row !== null) places.push(...placesOfRows(state, whole(grid.rowGroups, focus.row)));
  if (focus && focus.column !== null)
    places.push(...whole(grid.columnGroups, focus.column).map((column) => placeOfColumn(state.kind, column)));
  return new Set(places.filter((one) => one.side === side).map((one) => one.place));
}

export function lightArcs(parts, state, grid) {
  const { arcs, drawn } = parts;
  const focus = gridFocus(state);
  const any = focus.row !== null || focus.column !== null;
  arcs.classList.toggle('hl-has-focus', any);
  for (const { row, column, path } of drawn) path.classList.toggle('hl-lit', any && touches(focus, row, column));
  lightFaint(parts, state, grid, focus);
}

// A cell in focus has an arc even if its value is too small for one otherwise.
function lightFaint(parts, state, grid, focus) {
  parts.faint?.remove();
  parts.faint = null;
  const { row, column } = focus;
  if (!isCell(focus) || !hasValue(grid.status[row * grid.columns + column])) return;
  if (parts.drawn.some((one) => one.row === row && one.column === column)) return;
  parts.faint = arc(parts.ends, state.kind, row, column, sizeOf(grid, row, column));
  parts.faint.classList.add('hl-lit');
  parts.arcs.append(parts.faint);
}

// A cell lights one arc; a row or a column lights all of its arcs.
function touches(focus, row, column) {
  const [inRow, inColumn] = [focus.row === row, focus.column === column];
  if (focus.token) return inRow || inColumn;
  return (focus.row === null || inRow) && (focus.column === null || inColumn);
}
