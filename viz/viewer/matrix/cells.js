// The cells of the matrix on a canvas: their size, how each is drawn, and the colour scale below them.

import { element, sizeCanvas } from '../core/dom.js';
import { palette, stepOf } from '../core/colormap.js';
import { PALED, SHOWN, UNMATCHED, hasValue, shares, shownGrid } from '../core/grid.js';
import { drawScale } from '../heads/thumbnails.js';

const CELL = { width: [16, 72], height: [18, 44] };
const WRITTEN = { from: 0.05, width: 28, height: 20 }; // a value is written into cells of at least this size
const STEEP = 26; // below this width of a cell, column names are steeper

// Sizes in pixels for a grid. `room` is the space for its cells and the names above them, `longest` is the length of
// the longest name, and `reserved` is the width of the column to the right of the cells.
export function fit({ rows, columns }, longest, room, reserved) {
  const steep = room.width / Math.max(1, columns) < STEEP;
  const slope = steep ? 62 : 38;
  const [across, upwards] = [Math.cos((slope * Math.PI) / 180), Math.sin((slope * Math.PI) / 180)];
  const overhang = Math.max(reserved, Math.ceil(longest * across));
  const top = Math.ceil(longest * upwards) + 16;
  return {
    width: bounded(Math.floor((room.width - overhang) / Math.max(1, columns)), CELL.width),
    height: bounded(Math.floor((room.height - top) / Math.max(1, rows)), CELL.height),
    top,
    slope,
    overhang,
    ratio: window.devicePixelRatio,
  };
}

function bounded(value, [least, most]) {
  return Math.min(most, Math.max(least, value));
}

export function mapOf(grid) {
  return grid.mode === 'difference' ? 'diverging' : 'lamp';
}

export function drawCells({ canvas, grid, size }, state) {
  const { rows, columns } = grid;
  const colours = palette(state.theme, mapOf(grid));
  const context = sizeCanvas(canvas, columns * size.width, rows * size.height);
  const patterns = { hatch: hatching(context, state.theme), dots: dotting(context, state.theme) };
  context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  for (let row = 0; row < rows; row += 1) {
    const line = shares(grid, row, state.scale);
    line.forEach((share, column) => {
      const cell = row * columns + column;
      const box = [column * size.width, row * size.height, size.width, size.height];
      drawCell(context, { status: grid.status[cell], value: grid.values[cell], share, box, colours, patterns });
    });
  }
}

function drawCell(context, { status, value, share, box, colours, patterns }) {
  const [left, top, width, height] = box;
  const step = stepOf(share);
  context.fillStyle = hasValue(status) ? colours.css[step] : status === UNMATCHED ? patterns.dots : patterns.hatch;
  context.globalAlpha = status === PALED ? 0.22 : 1;
  context.fillRect(left, top, width - 1, height - 1);
  context.globalAlpha = 1;
  if (status !== SHOWN || Math.abs(value) < WRITTEN.from || width < WRITTEN.width || height < WRITTEN.height) return;
  context.fillStyle = colours.ink[step];
  context.fillText(shortValue(value), left + (width - 1) / 2, top + height / 2);
}

// Two digits without the leading zero: .98, −.12, 1.00.
export function shortValue(value) {
  return value
    .toFixed(2)
    .replace(/^(-?)0\./, '$1.')
    .replace('-', '−');
}

// Thin diagonal lines, so that a cell that the mask forbids does not look like a weight of 0.
function hatching(context, theme) {
  return tiled(context, theme, (pen) => {
    for (const shift of [-6, 0, 6]) {
      pen.moveTo(shift - 1, 7);
      pen.lineTo(shift + 7, -1);
    }
    pen.stroke();
  });
}

// Dots, so that a cell with nothing to compare it with does not look like a difference of 0.
function dotting(context, theme) {
  return tiled(context, theme, (pen) => pen.fillRect(2, 2, 1.5, 1.5));
}

function tiled(context, theme, draw) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const pen = tile.getContext('2d');
  pen.strokeStyle = pen.fillStyle = theme === 'dark' ? '#4a463f' : '#d5d0c6';
  pen.lineWidth = 1;
  draw(pen);
  return context.createPattern(tile, 'repeat');
}

// The colour map with the values at its ends, below the matrix.
export function createScale() {
  const canvas = element('canvas', { class: 'hl-scale', 'aria-hidden': 'true' });
  const [low, high] = [element('span', {}), element('span', {})];
  return { node: element('div', { class: 'hl-legend-row hl-soft hl-number' }, low, canvas, high), canvas, low, high };
}

export function writeScale({ canvas, low, high }, state) {
  const grid = shownGrid(state);
  const most = state.scale === 'row' ? 'row max' : String(Number(grid.high.toFixed(2)));
  low.textContent = grid.mode === 'difference' ? `−${most}` : '0';
  high.textContent = grid.mode === 'difference' ? `+${most}` : most;
  drawScale(canvas, state.theme, mapOf(grid));
}
