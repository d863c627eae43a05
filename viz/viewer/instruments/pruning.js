// How many heads can go: what removed heads cost over the corpus without training, from training/evaluation/removal.py.

import { element } from '../drawing/dom.js';
import { drawChart } from '../drawing/line_chart.js';
import { fixed } from '../drawing/numbers.js';
import { actionButton, actions, note, scrollToTop, tabs } from '../drawing/widgets.js';
import { kindName, listOf } from '../state/labels.js';
import { aboutModel } from '../state/queries.js';
import { KINDS } from '../domain/payload.js';
import { say, sayCount } from '../locales/language.js';

const GROUPS = ['all', ...KINDS];

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
      nothing: () => say('Nobody has measured this for the model; python -m training study does.'),
      draw(_state, { removal }) {
        if (!removal) return [note(say('Nobody has measured this for the model; python -m training study does.'))];
        draw(removal);
        return [node];
      },
    };
  },
};

function answerOf(store, removal, chosen, again) {
  const { heads, points } = removal.curves[chosen.group];
  const choose = (changes) => () => {
    Object.assign(chosen, changes);
    again();
  };
  chosen.point = Math.min(chosen.point, points.length - 1);
  const [count, zero, mean, score] = points[chosen.point];
  const gone = heads.slice(0, count);
  const names = {
    all: say('All'),
    encoder: kindName('encoder'),
    decoder: kindName('decoder'),
    cross: kindName('cross'),
  };
  const groups = GROUPS.map((group) =>
    actionButton(names[group], choose({ group }), { 'aria-pressed': String(group === chosen.group) }),
  );
  const slider = element('input', {
    type: 'range',
    class: 'hl-slider',
    min: 0,
    max: points.length - 1,
    value: chosen.point,
    'aria-label': say('Heads removed'),
    'aria-valuetext': sayCount(count, '{count} head removed', '{count} heads removed'),
    onchange: ({ target }) => choose({ point: Number(target.value) })(),
  });
  const scores = { name: removal.score, points: points.map(([step, , , value]) => [step, value]) };
  const mute = ({ target }) => {
    const panel = target.closest('[role=tabpanel]'); // before the change, which draws this button anew
    store.change({ mutes: gone });
    scrollToTop(panel.querySelector('.hl-outcome'));
  };
  return [
    tabs(say('Heads'), ...groups),
    drawChart(removal.score, [scores], {
      first: 0,
      last: points.at(-1)[0],
      marked: count,
      isCount: true,
      name: sayCount(
        points.at(-1)[0],
        '{score} with up to {count} head removed',
        '{score} with up to {count} heads removed',
        { score: removal.score },
      ),
      format: (value) => fixed(value, 1),
      key: {
        title: (step) => sayCount(step, '{count} head removed', '{count} heads removed'),
        of: () => '',
      },
    }),
    slider,
    element(
      'p',
      { class: 'hl-verdict' },
      sayCount(
        count,
        'Without {count} head: {score} {value} instead of {intact}; a token of the reference loses {zero} nats, or {mean} if the head gives its mean.',
        'Without {count} heads: {score} {value} instead of {intact}; a token of the reference loses {zero} nats, or {mean} if the heads give their means.',
        {
          score: removal.score,
          value: fixed(score, 1),
          intact: fixed(points[0][3], 1),
          zero: fixed(zero, 3),
          mean: fixed(mean, 3),
        },
      ),
    ),
    ...KINDS.map((kind) => [kind, gone.filter(([of]) => of === kind)])
      .filter(([, of]) => of.length > 0)
      .map(([kind, of]) => note(`${kindName(/** @type {Kind} */ (kind))}: ${listOf(of)}`)),
    actions(actionButton(say('Mute them in this sentence'), mute, { disabled: count === 0 })),
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
