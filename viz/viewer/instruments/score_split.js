// Why a head looks at a token: splits the score of the pinned cell into pairs of a part of the query and a part of the key.

import { ofPinnedCell } from '../state/questions.js';
import { createButton, element } from '../drawing/dom.js';
import { fixed, forPointer, signed } from '../drawing/numbers.js';
import { kindName } from '../state/labels.js';
import { largest, sum } from '../domain/math.js';
import { addGridFocus, fact, note, sayNote, signedLine, tint } from '../drawing/widgets.js';
import { say, tell } from '../locales/language.js';

const LISTED = 5; // pairs of single parts

export const scoreSplit = {
  name: 'score_split',
  panel: 'cell',
  title: () => say('Why does it look there?'),
  doing: () => say('Splitting the score'),
  ask: ofPinnedCell,
  create: () => ({
    draw: (_, { score, bias, query_parts: queries, key_parts: keys, matrix }) => {
      const [rows, columns] = [groupsOf(queries), groupsOf(keys)];
      const values = rows.map(({ places }) =>
        columns.map((column) => sum(places.flatMap((row) => column.places.map((at) => matrix[row][at])))),
      );
      const names = (groups) => groups.map(({ name }) => name);
      return [
        note(
          bias
            ? say('In this sentence: rows are what wrote the query, columns what wrote the key.')
            : say(
                'In this sentence: rows are what wrote the query, columns what wrote the key. All cells add up to the score.',
              ),
        ),
        ...smallMatrix({ label: say('Parts of the score'), rows: names(rows), columns: names(columns), values }),
        ...(bias ? [fact(say('sum of all cells'), fixed(score - bias))] : []),
        ...(bias ? [fact(say('+ bias of the relative position'), fixed(bias))] : []),
        fact(bias ? say('score') : say('score, the sum of all cells'), fixed(score)),
        element('h4', {}, say('The strongest pairs, query × key')),
        sayNote('Here each head counts by itself; above, the heads of a layer are one line.'),
        strongestPairs(queries, keys, matrix),
      ];
    },
  }),
};

// The heads of one layer are one line of the matrix.
function groupsOf(parts) {
  const groups = [];
  parts.forEach((part, place) => {
    const name = groupName(part);
    const last = groups.at(-1);
    if (last?.name === name) last.places.push(place);
    else groups.push({ name, places: [place] });
  });
  return groups;
}

function groupName({ name, kind, layer }) {
  if (name === 'head') return `${kindName(kind)} ${layer + 1}`;
  if (name === 'feed forward') return say('Feed-fwd {layer}', { layer: layer + 1 });
  return name === 'bias' ? say('biases') : tell(name);
}

const partName = (part) => (part.name === 'head' ? `${groupName(part)}.${part.head + 1}` : groupName(part));

function strongestPairs(queries, keys, matrix) {
  const pairs = matrix.flatMap((line, row) => line.map((value, column) => ({ row, column, value })));
  const ranked = pairs.sort((one, other) => Math.abs(other.value) - Math.abs(one.value)).slice(0, LISTED);
  const most = largest(ranked.map(({ value }) => value));
  const lines = ranked.map(({ row, column, value }) =>
    signedLine(`${partName(queries[row])} × ${partName(keys[column])}`, value, most),
  );
  return element('ol', { class: 'hl-shares', 'aria-label': say('Strongest pairs') }, ...lines);
}

const hint = () => forPointer(say('Point at a cell to read its value.'), say('Tap a cell to read its value.'));

// `values` is [row][column]. Returns its elements: the matrix and the line that reads a cell.
/** @type {(matrix: { label: string; rows: string[]; columns: string[]; values: number[][] }) => Element[]} */
function smallMatrix({ label, rows, columns, values }) {
  const most = largest(values.flat());
  const readout = element('p', { class: 'hl-soft hl-number hl-map-readout' }, hint());
  const cells = values.map((line, row) => line.map((value, column) => cellOf(rows[row], columns[column], value)));
  for (const cell of cells.flat()) tint(cell, Number(cell.dataset.value), most);
  const read = ({ target }) => {
    const cell = target.closest?.('.hl-map-cell');
    if (cell) readout.textContent = cell.getAttribute('aria-label');
  };
  addGridFocus(cells);
  const names = columns.map((name) => element('th', { scope: 'col' }, element('span', {}, name)));
  const lines = cells.map((line, row) =>
    element('tr', {}, element('th', { scope: 'row' }, rows[row]), ...line.map((cell) => element('td', {}, cell))),
  );
  const table = element(
    'table',
    { class: 'hl-small-matrix', 'aria-label': label, onpointerover: read, onfocusin: read, onclick: read },
    element('thead', {}, element('tr', {}, element('td'), ...names)),
    element('tbody', {}, ...lines),
  );
  return [element('div', { class: 'hl-scroll' }, table), readout];
}

function cellOf(row, column, value) {
  const attributes = { 'aria-label': `${row} × ${column}: ${signed(value)}`, 'data-value': value };
  return createButton('hl-map-cell', null, attributes);
}
