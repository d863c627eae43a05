// The sentence below the matrix: the exact value of the cell, or the largest value of a row or a column.

import { element, tokenText } from '../core/dom.js';
import { entropy, rankOf, strongest, sum } from '../core/math.js';
import { focusOf, headsOfKind } from '../core/state/queries.js';
import { awaitsSecondHead, isSubtracted, referenceOf } from '../core/instruments/comparison.js';
import { FORBIDDEN, UNMATCHED, gridFocus, shownGrid } from '../core/grid.js';
import { fixed, forPointer, listOf, modeName, percent, signed, valueText } from '../core/labels.js';
import { tokenWithout, translationWithout } from '../core/instruments/without.js';
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

function hintOf(state, { mode }) {
  if (awaitsSecondHead(state))
    return forPointer(
      say('Now choose the second head: one of the small squares, or an arrow key.'),
      say('Now choose the second head: tap one of the small squares.'),
    );
  return forPointer(
    say('Point at a cell to read its {value}; click to pin it.', { value: modeName(mode) }),
    say('Tap a cell to read its {value} and to pin it.', { value: modeName(mode) }),
  );
}

// Facts about the whole matrix: its heads, what it is compared with, how much is hidden, and the whole translation without
// the pinned source word.
export function describeView(state) {
  const { hidden, mode, status, rowGroups, columnGroups } = shownGrid(state);
  const facts = [translationWithout(state)].filter(Boolean);
  if ([...rowGroups, ...columnGroups].some(({ places }) => places.length > 1))
    facts.push(say('pieces are joined to words; the button Words separates them'));
  if (awaitsSecondHead(state)) facts.push(say('choose a second head to compare'));
  if (mode === 'difference') facts.push(describeDifference(state));
  if (status.includes(UNMATCHED))
    facts.push(say('dotted: no counterpart in {view}', { view: referenceOf(state).label }));
  const { length } = state.selection;
  if (mode !== 'without' && length > 0 && length < headsOfKind(state).length)
    facts.push(say('layer.head {heads}', { heads: listOf(state.selection) }));
  if (hidden?.length > 0) {
    const share = { share: fixed(sum(hidden) / hidden.length) };
    facts.push(
      mode === 'norm'
        ? say('hidden {share} of a row on average', share)
        : say('hidden {share} of a row on average, the rest scaled up', share),
    );
  }
  return facts.join(' · ');
}

function describeDifference(state) {
  const own = isSubtracted(state) ? 'A' : say('this view');
  return say('each value: {own} minus {view}', { own, view: referenceOf(state).label });
}

export function plain(pieces) {
  return pieces.map((piece) => piece.textContent ?? piece).join('');
}

function soft(text) {
  return element('span', { class: 'hl-soft' }, text);
}

function strong(...groups) {
  return element('strong', {}, ...groups.flatMap((group, place) => [place > 0 ? ' ← ' : null, tokenText(group.token)]));
}

function describeCell(state, grid, row, column) {
  const link = strong(grid.rowGroups[row], grid.columnGroups[column]);
  const status = grid.status[row * grid.columns + column];
  if (status === FORBIDDEN) return sayParts('{cell} not allowed by the mask', { cell: link });
  if (status === UNMATCHED)
    return sayParts('{cell} has no counterpart in {view}', { cell: link, view: referenceOf(state).label });
  if (grid.mode === 'without') return describeLoss(state, grid, row, column);
  const values = rowOf(grid, row);
  const value = element('span', { class: 'hl-value' }, valueText(grid.mode, values[column]));
  const unit = grid.mode === 'weight' ? ' ' : ` ${modeName(grid.mode)} `;
  const rank = say('rank {rank} of {count}', { rank: rankOf(values, column), count: allowedIn(grid, row) });
  return [link, unit, value, ` · ${rank}`, ...rowFacts(grid, row)];
}

