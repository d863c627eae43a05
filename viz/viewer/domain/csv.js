// Tables of one head as comma-separated values (RFC 4180).

import { SCALE, axes, codeAt } from './payload.js';

/** @type {(rows: (string | number)[][]) => string} */
export const csvText = (rows) => rows.map((row) => `${row.map(field).join(',')}\r\n`).join('');

const field = (value) => (typeof value === 'number' ? String(value) : `"${value.replaceAll('"', '""')}"`);

/** @type {(record: TranslationRecord, head: Head) => (string | number)[][]} */
export function sentenceRows(record, [kind, layer, head]) {
  const { rows, columns, reads } = axes(record, kind);
  const { scale } = record.attention[kind];
  const weight = (row, column) =>
    Number(((codeAt(record, kind, [layer, head, row, column]) / SCALE) * scale).toFixed(4));
  return [
    ['row', 'column', 'row_token', 'row_reads', 'column_token', 'weight'],
    ...rows.flatMap((token, row) =>
      columns.map((key, column) => [
        row + 1,
        column + 1,
        token.text,
        reads?.[row].text ?? '',
        key.text,
        weight(row, column),
      ]),
    ),
  ];
}

// The card of a head over the corpus: one figure or one sentence a line.
/** @type {(card: any, sentences: string[]) => (string | number)[][]} */
export function cardRows({ nearest, explained, distances, largest, entropies, to, from, intervals }, sentences) {
  const counted = (name, counts, nameOf) => counts.map((count, place) => [name, nameOf(place), count, '', '']);
  return [
    ['figure', 'of', 'value', 'more', 'sentence'],
    ['role', nearest[0], nearest[1], '', ''],
    ['explained', nearest[0], explained ?? '', '', ''],
    ...counted('distance', distances, (place) => String(place - 5)),
    ...counted('largest weight', largest, (place) => String(place / 10)),
    ...counted('entropy', entropies, (place) => String(place / 10)),
    ...to.map(([word, share, times]) => ['attends to', word, share, times, '']),
    ...from.map(([word, mean, rows]) => ['attends from', word, mean, rows, '']),
    ...intervals.flatMap(([rows, cells], place) => [
      ['interval', String(intervals.length - place), rows, '', ''],
      ...cells.map(([sentence, row, column, weight, key, token]) => [
        'row',
        `${token} ← ${key}`,
        weight,
        `${row + 1}:${column + 1}`,
        sentences[sentence],
      ]),
    ]),
  ];
}
