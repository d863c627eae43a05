// The matrices of all heads of a training, in the look of the viewer, with the letters along both axes.

import { currentTheme } from '../drawing/colormap.js';
import { element } from '../drawing/dom.js';
import { kindName } from '../state/labels.js';
import { drawThumbnail } from '../heads/thumbnails.js';
import { say } from '../locales/language.js';

const LEVELS = 255; // codes of the weights
/** @type {Kind[]} */
const ORDER = ['cross', 'encoder', 'decoder'];
const END = '⏎';
const START = '▸';

// Returns { node, draw }: `draw(example)` takes the weights of a frame.
export function createMatrices({ heads, layers, mask }, source, target) {
  const [reads, writes] = [source, target].map((text) => Array.from(text + END));
  const read = mask ? [START, ...target] : writes;
  const axes = { cross: [writes, reads], encoder: [reads, reads], decoder: [read, read] };
  const pictures = ORDER.flatMap((kind) =>
    Array.from({ length: layers * heads }, (_, place) => {
      const [layer, head] = [Math.floor(place / heads), place % heads];
      const names = { kind: kindName(kind), layer: layer + 1, head: head + 1 };
      const label =
        layers > 1 ? say('{kind} · layer {layer} · head {head}', names) : say('{kind} · head {head}', names);
      return { kind, layer, head, label, canvas: element('canvas', { role: 'img', 'aria-label': label }) };
    }),
  );
  const masks = mask ? { decoder: 'causal' } : {};
  return {
    node: element('div', { class: 'hl-play-matrices' }, ...pictures.map((one) => figure(one, ...axes[one.kind]))),
    draw(example) {
      for (const { kind, layer, head, canvas } of pictures) {
        const { rows, columns, codes } = example[kind];
        const start = head * rows * columns;
        const values = Float32Array.from(codes[layer].subarray(start, start + rows * columns), (code) => code / LEVELS);
        drawThumbnail(canvas, { masks }, kind, { rows, columns, values }, currentTheme());
      }
    },
  };
}

function figure({ label, canvas }, rows, columns) {
  const line = (letters, name) =>
    element('span', { class: name, 'aria-hidden': 'true' }, ...letters.map((letter) => element('bdi', {}, letter)));
  const parts = [line(columns, 'hl-play-columns'), line(rows, 'hl-play-rows'), canvas];
  canvas.style.aspectRatio = `${columns.length} / ${rows.length}`;
  return element('figure', {}, element('figcaption', { class: 'hl-soft' }, label), element('div', {}, ...parts));
}
