// Reads safetensors files: the length of a JSON header, the header with type, shape and place of each tensor, the data.

import { fault } from '../../locales/language.js';

export const SCALES = '.scales'; // suffix of the name of the row scales of a weight in 8 bits
const BYTES = { F32: 4, F16: 2, BF16: 2, I8: 1, U8: 1 };
const damaged = () => fault('A file of this model is damaged; load it again.');

// Returns the tensors by name, { type, shape, bytes } each, and the metadata of the file.
/** @type {(buffer: ArrayBuffer) => { tensors: Map<string, Tensor>; metadata: { [name: string]: string } }} */
export function parseTensors(buffer) {
  const length = buffer.byteLength < 8 ? Infinity : Number(new DataView(buffer).getBigUint64(0, true));
  if (8 + length > buffer.byteLength) throw damaged();
  const start = 8 + length;
  const { __metadata__: metadata = {}, ...entries } = JSON.parse(
    new TextDecoder().decode(new Uint8Array(buffer, 8, length)),
  );
  const tensors = new Map();
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [from, to],
    },
  ] of Object.entries(entries)) {
    const size = shape.reduce((product, each) => product * each, BYTES[dtype]);
    if (to - from !== size || start + to > buffer.byteLength) throw damaged();
    tensors.set(name, { type: dtype, shape, bytes: new Uint8Array(buffer, start + from, size) });
  }
  return { tensors, metadata };
}

/** @type {(tensors: Map<string, Tensor>, name: string) => Tensor} */
export function tensorNamed(tensors, name) {
  const found = tensors.get(name);
  if (!found) throw damaged();
  return found;
}

// The numbers of a tensor, as Float32Array.
/** @type {(tensor: Pick<Tensor, 'type' | 'bytes'>) => Float32Array} */
export function toFloat32({ type, bytes }) {
  if (type === 'F32') return new Float32Array(bytes.slice().buffer); // copied, because the data may not be aligned
  const codes = new Uint16Array(bytes.slice().buffer);
  if (type === 'F16') return Float32Array.from(codes, halfToFloat);
  return new Float32Array(Uint32Array.from(codes, (code) => code << 16).buffer); // BF16 is the upper half
}

// A matrix among the tensors, as `createProducts` takes it, without a bias; null for what is no matrix.
/** @type {(tensors: Map<string, Tensor>, name: string) => any} */
export function storedMatrix(tensors, name) {
  const { shape, type, bytes } = tensorNamed(tensors, name);
  if (shape.length !== 2 || name.endsWith(SCALES)) return null;
  const scales = tensors.get(name + SCALES);
  return {
    outputs: shape[0],
    inputs: shape[1],
    values: type === 'I8' ? new Int8Array(bytes.slice().buffer) : toFloat32(tensorNamed(tensors, name)),
    scales: scales ? toFloat32(scales) : null,
    bias: null,
  };
}

function halfToFloat(code) {
  const sign = code & 0x8000 ? -1 : 1;
  const exponent = (code >> 10) & 31;
  const fraction = code & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}
