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
import { createMenu, tabs } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

const FIRST = [USUAL, leaveOneOut]; // the others are in the menu

// `toolbar` is null for side B, whose choices are those of A. `menu` is the menu Export, or null where the page has one.
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

export function createToolbar(client, table) {
  const { store } = client;
  const item = (text, title, onclick) => createButton('hl-item', onclick, { title }, text);
  const buttonOf = (value) => {
    const choose = () => store.change(chooseValue(store.get(), value));
    const look = FIRST.includes(value) ? 'hl-tab' : 'hl-item';
    return { value, button: createButton(look, choose, { 'data-value': value.name }) };
  };
  const [first, others] = [FIRST, VALUES.filter((value) => !FIRST.includes(value))].map((some) => some.map(buttonOf));
  const toggle = (name, on, off) => () => store.change({ [name]: store.get()[name] === on ? off : on });
  const reduced = (reduce) => () => store.change(reduceTo(store.get(), reduce));
  const toggles = {
    fit: item(
      say('Whole matrix'),
      say('show the whole matrix in small cells; otherwise it scrolls (F)'),
      toggle('fit', true, false),
    ),
    words: item(
      say('Join word pieces'),
      say('merge sub-words: the sum over keys, the mean over queries (W)'),
      toggle('words', true, false),
    ),
    hideSpecials: item(
      say('Hide <s> and </s>'),
      say('leave out <s> and </s> and scale up the other weights (S)'),
      toggle('hideSpecials', true, false),
    ),
    scale: item(
      say('Colour by row'),
      say('colour each row by its own largest value'),
      toggle('scale', 'row', 'shared'),
    ),
    mean: item(say('Average of the heads'), say('the mean over the heads of the layer (A)'), reduced('mean')),
    max: item(say('Largest of the heads'), say('the largest value over the heads of the layer'), reduced('max')),
  };
  const asTable = item(say('Read as a table'), null, () => {
    asTable.setAttribute('aria-pressed', table.toggle());
    menu.open = false;
  });
  const entries = [...others.map(({ button }) => button), ...Object.values(toggles), createThreshold(store), asTable];
  const menu = createMenu(say('View'), say('other values, and how the matrix is drawn'), ...entries);
  const node = element(
    'div',
    { class: 'hl-toolbar', role: 'toolbar', 'aria-label': say('What the matrix shows') },
    tabs(say('Value'), ...first.map(({ button }) => button)),
    menu,
  );
  const parts = { client, values: [...first, ...others], toggles, name: menu.firstChild };
  store.subscribe((state) => renderToolbar(parts, state));
  return node;
}

// For one head: shows all heads of its layer. For all heads: goes back to the one, or changes how they are reduced.
function reduceTo(state, reduce) {
  if (state.selection.length > 0) return { reduce };
  if (state.head === null && state.reduce !== reduce) return { reduce };
  return { ...toggleAverage(state), reduce };
}

// The share of each row that is shown in full colour.
function createThreshold(store) {
  const range = { type: 'range', min: 50, max: 100, step: 1, value: 100 };
  const input = element('input', { ...range, 'aria-label': say('Share of each row that is shown') });
  const output = element('output', { class: 'hl-number' });
  input.addEventListener('input', () => store.change({ threshold: Number(input.value) / 100 }));
  store.subscribe(({ threshold }) => {
    const percent = Math.round(100 * threshold);
    if (input.valueAsNumber !== percent) input.valueAsNumber = percent;
    output.textContent = say('{share} %', { share: percent });
  });
  const title = say('show the largest cells of each row up to this share of its sum; the others are pale');
  return element('label', { class: 'hl-threshold hl-item', title }, say('Hide small weights'), input, output);
}

function renderToolbar({ client, values, toggles, name }, state) {
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
  const isSeveral = state.head === null || state.selection.length > 0;
  const pressed = {
    fit: state.fit,
    words: state.words,
    hideSpecials: state.hideSpecials,
    scale: state.scale === 'row',
    mean: isSeveral && state.reduce === 'mean',
    max: isSeveral && state.reduce === 'max',
  };
  for (const [one, button] of Object.entries(toggles)) button.setAttribute('aria-pressed', pressed[one]);
}
