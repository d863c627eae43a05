// The lamp: one sequential map per theme, even to the eye. Stops are joined in Oklab and spaced by the
// distance travelled there, so that equal steps of weight are equal steps of colour.

const STOPS = {
  light: ['#ffffff', '#fde8b8', '#f0a830', '#9a4a00', '#2b0f00'],
  dark: ['#1a1917', '#5a2d06', '#c97410', '#fac45c', '#fff7de'],
};
export const STEPS = 256;

function toLinear(channel) {
  return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
}

function fromLinear(channel) {
  const bounded = Math.min(1, Math.max(0, channel));
  return bounded <= 0.0031308 ? 12.92 * bounded : 1.055 * bounded ** (1 / 2.4) - 0.055;
}

// Björn Ottosson's matrices, https://bottosson.github.io/posts/oklab/
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

function parse(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

function between(from, to, share) {
  return from.map((value, index) => value + (to[index] - value) * share);
}

// STEPS colours as [red, green, blue].
export function lamp(theme) {
  const stops = STOPS[theme].map((hex) => toOklab(parse(hex)));
  const marks = [0];
  for (let index = 1; index < stops.length; index += 1) {
    marks.push(marks[index - 1] + Math.hypot(...stops[index].map((value, axis) => value - stops[index - 1][axis])));
  }
  const colours = [];
  for (let step = 0; step < STEPS; step += 1) {
    const distance = (step / (STEPS - 1)) * marks[marks.length - 1];
    const next = Math.max(1, marks.findIndex((mark) => mark >= distance - 1e-9));
    const share = (distance - marks[next - 1]) / (marks[next] - marks[next - 1]);
    colours.push(fromOklab(between(stops[next - 1], stops[next], share)));
  }
  return colours;
}

export function stepOf(weight) {
  return Math.min(STEPS - 1, Math.max(0, Math.round(weight * (STEPS - 1))));
}

// What the views need of a theme: the map as bytes, as CSS colours, and the ink that is read on each.
export function palette(theme) {
  const colours = lamp(theme);
  return {
    theme,
    bytes: colours,
    css: colours.map(([red, green, blue]) => `rgb(${red} ${green} ${blue})`),
    ink: colours.map((colour) => (toOklab(colour)[0] > 0.62 ? '#1c1b19' : '#ffffff')),
  };
}

// Gradio marks its dark theme on the body; the exported file does the same.
export function currentTheme() {
  return document.body.classList.contains('dark') ? 'dark' : 'light';
}

export function watchTheme(changed) {
  new MutationObserver(changed).observe(document.body, { attributes: true, attributeFilter: ['class'] });
}
