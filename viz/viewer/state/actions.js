// User actions, as changes for `store.change`.

import { USUAL, chosenValue } from '../values/values.js';
import { clamp } from '../domain/math.js';
import { KINDS, placesToRemove } from '../domain/payload.js';
import { chosenHeads, mostFocused, sameHead } from '../domain/heads.js';
import { isElsewhere, isMuted, sameSpot } from './queries.js';
import { CHOICES, EMPTY_VIEW, NO_HEADS, VIEW_FIELDS, pick } from './store.js';

const RESTORED = [
  ...Object.keys(CHOICES).filter(
    (name) => !['mutes', 'gold', 'ablation', 'panel', 'questions', 'learn', 'minutes', 'sideB'].includes(name),
  ),
  'lastHead',
  'step',
  'reference',
];

// What a sentence of In short can change.
const OPENED = [
  ...['kind', 'layer', 'head', 'lastHead', 'selection', 'valueName'],
  ...['pin', 'words', 'mutes', 'panel', 'step', 'questions'],
];

// Opens the view of a sentence of In short, always from the choices before the first one; `changesOf` gives its changes.
/** @type {(state: State, changesOf: (state: State) => Changes) => Changes} */
export function openAside(state, changesOf) {
  const aside = { ...(state.aside ?? pick(state, OPENED)) }; // a new one, by which the store knows that In short changes the view
  return { ...aside, ...changesOf({ ...state, ...aside }), hover: null, aside };
}

/** @type {(state: { aside: Changes | null }) => Changes} */
export const closeAside = ({ aside }) => (aside ? { ...aside, hover: null, aside: null } : {});

// Pins a spot, or unpins what is pinned already. A row and a column that are pinned one after the other are a cell.
/** @type {(state: { pin: Spot | null }, spot: Spot) => Changes} */
export function togglePin({ pin }, spot) {
  if (sameSpot(pin, spot)) return { pin: null };
  const isLine = (spot.row === null) !== (spot.column === null);
  if (!isLine || !pin || pin.token) return { pin: spot };
  const toggle = (now, then) => (now === null ? then : now === then ? null : now);
  const [row, column] = [toggle(spot.row, pin.row), toggle(spot.column, pin.column)];
  return { pin: row === null && column === null ? null : { row, column } };
}

/** @type {(state: State, place: number) => Changes} */
export function toggleRemoved({ record, removedAt }, place) {
  const [first] = placesToRemove(record, place);
  return { removedAt: removedAt === first ? null : first };
}

// The decoder and cross-attention have the same rows, so a pinned row stays; other pins are cleared.
/** @type {(state: State | EmptyState, kind: Kind) => Changes} */
export function chooseKind(state, kind) {
  if (kind === state.kind) return {};
  const row = kind === 'encoder' || state.kind === 'encoder' ? null : (state.pin?.row ?? null);
  return { kind, selection: NO_HEADS, hover: null, pin: row === null ? null : { row, column: null } };
}

/** @type {(state: State, layer: number, head: number | null) => Changes} */
export function chooseHead(state, layer, head) {
  return { layer, head, lastHead: head ?? state.lastHead, selection: NO_HEADS };
}

// Shift-click adds a head to the heads on screen or removes it.
/** @type {(state: State, layer: number, head: number) => Changes} */
export function extendSelection(state, layer, head) {
  const chosen = state.head === null && state.selection.length === 0 ? [] : chosenHeads(state);
  /** @type {Head} */
  const one = [state.kind, layer, head];
  const rest = chosen.filter((other) => !sameHead(one, other));
  const selection = rest.length < chosen.length && rest.length > 0 ? rest : [...rest, one];
  return { selection, ...(rest.length < chosen.length ? {} : { layer, head, lastHead: head }) };
}

// The left and right arrows move through the heads; the average comes after the last head.
/** @type {(state: State, distance: number) => Changes} */
export function moveHead(state, distance) {
  const { heads } = state.record.attention[state.kind];
  const next = clamp((state.head ?? heads) + distance, heads + 1);
  return chooseHead(state, state.layer, next === heads ? null : next);
}

/** @type {(state: State, distance: number) => Changes} */
export const moveLayer = (state, distance) => ({ layer: state.layer + distance, selection: NO_HEADS });

/** @type {(state: State) => Changes} */
export function toggleAverage(state) {
  const isAverage = state.head === null && state.selection.length === 0;
  return chooseHead(state, state.layer, isAverage ? state.lastHead : null);
}

// Mutes the heads, or unmutes them when all of them are muted already.
/** @type {(state: State, heads?: readonly Head[]) => Changes} */
export function toggleMute(state, heads = chosenHeads(state)) {
  const others = state.mutes.filter((one) => !heads.some((head) => sameHead(one, head)));
  return { mutes: heads.every((head) => isMuted(state, head)) ? others : [...others, ...heads] };
}

