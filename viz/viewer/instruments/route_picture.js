// The picture of routes: tokens stand side by side and layers above each other, the decoder above the encoder. A line is what
// one position reads from another in one layer; an orange one carries the name of the head that brings most of it.

import { shape, visible } from '../drawing/dom.js';
import { headName, kindName } from '../state/labels.js';
import { percent } from '../drawing/numbers.js';
import { sum } from '../domain/math.js';
import { addRovingFocus } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

const WIDTH = 360; // of the picture, as its height in its own units
const STEP = 30; // between levels
const LABEL = 64; // room for the tokens of a stack
const EDGE = 24; // beside the first and the last token
const THICKEST = 10; // a line that carries everything
const LONGEST = 9; // letters of a token
const SIDE = 24; // how far a line from the encoder swings out
const NAMED_AT = [0.7, 0.5, 0.3, 0.85, 0.15]; // of a line, from its start: the name of its head, where there is room first
const NAME = { width: 64, height: 13 }; // room for a name

// Where each node is: tokens at equal distances over the whole width, the decoder above the encoder.
/** @type {(places: Places, layers: { [stack in Stack]: number }, width?: number) => any} */
export function layoutOf(places, layers, width = WIDTH) {
  const heights = { decoder: 2 * layers.decoder * STEP, encoder: layers.encoder * STEP };
  const bottoms = { decoder: LABEL / 2 + heights.decoder, encoder: 2 * LABEL + heights.decoder + heights.encoder };
  const x = (stack, place) => {
    const index = places[stack].indexOf(place);
    return EDGE + ((width - 2 * EDGE) * (index + 0.5)) / places[stack].length;
  };
  return {
    places,
    layers,
    width,
    height: bottoms.encoder + LABEL,
    bottoms,
    at: (name) => {
      const [stack, level, place] = name.split(' ');
      return { x: x(stack, Number(place)), y: bottoms[stack] - STEP * Number(level) };
    },
  };
}

// `choose(one)` is called for the line of a head that is chosen, `show(one)` for a line under the pointer or with the focus.
/** @type {(drawn: { record: TranslationRecord; paths: Path[]; layout: any; step: number }, choose: (one: Path) => void, show?: (one: Path) => void) => SVGElement} */
export function pictureOf({ record, paths, layout, step }, choose, show = (_one) => {}) {
  const svg = shape('svg', { class: 'hl-routes', viewBox: `0 0 ${layout.width} ${layout.height}`, role: 'group' });
  svg.setAttribute(
    'aria-label',
    say('The ways of “{word}” through the network', { word: visible(record.tokens.predicted[step]) }),
  );
  const names = placeNames(paths, layout);
  const lines = [...paths]
    .sort((one, other) => isOfHead(one) - isOfHead(other) || one.flow - other.flow)
    .map((one) => ({ one, node: line(record, one, layout, names.get(one), choose) }));
  const light = (chosen) => {
    const lit = chosen && through(paths, chosen);
    svg.classList.toggle('hl-has-focus', Boolean(lit));
    for (const { one, node } of lines) node.classList.toggle('hl-lit', Boolean(lit?.has(one)));
  };
  for (const { one, node } of lines) {
    for (const name of ['pointerenter', 'focus'])
      node.addEventListener(name, () => {
        light(one);
        show(one);
      });
    for (const name of ['pointerleave', 'blur']) node.addEventListener(name, () => light(null));
  }
  const reached = [...lines].filter(({ one }) => one.head !== null).map(({ node }) => node);
  if (reached.length > 0)
    addRovingFocus(reached, (place, key) => ({ ArrowRight: place + 1, ArrowLeft: place - 1 })[key]);
  svg.append(
    ...stackNames(layout),
    ...lines.map(({ node }) => node),
    ...nodes(paths, layout),
    ...tokenNames(record, layout, step),
  );
  return svg;
}

// The lines with names come last, so that no other line runs through a name.
const isOfHead = ({ head }) => Number(head !== null);

// A line, with its head if it has one; a wider one below it is easier to point at.
function line(record, one, layout, at, choose) {
  const { kind, layer, row, column, head, flow } = one;
  const ends = curveOf(one, layout);
  const d = `M${ends[0]}C${ends.slice(1).join(' ')}`;
  const parts = [
    shape('path', { class: 'hl-route-room', d }),
    shape('path', { class: 'hl-route-line', d, 'stroke-width': Math.max(1, THICKEST * flow).toFixed(2) }),
  ];
  if (head === null) return shape('g', { class: 'hl-route' }, ...parts);
  const [x, y] = at;
  const name = shape('text', { x, y: y + 4 }, `${kindName(kind)} ${layer + 1}.${head + 1}`);
  const { rows, columns } = axesOf(record, kind);
  const label = say('{kind}, {head}: “{row}” reads “{column}”, {share} of the word', {
    kind: kindName(kind),
    head: headName(layer, head),
    row: visible(rows[row]),
    column: visible(columns[column]),
    share: percent(flow),
  });
  const open = () => choose(one);
  const node = shape(
    'g',
    {
      class: 'hl-route hl-route-head',
      role: 'button',
      tabindex: -1,
      'aria-label': label,
      'data-head': String([kind, layer, head]),
      onclick: open,
    },
    ...parts,
    name,
    shape('title', {}, label),
  );
  node.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.stopPropagation();
    open();
  });
  return node;
}

