// The rows above the matrix: its title, which values it shows and how, and the menu Export.

import { createButton, element } from '../drawing/dom.js';
import { toggleAverage } from '../state/actions.js';
import { titleOfMatrix } from '../state/labels.js';
import { availableValues, chooseValue } from '../state/value_choice.js';
import { VALUES } from '../values/values.js';
import { whyNot } from '../transport/requests.js';
import { tabs } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

function tab(text, title, onclick) {
  return createButton('hl-tab', onclick, { title }, text);
}

// `menu` is the menu Export, or null where the page has one.
export function createHeading(store, menu) {
  const title = element('h2');
  const several = {
    mean: tab(say('Average'), say('the mean over the heads (A)'), () => store.change(reduceTo(store.get(), 'mean'))),
    max: tab(say('Max'), say('the largest value over the heads'), () => store.change(reduceTo(store.get(), 'max'))),
  };
  const node = element(
    'div',
    { class: 'hl-bar' },
    title,
    tabs(say('Several heads as one'), several.mean, several.max),
    menu,
  );
  store.subscribe((state) => {
    if (!state.record) return;
    title.textContent = titleOfMatrix(state);
    const isSeveral = state.head === null || state.selection.length > 0;
    for (const [reduce, button] of Object.entries(several))
      button.setAttribute('aria-pressed', isSeveral && state.reduce === reduce);
  });
  return node;
}

// For one head: shows all heads of its layer. For all heads: goes back to the one, or changes how they are reduced.
function reduceTo(state, reduce) {
  if (state.selection.length > 0) return { reduce };
  if (state.head === null && state.reduce !== reduce) return { reduce };
  return { ...toggleAverage(state), reduce };
}

export function createToolbar(server) {
  const { store } = server;
  const values = VALUES.map((value) => {
    const choose = () => store.change(chooseValue(store.get(), value));
    return { value, button: createButton('hl-tab', choose, { 'data-value': value.name }, value.button()) };
  });
  const toggle = (name, on, off) => () => store.change({ [name]: store.get()[name] === on ? off : on });
  const specials = say('leave out <s> and </s> and scale up the other weights (S)');
  const words = say('merge sub-words: the sum over keys, the mean over queries (W)');
  const toggles = {
    hideSpecials: tab(say('Hide specials'), specials, toggle('hideSpecials', true, false)),
    words: tab(say('Words'), words, toggle('words', true, false)),
    fit: tab(
      say('Fit'),
      say('show the whole matrix in small cells; otherwise it scrolls (F)'),
      toggle('fit', true, false),
    ),
    scale: tab(say('By row'), say('colour each row by its own largest value'), toggle('scale', 'row', 'shared')),
  };
  const node = element(
    'div',
    { class: 'hl-toolbar', role: 'toolbar', 'aria-label': say('What the matrix shows') },
    tabs(say('Value'), ...values.map(({ button }) => button)),
    tabs(say('View'), ...Object.values(toggles)),
  );
  const parts = { server, values, toggles };
  store.subscribe((state) => renderToolbar(parts, state));
  return node;
}

// The share of each row that is shown in full colour.
export function createThreshold(store) {
  const range = { type: 'range', min: 50, max: 100, step: 1, value: 100 };
  const input = element('input', { ...range, 'aria-label': say('Share of each row that is shown') });
  const output = element('output', { class: 'hl-number' });
  input.addEventListener('input', () => store.change({ threshold: Number(input.value) / 100 }));
  store.subscribe(({ threshold }) => {
    const percent = Math.round(100 * threshold);
    if (input.value !== String(percent)) input.value = percent;
    output.textContent = say('{share} %', { share: percent });
  });
  const title = say('show the largest cells of each row up to this share of its sum; the others are pale');
  return element('label', { class: 'hl-threshold hl-soft', title }, say('Shown'), input, output);
}

function renderToolbar({ server, values, toggles }, state) {
  if (!state.record) return;
  const available = availableValues(state, server.ask !== null);
  for (const { value, button } of values) {
    button.setAttribute('aria-pressed', state.mode === value.name);
    button.disabled = !available.includes(value);
    button.title = button.disabled ? whyNot(server, value.request) : value.meaning();
  }
  toggles.hideSpecials.setAttribute('aria-pressed', state.hideSpecials);
  toggles.words.setAttribute('aria-pressed', state.words);
  toggles.fit.setAttribute('aria-pressed', state.fit);
  toggles.scale.setAttribute('aria-pressed', state.scale === 'row');
}
