// The parts of the network with their gradients. Each computes its values and puts onto `run.tape` what adds its
// gradients; the tape runs backwards. A variable is { value, gradient }, two arrays in the memory of the training.
//
// The sentences of a batch lie end to end, without padding. `borders` hold where each of them begins, and the end.

import { attend, normalise } from '../engine/network.js';
import { padded } from '../engine/tensors/products.js';

export function variable(memory, length) {
  return { value: memory.take(length), gradient: memory.take(length) };
}

// y = x Wᵀ + b. With `into` the product is added to that variable: a residual connection, whose gradient is also that
// of the product. Rows of y are padded to the width that the product can write.
export function linear({ memory, tape }, x, { inputs, outputs, weight, bias }, into = null) {
  const rows = x.value.length / inputs;
  const width = padded(outputs);
  const y = into ?? variable(memory, rows * width);
  const turned = memory.take(inputs * width);
  for (let output = 0; output < outputs; output += 1)
    for (let input = 0; input < inputs; input += 1)
      turned[input * width + output] = weight.value[output * inputs + input];
  if (bias)
    for (let start = 0; start < y.value.length; start += width)
      for (let output = 0; output < outputs; output += 1) y.value[start + output] += bias.value[output];
  memory.multiply(x.value, inputs, 1, turned, y.value, rows, width, inputs);
  tape.push(() => {
    memory.multiply(y.gradient, width, 1, weight.value, x.gradient, rows, inputs, outputs);
    memory.multiply(y.gradient, 1, width, x.value, weight.gradient, outputs, inputs, rows);
    if (bias)
      for (let start = 0; start < y.gradient.length; start += width)
        for (let output = 0; output < outputs; output += 1) bias.gradient[output] += y.gradient[start + output];
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
    for (let row = 0; row < factors.length; row += 1) {
      let total = 0;
      let along = 0;
      for (let place = 0, at = row * width; place < width; place += 1, at += 1) {
        const gradient = y.gradient[at] * weight.value[place];
        total += gradient;
        along += gradient * unit[at];
        weight.gradient[place] += y.gradient[at] * unit[at];
        bias.gradient[place] += y.gradient[at];
      }
      for (let place = 0, at = row * width; place < width; place += 1, at += 1)
        x.gradient[at] += factors[row] * (y.gradient[at] * weight.value[place] - (total + unit[at] * along) / width);
    }
  });
  return y;
}

// Rows of the embedding times sqrt(d_model), plus positions.
export function embed({ memory, tape }, { inputs: width, weight }, ids, borders, positionOf) {
  const x = variable(memory, ids.length * width);
  const factor = Math.fround(Math.sqrt(width));
  eachRow(borders, (_, first, row) => {
    const position = positionOf(row - first);
    for (let place = 0; place < width; place += 1)
      x.value[row * width + place] = weight.value[ids[row] * width + place] * factor + position[place];
  });
  tape.push(() => {
    for (let row = 0; row < ids.length; row += 1)
      for (let place = 0; place < width; place += 1)
        weight.gradient[ids[row] * width + place] += x.gradient[row * width + place] * factor;
  });
  return x;
}

// Calls `act(sentence, first, row)` for each row; `first` is the first row of its sentence.
function eachRow(borders, act) {
  for (let sentence = 0; sentence + 1 < borders.length; sentence += 1)
    for (let row = borders[sentence]; row < borders[sentence + 1]; row += 1) act(sentence, borders[sentence], row);
}

// Multi-head attention. `queries` and `keys` are { of, stride, start, borders }: rows of a variable, `stride` apart, in
// which they begin at `start`; the values of `keys` come d_model numbers after them. Returns the joined heads, and the
// weights of each sentence [head, query, key].
export function attention({ memory, tape }, shape, queries, keys, isCausal) {
  const { width, heads } = shape;
  const rows = queries.borders.at(-1);
  const joined = variable(memory, rows * width);
  const weights = [];
  for (let sentence = 0; sentence + 1 < queries.borders.length; sentence += 1)
    weights.push(memory.take(heads * lengthOf(queries, sentence) * lengthOf(keys, sentence)));
  // What `attend` reads and writes for a row, with values or gradients of the variables.
  const each = (act) =>
    eachRow(queries.borders, (sentence, first, row) => {
      const length = lengthOf(keys, sentence);
      act({
        query: row * queries.stride + queries.start,
        key: keys.borders[sentence] * keys.stride + keys.start,
        output: row * width,
        count: isCausal ? row - first + 1 : length,
        weights: {
          array: weights[sentence],
          start: (row - first) * length,
          stride: lengthOf(queries, sentence) * length,
        },
      });
    });
  each(({ query, key, count, output, weights: found }) => {
    const read = { array: keys.of.value, start: key, stride: keys.stride };
    attend(
      shape,
      { array: queries.of.value, start: query },
      read,
      count,
      null,
      { array: joined.value, start: output },
      found,
    );
  });
  tape.push(() => {
    for (let head = 0; head < heads; head += 1) each((row) => attendBack(shape, head, queries.of, keys, joined, row));
  });
  return { joined, weights };
}

function lengthOf({ borders }, sentence) {
  return borders[sentence + 1] - borders[sentence];
}

// The gradients of one head and row.
function attendBack({ width, headWidth }, head, queries, { of: keys, stride }, joined, row) {
  const scale = headWidth ** -0.5;
  const [query, output] = [row.query + head * headWidth, row.output + head * headWidth];
  const first = row.key + head * headWidth;
  const weights = row.weights.array.subarray(row.weights.start + head * row.weights.stride);
  const gradients = new Float32Array(row.count); // of the weights
  let mean = 0;
  for (let key = 0, at = first + width; key < row.count; key += 1, at += stride) {
    let gradient = 0;
    for (let place = 0; place < headWidth; place += 1) {
      gradient += joined.gradient[output + place] * keys.value[at + place];
      keys.gradient[at + place] += weights[key] * joined.gradient[output + place];
    }
    gradients[key] = gradient;
    mean += gradient * weights[key];
  }
  for (let key = 0, at = first; key < row.count; key += 1, at += stride) {
    const gradient = weights[key] * (gradients[key] - mean) * scale; // of the product of query and key
    for (let place = 0; place < headWidth; place += 1) {
      queries.gradient[query + place] += gradient * keys.value[at + place];
      keys.gradient[at + place] += gradient * queries.value[query + place];
    }
  }
}

// The mean cross-entropy of the labels in nats, with its gradient. `logits` have padded rows; `right` says for each row
// whether the label is the likeliest token.
export function crossEntropy(logits, labels, vocabulary) {
  const width = logits.value.length / labels.length;
  const right = new Uint8Array(labels.length);
  let loss = 0;
  labels.forEach((label, row) => {
    const scores = logits.value.subarray(row * width, row * width + vocabulary);
    let most = -Infinity;
    for (const score of scores) most = Math.max(most, score);
    let total = 0;
    for (const score of scores) total += Math.exp(score - most);
    loss += (most + Math.log(total) - scores[label]) / labels.length;
    right[row] = scores[label] === most;
    for (let id = 0; id < vocabulary; id += 1)
      logits.gradient[row * width + id] = (Math.exp(scores[id] - most) / total - (id === label)) / labels.length;
  });
  return { loss, right };
}
