// The inspector: six panels in tabs, and a status line with the open request, an error, or the name of the record
// that is shown in place of the model's own translation.

import { createButton, element } from '../drawing/dom.js';
import { explainTerms } from '../drawing/glossary.js';
import { recordOfB } from '../state/comparison.js';
import { closeAside, closeView } from '../state/actions.js';
import { labelOf } from '../state/labels.js';
import { differs, showsMuted } from '../state/queries.js';
import { EMPTY, TABS } from '../state/store.js';
import { actionButton, addRovingFocus } from '../drawing/widgets.js';
import { createHeadCard } from './head.js';
import { createCell } from './cell.js';
import { createNextTokens } from './next_tokens.js';
import { createBeams } from './beams.js';
import { createOwnTranslation } from './own_translation.js';
import { createMute } from './mute.js';
import { createTraining } from './training.js';
import { createExamples } from './examples.js';
import { contributions } from '../instruments/contributions.js';
import { lens } from '../instruments/lens.js';
import { wordLinks } from '../instruments/links.js';
import { createQuestion } from '../instruments/question.js';
import { routes } from '../instruments/routes.js';
import { noModel } from '../transport/requests.js';
import { say } from '../locales/language.js';

// Each creates a panel { node, draw }; `draw(state, before)` is called with a record, while the panel is open.
const CREATE = {
  head: createHeadCard,
  cell: createCell,
  step: createStep,
  mute: createMute,
  training: createTraining,
  examples: createExamples,
};
const TAB_NAMES = {
  head: () => say('Head'),
  cell: () => say('Cell'),
  step: () => say('Step'),
  mute: () => say('What if'),
  training: () => say('Training'),
  examples: () => say('Examples'),
};
const OF_STATUS = ['busy', 'waiting', 'error', 'shown', 'record', 'mutes', 'sideB', 'beside', 'aside'];
let inspectors = 0; // a notebook shows several viewers, and ids must differ

export function createInspector(client) {
  const { store } = client;
  inspectors += 1;
  const panels = TABS.map((id) => createPanel(client, id, `hl-${inspectors}-${id}`));
  const tabs = panels.map(({ tab }) => tab);
  addRovingFocus(tabs, (place, key) => {
    const to = {
      ArrowRight: (place + 1) % tabs.length,
      ArrowLeft: (place + tabs.length - 1) % tabs.length,
      Home: 0,
      End: tabs.length - 1,
    }[key];
    if (to !== undefined) store.change({ panel: TABS[to] });
    return to;
  });
  const status = element('div', { class: 'hl-status', role: 'status' });
  store.subscribe((state, before) => {
    if (differs(state, before, OF_STATUS)) drawStatus(client, status, state);
    drawPanels(panels, state);
  });
  return element(
    'section',
    { class: 'hl-panel hl-inspector', 'aria-label': say('Inspector') },
    element('div', { class: 'hl-tabs hl-panel-tabs', role: 'tablist', 'aria-label': say('Inspector') }, ...tabs),
    status,
    ...panels.map(({ body }) => body),
  );
}

// The step: its likeliest tokens, why they are likely, the hypotheses, and a translation by the person.
function createStep(client) {
  const parts = [
    createNextTokens(client),
    ...[routes, contributions, lens, wordLinks].map((one) => createQuestion(client, one)),
    createBeams(client),
    createOwnTranslation(client),
  ];
  const draw = (state, before) => parts.forEach((part) => part.draw(state, before));
  return { node: element('div', {}, ...parts.map(({ node }) => node)), draw };
}

function createPanel(client, id, name) {
  const { node, draw } = CREATE[id](client);
  const open = () => client.store.change({ panel: id });
  const tab = createButton('hl-tab', open, { role: 'tab', id: `${name}-tab`, 'aria-controls': name }, TAB_NAMES[id]());
  const attributes = { role: 'tabpanel', id: name, 'aria-labelledby': `${name}-tab`, hidden: true };
  const body = element('div', { class: `hl-scroll hl-panel-body hl-panel-${id}`, ...attributes }, node);
  explainTerms(body);
  return { id, tab, body, draw, drawn: EMPTY };
}

// Only the open panel is drawn; it compares the state with the state that it drew last.
function drawPanels(panels, state) {
  const shown = panels.find(({ id }) => id === state.panel) ?? panels[0];
  for (const panel of panels) {
    const open = panel === shown;
    if (panel.body.hidden === open) {
      panel.body.hidden = !open;
      if (open) panel.body.scrollTop = 0;
      panel.tab.setAttribute('aria-selected', open);
      panel.tab.tabIndex = open ? 0 : -1;
    }
    if (!open || !state.record) continue;
    const before = panel.drawn;
    panel.drawn = state;
    panel.draw(state, before);
  }
}

function drawStatus({ store, ask }, status, state) {
  const { busy, error, shown, record } = state;
  status.classList.toggle('hl-is-busy', Boolean(busy));
  status.classList.toggle('hl-is-error', Boolean(error) && !busy);
  const draw = (text, label, act) =>
    status.replaceChildren(element('span', { title: text }, text), ...(label ? [actionButton(label, act)] : []));
  if (busy) draw(`${busy.what} … ${busy.waiting}`, say('Cancel'), busy.cancel);
  else if (error) draw(error, say('Close'), () => store.change({ error: null }));
  else if (state.aside)
    drawBack(
      store,
      status,
      say('Opened from the sentences under the translation'),
      say('Back to the view from before'),
      closeAside,
    );
  else if (shown) drawView(store, status, state);
  else draw(record ? viewOf(state) || (ask ? '' : noModel()) : '');
}

// What the panels are about; empty for the model's own translation. Heads that are muted for the next view change nothing here.
function viewOf(state) {
  const isUnmuted = state.mutes.length > 0 && !showsMuted(state);
  if (!labelOf(state) && !isUnmuted && !recordOfB(state)) return '';
  const shown = labelOf(state) || say('the model’s own translation');
  const view = isUnmuted ? say('{view}, without muting', { view: shown }) : shown;
  return recordOfB(state) ? say('About A: {view}', { view }) : view;
}

// The button is short, so that the name of the view has room.
function drawView(store, status, state) {
  const title = state.shown.source ? say('Back to the view without muting') : say('Back to the model’s translation');
  drawBack(store, status, viewOf(state), title, closeView);
}

function drawBack(store, status, label, title, close) {
  const back = actionButton(say('Back'), () => store.change(close(store.get())), { 'aria-label': title, title });
  status.replaceChildren(element('span', { title: label }, label), back);
}
