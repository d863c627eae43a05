// The matrix of one head as a small picture: one pixel for each cell, or for the largest of a block.

import { isAllowed, shrink } from '../domain/payload.js';
import { palette, stepOf } from '../drawing/colormap.js';

const LIMIT = 48; // cells along one side
const LINE = { light: [230, 226, 219], dark: [45, 43, 39] }; // colour of cells that the mask forbids

export function drawThumbnail(canvas, record, kind, matrix, theme) {
  const small = shrink(matrix, LIMIT);
  const { bytes } = palette(theme);
  const lastRow = (row) => Math.floor(((row + 1) * matrix.rows - 1) / small.rows);
  const firstColumn = (column) => Math.ceil((column * matrix.columns) / small.columns);
  paint(canvas, small.columns, small.rows, (cell) => {
    const [row, column] = [Math.floor(cell / small.columns), cell % small.columns];
    const allowed = isAllowed(record, kind, lastRow(row), firstColumn(column));
    return allowed ? bytes[stepOf(small.values[cell])] : LINE[theme];
  });
}

// Draws a colour map from its first colour to its last.
export function drawScale(canvas, theme, map) {
  const { bytes } = palette(theme, map);
  paint(canvas, bytes.length, 1, (step) => bytes[step]);
}

function paint(canvas, width, height, colourOf) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, height);
  for (let cell = 0; cell < width * height; cell += 1) {
    const [red, green, blue] = colourOf(cell);
    image.data.set([red, green, blue, 255], 4 * cell);
  }
  context.putImageData(image, 0, 0);
}
