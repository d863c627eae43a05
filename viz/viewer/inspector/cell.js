// The cell: how one weight comes about, from the query and the key to the softmax and what it contributes.

import { element, tokenText } from '../core/dom.js';
import { axes, isAllowed } from '../core/payload.js';
import { differs, isCell } from '../core/store.js';
import { request, whyNot } from '../core/requests.js';
import { titleOf } from '../core/labels.js';
import {
  figure,
  fixed,
  largest,
  note,
  part,
  plural,
  pressable,
  shareBar,
  signedBar,
  sum,
  tint,
} from '../core/widgets.js';

const LISTED_KEYS = 8; // weights of the row that are listed; the others are summed up

export function createCell(store, ask) {
  const node = element('div');
  const explain = () => askCell(store, ask);
  return {
    node,
    draw(state, before) {
      if (
        !state.record ||
        !differs(state, before, ['record', 'kind', 'layer', 'head', 'selection', 'pin', 'cell', 'busy'])
      )
        return;
      const reason = whyNothing(state, ask);
      const place = placeOf(state);
      const known = isAbout(state.cell, place);
      const moved = state.record !== before.record || !isAbout(placeOf(before), place);
      if (!reason && !known && moved) explain();
      else drawExplained(node, store.get(), { reason, known, explain });
    },
  };
}

// Where the cell is, when one head and one cell that the mask allows are chosen; else null.
function placeOf({ record, kind, layer, head, selection, pin }) {
  const one =
    record && head !== null && selection.length === 0 && isCell(pin) && isAllowed(record, kind, pin.row, pin.column);
  return one ? { kind, layer, head, row: pin.row, column: pin.column } : null;
}

function isAbout(cell, place) {
  return Boolean(cell && place) && Object.keys(place).every((name) => cell[name] === place[name]);
}

async function askCell(store, ask) {
  const place = placeOf(store.get());
  const ids = store.get().record.tokens.predicted.map(({ id }) => id);
  const answer = await request(store, ask, 'cell', { do: 'cell', ids, ...place });
  if (answer) store.change({ cell: { ...answer, ...place } });
}

// Why there is no cell to explain, in one sentence; null when there is one.
function whyNothing(state, ask) {
  if (whyNot(state, ask, 'cell')) return whyNot(state, ask, 'cell');
  if (placeOf(state)) return null;
  if (!isCell(state.pin)) return 'Click a cell of the matrix to see how its weight comes about.';
  if (state.head === null || state.selection.length > 0)
    return 'Several heads together have no query and key of their own; choose one head.';
  return 'The mask forbids this cell: a step must not look at what is not yet written. Its score becomes −∞, so its weight is exactly 0.';
}

// What is drawn stays, paled, until the next cell's numbers arrive.
function drawExplained(node, state, { reason, known, explain }) {
  node.classList.toggle('hl-stale', !reason && !known);
  if (reason) node.replaceChildren(note(reason));
  else if (known) node.replaceChildren(...explanation(state));
  else if (!state.busy) node.replaceChildren(note('This cell has not been read. ', pressable('Explain it', explain)));
}

function explanation(state) {
  const { cell } = state;
  const { rows, reads, columns } = axes(state.record, state.kind);
  const names = { row: rows[cell.row], reads: reads?.[cell.row], column: columns[cell.column] };
  return [
    element(
      'p',
      { class: 'hl-fact hl-role' },
      element('span', {}, tokenText(names.row), ' ← ', tokenText(names.column)),
      figure(fixed(cell.weights[cell.column])),
    ),
    note(titleOf(state)),
    part('Query and key', ...vectors(cell, names)),
    part('From score to weight', steps(cell), ...softmax(cell, columns)),
    part('What it contributes', ...contribution(cell, names)),
  ];
}

