// The one state of the viewer and the one function that changes it. The panels draw from the state and send changes
// back; no panel keeps a copy of it. A panel itself keeps only what is unfolded in it, which no link carries.
// Layers, heads, rows and columns count from 0. Rows and columns count the record's tokens, also while
// words are merged or special tokens are hidden.

import { USUAL, nameOfHeads } from '../values/values.js';
import { clamp } from '../domain/math.js';
import { importanceOf } from './measures.js';
import { differs, focusOf, isPossible } from './queries.js';
import { sameHead, hasHeads } from '../domain/heads.js';
import { isOfLetters } from '../domain/payload.js';
import { speakOfLetters } from '../locales/language.js';

export const REDUCTIONS = ['mean', 'max'];
export const SCALES = ['shared', 'row'];
export const TABS = ['head', 'cell', 'step', 'mute', 'training', 'examples'];

/** @type {Ablation['baseline'][]} */
export const BASELINES = ['zero', 'mean', 'sentence'];
export const FOUND_OVER = ['sentence', 'corpus', 'own']; // which sentences the head finder is about
// Word links: of the best head, both of its directions joined, of the average, of a taught head, the person's own.
export const LINKED = ['best', 'joined', 'average', 'taught', 'own'];
/** @type {readonly Head[]} */
export const NO_HEADS = Object.freeze([]);
// Muted heads give nothing, their mean over sentences of the project, or what they give for another sentence; in all rows or in
// one row. Here: nothing, in all rows.
/** @type {Readonly<Ablation>} */
export const ZERO = Object.freeze({ baseline: 'zero', sentence: '', row: null });

// The choices that say which heads are on screen, apart from their kind.
export const HEADS = ['layer', 'head', 'lastHead', 'selection'];

// What the person chose. A link carries these choices; a choice that is not in the link has the value below.
/** @type {Readonly<Choices>} */
export const CHOICES = Object.freeze({
  kind: 'cross',
  layer: 0,
  head: 0, // null: all heads of the layer together
  reduce: 'mean', // how several heads become one matrix
  selection: NO_HEADS, // two or more heads of this kind, [kind, layer, head] each, shown together
  valueName: USUAL.name, // which value of a cell is shown
  removedAt: null, // the place of the source token whose word is removed
  pin: null, // a spot { row, column, token, step }; `token` means a token's row and column instead of a cell, `step` is the step that writes it
  mutes: NO_HEADS, // muted heads, [kind, layer, head] each
  ablation: ZERO, // what these heads give instead of their own output
  hideSpecials: false,
  words: false, // sub-words are merged to words
  threshold: 1, // each row shows its largest cells up to this share of its sum; the others are pale
  flow: 0.04, // the share of a word that a line of its routes carries at least
  scale: 'shared', // colours mean the same in all rows, or each row uses its own largest value
  fit: true, // the whole matrix is shown if its cells stay large enough; otherwise it scrolls
  sort: null, // the measure that orders the heads of the overview; null: by their numbers
  panel: 'head', // the open tab of the inspector
  finder: null, // the open head finder, { over, x, y }: which sentences, and the measures of both axes
  questions: Object.freeze([]), // the instruments that are open, by the names of viz/viewer/instruments
  linkedBy: LINKED[0], // whose word links the strip shows while their question is open
  gold: '', // the person's own word links of this translation, in Pharaoh form, such as 0-0 2-1
  other: null, // the id of a word: why was the word of the step said, and not this one?
  learn: null, // the open chapter of Learn, from 1
  minutes: null, // the time that a teacher's link gives for it
  sideB: null, // what stands beside the view, { by, with, to, separate }; see state/comparison.js
});

