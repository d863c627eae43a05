// The files of a translation, as viz/export.py writes them: record and arrays, and what the page makes its HTML files of.

import { asScriptText, slug, toBase64 } from '../domain/files.js';
import { KINDS } from '../domain/payload.js';
import { zip } from './tensors/zip.js';

// The answer to an export of a translation with its payload, which says too which heads are muted.
/** @type {(translation: any, payload: any, generator: string) => Promise<any>} */
export async function filesOf(translation, payload, generator) {
  const plain = await plainPayload(payload);
  const name = `headlight-${slug(payload.model.name)}-${slug(payload.source_text)}${payload.muted ? '-muted' : ''}`;
  const record = new TextEncoder().encode(asScriptText({ generator, ...plain }));
  const arrays = new Uint8Array(await new Blob(zip(arraysOf(translation))).arrayBuffer());
  return {
    files: { [`${name}.json`]: toBase64(record), [`${name}.npz`]: toBase64(arrays) },
    payload: plain,
    python: null, // there is no server that a call could reach
    curl: null,
  };
}

// The answer to the wish for a page with the model: what that page holds.
/** @type {(loaded: Loaded, payload: any) => Promise<any>} */
export async function partsOf({ identity, files }, payload) {
  const contents = {};
  for (const name of Object.keys(identity.files)) contents[name] = toBase64(new Uint8Array(await files.bytes(name)));
  return {
    name: `headlight-${slug(identity.name)}-${slug(payload.source_text)}-with-model.html`,
    payload: await plainPayload({ ...payload, timings: {} }),
    identity,
    files: contents,
  };
}

// With the codes as a server sends them: compressed, in base64.
async function plainPayload(payload) {
  const attention = {};
  for (const kind of KINDS) {
    const { shape, data } = payload.attention[kind];
    const stream = new Blob([data]).stream().pipeThrough(new CompressionStream('deflate'));
    attention[kind] = { shape, data: toBase64(new Uint8Array(await new Response(stream).arrayBuffer())) };
  }
  return { ...payload, attention };
}

// Arrays in the format of NumPy (NEP 1), by the names of their files.
function arraysOf({ tokens, trace, logProbabilities, sourceText, text }) {
  const texts = (side) => side.map((token) => token.text);
  const weights = KINDS.map((kind) => {
    const { layers, heads, rows, columns } = trace[kind];
    return [kind, array('<f4', [layers, heads, rows, columns], trace[kind].weights)];
  });
  const ids = BigInt64Array.from(tokens.predicted, ({ id }) => BigInt(id));
  const steps = [ids.length];
  return Object.fromEntries([
    ...weights.map(([name, bytes]) => [`${name}.npy`, bytes]),
    ...Object.entries(tokens).map(([side, list]) => [`${side}.npy`, textArray(texts(list), [list.length])]),
    ['ids.npy', array('<i8', steps, ids)],
    ['log_probabilities.npy', array('<f8', steps, Float64Array.from(logProbabilities))],
    ['source_text.npy', textArray([sourceText], [])],
    ['text.npy', textArray([text], [])],
  ]);
}

// Texts of one length, in UTF-32.
function textArray(texts, shape) {
  const points = texts.map((text) => Array.from(text, (letter) => Number(letter.codePointAt(0))));
  const width = Math.max(1, ...points.map(({ length }) => length));
  const codes = new Uint32Array(texts.length * width);
  points.forEach((each, place) => codes.set(each, place * width));
  return array(`<U${width}`, shape, codes);
}

function array(type, shape, values) {
  const sizes = shape.map((size) => `${size},`).join(' ');
  const about = `{'descr': '${type}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const header = `${about}${' '.repeat(63 - ((10 + about.length) % 64))}\n`;
  const bytes = new Uint8Array(10 + header.length + values.byteLength);
  bytes.set([0x93, ...new TextEncoder().encode('NUMPY'), 1, 0, header.length & 255, header.length >>> 8]);
  bytes.set(new TextEncoder().encode(header), 10);
  bytes.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), 10 + header.length);
  return bytes;
}
