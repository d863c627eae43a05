// Puts the views together: one store, the keyboard, the address, the theme and the spoken summary.

import { element } from './dom.js';
import { KINDS, decode } from './payload.js';
import { currentTheme, watchTheme } from './colour.js';
import { EMPTY, chooseKind, createStore, moveHead, moveLayer, movePin, sameSpot, show, toggleAverage } from './state.js';
import { fromAddress, taskOfAddress, toAddress } from './address.js';
import { createStrip } from './tokens.js';
import { createAtlas, kindName } from './atlas.js';
import { createMatrix } from './matrix.js';
import { createInspector } from './inspector.js';
import { createTour } from './tour.js';
import { createHelp, createKeys } from './help.js';

// Mounts the viewer in an empty element; `address` mirrors the selection in the page's address.
export function mount(root, { address = false, ask = null } = {}) {
  const store = createStore(EMPTY);
  const help = createHelp();
  const live = element('p', { class: 'hl-unseen', 'aria-live': 'polite' });
  const problem = element('p', { class: 'hl-problem', role: 'alert', hidden: true });
  root.classList.add('hl-empty');
  root.replaceChildren(
    problem,
    createStrip(store),
    element('div', { class: 'hl-columns' }, createAtlas(store), createMatrix(store), createInspector(store, ask)),
    createKeys(() => help.showModal()),
    help,
    live,
  );
  watchTheme(() => store.change({ theme: currentTheme() }));
  store.change({ theme: currentTheme() });
  listenToKeys(root, store, help);
  store.subscribe((state, before) => speak(root, live, state, before));
  help.append(createTour(store, ask, root));
  if (address) mirrorAddress(store);
  return { show: createLoader(root, store, problem, address) };
}

// Takes payloads as JSON; one that arrives while an older one is still decoded wins.
function createLoader(root, store, problem, address) {
  let latest = 0;
  return async (json) => {
    latest += 1;
    const turn = latest;
    try {
      const record = await decode(json);
      if (turn !== latest) return;
      const first = store.get().record === null;
      store.change(show(store.get(), record));
      if (first && address) store.change(fromAddress(location.hash));
      root.classList.remove('hl-empty');
      problem.hidden = true;
    } catch (error) {
      problem.textContent = `The attention maps could not be drawn: ${error.message}`;
      problem.hidden = false;
      throw error;
    }
  };
}

function listenToKeys(root, store, help) {
  document.addEventListener('keydown', (event) => {
    const state = store.get();
    const { target } = event;
    if (!state.record || help.open || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target !== document.body && (!root.contains(target) || target.closest('input, textarea, select'))) return;
    if (event.key === '?') help.showModal();
    const changes = changesOf(event, state);
    if (!changes && event.key !== '?') return;
    event.preventDefault();
    if (changes) store.change({ hover: null, ...changes });
  });
}

function changesOf({ key, shiftKey }, state) {
  const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  if (key in arrows) {
    const [down, right] = arrows[key];
    if (shiftKey) return movePin(state, down, right);
    return right ? moveHead(state, right) : moveLayer(state, down);
  }
  if (['1', '2', '3'].includes(key)) return chooseKind(state, KINDS[key - 1]);
  if (key === 'a' || key === 'A') return toggleAverage(state);
  if (key === 'Escape' && state.pin) return { pin: null };
  return null;
}

// Says the head and the pinned cell aloud; what the pointer merely passes stays silent.
function speak(root, live, state, before) {
  if (!state.record || (state.record === before.record && !selectionMoved(state, before))) return;
  const head = state.head === null ? 'average' : `head ${state.head + 1}`;
  const cell = state.pin ? `. ${root.querySelector('.hl-readout').textContent}` : '';
  live.textContent = `${kindName(state.kind)}, layer ${state.layer + 1}, ${head}${cell}`;
}

function selectionMoved(state, before) {
  return ['kind', 'layer', 'head'].some((name) => state[name] !== before[name]) || !sameSpot(state.pin, before.pin);
}

function mirrorAddress(store) {
  store.subscribe((state, before) => {
    if (!before.record || !state.record || !selectionMoved(state, before)) return;
    history.replaceState(history.state, '', toAddress(state));
  });
  window.addEventListener('hashchange', () => {
    if (store.get().record) store.change({ hover: null, ...fromAddress(location.hash) });
  });
}