// Shows a new translation. Choices are kept if the model has the same heads; otherwise the head that shows word pairs
// best is chosen. The choices made for a sentence of the training, and what In short opened, end with it.
/** @type {(opened: State | EmptyState, record: TranslationRecord) => Changes} */
export function showRecord(opened, record) {
  const { mutes: _, ...closed } = closeAside(opened);
  const state = { ...opened, ...closeAside(opened) };
  const back = { ...closed, ...(isElsewhere(state) ? goHome(state) : {}) };
  const before = isElsewhere(state) ? { ...state, ...back, ...pick(state.home, VIEW_FIELDS) } : state;
  const home = createView(before, record);
  const ablation = withoutRow(state.ablation); // the row belongs to the sentence before
  return { ...back, ...choicesFor(before, record), home, shown: null, pin: null, step: 0, ablation };
}

/** @type {(ablation: Ablation) => Ablation} */
export const withoutRow = (ablation) => (ablation.row === null ? ablation : { ...ablation, row: null });

// What is known of a model whose weights have changed is forgotten, so that it is asked again.
/** @type {(state: Pick<State, 'trainings' | 'beside'>, name: string) => Changes} */
export function forgetModel({ trainings, beside }, name) {
  const others = Object.entries(trainings).filter(([model]) => model !== name);
  const isOfModel = beside?.record?.model.name === name;
  return { trainings: Object.fromEntries(others), beside: isOfModel ? null : beside };
}

// Opens another record in place of the model's own. `type` is one of forced, hypothesis, reference, muted and
// training; `label` is the text for the person. A training view also has its `step` and its `sentence`; a muted view
// has the `source` that it is compared with, null for the model's own translation.
/** @type {(state: State, record: TranslationRecord, details: { type: OpenedView['type']; label: string; step?: number; sentence?: number }) => Changes} */
export function openView(state, record, { type, label, ...details }) {
  const choices = state.shown?.choices ?? pick(state, RESTORED);
  const source = type === 'muted' ? state.shown : null;
  const shown = { ...createView(state, record), type, label, ...details, source, choices };
  const isAskedInVain = ['training', 'muted'].includes(type) && chosenValue(state).request;
  return { ...choicesFor(state, record), shown, valueName: isAskedInVain ? USUAL.name : state.valueName };
}

/** @type {(state: State) => Changes} */
export const closeView = (state) =>
  state.shown?.source ? { shown: state.shown.source, hover: null, error: null } : goHome(state);

// Goes back to the model's own translation and restores the choices from before.
/** @type {(state: { shown: OpenedView | null }) => Changes} */
export const goHome = ({ shown }) => (shown ? { ...shown.choices, shown: null, hover: null, error: null } : {});

// Changes one of the state's views, also when it is not on screen.
/** @type {(state: State, view: View, changes: Partial<View>) => Changes} */
export function changeView(state, view, changes) {
  const changed = { ...view, ...changes };
  if (view === state.home) return { home: changed };
  return { shown: /** @type {OpenedView} */ (view === state.shown ? changed : { ...state.shown, source: changed }) };
}

/** @type {(state: State | EmptyState, record: TranslationRecord) => View} */
const createView = (state, record) => ({
  ...EMPTY_VIEW,
  record,
  mutes: record.muted?.heads ?? (sameHeads(state.record, record) ? state.mutes : NO_HEADS),
  gold: sameWords(state.record, record) ? state.gold : EMPTY_VIEW.gold,
});

/** @type {(state: State | EmptyState, record: TranslationRecord) => Changes} */
function choicesFor(state, record) {
  const isSame = state.record?.model.name === record.model.name && state.record.source_text === record.source_text;
  const changes = { hover: null, drawing: null, error: null, removedAt: isSame ? state.removedAt : null };
  if (sameHeads(state.record, record)) return changes;
  return { ...changes, reference: null, ...headOf(clearestHead(record)) };
}

// Whether two records are of one model, with the same layers and heads.
/** @type {(one: TranslationRecord | null | undefined, other: TranslationRecord) => boolean} */
export function sameHeads(one, other) {
  const sizes = (record) => KINDS.flatMap((kind) => [record.attention[kind].layers, record.attention[kind].heads]);
  return one?.model.name === other.model.name && String(sizes(one)) === String(sizes(other));
}

// Whether two records are of the same sentence and the same translation, so that links between their words agree.
/** @type {(one: TranslationRecord | null, other: TranslationRecord) => boolean} */
const sameWords = (one, other) =>
  one?.model.name === other.model.name && one.source_text === other.source_text && one.text === other.text;

// Shows one head, of any kind.
/** @type {(state: State | EmptyState, head: Head) => Changes} */
export function showHead(state, [kind, layer, head]) {
  return { ...chooseKind(state, kind), ...headOf({ kind, layer, head }) };
}

// A head { kind, layer, head } as a choice.
/** @type {(head: { kind: Kind; layer: number; head: number }) => Pick<State, 'kind' | 'layer' | 'head' | 'lastHead' | 'selection'>} */
export const headOf = ({ kind, layer, head }) => ({ kind, layer, head, lastHead: head, selection: NO_HEADS });

// The head that was taught to align, or the head with the largest source focus: each of its rows reads a word of its own.
/** @type {(record: TranslationRecord) => { kind: Kind; layer: number; head: number }} */
export function clearestHead(record) {
  if (record.taught) return { kind: 'cross', layer: record.taught[0], head: record.taught[1] };
  const [kind, layer, head] = mostFocused(record.measures.cross.focus);
  return { kind, layer, head };
}
