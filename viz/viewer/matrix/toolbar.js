// The quiet rows above the matrix: what it shows, how its values are read, and how to take it away.

import { element } from '../core/dom.js';
import { toggleAverage } from '../core/store.js';
import { titleOf } from '../core/labels.js';
import { availableModes, chooseMode } from '../core/modes.js';
import { createExportMenu } from './save_menu.js';

const MODE_NAMES = { weight: 'Weight', norm: 'Norm', rollout: 'Rollout', difference: 'Compare' };
const MODE_MEANING = {
  weight: 'the attention weight: each row adds up to 1',
  norm: 'how much of a value arrives: the norm of weight times transformed value (Kobayashi et al. 2020)',
  rollout:
    'weights multiplied through the layers, heads averaged (Abnar and Zuidema 2020); for the decoder our extension',
  difference: 'keep this view, and show how others differ from it',
};

function tab(text, title, onclick) {
  return element('button', { type: 'button', class: 'hl-tab', title, onclick }, text);
}

export function createHeading(store) {
  const title = element('h2');
  const several = {
    mean: tab('Average', 'the mean over the heads (A)', () => store.change(reduceTo(store.get(), 'mean'))),
    max: tab('Max', 'the largest value over the heads', () => store.change(reduceTo(store.get(), 'max'))),
  };
  const group = { class: 'hl-tabs', role: 'group', 'aria-label': 'Several heads as one' };
  const menu = createExportMenu(store);
  const node = element('div', { class: 'hl-bar' }, title, element('div', group, several.mean, several.max), menu);
  store.subscribe((state) => {
    if (!state.record) return;
    title.textContent = titleOf(state);
    const isSeveral = state.head === null || state.selection.length > 0;
    for (const [reduce, button] of Object.entries(several))
      button.setAttribute('aria-pressed', isSeveral && state.reduce === reduce);
  });
  return node;
}

// One head becomes all of its layer; all heads go back to the one, or are reduced in the other way.
function reduceTo(state, reduce) {
  if (state.selection.length > 0) return { reduce };
  if (state.head === null && state.reduce !== reduce) return { reduce };
  return { ...toggleAverage(state), reduce };
}

export function createToolbar(store, ask) {
  const modes = Object.entries(MODE_NAMES).map(([mode, name]) => {
    const button = tab(name, MODE_MEANING[mode], () => store.change(chooseMode(store.get(), mode)));
    button.dataset.mode = mode;
    return button;
  });
  const toggles = {
    hideSpecials: tab('Hide specials', 'leave <s> and </s> out and share their weight among the rest (S)', () =>
      toggle(store, 'hideSpecials'),
    ),
    words: tab('Words', 'merge sub-words: the sum over keys, the mean over queries (W)', () => toggle(store, 'words')),
    scale: tab('By row', 'colour each row by its own largest value', () =>
      store.change({ scale: store.get().scale === 'row' ? 'shared' : 'row' }),
    ),
  };
  const node = element(
    'div',
    { class: 'hl-toolbar', role: 'toolbar', 'aria-label': 'What the matrix shows' },
    element('div', { class: 'hl-tabs', role: 'group', 'aria-label': 'Value' }, ...modes),
    element('div', { class: 'hl-tabs', role: 'group', 'aria-label': 'View' }, ...Object.values(toggles)),
  );
  const parts = { ask, modes, toggles };
  store.subscribe((state) => renderToolbar(parts, state));
  return node;
}

function toggle(store, name) {
  store.change({ [name]: !store.get()[name] });
}

// How much of each row is shown in full colour.
export function createThreshold(store) {
  const input = element('input', {
    type: 'range',
    min: 50,
    max: 100,
    step: 1,
    value: 100,
    'aria-label': 'Share of each row that is shown',
  });
  const output = element('output', { class: 'hl-number' });
  input.addEventListener('input', () => store.change({ threshold: Number(input.value) / 100 }));
  store.subscribe(({ threshold }) => {
    const percent = Math.round(100 * threshold);
    if (input.value !== String(percent)) input.value = percent;
    output.textContent = `${percent} %`;
  });
  const title = 'pale the smallest cells of each row, beyond this share of its sum';
  return element('label', { class: 'hl-threshold hl-soft', title }, 'Mass', input, output);
}

function renderToolbar({ ask, modes, toggles }, state) {
  if (!state.record) return;
  const available = availableModes(state, ask);
  for (const button of modes) {
    const { mode } = button.dataset;
    button.setAttribute('aria-pressed', state.mode === mode);
    button.disabled = !available.includes(mode);
  }
  toggles.hideSpecials.setAttribute('aria-pressed', state.hideSpecials);
  toggles.words.setAttribute('aria-pressed', state.words);
  toggles.scale.setAttribute('aria-pressed', state.scale === 'row');
}
