// A small line chart over the steps of a training, or over a count.

import { element, readUnderPointer, shape } from './dom.js';
import { numberText } from './widgets.js';
import { say } from '../locales/language.js';

const MOST_TICKS = 13;
const SIZE = { width: 296, height: 112, left: 48, right: 8, top: 8, bottom: 20 };

// `lines` is [{ name, points: [[step, value]…] }…]. The axis runs from step `first` to step `last`, on a logarithmic
// scale unless `isCount`; then the values begin at 0, so that a small change looks small. `range` is [low, high] of the
// values where it does not depend on them. A dashed line stands at each step of `ends`. The values at `marked`, or at the
// pointer, are written next to the title, by `at`; with `key`, { title(step), of(line, step) }, in a list below the picture.
/** @type {(title: string, lines: any[], how: { first: number; last: number; marked: any; format: (value: number) => string; range?: number[] | null; isCount?: boolean; key?: any; ends?: number[]; name?: string | null; at?: (step: number, values: string) => string }) => Element} */
export function drawChart(
  title,
  lines,
  { first, last, marked, format, range = null, isCount = false, key = null, ends = [], name = null, at = atStep },
) {
  const points = lines.flatMap((line) => line.points);
  const across = acrossOf(first, last, isCount ? (step) => step : Math.log1p);
  const values = points.map(([, value]) => value);
  const [low, high] = range ?? (isCount ? [0, Math.max(...values)] : rangeOf(values));
  const up = (value) =>
    SIZE.height - SIZE.bottom - ((value - low) / (high - low)) * (SIZE.height - SIZE.top - SIZE.bottom);
  const upright = (step) => `M${across(step).toFixed(1)} ${SIZE.top}V${SIZE.height - SIZE.bottom}`;
  const readout = element('span', { class: 'hl-soft hl-number' });
  const mark = shape('path', { class: 'hl-curve-mark' });
  const list = element('ul', { class: 'hl-chart-key' });
  const point = (step) => {
    readout.textContent = key ? key.title(step) : at(step, valuesAt(lines, step, format));
    if (key) list.replaceChildren(...lines.map((line, index) => keyLine(line, index, step, format, key)));
    mark.setAttribute('d', upright(step));
  };
  const attributes = { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: 'img' };
  const picture = shape(
    'svg',
    {
      class: 'hl-chart',
      ...attributes,
      'aria-label': name ?? (isCount ? title : say('{title} over {last} steps', { title, last })),
    },
    ...axisOf(low, high, up, format),
    ...(isCount ? countTicks(first, last, across) : ticksOf(first, last, across)),
    ...lines.map((line, index) =>
      shape('path', { class: `hl-curve hl-curve-${index}`, d: pathOf(line.points, across, up) }),
    ),
    ...ends.map((step) => shape('path', { class: 'hl-curve-end', d: upright(step) })),
    mark,
  );
  const read = ({ clientX }) => {
    const box = picture.getBoundingClientRect();
    point(nearest(points, across, ((clientX - box.left) / box.width) * SIZE.width));
  };
  readUnderPointer(picture, read, () => point(marked));
  point(marked);
  const caption = element('figcaption', {}, element('h4', {}, title), readout);
  return element('figure', { class: 'hl-figure' }, caption, picture, key && list);
}

// The axis of the steps of a training; a dashed line stands where its vocabulary or its languages changed.
/** @type {(steps: number[], marked: number, training: { earlier?: { last: number }[] }) => { first: number; last: number; marked: number; ends: number[] }} */
export function axisOfSteps(steps, marked, { earlier = [] }) {
  return { first: Math.min(...steps), last: Math.max(...steps), marked, ends: earlier.map(({ last }) => last) };
}

// A step before the first measurement is drawn at the left edge.
function acrossOf(first, last, scale) {
  const room = SIZE.width - SIZE.left - SIZE.right;
  const span = scale(last) - scale(first);
  const share = (step) => (span > 0 ? (scale(step) - scale(first)) / span : 0.5);
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

const axisOf = (low, high, up, format) =>
  [low, (low + high) / 2, high].flatMap((value) => [
    shape('path', { class: 'hl-axis', d: `M${SIZE.left} ${up(value).toFixed(1)}H${SIZE.width - SIZE.right}` }),
    shape('text', { x: SIZE.left - 6, y: up(value) + 4, 'text-anchor': 'end' }, format(value)),
  ]);

function ticksOf(first, last, across) {
  const powers = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];
  const places = powers.filter((step) => step >= first && across(last) - across(step) > 44);
  const tick = (step, anchor) =>
    shape('text', { x: across(step), y: SIZE.height - 6, 'text-anchor': anchor }, String(step));
  return [...places.map((step) => tick(step, 'middle')), tick(last, 'end')];
}

function countTicks(first, last, across) {
  const apart = Math.ceil((last - first + 1) / MOST_TICKS);
  const places = Array.from({ length: Math.floor((last - first) / apart) + 1 }, (_, place) => first + place * apart);
  return places.map((at) => shape('text', { x: across(at), y: SIZE.height - 6, 'text-anchor': 'middle' }, String(at)));
}

// A line of the key: how the curve is drawn, its name, and its value.
function keyLine(line, index, step, format, key) {
  const sample = shape('path', { class: `hl-curve hl-curve-${index}`, d: 'M0 5H24' });
  const swatch = shape('svg', { class: 'hl-key-sample', viewBox: '0 0 24 10', 'aria-hidden': 'true' }, sample);
  const value = line.points.findLast(([at]) => at <= step)[1];
  const added = element('span', { class: 'hl-soft' }, key.of(line, step));
  return element('li', {}, swatch, element('span', {}, line.name), added, numberText(format(value)));
}

const nearest = (points, across, x) =>
  points.reduce(
    (best, [step]) => (Math.abs(across(step) - x) < Math.abs(across(best) - x) ? step : best),
    points[0][0],
  );

// The latest value of each line up to the step.
function valuesAt(lines, step, format) {
  const values = lines.flatMap(({ name, points }) => {
    const before = points.filter(([at]) => at <= step);
    return before.length === 0 ? [] : [`${name} ${format(before[before.length - 1][1])}`];
  });
  return values.join(', ') || say('not yet measured');
}

const atStep = (step, values) => say('step {step}: {values}', { step, values });
