// Sums of products of vectors, and the softmax: the engine's hottest loops in JavaScript.

// The dot product of two vectors, in four sums, because each addition waits for the one before. (A destructuring
// assignment would take half as long again.)
/** @type {(one: ArrayLike<number>, from: number, other: ArrayLike<number>, at: number, length: number) => number} */
export function dot(one, from, other, at, length) {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let place = 0;
  for (; place + 3 < length; place += 4) {
    a += one[from + place] * other[at + place];
    b += one[from + place + 1] * other[at + place + 1];
    c += one[from + place + 2] * other[at + place + 2];
    d += one[from + place + 3] * other[at + place + 3];
  }
  for (; place < length; place += 1) a += one[from + place] * other[at + place];
  return a + b + (c + d);
}

// Adds vectors with these weights, one every `stride` numbers of `all`, to the `length` numbers of `sum` from `to` on.
/** @type {(weights: Float32Array, vectors: { all: Float32Array; at: number; stride: number }, sum: Float32Array, to: number, length: number) => void} */
export function addWeighted(weights, { all, at, stride }, sum, to, length) {
  let place = 0;
  for (; place + 3 < length; place += 4) {
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    for (let key = 0, from = at + place; key < weights.length; key += 1, from += stride) {
      const weight = weights[key];
      a += weight * all[from];
      b += weight * all[from + 1];
      c += weight * all[from + 2];
      d += weight * all[from + 3];
    }
    sum[to + place] += a;
    sum[to + place + 1] += b;
    sum[to + place + 2] += c;
    sum[to + place + 3] += d;
  }
  for (; place < length; place += 1)
    for (let key = 0; key < weights.length; key += 1) sum[to + place] += weights[key] * all[at + place + key * stride];
}

/** @type {(scores: Float32Array) => void} */
export function softmax(scores) {
  let most = -Infinity;
  for (let place = 0; place < scores.length; place += 1) if (scores[place] > most) most = scores[place];
  let total = 0;
  for (let place = 0; place < scores.length; place += 1) {
    scores[place] = Math.exp(scores[place] - most);
    total += scores[place];
  }
  for (let place = 0; place < scores.length; place += 1) scores[place] /= total;
}
