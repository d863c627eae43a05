// Questions about a state, and which token of the strip and spot of the matrix belong together.

import { alignedOffset } from '../domain/roles.js';
import { chosenValue } from '../values/values.js';
import { chosenHeads, isMemory, sameHead } from '../domain/heads.js';
import { axes, codeAt, isAllowed, placesOfWord } from '../domain/payload.js';

// The spot to highlight: the spot under the pointer, or the pinned spot.
/** @type {(state: Pick<State, 'hover' | 'pin'>) => Spot | null} */
export const focusOf = (state) => state.hover ?? state.pin;

/** @type {(spot: Spot | null) => spot is { row: number; column: number }} */
export function isCell(spot) {
  return Boolean(spot && !spot.token && spot.row !== null && spot.column !== null);
}

// The rows and the columns of the pinned cell: all rows and columns of its two words while words are merged.
/** @type {(state: State) => { rows: number[]; columns: number[] }} */
export function placesOfPin({ record, kind, pin, words }) {
  if (!isCell(pin)) return { rows: [], columns: [] };
  const { row, column } = pin;
  if (!words) return { rows: [row], columns: [column] };
  const names = axes(record, kind);
  return { rows: placesOfWord(names.rows, row), columns: placesOfWord(names.columns, column) };
}

// The parts of the state that the pinned cell depends on.
export const PINNED = ['record', 'kind', 'layer', 'head', 'selection', 'pin', 'words'];

// The pinned cell of a single head, if the mask allows it: { kind, layer, head, row, column }, otherwise null. Of two words
// it is the cell of their pieces with the largest weight.
/** @type {(state: State | EmptyState) => Cell | null} */
export function pinnedCell(state) {
  const { record, kind, layer, head, selection, pin } = state;
  if (!record || head === null || selection.length > 0 || !isCell(pin) || isMemory(record, kind)) return null;
  const { rows, columns } = placesOfPin(state);
  const cells = rows.flatMap((row) => columns.map((column) => ({ kind, layer, head, row, column })));
  const allowed = cells.filter(({ row, column }) => isAllowed(record, kind, row, column));
  const codeOf = ({ row, column }) => codeAt(record, kind, [layer, head, row, column]);
  const largest = (best, one) => (best && codeOf(best) >= codeOf(one) ? best : one);
  return allowed.reduce(largest, /** @type {Cell | null} */ (null));
}

// Whether the answer about a cell is about the pinned one.
/** @type {(state: State) => boolean} */
export function isExplained(state) {
  const place = pinnedCell(state);
  return Boolean(state.cell && place && Object.entries(place).every(([name, value]) => state.cell[name] === value));
}

/** @type {(one: Spot | null, other: Spot | null) => boolean} */
export const sameSpot = (one, other) =>
  one?.row === other?.row && one?.column === other?.column && Boolean(one?.token) === Boolean(other?.token);

// Whether the chosen value has something to show.
/** @type {(state: State) => boolean} */
export function isPossible(state) {
  const value = chosenValue(state);
  return value.kinds.includes(state.kind) && value.isChosen(state);
}

/** @type {(state: State, head: Head) => boolean} */
export const isMuted = (state, head) => state.mutes.some((one) => sameHead(one, head));

/** @type {(state: object, before: object, names: readonly string[]) => boolean} */
export const differs = (state, before, names) => names.some((name) => state[name] !== before[name]);

// The view that muted heads and their importance refer to: what a translation with muted heads is compared with.
/** @type {(state: State) => View & Partial<OpenedView>} */
export const sourceView = ({ home, shown }) => (shown?.type === 'muted' ? shown.source : shown) ?? home;

// Whether the translation with muted heads is on screen; an exported file may hold no other.
/** @type {(state: State) => boolean} */
export const showsMuted = ({ shown, record }) => shown?.type === 'muted' || Boolean(record.muted);

// The saved step and sentence of the training that are on screen, { step, sentence }, or null.
/** @type {(state: { shown: OpenedView | null }) => OpenedView | null} */
export const trainingStep = ({ shown }) => (shown?.type === 'training' ? shown : null);

// Whether another sentence than the person's is on screen: one of the training.
/** @type {(state: { shown: OpenedView | null }) => boolean} */
export const isElsewhere = ({ shown }) => shown?.type === 'training';

// What is known of the model on screen; nothing in an exported file.
/** @type {(state: State) => any} */
export const aboutModel = ({ about, record }) =>
  Object.hasOwn(about, record.model.name) ? about[record.model.name] : {};

// Which word lights a row: 0 the word that it writes, −1 the word that it reads. A head that is aligned to the word just
// written has −1: for the word *dog* the row "dog → is" is lit. Several heads together, and heads that align no words, have 0.
/** @type {(state: State) => number} */
export function rowOffset(state) {
  const [head, ...others] = chosenHeads(state);
  return others.length > 0 || !chosenValue(state).isOfHeads ? 0 : alignedOffset(state.record, head);
}

// The row that is about the token of a step; null if there is none.
function stepToRow(state, step) {
  const row = step - rowOffset(state);
  return row >= 0 && row < state.record.tokens.predicted.length ? row : null;
}

// The spot of a token in the current matrix. Target place 0 is the start token, which is only read. The spot keeps the step
// that writes the token, which is what the tab Step is about, also if another row is lit for it.
/** @type {(state: State, side: 'source' | 'target', place: number) => Spot | null} */
export function spotOfToken(state, side, place) {
  const length = state.record.tokens.predicted.length;
  if (state.kind === 'encoder') return side === 'source' ? { row: place, column: place, token: true } : null;
  if (side === 'source') return state.kind === 'cross' ? { row: null, column: place } : null;
  const row = stepToRow(state, place - 1);
  const column = state.kind === 'decoder' && place < length ? place : null;
  if (row === null && column === null) return null;
  const step = place > 0 ? { step: place - 1 } : {};
  return { row, column, token: row !== null && column !== null, ...step };
}

// The reverse: the places in the strip of a group of rows, or the place of a column. If rows light the word that they
// read, the rows that write a merged word light what the first of them reads; the others read tokens of the word itself.
/** @type {(state: State, rows: number[]) => PlaceInStrip[]} */
export function placesOfRows(state, rows) {
  if (state.kind === 'encoder') return rows.map((place) => ({ side: 'source', place }));
  const offset = rowOffset(state);
  return (offset < 0 ? rows.slice(0, 1) : rows).map((row) => ({ side: 'target', place: row + 1 + offset }));
}

/** @type {(kind: Kind, column: number) => PlaceInStrip} */
export const placeOfColumn = (kind, column) => ({ side: kind === 'decoder' ? 'target' : 'source', place: column });
