// The transformed norm: the norm of weight times transformed value (Kobayashi et al. 2020).

import { foldHeads } from '../domain/fold.js';
import { unpackKinds } from '../domain/payload.js';
import { OF_HEADS } from './of_heads.js';
import { say } from '../locales/language.js';

/** @type {Value} */
export const transformedNorm = {
  ...OF_HEADS,
  name: 'transformed_norm',
  formerNames: ['norm'],
  button: () => say('Norm'),
  meaning: () =>
    say('how much each token contributes: the norm of weight times transformed value (Kobayashi et al. 2020)'),
  label: () => say('norm'),
  request: 'transformed_norm',
  doing: () => say('Computing these values'),
  decode: unpackKinds,
  gridOf(state) {
    const array = state.values.transformed_norm[state.kind];
    const grid = foldHeads(state, array, { renormalise: false });
    return { ...grid, high: grid.values.reduce((most, value) => Math.max(most, value), array.scale) };
  },
};
