// Another record in place of the model's own: a forced one, a hypothesis, a person's translation, a step of the
// training. The state from before is kept whole in `visit.from`, and leaving gives exactly that back.

import { show } from './store.js';

// What a visit does not undo: these are no part of the record.
const LASTING = ['theme', 'panel', 'busy'];

// The state of the model's own translation, also while another record is shown.
export function homeOf(state) {
  return state.visit?.from ?? state;
}

// Whose heads are silent: the record on screen; when that is the outcome itself, the one that it came from.
export function subjectOf(state) {
  return state.visit?.what === 'muted' ? state.visit.from : state;
}

// `what` is one of force, hypothesis, reference, muted, training, tour; `label` says it to a person. A visit to
// the training also has its `step` and its `sentence`.
export function visit(store, record, { what, label, ...details }) {
  const state = store.get();
  const { pin, step } = state;
  const mode = what === 'training' ? 'weight' : state.mode;
  store.change({ ...show(state, record), pin, step, mode, visit: { what, label, ...details, from: homeOf(state) } });
}

export function leave(store) {
  const state = store.get();
  if (!state.visit) return;
  const { from } = state.visit;
  const lasting = Object.fromEntries(LASTING.map((name) => [name, state[name]]));
  const { training } = from.record.model.name === state.record.model.name ? state : from;
  store.change({ ...from, ...lasting, training, visit: null, hover: null, error: null });
}

// Changes that belong to the model's own translation, wherever the person is.
export function changeHome(store, changes) {
  const { visit: visited } = store.get();
  store.change(visited ? { visit: { ...visited, from: { ...visited.from, ...changes } } } : changes);
}
