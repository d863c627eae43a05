// Links the states of two views: a choice in one is made in the other too.

import { counterparts } from '../core/counterparts.js';
import { hasHead, chosenHeads } from '../core/heads.js';
import { oppositeOf } from '../core/comparison.js';
import { shownGrid } from '../core/grid.js';
import { importanceOf } from '../core/measures.js';
import { axes } from '../core/payload.js';
import { say } from '../locales/language.js';
import { openView, showRecord, withoutRow } from '../core/state/actions.js';
import { differs, sameSpot } from '../core/state/queries.js';

const SAME = ['reduce', 'hideSpecials', 'words', 'threshold', 'scale', 'fit', 'sort', 'linkedBy', 'theme'];
const HEADS = ['kind', 'layer', 'head', 'selection'];

// `second` shows what stands beside the view of `first`, and follows it; a choice on the second side changes the first.
export function linkSides(first, second) {
  let linking = false; // so that a change does not come back
  const follow = (from, to) => (state, before) => {
    if (linking || second.get().record === null || oppositeOf(first.get()) !== second.get().record) return;
    linking = true;
    to.change(choicesOf(state, before, to.get()));
    linking = false;
  };
  first.subscribe((state) => {
    const record = oppositeOf(state);
    const isNew = record !== null && record !== second.get().record;
    if (!isNew && (record === null || second.get().facing === state.record)) return;
    linking = true;
    if (isNew) {
      second.change(showBeside(state, second.get(), record));
      second.change(choicesOf(state, null, second.get()));
    }
    second.change({ facing: state.record });
    linking = false;
  });
  first.subscribe(follow(first, second));
  second.subscribe(follow(second, first));
  for (const store of [first, second]) store.subscribe(() => shareScales(first, second));
}

// Colours mean the same on both sides.
function shareScales(first, second) {
  const [one, other] = [first, second].map((store) => store.get());
  const isShown = other.record !== null && oppositeOf(one) === other.record;
  const nothing = { facingImportance: null, facingHigh: 0 };
  const scalesOf = (state) =>
    isShown ? { facingImportance: importanceOf(state), facingHigh: shownGrid(state).ownHigh } : nothing;
  for (const [from, to] of [
    [first, second],
    [second, first],
  ]) {
    const scales = scalesOf(from.get());
    if (differs(scales, to.get(), Object.keys(scales))) to.change(scales);
  }
}

// What `state` opens on the second side, whose state is `second`.
function showBeside({ opposite }, second, record) {
  const { do: what, step, sentence } = opposite.question;
  if (what !== 'training_step') return showRecord(second, record);
  return openView(second, record, { type: 'training', label: say('training, step {step}', { step }), step, sentence });
}

// The choices of one side that have changed since `before`, or all of them, as choices of the other.
function choicesOf(state, before, other) {
  const isChanged = (...names) => before === null || differs(state, before, names);
  const changes = Object.fromEntries(SAME.filter((name) => isChanged(name)).map((name) => [name, state[name]]));
  if (isChanged(...HEADS)) Object.assign(changes, headOn(state, other));
  if (isChanged('mode') && state.reference === null) changes.mode = state.mode;
  if (other.isSecond && isChanged('questions')) changes.questions = state.questions.filter((name) => name === 'links');
  if (other.isSecond && isChanged('instead')) changes.instead = withoutRow(state.instead);
  for (const name of ['hover', 'pin'])
    if (before === null || !sameSpot(state[name], before[name]) || isChanged('kind'))
      changes[name] = spotOn(state, other.record, state[name]);
  return changes;
}

// The heads of one side, if the other has them; otherwise it keeps its own, and there is no difference to show.
function headOn(state, { record, beside }) {
  const { kind, layer, head, lastHead, selection } = state;
  const isThere = chosenHeads(state).every((one) => hasHead(record, one));
  if (isThere) return { kind, layer, head, lastHead, selection };
  return { kind, selection: [], ...(beside ? { beside: { ...beside, apart: true } } : {}) };
}

// The same tokens on the other side, as far as it has them.
function spotOn({ record, kind }, other, spot) {
  if (!spot) return null;
  const [own, others] = [axes(record, kind), axes(other, kind)];
  const row = spot.row === null ? null : counterparts(own.rows, others.rows)[spot.row];
  const column = spot.column === null ? null : counterparts(own.columns, others.columns)[spot.column];
  if (row === null && column === null) return null;
  return { row, column, ...(spot.token && row !== null && column !== null ? { token: true } : {}) };
}
