// Products of rows of numbers with the model's matrices: in WebAssembly (products.wat), or in plain JavaScript where
// that is missing. Where the browser can, a product and a sum are one instruction.

import { fromBase64 } from '../../domain/files.js';
import { FUSED, WASM } from './products_wasm.js';

const BLOCK = 64; // rows of a product that share the reading of the matrix
const FOUR = 4; // rows that WebAssembly computes together
const LANES = 8; // columns that WebAssembly reads at once
const PAGE = 65536; // bytes of a page of WebAssembly's memory

// `stored` has the matrices by name: { outputs, inputs, values, scales, bias }; `values` is an Int8Array, whose rows
// are multiplied by the `scales`, or a Float32Array; `scales` and `bias` may be null. Returns the matrices by name, to
// be given to the functions `multiply`, `forEachRow` and `rowOf`, which are returned too, and `logSumExp`, which takes a row
// of a product.
/** @type {(stored: { [name: string]: any }, options?: { wasm?: boolean; fused?: boolean }) => Promise<Products>} */
export async function createProducts(stored, { wasm = true, fused = true } = {}) {
  const entries = Object.entries(stored);
  const width = Math.max(...entries.map(([, { inputs }]) => padded(inputs)));
  const height = Math.max(...entries.map(([, { outputs }]) => outputs));
  const size = entries.reduce(
    (total, [, matrix]) => total + sizeOf(matrix),
    4 * ((2 * BLOCK + 2) * width + (BLOCK + 1) * height + FOUR),
  );
  const codes = wasm ? [...(fused ? [FUSED] : []), WASM] : [];
  const { buffer, compiled } = (await startWasm(codes, size)) ?? { buffer: new ArrayBuffer(size) };
  const heap = createHeap(buffer);
  const x = heap.take(Float32Array, BLOCK * width);
  const y = heap.take(Float32Array, BLOCK * height);
  const scratch = heap.take(Float32Array, (BLOCK + 2) * width);
  const single = heap.take(Float32Array, height + FOUR);
  const matrices = Object.fromEntries(entries.map(([name, matrix]) => [name, place(heap, matrix)]));
  const run = compiled ? startedBy(compiled, x, y, scratch) : (matrix, rows) => multiplyPlainly(matrix, rows, x, y);
  return {
    matrices,
    rowOf,
    multiply: (matrix, rows, input) => multiply(matrix, rows, input, { x, y, run }),
    forEachRow: (matrix, rows, input, use) => forEachRow(matrix, rows, input, { x, y, run }, use),
    logSumExp: compiled ? (values) => logSumExp(compiled, values, single) : logSumExpPlainly,
  };
}

// The width of rows that the kernels can read.
/** @type {(columns: number) => number} */
export const padded = (columns) => Math.ceil(columns / LANES) * LANES;

const sizeOf = ({ outputs, inputs, values }) => outputs * (padded(inputs) * values.BYTES_PER_ELEMENT + 8);

// The functions of the first of these WebAssembly modules, bytes in base64, that can run here, over a new memory of `size`
// bytes. None can without WebAssembly or SIMD, or where a policy forbids it: null.
/** @type {(codes: string[], size: number) => Promise<{ buffer: ArrayBuffer; compiled: any } | null>} */
export async function startWasm(codes, size) {
  for (const code of codes)
    try {
      const module = await WebAssembly.compile(fromBase64(code));
      const memory = new WebAssembly.Memory({ initial: Math.ceil(size / PAGE) });
      const { exports } = await WebAssembly.instantiate(module, { engine: { memory } });
      return { buffer: memory.buffer, compiled: exports };
    } catch {
      continue;
    }
  return null;
}

// Takes arrays one after the other; all sizes are multiples of 4, so every array is aligned.
function createHeap(buffer) {
  let used = 0;
  return {
    take(Type, length) {
      const array = new Type(buffer, used, length);
      used += array.byteLength;
      return array;
    },
  };
}

