// Puts the views together: one store, the keyboard, the address, the theme and the spoken summary.

import { element } from './core/dom.js';
import { decode } from './core/payload.js';
import { currentTheme, watchTheme } from './core/colormap.js';
import { CHOICES, EMPTY, createStore, differs, sameSpot, show } from './core/store.js';
import { fromAddress, toAddress } from './core/permalink.js';
import { titleOf } from './core/labels.js';
import { watchValues } from './core/modes.js';
import { createStrip } from './strip/strip.js';
import { createAtlas } from './heads/overview.js';
import { createMatrix } from './matrix/matrix.js';
import { createHeading, createToolbar } from './matrix/toolbar.js';
import { openMenu } from './matrix/save_menu.js';
import { createTable } from './matrix/table.js';
import { createInspector } from './inspector/inspector.js';
import { createTour } from './tour.js';
import { createHelp, createKeys } from './help.js';
import { listenToKeys } from './keys.js';

// Mounts the viewer in an empty element. `ask` sends a request to the server and is null where there is none;
// `address` mirrors the state in the page's address.
export function mount(root, { ask = null, address = false } = {}) {
  const store = createStore(EMPTY);
  const help = createHelp();
  const live = element('p', { class: 'hl-unseen', 'aria-live': 'polite' });
  const problem = element('p', { class: 'hl-problem', role: 'alert', hidden: true });
  const heading = createHeading(store);
  const matrix = createMatrix(store, heading, createToolbar(store, ask), createTable(store));
  root.classList.add('hl-empty');
  root.tabIndex = -1; // a click anywhere inside gives the viewer the keys
  root.replaceChildren(
    problem,
    createStrip(store),
    element('div', { class: 'hl-columns' }, createAtlas(store), matrix, createInspector(store, ask)),
    createKeys(() => help.showModal()),
    help,
    live,
  );
  watchTheme(() => store.change({ theme: currentTheme() }));
  store.change({ theme: currentTheme() });
  listenToKeys(root, store, ask, {
    help: () => help.showModal(),
    takeAway: () => openMenu(heading.querySelector('.hl-menu')),
  });
  watchValues(store, ask);
  store.subscribe((state, before) => speak(root, live, state, before));
  help.append(createTour(store, ask, root));
  if (address) mirrorAddress(store);
  return { show: createLoader(root, store, problem, address), state: store.get };
}

// Takes payloads as JSON; one that arrives while an older one is still decoded wins.
function createLoader(root, store, problem, address) {
  let latest = 0;
  return async (json, caption = null) => {
    latest += 1;
    const turn = latest;
    try {
      const record = await decode(json);
      if (turn !== latest) return;
      const first = store.get().record === null;
      store.change(show(store.get(), record, caption));
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

// Says the heads and the pinned cell aloud; what the pointer merely passes stays silent.
function speak(root, live, state, before) {
  if (!state.record || (state.record === before.record && !choiceMade(state, before))) return;
  const cell = state.pin ? `. ${root.querySelector('.hl-readout').textContent}` : '';
  const muted = state.mutes.length > 0 ? `. ${state.mutes.length} muted` : '';
  live.textContent = `${titleOf(state).replaceAll(' ·', ',')}${cell}${muted}`;
}

function choiceMade(state, before) {
  const names = Object.keys(CHOICES).filter((name) => name !== 'pin');
  return differs(state, before, names) || !sameSpot(state.pin, before.pin);
}

function mirrorAddress(store) {
  store.subscribe((state, before) => {
    if (!before.record || !state.record || (state.record === before.record && !choiceMade(state, before))) return;
    history.replaceState(history.state, '', toAddress(state));
  });
  window.addEventListener('hashchange', () => {
    if (store.get().record) store.change({ hover: null, ...fromAddress(location.hash) });
  });
}
