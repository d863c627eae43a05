// The grid is what the matrix shows: the values of the chosen heads, with sub-words merged, special tokens hidden,
// small cells pale, or the difference to another record. A row or a column of a grid is one token or several.

import { FORBIDDEN, PALED, SHOWN } from '../domain/fold.js';
import { chosenHeads } from '../domain/heads.js';
import { recordOfB, referenceOf, shownValue } from './comparison.js';
import { clamp } from '../domain/math.js';
import { otherSide } from './sides.js';
import { focusOf } from './queries.js';

const INPUTS = [
  ...['record', 'kind', 'layer', 'head', 'selection', 'reduce', 'valueName', 'values', 'reference'],
  ...['hideSpecials', 'words', 'threshold', 'sideB'],
];
const KEPT = 8;
let lastGrids = []; // { inputs, grid } each: two sides and their difference, now and before

// The grid of a state. All panels use the same one, so the last grids are cached. The largest value that a colour means is 1
// for shares and differences, otherwise the largest value of both sides, if there are two.
/** @type {(state: State) => ShownGrid} */
export function shownGrid(state) {
  const grid = ownGrid(state);
  const other = hasOwnScale(grid) ? otherSide(state) : null;
  return other ? { ...grid, high: Math.max(grid.high, scaleOf(ownGrid(other))) } : grid;
}

/** @type {(state: State) => ShownGrid} */
function ownGrid(state) {
  const inputs = inputsOf(state);
  const isSame = (one) => inputs.every((input, place) => input === one.inputs[place]);
  const found = lastGrids.find(isSame) ?? { inputs, grid: build(state) };
  lastGrids = [found, ...lastGrids.filter((one) => one !== found)].slice(0, KEPT);
  return found.grid;
}

const inputsOf = (state) => [...INPUTS.map((name) => state[name]), recordOfB(state)];
const hasOwnScale = ({ value }) => !value.isShare && !value.isSigned;
const scaleOf = (grid) => (hasOwnScale(grid) ? grid.high : 0);

/** @type {(state: State, before: State) => boolean} */
export function gridChanged(state, before) {
  const former = inputsOf(before);
  return (
    inputsOf(state).some((input, place) => input !== former[place]) ||
    (state.record !== null && shownGrid(state).high !== shownGrid(before).high)
  );
}

/** @type {(state: State) => ShownGrid} */
function build(state) {
  const value = shownValue(state);
  const grid = value.gridOf(state, referenceOf(state));
  const isMax = value.isOfHeads && state.reduce === 'max' && chosenHeads(state).length > 1; // its rows do not add up to 1
  return pale({ ...grid, value, isMax }, state.threshold);
}

// Marks all cells of a row as pale except its largest ones, which together have `threshold` of the row's sum.
/** @type {(grid: ShownGrid, threshold: number) => ShownGrid} */
function pale(grid, threshold) {
  if (threshold >= 1) return grid;
  const status = Uint8Array.from(grid.status);
  for (let row = 0; row < grid.rows; row += 1) {
    const cells = Array.from({ length: grid.columns }, (_, column) => row * grid.columns + column);
    const shown = cells.filter((cell) => status[cell] === SHOWN);
    const size = (cell) => Math.abs(grid.values[cell]);
    shown.sort((one, other) => size(other) - size(one));
    const enough = threshold * shown.reduce((sum, cell) => sum + size(cell), 0) - 1e-9;
    let sum = 0;
    for (const cell of shown) {
      if (sum >= enough) status[cell] = PALED;
      sum += size(cell);
    }
  }
  return { ...grid, status };
}

// The largest absolute value of a row.
function peakOf(grid, row) {
  let peak = 0;
  for (let cell = row * grid.columns; cell < (row + 1) * grid.columns; cell += 1)
    peak = Math.max(peak, Math.abs(grid.values[cell]));
  return peak;
}

// The position of each value of a row in the colour map, 0 to 1; for differences, 0.5 is no difference.
/** @type {(grid: ShownGrid, row: number, scale: string) => number[]} */
export function shares(grid, row, scale) {
  const peak = scale === 'row' ? peakOf(grid, row) : grid.high;
  const line = grid.values.subarray(row * grid.columns, (row + 1) * grid.columns);
  const signed = Array.from(line, (value) => (peak > 0 ? value / peak : 0));
  return signed.map((share) => (grid.value.isSigned ? (share + 1) / 2 : Math.max(0, share)));
}

// The row or column of the grid that contains a token of the record; null if it is hidden.
/** @type {(groups: Group[], place: number | null | undefined) => number | null} */
function lineOf(groups, place) {
  if (place === null || place === undefined) return null;
  const line = groups.findIndex(({ places }) => places.includes(place));
  return line === -1 ? null : line;
}

// The focus in the grid: { row, column, token }; row and column are null if they have no focus or are hidden.
/** @type {(state: State, spot?: Spot | null) => { row: number | null; column: number | null; token: boolean }} */
export function gridFocus(state, spot = focusOf(state)) {
  const grid = shownGrid(state);
  return {
    row: lineOf(grid.rowGroups, spot?.row),
    column: lineOf(grid.columnGroups, spot?.column),
    token: Boolean(spot?.token),
  };
}

// The spot in the record of a row and a column of the grid: their first tokens.
/** @type {(grid: Grid, row: number | null, column: number | null) => Spot} */
export const spotAt = (grid, row, column) => ({
  row: row === null ? null : grid.rowGroups[row].places[0],
  column: column === null ? null : grid.columnGroups[column].places[0],
});

// Moves the pinned cell, only over cells that the mask allows.
/** @type {(state: State, down: number, right: number) => Changes} */
export function movePin(state, down, right) {
  const grid = shownGrid(state);
  const from = gridFocus(state, state.pin);
  const row = clamp((from.row ?? 0) + (state.pin ? down : 0), grid.rows);
  let column = clamp((from.column ?? 0) + (state.pin ? right : 0), grid.columns);
  while (column > 0 && grid.status[row * grid.columns + column] === FORBIDDEN) column -= 1;
  return grid.rows * grid.columns === 0 ? {} : { pin: spotAt(grid, row, column), hover: null };
}
