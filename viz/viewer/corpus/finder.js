// The head finder: every head of the model as a point by two measures, over this sentence, the corpus or the person's own
// sentences. A click chooses a head, a rectangle drawn with the pointer narrows the list, which names all of them in words.

import { createButton, element, replaceKeepingFocus, shape } from '../drawing/dom.js';
import { fixed } from '../drawing/numbers.js';
import { choiceItem, note, numberText, sayNote, scrollToTop } from '../drawing/widgets.js';
import { headsWith } from '../domain/heads.js';
import { KINDS } from '../domain/payload.js';
import { measuredOf } from '../domain/survey.js';
import { nearestRole } from '../domain/roles.js';
import { showHead } from '../state/actions.js';
import { fullHeadName, kindName } from '../state/labels.js';
import { labelOfMeasure, measuresOf } from '../state/measures.js';
import { aboutModel, differs } from '../state/queries.js';
import { say, sayCount, tell } from '../locales/language.js';

const SIZE = { width: 296, height: 220, left: 40, right: 10, top: 10, bottom: 28 };
const INPUTS = ['record', 'surveys', 'about', 'kind', 'layer', 'head', 'selection', 'finder'];
const FIRST = Object.freeze({ over: 'corpus', x: 'offset_share', y: 'sinks' });
const OVER = {
  sentence: () => say('this sentence'),
  corpus: () => say('the corpus'),
  own: () => say('your sentences, from Examples'),
};
const CLICK = 4; // pixels; a shorter way of the pointer draws no rectangle

export function createFinder({ store }) {
  let left = FIRST; // what the finder shows when it opens again
  let box = /** @type {any} */ (null);
  const [choices, figure, list] = [element('div'), element('div'), element('div')];
  const summary = element('summary', {}, element('h3', {}, say('Find a head')));
  const node = element(
    'details',
    { class: 'hl-part hl-question hl-finder', 'data-name': 'finder' },
    summary,
    choices,
    figure,
    list,
  );
  summary.addEventListener('click', (event) => {
    event.preventDefault(); // the state says whether the finder is open
    store.change({ finder: node.open ? null : left });
  });
  const narrow = (drawn) => {
    box = drawn;
    draw();
  };
  const draw = () => {
    const state = store.get();
    const { finder } = state;
    const isOpened = !node.open && finder !== null;
    node.open = finder !== null;
    if (!finder || !state.record) return;
    left = finder;
    const over = sourceOf(state, finder.over) ? finder.over : 'sentence';
    const source = sourceOf(state, over);
    const points = pointsOf(state, source, finder);
    const inside = points.filter(
      ({ x, y }) => !box || (x >= box.left && x <= box.right && y >= box.top && y <= box.bottom),
    );
    const change = (changes) => {
      box = null;
      store.change({ finder: { ...finder, ...changes } });
    };
    replaceKeepingFocus(choices, ...choicesOf(state, { ...finder, over }, change));
    const ends = endsOf(state, source, finder);
    figure.replaceChildren(pictureOf(store, points, ends, box, narrow));
    replaceKeepingFocus(list, ...listOf(store, inside, ends, points.length, box, narrow));
    if (isOpened) scrollToTop(node);
  };
  return { node, draw: (state, before) => differs(state, before, INPUTS) && draw() };
}

// The measured heads; null where nobody has measured them.
function sourceOf(state, over) {
  if (over === 'sentence') return state.record;
  if (over === 'corpus') return aboutModel(state).study ?? null;
  const survey = state.surveys[state.record.model.name]?.found;
  return survey ? measuredOf(survey, state.record.definitions) : null;
}

// The heads that have both measures, { one, role, nearest, values, x, y } each; x and y are places in the picture.
function pointsOf(state, source, names) {
  const { record, kind, layer, head, selection } = state;
  const [across, up] = endsOf(state, source, names);
  return headsWith(source.roles)
    .map(({ head: one, value: role }) => ({
      one,
      role,
      values: [names.x, names.y].map((name) => valueOf(source, name, one)),
    }))
    .filter(({ values }) => values.every((value) => value !== null))
    .map(({ one, role, values }) => ({
      one,
      role,
      values,
      nearest: nearestRole({ ...source, definitions: record.definitions }, one)?.role ?? role,
      x: SIZE.left + (values[0] / across.most) * (SIZE.width - SIZE.left - SIZE.right),
      y: SIZE.height - SIZE.bottom - (values[1] / up.most) * (SIZE.height - SIZE.top - SIZE.bottom),
      symbol: record.definitions.roles[role].symbol,
      isChosen: selection.length === 0 && one.every((value, place) => value === [kind, layer, head][place]),
    }));
}

const valueOf = (source, name, [kind, layer, head]) => source.measures[kind][name]?.[layer]?.[head] ?? null;

/** @type {(state: any, source: any, names: { x: string; y: string }) => any} */
const endsOf = ({ record }, source, { x, y }) =>
  [x, y].map((name) => {
    const maximum = measuresOf(record).find((one) => one.name === name)?.maximum;
    const values = KINDS.flatMap((kind) => source.measures[kind][name]?.flat() ?? []);
    return { label: labelOfMeasure(record, name), most: maximum ?? Math.max(1e-9, ...values) };
  });

function axisTexts([across, up]) {
  const [bottom, right] = [SIZE.height - SIZE.bottom, SIZE.width - SIZE.right];
  const text = (x, y, anchor, words) => shape('text', { x, y, 'text-anchor': anchor }, words);
  return [
    text(SIZE.left, bottom + 12, 'middle', '0'),
    text(right, bottom + 12, 'end', fixed(across.most, 1)),
    text((SIZE.left + right) / 2, bottom + 22, 'middle', across.label),
    text(SIZE.left - 4, bottom, 'end', '0'),
    text(SIZE.left - 4, SIZE.top + 8, 'end', fixed(up.most, 1)),
    text(SIZE.left + 4, SIZE.top + 8, 'start', up.label),
  ];
}

