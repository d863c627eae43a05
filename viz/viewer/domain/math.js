// Arithmetic on lists of values.

/** @type {(values: Iterable<number>) => number} */
export function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

/** @type {(one: ArrayLike<number>, other: ArrayLike<number>) => number} */
export function dot(one, other) {
  let total = 0;
  for (let place = 0; place < one.length; place += 1) total += one[place] * other[place];
  return total;
}

// As the engine sends numbers.
/** @type {(value: number) => number} */
export const rounded = (value) => Math.round(value * 1e6) / 1e6;

// The largest absolute value, or 1 if all are 0, so that a drawing can divide by it.
/** @type {(values: number[]) => number} */
export const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;

// The index nearest to `value` in a list of a size.
/** @type {(value: number, size: number) => number} */
export const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));

// Entropy in bits.
/** @type {(weights: Iterable<number>) => number} */
export function entropy(weights) {
  let bits = 0;
  for (const weight of weights) if (weight > 0) bits -= weight * Math.log2(weight);
  return Math.max(0, bits);
}

// 1 for the largest value; equal values have the same rank.
/** @type {(values: Iterable<number> & ArrayLike<number>, place: number) => number} */
export function rankOf(values, place) {
  let larger = 0;
  for (const other of values) if (other > values[place]) larger += 1;
  return larger + 1;
}

/** @type {(values: ArrayLike<number>) => number} */
export function strongest(values) {
  let best = 0;
  for (let place = 1; place < values.length; place += 1) if (values[place] > values[best]) best = place;
  return best;
}

// The longest common subsequence of two lists of names: for each of `names` its place in `others`, or null. Of several
// that are as long, the subsequence with the nearest places is taken, so the nearer one of two equal words is matched.
/** @type {(names: string[], others: string[]) => (number | null)[]} */
export function matchInOrder(names, others) {
  const width = others.length + 1;
  const worth = (names.length + others.length) ** 2; // more than the distances of all pairs together
  const best = new Float64Array((names.length + 1) * width);
  const asPair = (one, two) =>
    names[one] === others[two] ? best[(one + 1) * width + two + 1] + worth - Math.abs(one - two) : 0;
  for (let one = names.length - 1; one >= 0; one -= 1)
    for (let two = others.length - 1; two >= 0; two -= 1)
      best[one * width + two] = Math.max(asPair(one, two), best[(one + 1) * width + two], best[one * width + two + 1]);
  /** @type {(number | null)[]} */
  const found = names.map(() => null);
  for (let one = 0, two = 0; one < names.length && two < others.length;) {
    const most = best[one * width + two];
    if (most > 0 && most === asPair(one, two)) {
      found[one] = two;
      one += 1;
      two += 1;
    } else if (most === best[one * width + two + 1]) two += 1;
    else one += 1;
  }
  return found;
}

// The same, and what was replaced: between two matches, as many names on both sides are matched one by one.
/** @type {(names: string[], others: string[]) => (number | null)[]} */
export function matchWithReplaced(names, others) {
  const found = matchInOrder(names, others);
  let [first, start] = [0, 0]; // of the names that have no match yet
  for (let one = 0; one <= names.length; one += 1) {
    const end = one < names.length ? found[one] : others.length;
    if (end === null) continue;
    if (one - first === end - start)
      for (let place = first; place < one; place += 1) found[place] = start + place - first;
    [first, start] = [one + 1, end + 1];
  }
  return found;
}
