// The head map: a signed value for each head of each kind, such as how the log-probability changes without it.

import { createButton, element } from '../drawing/dom.js';
import { KINDS } from '../domain/payload.js';
import { showHead } from '../state/actions.js';
import { isMuted } from '../state/queries.js';
import { forPointer, signed } from '../drawing/numbers.js';
import { fullHeadName, kindName } from '../state/labels.js';
import { largest } from '../domain/math.js';
import { headsWith } from '../domain/heads.js';
import { isTaught, taughtName } from '../domain/roles.js';
import { addGridFocus, choiceItem, numberText, tint } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

const LISTED = 5;
const mapHint = () =>
  forPointer(
    say('Point at a head to read its value. Click to choose it.'),
    say('Tap a head to read its value and to choose it.'),
  );

// `values` is { encoder, decoder, cross }, [layer][head] each.
/** @type {(store: Store, state: State, values: ByKind<number[][]>) => Element[]} */
export function headMap(store, state, values) {
  const most = largest(Object.values(values).flat(2));
  const readout = element(
    'p',
    { class: 'hl-soft hl-number hl-map-readout' },
    forPointer('', valueOfChosen(state, values)),
    mapHint(),
  );
  const grids = KINDS.map((kind) => gridOf(store, state, kind, values[kind], most, readout));
  return [...grids, readout, scaleOf(most)];
}

// The heads of the lowest ranks, as buttons that choose them. The rank of a head is its value, unless `rankOf` says otherwise.
/** @type {(store: Store, values: any, rankOf?: (value: number) => number) => HTMLElement} */
export function headList(store, values, rankOf = (value) => value) {
  const ranked = headsWith(values)
    .sort((one, other) => rankOf(one.value) - rankOf(other.value))
    .slice(0, LISTED);
  return element('ol', { class: 'hl-most' }, ...ranked.map((one) => headLine(store, one)));
}

/** @type {(state: { record: TranslationRecord | null }, head: Head) => string} */
function fullName({ record }, head) {
  const name = fullHeadName(head);
  return record && isTaught(record, ...head) ? `${name}, ${taughtName()}` : name;
}

// A finger that has chosen a head reads its value here.
function valueOfChosen(state, values) {
  const { kind, layer, head, selection } = state;
  if (head === null || selection.length > 0) return '';
  return `${valueText(state, [kind, layer, head], values[kind][layer][head])}. `;
}

const valueText = (state, one, value) => say('{head}: {role}', { head: fullName(state, one), role: signed(value) });

function gridOf(store, state, kind, table, most, readout) {
  const heads = table[0].length;
  const cells = table.map((row, layer) =>
    row.map((value, head) => cellOf(store, state, [kind, layer, head], value, most, readout)),
  );
  addGridFocus(cells);
  const rows = cells.map((row, layer) => {
    const number = element('span', { class: 'hl-soft', 'aria-hidden': 'true' }, String(layer + 1));
    return element('div', { role: 'row', class: 'hl-map-row' }, number, ...row);
  });
  const grid = element(
    'div',
    { role: 'grid', class: 'hl-map', 'aria-label': say('{kind} heads', { kind: kindName(kind) }) },
    ...rows,
  );
  grid.style.setProperty('--hl-heads', heads);
  return element('div', {}, element('p', { class: 'hl-soft' }, kindName(kind)), grid);
}

function cellOf(store, state, one, value, most, readout) {
  const [kind, layer, head] = one;
  const text = valueText(state, one, value);
  const showValue = () => readout.replaceChildren(text);
  const chosen = state.selection.length === 0 && kind === state.kind && layer === state.layer && head === state.head;
  const names = { role: 'gridcell', 'aria-label': text, 'aria-selected': String(chosen) };
  const pointAt = forPointer(showValue, null); // a finger may only scroll
  const attributes = { ...names, onpointerenter: pointAt, onfocus: showValue };
  const cell = tint(
    createButton('hl-map-cell', () => store.change(showHead(store.get(), one)), attributes),
    value,
    most,
  );
  cell.classList.toggle('hl-is-muted', isMuted(state, one));
  return cell;
}

const scaleOf = (most) =>
  element(
    'p',
    { class: 'hl-map-scale hl-soft hl-number', 'aria-hidden': 'true' },
    element('span', {}, signed(-most, 2)),
    element('span', { class: 'hl-map-ramp' }),
    element('span', {}, signed(most, 2)),
  );

function headLine(store, { head, value }) {
  const open = () => store.change(showHead(store.get(), head));
  return choiceItem(open, {}, fullName(store.get(), head), numberText(signed(value)));
}