function vectors(cell, { row, reads, column }) {
  const { query, key, products } = cell;
  const hint = 'Point at a column to read its numbers.';
  const readout = element('p', { class: 'hl-soft hl-number hl-dimension' }, hint);
  const field = element(
    'div',
    { class: 'hl-vectors', 'aria-hidden': 'true' },
    element('span', { class: 'hl-soft' }, 'query of ', tokenText(reads ?? row)),
    strip(query, largest([...query, ...key])),
    element('span', { class: 'hl-soft' }, 'key of ', tokenText(column)),
    strip(key, largest([...query, ...key])),
    element('span', { class: 'hl-soft' }, 'their products'),
    element('div', { class: 'hl-products' }, ...products.map((value) => signedBar(value, largest(products)))),
  );
  field.addEventListener('pointermove', (event) => {
    const box = field.getBoundingClientRect();
    const at = Math.min(
      query.length - 1,
      Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * query.length)),
    );
    readout.textContent = `${at + 1} of ${query.length}: ${productText(cell, at)}`;
  });
  field.addEventListener('pointerleave', () => {
    readout.textContent = hint;
  });
  return [field, readout, allNumbers(cell)];
}

function strip(values, most) {
  return element('div', { class: 'hl-vector' }, ...values.map((value) => tint(element('span'), value, most)));
}

function productText({ query, key, products }, at) {
  return `${fixed(query[at])} × ${fixed(key[at])} = ${fixed(products[at])}`;
}

function allNumbers(cell) {
  const list = element('ol', { class: 'hl-soft hl-number hl-all-numbers' });
  const fill = () => list.replaceChildren(...cell.query.map((_, at) => element('li', {}, productText(cell, at))));
  return element('details', { ontoggle: fill }, element('summary', { class: 'hl-soft' }, 'All numbers'), list);
}

function steps({ query, products, scale, score, weights, scores, column }) {
  const allowed = scores.filter((one) => one !== null).length;
  const lines = [
    ['sum of the products', fixed(sum(products))],
    [`× 1/√${query.length} = ${fixed(scale)}`, fixed(score)],
    ['mask', `allows ${allowed} of ${plural(scores.length, 'key')}`],
    ['softmax over the row', fixed(weights[column])],
  ];
  return element(
    'dl',
    { class: 'hl-sum' },
    ...lines.flatMap(([name, value]) => [element('dt', {}, name), element('dd', { class: 'hl-number' }, value)]),
  );
}

// The row's largest weights, this cell always among them.
function softmax({ scores, weights, column }, columns) {
  const allowed = [...weights.keys()].filter((at) => scores[at] !== null);
  const ranked = allowed.sort((one, other) => weights[other] - weights[one]);
  const shown = new Set([...ranked.slice(0, LISTED_KEYS), column]);
  const rest = ranked.filter((at) => !shown.has(at));
  const list = element(
    'ol',
    { class: 'hl-softmax' },
    element(
      'li',
      { class: 'hl-soft', 'aria-hidden': 'true' },
      element('span', {}, 'key'),
      element('span', {}),
      figure('score'),
      figure('weight'),
    ),
    ...ranked
      .filter((at) => shown.has(at))
      .map((at) =>
        element(
          'li',
          { class: at === column ? 'hl-this' : null },
          tokenText(columns[at]),
          shareBar(weights[at]),
          figure(fixed(scores[at], 2)),
          figure(fixed(weights[at])),
        ),
      ),
  );
  if (rest.length === 0) return [list];
  return [
    list,
    note(
      `and ${plural(rest.length, 'more key', 'more keys')} with ${fixed(sum(rest.map((at) => weights[at])))} together`,
    ),
  ];
}

function contribution({ norm, row_norms: norms }, { column }) {
  const total = sum(norms);
  return [
    element('p', { class: 'hl-fact' }, element('span', {}, 'its norm, ‖weight × f(x)‖'), figure(fixed(norm))),
    element(
      'p',
      { class: 'hl-fact' },
      element('span', {}, `of ${fixed(total)} in the row`),
      figure(`${fixed((100 * norm) / (total || 1), 1)} %`),
    ),
    note(
      'f(x) is the value that this head reads at ',
      tokenText(column),
      ', taken to the width of the model (Kobayashi et al. 2020).',
    ),
  ];
}
