// How the viewer writes numbers, and what it says to a mouse and to a finger.

import { say, localNumber } from '../locales/language.js';

// What is for people with a mouse, such as a text, or what is for people who touch the screen.
/** @type {<Thing>(mouse: Thing, touch: Thing) => Thing} */
export const forPointer = (mouse, touch) =>
  typeof matchMedia === 'function' && matchMedia('(hover: none)').matches ? touch : mouse;

/** @type {(value: number, digits?: number) => string} */
export const fixed = (value, digits = 4) => localNumber(value.toFixed(digits).replace('-', '−'));

// Always with a sign, except for a value that rounds to 0.
/** @type {(value: number, digits?: number) => string} */
export function signed(value, digits = 4) {
  const text = fixed(Math.abs(value), digits);
  if (Number(value.toFixed(digits)) === 0) return text;
  return (value < 0 ? '−' : '+') + text;
}

// In per cent, rounded down, so that a share below a threshold does not read as the threshold.
/** @type {(share: number) => number} */
export const wholePercent = (share) => Math.floor(100 * share + 1e-6);

// A probability as a person says it: a number that is not 0 or 1 is never rounded to 0 % or 100 %.
/** @type {(probability: number) => string} */
export function percent(probability) {
  const value = 100 * probability;
  const digits = value < 1 || value > 99 ? 1 : 0;
  if (value > 0 && value < 0.1) return say('less than {share} %', { share: fixed(0.1, 1) });
  if (value < 100 && value > 99.9) return say('more than {share} %', { share: fixed(99.9, 1) });
  return say('{share} %', { share: fixed(value, digits) });
}