// The loss, the probabilities that it comes from, and what the model would write at the word's first token.
function describeLoss({ record, values: { without } }, grid, row, column) {
  const [{ places: steps }, { places: hidden }] = [grid.rowGroups[row], grid.columnGroups[column]];
  const loss = grid.values[row * grid.columns + column];
  const before = sum(steps.map((step) => record.log_probabilities[step]));
  const instead = tokenWithout(without, hidden, steps[0]);
  const names = {
    column: strong(grid.columnGroups[column]),
    row: strong(grid.rowGroups[row]),
    value: element('span', { class: 'hl-value' }, valueText(grid.mode, loss)),
    before: percent(Math.exp(before)),
    after: percent(Math.exp(before - loss)),
    other: strong({ token: instead }),
  };
  const isOther = instead.id !== record.tokens.predicted[steps[0]].id;
  return isOther
    ? sayParts(
        'Without {column}, {row} loses {value} of its log p: {before} become {after}; likeliest is {other}',
        names,
      )
    : sayParts(
        'Without {column}, {row} loses {value} of its log p: {before} become {after}; it stays the likeliest',
        names,
      );
}

// A loss as a change, so that a gain has a plus.
function changeText(loss) {
  return signed(-loss, 4);
}

function rowOf(grid, row) {
  return grid.values.subarray(row * grid.columns, (row + 1) * grid.columns);
}

function allowedIn(grid, row) {
  return grid.status.subarray(row * grid.columns, (row + 1) * grid.columns).filter((status) => status < FORBIDDEN)
    .length;
}

// Only rows of weights add up to 1 and have an entropy. The hidden share is always written.
function rowFacts(grid, row) {
  const facts = [];
  if (grid.mode === 'weight' && !grid.isMax)
    facts.push(` · ${say('row entropy {bits} bit', { bits: fixed(entropy(rowOf(grid, row)), 2) })}`);
  if (grid.hidden) facts.push(` · ${say('hidden {share}', { share: fixed(grid.hidden[row]) })}`);
  return facts;
}

function describeRow(grid, row) {
  if (grid.columns === 0) return [soft(say('All tokens of this row are hidden.'))];
  const values = rowOf(grid, row);
  const column = strongest(values.map(Math.abs));
  const names = { row: strong(grid.rowGroups[row]), column: strong(grid.columnGroups[column]) };
  if (grid.mode === 'without')
    return sayParts('{row} changes most without {column}: its log p by {value}', {
      ...names,
      value: changeText(values[column]),
    });
  const value = valueText(grid.mode, values[column]);
  const total =
    grid.mode === 'weight' && !grid.isMax
      ? []
      : [` · ${say('{total} in the whole row', { total: fixed(sum(values), 2) })}`];
  const sentence =
    grid.mode === 'difference'
      ? sayParts('{row} differs most at {column} {value}', { ...names, value })
      : sayParts('{row} reads most from {column} {value}', { ...names, value });
  return [...sentence, ...total, ...rowFacts(grid, row)];
}

function describeColumn(grid, column) {
  if (grid.rows === 0) return [soft(say('All tokens of this column are hidden.'))];
  const values = Float64Array.from({ length: grid.rows }, (_, row) => grid.values[row * grid.columns + column]);
  const row = strongest(values.map(Math.abs));
  const names = { row: strong(grid.rowGroups[row]), column: strong(grid.columnGroups[column]) };
  if (grid.mode === 'without')
    return sayParts('Without {column}, {row} changes most: its log p by {value}', {
      ...names,
      value: changeText(values[row]),
    });
  const value = valueText(grid.mode, values[row]);
  const total = ` · ${say('{total} in all rows together', { total: fixed(sum(values), 2) })}`;
  return grid.mode === 'difference'
    ? [...sayParts('{column} differs most in {row} {value}', { ...names, value }), total]
    : [...sayParts('{column} is read most by {row} {value}', { ...names, value }), total];
}
