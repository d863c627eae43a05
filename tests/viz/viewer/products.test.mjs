// Products and sums of exponentials: WebAssembly against the same sums in float64.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createProducts } from '../viewer/engine/tensors/products.js';

const ROUNDING = 2 ** -24; // of a float32
const INPUTS = 20; // padded to 24

// Numbers in [-1, 1), the same in every run.
function numbers(count, seed) {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (state * 16807) % 2147483647;
    return state / 1073741824 - 1;
  });
}

function matrixOf(outputs, isInt8) {
  const values = numbers(outputs * INPUTS, outputs);
  return {
    outputs,
    inputs: INPUTS,
    values: isInt8 ? Int8Array.from(values, (value) => 127 * value) : Float32Array.from(values),
    scales: isInt8 ? Float32Array.from(numbers(outputs, 5)) : null,
    bias: Float32Array.from(numbers(outputs, 6)),
  };
}

for (const options of [{ fused: true }, { fused: false }, { wasm: false }])
  for (const isInt8 of [true, false])
    test(`rows times a matrix (${JSON.stringify(options)}, 8 bits: ${isInt8})`, async () => {
      for (const outputs of [1, 6, 7]) {
        const stored = matrixOf(outputs, isInt8);
        const { matrices, multiply } = await createProducts({ matrix: stored }, options);
        for (const rows of [1, 2, 4, 19]) {
          const x = Float32Array.from(numbers(rows * INPUTS, 7));
          multiply(matrices.matrix, rows, x).forEach((value, place) => {
            const [row, output] = [Math.floor(place / outputs), place % outputs];
            let [sum, size] = [0, 0];
            for (let input = 0; input < INPUTS; input += 1) {
              const product = x[row * INPUTS + input] * stored.values[output * INPUTS + input];
              sum += product;
              size += Math.abs(product);
            }
            const scale = stored.scales?.[output] ?? 1;
            const most = (INPUTS + 3) * ROUNDING * (size * Math.abs(scale) + Math.abs(stored.bias[output]));
            assert.ok(Math.abs(value - (sum * scale + stored.bias[output])) <= most, `${rows} ${outputs} ${place}`);
          });
        }
      }
    });

for (const wasm of [true, false])
  test(`the log of the sum of exponentials (WebAssembly: ${wasm})`, async () => {
    const { logSumExp } = await createProducts({ matrix: matrixOf(9, false) }, { wasm });
    for (const [count, size] of [
      [1, 3],
      [9, 60],
      [9, 300],
      [8, 1],
    ]) {
      const values = Float32Array.from(numbers(count, 8), (value) => size * value);
      const most = Math.max(...values);
      const expected = most + Math.log(values.reduce((total, value) => total + Math.exp(value - most), 0));
      // An exponential is right to some roundings of itself and of its exponent, which is at most 87.
      const bound = (8 + 2 * Math.min(87, 2 * size)) * ROUNDING;
      assert.ok(Math.abs(logSumExp(values) - expected) <= bound, `${count} ${size}`);
    }
  });
