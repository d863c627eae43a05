// A trained model as a model directory, as model/storage writes it, and the directory as one zip file.

import { tokenizerSettings } from './tasks.js';

const LEVELS = 255; // codes of the weights
const FORMAT = 3; // of config.json
const PROBES = 1; // version of probes.safetensors

// Weights as codes of 8 bits; a row adds up to 255: rounded down, then the largest remainders are raised by 1.
export function codesOf(weights, columns) {
  const codes = Uint8Array.from(weights, (weight) => Math.floor(weight * LEVELS));
  for (let start = 0; start < codes.length; start += columns) {
    const places = Array.from({ length: columns }, (_, place) => start + place);
    const left = LEVELS - places.reduce((total, place) => total + codes[place], 0);
    const remainder = (place) => weights[place] * LEVELS - codes[place];
    places.sort((one, other) => remainder(other) - remainder(one));
    for (const place of places.slice(0, left)) codes[place] += 1;
  }
  return codes;
}

// What the page needs to know of the model, and its files by name, as bytes.
export function directoryOf({ settings, task, trainer, steps, log, probes }) {
  const name = `playground-${settings.task}`;
  const title = `Playground: ${task.title()}, ${steps} steps`;
  const config = {
    format: FORMAT,
    model: pythonShape(trainer.shape),
    source_language: 'word',
    target_language: settings.task,
    title,
    scores: {},
  };
  const tensors = [...trainer.weights].map(([key, { sizes, value }]) => [key, 'F32', sizes, value]);
  const text = (value) => new TextEncoder().encode(value);
  const files = {
    'config.json': text(JSON.stringify(config, null, 2)),
    'model.safetensors': safetensors(tensors, {}),
    'tokenizer.json': text(JSON.stringify(tokenizerSettings(task))),
    'README.md': text(cardOf(title, settings, steps, log)),
    'metrics.jsonl': text(log.map((row) => `${JSON.stringify(row)}\n`).join('')),
    'probes.safetensors': probesOf(task, probes, trainer.shape.n_heads),
  };
  const identity = {
    name,
    title,
    source: 'word',
    target: settings.task,
    language: 'words',
    codes: [],
    no_training: '',
  };
  return { identity: { ...identity, examples: task.examples }, files };
}

// Older versions of the program know no setting `positions`.
function pythonShape({ positions, ...shape }) {
  return positions === 'sinusoidal' ? shape : { ...shape, positions };
}

function cardOf(title, settings, steps, log) {
  const share = log.at(-1)?.['validation/exact_match'];
  const score = share === undefined ? '' : ` It wrote ${share.toFixed(0)} % of unseen words right.`;
  const choices = Object.entries(settings).map(([name, value]) => `| ${name} | ${value} |`);
  return `# ${title}\n\nTrained in a browser for ${steps} steps.${score}\n\n| switch | value |\n|---|---|\n${choices.join('\n')}\n`;
}

// The examples at the probed steps, in the form of model/storage/probes.py.
function probesOf(task, probes, heads) {
  const steps = [...probes.keys()].sort((one, other) => one - other);
  const sentences = task.examples.map((source) => ({ source, target: task.write(source) }));
  const tensors = sentences.flatMap((_, place) => {
    const found = steps.map((at) => probes.get(at)[place]);
    const kinds = ['encoder', 'decoder', 'cross'].map((kind) => {
      const { rows, columns, codes } = found[0][kind];
      const all = joined(
        Uint8Array,
        found.flatMap((each) => each[kind].codes),
      );
      return [`${place}.${kind}`, 'U8', [steps.length, codes.length, heads, rows, columns], all];
    });
    const chances = joined(
      Float32Array,
      found.map((each) => each.chances),
    );
    return [...kinds, [`${place}.log_probabilities`, 'F32', [steps.length, found[0].chances.length], chances]];
  });
  return safetensors(tensors, { probes: JSON.stringify({ version: PROBES, steps, sentences }) });
}

function joined(Type, parts) {
  const all = new Type(parts.reduce((total, { length }) => total + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

// A safetensors file of tensors [name, type, shape, values], those of 32 bits first, so that they are aligned.
function safetensors(tensors, metadata) {
  const sorted = tensors.toSorted(([, one], [, other]) => (one === other ? 0 : one === 'F32' ? -1 : 1));
  const entries = { __metadata__: { format: 'pt', ...metadata } };
  let at = 0;
  for (const [name, dtype, shape, { byteLength }] of sorted)
    entries[name] = { dtype, shape, data_offsets: [at, (at += byteLength)] };
  const header = new TextEncoder().encode(JSON.stringify(entries));
  const padding = new Uint8Array((8 - (header.length % 8)) % 8).fill(0x20);
  const length = new Uint8Array(new BigUint64Array([BigInt(header.length + padding.length)]).buffer);
  const bytes = sorted.map(
    ([, , , { buffer, byteOffset, byteLength }]) => new Uint8Array(buffer, byteOffset, byteLength),
  );
  return joined(Uint8Array, [length, header, padding, ...bytes]);
}

// Files in a folder of this name as a zip file, without compression (APPNOTE.TXT of PKWARE, sections 4.3.7, 4.3.12 and
// 4.3.16).
export function zip(folder, files) {
  const parts = [];
  const entries = [];
  let at = 0;
  for (const [name, bytes] of Object.entries(files)) {
    const path = new TextEncoder().encode(`${folder}/${name}`);
    const [sum, size] = [checksum(bytes), bytes.length];
    const common = [
      [2, 20],
      [2, 0x800],
      [2, 0],
      [2, 0],
      [2, 0x21],
      [4, sum],
      [4, size],
      [4, size],
      [2, path.length],
      [2, 0],
    ];
    const local = joined(Uint8Array, [fields([[4, 0x04034b50], ...common]), path, bytes]);
    entries.push(fields([[4, 0x02014b50], [2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]]), path);
    parts.push(local);
    at += local.length;
  }
  const [count, size] = [entries.length / 2, joined(Uint8Array, entries).length];
  const end = fields([
    [4, 0x06054b50],
    [2, 0],
    [2, 0],
    [2, count],
    [2, count],
    [4, size],
    [4, at],
    [2, 0],
  ]);
  return joined(Uint8Array, [...parts, ...entries, end]);
}

// Numbers of two or four bytes, little-endian.
function fields(values) {
  return Uint8Array.from(
    values.flatMap(([size, value]) => Array.from({ length: size }, (_, byte) => (value >>> (8 * byte)) & 255)),
  );
}

// CRC-32.
function checksum(bytes) {
  let sum = -1;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return (sum ^ -1) >>> 0;
}
