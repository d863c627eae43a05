// The attention weight: what the softmax of a head gives to each token.

import { foldHeads } from '../domain/fold.js';
import { isMemory } from '../domain/heads.js';
import { OF_HEADS } from './of_heads.js';
import { say } from '../locales/language.js';

/** @type {Value} */
export const weight = {
  ...OF_HEADS,
  name: 'weight',
  button: () => say('Weight'),
  meaning: () => say('the attention weight: each row adds up to 1'),
  label: () => say('weight'),
  isShare: true,
  isSubtracted: true,
  linkOf: () => ({}), // a link shows weights unless it says something else
  gridOf: (state) => ({ ...(isMemory(state.record, state.kind) ? ofMemory : ofHeads)(state), high: 1 }),
};

const ofHeads = (state) => foldHeads(state, state.record.attention[state.kind]);

// Rows of a running memory keep their sums: what they lack to 1 comes from nothing, and no other cell is scaled up for it.
function ofMemory(state) {
  const grid = foldHeads(state, state.record.attention[state.kind], { renormalise: false });
  const hidden = grid.hidden?.map((share, row) => share * grid.totals[row]) ?? null;
  return { ...grid, hidden, nothing: grid.totals.map((total) => Math.max(0, 1 - total)) };
}
