// The grid is what the matrix shows: the values of the chosen heads, with sub-words merged, special tokens hidden,
// small cells pale, or the difference to another record. A row or a column of a grid is one token or several.

import { counterparts, differingPlaces, effectiveMode, referenceOf } from './instruments/comparison.js';
import { lossWithout } from './instruments/without.js';
import { clamp } from './math.js';
import { axes, combine, isAllowed } from './payload.js';
import { chosenHeads, focusOf, rowOffset } from './state/queries.js';

// The status of a cell. Only shown and pale cells have a value.
export const SHOWN = 0;
export const PALED = 1; // not needed for the row's threshold
export const FORBIDDEN = 2; // by the mask
export const UNMATCHED = 3; // the reference has no such row or column

const INPUTS = [
  'record',
  'kind',
  'layer',
  'head',
  'selection',
  'reduce',
  'mode',
  'values',
  'reference',
  'hideSpecials',
  'words',
  'threshold',
  'beside',
  'opposite',
  'facingHigh',
];
const LEAST_LOSS = 1; // nats: the darkest colour, if no word loses more
const KEPT = 4;
let lastGrids = []; // { inputs, grid } each: those of two sides, and of their difference

// The grid of a state. All panels use the same one, so the last grids are cached.
export function shownGrid(state) {
  const inputs = INPUTS.map((name) => state[name]);
  const isSame = (one) => inputs.every((input, place) => input === one.inputs[place]);
  const found = lastGrids.find(isSame) ?? { inputs, grid: build(state) };
  lastGrids = [found, ...lastGrids.filter((one) => one !== found)].slice(0, KEPT);
  return found.grid;
}

export function gridChanged(state, before) {
  return INPUTS.some((name) => state[name] !== before[name]);
}

function build(state) {
  const mode = effectiveMode(state);
  if (mode === 'without') return pale({ ...withHigh(foldLosses(state), state), mode, isMax: false }, state.threshold);
  const { record, kind } = state;
  const places = placesOf(chosenHeads(state));
  const array = mode === 'norm' ? state.values.norm[kind] : record.attention[kind];
  const folded = fold(state, record, array, places, mode !== 'norm');
  const grid = mode === 'difference' ? subtract(folded, foldReference(state, referenceOf(state))) : folded;
  const isMax = state.reduce === 'max' && places.length > 1; // its rows do not add up to 1
  const own = grid.values.reduce((most, value) => Math.max(most, value), array.scale);
  const high = mode === 'norm' ? withHigh({ high: own }, state) : { high: 1, ownHigh: 0 };
  return pale({ ...grid, mode, ...high, isMax }, state.threshold);
}

// The largest value that a colour means: that of both sides, if there are two.
function withHigh(grid, { facingHigh }) {
  return { ...grid, ownHigh: grid.high, high: Math.max(grid.high, facingHigh) };
}

// What each word of the translation loses without each source word. A merged word loses what its tokens lose together, and
// the tokens of a merged source word are hidden together.
function foldLosses({ record, values, words, hideSpecials }) {
  const names = axes(record, 'cross');
  const keep = (group) => !hideSpecials || group.token.word !== null;
  const rowGroups = groupsOf(names.rows, words)
    .map((group) => withOther(group, names, words))
    .filter(keep);
  const columnGroups = groupsOf(names.columns, words).filter(keep);
  const lossOf = (row, column) => lossWithout(values.without, column.places, row.places);
  const found = Float64Array.from(rowGroups.flatMap((row) => columnGroups.map((column) => lossOf(row, column))));
  return {
    rows: rowGroups.length,
    columns: columnGroups.length,
    values: found,
    status: new Uint8Array(found.length),
    rowGroups,
    columnGroups,
    hidden: null,
    high: found.reduce((most, value) => Math.max(most, value), LEAST_LOSS),
  };
}

function placesOf(heads) {
  return heads.map(([, layer, head]) => [layer, head]);
}

// A reference with heads of this kind is compared by those heads, otherwise by the heads on screen.
function foldReference(state, { record, heads = null }) {
  const chosen = heads?.[0][0] === state.kind ? heads : chosenHeads(state);
  const array = record.attention[state.kind];
  const places = placesOf(chosen).filter(([layer, head]) => layer < array.layers && head < array.heads);
  return places.length > 0 ? fold(state, record, array, places, true) : null;
}

