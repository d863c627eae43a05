// Folds the values of heads into a matrix: with sub-words merged, special tokens hidden, and another matrix subtracted.

import { counterparts, differingPlaces } from './counterparts.js';
import { chosenHeads } from './heads.js';
import { axes, combine, isAllowed, placesOfWord } from './payload.js';

// The status of a cell. Only shown and pale cells have a value.
export const SHOWN = 0;
export const PALED = 1; // not needed for the row's threshold
export const FORBIDDEN = 2; // by the mask
export const UNMATCHED = 3; // the reference has no such row or column

// The values of heads as one matrix, from `array`, such as the weights of the record: sums over the keys of a group, averages
// over its queries. `hidden` is the share of each row on hidden columns, `totals` the sums of the rows with them; with
// `renormalise`, the other columns are scaled up to keep the row's sum.
/** @type {(state: State, array: HeadArray, options?: { record?: TranslationRecord; heads?: readonly Head[]; renormalise?: boolean }) => Grid & { totals: number[] }} */
export function foldHeads(
  state,
  array,
  { record = state.record, heads = chosenHeads(state), renormalise = true } = {},
) {
  if (state.reduce === 'max' && heads.length > 1)
    return largestOf(heads.map((head) => foldHeads(state, array, { record, heads: [head], renormalise })));
  const { kind, hideSpecials } = state;
  const matrix = combine(
    array,
    heads.map(([, layer, head]) => [layer, head]),
  );
  const { rowGroups, columnGroups, hiddenGroups } = groupRows(state, axes(record, kind));
  const [rows, columns] = [rowGroups.length, columnGroups.length];
  const values = new Float64Array(rows * columns);
  const status = new Uint8Array(rows * columns);
  const totals = rowGroups.map(() => 0);
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
    totals[row] = total;
    if (mass > 0 && rest > 0 && renormalise) scaleRow(values, row, columns, total / rest);
    return total > 0 ? mass / total : 0;
  });
  return { rows, columns, values, status, rowGroups, columnGroups, hidden: hideSpecials ? hidden : null, totals };
}

// The rows and the columns that are shown, and the columns that are hidden.
/** @type {(choices: { words: boolean; hideSpecials: boolean }, names: { rows: Token[]; columns: Token[]; reads: Token[] | null }) => { rowGroups: Group[]; columnGroups: Group[]; hiddenGroups: Group[] }} */
export function groupRows({ words, hideSpecials }, names) {
  const keep = (group) => !hideSpecials || group.token.word !== null;
  const columns = groupsOf(names.columns, words);
  const rows = groupsOf(names.rows, words).map((group) => withRead(group, names, words));
  return {
    rowGroups: rows.filter(keep),
    columnGroups: columns.filter(keep),
    hiddenGroups: columns.filter((group) => !keep(group)),
  };
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

const touchesAllowed = (record, kind, rowGroup, columnGroup) =>
  isAllowed(record, kind, rowGroup.places.at(-1), columnGroup.places[0]);

function scaleRow(values, row, columns, factor) {
  for (let cell = row * columns; cell < (row + 1) * columns; cell += 1) values[cell] *= factor;
}

// Groups of neighbouring tokens: the tokens of a word if `words` is true, otherwise single tokens. In a group
// { places, token }, `token` has the text of the whole word.
/** @type {(tokens: Token[], words: boolean) => Group[]} */
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

// A group of rows with the token that its first row reads; while words are merged, with its word as far as it is written.
function withRead(group, { reads }, words) {
  if (!reads) return { ...group, reads };
  const [place] = group.places;
  const part = words ? placesOfWord(reads, place).filter((one) => one <= place) : [place];
  return { ...group, reads: { ...reads[place], text: part.map((one) => reads[one].text).join('') } };
}

// `own` minus `other`, where both have the row and the column. A word that was replaced is named with the other one.
/** @type {(own: Grid, other: Grid | null) => Grid} */
export function subtract(own, other) {
  const values = new Float64Array(own.values.length);
  const status = Uint8Array.from(own.status);
  const [rowMatch, rowGroups] = matchGroups(own.rowGroups, other?.rowGroups ?? []);
  const [columnMatch, columnGroups] = matchGroups(own.columnGroups, other?.columnGroups ?? []);
  for (let row = 0; row < own.rows; row += 1) {
    for (let column = 0; column < own.columns; column += 1) {
      const cell = row * own.columns + column;
      const [otherRow, otherColumn] = [rowMatch[row], columnMatch[column]];
      if (otherRow === null || otherColumn === null) status[cell] = Math.max(status[cell], UNMATCHED);
      else if (other) values[cell] = own.values[cell] - other.values[otherRow * other.columns + otherColumn];
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

/** @type {(status: number) => boolean} */
export const hasValue = (status) => status === SHOWN || status === PALED;
