// Ways to save the view: a link that opens it again, pictures of it, and a handout.

import { createButton, element } from '../drawing/dom.js';
import { slug } from '../domain/files.js';
import { copy, save } from '../drawing/files.js';
import { isLinkable, toAddress } from '../state/permalink.js';
import { pictureOfSides, pngOf, svgText } from './svg.js';
import { createMenu } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

// Returns the entries of the menu Export, and the line below them. `stores` are the stores of both sides.
export function createExports(stores) {
  const [store, storeOfB] = stores;
  const picture = () => pictureOfSides(store.get(), storeOfB.get());
  const note = element('span', { class: 'hl-soft', role: 'status' });
  const item = (text, act) => createButton('hl-item', act, {}, text);
  const items = [
    item(say('Copy link'), async () => {
      const state = store.get();
      const link = `${location.href.split('#')[0]}${toAddress(state)}`;
      const done = (await copy(link)) ? say('The link is copied.') : say('Copy the address of this page.');
      const leftOut = say(
        'The link leaves out the comparison with another sentence, or a sentence of more than 2000 characters.',
      );
      note.textContent = isLinkable(state) ? done : `${done} ${leftOut}`;
    }),
    item(say('PNG picture'), async () => save(await pngOf(picture()), `${nameOf(store.get())}.png`)),
    item(say('SVG picture'), () =>
      save(new Blob([svgText(picture())], { type: 'image/svg+xml' }), `${nameOf(store.get())}.svg`),
    ),
    item(say('Print or PDF'), () => window.print()), // which lays the page out as a handout
  ];
  return [...items, note];
}

// The menu where the page has none of its own: in an exported file and in a notebook.
export function createExportMenu(entries) {
  const note = entries.at(-1);
  const menu = createMenu(say('Export'), say('a link to this view, or a picture of it (E)'), ...entries);
  menu.addEventListener('toggle', () => {
    note.textContent = '';
  });
  return menu;
}

export function openMenu(menu) {
  menu.open = true;
  menu.querySelector('button').focus();
}

// "headlight-de-en-cross-4-7-guten-tag": model, head and sentence, without special characters.
function nameOf({ record, kind, layer, head, selection }) {
  const heads = selection.length > 0 ? 'several' : `${layer + 1}-${head === null ? 'average' : head + 1}`;
  return `headlight-${slug(record.model.name)}-${kind}-${heads}-${slug(record.source_text)}`;
}
