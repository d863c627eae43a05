// Live: the translation follows what is typed, once the typing rests. A switch under Options turns it off.

import { find, matches } from './drawing/dom.js';
import { keepStored, stored } from './transport/storage.js';

const STORED = 'headlight.live'; // in the browser's storage
const REST = { here: 200, server: 400 }; // milliseconds
const SWITCH = '#hl-live input';
const BOX = '#hl-sentence :is(input, textarea)';

// `isHere(model)` says whether a model runs in this page. A server that let a translation wait is left alone until the person
// presses Enter.
/** @type {(store: Store, isHere: (model: string) => boolean) => void} */
export function followTyping(store, isHere) {
  let isLive = stored(STORED) !== 'off';
  let timer = 0;
  let isCrowded = false;
  const restart = () => {
    clearTimeout(timer);
    if (!isLive || isCrowded) return;
    timer = setTimeout(translate, isHere(store.get().page.model) ? REST.here : REST.server);
  };
  const translate = () => {
    const { translating, page, home } = store.get();
    /** @type {HTMLInputElement} */
    const box = find(BOX);
    const text = box.value.trim();
    if (translating) return restart();
    if (text === '' || text === home.record?.source_text) return undefined;
    store.change({ page: { ...page, isTyped: true } });
    return find('#hl-translate').click();
  };
  document.addEventListener('input', (/** @type {InputEvent} */ event) => {
    if (event.isTrusted && !event.isComposing && matches(event.target, BOX)) restart();
  });
  document.addEventListener('keydown', ({ key, target }) => {
    if (key !== 'Enter' || !matches(target, BOX)) return;
    clearTimeout(timer);
    isCrowded = false;
  });
  document.addEventListener('change', ({ target }) => {
    if (!(target instanceof HTMLInputElement) || !target.matches(SWITCH)) return;
    isLive = target.checked;
    keepStored(STORED, isLive ? 'on' : 'off');
  });
  store.subscribe(({ translating, waiting, page }, before) => {
    if (translating === before.translating && waiting === before.waiting) return;
    if (translating?.waiting && page.typed > 0) isCrowded = true;
    /** @type {HTMLInputElement | null} */
    const drawn = document.querySelector(SWITCH); // Gradio may draw it late
    if (drawn) drawn.checked = isLive;
  });
}
