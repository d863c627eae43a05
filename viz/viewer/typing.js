// Live: the translation follows what is typed, once the typing rests. A switch under Options turns it off.
// @ts-nocheck

import { useStorage } from './transport/storage.js';

const STORED = 'headlight.live'; // in the browser's storage
const REST = { here: 200, server: 400 }; // milliseconds
const SWITCH = '#hl-live input';
const BOX = '#hl-sentence :is(input, textarea)';

// `isHere(model)` says whether a model runs in this page. A server that let a translation wait is left alone until the person
// presses Enter.
export function followTyping(store, isHere) {
  let isLive = useStorage((storage) => storage.getItem(STORED)) !== 'off';
  let timer = null;
  let isCrowded = false;
  const restart = () => {
    clearTimeout(timer);
    if (!isLive || isCrowded) return;
    timer = setTimeout(translate, isHere(store.get().page.model) ? REST.here : REST.server);
  };
  const translate = () => {
    const { translating, page, home } = store.get();
    const text = document.querySelector(BOX).value.trim();
    if (translating) return restart();
    if (text === '' || text === home.record?.source_text) return undefined;
    store.change({ page: { ...page, isTyped: true } });
    return document.getElementById('hl-translate').click();
  };
  document.addEventListener('input', (event) => {
    if (event.isTrusted && !event.isComposing && event.target.matches(BOX)) restart();
  });
  document.addEventListener('keydown', ({ key, target }) => {
    if (key !== 'Enter' || !target.matches?.(BOX)) return;
    clearTimeout(timer);
    isCrowded = false;
  });
  document.addEventListener('change', ({ target }) => {
    if (!target.matches(SWITCH)) return;
    isLive = target.checked;
    useStorage((storage) => storage.setItem(STORED, isLive ? 'on' : 'off'));
  });
  store.subscribe(({ translating, waiting, page }, before) => {
    if (translating === before.translating && waiting === before.waiting) return;
    if (translating?.waiting && page.typed > 0) isCrowded = true;
    const drawn = document.querySelector(SWITCH); // Gradio may draw it late
    if (drawn) drawn.checked = isLive;
  });
}
