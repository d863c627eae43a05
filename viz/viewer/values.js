// Which value of a cell is shown: weights are in the payload, norms and rollouts are asked for once per record,
// differences are taken to a view that was kept.

import { unpackKinds } from './payload.js';
import { MODES, chosenHeads } from './state.js';
import { titleOf } from './names.js';
import { request } from './ask.js';

const ASKED = ['norm', 'rollout'];

export function availableModes(state, ask) {
  const has = { weight: true, norm: ask || state.values.norm, rollout: ask || state.values.rollout, difference: state.reference };
  return MODES.filter((mode) => has[mode]);
}

export function chooseMode(store, mode) {
  store.change({ mode });
}

export function nextMode(state, ask) {
  const modes = availableModes(state, ask);
  return { mode: modes[(modes.indexOf(state.mode) + 1) % modes.length] };
}

// Keep the heads on screen, to show how whatever comes next differs from them; or let them go again.
export function toggleCompare(store) {
  const state = store.get();
  if (state.reference) {
    store.change({ reference: null });
    return;
  }
  const label = titleOf({ ...state, mode: 'weight' });
  store.change({ reference: { label, record: state.record, heads: chosenHeads(state) }, mode: 'difference' });
}

// Ask for norms and rollouts when they are to be shown; go back to weights when they cannot be had.
export function watchValues(store, ask) {
  let latest = 0;
  store.subscribe(async (state, before) => {
    const { record, mode, values } = state;
    if (!record || !ASKED.includes(mode) || values[mode] || (mode === before.mode && record === before.record)) return;
    latest += 1;
    const turn = latest;
    const ids = record.tokens.predicted.map(({ id }) => id);
    const decoded = await request(store, ask, 'values', { do: 'values', ids, mode }, unpackKinds);
    const now = store.get();
    if (now.record !== record || turn !== latest) return;
    if (decoded) store.change({ values: { ...now.values, [mode]: decoded } });
    else if (now.mode === mode) store.change({ mode: 'weight' });
  });
}
