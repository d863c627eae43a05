// Numbers about one row of values. What a head is like is measured by model/analysis/measures.py and comes with the payload.

// Entropy in bits.
export function entropy(weights) {
  let bits = 0;
  for (const weight of weights) if (weight > 0) bits -= weight * Math.log2(weight);
  return Math.max(0, bits);
}

// 1 for the largest value; equal values share the better rank.
export function rankOf(values, place) {
  let larger = 0;
  for (const other of values) if (other > values[place]) larger += 1;
  return larger + 1;
}

export function strongest(values) {
  let best = 0;
  for (let place = 1; place < values.length; place += 1) if (values[place] > values[best]) best = place;
  return best;
}
