// The two circuits of a head, as model/analysis/circuits.py defines them: why it looks at a token, and what it writes when it does.

import { dot, rounded, sum } from '../domain/math.js';
import { headVectors } from './analysis.js';
import { largestPlaces } from './search.js';
import { attentionIn, carried, partsRead, stacksOf } from './stack.js';

const WORDS = 8; // that a head pushes up, and as many that it pushes down

// The score of a cell, before mask and softmax, over pairs of what wrote its query and what wrote its key.
/** @type {(translator: Translator, asked: PlaceAsked) => any} */
export function scoreSplit(translator, { text, ids, kind, layer, head, row, column }) {
  const { network } = translator.model;
  const { width, headWidth } = network;
  const stacks = stacksOf(translator, text, ids);
  const { stack, place, attention } = attentionIn(stacks, kind, layer);
  const { project, queries = project, keysValues = project } = attention.matrices;
  const asking = partsRead(stack, place, row);
  const { encoder } = stacks;
  const asked =
    kind === 'cross' ? partsRead(encoder, encoder.sublayers.length, column) : partsRead(stack, place, column);
  const start = head * headWidth;
  const query = projected(network, queries, asking.vectors, start);
  const key = projected(network, keysValues, asked.vectors, kind === 'cross' ? start : width + start);
  const matrix = query.map((one) => key.map((other) => dot(one, other) * headWidth ** -0.5));
  const vectorAt = ({ array, start: first, stride }, at) =>
    array.subarray(first + at * stride + start).subarray(0, headWidth);
  const score = dot(vectorAt(attention.queries, row), vectorAt(attention.keys, column)) * headWidth ** -0.5;
  return {
    score: rounded(score),
    bias: 0,
    query_parts: asking.names,
    key_parts: asked.names,
    matrix: matrix.map((line) => line.map(rounded)),
  };
}

// What some outputs of a matrix are of each part; the last part has their bias.
function projected({ products, headWidth }, matrix, vectors, start) {
  const all = products.multiply(matrix, vectors.length, Float32Array.from(vectors.flatMap((vector) => [...vector])));
  return vectors.map((_, part) =>
    Float64Array.from({ length: headWidth }, (__, at) => {
      const bias = part + 1 < vectors.length ? matrix.bias[start + at] : 0;
      return all[part * matrix.outputs + start + at] - bias;
    }),
  );
}

// The words that a head pushes up and down in a row when it reads one token with all its attention.
/** @type {(translator: Translator, asked: PlaceAsked) => any} */
export function writing(translator, { text, ids, kind, layer, head, row, column }) {
  const { model, tokenizers } = translator;
  const { network } = model;
  const stacks = stacksOf(translator, text, ids);
  const { stack, place, attention } = attentionIn(stacks, kind, layer);
  const { array, start, stride } = attention.keys;
  const read = { array, start: start + column * stride, stride };
  const vector = headVectors(network, kind, layer, read, 1)[head];
  const [words, tokenizer] =
    kind === 'encoder' ? [network.source, tokenizers.source] : [network.output, tokenizers.target];
  const found = network.products.multiply(words, 1, Float32Array.from(carried(stack, place, row, vector)));
  const changes = Float64Array.from(found, (value, word) => value - words.bias[word]);
  const mean = sum(changes) / changes.length;
  const count = Math.min(WORDS, Math.ceil(changes.length / 2));
  const pushes = (places) => places.map((word) => [word, rounded(changes[word] - mean)]);
  const up = pushes(largestPlaces(changes, count));
  const down = pushes(
    largestPlaces(
      changes.map((value) => -value),
      count,
    ),
  );
  return {
    weight: rounded(attention.weightOf(head, row, column)),
    norm: rounded(Math.hypot(...vector)),
    up,
    down,
    tokens: Object.fromEntries([...up, ...down].map(([word]) => [word, tokenizer.tokens([word])[0]])),
  };
}
