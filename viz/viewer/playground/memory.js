// The memory of a training: one block of numbers, taken from its beginning to its end, and the product of matrices in
// it, in WebAssembly (product.wat) or in plain JavaScript where that is missing.

import { startWasm } from '../engine/tensors/products.js';
import { fault } from '../locales/language.js';
import { WASM } from './product_wasm.js';

const SIZE = 2 ** 24; // numbers: 64 MB; no model that the switches allow takes more than 15 million
const ALIGNED = 4; // numbers: the 16 bytes that WebAssembly reads at once

// `multiply(a, row, column, b, c, m, n, k)` adds the product of a [m, k] and b [k, n] to c [m, n]; `row` and `column` are
// the distances of the rows and columns of a, and n is a multiple of 8. What is taken is 0.
export async function createMemory({ wasm = true, size = SIZE } = {}) {
  const { buffer, compiled } = (await startWasm(wasm ? [WASM] : [], 4 * size)) ?? { buffer: new ArrayBuffer(4 * size) };
  let used = 0;
  return {
    multiply: compiled ? multiplyBy(compiled.multiply) : multiplyPlainly,
    take(length) {
      if (used + length > size) throw fault('The training ran out of its memory; choose a smaller model.');
      const taken = new Float32Array(buffer, 4 * used, length);
      used += Math.ceil(length / ALIGNED) * ALIGNED;
      return taken;
    },
    used: () => used,
    // Gives back everything that was taken since `used` was `mark`, and sets it to 0.
    release(mark) {
      new Float32Array(buffer, 4 * mark, Math.min(used, size) - mark).fill(0);
      used = mark;
    },
  };
}

function multiplyBy(compiled) {
  return (a, row, column, b, c, m, n, k) =>
    compiled(a.byteOffset, 4 * row, 4 * column, b.byteOffset, c.byteOffset, m, n, k);
}

// Four columns at a time, whose sums stay in registers.
function multiplyPlainly(a, row, column, b, c, m, n, k) {
  for (let i = 0; i < m; i += 1) {
    for (let j = 0; j < n; j += 4) {
      const to = i * n + j;
      let [c0, c1, c2, c3] = [c[to], c[to + 1], c[to + 2], c[to + 3]];
      for (let p = 0, x = i * row, at = j; p < k; p += 1, x += column, at += n) {
        c0 += a[x] * b[at];
        c1 += a[x] * b[at + 1];
        c2 += a[x] * b[at + 2];
        c3 += a[x] * b[at + 3];
      }
      c.set([c0, c1, c2, c3], to);
    }
  }
}
