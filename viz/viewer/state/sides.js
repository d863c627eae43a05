// The two sides. Side B is a view of the one state: its panels draw the state that is made here, and a choice that is made in
// one of them becomes a choice of the one state.

import { counterparts } from '../domain/counterparts.js';
import { hasHeads } from '../domain/heads.js';
import { wordOfOtherSide, recordOfB } from './comparison.js';
import { axes } from '../domain/payload.js';
import { clearestHead, headOf, sameHeads, withoutRow } from './actions.js';
import { EMPTY, EMPTY_VIEW, HEADS, NO_HEADS, VIEW_FIELDS, pick, settle, speakOf } from './store.js';
import { say } from '../locales/language.js';

const OWN = ['busy', 'waiting', 'error', 'browsed', ...VIEW_FIELDS]; // what B does not share with A
const SPOTS = ['hover', 'pin'];
const statesOfB = new WeakMap(); // by the one state

// The view of B: its `question`, its `heads`, and what B does not share with A; a step of a training also has openView's fields.
/** @type {(state: State, question: Question, record: TranslationRecord | null) => any} */
export function createBesideView(state, question, record) {
  const { beside } = state;
  const { step, sentence } = question;
  const training = { type: 'training', label: say('training, step {step}', { step }), step, sentence };
  return {
    ...EMPTY_VIEW,
    record,
    question,
    ...(question.do === 'training_step' ? training : {}),
    heads: record && headsFor(state, beside, record),
    busy: null,
    waiting: '',
    error: null,
    browsed: null,
  };
}

// The heads of A if B has them, or the last heads of B, or the head that shows word pairs best.
function headsFor(state, beside, record) {
  if (hasHeads(state, record)) return pick(state, HEADS);
  return sameHeads(beside?.record, record) ? beside.heads : pick(headOf(clearestHead(record)), HEADS);
}

// The state of B: one without a record while nothing stands beside the view.
/** @type {(state: State | EmptyState) => State} */
export function stateOfB(state) {
  if (!statesOfB.has(state)) statesOfB.set(state, makeStateOfB(state));
  return statesOfB.get(state);
}

function makeStateOfB(state) {
  const { beside, home, shown, theme } = state;
  if (recordOfB(state) === null) return { ...EMPTY, theme, side: 'B' };
  const isAboutBoth = state.other !== null && wordOfOtherSide(state)?.id === state.other;
  const [own, others] = [state.record, beside.record].map(({ tokens }) => tokens.predicted);
  const made = {
    ...state,
    ...pick(beside, OWN),
    ...beside.heads,
    side: 'B',
    home: beside,
    shown: beside.type ? beside : null,
    beside: shown ?? home,
    sideB: null,
    stateOfA: state,
    reference: null,
    mutes: NO_HEADS,
    gold: '',
    questions: state.questions.filter((name) => name === 'links' || (name === 'contributions' && isAboutBoth)),
    ablation: withoutRow(state.ablation),
    aside: null,
    drawing: null,
  };
  for (const name of SPOTS) made[name] = spotOn(state, beside.record, state[name]);
  const step = counterparts(own, others)[state.step];
  return { ...made, ...settle(made), ...(step === null ? {} : { step }) };
}

// The state of the other side; null while there is one side.
/** @type {(state: State) => State | null} */
export function otherSide(state) {
  if (state.side === 'B') return state.stateOfA ?? null;
  return recordOfB(state) === null ? null : stateOfB(state);
}

// Side B as a store for its panels.
/** @type {(store: Store) => Store} */
export const createStoreOfB = (store) => ({
  get: () => stateOfB(store.get()),
  subscribe: (listener) =>
    store.subscribe((state, before) => {
      speakOf(stateOfB(state).record);
      listener(stateOfB(state), stateOfB(before));
      speakOf(state.record);
    }),
  change: (changes) => store.change(changesOf(store.get(), changes)),
});

// Changes of B as changes of the one state.
function changesOf(state, changes) {
  const { record } = state;
  const after = { ...stateOfB(state), ...changes };
  const found = Object.fromEntries(Object.entries(changes).filter(([name]) => !isOwn(name)));
  for (const name of SPOTS) if (name in changes) found[name] = spotOn(after, record, changes[name]);
  const own = { ...pick(changes.home ?? changes.shown ?? {}, VIEW_FIELDS), ...changes };
  const view = {
    ...state.beside,
    ...pick(
      own,
      OWN.filter((name) => own[name] !== undefined),
    ),
  };
  if (!HEADS.some((name) => name in changes)) return { ...found, beside: view };
  const heads = pick(after, HEADS);
  if (hasHeads({ ...after, record }, record)) return { ...found, ...heads, beside: { ...view, heads } };
  return { ...found, beside: { ...view, heads }, sideB: { ...state.sideB, separate: true } }; // there is no difference to show
}

const isOwn = (name) => [...OWN, ...HEADS, 'home', 'shown'].includes(name);

// The same tokens on the other side, as far as it has them.
/** @type {(state: State, other: TranslationRecord, spot: Spot | null | undefined) => Spot | null} */
function spotOn({ record, kind }, other, spot) {
  if (!spot) return null;
  const [own, others] = [axes(record, kind), axes(other, kind)];
  const row = spot.row === null ? null : counterparts(own.rows, others.rows)[spot.row];
  const column = spot.column === null ? null : counterparts(own.columns, others.columns)[spot.column];
  if (row === null && column === null) return null;
  return { row, column, ...(spot.token && row !== null && column !== null ? { token: true } : {}) };
}
