// The curves of the trainings, and what they write right by the letters of a word.

import { drawChart } from '../drawing/line_chart.js';
import { fixed } from '../drawing/numbers.js';
import { say } from '../locales/language.js';

const MOST_LENGTHS = 10; // a task with more of them has too few words of each

// `frames` are all frames, `shown` is the frame on screen; a frame has a part for each training, `names` their names.
/** @type {(frames: Frame[][], shown: Frame[], names: string[]) => Element[]} */
export function chartsOf(frames, shown, names) {
  const last = frames[frames.length - 1][0].steps;
  if (last === 0) return [];
  const measured = frames.filter(([{ loss }]) => loss !== null);
  /** @type {(title: string, valueOf: (frame: Frame) => number | null, digits: number, range?: number[] | null) => Element} */
  const chart = (title, valueOf, digits, range = null) => {
    const points = (side) => measured.map((each) => [each[side].steps, valueOf(each[side])]);
    const lines = names.map((name, side) => ({ name, points: points(side) }));
    const format = (value) => fixed(value, digits);
    return drawChart(title, lines, { first: 0, last, marked: shown[0].steps, range, format });
  };
  return [
    chart(say('Loss'), ({ loss }) => loss, 2),
    chart(say('Unseen words right, %'), ({ share }) => 100 * share, 0, [0, 100]),
    ...chartOfLengths(shown, names),
  ];
}

/** @type {(shown: Frame[], names: string[]) => Element[]} */
function chartOfLengths(shown, names) {
  const letters = shown[0].lengths.map(([count]) => count);
  const [first, last] = [Math.min(...letters), Math.max(...letters)];
  if (first >= last || last - first > MOST_LENGTHS) return [];
  const lines = names.map((name, side) => ({
    name,
    points: shown[side].lengths.map(([count, share]) => [count, 100 * share]),
  }));
  const at = (count, values) => say('{count} letters: {values}', { count, values });
  const how = { first, last, marked: last, range: [0, 100], isCount: true, at, format: (value) => fixed(value, 0) };
  return [drawChart(say('Unseen words right by letters, %'), lines, how)];
}
