// The one state of the viewer, the one function that changes it, and questions about it. The panels draw from the
// state and send changes back; no panel keeps a copy of it.
// Layers, heads, rows and columns count from 0. Rows and columns are those of the record's tokens, also while
// words are merged or special tokens are hidden.

import { clamp } from './math.js';
import { KINDS, isAllowed } from './payload.js';

export const MODES = ['weight', 'norm', 'rollout', 'difference'];
export const REDUCTIONS = ['mean', 'max'];
export const SCALES = ['shared', 'row'];
export const TABS = ['head', 'cell', 'step', 'mute', 'training', 'examples'];

export const BASELINES = ['zero', 'mean', 'sentence'];
// Word links: of the best head, both of its directions joined, of the average, of a taught head, the person's own.
export const LINKED = ['best', 'joined', 'average', 'taught', 'own'];
const NO_HEADS = Object.freeze([]);
// Nothing, their mean over sentences of the project, or what they give for another sentence; in all rows or in one.
const ZERO = Object.freeze({ baseline: 'zero', sentence: '', row: null });

// What the person chose. A link carries these choices; a choice that is not in the link has the value below.
export const CHOICES = Object.freeze({
  kind: 'cross',
  layer: 0,
  head: 0, // null: all heads of the layer together
  reduce: 'mean', // how several heads become one matrix
  selection: NO_HEADS, // two or more heads of this kind, [kind, layer, head] each, shown together
  mode: 'weight', // which value of a cell is shown
  pin: null, // a spot { row, column, token }; `token` means a token's row and column instead of a cell
  mutes: NO_HEADS, // muted heads, [kind, layer, head] each
  instead: ZERO, // what these heads give instead of their own output
  hideSpecials: false,
  words: false, // sub-words are merged to words
  threshold: 1, // each row shows its largest cells up to this share of its sum; the others are pale
  scale: 'shared', // colours mean the same in all rows, or each row uses its own largest value
  fit: true, // the whole matrix is shown if its cells stay large enough; otherwise it scrolls
  sort: null, // the measure that orders the heads of the overview; null: by their numbers
  panel: 'head', // the open tab of the inspector
  questions: Object.freeze([]), // the instruments that are open, by the names of core/instruments/questions.js
  linkedBy: LINKED[0], // whose word links the strip shows while their question is open
  gold: '', // the person's own word links in Pharaoh form, such as 0-0 2-1
  other: null, // the id of a word: why was the word of the step said, and not this one?
  learn: null, // the open chapter of Learn, from 1
  beside: null, // what stands beside the view, { by, with, to, apart }; see core/instruments/comparison.js
});

// A view is one record and what the server said about it. The state has two of them: `home` is the model's own
// translation, and `shown` is another record opened in its place, or null. The fields of the view on screen are
// also fields of the state: `state.record` is the record on screen, and a change of `mutes` changes that view.
const EMPTY_VIEW = Object.freeze({
  record: null, // the decoded payload
  mutes: NO_HEADS,
  muted: null, // what muting `heads`, or what they give `instead`, changes; its `record` is the translation then
  values: Object.freeze({ norm: null, rollout: null }),
  importance: null,
  cell: null,
  beams: null,
  scored: null, // the record of a translation that the person typed
  answers: Object.freeze({}), // of the instruments by name, { question, answer } each; without an answer, null
});
const VIEW_FIELDS = Object.keys(EMPTY_VIEW);

export const EMPTY = Object.freeze({
  home: EMPTY_VIEW,
  shown: null, // a view with its `type`, a `label` for the person, and the `choices` to restore; see openView
  ...EMPTY_VIEW,
  ...CHOICES,
  caption: null, // { text, kind, layer, head }: what is known of a head that this sentence shows well
  lastHead: 0, // the head that follows the average
  hover: null, // a spot of the current matrix like `pin`; row or column may be null
  step: 0, // the decoder's step whose next words are listed
  reference: null, // { label, record, heads }: what `difference` subtracts; without heads, the same heads
  about: Object.freeze({}), // what is known of each model: a study of its heads, its training range, its card
  trainings: Object.freeze({}), // curves and saved steps by the name of the model
  surveys: Object.freeze({}), // what the heads do over many sentences, by the name of the model; see core/instruments/survey.js
  drawing: null, // while the person draws word links: { source }, the source word that was clicked, or null
  busy: null, // { what, cancel, waiting } while the server works
  error: null, // one sentence
  theme: 'light',
  opposite: null, // the record beside the view, { question, record }; the record is null if there was no answer
  isSecond: false, // whether this is the state of what stands beside the view
});

