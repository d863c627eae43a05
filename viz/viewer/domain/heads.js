// Heads as [kind, layer, head]: which ones a state shows, and which ones a record has.

import { THRESHOLDS } from './limits.js';
import { KINDS } from './payload.js';

/** @type {(one: Head, other: Head) => boolean} */
export const sameHead = (one, other) => one.every((value, place) => value === other[place]);

// The heads that the matrix shows, [kind, layer, head] each: one, a selection, or all of a layer.
/** @type {(state: State) => readonly Head[]} */
export function chosenHeads({ record, kind, layer, head, selection }) {
  if (selection.length > 0) return selection;
  if (head !== null) return [[kind, layer, head]];
  return Array.from({ length: record.attention[kind].heads }, (_, each) => [kind, layer, each]);
}

/** @type {(state: { record: TranslationRecord; kind: Kind }) => Head[]} */
export function headsOfKind({ record, kind }) {
  const { layers, heads } = record.attention[kind];
  return Array.from({ length: layers * heads }, (_, one) => [kind, Math.floor(one / heads), one % heads]);
}

/** @type {(state: State, record: TranslationRecord) => Head | undefined} */
export const missingHead = (state, record) => chosenHeads(state).find((head) => !hasHead(record, head));

/** @type {(state: State, record: TranslationRecord) => boolean} */
export const hasHeads = (state, record) => missingHead(state, record) === undefined;

// Whether this kind is a running memory: its heads are memories, from short to long; what a row lacks to 1 comes from nothing.
/** @type {(record: TranslationRecord, kind: Kind) => boolean} */
export const isMemory = (record, kind) => kind === 'decoder' && Boolean(record.is_recurrent);

/** @type {(record: TranslationRecord, head: Head) => boolean} */
export const hasHead = ({ attention }, [kind, layer, head]) =>
  layer < attention[kind].layers && head < attention[kind].heads;

// Every head with its value in tables by kind, [layer][head].
/** @type {<Found>(tables: Partial<ByKind<Found[][]>>) => { head: Head; value: Found }[]} */
export const headsWith = (tables) =>
  KINDS.flatMap((kind) =>
    (tables[kind] ?? []).flatMap((row, layer) => row.map((value, head) => ({ head: [kind, layer, head], value }))),
  );

// The head of cross-attention that reads the source in the most focused way.
/** @type {(focus: number[][]) => Head} */
export const mostFocused = (focus) =>
  headsWith({ cross: focus }).reduce((best, one) => (one.value > best.value ? one : best)).head;

// The heads without which the translation becomes clearly less likely, the first one most.
/** @type {(changes: ByKind<number[][]>) => { head: Head; value: number }[]} */
export function neededHeads(changes) {
  const needed = headsWith(changes).filter(({ value }) => value <= -THRESHOLDS.needed);
  return needed.sort((one, other) => one.value - other.value).slice(0, THRESHOLDS.named);
}
