// The Save menu: a link that opens the view again, and pictures of it.

import { createButton, element } from '../core/dom.js';
import { hasLink, toAddress } from '../core/permalink.js';
import { pictureOf, pngOf, svgText } from './svg.js';

const LEFT_OUT = 'the comparison with another sentence, or a sentence of more than 2000 characters';

export function createSaveMenu(store) {
  const note = element('span', { class: 'hl-soft', role: 'status' });
  const item = (text, act) => createButton('hl-item', act, {}, text);
  const items = [
    item('Copy link', async () => {
      const state = store.get();
      const link = `${location.href.split('#')[0]}${toAddress(state)}`;
      const done = (await copy(link)) ? 'The link is copied.' : 'Copy the address of this page.';
      note.textContent = hasLink(state) ? done : `${done} The link leaves out ${LEFT_OUT}.`;
    }),
    item('PNG picture', async () => save(await pngOf(pictureOf(store.get())), `${nameOf(store.get())}.png`)),
    item('SVG picture', () =>
      save(new Blob([svgText(pictureOf(store.get()))], { type: 'image/svg+xml' }), `${nameOf(store.get())}.svg`),
    ),
  ];
  const summary = element('summary', { class: 'hl-tab', title: 'a link to this view, or a picture of it (E)' }, 'Save');
  const menu = element('details', { class: 'hl-menu' }, summary, element('div', { class: 'hl-sheet' }, ...items, note));
  menu.addEventListener('toggle', () => {
    note.textContent = '';
  });
  menu.addEventListener('keydown', (event) => closeOnEscape(event, menu, summary));
  menu.addEventListener(
    'focusout',
    ({ relatedTarget }) => relatedTarget && !menu.contains(relatedTarget) && menu.removeAttribute('open'),
  );
  document.addEventListener('pointerdown', ({ target }) => !menu.contains(target) && menu.removeAttribute('open'));
  return menu;
}

function closeOnEscape(event, menu, summary) {
  if (event.key !== 'Escape' || !menu.open) return;
  event.preventDefault();
  menu.open = false;
  summary.focus();
}

export function openMenu(menu) {
  menu.open = true;
  menu.querySelector('button').focus();
}

// "headlight-cross-4-7": a file name without special characters that says what the picture shows.
function nameOf({ kind, layer, head }) {
  return `headlight-${kind}-${layer + 1}-${head === null ? 'average' : head + 1}`;
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  element('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads it after this task
}

// Returns whether the text was copied; a page without TLS has no clipboard.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