// What closing a view restores.
const RESTORED = [
  ...Object.keys(CHOICES).filter(
    (name) => !['mutes', 'instead', 'panel', 'questions', 'learn', 'beside'].includes(name),
  ),
  'caption',
  'lastHead',
  'step',
  'reference',
];

export function createStore(initial = EMPTY) {
  let state = initial;
  const listeners = [];
  return {
    get: () => state,
    // A listener gets the new state and the one before.
    subscribe: (listener) => listeners.push(listener),
    change(changes) {
      const before = state;
      const merged = merge(state, changes);
      state = merge(merged, settle(merged));
      for (const listener of listeners) listener(state, before);
    },
  };
}

// Writes the changed fields of a view into the view on screen, and copies that view's fields into the state.
function merge(state, changes) {
  const merged = { ...state, ...changes };
  const place = merged.shown ? 'shown' : 'home';
  const changed = VIEW_FIELDS.filter((name) => name in changes && changes[name] !== merged[place][name]);
  if (changed.length > 0) merged[place] = { ...merged[place], ...pick(changes, changed) };
  return { ...merged, ...pick(merged[place], VIEW_FIELDS) };
}

function pick(object, names) {
  return Object.fromEntries(names.map((name) => [name, object[name]]));
}

// Keeps every index inside the record and every choice possible; the step follows the row in focus.
function settle(state) {
  if (!state.record) return {};
  const { layers, heads, rows, columns } = state.record.attention[state.kind];
  const inside = (spot) => keepInside(spot, rows, columns);
  const settled = settleHeads({
    ...state,
    layer: clamp(state.layer, layers),
    head: state.head === null ? null : clamp(state.head, heads),
    lastHead: clamp(state.head ?? state.lastHead, heads),
    hover: inside(state.hover),
    pin: inside(state.pin),
    step: clamp(state.step, state.record.tokens.predicted.length),
    mode: state.mode === 'difference' && !state.reference ? 'weight' : state.mode,
    sort: state.sort === 'importance' && !state.importance ? null : state.sort,
  });
  const row = focusOf(settled)?.row ?? null;
  return state.kind === 'encoder' || row === null ? settled : { ...settled, step: row };
}

// Removes heads that the record does not have; a selection of one head becomes that head.
function settleHeads(state) {
  const selected = keepHeads(state, state.selection, (head) => head[0] === state.kind);
  const settled = {
    ...state,
    mutes: keepHeads(state, state.mutes),
    selection: selected.length > 1 ? selected : NO_HEADS,
  };
  if (selected.length !== 1) return settled;
  const [[, layer, head]] = selected;
  return { ...settled, layer, head, lastHead: head };
}

// Returns the same array when every head is kept, so that callers can compare by identity.
function keepHeads({ record }, chosen, belongs = () => true) {
  const exists = ([kind, layer, head]) => layer < record.attention[kind].layers && head < record.attention[kind].heads;
  const isFirst = (one, place) => chosen.findIndex((other) => sameHead(one, other)) === place;
  const kept = chosen.filter((one, place) => exists(one) && belongs(one) && isFirst(one, place));
  return kept.length === chosen.length ? chosen : kept;
}

function keepInside(spot, rows, columns) {
  if (!spot || (spot.row ?? 0) >= rows || (spot.column ?? 0) >= columns) return null;
  return spot;
}

// Questions about a state.

// The spot to highlight: the one under the pointer, or the pinned one.
export function focusOf(state) {
  return state.hover ?? state.pin;
}

export function isCell(spot) {
  return Boolean(spot) && !spot.token && spot.row !== null && spot.column !== null;
}

// The pinned cell of a single head, if the mask allows it: { kind, layer, head, row, column }, otherwise null.
export function pinnedCell({ record, kind, layer, head, selection, pin }) {
  if (!record || head === null || selection.length > 0 || !isCell(pin)) return null;
  return isAllowed(record, kind, pin.row, pin.column) ? { kind, layer, head, row: pin.row, column: pin.column } : null;
}

