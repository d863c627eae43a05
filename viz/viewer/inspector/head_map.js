// The head map: for each head of each kind, how the log-probability of the translation changes if it alone is muted.

import { createButton, element } from '../core/dom.js';
import { KINDS } from '../core/payload.js';
import { chooseKind, headOf, isMuted } from '../core/store.js';
import { forPointer, kindName, signed } from '../core/labels.js';
import { largest } from '../core/math.js';
import { TAUGHT, isTaught } from '../core/measures.js';
import { actionButton, addRovingFocus, note, numberText, tint } from '../core/widgets.js';

const LISTED = 5;
const MAP_HINT = forPointer(
  'Point at a head to read its value. Click to choose it.',
  'Tap a head to read its value and to choose it.',
);

export function drawHeadMap(store, node, state, importance) {
  const most = largest(Object.values(importance).flat(2));
  const readout = element('p', { class: 'hl-soft hl-number hl-map-readout' }, MAP_HINT);
  const grids = KINDS.map((kind) => gridOf(store, state, kind, importance[kind], most, readout));
  node.replaceChildren(
    note('Change of the log-probability of this translation, in nats, if one head is muted.'),
    ...grids,
    readout,
    scaleOf(most),
    element('h4', {}, 'The most important heads for this translation'),
    element('ol', { class: 'hl-most' }, ...neededHeads(importance).map((one) => headLine(store, state, one))),
  );
}

function choose(store, [kind, layer, head]) {
  store.change({ ...chooseKind(store.get(), kind), ...headOf({ kind, layer, head }) });
}

function fullName({ record }, [kind, layer, head]) {
  const name = `${kindName(kind)}, layer ${layer + 1}, head ${head + 1}`;
  return isTaught(record, kind, layer, head) ? `${name}, ${TAUGHT}` : name;
}

function gridOf(store, state, kind, table, most, readout) {
  const heads = table[0].length;
  const cells = table.map((row, layer) =>
    row.map((value, head) => cellOf(store, state, [kind, layer, head], value, most, readout)),
  );
  addRovingFocus(cells.flat(), (place, key) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads }[key];
    return step === undefined ? null : place + step;
  });
  const rows = cells.map((row, layer) => {
    const number = element('span', { class: 'hl-soft', 'aria-hidden': 'true' }, String(layer + 1));
    return element('div', { role: 'row', class: 'hl-map-row' }, number, ...row);
  });
  const grid = element('div', { role: 'grid', class: 'hl-map', 'aria-label': `${kindName(kind)} heads` }, ...rows);
  grid.style.setProperty('--hl-heads', heads);
  return element('div', {}, element('p', { class: 'hl-soft' }, kindName(kind)), grid);
}

function cellOf(store, state, one, value, most, readout) {
  const [kind, layer, head] = one;
  const text = `${fullName(state, one)}: ${signed(value)}`;
  const showValue = () => readout.replaceChildren(text);
  const chosen = state.selection.length === 0 && kind === state.kind && layer === state.layer && head === state.head;
  const names = { role: 'gridcell', 'aria-label': text, 'aria-selected': String(chosen) };
  const attributes = { ...names, onpointerenter: showValue, onfocus: showValue };
  const cell = tint(
    createButton('hl-map-cell', () => choose(store, one), attributes),
    value,
    most,
  );
  cell.classList.toggle('hl-is-muted', isMuted(state, one));
  return cell;
}

function scaleOf(most) {
  return element(
    'p',
    { class: 'hl-map-scale hl-soft hl-number', 'aria-hidden': 'true' },
    element('span', {}, signed(-most, 2)),
    element('span', { class: 'hl-map-ramp' }),
    element('span', {}, signed(most, 2)),
  );
}

// The heads without which the translation loses most.
function neededHeads(importance) {
  const all = KINDS.flatMap((kind) =>
    importance[kind].flatMap((row, layer) => row.map((value, head) => ({ head: [kind, layer, head], value }))),
  );
  return all.sort((one, other) => one.value - other.value).slice(0, LISTED);
}

function headLine(store, state, { head, value }) {
  const button = actionButton(fullName(state, head), () => choose(store, head), { class: 'hl-choice' });
  button.append(numberText(signed(value)));
  return element('li', {}, button);
}
