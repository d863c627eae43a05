// What the colours of the matrix mean: the map with its ends, beneath the matrix.

import { element } from '../core/dom.js';
import { shownGrid } from '../core/grid.js';
import { mapOf } from './cells.js';
import { drawScale } from '../heads/thumbnails.js';

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