// Rows are padded with zeros to a width that WebAssembly can read.
function place(heap, { outputs, inputs, values, scales, bias }) {
  const width = padded(inputs);
  const codes = heap.take(values.constructor, outputs * width);
  for (let row = 0; row < outputs; row += 1) codes.set(values.subarray(row * inputs, (row + 1) * inputs), row * width);
  const [own, added] = [heap.take(Float32Array, outputs), heap.take(Float32Array, outputs)];
  if (scales) own.set(scales);
  else own.fill(1);
  if (bias) added.set(bias);
  return { outputs, inputs, width, codes, scales: own, bias: added };
}

// Some outputs of a matrix, from `start` up to `end`.
/** @type {(matrix: Product, start: number, end: number) => Product} */
export const sliceOf = ({ inputs, width, codes, scales, bias }, start, end) => ({
  outputs: end - start,
  inputs,
  width,
  codes: codes.subarray(start * width, end * width),
  scales: scales.subarray(start, end),
  bias: bias.subarray(start, end),
});

// One row of a matrix, as an embedding.
function rowOf({ inputs, width, codes, scales }, row) {
  const found = Float32Array.from(codes.subarray(row * width, row * width + inputs));
  for (let at = 0; at < inputs; at += 1) found[at] *= scales[row];
  return found;
}

// Each of `rows` rows of the input times the matrix, plus the bias.
function multiply(matrix, rows, input, room) {
  const result = new Float32Array(rows * matrix.outputs);
  forEachBlock(matrix, rows, input, room, (start, values) => result.set(values, start * matrix.outputs));
  return result;
}

// Gives each row of the product to `use`, which reads it before the next product: it lies in the room of all products.
function forEachRow(matrix, rows, input, room, use) {
  const { outputs } = matrix;
  forEachBlock(matrix, rows, input, room, (start, values) => {
    for (let at = 0; at < values.length; at += outputs) use(values.subarray(at, at + outputs), start + at / outputs);
  });
}

function forEachBlock(matrix, rows, input, { x, y, run }, use) {
  const { inputs, outputs, width } = matrix;
  for (let start = 0; start < rows; start += BLOCK) {
    const count = Math.min(BLOCK, rows - start);
    for (let row = 0; row < count; row += 1) {
      const from = (start + row) * inputs;
      x.set(input.subarray(from, from + inputs), row * width);
      if (width > inputs) x.fill(0, row * width + inputs, (row + 1) * width);
    }
    run(matrix, count);
    use(start, y.subarray(0, count * outputs));
  }
}

function startedBy(compiled, x, y, scratch) {
  return ({ codes, scales, bias, width, outputs }, rows) => {
    const isInt8 = codes instanceof Int8Array;
    const addresses = [x, codes, scales, bias, y].map(({ byteOffset }) => byteOffset);
    if (rows === 1) return compiled[isInt8 ? 'int8x1' : 'float32x1'](...addresses, width, outputs);
    const fours = Math.ceil(rows / FOUR) * FOUR; // some more rows than asked for
    return compiled.multiply(...addresses, width, outputs, fours, scratch.byteOffset, isInt8);
  };
}

function multiplyPlainly({ codes, scales, bias, width, outputs }, rows, x, y) {
  for (let output = 0; output < outputs; output += 1) {
    const from = output * width;
    for (let row = 0; row < rows; row += 1) {
      const start = row * width;
      let total = 0;
      for (let column = 0; column < width; column += 1) total += x[start + column] * codes[from + column];
      y[row * outputs + output] = bias[output] + scales[output] * total;
    }
  }
}

// The logarithm of the sum of the exponentials. WebAssembly reads four numbers at once, from its own memory.
function logSumExp({ exponentials }, values, single) {
  const count = Math.ceil(values.length / FOUR) * FOUR;
  const isReady = values.buffer === single.buffer && values.length === count;
  if (!isReady) {
    single.set(values);
    single.fill(-Infinity, values.length, count);
  }
  const [most, total] = exponentials((isReady ? values : single).byteOffset, count);
  return most + Math.log(total);
}

/** @type {(values: Float32Array) => number} */
export function logSumExpPlainly(values) {
  let most = -Infinity;
  for (let at = 0; at < values.length; at += 1) if (values[at] > most) most = values[at];
  let total = 0;
  for (let at = 0; at < values.length; at += 1) total += Math.exp(values[at] - most);
  return most + Math.log(total);
}
