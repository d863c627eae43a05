// The parts of the network with their gradients. Each computes its values and puts onto `run.tape` what adds its
// gradients; the tape runs backwards. A variable is { value, gradient }, two arrays in the memory of the training.
//
// The sentences of a batch lie end to end, without padding. `borders` are the places where the sentences begin, then the end.

import { sum } from '../domain/math.js';
import { attendBack } from '../engine/gradients.js';
import { attend, normalise } from '../engine/network.js';
import { logSumExpPlainly, padded } from '../engine/tensors/products.js';
import { EOS_ID } from '../engine/text/tokenizer.js';

export const variable = (memory, length) => ({ value: memory.take(length), gradient: memory.take(length) });

// y = x Wᵀ + b. With `into` the product is added to that variable: a residual connection: both have the same
// gradient. Rows of y are padded to the width that the product can write; only the logits need it, without a bias.
export function linear({ memory, tape }, x, { inputs, outputs, weight, bias }, into = null) {
  const rows = x.value.length / inputs;
  const width = padded(outputs);
  const y = into ?? variable(memory, rows * width);
  const [turned, one] = [memory.take(inputs * width), memory.take(1).fill(1)];
  for (let output = 0; output < outputs; output += 1)
    for (let input = 0; input < inputs; input += 1)
      turned[input * width + output] = weight.value[output * inputs + input];
  memory.multiply(x.value, inputs, 1, turned, y.value, rows, width, inputs);
  if (bias) memory.multiply(one, 0, 0, bias.value, y.value, rows, width, 1); // the bias, once for each row
  tape.push(() => {
    memory.multiply(y.gradient, width, 1, weight.value, x.gradient, rows, inputs, outputs);
    memory.multiply(y.gradient, 1, width, x.value, weight.gradient, outputs, inputs, rows);
    if (bias) memory.multiply(one, 0, 0, y.gradient, bias.gradient, 1, width, rows); // the sum of all rows
  });
  return y;
}

// In place: a value of 0 had no positive input.
export function relu({ tape }, x) {
  const { value, gradient } = x;
  for (let place = 0; place < value.length; place += 1) value[place] = Math.max(0, value[place]);
  tape.push(() => {
    for (let place = 0; place < value.length; place += 1) if (value[place] === 0) gradient[place] = 0;
  });
  return x;
}

export function layerNorm({ memory, tape }, x, { weight, bias }) {
  const width = weight.value.length;
  const y = variable(memory, x.value.length);
  const [unit, factors] = [memory.take(x.value.length), memory.take(x.value.length / width)];
  normalise(x.value, { weight: weight.value, bias: bias.value }, y.value, { unit, factors });
  tape.push(() => {
    factors.forEach((factor, row) => {
      let [total, along] = [0, 0];
      for (let place = 0, at = row * width; place < width; place += 1, at += 1) {
        const gradient = y.gradient[at] * weight.value[place];
        total += gradient;
        along += gradient * unit[at];
        weight.gradient[place] += y.gradient[at] * unit[at];
        bias.gradient[place] += y.gradient[at];
      }
      for (let place = 0, at = row * width; place < width; place += 1, at += 1)
        x.gradient[at] += factor * (y.gradient[at] * weight.value[place] - (total + unit[at] * along) / width);
    });
  });
  return y;
}

// Calls `act(row, sentence, place)` for each row of a batch.
function eachRow(borders, act) {
  for (let sentence = 0; sentence + 1 < borders.length; sentence += 1)
    for (let row = borders[sentence]; row < borders[sentence + 1]; row += 1)
      act(row, sentence, row - borders[sentence]);
}

// Rows of the embedding times sqrt(d_model), plus positions.
export function embed({ memory, tape }, { inputs: width, weight }, ids, borders, positionOf) {
  const x = variable(memory, ids.length * width);
  const factor = Math.fround(Math.sqrt(width));
  eachRow(borders, (row, _, place) => {
    const position = positionOf(place);
    for (let at = 0; at < width; at += 1)
      x.value[row * width + at] = weight.value[ids[row] * width + at] * factor + position[at];
  });
  tape.push(() => {
    ids.forEach((id, row) => {
      for (let at = 0; at < width; at += 1) weight.gradient[id * width + at] += x.gradient[row * width + at] * factor;
    });
  });
  return x;
}

// Multi-head attention. `queries` and `keys` are { of, stride, start, borders }: rows of a variable, `stride` apart, in
// which they begin at `start`; the values of `keys` come d_model numbers after them. Returns the joined heads, and the
// weights of each sentence [head, query, key]. A query reads every key, none to its right (`isCausal`), or only the last one.
export function attention({ memory, tape }, shape, queries, keys, { isCausal = false, onlyLast = false }) {
  const { width, heads } = shape;
  const joined = variable(memory, queries.borders.at(-1) * width);
  const lengthOf = ({ borders }, sentence) => borders[sentence + 1] - borders[sentence];
  const sizeOf = (sentence) => lengthOf(queries, sentence) * lengthOf(keys, sentence);
  const weights = queries.borders.slice(1).map((_, sentence) => memory.take(heads * sizeOf(sentence)));
  eachRow(queries.borders, (row, sentence, place) => {
    const columns = lengthOf(keys, sentence);
    const first = onlyLast ? columns - 1 : 0;
    const found = { array: weights[sentence], start: place * columns + first, stride: sizeOf(sentence) };
    const query = row * queries.stride + queries.start;
    const key = (keys.borders[sentence] + first) * keys.stride + keys.start;
    const output = row * width;
    const count = (isCausal ? place + 1 : columns) - first;
    const reads = { array: queries.of.value, start: query };
    const writes = { array: joined.value, start: output };
    attend(shape, reads, { array: keys.of.value, start: key, stride: keys.stride }, count, null, writes, found);
    tape.push(() => attendBack(shape, queries.of, keys, joined, { query, key, output, count, found }));
  });
  return { joined, weights };
}

// The mean cross-entropy of the labels in nats, with its gradient; the log-probability of each label; and the token of
// each row that the model writes, </s> or one after it in the vocabulary. `logits` have padded rows.
export function crossEntropy(logits, labels, vocabulary) {
  const width = logits.value.length / labels.length;
  const likeliest = [];
  const logProbabilities = Float32Array.from(labels, (label, row) => {
    const scores = logits.value.subarray(row * width, row * width + vocabulary);
    const norm = logSumExpPlainly(scores);
    let best = EOS_ID;
    for (let id = 0; id < vocabulary; id += 1) {
      if (id > EOS_ID && scores[id] > scores[best]) best = id;
      logits.gradient[row * width + id] = (Math.exp(scores[id] - norm) - Number(id === label)) / labels.length;
    }
    likeliest.push(best);
    return Math.min(0, scores[label] - norm);
  });
  return { loss: -sum(logProbabilities) / labels.length, logProbabilities, likeliest };
}
