// A small line chart of a training run over its steps.

import { element, shape } from '../core/dom.js';

const SIZE = { width: 296, height: 112, left: 40, right: 8, top: 8, bottom: 20 };

// `lines` is [{ name, points: [[step, value]…] }…]. The axis runs from step `first` to step `last`, on a logarithmic
// scale; `marked` is the step of the slider.
export function drawChart(title, lines, { first, last, marked, format }) {
  const points = lines.flatMap((line) => line.points);
  const across = acrossOf(first, last);
  const [low, high] = rangeOf(points.map(([, value]) => value));
  const up = (value) =>
    SIZE.height - SIZE.bottom - ((value - low) / (high - low)) * (SIZE.height - SIZE.top - SIZE.bottom);
  const readout = element('span', { class: 'hl-soft hl-number' });
  const mark = shape('path', { class: 'hl-curve-mark' });
  const point = (step) => {
    readout.textContent = valuesAt(lines, step, format);
    mark.setAttribute('d', `M${across(step).toFixed(1)} ${SIZE.top}V${SIZE.height - SIZE.bottom}`);
  };
  const attributes = { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: 'img' };
  const picture = shape(
    'svg',
    { class: 'hl-chart', ...attributes, 'aria-label': `${title} over ${last} steps` },
    ...axisOf(low, high, up, format),
    ...ticksOf(first, last, across),
    ...lines.map((line, index) =>
      shape('path', { class: `hl-curve hl-curve-${index}`, d: pathOf(line.points, across, up) }),
    ),
    mark,
  );
  picture.addEventListener('pointermove', (event) => {
    const box = picture.getBoundingClientRect();
    point(nearest(points, across, ((event.clientX - box.left) / box.width) * SIZE.width));
  });
  picture.addEventListener('pointerleave', () => point(marked));
  point(marked);
  const caption = element('figcaption', {}, element('h4', {}, title), readout);
  return element('figure', { class: 'hl-figure' }, caption, picture);
}

// A step before the first measurement is drawn at the left edge.
function acrossOf(first, last) {
  const room = SIZE.width - SIZE.left - SIZE.right;
  const span = Math.log1p(last) - Math.log1p(first);
  const share = (step) => (span > 0 ? (Math.log1p(step) - Math.log1p(first)) / span : 0.5);
  return (step) => SIZE.left + Math.min(1, Math.max(0, share(step))) * room;
}

// A range with some room above and below; never empty.
function rangeOf(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

// h0 draws a dot if there is only one point.
function pathOf(points, across, up) {
  const place = ([step, value]) => `${across(step).toFixed(1)} ${up(value).toFixed(1)}`;
  return `M${points.map(place).join('L')}h0`;
}

function axisOf(low, high, up, format) {
  return [low, (low + high) / 2, high].flatMap((value) => [
    shape('path', { class: 'hl-axis', d: `M${SIZE.left} ${up(value).toFixed(1)}H${SIZE.width - SIZE.right}` }),
    shape('text', { x: SIZE.left - 6, y: up(value) + 4, 'text-anchor': 'end' }, format(value)),
  ]);
}

function ticksOf(first, last, across) {
  const powers = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
  const places = powers.filter((step) => step >= first && across(last) - across(step) > 44);
  const tick = (step, anchor) =>
    shape('text', { x: across(step), y: SIZE.height - 6, 'text-anchor': anchor }, String(step));
  return [...places.map((step) => tick(step, 'middle')), tick(last, 'end')];
}

function nearest(points, across, x) {
  return points.reduce(
    (best, [step]) => (Math.abs(across(step) - x) < Math.abs(across(best) - x) ? step : best),
    points[0][0],
  );
}

// The latest value of each line up to the step.
function valuesAt(lines, step, format) {
  const values = lines.flatMap(({ name, points }) => {
    const before = points.filter(([at]) => at <= step);
    return before.length === 0 ? [] : [`${name} ${format(before[before.length - 1][1])}`];
  });
  return `step ${step}: ${values.join(', ') || 'not yet measured'}`;
}
