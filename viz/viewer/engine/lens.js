// What the states after each layer say, as model/analysis/lens.py defines it: by the output matrix alone, or through the
// Jacobian lens of the model first.

import { rounded } from '../domain/math.js';
import { predict } from './model.js';
import { normalise } from './network.js';
import { largestPlaces } from './search.js';
import { createProducts } from './tensors/products.js';
import { parseTensors, storedMatrix } from './tensors/safetensors.js';

const WORDS = 5; // likeliest words of each layer and step

// The Jacobian lens of a model from the bytes of its file: a matrix for each layer of the decoder, which carries rows from there to
// the last layer, and how often the lens was right.
/** @type {(bytes: ArrayBuffer) => Promise<any>} */
export async function createLens(bytes) {
  const { tensors, metadata } = parseTensors(bytes);
  const named = [...tensors.keys()].map((name) => [name, storedMatrix(tensors, name)]).filter(([, matrix]) => matrix);
  const { matrices, multiply } = await createProducts(Object.fromEntries(named));
  return {
    carry: (layer, x) => {
      const matrix = matrices[`decoder.${layer}`];
      return multiply(matrix, x.length / matrix.inputs, x);
    },
    measured: JSON.parse(metadata.lens),
  };
}

// The likeliest words, [layer][step][rank], with their log-probabilities, and the log-probabilities of `ids`; and how near the
// encoder's states are to its last ones. `trace` is the trace of one pass over `ids`, `through` the Jacobian lens or null.
/** @type {(translator: Translator, ids: number[], trace: Trace, through: any) => any} */
export function lens({ model, tokenizers: { target } }, ids, trace, through) {
  const found = wordsOf(model, ids, statesOf(trace, null));
  const carried = through && wordsOf(model, ids, statesOf(trace, through));
  const all = [found, carried].flatMap((one) => one?.words.flat(2) ?? []);
  return {
    ...found,
    jacobian: carried,
    encoder: nearness(model, [...trace.inputs.encoder.slice(1), trace.last.encoder]),
    measured: through && through.measured,
    tokens: Object.fromEntries([...new Set(all)].map((id) => [id, target.tokens([id])[0]])),
  };
}

// The rows after each layer of the decoder, all but the last carried to the last one.
function statesOf({ inputs, last }, through) {
  const early = inputs.decoder.slice(1);
  return [...early.map((x, layer) => (through ? through.carry(layer, x) : x)), last.decoder];
}

function wordsOf(model, ids, states) {
  const layers = states.map((x) => predict(model, normed(model, 'decoder', x)));
  const found = layers.map((steps) => steps.map(({ logits }) => largestPlaces(logits, WORDS)));
  const chances = (valuesOf) =>
    layers.map((steps, layer) =>
      steps.map(({ logits, norm }, step) => valuesOf(layer, step, (id) => logits[id] - norm)),
    );
  return {
    words: found,
    log_probabilities: chances((layer, step, chanceOf) => found[layer][step].map((id) => rounded(chanceOf(id)))),
    chosen: chances((_, step, chanceOf) => rounded(chanceOf(ids[step]))),
    leads_from: ids.map((id, step) => leadsFrom(found, id, step)),
  };
}

const normed = ({ network }, side, x) => (network.preNorm ? normalise(x, network[`${side}Norm`]) : x);

// The cosine of each state and the last one of its row, after the norm, [layer][row].
function nearness(model, states) {
  const { width } = model.network;
  const rows = states.map((x) => normed(model, 'encoder', x));
  const last = rows.at(-1);
  const product = (x, y, at) => {
    let total = 0;
    for (let place = at; place < at + width; place += 1) total += x[place] * y[place];
    return total;
  };
  return rows.map((x) =>
    Array.from({ length: x.length / width }, (_, row) => {
      const at = row * width;
      return rounded(product(x, last, at) / Math.sqrt(product(x, x, at) * product(last, last, at)));
    }),
  );
}

// The first layer from which on this word leads and stays; null where the last layer prefers another one.
function leadsFrom(found, id, step) {
  const last = found.findLastIndex((steps) => steps[step][0] !== id);
  return last + 1 < found.length ? last + 1 : null;
}
