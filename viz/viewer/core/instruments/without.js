// Leave-one-out: the log-probability that target words lose when a source word is hidden.

import { sum } from '../math.js';

// What the tokens of these steps lose together without these source tokens, in nats.
export function lossWithout({ groups, losses }, places, steps) {
  const found = losses[groupOf(groups, places)];
  return sum(steps.map((step) => found[step]));
}

// The likeliest token of a step without these source tokens.
export function tokenWithout({ groups, instead, tokens }, places, step) {
  return tokens[instead[groupOf(groups, places)][step]];
}

function groupOf(groups, places) {
  return groups.findIndex((group) => group.length === places.length && group[0] === places[0]);
}
