// The small marks that the panels share: numbers, buttons, parts with a title, bars and cells of a signed value.

import { element, shape, tokenText } from './dom.js';

export function fixed(value, digits = 4) {
  return value.toFixed(digits).replace('-', '−');
}

// With its sign always; a value that rounds to nothing has none.
export function signed(value, digits = 4) {
  const text = fixed(Math.abs(value), digits);
  if (Number(text) === 0) return text;
  return (value < 0 ? '−' : '+') + text;
}

export function plural(count, one, many = `${one}s`) {
  return `${count} ${count === 1 ? one : many}`;
}

export function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

// For sizes of drawings: 1 where all values are 0, so that nothing is divided by 0.
export function largest(values) {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
}

export function pressable(label, onclick, attributes = {}) {
  return element('button', { type: 'button', class: 'hl-act', onclick, ...attributes }, label);
}

export function part(title, ...children) {
  return element('section', { class: 'hl-part' }, element('h3', {}, title), ...children);
}

export function note(...children) {
  return element('p', { class: 'hl-soft' }, ...children);
}

export function figure(text) {
  return element('span', { class: 'hl-number' }, text);
}

// A value as a colour between less and more: what it is in full stands in words elsewhere.
export function tint(node, value, most) {
  node.classList.toggle('hl-more', value > 0);
  node.classList.toggle('hl-less', value < 0);
  node.style.setProperty('--hl-share', `${Math.min(100, (100 * Math.abs(value)) / most).toFixed(1)}%`);
  return node;
}

// A bar that grows from the middle: up for more, down for less.
export function signedBar(value, most) {
  return tint(element('span', { class: 'hl-signed-bar', 'aria-hidden': 'true' }), value, most);
}

// A bar from the left for a share between 0 and 1.
export function shareBar(share) {
  const bar = element('span', { class: 'hl-chance', 'aria-hidden': 'true' });
  bar.style.setProperty('--hl-share', `${(100 * share).toFixed(2)}%`);
  return bar;
}

// Where one value stands among others, from 0 to `most`: a tick for each, and the mark on top.
export function rug(values, value, most) {
  const at = (one) => (2 + 76 * Math.min(1, Math.max(0, one / most))).toFixed(2);
  const ticks = values.map((one) => `M${at(one)} 4v8`).join('');
  return shape(
    'svg',
    { class: 'hl-rug', viewBox: '0 0 80 16', 'aria-hidden': 'true' },
    shape('path', { class: 'hl-rug-line', d: 'M0 14.5H80' }),
    shape('path', { class: 'hl-rug-ticks', d: ticks }),
    shape('path', { class: 'hl-rug-mark', d: `M${at(value)} 1v14` }),
  );
}

// The tokens of a sentence with something beneath each of them.
export function tokenColumns(tokens, beneath, attributes = {}) {
  return element(
    'ol',
    { class: 'hl-token-columns', ...attributes },
    ...tokens.map((token, place) => element('li', {}, tokenText(token), ...beneath(place))),
  );
}

// A list in which one entry takes the focus and the arrow keys move it: `next(place, key)` gives the new place.
export function roving(entries, next) {
  const focusOn = (place) => {
    entries.forEach((entry, each) => entry.setAttribute('tabindex', each === place ? 0 : -1));
    entries[place].focus();
  };
  entries.forEach((entry, place) => {
    entry.setAttribute('tabindex', place === 0 ? 0 : -1);
    entry.addEventListener('keydown', (event) => {
      const to = next(place, event.key);
      if (to === null || to === undefined) return;
      event.preventDefault();
      event.stopPropagation(); // the arrows of the viewer choose heads
      if (entries[to]) focusOn(to);
    });
  });
}
