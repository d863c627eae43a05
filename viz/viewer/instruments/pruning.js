// How many heads can go: what removed heads cost over the corpus without training, from training/evaluation/removal.py.

import { element } from '../drawing/dom.js';
import { drawChart } from '../drawing/line_chart.js';
import { fixed } from '../drawing/numbers.js';
import { actionButton, actions, choiceTabs, note, scrollToTop } from '../drawing/widgets.js';
import { kindName, listOf } from '../state/labels.js';
import { aboutModel } from '../state/queries.js';
import { KINDS } from '../domain/payload.js';
import { say, sayCount } from '../locales/language.js';

const nobody = () => say('Nobody has measured this for the model; python -m training study does.');

export const pruning = {
  name: 'pruning',
  panel: 'mute',
  title: () => say('How many heads can go?'),
  doing: () => say('Reading what removed heads cost'),
  ask: (state) => (aboutModel(state).study ? { do: 'corpus' } : null),
  create(store) {
    const chosen = { group: 'all', point: 1 }; // what this panel shows
    const node = element('div');
    const draw = (removal) => node.replaceChildren(...answerOf(store, removal, chosen, () => draw(removal)));
    return {
      nothing: nobody,
      draw(_state, { removal }) {
        if (!removal) return [note(nobody())];
        draw(removal);
        return [node];
      },
    };
  },
};

function answerOf(store, removal, chosen, again) {
  const { heads, points } = removal.curves[chosen.group];
  const choose = (changes) => {
    Object.assign(chosen, changes);
    again();
  };
  chosen.point = Math.min(chosen.point, points.length - 1);
  const gone = heads.slice(0, points[chosen.point][0]);
  const mute = ({ target }) => {
    const panel = target.closest('[role=tabpanel]'); // before the change, which draws this button anew
    store.change({ mutes: gone });
    scrollToTop(panel.querySelector('.hl-outcome'));
  };
  return [
    choiceTabs(say('Heads'), groups(), chosen.group, (group) => choose({ group })),
    curveOf(removal, points, chosen.point),
    sliderOf(points, chosen.point, (point) => choose({ point })),
    element('p', { class: 'hl-verdict' }, costText(removal, points, chosen.point)),
    ...KINDS.map((kind) => ({ kind, own: gone.filter(([of]) => of === kind) }))
      .filter(({ own }) => own.length > 0)
      .map(({ kind, own }) => note(`${kindName(kind)}: ${listOf(own)}`)),
    actions(actionButton(say('Mute them in this sentence'), mute, { disabled: gone.length === 0 })),
    note(
      say(
        'Each round removes a fifth of the heads that are left, at most six: those whose removal alone costs {choosing} development sentences least. The cost is measured on {reporting} others. Nothing is trained afterwards: models that are trained while heads are removed lose far fewer points (Voita et al. 2019).',
        { choosing: removal.choosing, reporting: removal.reporting },
      ),
      ' ',
      say('With so few sentences a difference of two or three points can be noise.'),
    ),
  ];
}

/** @type {() => [string, string][]} */
const groups = () => [
  ['all', say('All')],
  ...KINDS.map((kind) => /** @type {[string, string]} */ ([kind, kindName(kind)])),
];

const removedText = (count) => sayCount(count, '{count} head removed', '{count} heads removed');

function curveOf({ score }, points, point) {
  const last = points.at(-1)[0];
  const line = { name: score, points: points.map(([step, , , value]) => [step, value]) };
  const name = sayCount(last, '{score} with up to {count} head removed', '{score} with up to {count} heads removed', {
    score,
  });
  const key = { title: removedText, of: () => '' };
  const axis = { first: 0, last, marked: points[point][0], isCount: true };
  return drawChart(score, [line], { ...axis, name, format: (value) => fixed(value, 1), key });
}

const sliderOf = (points, point, choose) =>
  element('input', {
    type: 'range',
    class: 'hl-slider',
    min: 0,
    max: points.length - 1,
    value: point,
    'aria-label': say('Heads removed'),
    'aria-valuetext': removedText(points[point][0]),
    onchange: ({ target }) => choose(Number(target.value)),
  });

function costText({ score }, points, point) {
  const [count, zero, mean, value] = points[point];
  return sayCount(
    count,
    'Without {count} head: {score} {value} instead of {intact}; a token of the reference loses {zero} nats, or {mean} if the head gives its mean.',
    'Without {count} heads: {score} {value} instead of {intact}; a token of the reference loses {zero} nats, or {mean} if the heads give their means.',
    {
      score,
      value: fixed(value, 1),
      intact: fixed(points[0][3], 1),
      zero: fixed(zero, 3),
      mean: fixed(mean, 3),
    },
  );
}
