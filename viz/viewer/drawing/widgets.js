// Small elements that the panels share: buttons, titled sections, notes, numbers, bars, rugs and the glyphs of roles.

import { createButton, element, find, nameInvisible, shape, tokenText } from './dom.js';
import { fixed, signed } from './numbers.js';
import { say, tell } from '../locales/language.js';

/** @type {(label: string, onclick: ((event: MouseEvent) => unknown) | null, attributes?: Attributes) => HTMLButtonElement} */
export const actionButton = (label, onclick, attributes = {}) => createButton('hl-act', onclick, attributes, label);

/** @type {(...buttons: Child[]) => HTMLElement} */
export const actions = (...buttons) => element('div', { class: 'hl-actions' }, ...buttons);

// An entry of a list that is a button.
/** @type {(act: (event: MouseEvent) => void, attributes: Attributes, ...pieces: Child[]) => HTMLElement} */
export const choiceItem = (act, attributes, ...pieces) =>
  element('li', {}, createButton('hl-choice', act, attributes, ...pieces));

// A group of buttons that choose how something is shown.
/** @type {(label: string, ...buttons: Child[]) => HTMLElement} */
export const tabs = (label, ...buttons) =>
  element('div', { class: 'hl-tabs', role: 'group', 'aria-label': label }, ...buttons);

// The same of these names, one of which is chosen: [name, text] each.
/** @type {(label: string, entries: [name: string, text: string][], chosen: string, choose: (name: string) => void) => HTMLElement} */
export function choiceTabs(label, entries, chosen, choose) {
  const button = ([name, text]) => actionButton(text, () => choose(name), { 'aria-pressed': String(name === chosen) });
  return tabs(label, ...entries.map(button));
}

/** @type {(title: string, ...children: Child[]) => HTMLElement} */
export const section = (title, ...children) =>
  element('section', { class: 'hl-part' }, element('h3', {}, title), ...children);

/** @type {(...children: Child[]) => HTMLElement} */
export const note = (...children) => element('p', { class: 'hl-soft' }, ...children);

// A note of one text with its values, as `say` writes it.
/** @type {(text: string, values?: Values) => HTMLElement} */
export const sayNote = (text, values = {}) => note(tell([text, values]));

// A sentence with what the person can do about it.
/** @type {(text: string, label: string, act: () => unknown) => HTMLElement} */
export const offer = (text, label, act) => note(text, ' ', actionButton(label, act));

/** @type {(text: string, attributes?: Attributes) => HTMLElement} */
export const numberText = (text, attributes = {}) => element('span', { class: 'hl-number', ...attributes }, text);

/** @type {(label: string, value: string | Node) => HTMLElement} */
export function fact(label, value) {
  const number = typeof value === 'string' ? numberText(value) : value;
  return element('p', { class: 'hl-fact' }, element('span', {}, label), number);
}

// A line of a list that opens a sentence: what is found there, its number, and the sentence.
/** @type {(href: string, name: (Node | string)[], number: string, sentence: string) => HTMLElement} */
export function hitLine(href, name, number, sentence) {
  const text = element('span', { class: 'hl-soft hl-hit-sentence', dir: 'auto' }, nameInvisible(sentence));
  const link = { class: 'hl-choice hl-hit', href };
  return element('li', {}, element('a', link, element('span', {}, ...name), numberText(number), text));
}

// Colours an element by a signed value; the value itself must also be written as text.
/** @type {<E extends HTMLElement>(node: E, value: number, most: number) => E} */
export function tint(node, value, most) {
  node.classList.toggle('hl-more', value > 0);
  node.classList.toggle('hl-less', value < 0);
  node.style.setProperty('--hl-share', `${Math.min(100, (100 * Math.abs(value)) / most).toFixed(1)}%`);
  return node;
}

// The scale of signed bars, which differs from head to head.
/** @type {(most: number) => HTMLElement} */
export const scaleNote = (most) =>
  sayNote('The longest bar is {most}; other heads have other scales.', { most: fixed(most, 2) });

// A bar from the middle: upwards for a positive value, downwards for a negative one.
/** @type {(value: number, most: number) => HTMLElement} */
export const signedBar = (value, most) =>
  tint(element('span', { class: 'hl-signed-bar', 'aria-hidden': 'true' }), value, most);

// A line of a list: a label, a bar from the middle to the left or the right, and the value.
/** @type {(label: Child, value: number, most: number) => HTMLElement} */
export function signedLine(label, value, most) {
  const bar = tint(element('span', { class: 'hl-flat-bar', 'aria-hidden': 'true' }), value, most);
  return element('li', {}, element('span', {}, label), bar, numberText(signed(value, 2)));
}

// A slider over whole per cents, with its label and its value; `name` is for a screen reader, if the label alone says too little.
/** @type {(range: number[], take: (share: number) => void, about: { class: string; label: string; name?: string; title?: string }) => { node: HTMLElement; draw(share: number): void }} */
export function percentSlider([min, max], take, { label, name = label, title, class: own }) {
  const input = element('input', { type: 'range', min, max, step: 1, value: max, 'aria-label': name });
  const output = element('output', { class: 'hl-number' });
  input.addEventListener('input', () => take(Number(input.value) / 100));
  return {
    node: element('label', { class: `hl-threshold ${own}`, title }, label, input, output),
    draw(share) {
      const percent = Math.round(100 * share);
      if (input.valueAsNumber !== percent) input.valueAsNumber = percent;
      output.textContent = say('{share} %', { share: percent });
    },
  };
}

