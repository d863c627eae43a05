// Which value of a cell is shown. Weights are in the payload, norms and rollouts come from the server, and differences
// are taken from a view that was kept.

import { chosenHeads } from './queries.js';
import { MODES } from './store.js';
import { titleOf } from '../labels.js';

export const SERVER_MODES = ['norm', 'rollout'];

export function availableModes({ values }, hasServer) {
  return MODES.filter((mode) => !SERVER_MODES.includes(mode) || hasServer || values[mode]);
}

// The next mode for the key N. Differences are included only while there is a view to compare with.
export function nextMode(state, hasServer) {
  const modes = availableModes(state, hasServer).filter((mode) => mode !== 'difference' || state.reference);
  return { mode: modes[(modes.indexOf(state.mode) + 1) % modes.length] };
}

// Choosing the difference again ends the comparison.
export function chooseMode(state, mode) {
  if (mode !== 'difference') return { mode };
  if (state.mode === mode) return { mode: 'weight', reference: null };
  return { mode, reference: state.reference ?? keep(state) };
}

// The heads on screen as the reference that the next heads are compared with.
export function keep(state) {
  return { label: titleOf({ ...state, mode: 'weight' }), record: state.record, heads: chosenHeads(state) };
}
