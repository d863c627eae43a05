// What else could stand at a word of the translation: a list in place, below the word.

import { createButton, element, readable } from '../drawing/dom.js';
import { alternatives } from '../inspector/next_tokens.js';
import { targetWords } from '../summary/facts.js';
import { wordAt } from '../summary/words.js';
import { sayParts, say } from '../locales/language.js';

const GAP = 4; // pixels below the word

// Returns { node, show(chip, step), close }.
export function createWordMenu(client) {
  const { store } = client;
  const node = element('div', { class: 'hl-sheet hl-word-menu', role: 'dialog', hidden: true });
  let opener = /** @type {HTMLElement | null} */ (null);
  const close = () => {
    node.hidden = true;
    opener = null;
  };
  const show = (chip, step) => {
    opener = chip;
    node.replaceChildren(...contentOf(client, step, close));
    node.setAttribute('aria-label', node.querySelector('h3')?.textContent ?? '');
    node.hidden = false;
    const around = /** @type {Element} */ (node.parentElement);
    const [frame, box] = [around, chip].map((one) => one.getBoundingClientRect());
    const left = Math.max(0, Math.min(box.left - frame.left, frame.width - node.offsetWidth));
    Object.assign(node.style, { left: `${left}px`, top: `${box.bottom - frame.top + GAP}px` });
  };
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || node.hidden) return;
    if (node.contains(document.activeElement)) opener?.focus();
    close();
  });
  document.addEventListener('pointerdown', ({ target }) => {
    if (!node.hidden && !(target instanceof Node && node.contains(target))) close();
  });
  store.subscribe((state, before) => state.record !== before.record && close());
  return { node, show, close };
}

function contentOf(client, step, close) {
  const { store } = client;
  const state = store.get();
  const word = targetWords(state.record).find(({ places }) => places.includes(step));
  const name = word ? wordAt(word, state.record, step) : readable(state.record.tokens.predicted[step].text);
  const more = () => {
    close();
    store.change({ panel: 'step' });
  };
  return [
    element('h3', {}, ...sayParts('Instead of “{word}”', { word: name })),
    ...alternatives(client, state, step),
    createButton('hl-item', more, {}, say('More about this step')),
  ];
}
