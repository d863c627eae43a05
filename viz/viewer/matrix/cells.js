// The cells of the matrix on a canvas: their size, how each is drawn, and the colour scale below them.

import { element, letterScale, sizeCanvas } from '../drawing/dom.js';
import { palette, stepOf } from '../drawing/colormap.js';
import { PALED, SHOWN, UNMATCHED, hasValue } from '../domain/fold.js';
import { shares, shownGrid } from '../state/grid.js';
import { drawScale } from '../heads/thumbnails.js';
import { fixed } from '../drawing/numbers.js';
import { say, localNumber } from '../locales/language.js';

// In pixels; sizes that have to do with letters grow with the letters.
const CELL = { width: [16, 96], height: [18, 60] };
const LEAST = 4; // of a cell when the whole matrix is shown
const FINGER = 24; // that a finger needs
const isTouched = globalThis.matchMedia?.('(hover: none)') ?? { matches: false };
const SMALL = 14; // smaller cells have smaller names and a magnifier
const READABLE = 11; // that a name needs; of smaller cells only some are named
const DIGIT = 6.8; // of a character of 11 px
const WRITTEN = { from: 0.05, width: 28, height: 20 }; // a value is written into cells of at least this size
const STEEP = 26; // below this width of a cell, column names are steeper

// Sizes in pixels for a grid. `room` is the space for its cells and the names above them, `longest` is the length of
// the longest name, and `reserved` is the width of the column to the right of the cells. With `whole` the cells become
// so small that all of them are in sight, if that is possible; `stride` then says which names are shown.
export function fit({ rows, columns }, longest, room, reserved, whole) {
  const scale = letterScale();
  const steep = room.width / Math.max(1, columns) < STEEP * scale;
  const slope = steep ? 62 : 38;
  const [across, upwards] = [Math.cos((slope * Math.PI) / 180), Math.sin((slope * Math.PI) / 180)];
  const overhang = Math.max(reserved, Math.ceil(longest * across));
  const top = Math.ceil(longest * upwards + 16 * scale);
  const fitted = {
    width: Math.floor((room.width - overhang) / Math.max(1, columns)),
    height: Math.floor((room.height - top) / Math.max(1, rows)),
  };
  const smallest = isTouched.matches ? FINGER : LEAST;
  const shrinks = whole && fitted.width >= smallest && fitted.height >= smallest;
  const least = (side) => (shrinks ? smallest : Math.max(CELL[side][0] * scale, isTouched.matches ? FINGER : 0));
  const sizeOf = (side) => bounded(fitted[side], [Math.ceil(least(side)), CELL[side][1] * scale]);
  const [width, height] = [sizeOf('width'), sizeOf('height')];
  return {
    width,
    height,
    stride: { rows: Math.ceil((READABLE * scale) / height), columns: Math.ceil((READABLE * scale) / width) },
    top,
    slope,
    overhang,
    scale,
    ratio: window.devicePixelRatio,
  };
}

// Whether the cells are so small that the magnifier enlarges them under the pointer.
export const isSmall = ({ width, height, scale }) => Math.min(width, height) < SMALL * scale;

const bounded = (value, [least, most]) => Math.min(most, Math.max(least, value));

export const mapOf = (grid) => (grid.value.isSigned ? 'diverging' : 'lamp');

// Draws all cells, or a part of them, { row, column, rows, columns }.
export function drawCells(
  { canvas, grid, size },
  state,
  part = { row: 0, column: 0, rows: grid.rows, columns: grid.columns },
) {
  const colours = palette(state.theme, mapOf(grid));
  const context = sizeCanvas(canvas, part.columns * size.width, part.rows * size.height);
  const patterns = { hatch: hatching(context, state.theme), dots: dotting(context, state.theme) };
  context.font = `${11 * size.scale}px ${getComputedStyle(canvas).fontFamily}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (let row = part.row; row < part.row + part.rows; row += 1) {
    const line = shares(grid, row, state.scale);
    for (let column = part.column; column < part.column + part.columns; column += 1) {
      const cell = row * grid.columns + column;
      const place = [(column - part.column) * size.width, (row - part.row) * size.height];
      const [status, value, share] = [grid.status[cell], grid.values[cell], line[column]];
      drawCell(context, {
        status,
        value,
        share,
        box: [...place, size.width, size.height],
        scale: size.scale,
        colours,
        patterns,
      });
    }
  }
}

function drawCell(context, { status, value, share, box, scale, colours, patterns }) {
  const [left, top, width, height] = box;
  const step = stepOf(share);
  context.fillStyle = hasValue(status) ? colours.css[step] : status === UNMATCHED ? patterns.dots : patterns.hatch;
  context.globalAlpha = status === PALED ? 0.22 : 1;
  const gap = Math.min(width, height) < 8 ? 0 : 1;
  context.fillRect(left, top, width - gap, height - gap);
  context.globalAlpha = 1;
  const isLarge = width >= WRITTEN.width * scale && height >= WRITTEN.height * scale;
  if (status !== SHOWN || Math.abs(value) < WRITTEN.from || !isLarge) return;
  context.fillStyle = colours.ink[step];
  context.fillText(roundedValue(value, width / scale), left + (width - 1) / 2, top + height / 2);
}

// Two decimals: 0.98, −0.12; without the leading zero where that is too wide.
export function roundedValue(value, width) {
  const text = fixed(value, 2);
  return text.length * DIGIT < width ? text : text.replace(/^(−?)0/, '$1');
}

// Thin diagonal lines, so that a cell that the mask forbids does not look like a weight of 0.
const hatching = (context, theme) =>
  tiled(context, theme, (pen) => {
    for (const shift of [-6, 0, 6]) {
      pen.moveTo(shift - 1, 7);
      pen.lineTo(shift + 7, -1);
    }
    pen.stroke();
  });

// Dots, so that a cell with nothing to compare it with does not look like a difference of 0.
const dotting = (context, theme) => tiled(context, theme, (pen) => pen.fillRect(2, 2, 1.5, 1.5));

function tiled(context, theme, draw) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const pen = /** @type {CanvasRenderingContext2D} */ (tile.getContext('2d'));
  pen.strokeStyle = pen.fillStyle = theme === 'dark' ? '#4a463f' : '#d5d0c6';
  pen.lineWidth = 1;
  draw(pen);
  return context.createPattern(tile, 'repeat');
}

// What the colour map means: the name of the value with the number at the low end, and the number at the high end with its unit.
export function scaleEnds({ high, value }, { scale }) {
  const most = scale === 'row' ? say('row max') : localNumber(String(Number(high.toFixed(2))));
  const low = value.isSigned ? `−${most}` : '0';
  return [`${value.label()} ${low}`, `${value.isSigned ? '+' : ''}${most} ${value.unit()}`.trim()];
}

// The colour map with the values at its ends, below the matrix.
export function createScale() {
  const canvas = element('canvas', { class: 'hl-scale', 'aria-hidden': 'true' });
  const [low, high] = [element('span', {}), element('span', {})];
  return { node: element('div', { class: 'hl-legend-row hl-soft hl-number' }, low, canvas, high), canvas, low, high };
}

export function writeScale({ canvas, low, high }, state) {
  const grid = shownGrid(state);
  [low.textContent, high.textContent] = scaleEnds(grid, state);
  drawScale(canvas, state.theme, mapOf(grid));
}
