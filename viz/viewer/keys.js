// The keyboard. Arrows belong to the viewer only while it has the focus, so that the page scrolls as usual.

import { KINDS } from './core/payload.js';
import { chooseKind, isCell, moveHead, moveLayer, toggleAverage, toggleMute } from './core/store.js';
import { whyNot } from './core/requests.js';
import { movePin } from './core/grid.js';
import { nextMode } from './core/modes.js';

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const OWN_KEYS = 'input, textarea, select, [contenteditable]'; // where letters are text
const PRESSED = 'button, a, summary'; // where Enter presses

// `actions` opens the help and the menu to take things away: { help, takeAway }.
export function listenToKeys(root, store, ask, actions) {
  document.addEventListener('keydown', (event) => {
    const { target } = event;
    if (!store.get().record || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector('dialog[open]') || target.closest?.(OWN_KEYS)) return;
    if (!root.contains(target) && (target !== document.body || event.key in ARROWS)) return;
    if (event.key === 'Enter' && target.closest(PRESSED)) return;
    const action = actionOf(event, actions);
    const changes = action ? null : changesOf(event, store.get(), ask);
    if (!action && !changes) return;
    event.preventDefault();
    if (action) action();
    else store.change({ hover: null, ...changes });
  });
}

function actionOf({ key }, actions) {
  if (key === '?') return actions.help;
  return key.toLowerCase() === 'e' ? actions.takeAway : null;
}

function changesOf({ key, shiftKey }, state, ask) {
  if (key in ARROWS) {
    const [down, right] = ARROWS[key];
    if (shiftKey) return movePin(state, down, right);
    return right ? moveHead(state, right) : moveLayer(state, down);
  }
  if (['1', '2', '3'].includes(key)) return chooseKind(state, KINDS[key - 1]);
  if (key === 'Enter') return isCell(state.pin) ? { panel: 'cell' } : movePin(state, 0, 0);
  if (key === 'Escape') return escape(state);
  const letters = {
    a: () => toggleAverage(state),
    m: () => mute(state, ask),
    n: () => nextMode(state, ask),
    s: () => ({ hideSpecials: !state.hideSpecials }),
    w: () => ({ words: !state.words }),
  };
  return letters[key.toLowerCase()]?.() ?? null;
}

// Where nothing can be said of silent heads, none falls silent.
function mute(state, ask) {
  const reason = whyNot(state, ask, 'mute');
  return reason ? { error: reason } : toggleMute(state);
}

// Esc lets go of one thing at a time: the pin, then the selection.
function escape({ pin, selection }) {
  if (pin) return { pin: null };
  return selection.length > 0 ? { selection: [] } : null;
}