function choicesOf(state, chosen, change) {
  const select = (label, name, options) =>
    element(
      'label',
      { class: 'hl-finder-choice' },
      element('span', {}, label),
      element(
        'select',
        { class: 'hl-box', onchange: ({ target }) => change({ [name]: target.value }) },
        ...options.map(([value, text]) => element('option', { value, selected: chosen[name] === value }, text)),
      ),
    );
  const measures = measuresOf(state.record).map(({ name, label }) => [name, label]);
  const sources = Object.keys(OVER).filter((over) => sourceOf(state, over));
  return [
    select(
      say('Over'),
      'over',
      sources.map((over) => [over, OVER[over]()]),
    ),
    select(say('Across'), 'x', measures),
    select(say('Upwards'), 'y', measures),
  ];
}

function pictureOf(store, points, ends, box, narrow) {
  const marks = points.map((point) =>
    shape(
      'g',
      {
        class: `hl-finder-mark hl-finder-${point.one[0]}${point.isChosen ? ' hl-this' : ''}`,
        transform: `translate(${(point.x - 5).toFixed(1)} ${(point.y - 5).toFixed(1)})`,
      },
      shape('rect', { width: 10, height: 10 }),
      point.role === 'mixed' ? shape('circle', { cx: 5, cy: 5, r: 2 }) : shape('path', { d: point.symbol }),
      shape('title', {}, `${fullHeadName(point.one)}: ${tell(point.role)}`),
    ),
  );
  const frame = shape('path', {
    class: 'hl-finder-axes',
    d: `M${SIZE.left} ${SIZE.top}V${SIZE.height - SIZE.bottom}H${SIZE.width - SIZE.right}`,
  });
  const brush = shape('rect', { class: 'hl-finder-brush', ...(box ? rectangle(box) : { width: 0, height: 0 }) });
  const picture = shape(
    'svg',
    { class: 'hl-finder-picture', viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, 'aria-hidden': 'true' },
    frame,
    ...axisTexts(ends),
    brush,
    ...marks,
  );
  followPointer(picture, brush, (drawn, spot) => {
    if (drawn) return narrow(drawn);
    const [nearest] = [...points].sort((one, other) => distance(one, spot) - distance(other, spot));
    if (nearest && distance(nearest, spot) < 12) store.change(showHead(store.get(), nearest.one));
    return narrow(null);
  });
  return picture;
}

const distance = ({ x, y }, spot) => Math.hypot(x - spot.x, y - spot.y);
const rectangle = ({ left, right, top, bottom }) => ({ x: left, y: top, width: right - left, height: bottom - top });

// Calls `done(box, spot)` after a drag; without a box after a click.
function followPointer(picture, brush, done) {
  let from = /** @type {any} */ (null);
  const spotOf = ({ clientX, clientY }) => {
    const place = picture.getBoundingClientRect();
    const scale = SIZE.width / place.width;
    return { x: (clientX - place.left) * scale, y: (clientY - place.top) * scale };
  };
  const boxTo = (to) => ({
    left: Math.min(from.x, to.x),
    right: Math.max(from.x, to.x),
    top: Math.min(from.y, to.y),
    bottom: Math.max(from.y, to.y),
  });
  picture.addEventListener('pointerdown', (event) => {
    from = spotOf(event);
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener('pointermove', (event) => {
    if (!from) return;
    for (const [name, value] of Object.entries(rectangle(boxTo(spotOf(event)))))
      brush.setAttribute(name, String(value));
  });
  picture.addEventListener('pointerup', (event) => {
    if (!from) return;
    const [to, box] = [spotOf(event), boxTo(spotOf(event))];
    const isDrag = box.right - box.left > CLICK && box.bottom - box.top > CLICK;
    from = null;
    done(isDrag ? box : null, to);
  });
}

function listOf(store, points, [across, upwards], total, box, narrow) {
  const lines = [...points]
    .sort((one, other) => other.values[1] - one.values[1])
    .map(({ one, role, nearest, values, isChosen }) => {
      const open = () => store.change(showHead(store.get(), one));
      const roleText =
        role === 'mixed' && nearest !== role ? say('mixed, nearest: {role}', { role: tell(nearest) }) : tell(role);
      return choiceItem(
        open,
        { 'aria-pressed': String(isChosen) },
        element('span', {}, fullHeadName(one), element('span', { class: 'hl-soft hl-finder-role' }, roleText)),
        numberText(values.map((value) => fixed(value, 2)).join(' · ')),
      );
    });
  const said = box
    ? sayCount(
        lines.length,
        '{count} head in the rectangle, of {total}.',
        '{count} heads in the rectangle, of {total}.',
        { total },
      )
    : sayCount(
        total,
        '{count} head with both measures. Draw a rectangle in the picture to narrow the list.',
        '{count} heads with both measures. Draw a rectangle in the picture to narrow the list.',
      );
  const all = box ? [createButton('hl-act', () => narrow(null), {}, say('Show all'))] : [];
  return [
    element(
      'p',
      { class: 'hl-finder-kinds' },
      ...KINDS.map((kind) => element('span', { class: `hl-finder-${kind}` }, kindName(kind))),
    ),
    note(said, ' ', ...all),
    sayNote('{across} · {upwards}, the largest of the second first', { across: across.label, upwards: upwards.label }),
    element('ol', { class: 'hl-finder-list', 'aria-label': say('Heads by the second measure') }, ...lines),
  ];
}
