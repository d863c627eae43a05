// The keyboard, the line below the viewer, and the help dialog, which names the keys.

import { createButton, element, matches } from './drawing/dom.js';
import { explainTerms } from './drawing/glossary.js';
import { closeButton } from './drawing/widgets.js';
import { forPointer } from './drawing/numbers.js';
import { logP } from './state/labels.js';
import { KINDS } from './domain/payload.js';
import { chooseKind, moveHead, moveLayer, toggleAverage, toggleMute } from './state/actions.js';
import { isCell } from './state/queries.js';
import { whyNot } from './transport/requests.js';
import { movePin } from './state/grid.js';
import { nextValue } from './state/value_choice.js';
import { VALUES } from './values/values.js';
import { say } from './locales/language.js';

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const COVERS = 'dialog[open], #hl-export-menu.hl-open'; // what lies over the page has the keys for itself
const SLIDER = 'input[type=range]';
const TEXT_FIELDS = `input:not([type=range], [type=checkbox], [type=radio]), textarea, select, [contenteditable]`;
const BUTTONS = 'button, a, summary'; // where Enter presses the button
const SCROLLED = ':is(div, pre)[tabindex="0"]:is(:not([role]), [role=region])'; // what has the focus to be scrolled

/** @type {() => [keys: string[], meaning: string][]} */
const keyHints = () => [
  [['←', '→', '↑', '↓'], say('head, layer')],
  [['1', '2', '3'], say('kind')],
  [['M'], say('mute')],
  [[say('Enter')], say('pin')],
  [[say('Esc')], say('clear')],
  [['A'], say('average')],
  [['N'], say('value')],
  [['S'], say('specials')],
  [['W'], say('words')],
  [['F'], say('whole matrix')],
  [['E'], say('export')],
  [[say('Shift'), say('+ arrows')], say('cell')],
];
const readingOf = () => [
  say(
    'Each small square is one attention head. Its rows are queries: the tokens that read. Its columns are keys: the tokens that are read.',
  ),
  say('With “Weight”, each row adds up to 1. The more a cell differs from the background, the larger its weight.'),
  say(
    'Encoder: source tokens read each other. Decoder: each step of the translation reads the tokens written so far; hatched cells are later tokens, which the mask forbids. Cross: each step reads the source tokens.',
  ),
  say('A row of Decoder and Cross has two names: the token that the step reads and the token that it predicts.'),
  ...VALUES.map(({ button, meaning }) => say('“{value}”: {meaning}.', { value: button(), meaning: meaning() })),
  say(
    'Where did a word come from? Trust “Remove a word” most, then “Weight” (of the average, or of a head that aligns), then “Norm”: this is their order in the study of the heads.',
  ),
  say(
    'With “Weight”, a line of the picture joins a word of the translation with a word that this head reads just before or just after writing it; a thick line is a large weight. It says where the head looked, not that the word was copied.',
  ),
  logP(),
  forPointer(
    say(
      'Hold Shift and click to show several heads as one. M mutes the heads on screen: they are struck out, and the tab “What if” shows what changes.',
    ),
    say(
      'Tap the large picture at the end of a layer to show all its heads as one. In the tab “What if” you mute heads: they are struck out, and the tab shows what changes.',
    ),
  ),
  forPointer(
    say(
      'Point at a token or a cell to highlight it in every panel. Click to pin it. Click again or press Esc to clear the pin.',
    ),
    say('Tap a token or a cell to highlight it in every panel and to pin it. Tap it again to clear the pin.'),
  ),
  say('A line that begins with › is a question: open it to ask the model.'),
  say(
    '“Side by side” shows a second view beside the one on screen: another model, another step of the training, or another sentence. A head or a token that you choose on one side is chosen on the other too.',
  ),
];

// Every key acts wherever the focus is, except in a text field. Sliders and boxes that scroll keep the arrows, buttons Enter.
export function listenToKeys(client, actions) {
  const { store } = client;
  document.addEventListener('keydown', (event) => {
    const target = event.target instanceof Element ? event.target : null; // a key may come from the document itself
    if (!store.get().record || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector(COVERS) || target?.closest(TEXT_FIELDS)) return;
    if (event.key in ARROWS && (target?.closest(SLIDER) || scrollsItself(event))) return;
    if (event.key === 'Enter' && target?.closest(BUTTONS)) return;
    const action = actionOf(event, actions);
    const changes = action ? null : changesOf(event, store.get(), client);
    if (!action && !changes) return;
    event.preventDefault();
    if (action) action();
    else store.change({ hover: null, ...changes });
  });
}

function scrollsItself({ target, key, shiftKey }) {
  if (shiftKey || !matches(target, SCROLLED)) return false;
  const [down] = ARROWS[key];
  return down === 0 ? target.scrollWidth > target.clientWidth : target.scrollHeight > target.clientHeight;
}

function actionOf({ key }, { openHelp, openExport }) {
  if (key === '?') return openHelp;
  return key.toLowerCase() === 'e' ? openExport : null;
}

function changesOf({ key, shiftKey }, state, client) {
  if (key in ARROWS) {
    const [down, right] = ARROWS[key];
    if (shiftKey) return movePin(state, down, right);
    return right ? moveHead(state, right) : moveLayer(state, down);
  }
  if (['1', '2', '3'].includes(key)) return chooseKind(state, KINDS[key - 1]);
  if (key === 'Enter') return isCell(state.pin) ? { panel: 'cell' } : movePin(state, 0, 0);
  if (key === 'Escape') return clear(state);
  const letters = {
    a: () => toggleAverage(state),
    m: () => mute(state, client),
    n: () => nextValue(state, client.ask !== null),
    f: () => ({ fit: !state.fit }),
    s: () => ({ hideSpecials: !state.hideSpecials }),
    w: () => ({ words: !state.words }),
  };
  return letters[key.toLowerCase()]?.() ?? null;
}

// No head is muted where nothing can say what that changes. The first tab gives way to the tab What if, which shows it.
function mute(state, client) {
  const reason = whyNot(client, 'mute');
  if (reason) return { error: reason };
  return { ...toggleMute(state), panel: state.panel === 'head' ? 'mute' : state.panel };
}

// Esc clears one thing at a time: the drawing of word links, the removed word, the pin, then the selection.
function clear({ drawing, removedAt, pin, selection }) {
  if (drawing) return { drawing: null };
  if (removedAt !== null) return { removedAt: null };
  if (pin) return { pin: null };
  return selection.length > 0 ? { selection: [] } : null;
}

// In an exported file and in a notebook, which have no bar.
export function createFooter(openHelp) {
  const button = createButton('hl-tab', openHelp, {}, say('How to read this'), ' ', element('kbd', {}, '?'));
  return element('footer', { class: 'hl-keys hl-soft' }, button);
}

export function createHelp() {
  /** @type {HTMLMetaElement | null} */
  const version = document.querySelector('meta[name=generator]');
  const dialog = element(
    'dialog',
    { class: 'hl-help', 'aria-label': say('How to read this') },
    element('h2', {}, say('How to read this')),
    element('ul', {}, ...readingOf().map((line) => element('li', {}, line))),
    element(
      'ul',
      { class: 'hl-help-keys hl-soft', 'aria-label': say('Keys') },
      ...keyHints().map(([keys, meaning]) =>
        element('li', {}, ...keys.map((key) => element('kbd', {}, key)), ` ${meaning}`),
      ),
    ),
    closeButton(),
    element('p', { class: 'hl-soft hl-version' }, version?.content ?? ''),
  );
  explainTerms(dialog);
  return dialog;
}