// A view is one record and the answers about it. The state has three of them: `home` is the model's own translation, `shown` is
// another record opened in its place, or null, and `beside` is side B, or null. The fields of the view on screen are also
// fields of the state: `state.record` is the record on screen, and a change of `mutes` changes that view.
/** @type {Readonly<ViewFields & { record: null }>} */
export const EMPTY_VIEW = Object.freeze({
  record: null, // the decoded payload
  mutes: NO_HEADS,
  gold: '', // the person's own word links
  muted: null, // what the `ablation` of `heads` changes; its `record` is the translation then
  values: Object.freeze({}), // numbers of the values of a cell, by the names of their requests
  removed: null, // the translation without source tokens, { places, text }
  // For In short: the translation without each of the heads that it needs most, { head, text }, and the word that the likeliest
  // other token of each unsure step begins, { step, id, text, pieces }; null if not asked.
  summary: null,
  // { changes, usual, baseline, ablation }: how log p changes with the ablation of one head; `usual` are the changes if it gives
  // nothing, where they are known
  importance: null,
  cell: null,
  beams: null,
  scored: null, // the record of a translation that the person typed
  answers: Object.freeze({}), // of the instruments by name, { question, answer } each; without an answer, null
});
export const VIEW_FIELDS = Object.keys(EMPTY_VIEW);

/** @type {Readonly<EmptyState>} */
export const EMPTY = Object.freeze({
  home: EMPTY_VIEW,
  shown: null, // a view with its `type`, a `label` for the person, and the `choices` to restore; see openView
  ...EMPTY_VIEW,
  ...CHOICES,
  lastHead: 0, // the head that follows the average
  browsed: null, // the page of the overview that the person has turned to, { page, at }, while the state agrees with `at`
  hover: null, // a spot of the current matrix like `pin`; row or column may be null
  step: 0, // the decoder's step whose next words are listed
  reference: null, // { label, record, heads }: what `difference` subtracts; without heads, the same heads
  about: Object.freeze({}), // what is known of each model: a study of its heads, its training range, its card
  trainings: Object.freeze({}), // curves and saved steps by the name of the model
  surveys: Object.freeze({}), // what the heads do over many sentences, by the name of the model; see domain/survey.js
  played: null, // the trainings of the playground: { settings, steps, share } each
  aside: null, // the choices from before a sentence of In short opened its view; see openAside
  drawing: null, // while the person draws word links: { source }, the source word that was clicked, or null
  busy: null, // { what, cancel, waiting } while a request is open
  waiting: '', // the newest place in the queue or progress
  translating: null, // the same while the page waits for a translation
  page: Object.freeze({
    site: Object.freeze({}), // what the page knows of its models: examples and languages
    model: null, // in the list
    prefix: '', // what stands before the sentence: codes of languages or a prompt
    opened: '', // the address with which the page was opened
    linked: null, // the address whose sentence is translated next
    view: null, // the address that the answer of the running translation opens
    refused: '', // what an address asked for in vain
    isTyped: false, // the next translation follows the typing
    typed: 0, // translations in a row that did
    left: new Map(), // the sentence that was left, by the source language
    downloads: Object.freeze([]), // addresses of the exported files
    exporting: null, // an object for each time that the menu Export was opened
  }),
  error: null, // one sentence
  theme: 'light',
  isPrinting: false, // the page is laid out for paper
  beside: null, // the view of the other side; see state/sides.js
  side: 'A', // B in the state that state/sides.js makes of this one
});

/** @type {(initial?: State | EmptyState) => Store} */
export function createStore(initial = EMPTY) {
  let state = initial;
  const listeners = [];
  const untold = []; // changes, [state, before] each
  let isTelling = false;
  // Every listener hears of every change in order, also of a change that another listener makes.
  const tell = () => {
    isTelling = true;
    try {
      while (untold.length > 0) {
        const change = untold.shift();
        speakOf(change[0].record);
        for (const listener of listeners) listener(...change);
      }
    } finally {
      isTelling = false;
    }
  };
  return {
    get: () => state,
    // A listener gets the new state and the one before.
    subscribe: (listener) => listeners.push(listener),
    change(changes) {
      const before = state;
      const merged = merge(state, { ...changes, ...modeAfter(state, changes) });
      const left = merge(merged, { ...asideAfter(state, merged), ...besideAfter(state, merged) });
      state = merge(left, settle(left));
      untold.push([state, before]);
      if (!isTelling) tell();
    },
  };
}