// Where the names of the heads stand on their lines. The lines that carry most choose first: the first place without another
// name, or else the place that is farthest from all names.
function placeNames(paths, layout) {
  const placed = new Map();
  const apart = ([x, y]) =>
    Math.min(
      ...[...placed.values()].map(([left, top]) =>
        Math.max(Math.abs(x - left) / NAME.width, Math.abs(y - top) / NAME.height),
      ),
    );
  /** @type {(place: number[]) => [number, number]} */
  const within = ([x, y]) => [Math.min(layout.width - NAME.width / 2, Math.max(NAME.width / 2, x)), y];
  const named = paths.filter(({ head }) => head !== null).sort((one, other) => other.flow - one.flow);
  for (const one of named) {
    const curve = curveOf(one, layout);
    const places = NAMED_AT.map((share) => within(pointOf(curve, share)));
    placed.set(one, places.find((place) => apart(place) >= 1) ?? places.sort((a, b) => apart(b) - apart(a))[0]);
  }
  return placed;
}

// The four points of a line: straight up within a stack. What the decoder reads of the encoder comes from the side, so that
// it does not lie on what the position keeps.
function curveOf({ kind, column, from, to }, layout) {
  const [start, end] = [layout.at(from), layout.at(to)];
  if (kind === 'cross' && column !== null) {
    const side = start.x <= end.x ? -1 : 1;
    const away = end.x + side * (SIDE + (start.y - end.y) / 8);
    return [
      [start.x, start.y],
      [away, start.y - STEP],
      [away, end.y + STEP / 2],
      [end.x, end.y],
    ];
  }
  const middle = (start.y + end.y) / 2;
  return [
    [start.x, start.y],
    [start.x, middle],
    [end.x, middle],
    [end.x, end.y],
  ];
}

// A point of a cubic Bézier curve, 0 at its start and 1 at its end.
function pointOf(points, share) {
  const rest = 1 - share;
  const weights = [rest ** 3, 3 * rest ** 2 * share, 3 * rest * share ** 2, share ** 3];
  return [0, 1].map((axis) => sum(points.map((point, place) => point[axis] * weights[place])));
}

// The tokens of the rows and of the columns as they are read.
/** @type {(record: TranslationRecord, kind: Kind) => { rows: Token[]; columns: Token[] }} */
export function axesOf({ tokens }, kind) {
  const read = { encoder: tokens.source, decoder: tokens.read, cross: tokens.read };
  return { rows: read[kind], columns: kind === 'decoder' ? tokens.read : tokens.source };
}

function tokenNames({ tokens }, { places, at, bottoms }, step) {
  const below = (stack, list) =>
    places[stack].map((place) => {
      const { x, y } = at(nodeName({ stack, level: 0, place }));
      const turned = places[stack].length > 6 ? `rotate(-40 ${x} ${y + 14})` : null;
      const anchor = turned ? 'end' : 'middle';
      return shape(
        'text',
        { class: 'hl-route-token', x, y: y + 14, transform: turned, 'text-anchor': anchor },
        cutText(list[place]),
      );
    });
  const top = at(nodeName({ stack: 'decoder', level: (bottoms.decoder - LABEL / 2) / STEP, place: step }));
  const word = shape(
    'text',
    { class: 'hl-route-word', x: top.x, y: top.y - 8, 'text-anchor': 'middle' },
    visible(tokens.predicted[step]),
  );
  return [...below('encoder', tokens.source), ...below('decoder', tokens.read), word];
}

function cutText(token) {
  const letters = [...visible(token).trim()];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join('')}…` : letters.join('');
}

function stackNames({ bottoms, layers }) {
  const text = (content, y) => shape('text', { class: 'hl-route-stack', x: 2, y }, content);
  const names = [text(kindName('decoder'), 12), text(kindName('encoder'), bottoms.decoder + 1.3 * LABEL)];
  const numbers = Object.entries(layers).flatMap(([stack, count]) =>
    Array.from({ length: count }, (_, layer) => {
      const levels = stack === 'decoder' ? 2 : 1;
      return text(String(layer + 1), bottoms[stack] - levels * STEP * (layer + 0.5) + 4);
    }),
  );
  return [...names, ...numbers];
}

function nodes(paths, { at }) {
  const names = [...new Set(paths.flatMap(({ from, to }) => [from, to]))];
  return names.map((name) => {
    const { x, y } = at(name);
    return shape('circle', { class: 'hl-route-node', cx: x, cy: y, r: 2.5 });
  });
}

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
const nodeName = ({ stack, level, place }) => `${stack} ${level} ${place}`;

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
