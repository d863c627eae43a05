// Which value of a cell is shown: weights are in the payload, norms and rollouts are asked for once per record,
// differences are taken to a view that was kept.

import { unpackKinds } from './payload.js';
import { MODES, chosenHeads } from './store.js';
import { titleOf } from './labels.js';
import { request } from './requests.js';

const ASKED = ['norm', 'rollout'];

export function availableModes({ values }, ask) {
  return MODES.filter((mode) => !ASKED.includes(mode) || ask || values[mode]);
}

// The next value for a key to go to; comparing is among them only while there is something to compare with.
export function nextMode(state, ask) {
  const modes = availableModes(state, ask).filter((mode) => mode !== 'difference' || state.reference);
  return { mode: modes[(modes.indexOf(state.mode) + 1) % modes.length] };
}

export function chooseMode(state, mode) {
  if (mode !== 'difference') return { mode };
  if (state.mode === mode) return { mode: 'weight', reference: null };
  return { mode, reference: state.reference ?? keep(state) };
}

// The heads on screen, to show how whatever comes next differs from them.
function keep(state) {
  return { label: titleOf({ ...state, mode: 'weight' }), record: state.record, heads: chosenHeads(state) };
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