// Whether the server's answer about a cell is about the pinned one.
export function isExplained(state) {
  const place = pinnedCell(state);
  return Boolean(state.cell && place) && Object.keys(place).every((name) => state.cell[name] === place[name]);
}

export function sameSpot(one, other) {
  return one?.row === other?.row && one?.column === other?.column && Boolean(one?.token) === Boolean(other?.token);
}

export function sameHead(one, other) {
  return one.every((value, place) => value === other[place]);
}

// The heads that the matrix shows, [kind, layer, head] each: one, a selection, or all of a layer.
export function chosenHeads({ record, kind, layer, head, selection }) {
  if (selection.length > 0) return selection;
  if (head !== null) return [[kind, layer, head]];
  return Array.from({ length: record.attention[kind].heads }, (_, each) => [kind, layer, each]);
}

// All heads of the kind on screen.
export function headsOfKind({ record, kind }) {
  const { layers, heads } = record.attention[kind];
  return Array.from({ length: layers * heads }, (_, one) => [kind, Math.floor(one / heads), one % heads]);
}

export function isMuted(state, head) {
  return state.mutes.some((one) => sameHead(one, head));
}

export function differs(state, before, names) {
  return names.some((name) => state[name] !== before[name]);
}

// The view that muted heads and their importance refer to. If the translation with muted heads is on screen, this is
// the translation that it is compared with.
export function sourceView({ home, shown }) {
  return (shown?.type === 'muted' ? shown.source : shown) ?? home;
}

// The saved step and sentence of the training that are on screen, { step, sentence }, or null.
export function trainingStep({ shown }) {
  return shown?.type === 'training' ? shown : null;
}

// The view that the server can compute again from the model, the sentence, the given tokens and the muted heads.
export function reproducibleView(state) {
  return trainingStep(state) ? state.home : sourceView(state);
}

// Whether another sentence than the person's is on screen: one of the training, or the word of the tour.
export function isElsewhere({ shown }) {
  return shown?.type === 'training' || shown?.type === 'tour';
}

// What is known of the model on screen; nothing in an exported file.
export function aboutModel({ about, record }) {
  return Object.hasOwn(about, record.model.name) ? about[record.model.name] : {};
}

// Changes, for `store.change`.

export function togglePin(state, spot) {
  return { pin: sameSpot(state.pin, spot) ? null : spot };
}

// The decoder and cross-attention have the same rows, so a pinned row stays; other pins are cleared.
export function chooseKind(state, kind) {
  if (kind === state.kind) return {};
  const row = kind === 'encoder' || state.kind === 'encoder' ? null : (state.pin?.row ?? null);
  return { kind, selection: NO_HEADS, hover: null, pin: row === null ? null : { row, column: null } };
}

export function chooseHead(state, layer, head) {
  return { layer, head, lastHead: head ?? state.lastHead, selection: NO_HEADS };
}

// Shift-click adds a head to those shown or removes it.
export function extendSelection(state, layer, head) {
  const chosen = state.head === null && state.selection.length === 0 ? [] : chosenHeads(state);
  const one = [state.kind, layer, head];
  const rest = chosen.filter((other) => !sameHead(one, other));
  const selection = rest.length < chosen.length && rest.length > 0 ? rest : [...rest, one];
  return { selection, ...(rest.length < chosen.length ? {} : { layer, head, lastHead: head }) };
}

// The left and right arrows move through the heads; the average comes after the last head.
export function moveHead(state, distance) {
  const { heads } = state.record.attention[state.kind];
  const next = clamp((state.head ?? heads) + distance, heads + 1);
  return chooseHead(state, state.layer, next === heads ? null : next);
}

export function moveLayer(state, distance) {
  return { layer: state.layer + distance, selection: NO_HEADS };
}

export function toggleAverage(state) {
  const isAverage = state.head === null && state.selection.length === 0;
  return chooseHead(state, state.layer, isAverage ? state.lastHead : null);
}

// Mutes the heads, or unmutes them when all of them are muted already.
export function toggleMute(state, heads = chosenHeads(state)) {
  const others = state.mutes.filter((one) => !heads.some((head) => sameHead(one, head)));
  return { mutes: heads.every((head) => isMuted(state, head)) ? others : [...others, ...heads] };
}

