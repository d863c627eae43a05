// The one state of the viewer, the one function that changes it, and what can be asked of it.
// Views draw from the state and send changes back; nothing else remembers anything.
// Layers, heads, rows and columns count from 0; rows and columns are those of the record's tokens, also
// while words are merged or specials hidden.

import { KINDS } from './payload.js';

export const MODES = ['weight', 'norm', 'rollout', 'difference'];
export const REDUCTIONS = ['mean', 'max'];
export const SCALES = ['shared', 'row'];
export const SORTS = ['confidence', 'entropy', 'offset_share', 'sinks', 'rare', 'focus', 'importance'];
export const PANELS = ['head', 'cell', 'step', 'mute', 'training'];

// What the person chose: the address carries these, and a link opens with those that it lacks as here.
export const CHOICES = Object.freeze({
  kind: 'cross',
  layer: 0,
  head: 0, // null: all heads of the layer together
  reduce: 'mean', // how several heads become one matrix
  selection: Object.freeze([]), // two heads or more of this kind, [kind, layer, head] each, shown together
  mode: 'weight', // which value of a cell is shown
  pin: null, // a spot { row, column, token }; `token` says that it is a token's row and column, not a cell
  mutes: Object.freeze([]), // silent heads, [kind, layer, head] each
  hideSpecials: false,
  words: false, // sub-words are merged to words
  threshold: 1, // each row shows its largest cells up to this share of its sum; the others are paled
  scale: 'shared', // colours mean the same in all rows, or each row has its own largest value
  sort: null, // the measure that orders the heads of the atlas; null: by their numbers
  panel: 'head', // the open tab of the inspector
});

// What was translated or asked of the server, for the record on screen.
const ANSWERS = Object.freeze({
  values: Object.freeze({ norm: null, rollout: null }),
  muted: null,
  importance: null,
  cell: null,
  beams: null,
  scored: null, // the record of a translation that a person gave
  visit: null, // { what, label, from } while another record stands in place of the model's own
});

export const EMPTY = Object.freeze({
  record: null, // the decoded payload
  caption: null, // { text, kind, layer, head }: what is known of a head that this sentence shows well
  ...CHOICES,
  ...ANSWERS,
  lastHead: 0, // the head to come back to from the average
  hover: null, // a spot of the current matrix like `pin`; row or column may be null
  step: 0, // the decoder's step whose next words are listed
  reference: null, // { label, record, heads }: what `difference` compares with; without heads, the same ones
  training: null,
  busy: null, // { what, cancel, waiting } while the server is asked
  error: null, // one sentence
  theme: 'light',
});

export function createStore(initial = EMPTY) {
  let state = initial;
  const views = [];
  return {
    get: () => state,
    // A view is called with the new state and the one before.
    subscribe: (view) => views.push(view),
    change(changes) {
      const before = state;
      state = settle({ ...state, ...changes });
      for (const view of views) view(state, before);
    },
  };
}

// Keep every index inside the record and every choice among those there are; let the step follow the row in focus.
function settle(state) {
  if (!state.record) return state;
  const { layers, heads, rows, columns } = state.record.attention[state.kind];
  const inside = (spot) => keepInside(spot, rows, columns);
  const settled = settleHeads({
    ...state,
    layer: clamp(state.layer, layers),
    head: state.head === null ? null : clamp(state.head, heads),
    lastHead: clamp(state.lastHead, heads),
    hover: inside(state.hover),
    pin: inside(state.pin),
    step: clamp(state.step, state.record.tokens.predicted.length),
    mode: state.mode === 'difference' && !state.reference ? 'weight' : state.mode,
    sort: state.sort === 'importance' && !state.importance ? null : state.sort,
  });
  const row = focusOf(settled)?.row ?? null;
  return state.kind === 'encoder' || row === null ? settled : { ...settled, step: row };
}

// Heads that the record lacks leave; a selection of one head is that head.
function settleHeads(state) {
  const there = keepHeads(state, state.selection, (head) => head[0] === state.kind);
  const settled = {
    ...state,
    mutes: keepHeads(state, state.mutes),
    selection: there.length > 1 ? there : CHOICES.selection,
  };
  if (there.length !== 1) return settled;
  const [[, layer, head]] = there;
  return { ...settled, layer, head, lastHead: head };
}

// The same array comes back when nothing leaves, so that views can compare by identity.
function keepHeads({ record }, chosen, belongs = () => true) {
  const exists = ([kind, layer, head]) => layer < record.attention[kind].layers && head < record.attention[kind].heads;
  const isFirst = (one, place) => chosen.findIndex((other) => sameHead(one, other)) === place;
  const kept = chosen.filter((one, place) => exists(one) && belongs(one) && isFirst(one, place));
  return kept.length === chosen.length ? chosen : kept;
}

function clamp(value, size) {
  return Math.min(size - 1, Math.max(0, value));
}

function keepInside(spot, rows, columns) {
  if (!spot || (spot.row ?? 0) >= rows || (spot.column ?? 0) >= columns) return null;
  return spot;
}

// What is lit: the spot under the pointer, else the pinned one.
export function focusOf(state) {
  return state.hover ?? state.pin;
}

