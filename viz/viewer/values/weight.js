// The attention weight: what the softmax of a head gives to each token.

import { foldHeads } from '../domain/fold.js';
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
  gridOf: (state) => ({ ...foldHeads(state, state.record.attention[state.kind]), high: 1 }),
};