// Shows a new translation. Choices are kept if the model has the same heads; otherwise the head of the caption, or
// the clearest head, is chosen. The choices made for a sentence of the training or of the tour end with it.
export function showRecord(state, record, caption = null) {
  const back = isElsewhere(state) ? goHome(state) : {};
  const before = isElsewhere(state) ? { ...state, ...back, ...pick(state.home, VIEW_FIELDS) } : state;
  const home = createView(before, record);
  const instead = withoutRow(state.instead); // the row belongs to the sentence before
  return { ...back, ...choicesFor(before, record, caption), home, shown: null, caption, pin: null, step: 0, instead };
}

// What muted heads give instead, in all rows.
export function withoutRow(instead) {
  return instead.row === null ? instead : { ...instead, row: null };
}

// Opens another record in place of the model's own. `type` is one of forced, hypothesis, reference, muted, training
// and tour; `label` is the text for the person. A training view also has its `step` and its `sentence`; a muted view
// has the `source` that it is compared with, null for the model's own translation.
export function openView(state, record, { type, label, ...details }) {
  const choices = state.shown?.choices ?? pick(state, RESTORED);
  const source = type === 'muted' ? state.shown : null;
  const shown = { ...createView(state, record), type, label, ...details, source, choices };
  const mode = type === 'training' ? 'weight' : state.mode;
  return { ...choicesFor(state, record), shown, caption: null, mode };
}

// Goes back to the view from which this one was opened.
export function closeView(state) {
  return state.shown?.source ? { shown: state.shown.source, hover: null, error: null } : goHome(state);
}

// Goes back to the model's own translation and restores the choices from before.
export function goHome({ shown }) {
  return shown ? { ...shown.choices, shown: null, hover: null, error: null } : {};
}

// Changes one of the state's views, also when it is not on screen.
export function changeView(state, view, changes) {
  const changed = { ...view, ...changes };
  if (view === state.home) return { home: changed };
  return { shown: view === state.shown ? changed : { ...state.shown, source: changed } };
}

function createView(state, record) {
  return { ...EMPTY_VIEW, record, mutes: sameHeads(state.record, record) ? state.mutes : NO_HEADS };
}

function choicesFor(state, record, caption = null) {
  const changes = { hover: null, drawing: null, error: null };
  if (sameHeads(state.record, record)) return changes;
  return { ...changes, reference: null, ...headOf(caption ?? clearestHead(record)) };
}

// Whether two records are of one model, with the same layers and heads.
function sameHeads(one, other) {
  const sizes = (record) => KINDS.flatMap((kind) => [record.attention[kind].layers, record.attention[kind].heads]);
  return one?.model.name === other.model.name && String(sizes(one)) === String(sizes(other));
}

// A head { kind, layer, head } as a choice.
export function headOf({ kind, layer, head }) {
  return { kind, layer, head, lastHead: head, selection: NO_HEADS };
}

// The head with the largest source focus: each of its rows reads a source word of its own.
function clearestHead(record) {
  const all = record.measures.cross.focus.flatMap((heads, layer) =>
    heads.map((value, head) => ({ kind: 'cross', layer, head, value })),
  );
  return all.reduce((best, one) => (one.value > best.value ? one : best));
}

// Tokens of the strip and spots of the matrix.

// The spot of a token in the current matrix. Target place 0 is the start token, which is only read.
export function spotOfToken(state, side, place) {
  const length = state.record.tokens.predicted.length;
  if (state.kind === 'encoder') return side === 'source' ? { row: place, column: place, token: true } : null;
  if (side === 'source') return state.kind === 'cross' ? { row: null, column: place } : null;
  const row = place === 0 ? null : place - 1;
  const column = state.kind === 'decoder' && place < length ? place : null;
  if (row === null && column === null) return null;
  return { row, column, token: row !== null && column !== null };
}

// The reverse: the place in the strip of a row or a column.
export function placeOfRow(kind, row) {
  return kind === 'encoder' ? { side: 'source', place: row } : { side: 'target', place: row + 1 };
}

export function placeOfColumn(kind, column) {
  return { side: kind === 'decoder' ? 'target' : 'source', place: column };
}