export function isCell(spot) {
  return Boolean(spot) && !spot.token && spot.row !== null && spot.column !== null;
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

// The mode that can be shown now: norms and rollouts come from the server, and are weights until they are there.
export function effectiveMode({ mode, values }) {
  return (mode === 'norm' || mode === 'rollout') && !values[mode] ? 'weight' : mode;
}

export function isMuted(state, head) {
  return state.mutes.some((one) => sameHead(one, head));
}

export function differs(state, before, names) {
  return names.some((name) => state[name] !== before[name]);
}

export function selectionChanged(state, before) {
  return differs(state, before, ['record', 'kind', 'layer', 'head', 'selection', 'reduce', 'theme']);
}

// Changes, for `store.change`.

export function togglePin(state, spot) {
  return { pin: sameSpot(state.pin, spot) ? null : spot };
}

// The decoder and cross-attention have the same rows, so a pinned row stays; other pins have no counterpart.
export function chooseKind(state, kind) {
  if (kind === state.kind) return {};
  const row = kind === 'encoder' || state.kind === 'encoder' ? null : (state.pin?.row ?? null);
  return { kind, selection: CHOICES.selection, hover: null, pin: row === null ? null : { row, column: null } };
}

export function chooseHead(state, layer, head) {
  return { layer, head, lastHead: head ?? state.lastHead, selection: CHOICES.selection };
}

// Shift-click adds a head to those shown or takes it out again.
export function extendSelection(state, layer, head) {
  const shown = state.head === null && state.selection.length === 0 ? [] : chosenHeads(state);
  const one = [state.kind, layer, head];
  const rest = shown.filter((other) => !sameHead(one, other));
  const selection = rest.length < shown.length && rest.length > 0 ? rest : [...rest, one];
  return { selection, ...(rest.length < shown.length ? {} : { layer, head, lastHead: head }) };
}

// Left and right run through the heads and the average, which stands after the last head.
export function moveHead(state, distance) {
  const { heads } = state.record.attention[state.kind];
  const place = (state.head ?? heads) + distance;
  const next = Math.min(heads, Math.max(0, place));
  return chooseHead(state, state.layer, next === heads ? null : next);
}

export function moveLayer(state, distance) {
  return { layer: state.layer + distance, selection: CHOICES.selection };
}

export function toggleAverage(state) {
  const back = state.head === null && state.selection.length === 0;
  return chooseHead(state, state.layer, back ? state.lastHead : null);
}

// Silence the heads shown, or let them speak again when all of them are silent already.
export function toggleMute(state, heads = chosenHeads(state)) {
  const others = state.mutes.filter((one) => !heads.some((head) => sameHead(one, head)));
  const silent = heads.every((head) => isMuted(state, head));
  return { mutes: silent ? others : [...others, ...heads] };
}

// A new record keeps the choices; the very first one opens on the head of its caption, or on its clearest one.
export function show(state, record, caption = null) {
  const changes = { record, caption, ...ANSWERS, hover: null, pin: null, step: 0, error: null };
  if (state.record && sameShape(state.record, record)) return changes;
  const fresh = { ...changes, training: null, reference: null, mutes: CHOICES.mutes, selection: CHOICES.selection };
  return { ...fresh, ...(caption ? headOf(caption) : { kind: 'cross', ...clearestHead(record) }) };
}

// The head of a caption, as a choice.
export function headOf({ kind, layer, head }) {
  return { kind, layer, head, lastHead: head, selection: CHOICES.selection };
}

function sameShape(one, other) {
  const sizes = (record) => KINDS.flatMap((kind) => [record.attention[kind].layers, record.attention[kind].heads]);
  return one.model.name === other.model.name && String(sizes(one)) === String(sizes(other));
}

// The head whose rows each have a source word of their own: the measure is `source_focus` of model/analysis/measures.py.
function clearestHead(record) {
  const { focus } = record.measures.cross;
  let best = [0, 0];
  focus.forEach((heads, layer) =>
    heads.forEach((value, head) => {
      if (value > focus[best[0]][best[1]]) best = [layer, head];
    }),
  );
  const [layer, head] = best;
  return { layer, head, lastHead: head };
}

// Where a token of the strip stands in the current matrix. Target place 0 is the start token, which only reads.
export function spotOfToken(state, side, place) {
  const length = state.record.tokens.predicted.length;
  if (state.kind === 'encoder') return side === 'source' ? { row: place, column: place, token: true } : null;
  if (side === 'source') return state.kind === 'cross' ? { row: null, column: place } : null;
  const row = place === 0 ? null : place - 1;
  const column = state.kind === 'decoder' && place < length ? place : null;
  if (row === null && column === null) return null;
  return { row, column, token: row !== null && column !== null };
}

// The other way: the places in the strip of a row and of a column, null where there is none.
export function placeOfRow(kind, row) {
  if (row === null || row === undefined) return null;
  return kind === 'encoder' ? { side: 'source', place: row } : { side: 'target', place: row + 1 };
}

export function placeOfColumn(kind, column) {
  if (column === null || column === undefined) return null;
  return { side: kind === 'decoder' ? 'target' : 'source', place: column };
}
