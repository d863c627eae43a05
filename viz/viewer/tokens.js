// The strip: the translation, source tokens above, target tokens below, and arcs for the selected head.

import { element, shape, tokenText, visible } from './dom.js';
import { isAllowed, matrixOf } from './payload.js';
import { rowOf, strongest, valueAt } from './measures.js';
import { palette, stepOf } from './colour.js';
import { focusOf, isCell, placeOfColumn, placeOfRow, sameSpot, selectionChanged, spotOfToken, togglePin } from './state.js';

const FAINT = 0.1; // an arc is drawn from this weight on, and always for the strongest of a row

export function createStrip(store) {
  const text = element('p', { class: 'hl-translation', dir: 'auto' });
  const facts = element('p', { class: 'hl-soft' });
  const notices = element('div', { class: 'hl-notices' });
  const chips = { source: element('div', { class: 'hl-chips' }), target: element('div', { class: 'hl-chips' }) };
  const arcs = shape('svg', { class: 'hl-arcs', 'aria-hidden': 'true' });
  const body = element(
    'div',
    { class: 'hl-strip-body' },
    element('span', { class: 'hl-strip-label hl-soft' }, 'source'),
    chips.source,
    element('span', { class: 'hl-strip-label hl-soft' }, 'translation'),
    chips.target,
    arcs,
  );
  const node = element(
    'section',
    { class: 'hl-panel hl-strip', 'aria-label': 'Tokens' },
    element('div', { class: 'hl-result' }, text, facts),
    notices,
    element('div', { class: 'hl-scroll hl-strip-scroll' }, body),
  );
  const parts = { store, text, facts, notices, chips, arcs, body, drawn: [] };
  listen(parts);
  new ResizeObserver(() => drawArcs(parts, store.get())).observe(body);
  store.subscribe((state, before) => renderStrip(parts, state, before));
  return node;
}

function renderStrip(parts, state, before) {
  if (!state.record) return;
  if (state.record !== before.record || state.theme !== before.theme) drawTokens(parts, state);
  if (selectionChanged(state, before)) drawArcs(parts, state);
  else if (!sameSpot(focusOf(state), focusOf(before)) || state.pin !== before.pin) lightStrip(parts, state);
}

function drawTokens({ text, facts, notices, chips }, { record, theme }) {
  const { source, read, predicted } = record.tokens;
  text.textContent = record.text === '' ? '(nothing)' : record.text;
  facts.textContent = factsOf(record);
  notices.replaceChildren(...record.notices.map((notice) => element('p', {}, notice)));
  chips.source.replaceChildren(...source.map((token, place) => chip('source', place, token)));
  const colours = palette(theme).css;
  const targets = predicted.map((token, step) => {
    const probability = Math.exp(record.log_probabilities[step]);
    return chip('target', step + 1, token, probability, colours[stepOf(probability)]);
  });
  chips.target.replaceChildren(chip('target', 0, read[0]), ...targets);
}

function factsOf(record) {
  const total = record.log_probabilities.reduce((sum, value) => sum + value, 0);
  const facts = [`log p ${total.toFixed(2).replace('-', '−')}`];
  const time = Object.values(record.timings).reduce((sum, value) => sum + value, 0);
  if (time > 0) facts.push(`${time.toFixed(0)} ms`);
  return facts.join(' · ');
}

function chip(side, place, token, probability = null, colour = null) {
  const label = visible(token) + (probability === null ? '' : `, probability ${probability.toFixed(4)}`);
  const button = element(
    'button',
    { type: 'button', class: 'hl-chip', tabindex: '-1', 'data-side': side, 'data-place': place, 'aria-label': label },
    tokenText(token),
  );
  if (side === 'target' && place === 0) button.classList.add('hl-chip-start');
  if (colour) button.style.setProperty('--hl-chance', colour);
  return button;
}

function listen({ store, body }) {
  const spotAt = (event) => {
    const button = event.target.closest('.hl-chip');
    return button && spotOfToken(store.get(), button.dataset.side, Number(button.dataset.place));
  };
  body.addEventListener('pointerover', (event) => {
    if (event.pointerType !== 'touch' && store.get().record) store.change({ hover: spotAt(event) });
  });
  body.addEventListener('pointerleave', () => store.change({ hover: null }));
  body.addEventListener('click', (event) => {
    const spot = store.get().record && spotAt(event);
    if (spot) store.change(togglePin(store.get(), spot));
  });
}