// Sums over the keys of a group and averages over its queries. `hidden` is the share of each row on hidden columns;
// with `renormalise`, the other columns are scaled up to keep the row's sum.
function fold(state, record, array, places, renormalise) {
  if (state.reduce === 'max' && places.length > 1)
    return largestOf(places.map((place) => fold(state, record, array, [place], renormalise)));
  const { kind, words, hideSpecials } = state;
  const matrix = combine(array, places);
  const names = axes(record, kind, rowOffset(state));
  const keep = (group) => !hideSpecials || group.token.word !== null;
  const allColumns = groupsOf(names.columns, words);
  const columnGroups = allColumns.filter(keep);
  const hiddenGroups = allColumns.filter((group) => !keep(group));
  const rowGroups = groupsOf(names.rows, words)
    .map((group) => withOther(group, names, words))
    .filter(keep);
  const [rows, columns] = [rowGroups.length, columnGroups.length];
  const values = new Float64Array(rows * columns);
  const status = new Uint8Array(rows * columns);
  const hidden = rowGroups.map((rowGroup, row) => {
    const mass = hiddenGroups.reduce((sum, group) => sum + massOf(matrix, rowGroup, group), 0);
    let rest = 0;
    columnGroups.forEach((columnGroup, column) => {
      const cell = row * columns + column;
      values[cell] = massOf(matrix, rowGroup, columnGroup);
      status[cell] = touchesAllowed(record, kind, rowGroup, columnGroup) ? SHOWN : FORBIDDEN;
      rest += values[cell];
    });
    const total = mass + rest;
    if (mass > 0 && rest > 0 && renormalise) scaleRow(values, row, columns, total / rest);
    return total > 0 ? mass / total : 0;
  });
  return { rows, columns, values, status, rowGroups, columnGroups, hidden: hideSpecials ? hidden : null };
}

// Takes the largest of several heads after merging words: a sum of maxima would exceed the value of every head.
function largestOf(grids) {
  const largest = (arrays) => arrays[0].map((_, place) => Math.max(...arrays.map((array) => array[place])));
  const hidden = grids[0].hidden && largest(grids.map((grid) => grid.hidden));
  return { ...grids[0], values: largest(grids.map((grid) => grid.values)), hidden };
}

function massOf(matrix, rowGroup, columnGroup) {
  let sum = 0;
  for (const row of rowGroup.places)
    for (const column of columnGroup.places) sum += matrix.values[row * matrix.columns + column];
  return sum / rowGroup.places.length;
}

function touchesAllowed(record, kind, rowGroup, columnGroup) {
  return isAllowed(record, kind, rowGroup.places.at(-1), columnGroup.places[0]);
}

function scaleRow(values, row, columns, factor) {
  for (let cell = row * columns; cell < (row + 1) * columns; cell += 1) values[cell] *= factor;
}

// Groups of neighbouring tokens: those of one word if `words` is true, otherwise single tokens. In a group
// { places, token }, `token` has the text of the whole word.
export function groupsOf(tokens, words) {
  const groups = [];
  tokens.forEach((token, place) => {
    const previous = groups.at(-1);
    const together = words && previous && token.word !== null && token.word === previous.token.word;
    if (!together) {
      groups.push({ places: [place], token });
    } else {
      previous.places.push(place);
      previous.token = { ...previous.token, text: previous.token.text + token.text };
    }
  });
  return groups;
}

// A group of rows with its other name: the word that its first row reads, or the one that its last row predicts.
function withOther(group, { reads, predicts }, words) {
  return {
    ...group,
    reads: reads && wordFrom(reads, group.places[0], words ? -1 : 0),
    predicts: predicts && wordFrom(predicts, group.places.at(-1), words ? 1 : 0),
  };
}

// The token at a place, with the text of its word from there on in this direction; 0 is the token alone.
function wordFrom(tokens, place, direction) {
  const { word } = tokens[place];
  let end = place;
  while (direction !== 0 && word !== null && tokens[end + direction]?.word === word) end += direction;
  const part = tokens.slice(Math.min(place, end), Math.max(place, end) + 1);
  return { ...tokens[place], text: part.map(({ text }) => text).join('') };
}