// A bar from the left for a share between 0 and 1.
/** @type {(share: number) => HTMLElement} */
export function shareBar(share) {
  const bar = element('span', { class: 'hl-chance', 'aria-hidden': 'true' });
  bar.style.setProperty('--hl-share', `${(100 * share).toFixed(2)}%`);
  return bar;
}

// A rug plot from 0 to `most`: a tick for each value, and a mark for one of them.
/** @type {(values: number[], value: number, most: number) => SVGElement} */
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

// The tokens of a sentence with other elements below each of them.
/** @type {(tokens: Token[], elementsBelow: (place: number) => Child[], attributes?: Attributes) => HTMLElement} */
export const tokenColumns = (tokens, elementsBelow, attributes = {}) =>
  element(
    'ol',
    { class: 'hl-token-columns', ...attributes },
    ...tokens.map((token, place) => element('li', {}, tokenText(token), ...elementsBelow(place))),
  );

// Roving tabindex: one entry of the list can have the focus, and keys move it. `next(place, key)` returns the new place.
/** @type {(entries: (GlobalEventHandlers & HTMLOrSVGElement)[], next: (place: number, key: string) => number | null | undefined) => void} */
export function addRovingFocus(entries, next) {
  const focusOn = (place) => {
    entries.forEach((entry, each) => (entry.tabIndex = each === place ? 0 : -1));
    entries[place].focus();
  };
  entries.forEach((entry, place) => {
    entry.tabIndex = place === 0 ? 0 : -1;
    entry.addEventListener('keydown', (event) => {
      const to = next(place, event.key);
      if (to === null || to === undefined) return;
      event.preventDefault();
      event.stopPropagation(); // the arrows of the viewer choose heads
      if (entries[to]) focusOn(to);
    });
  });
}

// The same for a grid of cells, [row][column], with the four arrows.
/** @type {(cells: HTMLElement[][]) => void} */
export function addGridFocus(cells) {
  const columns = cells[0].length;
  addRovingFocus(cells.flat(), (place, key) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
    return step === undefined ? null : place + step;
  });
}

// Opens a dialog at its beginning: the browser scrolls to its first control, which may be at its end.
/** @type {(dialog: HTMLDialogElement) => void} */
export function openDialog(dialog) {
  dialog.showModal();
  dialog.scrollTo(0, 0);
}

// Closes the dialog that it is in; a form would need leave to be sent in a frame.
export function closeButton() {
  const close = ({ target }) => target.closest('dialog').close();
  return createButton('hl-button hl-close', close, {}, say('Close'));
}

// Calls `close` once: on Escape, and on a click outside the sheet and its opener.
/** @type {(opener: HTMLElement, sheet: HTMLElement, close: () => void) => void} */
function closeFromOutside(opener, sheet, close) {
  const listening = new AbortController();
  const end = () => {
    listening.abort();
    close();
  };
  const outside = ({ target }) => !sheet.contains(target) && !opener.contains(target) && end();
  const escape = ({ key }) => {
    if (key !== 'Escape') return;
    if (sheet.contains(document.activeElement)) opener.focus();
    end();
  };
  document.addEventListener('pointerdown', outside, { signal: listening.signal });
  document.addEventListener('keydown', escape, { signal: listening.signal });
}

// Opens or closes what a button shows; both are given by their ids.
/** @type {(button: string, menu: string) => void} */
export function toggleDisclosure(button, menu) {
  const open = document.getElementById(menu)?.classList.toggle('hl-open');
  document.getElementById(button)?.setAttribute('aria-expanded', String(open));
}

/** @type {(button: string, menu: string) => void} */
export function togglePopover(button, menu) {
  toggleDisclosure(button, menu);
  const [opener, sheet] = [button, menu].map((id) => find(`#${id}`));
  const isOpen = () => sheet.classList.contains('hl-open');
  if (isOpen()) closeFromOutside(opener, sheet, () => isOpen() && toggleDisclosure(button, menu));
}

// A menu over a panel: it closes on Escape and where the focus or the pointer goes elsewhere.
/** @type {(label: string, title: string | null, ...entries: Child[]) => HTMLDetailsElement} */
export function createMenu(label, title, ...entries) {
  const summary = element('summary', { class: 'hl-tab', title }, label);
  const menu = element('details', { class: 'hl-menu' }, summary, element('div', { class: 'hl-sheet' }, ...entries));
  const close = (target) => target && !menu.contains(target) && menu.removeAttribute('open');
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !menu.open) return;
    event.preventDefault();
    menu.open = false;
    summary.focus();
  });
  menu.addEventListener('focusout', ({ relatedTarget }) => close(relatedTarget));
  document.addEventListener('pointerdown', ({ target }) => close(target));
  return menu;
}

/** @type {(record: TranslationRecord, role: string) => SVGElement} */
export function roleSymbol(record, role) {
  const path = shape('path', { d: record.definitions.roles[role].symbol });
  return shape('svg', { class: 'hl-glyph', viewBox: '0 0 10 10', 'aria-hidden': 'true' }, path);
}

// Scrolls the panel, but not the page, so that there is room for what has opened.
/** @type {(node: Element) => void} */
export function scrollToTop(node) {
  const panel = node.closest('.hl-scroll');
  if (panel) panel.scrollTop += node.getBoundingClientRect().top - panel.getBoundingClientRect().top;
}
