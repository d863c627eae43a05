// Leave-one-out: the log-probability that target words lose when a source word is hidden.

import { readable } from '../dom.js';
import { sum } from '../math.js';
import { placesLeftOut } from '../state/queries.js';
import { say } from '../../locales/language.js';

// What the tokens of these steps lose together without these source tokens, in nats.
export function lossWithout({ groups, losses }, places, steps) {
  const found = losses[groupOf(groups, places)];
  return sum(steps.map((step) => found[step]));
}

// The likeliest token of a step without these source tokens.
export function tokenWithout({ groups, instead, tokens }, places, step) {
  return tokens[instead[groupOf(groups, places)][step]];
}

// What the whole translation is without the pinned source word; empty until it is known.
export function translationWithout(state) {
  const { record, leftOut } = state;
  const places = placesLeftOut(state);
  if (!leftOut || String(leftOut.places) !== String(places)) return '';
  const word = readable(places.map((place) => record.tokens.source[place].text).join('')).trim();
  return leftOut.text === record.text
    ? say('Without “{word}” the translation is the same.', { word })
    : say('Without “{word}” the translation is “{text}”', { word, text: readable(leftOut.text) });
}

function groupOf(groups, places) {
  return groups.findIndex((group) => group.length === places.length && group[0] === places[0]);
}
