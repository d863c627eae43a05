// The table of replacements of a SentencePiece normaliser, as model/text/charsmap.py reads it: a trie as a double array in
// units of 32 bits, then the values, each ended by a zero byte.

const MAX_VALUE = 128; // bytes that one replacement can have

// Returns a function of characters and a place: what the longest match there becomes, and where it ends, { text, end };
// without a match, the character itself. `table` are the bytes.
/** @type {(table: Uint8Array) => (characters: string[], place: number) => { text: string; end: number }} */
export function createCharsmap(table) {
  const none = (characters, start) => ({ text: characters[start], end: start + 1 });
  if (table.length === 0) return none;
  const view = new DataView(table.buffer);
  const size = view.getUint32(0, true);
  const units = Uint32Array.from({ length: size / 4 }, (_, place) => view.getUint32(4 + 4 * place, true));
  const values = table.subarray(4 + size);
  return (characters, start) => longestMatch(units, values, characters, start) ?? none(characters, start);
}

function longestMatch(units, values, characters, start) {
  let found = /** @type {{ text: string; end: number } | null} */ (null);
  let node = childrenOf(units[0]);
  for (let place = start; place < characters.length; place += 1) {
    let unit = 0;
    for (const byte of new TextEncoder().encode(characters[place])) {
      node ^= byte;
      // The lowest byte of a unit is the label of the edge to it; the highest bit marks a value.
      if (node >= units.length || (units[node] & 0x800000ff) >>> 0 !== byte) return found;
      unit = units[node];
      node ^= childrenOf(unit);
    }
    if ((unit >>> 8) & 1 && node < units.length)
      found = { text: valueAt(values, units[node] & 0x7fffffff), end: place + 1 };
  }
  return found;
}

// From a unit to the units of its children.
const childrenOf = (unit) => (unit >>> 10) << ((unit & (1 << 9)) >>> 6);

function valueAt(values, first) {
  const bytes = values.subarray(first, first + MAX_VALUE);
  const end = bytes.indexOf(0);
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(end < 0 ? bytes : bytes.subarray(0, end));
}
