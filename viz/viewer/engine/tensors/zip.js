// Files in one, as a browser or NumPy opens it.

import { sum } from '../../domain/math.js';

// The parts of a zip file without compression with these files: for each file a local header, the path and
// the bytes, then an entry in the directory, then its end (APPNOTE.TXT of PKWARE, sections 4.3.7, 4.3.12 and 4.3.16). All
// fields have 16 bits; a number of 32 bits is two of them.
/** @type {(files: { [path: string]: Uint8Array }) => BlobPart[]} */
export function zip(files) {
  const wide = (value) => [value & 0xffff, value >>> 16];
  const [parts, entries] = /** @type {any[][]} */ ([[], []]);
  const sizeOf = (list) => sum(list.map(({ byteLength }) => byteLength));
  for (const [name, bytes] of Object.entries(files)) {
    const path = new TextEncoder().encode(name);
    const sizes = [...wide(checksum(bytes)), ...wide(bytes.length), ...wide(bytes.length), path.length, 0];
    const common = [20, 0x800, 0, 0, 0x21, ...sizes]; // version 2.0, names in UTF-8, the first day of 1980
    const start = wide(sizeOf(parts));
    parts.push(Uint16Array.of(...wide(0x04034b50), ...common), path, bytes);
    entries.push(Uint16Array.of(...wide(0x02014b50), 20, ...common, 0, 0, 0, 0, 0, ...start), path);
  }
  const count = entries.length / 2;
  const places = [...wide(sizeOf(entries)), ...wide(sizeOf(parts)), 0];
  return [...parts, ...entries, Uint16Array.of(...wide(0x06054b50), 0, 0, count, count, ...places)];
}

// CRC-32.
function checksum(bytes) {
  let found = -1;
  for (const byte of bytes) {
    found ^= byte;
    for (let bit = 0; bit < 8; bit += 1) found = (found >>> 1) ^ (found & 1 ? 0xedb88320 : 0);
  }
  return (found ^ -1) >>> 0;
}
