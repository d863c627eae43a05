// Numbers about one matrix of weights { rows, columns, values }.

export function valueAt(matrix, row, column) {
  return matrix.values[row * matrix.columns + column];
}

export function rowOf(matrix, row) {
  return matrix.values.subarray(row * matrix.columns, (row + 1) * matrix.columns);
}

// Entropy in bits.
export function entropy(weights) {
  let bits = 0;
  for (const weight of weights) if (weight > 0) bits -= weight * Math.log2(weight);
  return Math.max(0, bits);
}

// 1 for the largest weight of the row; equal weights share the better rank.
export function rankInRow(matrix, row, column) {
  const weight = valueAt(matrix, row, column);
  let larger = 0;
  for (const other of rowOf(matrix, row)) if (other > weight) larger += 1;
  return larger + 1;
}

export function strongest(weights) {
  let best = 0;
  for (let index = 1; index < weights.length; index += 1) if (weights[index] > weights[best]) best = index;
  return best;
}

export function meanEntropy(matrix) {
  return mean(matrix, (row) => entropy(rowOf(matrix, row)));
}

// Mean over rows of the largest weight, the end of the sentence left out (Voita et al. 2019).
export function confidence(matrix, columnTokens) {
  const last = columnTokens.length - 1;
  const end = last > 0 && columnTokens[last].special ? last : columnTokens.length;
  return mean(matrix, (row) => Math.max(...rowOf(matrix, row).subarray(0, end)));
}

// Mean over rows of the weight on the columns for which `belongs(token)` holds.
export function massOn(matrix, columnTokens, belongs) {
  const columns = columnTokens.flatMap((token, column) => (belongs(token) ? [column] : []));
  return mean(matrix, (row) => columns.reduce((sum, column) => sum + valueAt(matrix, row, column), 0));
}

export function isSpecial(token) {
  return token.special;
}

export function isPunctuation(token) {
  return !token.special && /^[\s\p{P}]+$/u.test(token.text);
}

function mean(matrix, measure) {
  let sum = 0;
  for (let row = 0; row < matrix.rows; row += 1) sum += measure(row);
  return sum / matrix.rows;
}

// The heads' mean weight on the strongest real word of each row: the sharpest head opens first.
export function sharpness(matrix, columnTokens) {
  const words = columnTokens.map((token) => !isSpecial(token) && !isPunctuation(token));
  return mean(matrix, (row) => Math.max(0, ...rowOf(matrix, row).filter((_, column) => words[column])));
}
