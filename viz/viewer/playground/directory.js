// A trained model as a model directory, as model/storage writes it, and the directory as one zip file.

import { sum } from '../domain/math.js';
import { inEnglish } from '../locales/language.js';
import { tokenizerSettings } from './tasks.js';

const LEVELS = 255; // codes of the weights

// Weights as codes of 8 bits. The codes of a row add up to 255, because the sum so far is rounded, not each weight.
export function codesOf(weights, columns) {
  let total = 0;
  return Uint8Array.from(weights, (weight, place) => {
    const before = place % columns === 0 ? 0 : total;
    total = before + weight;
    return Math.round(LEVELS * total) - Math.round(LEVELS * before);
  });
}

// What the page needs to know of the model, and its files by name, as bytes.
export async function directoryOf({ settings, task, trainer, log, probes }) {
  const title = `Playground: ${inEnglish(task.title)}, ${trainer.steps} steps`;
  const { positions, ...shape } = trainer.shape; // older versions of the program know no setting `positions`
  const model = positions === 'sinusoidal' ? shape : trainer.shape;
  const config = { format: 3, model, source_language: 'word', target_language: settings.task, title, scores: {} };
  const tensors = [...trainer.weights].map(([key, { sizes, value }]) => [key, 'F32', sizes, [value]]);
  const files = {
    'config.json': [JSON.stringify(config, null, 2)],
    'model.safetensors': safetensors(tensors, {}),
    'tokenizer.json': [JSON.stringify(tokenizerSettings(task))],
    ...cardOf(title, settings, trainer.steps, log),
    'metrics.jsonl': log.map((row) => `${JSON.stringify(row)}\n`),
    'probes.safetensors': probesOf(task, probes, trainer.shape.n_heads),
  };
  for (const [file, parts] of Object.entries(files)) files[file] = new Uint8Array(await new Blob(parts).arrayBuffer());
  const languages = { source: 'word', target: settings.task, language: 'words', codes: [] };
  const identity = {
    name: `playground-${settings.task}`,
    title,
    ...languages,
    no_training: '',
    task: task.title,
    steps: trainer.steps,
    examples: task.examples,
  };
  return { identity, files };
}

// The card, as model/storage/card.py describes it.
function cardOf(title, settings, steps, log) {
  const share = log.at(-1)?.['validation/exact_match'];
  const score = share === undefined ? '' : ` It wrote ${share.toFixed(0)} % of unseen words right.`;
  const introduction = `Trained in a browser for ${steps} steps.${score}`;
  const facts = Object.entries(settings).map(([name, value]) => [name, String(value)]);
  const rows = facts.map(([name, value]) => `| ${name} | ${value} |\n`).join('');
  return {
    'card.json': [JSON.stringify({ title, introduction: [introduction], facts }, null, 2)],
    'README.md': [`# ${title}\n\n${introduction}\n\n| switch | value |\n|---|---|\n${rows}`],
  };
}

// The examples at the probed steps, in the form of model/storage/probes.py.
function probesOf(task, probes, heads) {
  const steps = [...probes.keys()].sort((one, other) => one - other);
  const sentences = task.examples.map((source) => ({ source, target: task.write(source) }));
  const each = (tensorOf) =>
    sentences.map((_, place) =>
      tensorOf(
        place,
        steps.map((at) => probes.get(at)[place]),
      ),
    );
  const chances = each((place, found) => {
    const sizes = [steps.length, found[0].logProbabilities.length];
    return [`${place}.log_probabilities`, 'F32', sizes, found.map((probe) => probe.logProbabilities)];
  });
  const weights = ['encoder', 'decoder', 'cross'].flatMap((kind) =>
    each((place, found) => {
      const { rows, columns, codes } = found[0][kind];
      const sizes = [steps.length, codes.length, heads, rows, columns];
      return [`${place}.${kind}`, 'U8', sizes, found.flatMap((probe) => probe[kind].codes)];
    }),
  );
  return safetensors([...chances, ...weights], { probes: JSON.stringify({ version: 1, steps, sentences }) });
}

// The parts of a safetensors file of tensors [name, type, shape, parts]. Tensors of 32 bits come first, to be aligned.
function safetensors(tensors, metadata) {
  const entries = { __metadata__: { format: 'pt', ...metadata } };
  let at = 0;
  for (const [name, dtype, shape, parts] of tensors)
    entries[name] = { dtype, shape, data_offsets: [at, (at += sum(parts.map(({ byteLength }) => byteLength)))] };
  const header = new TextEncoder().encode(JSON.stringify(entries));
  const padding = ' '.repeat(-header.length & 7);
  const length = BigUint64Array.of(BigInt(header.length + padding.length));
  return [length, header, padding, ...tensors.flatMap(([, , , parts]) => parts)];
}
