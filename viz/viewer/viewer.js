// Creates the viewer: one store, the panels, the keyboard, the address, the theme and the announcements.

import { element } from './drawing/dom.js';
import { openDialog } from './drawing/widgets.js';
import { decode } from './domain/payload.js';
import { currentTheme, watchTheme } from './drawing/colormap.js';
import { showRecord } from './state/actions.js';
import { isElsewhere } from './state/queries.js';
import { notesOf } from './matrix/svg.js';
import { createStore } from './state/store.js';
import { titleOfMatrix } from './state/labels.js';
import { createClient } from './transport/requests.js';
import { startEffects } from './transport/effects.js';
import { createStrip } from './strip/strip.js';
import { createOverview } from './heads/overview.js';
import { createMatrix } from './matrix/matrix.js';
import { createHeading, createToolbar } from './matrix/toolbar.js';
import { createExportMenu, createExports, openMenu } from './matrix/save_menu.js';
import { createTable } from './matrix/table.js';
import { createInspector } from './inspector/inspector.js';
import { createSummary } from './summary/summary.js';
import { createBeside } from './beside/beside.js';
import { createAbout } from './about.js';
import { createAddress, hasChanged } from './address.js';
import { createLearn } from './learn/learn.js';
import { createEntry } from './playground/entry.js';
import { createFooter, createHelp, listenToKeys } from './keys.js';
import { say, sayCount } from './locales/language.js';

// Mounts the viewer in an empty element. `ask` sends a request to a server or a Worker; it is null without both.
// `address` keeps the state in the hash of the page's address. `about` holds what is known of each model by its name.
// `page` is the page around the viewer, which has the store, translates the sentence of an address and has the menu Export,
// the list of models and the playground: see page.js; null in an exported file and in a notebook. Returns
// { show, state, client, ask, entries, openAbout, openHelp, openLearn, openPlayground }: the entries belong to the menu Export,
// and the functions to the buttons of the page.
/** @type {(root: HTMLElement, options?: { ask?: Ask | null; address?: boolean; about?: State['about']; page?: Page | null }) => any} */
export function mount(root, { ask = null, address = false, about: models = {}, page = null } = {}) {
  const store = page?.store ?? createStore();
  store.change({ about: models });
  const client = createClient(store, ask);
  startEffects(client);
  const help = createHelp();
  const about = createAbout(client);
  const learn = page ? createLearn(client) : null; // its chapters begin with sentences that the page translates
  const live = element('p', { class: 'hl-unseen', 'aria-live': 'polite' });
  const problem = element('p', { class: 'hl-problem', role: 'alert', hidden: true });
  const [strips, columns] = ['hl-strips', 'hl-columns'].map((name) => element('div', { class: name }));
  const openHelp = () => openDialog(help);
  const beside = createBeside(client, { root, strips, columns }, page?.otherModels ?? (() => []));
  const entries = createExports([store, beside]);
  const menu = page ? null : createExportMenu(entries);
  const table = createTable(store);
  const heading = createHeading(store, createToolbar(client, table), menu);
  const matrix = createMatrix(store, heading, table);
  strips.append(createStrip(client));
  columns.append(createOverview(store), matrix, createInspector(client));
  root.classList.add('hl-empty');
  root.tabIndex = -1; // a click anywhere inside moves the focus into the viewer, so that it gets the keys
  root.replaceChildren(
    problem,
    strips,
    createSummary(client),
    columns,
    createHandoutNotes(store),
    ...(page ? [] : [createFooter(openHelp)]),
    help,
    about.dialog,
    live,
    ...(learn ? learn.panels : []),
  );
  watchTheme(() => store.change({ theme: currentTheme() }));
  followPrinting(store);
  store.change({ theme: currentTheme() });
  listenToKeys(client, { openHelp, openExport: page?.openExport ?? (() => openMenu(menu)) });
  store.subscribe((state, before) => {
    announce(root, live, state, before);
    document.body.classList.toggle('hl-elsewhere', isElsewhere(state)); // the page's own widgets say something else
  });
  const bar = address ? createAddress(client, page?.translateAddress) : null;
  const show = createLoader(root, store, problem, { bar, isAlone: page === null });
  const openPlayground = page?.playground ? createEntry(store, root, page) : null;
  const opening = { openAbout: about.open, openHelp, openLearn: learn?.open, openPlayground };
  return { show, state: store.get, client, ask, entries, ...opening };
}

// Returns a function that shows a payload. If a newer payload arrives while one is decoded, the newer one is shown. `answers`
// are parts of the state that are known already. `view` is the address of the view to open; a viewer alone opens its first
// record with the address of the document.
/** @type {(root: HTMLElement, store: Store, problem: HTMLElement, around: { bar: { open: any } | null; isAlone: boolean }) => (payload: any, options?: { view?: string | null; answers?: Partial<State> | null }) => Promise<void>} */
function createLoader(root, store, problem, { bar, isAlone }) {
  let latest = null;
  return async (payload, { view = null, answers = null } = {}) => {
    latest = payload;
    try {
      const record = await decode(payload);
      if (latest !== payload) return;
      const isFirst = store.get().record === null;
      const address = isAlone && isFirst && location.hash !== '' ? location.hash : view;
      const show = () => store.change({ ...showRecord(store.get(), record), ...answers });
      root.classList.remove('hl-empty');
      problem.hidden = true;
      if (bar && address !== null) await bar.open(address, show);
      else show();
    } catch (error) {
      problem.textContent = say('The attention maps could not be drawn: {reason}', { reason: error.message });
      problem.hidden = false;
      throw error;
    }
  };
}

// What a handout says below the matrix: the view by its name, the switches, the pinned cell, the sentence and its translation,
// the model, and the address of the view.
function createHandoutNotes(store) {
  const node = element('div', { class: 'hl-handout' });
  store.subscribe((state, before) => {
    if (!state.isPrinting || before.isPrinting) return;
    const address = location.protocol.startsWith('http') ? location.href : '';
    node.replaceChildren(...[...notesOf(state), address].filter(Boolean).map((line) => element('p', {}, line)));
  });
  return node;
}

// A handout is printed in light colours, whatever the screen shows; `hl-printing` lays the page out for paper.
function followPrinting(store) {
  const { classList } = document.body;
  let isDark = false;
  window.addEventListener('beforeprint', () => {
    isDark = classList.contains('dark');
    classList.remove('dark');
    classList.add('hl-printing');
    store.change({ theme: 'light', isPrinting: true });
  });
  window.addEventListener('afterprint', () => {
    classList.toggle('dark', isDark);
    classList.remove('hl-printing');
    store.change({ theme: currentTheme(), isPrinting: false });
  });
}

// Announces the chosen heads and the pinned cell to screen readers, but not what the pointer passes over.
function announce(root, live, state, before) {
  if (!hasChanged(state, before)) return;
  const cell = state.pin ? `. ${root.querySelector('.hl-readout').textContent}` : '';
  const muted =
    state.mutes.length > 0 ? `. ${sayCount(state.mutes.length, '{count} head muted', '{count} heads muted')}` : '';
  live.textContent = `${titleOfMatrix(state).replaceAll(' ·', ',')}${cell}${muted}`;
}
