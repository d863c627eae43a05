// The magnifier: the cells around the pointer, enlarged, where the whole matrix is shown in small cells.

import { element } from '../drawing/dom.js';
import { cellName } from '../drawing/names.js';
import { isCell } from '../state/queries.js';
import { clamp } from '../domain/math.js';
import { drawCells, isSmall } from './cells.js';

const SIZE = { width: 36, height: 22 }; // of a cell in the magnifier, where letters have 16 px
const CELLS = 5; // along each side
const DISTANCE = 16; // pixels from the pointer

export function createMagnifier() {
  const canvas = element('canvas');
  const mark = element('div', { class: 'hl-band hl-magnifier-mark' });
  const names = element('p', { class: 'hl-magnifier-names' });
  const node = element(
    'div',
    { class: 'hl-magnifier', 'aria-hidden': 'true', hidden: true },
    names,
    element('div', {}, canvas, mark),
  );
  return { node, canvas, mark, names };
}

// `focus` is the focus in the grid; `field` is the element with the small cells.
export function drawMagnifier(magnifier, { grid, size, field }, state, focus) {
  const shows = state.hover && isCell(focus) && isSmall(size);
  magnifier.node.hidden = !shows;
  if (!shows) return;
  const part = partAround(grid, focus);
  const { scale } = size;
  const [width, height] = [SIZE.width * scale, SIZE.height * scale];
  drawCells({ canvas: magnifier.canvas, grid, size: { width, height, scale } }, state, part);
  Object.assign(magnifier.mark.style, {
    left: `${(focus.column - part.column) * width}px`,
    top: `${(focus.row - part.row) * height}px`,
    width: `${width - 1}px`,
    height: `${height - 1}px`,
  });
  const [row, column] = [grid.rowGroups[focus.row], grid.columnGroups[focus.column]];
  magnifier.names.replaceChildren(...cellName(row, column.token));
  place(magnifier.node, field, (focus.column + 0.5) * size.width, (focus.row + 0.5) * size.height);
}

function partAround({ rows, columns }, focus) {
  const [high, wide] = [Math.min(CELLS, rows), Math.min(CELLS, columns)];
  return {
    row: clamp(focus.row - Math.floor(high / 2), rows - high + 1),
    column: clamp(focus.column - Math.floor(wide / 2), columns - wide + 1),
    rows: high,
    columns: wide,
  };
}

// Beside the cell, on the side with more room.
function place(node, field, x, y) {
  const frame = node.offsetParent.getBoundingClientRect();
  const box = field.getBoundingClientRect();
  const [left, top] = [box.left - frame.left + x, box.top - frame.top + y];
  const over = left + DISTANCE + node.offsetWidth > frame.width;
  const above = top + DISTANCE + node.offsetHeight > frame.height;
  node.style.left = `${Math.max(0, over ? left - DISTANCE - node.offsetWidth : left + DISTANCE)}px`;
  node.style.top = `${Math.max(0, above ? top - DISTANCE - node.offsetHeight : top + DISTANCE)}px`;
}