// The state while a record is on screen: panels and requests are about one.
/** @type {(store: Store) => State} */
export const stateOf = (store) => /** @type {State} */ (store.get());

// What a view says next is about this record: its words, or its letters.
/** @type {(record: TranslationRecord | null) => void} */
export function speakOf(record) {
  if (record) speakOfLetters(isOfLetters(record));
}

// Writes the changed fields of a view into the view on screen, and copies that view's fields into the state.
function merge(state, changes) {
  const merged = { ...state, ...changes };
  const place = merged.shown ? 'shown' : 'home';
  const changed = VIEW_FIELDS.filter((name) => name in changes && changes[name] !== merged[place][name]);
  if (changed.length > 0) merged[place] = { ...merged[place], ...pick(changes, changed) };
  return { ...merged, ...pick(merged[place], VIEW_FIELDS) };
}

// Choosing a head shows a value of heads.
function modeAfter(state, changes) {
  const isHead = differs({ ...state, ...changes }, state, ['layer', 'head', 'selection']);
  return isHead && !('valueName' in changes) ? { valueName: nameOfHeads(state) } : {};
}

// If the person chooses something else to see, the view that In short opened stays, except that words are joined as before.
function asideAfter(before, state) {
  const { aside } = state;
  if (!aside || aside !== before.aside) return {};
  if (!differs(state, before, ['record', 'kind', 'layer', 'head', 'selection', 'valueName', 'mutes'])) return {};
  return { aside: null, ...(state.words === before.words ? { words: aside.words } : {}) };
}

// Side B shows the heads of A as long as it has them; otherwise it keeps its last heads.
function besideAfter(before, state) {
  const { beside } = state;
  if (!beside?.record || beside !== before.beside || !differs(state, before, HEADS)) return {};
  return hasHeads(state, beside.record) ? { beside: { ...beside, heads: pick(state, HEADS) } } : {};
}

/** @type {(object: any, names: readonly string[]) => any} */
export const pick = (object, names) => Object.fromEntries(names.map((name) => [name, object[name]]));

// Keeps every index inside the record and every choice possible; the step follows the row in focus.
/** @type {(state: State | EmptyState) => Changes} */
export function settle(state) {
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
    removedAt: (state.removedAt ?? 0) < state.record.tokens.source.length ? state.removedAt : null,
    step: clamp(state.step, state.record.tokens.predicted.length),
    valueName: isPossible(state) ? state.valueName : USUAL.name,
    sort: state.sort === 'importance' && !importanceOf(state) ? null : state.sort,
  });
  const focus = focusOf(settled);
  const step = focus?.step ?? focus?.row ?? null;
  if (state.kind === 'encoder' || step === null) return settled;
  return { ...settled, step: clamp(step, state.record.tokens.predicted.length) };
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
/** @type {(state: State, chosen: readonly Head[], belongs?: (head: Head) => boolean) => readonly Head[]} */
function keepHeads({ record }, chosen, belongs = () => true) {
  const exists = ([kind, layer, head]) => layer < record.attention[kind].layers && head < record.attention[kind].heads;
  const isFirst = (one, place) => chosen.findIndex((other) => sameHead(one, other)) === place;
  const kept = chosen.filter((one, place) => exists(one) && belongs(one) && isFirst(one, place));
  return kept.length === chosen.length ? chosen : kept;
}

/** @type {(spot: Spot | null, rows: number, columns: number) => Spot | null} */
function keepInside(spot, rows, columns) {
  if (!spot || (spot.row ?? 0) >= rows || (spot.column ?? 0) >= columns) return null;
  return spot;
}
