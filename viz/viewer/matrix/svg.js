// The view on screen as an SVG made from its data. Text stays text, and nothing is loaded from elsewhere.

import { readable, shape, visible } from '../drawing/dom.js';
import { palette, stepOf } from '../drawing/colormap.js';
import { isSubtracted, recordOfB, sideOf } from '../state/comparison.js';
import { PALED, SHOWN, UNMATCHED, hasValue } from '../domain/fold.js';
import { gridFocus, shares, shownGrid } from '../state/grid.js';
import { mapOf, scaleEnds, roundedValue } from './cells.js';
import { fixed } from '../drawing/numbers.js';
import { titleOfMatrix } from '../state/labels.js';
import { isolated, rowText } from '../drawing/names.js';
import { describe, describeView, plain } from './readout.js';
import { say, tellTitle } from '../locales/language.js';

const CELL = { width: 40, height: 28 };
const LEGEND = { width: 160, height: 28, steps: 32 };
const LETTER = 7.4; // a generous width of a letter at 13 px, so that no text is cut off
const MARGIN = 24;
const LARGEST_SIDE = 8192; // pixels of a PNG; browsers give nothing for a canvas that is too large, Safari the first
const INKS = {
  light: { panel: '#ffffff', ink: '#1c1b19', soft: '#6d6962', line: '#d5d0c6', accent: '#1d5fd1' },
  dark: { panel: '#1a1917', ink: '#f0ede6', soft: '#a09a8e', line: '#4a463f', accent: '#7fb0ff' },
};

// A picture of the matrix on screen, or of both matrices where A and B stand next to each other.
/** @type {(first: State, second: State) => SVGElement} */
export function pictureOfSides(first, second) {
  if (recordOfB(first) === null || isSubtracted(first)) return pictureOf(first);
  const pictures = [first, second].map(pictureOf);
  const sizes = pictures.map((picture) => ['width', 'height'].map((side) => Number(picture.getAttribute(side))));
  const [width, height] = [sizes[0][0] + sizes[1][0], Math.max(sizes[0][1], sizes[1][1])];
  pictures[1].setAttribute('x', String(sizes[0][0]));
  pictures[1].querySelector('defs')?.remove(); // the first picture has the same patterns
  const back = shape('rect', { width, height, fill: INKS[first.theme].panel });
  return shape('svg', { width, height, viewBox: `0 0 ${width} ${height}` }, back, ...pictures);
}

// Returns an SVG element; a pinned row, column or cell is outlined, as on screen.
function pictureOf(state) {
  const grid = shownGrid(state);
  const inks = INKS[state.theme];
  const names = { rows: grid.rowGroups.map(rowText), columns: grid.columnGroups.map(({ token }) => visible(token)) };
  const left = MARGIN + LETTER * longest(names.rows) + 8;
  const slant = LETTER * longest(names.columns);
  const top = MARGIN + 32 + slant * 0.62 + 16;
  const width = Math.ceil(Math.max(left + grid.columns * CELL.width + slant * 0.79 + MARGIN, 480));
  const height = Math.ceil(top + grid.rows * CELL.height + 92 + LEGEND.height + MARGIN);
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  const svg = shape('svg', { ...size, 'font-family': 'system-ui, sans-serif', 'font-size': 13 });
  svg.append(
    shape('title', {}, `${titleOfMatrix(state)}: ${readable(state.record.source_text)}`),
    shape('defs', {}, hatch(inks), dots(inks)),
    shape('rect', { width, height, fill: inks.panel }),
    words(MARGIN, MARGIN + 14, titleOfMatrix(state), { 'font-size': 16, 'font-weight': 600, fill: inks.ink }),
    ...names.columns.map((name, column) =>
      words(0, 0, name, {
        transform: `translate(${left + (column + 0.5) * CELL.width} ${top - 8}) rotate(-38)`,
        fill: inks.ink,
      }),
    ),
    ...names.rows.map((name, row) =>
      words(left - 8, top + (row + 0.5) * CELL.height + 4, name, { 'text-anchor': 'end', fill: inks.ink }),
    ),
    shape('g', { transform: `translate(${left} ${top})` }, ...cellsOf(grid, state), ...outlines(grid, state, inks)),
    legend(grid, state, top + grid.rows * CELL.height + 28, inks),
    ...captions(state, top + grid.rows * CELL.height + 28 + LEGEND.height, inks),
  );
  return svg;
}

const longest = (names) =>
  Math.max(
    4,
    ...names.map((name) => [...name].length * (/[\u2e80-\u9fff\uac00-\ud7af\uff00-\uffef]/u.test(name) ? 1.9 : 1)),
  );

const words = (x, y, text, attributes) => shape('text', { x, y, 'xml:space': 'preserve', ...attributes }, text);

