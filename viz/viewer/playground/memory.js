// The memory of a training: one block of numbers, taken from its beginning to its end, and the product of matrices in
// it, in WebAssembly (product.wat) or in plain JavaScript where that is missing.

import { startWasm } from '../engine/tensors/products.js';
import { fault } from '../locales/language.js';
import { WASM } from './product_wasm.js';

const ALIGNED = 4; // numbers: the 16 bytes that WebAssembly reads at once

// Room for `size` numbers, all 0. `multiply(a, row, column, b, c, m, n, k)` adds the product of a [m, k] and b [k, n] to
// c [m, n]; `row` and `column` are the distances of the rows and columns of a, and n is a multiple of 8.
export async function createMemory(size, { wasm = true } = {}) {
  const { buffer, compiled } = (wasm && (await startWasm(WASM, 4 * size))) || { buffer: new ArrayBuffer(4 * size) };
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

// Two rows by four columns at a time. An odd last row is computed twice: all of c is read before it is written.
function multiplyPlainly(a, row, column, b, c, m, n, k) {
  for (let i = 0; i < m; i += 2) {
    const next = Math.min(i + 1, m - 1);
    for (let j = 0; j < n; j += 4) {
      const [s, t] = [i * n + j, next * n + j];
      let [s0, s1, s2, s3] = [c[s], c[s + 1], c[s + 2], c[s + 3]];
      let [t0, t1, t2, t3] = [c[t], c[t + 1], c[t + 2], c[t + 3]];
      for (let p = 0, x = i * row, y = next * row, at = j; p < k; p += 1, x += column, y += column, at += n) {
        const [left, right] = [a[x], a[y]];
        const [b0, b1, b2, b3] = [b[at], b[at + 1], b[at + 2], b[at + 3]];
        s0 += left * b0;
        s1 += left * b1;
        s2 += left * b2;
        s3 += left * b3;
        t0 += right * b0;
        t1 += right * b1;
        t2 += right * b2;
        t3 += right * b3;
      }
      c.set([s0, s1, s2, s3], s);
      c.set([t0, t1, t2, t3], t);
    }
  }
}