// `own` minus `other`, where both have the row and the column. A word that was replaced is named with the other one.
function subtract(own, other) {
  const values = new Float64Array(own.values.length);
  const status = Uint8Array.from(own.status);
  const [rowMatch, rowGroups] = matchGroups(own.rowGroups, other?.rowGroups ?? []);
  const [columnMatch, columnGroups] = matchGroups(own.columnGroups, other?.columnGroups ?? []);
  for (let row = 0; row < own.rows; row += 1) {
    for (let column = 0; column < own.columns; column += 1) {
      const cell = row * own.columns + column;
      const [otherRow, otherColumn] = [rowMatch[row], columnMatch[column]];
      if (otherRow === null || otherColumn === null) status[cell] = Math.max(status[cell], UNMATCHED);
      else values[cell] = own.values[cell] - other.values[otherRow * other.columns + otherColumn];
    }
  }
  return { ...own, values, status, rowGroups, columnGroups };
}

// The place of each group among the others, or null, and the groups with their names.
function matchGroups(own, others) {
  const [tokens, otherTokens] = [own, others].map((groups) => groups.map(({ token }) => token));
  const places = counterparts(tokens, otherTokens);
  const differing = differingPlaces(tokens, otherTokens);
  const groups = own.map((group, place) => {
    if (!differing.has(place) || places[place] === null) return group;
    const { token } = group;
    return { ...group, token: { ...token, text: `${token.text} ≠ ${otherTokens[places[place]].text.trim()}` } };
  });
  return [places, groups];
}

// Marks all cells of a row as pale except its largest ones, which together have `threshold` of the row's sum.
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

export function hasValue(status) {
  return status === SHOWN || status === PALED;
}

// The largest absolute value of a row.
function peakOf(grid, row) {
  let peak = 0;
  for (let cell = row * grid.columns; cell < (row + 1) * grid.columns; cell += 1)
    peak = Math.max(peak, Math.abs(grid.values[cell]));
  return peak;
}

// The position of each value of a row in the colour map, 0 to 1; for differences, 0.5 is no difference.
export function shares(grid, row, scale) {
  const peak = scale === 'row' ? peakOf(grid, row) : grid.high;
  const line = grid.values.subarray(row * grid.columns, (row + 1) * grid.columns);
  const signed = Array.from(line, (value) => (peak > 0 ? value / peak : 0));
  if (grid.mode === 'without') return signed.map((share) => Math.max(0, share)); // a word can also become likelier
  return grid.mode === 'difference' ? signed.map((share) => (share + 1) / 2) : signed;
}

// The row or column of the grid that contains a token of the record; null if it is hidden.
function lineOf(groups, place) {
  if (place === null || place === undefined) return null;
  const line = groups.findIndex(({ places }) => places.includes(place));
  return line === -1 ? null : line;
}

// The focus in the grid: { row, column, token }; row and column are null if they have no focus or are hidden.
export function gridFocus(state, spot = focusOf(state)) {
  const grid = shownGrid(state);
  return {
    row: lineOf(grid.rowGroups, spot?.row),
    column: lineOf(grid.columnGroups, spot?.column),
    token: Boolean(spot?.token),
  };
}

// The spot in the record of a row and a column of the grid: their first tokens.
export function spotAt(grid, row, column) {
  return {
    row: row === null ? null : grid.rowGroups[row].places[0],
    column: column === null ? null : grid.columnGroups[column].places[0],
  };
}

// Moves the pinned cell, only over cells that the mask allows.
export function movePin(state, down, right) {
  const grid = shownGrid(state);
  const from = gridFocus(state, state.pin);
  const row = clamp((from.row ?? 0) + (state.pin ? down : 0), grid.rows);
  let column = clamp((from.column ?? 0) + (state.pin ? right : 0), grid.columns);
  while (column > 0 && grid.status[row * grid.columns + column] === FORBIDDEN) column -= 1;
  return grid.rows * grid.columns === 0 ? {} : { pin: spotAt(grid, row, column), hover: null };
}