function drawArcs(parts, state) {
  if (!state.record) return;
  const { arcs, body } = parts;
  arcs.setAttribute('width', body.offsetWidth);
  arcs.setAttribute('height', body.offsetHeight);
  const matrix = matrixOf(state.record, state.kind, state.layer, state.head);
  const spots = anchors(parts);
  Object.assign(parts, { matrix, spots });
  parts.drawn = [];
  for (let row = 0; row < matrix.rows; row += 1) {
    const weights = rowOf(matrix, row);
    const best = strongest(weights);
    for (let column = 0; column < matrix.columns; column += 1) {
      if (weights[column] < FAINT && column !== best) continue;
      parts.drawn.push({ row, column, path: arc(spots, state.kind, row, column, weights[column]) });
    }
  }
  arcs.replaceChildren(...parts.drawn.map(({ path }) => path));
  lightStrip(parts, state);
}

// Where arcs touch each chip: below the source, above the target.
function anchors({ chips, body }) {
  const origin = body.getBoundingClientRect();
  const touch = (side, edge) =>
    [...chips[side].children].map((button) => {
      const box = button.getBoundingClientRect();
      return { x: box.left + box.width / 2 - origin.left, y: box[edge] - origin.top };
    });
  return { source: touch('source', 'bottom'), target: touch('target', 'top') };
}

function arc(spots, kind, row, column, weight) {
  const from = placeOfColumn(kind, column);
  const to = placeOfRow(kind, row);
  const path = curve(spots[from.side][from.place], spots[to.side][to.place], kind);
  return shape('path', { d: path, 'stroke-width': 0.5 + 4.5 * weight, 'stroke-opacity': 0.15 + 0.7 * weight });
}

function curve(from, to, kind) {
  if (kind === 'cross') {
    const middle = (from.y + to.y) / 2;
    return `M${from.x} ${from.y}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`;
  }
  const outwards = kind === 'encoder' ? 1 : -1;
  const spread = from.x === to.x ? 7 : 0;
  const depth = outwards * Math.min(60, 16 + 0.22 * Math.abs(from.x - to.x));
  const [left, right] = [from.x - spread, to.x + spread];
  return `M${left} ${from.y}C${left} ${from.y + depth} ${right} ${to.y + depth} ${right} ${to.y}`;
}

function lightStrip(parts, state) {
  const { chips, arcs, drawn } = parts;
  const focus = focusOf(state);
  const places = focus ? [placeOfRow(state.kind, focus.row), placeOfColumn(state.kind, focus.column)] : [];
  for (const side of ['source', 'target']) {
    const lit = new Set(places.filter((one) => one?.side === side).map((one) => one.place));
    [...chips[side].children].forEach((button, place) => button.classList.toggle('hl-lit', lit.has(place)));
  }
  arcs.classList.toggle('hl-has-focus', Boolean(focus));
  for (const { row, column, path } of drawn) path.classList.toggle('hl-lit', touches(focus, row, column));
  lightFaint(parts, state, focus);
}

// A cell in focus has its arc even where the weight is too small to be drawn otherwise.
function lightFaint(parts, state, focus) {
  parts.faint?.remove();
  parts.faint = null;
  if (!isCell(focus) || !isAllowed(state.record, state.kind, focus.row, focus.column)) return;
  if (parts.drawn.some(({ row, column }) => row === focus.row && column === focus.column)) return;
  parts.faint = arc(parts.spots, state.kind, focus.row, focus.column, valueAt(parts.matrix, focus.row, focus.column));
  parts.faint.classList.add('hl-lit');
  parts.arcs.append(parts.faint);
}

// A cell lights its own arc; a row or a column lights all of its arcs.
function touches(focus, row, column) {
  if (!focus) return false;
  const [inRow, inColumn] = [focus.row === row, focus.column === column];
  if (focus.token) return inRow || inColumn;
  return (focus.row === null || inRow) && (focus.column === null || inColumn);
}
