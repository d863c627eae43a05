// The line of keys beneath the viewer, and the help that explains how to read it.

import { element } from './core/dom.js';

const KEYS = [
  [['←', '→', '↑', '↓'], 'head, layer'],
  [['1', '2', '3'], 'kind'],
  [['A'], 'average'],
  [['M'], 'mute'],
  [['N'], 'value'],
  [['S'], 'specials'],
  [['W'], 'words'],
  [['E'], 'save'],
  [['Shift', '+ arrows'], 'cell'],
  [['Enter'], 'pin, explain'],
  [['Esc'], 'let go'],
  [['?'], 'help'],
];
const READING = [
  'Each small square is one attention head. Its rows are queries, the tokens that look; its columns are keys, the tokens looked at.',
  'A row sums to 1. The brighter a cell stands out from its background, the more weight it carries.',
  'Encoder: source tokens look at each other. Decoder: each step of the translation looks at what is already written; hatched cells lie in the future and are forbidden by the mask. Cross: each step looks at the source.',
  'A row of Decoder and Cross has two names: the token that the step reads, and the token that it predicts.',
  'Weight is the share that a row gives to a column. Norm is how much then arrives, for a head may give much weight to a value of no size. Rollout follows the weights through the layers up to this one. Compare keeps the view and shows how the next one differs from it.',
  'Hold Shift and click to see several heads as one. M silences the heads shown: they are struck out, and the inspector tells what changes.',
  'Point at a token or a cell to light it everywhere. Click to keep it, click again or press Esc to let it go.',
];

export function createKeys(openHelp) {
  const hints = KEYS.map((one) => element('span', { class: 'hl-hint' }, ...hintOf(one)));
  const button = element('button', { type: 'button', class: 'hl-tab', onclick: openHelp }, 'How to read this');
  return element('footer', { class: 'hl-keys hl-soft' }, ...hints, button);
}

function hintOf([keys, meaning]) {
  return [...keys.map((key) => element('kbd', {}, key)), ` ${meaning}`];
}

export function createHelp() {
  const close = element('button', { type: 'submit', class: 'hl-button' }, 'Close');
  return element(
    'dialog',
    { class: 'hl-help', 'aria-label': 'How to read this' },
    element('h2', {}, 'How to read this'),
    element('ul', {}, ...READING.map((line) => element('li', {}, line))),
    element(
      'ul',
      { class: 'hl-help-keys hl-soft', 'aria-label': 'Keys' }, // where there is no room for them beneath the viewer
      ...KEYS.map((one) => element('li', {}, ...hintOf(one))),
    ),
    element('form', { method: 'dialog' }, close),
  );
}
