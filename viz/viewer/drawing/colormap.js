// The colour maps of each theme: a sequential one, called lamp, and a diverging one for differences. Both are
// perceptually uniform: stops are interpolated in Oklab and spaced by their distance there.

import { clamp } from '../domain/math.js';

const LAMP = {
  light: ['#ffffff', '#fde8b8', '#f0a830', '#9a4a00', '#2b0f00'],
  dark: ['#1a1917', '#5a2d06', '#c97410', '#fac45c', '#fff7de'],
};
// From less through the panel's colour to more. Colour-blind people can tell blue and orange apart.
const DIFFERENCE = {
  light: { less: ['#ffffff', '#7fa6dc', '#12386f'], more: ['#ffffff', '#f0a830', '#7a3600'] },
  dark: { less: ['#1a1917', '#2f5f9e', '#b9d6ff'], more: ['#1a1917', '#b4620c', '#ffe3a3'] },
};
export const STEPS = 256;

const toLinear = (channel) => (channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4);

function fromLinear(channel) {
  const bounded = Math.min(1, Math.max(0, channel));
  return bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055;
}

// Björn Ottosson's matrices, https://bottosson.github.io/posts/oklab/
/** @type {(colour: number[]) => number[]} */
export function toOklab([red, green, blue]) {
  const [r, g, b] = [red, green, blue].map((channel) => toLinear(channel / 255));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((channel) => Math.round(255 * fromLinear(channel)));
}

const parse = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
const between = (from, to, share) => from.map((value, index) => value + (to[index] - value) * share);

// `steps` colours along the stops, each [red, green, blue].
function ramp(hexes, steps) {
  const stops = hexes.map((hex) => toOklab(parse(hex)));
  const marks = [0];
  for (let index = 1; index < stops.length; index += 1) {
    marks.push(marks[index - 1] + Math.hypot(...stops[index].map((value, axis) => value - stops[index - 1][axis])));
  }
  const colours = [];
  for (let step = 0; step < steps; step += 1) {
    const distance = (step / (steps - 1)) * marks[marks.length - 1];
    const next = Math.max(
      1,
      marks.findIndex((mark) => mark >= distance - 1e-9),
    );
    const share = (distance - marks[next - 1]) / (marks[next] - marks[next - 1]);
    colours.push(fromOklab(between(stops[next - 1], stops[next], share)));
  }
  return colours;
}

// STEPS colours for values from 0 to 1.
/** @type {(theme: string) => number[][]} */
export const lamp = (theme) => ramp(LAMP[theme], STEPS);

// STEPS colours for values from -1 to 1; the two middle colours are equal, and 0 lies between them.
/** @type {(theme: string) => number[][]} */
export function diverging(theme) {
  const { less, more } = DIFFERENCE[theme];
  return [...ramp(less, STEPS / 2).reverse(), ...ramp(more, STEPS / 2)];
}

/** @type {(share: number) => number} */
export const stepOf = (share) => clamp(Math.round(share * (STEPS - 1)), STEPS);

// A colour map as bytes and as CSS colours, with the text colour that is readable on each.
const palettes = new Map();

/** @type {(theme: string, map?: 'lamp' | 'diverging') => { bytes: number[][]; css: string[]; ink: string[] }} */
export function palette(theme, map = 'lamp') {
  const name = `${theme} ${map}`;
  if (!palettes.has(name)) palettes.set(name, createPalette(map === 'lamp' ? lamp(theme) : diverging(theme)));
  return palettes.get(name);
}

const createPalette = (colours) => ({
  bytes: colours,
  css: colours.map(([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`),
  ink: colours.map((colour) => (contrast(colour, PAPER) > contrast(colour, INK) ? '#ffffff' : '#1c1b19')),
});

const PAPER = [255, 255, 255];
const INK = [28, 27, 25];

// The contrast ratio of two colours, 1 to 21 (WCAG 2.2).
/** @type {(one: number[], other: number[]) => number} */
export function contrast(one, other) {
  const [less, more] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (more + 0.05) / (less + 0.05);
}

function luminance(colour) {
  const [red, green, blue] = colour.map((channel) => toLinear(channel / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

// Gradio sets the class `dark` on the body; the exported file does the same.
export const currentTheme = () => (document.body.classList.contains('dark') ? 'dark' : 'light');

/** @type {(changed: () => void) => void} */
export function watchTheme(changed) {
  new MutationObserver(changed).observe(document.body, { attributes: true, attributeFilter: ['class'] });
}
