// Which token of another sentence is in the place of a token.

import { matchWithReplaced } from './math.js';

const known = new WeakMap(); // counterparts by the tokens of one record, with the tokens of the other

// The place of each token among the tokens of another record, in the same order; null for a token without a counterpart. The
// counterpart of a token that was replaced is the token in its place.
/** @type {(own: Token[], others: Token[]) => (number | null)[]} */
export function counterparts(own, others) {
  if (known.get(own)?.others !== others)
    known.set(own, { others, places: matchWithReplaced(own.map(nameOfToken), others.map(nameOfToken)) });
  return known.get(own).places;
}

// The places of the tokens that were replaced or have no counterpart.
/** @type {(own: Token[], others: Token[]) => Set<number>} */
export function differingPlaces(own, others) {
  const places = counterparts(own, others);
  const isSame = (place) => places[place] !== null && nameOfToken(own[place]) === nameOfToken(others[places[place]]);
  return new Set([...own.keys()].filter((place) => !isSame(place)));
}

const nameOfToken = ({ special, text }) => `${special} ${text}`;
