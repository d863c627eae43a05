// The inspector: five panels behind tabs, and one line that says what is being asked, what went wrong, or which
// record stands in place of the model's own.

import { element } from '../core/dom.js';
import { EMPTY, PANELS, differs } from '../core/store.js';
import { leave } from '../core/visit.js';
import { pressable, roving } from '../core/widgets.js';
import { createHeadCard } from './head.js';
import { createCell } from './cell.js';
import { createStep } from './step.js';
import { createMute } from './mute.js';
import { createTraining } from './training.js';

const CREATE = { head: createHeadCard, cell: createCell, step: createStep, mute: createMute, training: createTraining };
const TAB_NAMES = { head: 'Head', cell: 'Cell', step: 'Step', mute: 'Mute', training: 'Training' };
let inspectors = 0; // each has its own ids, for a notebook shows several

// `ask` is null where there is no server; a panel that needs it then says so.
export function createInspector(store, ask) {
  inspectors += 1;
  const panels = PANELS.map((id) => createPanel(store, ask, id, `hl-${inspectors}-${id}`));
  const tabs = panels.map(({ tab }) => tab);
  roving(tabs, (place, key) => {
    const to = {
      ArrowRight: (place + 1) % tabs.length,
      ArrowLeft: (place + tabs.length - 1) % tabs.length,
      Home: 0,
      End: tabs.length - 1,
    }[key];
    if (to !== undefined) store.change({ panel: PANELS[to] });
    return to;
  });
  const status = element('div', { class: 'hl-status', role: 'status' });
  store.subscribe((state, before) => {
    if (differs(state, before, ['busy', 'error', 'visit', 'record'])) drawStatus(store, status, state);
    drawPanels(panels, state);
  });
  return element(
    'section',
    { class: 'hl-panel hl-inspector', 'aria-label': 'Inspector' },
    element('div', { class: 'hl-tabs hl-panel-tabs', role: 'tablist', 'aria-label': 'Inspector' }, ...tabs),
    status,
    ...panels.map(({ body }) => body),
  );
}

function createPanel(store, ask, id, name) {
  const { node, draw } = CREATE[id](store, ask);
  const tab = element(
    'button',
    {
      type: 'button',
      role: 'tab',
      class: 'hl-tab',
      id: `${name}-tab`,
      'aria-controls': name,
      onclick: () => store.change({ panel: id }),
    },
    TAB_NAMES[id],
  );
  const body = element(
    'div',
    {
      role: 'tabpanel',
      class: `hl-scroll hl-panel-body hl-panel-${id}`,
      id: name,
      'aria-labelledby': `${name}-tab`,
      hidden: true,
    },
    node,
  );
  return { id, tab, body, draw, drawn: EMPTY };
}

// Only the open panel draws; it compares with the state that it drew last.
function drawPanels(panels, state) {
  for (const panel of panels) {
    const open = panel.id === state.panel;
    if (panel.body.hidden === open) {
      panel.body.hidden = !open;
      panel.tab.setAttribute('aria-selected', open);
      panel.tab.tabIndex = open ? 0 : -1;
    }
    if (!open) continue;
    const before = panel.drawn;
    panel.drawn = state;
    panel.draw(state, before);
  }
}

function drawStatus(store, status, state) {
  const { busy, error, visit } = state;
  status.classList.toggle('hl-is-busy', Boolean(busy));
  status.classList.toggle('hl-is-error', Boolean(error) && !busy);
  if (busy)
    status.replaceChildren(
      element('span', {}, `${busy.what} … ${busy.waiting ?? ''}`),
      pressable('Cancel', busy.cancel),
    );
  else if (error)
    status.replaceChildren(
      element('span', {}, error),
      pressable('Close', () => store.change({ error: null })),
    );
  else if (visit)
    status.replaceChildren(
      element('span', { title: visit.label }, visit.label),
      pressable('Back to the model’s own', () => leave(store)),
    );
  else status.replaceChildren(element('span', {}, state.record ? 'the model’s own translation' : ''));
}
