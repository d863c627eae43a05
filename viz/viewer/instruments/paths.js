// The routes of a word as points and lines: the positions that they touch, and the paths that pass through a connection.

/** @typedef {{ stack: Stack; level: number; place: number | null }} PathNode */

// The connections that carry at least this share of the word, each with its ends: nodes "stack level place". Levels count
// upwards, from 0 for the tokens that a stack reads; a layer of the decoder has one for each of its two attentions.
/** @type {(answer: { connections: Connection[] }, leastFlow: number, layers: number) => Path[]} */
export const pathsOf = ({ connections }, leastFlow, layers) =>
  connections.filter(({ flow }) => flow >= leastFlow).map((one) => withEnds(one, layers));

/** @type {(one: Connection, layers: number) => Path} */
const withEnds = (one, layers) => ({ ...one, from: nodeName(startOf(one, layers)), to: nodeName(endOf(one)) });

/** @type {(one: Connection) => PathNode} */
function endOf({ kind, layer, row }) {
  if (kind === 'encoder') return { stack: 'encoder', level: layer + 1, place: row };
  return { stack: 'decoder', level: 2 * layer + (kind === 'cross' ? 2 : 1), place: row };
}

// What the position reads: the same stack one level below, or the encoder's output.
/** @type {(one: Connection, layers: number) => PathNode} */
function startOf({ kind, layer, row, column }, layers) {
  if (kind === 'encoder') return { stack: 'encoder', level: layer, place: column };
  if (kind === 'decoder') return { stack: 'decoder', level: 2 * layer, place: column };
  if (column === null) return { stack: 'decoder', level: 2 * layer + 1, place: row };
  return { stack: 'encoder', level: layers, place: column };
}

/** @type {(node: PathNode) => string} */
export const nodeName = ({ stack, level, place }) => `${stack} ${level} ${place}`;

/** @type {(paths: Path[]) => Places} */
export function placesOf(paths) {
  const places = { encoder: new Set(), decoder: new Set() };
  for (const { from, to } of paths)
    for (const name of [from, to]) {
      const [stack, , place] = name.split(' ');
      places[stack].add(Number(place));
    }
  const sorted = (set) => [...set].sort((one, other) => one - other);
  return { encoder: sorted(places.encoder), decoder: sorted(places.decoder) };
}

// The paths that pass through a connection: what reaches it, and where it leads.
/** @type {(paths: Path[], one: Path) => Set<Path>} */
export function through(paths, one) {
  const follow = (next) => {
    const found = new Set([one]);
    for (const each of found) for (const other of next(each)) found.add(other);
    return found;
  };
  const below = follow(({ from }) => paths.filter(({ to }) => to === from));
  const above = follow(({ to }) => paths.filter(({ from }) => from === to));
  return new Set([...below, ...above]);
}
