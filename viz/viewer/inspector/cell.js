// The panel Cell: how one weight is computed, from the query and the key to the softmax, and what it contributes.

import { element, readUnderPointer, replaceKeepingFocus, tokenText } from '../drawing/dom.js';
import { isMemory } from '../domain/heads.js';
import { axes, isAllowed } from '../domain/payload.js';
import { gridFocus, shownGrid } from '../state/grid.js';
import { PINNED, differs, isCell, isExplained, pinnedCell, placesOfPin } from '../state/queries.js';
import { askCell } from '../transport/effects.js';
import { refusalIn, whyNot } from '../transport/requests.js';
import { clamp, largest, sum } from '../domain/math.js';
import { fixed, forPointer } from '../drawing/numbers.js';
import { titleOfHeads } from '../state/labels.js';
import { fact, note, numberText, offer, scaleNote, section, shareBar, signedBar, tint } from '../drawing/widgets.js';
import { cellName, rowAt, rowName } from '../drawing/names.js';
import { createQuestion } from '../instruments/question.js';
import { scoreSplit } from '../instruments/score_split.js';
import { writing } from '../instruments/writing.js';
import { readersOf } from './rankings.js';
import { weight } from '../values/weight.js';
import { say, sayCount, sayParts } from '../locales/language.js';

const LISTED_KEYS = 8; // largest weights of the row that are listed; the others are added up

export function createCell(client) {
  const parts = { title: element('div'), rest: element('div') };
  const questions = [scoreSplit, writing].map((one) => createQuestion(client, one));
  const asked = element('div');
  return {
    node: element('div', {}, parts.title, asked, parts.rest),
    draw(state, before) {
      const shown = [...PINNED, 'cell', 'busy', 'hideSpecials', 'valueName'];
      if (differs(state, before, shown)) drawCell(client, parts, state);
      const isAsked = pinnedCell(state) !== null;
      if (isAsked !== asked.hasChildNodes())
        asked.replaceChildren(...(isAsked ? questions.map(({ node }) => node) : []));
      for (const question of questions) question.draw(state, before);
    },
  };
}

// The previous cell stays, in pale colours, until the answer about the next one arrives.
function drawCell(client, { title, rest }, state) {
  const reason = whyNoCell(client, state);
  const known = isExplained(state);
  for (const node of [title, rest]) node.classList.toggle('hl-stale', !reason && !known);
  const readers = readersOfPin(client.store, state);
  if (!reason && !known && state.busy) return;
  replaceKeepingFocus(rest, ...(known && !reason ? explanation(state) : []), ...readers);
  if (reason) title.replaceChildren(note(refusalIn(client, reason)));
  else if (known) title.replaceChildren(...titleOfCell(state));
  else title.replaceChildren(offer(say('This cell is not explained yet.'), say('Explain it'), () => askCell(client)));
}

// The heads that read the pinned cell, also where no explanation can be asked for; none for a cell that the mask forbids.
function readersOfPin(store, state) {
  const { record, kind, pin } = state;
  if (!isCell(pin) || !isAllowed(record, kind, pin.row, pin.column)) return [];
  return [readersOf(store, state)];
}

// Why there is no cell to explain, in one sentence; null if there is one.
function whyNoCell(client, state) {
  const reason = whyNot(client, 'cell');
  if (reason || pinnedCell(state)) return reason;
  if (isMemory(state.record, state.kind))
    return say(
      'This decoder has no self-attention; it keeps a running memory. So there is no query and no key, and no reason why it looks somewhere.',
    );
  if (!isCell(state.pin))
    return forPointer(
      say('Click a cell of the matrix to see how its weight is computed.'),
      say('Tap a cell of the matrix to see how its weight is computed.'),
    );
  if (state.head === null || state.selection.length > 0)
    return say('Several heads together have no common query and key; choose one head.');
  return say(
    'The mask forbids this cell: a step cannot look at later tokens. Its score is −∞, so its weight is exactly 0.',
  );
}

function titleOfCell(state) {
  const { cell } = state;
  const { row, column } = namesOf(state);
  const link = element('span', {}, ...cellName(row, column));
  const number = numberText(`${weight.label()} ${fixed(cell.weights[cell.column])}`);
  return [element('p', { class: 'hl-fact hl-role' }, link, number), note(titleOfHeads(state)), ...remarkOf(state)];
}

// How this weight differs from the number in the matrix, which can show whole words and leave out special tokens.
function remarkOf(state) {
  const { rows, columns } = placesOfPin(state);
  const grid = shownGrid(state);
  const { row, column } = gridFocus(state, state.pin);
  const isWeight = grid.value === weight && row !== null && column !== null;
  const remarks = [
    rows.length * columns.length > 1 &&
      say('The matrix shows whole words; explained here is the strongest pair of pieces of these two.'),
    state.hideSpecials && isWeight && say('The matrix leaves out special tokens and scales up the others.'),
  ].filter(Boolean);
  if (remarks.length === 0) return [];
  if (isWeight)
    remarks.push(say('There, this cell has {value}.', { value: fixed(grid.values[row * grid.columns + column]) }));
  return [note(remarks.join(' '))];
}

// As the matrix names them.
function namesOf(state) {
  const { cell, record, kind } = state;
  return { row: rowAt(record, kind, cell.row), column: axes(record, kind).columns[cell.column] };
}

