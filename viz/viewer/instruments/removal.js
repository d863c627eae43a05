// Faithfulness: the probability of a word while the strongest cells of a row are removed.

import { element, visible } from '../drawing/dom.js';
import { fixed } from '../drawing/numbers.js';
import { THRESHOLDS } from '../domain/limits.js';
import { sum } from '../domain/math.js';
import { isMemory } from '../domain/heads.js';
import { axes, targetIds } from '../domain/payload.js';
import { note } from '../drawing/widgets.js';
import { drawChart } from '../drawing/line_chart.js';
import { rowAt, rowText } from '../drawing/names.js';
import { say, sayCount, tell } from '../locales/language.js';

export const removal = {
  name: 'removal',
  panel: 'head',
  title: () => say('Do the weights tell the truth?'),
  doing: () => say('Removing cells of this row'),
  ask: removalOf,
  create: () => ({
    nothing: ({ selection }) =>
      selection.length > 0
        ? say('Choose one head, or all heads of a layer.')
        : say('Choose a source token: its row loses its cells.'),
    draw: ({ record }, { curves, tokens }, { ids, kind, row, step, head }) => {
      const { columns } = axes(record, kind);
      const lines = curves.map(({ name, order, probabilities }) => ({
        name: tell(name),
        ranking: name,
        order,
        points: probabilities.map((value, count) => [count, value]),
      }));
      const last = lines[0].points.length - 1;
      const axis = { first: 0, last, marked: Math.min(1, last), isCount: true, format: (value) => fixed(value) };
      const key = {
        title: (count) => sayCount(count, '{count} cell removed', '{count} cells removed'),
        // The column that was removed last; random is a mean of orders.
        of: ({ order }, count) => (order.length > 0 && count > 0 ? `− ${visible(columns[order[count - 1]])}` : ''),
      };
      const about = {
        word: visible(tokens[ids[step]]),
        row: rowText(rowAt(record, kind, row)),
        count: lines.length,
      };
      return [
        note(
          head === undefined
            ? say(
                'In this sentence: the probability of “{word}” while the strongest cells of the row “{row}” of all heads of this layer are removed, one after the other, ranked in {count} ways.',
                about,
              )
            : say(
                'In this sentence: the probability of “{word}” while the strongest cells of the row “{row}” of this head are removed, one after the other, ranked in {count} ways.',
                about,
              ),
        ),
        element('p', { class: 'hl-verdict' }, verdictOf(lines)),
        drawChart(say('Probability'), lines, { ...axis, key }),
        note(
          say('A ranking tells the truth if its curve falls sooner than the others, and sooner than at random.'),
          ' ',
          say('Value zeroing ranks cells by how far the layer’s output turns when the value of the cell is zero.'),
        ),
      ];
    },
  }),
};

// The row of the matrix that loses its cells: the row of the step, or of the pinned source token.
function removalOf({ record, kind, layer, head, selection, pin, step }) {
  const row = kind === 'encoder' ? (pin?.row ?? null) : step;
  if (row === null || selection.length > 0 || isMemory(record, kind)) return null;
  return { ids: targetIds(record), kind, layer, ...(head === null ? {} : { head }), row, step };
}

// What the curves say about the weights, by the means over all counts of removed cells.
function verdictOf(lines) {
  const [[, start]] = lines[0].points;
  const after = ({ points }) => points.slice(1).map(([, value]) => value);
  const all = lines.flatMap(after);
  const [low, high] = [Math.min(start, ...all), Math.max(start, ...all)];
  const clear = THRESHOLDS.removed * start;
  if (high - low < clear)
    return say('The word hardly depends on these cells: its probability stays between {low} and {high}.', {
      low: fixed(low),
      high: fixed(high),
    });
  const [weight, random] = ['weight', 'random'].map((name) => {
    const values = after(lines.find(({ ranking }) => ranking === name));
    return sum(values) / values.length;
  });
  const means = { weight: fixed(weight), random: fixed(random) };
  return random - weight >= clear
    ? say(
        "The weights tell the truth here: without the cells of the largest weights the word's average probability is {weight}; without as many random cells it is {random}.",
        means,
      )
    : say(
        "The weights say little here: without the cells of the largest weights the word's average probability is {weight}; without as many random cells it is {random}.",
        means,
      );
}
