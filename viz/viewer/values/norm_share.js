// The share of a token in the transformed norms of its row: what the token contributes, beside what all tokens of the row
// contribute. It is NormWeights.row_shares of model/analysis/attribution.py.

import { foldHeads } from '../domain/fold.js';
import { SCALE } from '../domain/payload.js';
import { transformedNorm } from './transformed_norm.js';
import { say } from '../locales/language.js';

const known = new WeakMap(); // shares by the norms that they are made from

export const normShare = {
  ...transformedNorm,
  name: 'norm_share',
  formerNames: [],
  button: () => say('Norm share'),
  meaning: () => say('the norm of each token as a share of all norms of its row: each row adds up to 1'),
  label: () => say('share of the norm'),
  isShare: true,
  gridOf: (state) => ({ ...foldHeads(state, sharesOf(state.values.transformed_norm[state.kind])), high: 1 }),
};

// Norms as shares of their rows, in the form of norms. A row of zeros stays a row of zeros.
export function sharesOf(norms) {
  if (!known.has(norms)) known.set(norms, { ...norms, codes: sharesOfRows(norms), scale: 1 });
  return known.get(norms);
}

function sharesOfRows({ codes, columns }) {
  const shares = new Float64Array(codes.length);
  for (let start = 0; start < codes.length; start += columns) {
    const row = codes.subarray(start, start + columns);
    const total = row.reduce((sum, code) => sum + code, 0);
    if (total > 0) row.forEach((code, column) => (shares[start + column] = (code / total) * SCALE));
  }
  return shares;
}
