// The rows above the matrix: its title, what it shows, one menu with all other choices, and what its arcs mean.

import { createButton, element } from '../drawing/dom.js';
import { toggleAverage } from '../state/actions.js';
import { titleOfMatrix } from '../state/labels.js';
import { availableValues, chooseValue } from '../state/value_choice.js';
import { isSubtracted, shownValue } from '../state/comparison.js';
import { rowOffset } from '../state/queries.js';
import { leaveOneOut } from '../values/leave_one_out.js';
import { USUAL, VALUES } from '../values/values.js';
import { whyNot } from '../transport/requests.js';
import { createMenu, percentSlider, tabs } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

const FIRST = [USUAL, leaveOneOut]; // the others are in the menu

// `toolbar` is null for side B, which follows the choices of A. `menu` is the menu Export, or null where the page has one.
export function createHeading(store, toolbar, menu) {
  const title = element('h2');
  const arcs = element('p', { class: 'hl-arcs-meaning hl-soft' });
  store.subscribe((state) => {
    if (!state.record) return;
    title.textContent = title.title = titleOfMatrix(state);
    arcs.textContent = meaningOfArcs(state);
  });
  return [element('div', { class: 'hl-bar' }, title, toolbar, menu), arcs];
}

// Which word of the translation an arc of the strip ends at.
function meaningOfArcs(state) {
  const { arcs } = shownValue(state);
  if (arcs) return arcs();
  if (state.kind !== 'cross' || isSubtracted(state)) return '';
  return rowOffset(state) < 0
    ? say('This head looks up the word just written.')
    : say('Each word is joined with what is read to write it.');
}

const SWITCHES = [
  {
    text: () => say('Whole matrix'),
    title: () => say('show the whole matrix in small cells; otherwise it scrolls (F)'),
    isOn: ({ fit }) => fit,
    change: ({ fit }) => ({ fit: !fit }),
  },
  {
    text: () => say('Join word pieces'),
    title: () => say('merge sub-words: the sum over keys, the mean over queries (W)'),
    isOn: ({ words }) => words,
    change: ({ words }) => ({ words: !words }),
  },
  {
    text: () => say('Hide <s> and </s>'),
    title: () => say('leave out <s> and </s> and scale up the other weights (S)'),
    isOn: ({ hideSpecials }) => hideSpecials,
    change: ({ hideSpecials }) => ({ hideSpecials: !hideSpecials }),
  },
  {
    text: () => say('Colour by row'),
    title: () => say('colour each row by its own largest value'),
    isOn: ({ scale }) => scale === 'row',
    change: ({ scale }) => ({ scale: scale === 'row' ? 'shared' : 'row' }),
  },
  {
    text: () => say('Average of the heads'),
    title: () => say('the mean over the heads of the layer (A)'),
    isOn: (state) => isReduced(state, 'mean'),
    change: (state) => reduceTo(state, 'mean'),
  },
  {
    text: () => say('Largest of the heads'),
    title: () => say('the largest value over the heads of the layer'),
    isOn: (state) => isReduced(state, 'max'),
    change: (state) => reduceTo(state, 'max'),
  },
];

export function createToolbar(client, table) {
  const { store } = client;
  const buttonOf = (value) => {
    const choose = () => store.change(chooseValue(store.get(), value));
    const look = FIRST.includes(value) ? 'hl-tab' : 'hl-item';
    return { value, button: createButton(look, choose, { 'data-value': value.name }) };
  };
  const [first, others] = [FIRST, VALUES.filter((value) => !FIRST.includes(value))].map((some) => some.map(buttonOf));
  const switches = SWITCHES.map(({ text, title, isOn, change }) => {
    const button = createButton('hl-item', () => store.change(change(store.get())), { title: title() }, text());
    return { isOn, button };
  });
  const readAsTable = () => {
    asTable.setAttribute('aria-pressed', table.toggle());
    menu.open = false;
  };
  const asTable = createButton('hl-item', readAsTable, {}, say('Read as a table'));
  const entries = [...others, ...switches].map(({ button }) => button);
  const title = say('other values, and how the matrix is drawn');
  const menu = createMenu(say('View'), title, ...entries, createThreshold(store), asTable);
  const parts = { client, values: [...first, ...others], switches, name: menu.firstElementChild };
  store.subscribe((state) => renderToolbar(parts, state));
  return element(
    'div',
    { class: 'hl-toolbar', role: 'toolbar', 'aria-label': say('What the matrix shows') },
    tabs(say('Value'), ...first.map(({ button }) => button)),
    menu,
  );
}

const isReduced = ({ head, selection, reduce }, wanted) => (head === null || selection.length > 0) && reduce === wanted;

// For one head: shows all heads of its layer. For all heads: goes back to one head, or changes how they are reduced.
function reduceTo(state, reduce) {
  if (state.selection.length > 0) return { reduce };
  if (state.head === null && state.reduce !== reduce) return { reduce };
  return { ...toggleAverage(state), reduce };
}

function createThreshold(store) {
  const title = say('show the largest cells of each row up to this share of its sum; the others are pale');
  const { node, draw } = percentSlider([50, 100], (threshold) => store.change({ threshold }), {
    class: 'hl-item',
    title,
    label: say('Hide small weights'),
    name: say('Share of each row that is shown'),
  });
  store.subscribe(({ threshold }) => draw(threshold));
  return node;
}

function renderToolbar({ client, values, switches, name }, state) {
  if (!state.record) return;
  const available = availableValues(state, client.ask !== null);
  for (const { value, button } of values) {
    button.textContent = value.button();
    button.setAttribute('aria-pressed', state.valueName === value.name);
    button.disabled = !available.includes(value);
    button.title = button.disabled ? whyNot(client, value.request) : value.meaning();
  }
  const other = values.find(({ value }) => value.name === state.valueName && !FIRST.includes(value));
  name.textContent = `${other ? other.value.button() : say('View')} ▾`;
  name.setAttribute('aria-pressed', other !== undefined);
  for (const { isOn, button } of switches) button.setAttribute('aria-pressed', isOn(state));
}