function explanation(state) {
  const { cell } = state;
  const { columns } = axes(state.record, state.kind);
  const names = namesOf(state);
  return [
    section(say('Query and key'), ...vectors(cell, names)),
    section(say('From score to weight'), steps(cell), ...softmax(cell, columns)),
    section(say('What it contributes'), ...contribution(cell, names)),
  ];
}

function vectors(cell, { row, column }) {
  const { query, key, products } = cell;
  const hint = forPointer(say('Point at a column to read its numbers.'), say('Tap a column to read its numbers.'));
  const readout = element('p', { class: 'hl-soft hl-number hl-dimension' }, hint);
  const field = element(
    'div',
    { class: 'hl-vectors', 'aria-hidden': 'true' },
    element(
      'span',
      { class: 'hl-soft' },
      ...sayParts('query of the row {row}', { row: element('span', {}, ...rowName(row)) }),
    ),
    strip(query, largest([...query, ...key])),
    element('span', { class: 'hl-soft' }, ...sayParts('key of the column {token}', { token: tokenText(column) })),
    strip(key, largest([...query, ...key])),
    element('span', { class: 'hl-soft' }, say('their products')),
    element('div', { class: 'hl-products' }, ...products.map((value) => signedBar(value, largest(products)))),
  );
  const read = (event) => {
    const box = field.getBoundingClientRect();
    const at = clamp(Math.floor(((event.clientX - box.left) / box.width) * query.length), query.length);
    readout.textContent = say('{number} of {count}: {product}', {
      number: at + 1,
      count: query.length,
      product: productText(cell, at),
    });
  };
  const forget = () => {
    readout.textContent = hint;
  };
  readUnderPointer(field, read, forget);
  return [field, readout, scaleNote(largest(products)), allNumbers(cell)];
}

const strip = (values, most) =>
  element('div', { class: 'hl-vector' }, ...values.map((value) => tint(element('span'), value, most)));

const productText = ({ query, key, products }, at) =>
  `${fixed(query[at])} × ${fixed(key[at])} = ${fixed(products[at])}`;

function allNumbers(cell) {
  const list = element('ol', { class: 'hl-soft hl-number hl-all-numbers' });
  const fill = () => list.replaceChildren(...cell.query.map((_, at) => element('li', {}, productText(cell, at))));
  return element('details', { ontoggle: fill }, element('summary', { class: 'hl-soft' }, say('All numbers')), list);
}

// `bias` is the bias of the relative position, which models of T5 have.
function steps({ query, products, scale, bias, score, weights, scores, column }) {
  const allowed = scores.filter((one) => one !== null).length;
  const lines = [
    [say('sum of the products'), fixed(sum(products))],
    [`× 1/√${query.length} = ${fixed(scale)}`, fixed(score - (bias || 0))],
    ...(bias ? [[say('+ bias of the relative position'), fixed(bias)]] : []),
    ...(bias ? [[say('score'), fixed(score)]] : []),
    [
      say('mask'),
      sayCount(scores.length, 'allows {allowed} of {count} key', 'allows {allowed} of {count} keys', { allowed }),
    ],
    [say('softmax over the row'), fixed(weights[column])],
  ];
  return element(
    'dl',
    { class: 'hl-sum' },
    ...lines.flatMap(([name, value]) => [element('dt', {}, name), element('dd', { class: 'hl-number' }, value)]),
  );
}

// The largest weights of the row, always with this cell.
function softmax({ scores, weights, column }, columns) {
  const allowed = [...weights.keys()].filter((at) => scores[at] !== null);
  const ranked = allowed.sort((one, other) => weights[other] - weights[one]);
  const shown = new Set([...ranked.slice(0, LISTED_KEYS), column]);
  const rest = ranked.filter((at) => !shown.has(at));
  const line = (className, ...pieces) => element('li', { class: className }, ...pieces);
  const names = [
    element('span', {}, say('key')),
    element('span', {}),
    numberText(say('score')),
    numberText(say('weight')),
  ];
  const lines = ranked
    .filter((at) => shown.has(at))
    .map((at) => {
      const numbers = [numberText(fixed(scores[at], 2)), numberText(fixed(weights[at]))];
      return line(at === column ? 'hl-this' : null, tokenText(columns[at]), shareBar(weights[at]), ...numbers);
    });
  const list = element('ol', { class: 'hl-softmax' }, line('hl-soft', ...names), ...lines);
  if (rest.length === 0) return [list];
  const others = fixed(sum(rest.map((at) => weights[at])));
  const more = { others };
  return [
    list,
    note(
      sayCount(
        rest.length,
        'and {count} more key with {others} together',
        'and {count} more keys with {others} together',
        more,
      ),
    ),
  ];
}

function contribution({ norm, row_norms: norms }, { column }) {
  const total = sum(norms);
  return [
    fact(say('norm of weight × f(x)'), fixed(norm)),
    fact(
      say('share of the row’s total, {total}', { total: fixed(total) }),
      say('{share} %', { share: fixed((100 * norm) / (total || 1), 1) }),
    ),
    note(
      ...sayParts('f(x) is the value vector at {token} after the output projection (Kobayashi et al. 2020).', {
        token: tokenText(column),
      }),
    ),
  ];
}
