// Which value of a cell is shown. Weights are in the payload, norms and losses come from the server, and differences
// are taken from a view that was kept.

import { chooseWithout } from './actions.js';
import { chosenHeads, isPossible } from './queries.js';
import { MODES } from './store.js';
import { titleOf } from '../labels.js';

// The request of each value that the payload does not have.
export const REQUESTS = { without: 'without', norm: 'norms' };

export function availableModes({ values }, hasServer) {
  return MODES.filter((mode) => !(mode in REQUESTS) || hasServer || values[mode]);
}

// The next mode for the key N.
export function nextMode(state, hasServer) {
  const modes = availableModes(state, hasServer).filter((mode) => isPossible({ ...state, mode }));
  return { mode: modes[(modes.indexOf(state.mode) + 1) % modes.length] };
}

// Choosing the difference again ends the comparison.
export function chooseMode(state, mode) {
  if (mode === 'without') return chooseWithout(state);
  if (mode !== 'difference') return { mode };
  if (state.mode === mode) return { mode: 'weight', reference: null };
  return { mode, reference: state.reference ?? keep(state) };
}

// The heads on screen as the reference that the next heads are compared with.
export function keep(state) {
  return { label: titleOf({ ...state, mode: 'weight' }), record: state.record, heads: chosenHeads(state) };
}