function cellsOf(grid, state) {
  const { css, ink } = palette(state.theme, mapOf(grid));
  const drawn = [];
  for (let row = 0; row < grid.rows; row += 1) {
    shares(grid, row, state.scale).forEach((share, column) => {
      const cell = row * grid.columns + column;
      const [status, value, step] = [grid.status[cell], grid.values[cell], stepOf(share)];
      const [x, y] = [column * CELL.width, row * CELL.height];
      const fill = hasValue(status) ? css[step] : status === UNMATCHED ? 'url(#dots)' : 'url(#hatch)';
      const opacity = status === PALED ? 0.22 : null;
      const exact = hasValue(status) ? shape('title', {}, fixed(value)) : null;
      drawn.push(
        shape('rect', { x, y, width: CELL.width - 1, height: CELL.height - 1, fill, 'fill-opacity': opacity }, exact),
      );
      if (status !== SHOWN || Math.abs(value) < 0.05) return;
      const place = { 'text-anchor': 'middle', 'font-size': 11, fill: ink[step] };
      drawn.push(words(x + CELL.width / 2, y + CELL.height / 2 + 4, roundedValue(value, CELL.width), place));
    });
  }
  return drawn;
}

function outlines(grid, state, inks) {
  const { row, column, token } = gridFocus(state, state.pin);
  const [width, height] = [grid.columns * CELL.width, grid.rows * CELL.height];
  const boxes = [];
  if (row !== null) boxes.push([0, row * CELL.height, width, CELL.height, 1]);
  if (column !== null) boxes.push([column * CELL.width, 0, CELL.width, height, 1]);
  if (row !== null && column !== null && !token)
    boxes.push([column * CELL.width, row * CELL.height, CELL.width, CELL.height, 2]);
  return boxes.map(([x, y, across, down, stroke]) => {
    const box = { x, y, width: across - 1, height: down - 1 };
    return shape('rect', { ...box, fill: 'none', stroke: inks.accent, 'stroke-width': stroke });
  });
}

// The colour map between the values at its ends.
function legend(grid, state, y, inks) {
  const { css } = palette(state.theme, mapOf(grid));
  const [name, high] = scaleEnds(grid, state);
  const left = MARGIN + LETTER * [...name].length + 8;
  const width = LEGEND.width / LEGEND.steps;
  const steps = Array.from({ length: LEGEND.steps }, (_, step) => {
    const fill = css[stepOf(step / (LEGEND.steps - 1))];
    return shape('rect', { x: left + step * width, y: y - 10, width: width + 0.5, height: 10, fill });
  });
  const frame = { x: left, y: y - 10, width: LEGEND.width, height: 10, fill: 'none', stroke: inks.line };
  return shape(
    'g',
    { class: 'legend' },
    words(MARGIN, y, name, { fill: inks.soft }),
    ...steps,
    shape('rect', frame),
    words(left + LEGEND.width + 8, y, high, { fill: inks.soft }),
  );
}

const captions = (state, y, inks) =>
  notesOf(state).map((line, place) =>
    words(MARGIN, y + 20 * place, line, { fill: place === 0 && state.pin ? inks.ink : inks.soft }),
  );

// What a picture or a handout says of the view: the pinned cell, the value with its switches, the sentences and the model.
export function notesOf(state) {
  const { record, pin } = state;
  const side = sideOf(state);
  const other = isSubtracted(state) ? recordOfB(state) : null;
  const { value } = shownGrid(state);
  const switches = [
    state.scale === 'row' && say('Colour by row'),
    state.words && say('Join word pieces'),
    state.hideSpecials && say('Hide <s> and </s>'),
    describeView(state),
  ];
  return [
    pin ? plain(describe({ ...state, hover: null })) : '',
    [value.label(), ...switches].filter(Boolean).join(' · '),
    `${side === '' ? '' : `${side}: `}${sentenceOf(record)}`,
    other ? `B: ${sentenceOf(other)} · ${tellTitle(other.model.title)}` : '',
    `${tellTitle(record.model.title)} · Headlight`,
  ].filter(Boolean);
}

const sentenceOf = ({ source_text: source, text }) => `${isolated(readable(source))} → ${isolated(readable(text))}`;

function hatch(inks) {
  const place = { patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' };
  return shape(
    'pattern',
    { id: 'hatch', width: 6, height: 6, ...place },
    shape('rect', { width: 1, height: 6, fill: inks.line }),
  );
}

// A cell without a counterpart, as on screen.
const dots = (inks) =>
  shape(
    'pattern',
    { id: 'dots', width: 6, height: 6, patternUnits: 'userSpaceOnUse' },
    shape('rect', { x: 2, y: 2, width: 1.5, height: 1.5, fill: inks.line }),
  );

export const svgText = (svg) =>
  `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(svg)}\n`;

// The same picture as a PNG with twice the resolution, or less where it is too large. An exported file may load data URLs only.
export async function pngOf(svg) {
  const [width, height] = ['width', 'height'].map((side) => Number(svg.getAttribute(side)));
  const ratio = Math.min(2, LARGEST_SIDE / width, LARGEST_SIDE / height);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
}
