// The sentence below the matrix: the exact value of the cell, or the largest value of a row or a column.

import { element, tokenText } from '../drawing/dom.js';
import { entropy, rankOf, strongest, sum } from '../domain/math.js';
import { focusOf } from '../state/queries.js';
import { headsOfKind } from '../domain/heads.js';
import { referenceOf } from '../state/comparison.js';
import { FORBIDDEN, UNMATCHED } from '../domain/fold.js';
import { gridFocus, shownGrid } from '../state/grid.js';
import { fixed, forPointer } from '../drawing/numbers.js';
import { listOf } from '../state/labels.js';
import { cellName, rowName } from '../drawing/names.js';
import { chosenValue } from '../values/values.js';
import { say, sayParts } from '../locales/language.js';

// Returns the pieces of the sentence: elements and strings.
export function describe(state) {
  const grid = shownGrid(state);
  const focus = gridFocus(state);
  const { row, column } = focus;
  if (!focusOf(state)) return [soft(hintOf(state, grid))];
  if (row === null && column === null) return [soft(say('This token is hidden.'))];
  if (focus.token && row !== null) return describeRow(grid, row);
  if (row !== null && column !== null) return describeCell(state, grid, row, column);
  return row !== null ? describeRow(grid, row) : describeColumn(grid, column);
}

function hintOf(state, { value }) {
  const hint = chosenValue(state).hint(state);
  if (hint) return hint;
  return forPointer(
    say('Point at a cell to read its {value}; click to pin it.', { value: value.label() }),
    say('Tap a cell to read its {value} and to pin it.', { value: value.label() }),
  );
}

// Facts about the whole matrix: what its value says of it, its heads, what it is compared with, and how much is hidden.
export function describeView(state) {
  const { hidden, nothing, value, status, rowGroups, columnGroups } = shownGrid(state);
  const reference = referenceOf(state);
  const facts = [...new Set([value, chosenValue(state)])].flatMap((one) => one.factsOf(state, reference));
  if ([...rowGroups, ...columnGroups].some(({ places }) => places.length > 1))
    facts.push(say('pieces are joined to words; “Join word pieces” in the menu separates them'));
  if (status.includes(UNMATCHED)) facts.push(say('dotted: no counterpart in {view}', { view: reference?.label }));
  const { length } = state.selection;
  if (value.isOfHeads && length > 0 && length < headsOfKind(state).length)
    facts.push(say('layer.head {heads}', { heads: listOf(state.selection) }));
  if (nothing) facts.push(say('the rest of a row comes from nothing'));
  if (hidden && hidden.length > 0) {
    const share = { share: fixed(sum(hidden) / hidden.length) };
    const isScaledUp = (value.isShare && !nothing) || value.isSigned;
    facts.push(
      isScaledUp
        ? say('hidden {share} of a row on average, the rest scaled up', share)
        : say('hidden {share} of a row on average', share),
    );
  }
  return facts.join(' · ');
}

export const plain = (pieces) => pieces.map((piece) => piece.textContent ?? piece).join('');

const soft = (text) => element('span', { class: 'hl-soft' }, text);
const strong = (pieces) => element('strong', {}, ...pieces);

function namesAt(grid, row, column) {
  return { row: strong(rowName(grid.rowGroups[row])), column: strong([tokenText(grid.columnGroups[column].token)]) };
}

function describeCell(state, grid, row, column) {
  const link = strong(cellName(grid.rowGroups[row], grid.columnGroups[column].token));
  const status = grid.status[row * grid.columns + column];
  if (status === FORBIDDEN) return sayParts('{cell} not allowed by the mask', { cell: link });
  if (status === UNMATCHED)
    return sayParts('{cell} has no counterpart in {view}', { cell: link, view: referenceOf(state)?.label });
  const { value } = grid;
  const values = rowOf(grid, row);
  if (value.sayCell)
    return value.sayCell(state, grid, { row, column, number: values[column], names: namesAt(grid, row, column) });
  const number = element('span', { class: 'hl-value' }, value.text(values[column]));
  const rank = say('rank {rank} of {count}', { rank: rankOf(values, column), count: allowedIn(grid, row) });
  return [link, ` ${value.label()} `, number, ` · ${rank}`, ...rowFacts(grid, row)];
}

const quantity = ({ value }, number) => `${value.label()} ${value.text(number)}`;
const rowOf = (grid, row) => grid.values.subarray(row * grid.columns, (row + 1) * grid.columns);

const allowedIn = (grid, row) =>
  grid.status.subarray(row * grid.columns, (row + 1) * grid.columns).filter((status) => status < FORBIDDEN).length;

// Only rows of weights add up to 1 and have an entropy; rows of a running memory do so with what comes from nothing.
function rowFacts(grid, row) {
  const facts = [];
  if (grid.nothing && !grid.isMax) facts.push(` · ${say('from nothing {share}', { share: fixed(grid.nothing[row]) })}`);
  else if (grid.value.isShare && !grid.isMax)
    facts.push(` · ${say('row entropy {bits} bit', { bits: fixed(entropy(rowOf(grid, row)), 2) })}`);
  if (grid.hidden) facts.push(` · ${say('hidden {share}', { share: fixed(grid.hidden[row]) })}`);
  return facts;
}

function describeRow(grid, row) {
  if (grid.columns === 0) return [soft(say('All tokens of this row are hidden.'))];
  const values = rowOf(grid, row);
  const column = strongest(values.map(Math.abs));
  const names = namesAt(grid, row, column);
  const { value } = grid;
  const sentence = value.sayRow({ ...names, value: quantity(grid, values[column]) }, values[column]);
  if (!value.isOfHeads) return sentence;
  const total = ` · ${say('{total} in the whole row', { total: fixed(sum(values), 2) })}`;
  return [...sentence, ...(value.isShare && !grid.isMax ? [] : [total]), ...rowFacts(grid, row)];
}

function describeColumn(grid, column) {
  if (grid.rows === 0) return [soft(say('All tokens of this column are hidden.'))];
  const values = Float64Array.from({ length: grid.rows }, (_, row) => grid.values[row * grid.columns + column]);
  const row = strongest(values.map(Math.abs));
  const names = namesAt(grid, row, column);
  const { value } = grid;
  const sentence = value.sayColumn({ ...names, value: quantity(grid, values[row]) }, values[row]);
  if (!value.isOfHeads) return sentence;
  return [...sentence, ` · ${say('{total} in all rows together', { total: fixed(sum(values), 2) })}`];
}
