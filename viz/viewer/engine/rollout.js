// Attention rollout, as model/analysis/attribution.py defines it: the share of each token in a position after some layers.

// The row of a position after a layer: its shares of the prefix for `decoder`, of the source for the other kinds.
/** @type {(trace: ByKind<KindTrace>, kind: Kind, layer: number, row: number) => number[]} */
export function rolloutRow({ encoder, decoder, cross }, kind, layer, row) {
  const ownOf = (array, at) =>
    meanOf(array, at).map((line, place) => line.map((weight, key) => 0.5 * weight + 0.5 * Number(key === place)));
  const depth = kind === 'encoder' ? layer + 1 : encoder.layers;
  let encoded = ownOf(encoder, 0);
  for (let at = 1; at < depth; at += 1) encoded = product(ownOf(encoder, at), encoded);
  if (kind === 'encoder') return encoded[row];
  let prefix = meanOf(decoder, 0).map((line, place) => line.map((_, key) => Number(key === place)));
  let source = prefix.map(() => Array(cross.columns).fill(0));
  for (let at = 0; at <= layer; at += 1) {
    const mixed = ownOf(decoder, at);
    const across = product(meanOf(cross, at), encoded);
    prefix = product(mixed, prefix).map((line) => line.map((value) => 0.5 * value));
    source = product(mixed, source).map((line, place) => line.map((value, key) => 0.5 * (value + across[place][key])));
  }
  return (kind === 'decoder' ? prefix : source)[row];
}

// The mean weights of the heads of a layer.
function meanOf({ heads, rows, columns, weights }, layer) {
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns }, (__, key) => {
      let total = 0;
      for (let head = 0; head < heads; head += 1)
        total += weights[((layer * heads + head) * rows + row) * columns + key];
      return total / heads;
    }),
  );
}

function product(one, other) {
  return one.map((line) =>
    other[0].map((_, column) => line.reduce((total, value, place) => total + value * other[place][column], 0)),
  );
}
