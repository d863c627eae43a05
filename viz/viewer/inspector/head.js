// The head card: what the chosen head is like, each number with its meaning and its place among all heads.

import { element } from '../core/dom.js';
import { axes } from '../core/payload.js';
import { chooseKind, chosenHeads, differs, headOf, isMuted, sameHead, toggleMute } from '../core/store.js';
import { whyNot } from '../core/requests.js';
import { SORT_NAMES } from '../core/order.js';
import { glyph, meaningOf } from '../core/roles.js';
import { changeOf, wordsOf } from './mute_result.js';
import { createNext } from './next_tokens.js';
import { subjectOf } from '../core/visit.js';
import { figure, fixed, note, part, plural, pressable, rug } from '../core/widgets.js';

const MEASURES = [
  {
    name: 'confidence',
    meaning:
      'Mean over queries of the largest weight, the end of the sentence left out (Voita et al. 2019, section 4).',
  },
  {
    name: 'entropy',
    unit: ' bit',
    meaning: 'Mean over queries of the entropy: 0 when each looks at one token, log2 n when it spreads evenly over n.',
  },
  {
    name: 'offset_share',
    meaning:
      'Share of queries whose strongest key is as far away as most are: the distance behind “at”, −1 for the token before. Positional from 0.90 (Voita et al. 2019, section 5.1).',
  },
  {
    name: 'sinks',
    meaning: 'Mean weight on special tokens and final punctuation (Clark et al. 2019, section 3.2).',
  },
  {
    name: 'rare',
    meaning: 'Share of queries whose strongest key is the rarest source token (Voita et al. 2019, section 5.3).',
  },
  {
    name: 'focus',
    meaning:
      'How nearly each source token is the one focus of some row: the largest weight of each column, summed, over the number that could be 1. Our own measure; heads that align score high.',
  },
];

export function createHeadCard(store, ask) {
  const card = element('div');
  const next = createNext(store, ask);
  const silent = element('section', { class: 'hl-part' });
  return {
    node: element('div', {}, card, next.node, silent),
    draw(state, before) {
      if (!state.record) return;
      const moved = differs(state, before, ['record', 'kind', 'layer', 'head', 'selection']);
      if (moved || state.importance !== before.importance)
        card.replaceChildren(...captionOf(store, state), ...cardOf(state, openOnes(card)));
      next.draw(state, before);
      if (moved || differs(state, before, ['mutes', 'muted', 'visit']))
        silent.replaceChildren(...silenceOf(store, ask, state));
    },
  };
}

// What a study of many sentences found of a head that this sentence shows well, and the way there.
function captionOf(store, state) {
  const { caption } = state;
  if (!caption) return [];
  const [shown, ...others] = chosenHeads(state);
  const isThere = others.length === 0 && sameHead(shown, [caption.kind, caption.layer, caption.head]);
  const go = () => store.change({ ...chooseKind(store.get(), caption.kind), ...headOf(caption) });
  return [element('p', { class: 'hl-caption' }, caption.text, ' ', isThere ? null : pressable('Look at it', go))];
}

// What the translation would be without the heads that are silent now.
function silenceOf(store, ask, state) {
  const { muted, mutes, record } = subjectOf(state);
  const silent = chosenHeads(state).every((head) => isMuted(state, head));
  const button = pressable(silent ? 'Let it speak' : 'Mute', () => store.change(toggleMute(store.get())), {
    'aria-pressed': String(silent),
  });
  button.append(' ', element('kbd', {}, 'M'));
  const reason = whyNot(state, ask, 'mute');
  if (reason) return [element('h3', {}, 'If it were silent'), note(reason)];
  if (mutes.length === 0)
    return [element('h3', {}, 'If it were silent'), element('div', { class: 'hl-actions' }, button)];
  const known = muted?.heads === mutes;
  const outcome = known ? [...wordsOf(muted), ...changeOf(record, muted)] : [];
  return [
    element('h3', {}, `Without ${plural(mutes.length, 'head')}`),
    ...outcome,
    element('div', { class: 'hl-actions' }, button),
  ];
}

// The explanations that are open stay open on the next head.
function openOnes(node) {
  return new Set([...node.querySelectorAll('details[open]')].map((one) => one.dataset.name));
}

function cardOf(state, open) {
  const heads = chosenHeads(state);
  const { rows } = axes(state.record, state.kind);
  const known = MEASURES.filter(({ name }) => meanOf(state, name, heads) !== null);
  return [
    element('section', { class: 'hl-part' }, ...roleOf(state, heads)),
    part(
      cardTitle(state, heads),
      note(`over the ${plural(rows.length, 'row')} of this sentence; the ticks are all heads of this kind`),
      ...known.map((measure) => rowOfMeasure(state, heads, measure, open.has(measure.name))),
      ...importanceOf(state, heads),
    ),
  ];
}

function cardTitle(state, heads) {
  if (state.selection.length > 0) return `Mean of ${plural(heads.length, 'head')}`;
  return `Layer ${state.layer + 1}, ${state.head === null ? `mean of ${plural(heads.length, 'head')}` : `head ${state.head + 1}`}`;
}

function roleOf({ record, kind }, heads) {
  const roles = heads.map(([, layer, head]) => record.roles[kind][layer][head]);
  const names = [...new Set(roles)];
  if (names.length === 1)
    return [note(heads.length > 1 ? 'Role of each' : 'Role'), roleName(names[0]), note(meaningOf(names[0]))];
  const counted = names.map((name) => `${roles.filter((role) => role === name).length} ${name}`);
  return [note('Roles'), element('p', { class: 'hl-role' }, 'Various'), note(counted.join(', '))];
}

function roleName(role) {
  return element('p', { class: 'hl-role' }, glyph(role), role[0].toUpperCase() + role.slice(1));
}

// Mean over the heads for which the measure has a meaning, or null.
function meanOf({ record, kind }, name, heads) {
  const table = record.measures[kind][name];
  const values = table ? heads.map(([, layer, head]) => table[layer][head]).filter((value) => value !== null) : [];
  return values.length === 0 ? null : values.reduce((total, value) => total + value, 0) / values.length;
}

function rowOfMeasure(state, heads, { name, unit = '', meaning }, open) {
  const { record, kind } = state;
  const all = record.measures[kind][name].flat().filter((value) => value !== null);
  const value = meanOf(state, name, heads);
  const most = name === 'entropy' ? Math.max(...all) || 1 : 1;
  const range = `All ${plural(all.length, 'head')}: ${fixed(Math.min(...all), 2)} to ${fixed(Math.max(...all), 2)}.`;
  return element(
    'details',
    { class: 'hl-measure', 'data-name': name, open },
    element(
      'summary',
      {},
      element('span', {}, SORT_NAMES[name]),
      rug(all, value, most),
      figure(`${fixed(value, 2)}${unit}${distance(state, name, heads)}`),
    ),
    note(`${meaning} Here ${sampleOf(state, name, heads)}. ${range}`),
  );
}

// The offset of the heads, when they share one.
function distance({ record, kind }, name, heads) {
  if (name !== 'offset_share') return '';
  const offsets = new Set(heads.map(([, layer, head]) => record.measures[kind].offset[layer][head]));
  if (offsets.size > 1) return '';
  const [offset] = offsets;
  return ` at ${offset > 0 ? '+' : ''}${fixed(offset, 0)}`;
}

function sampleOf({ record, kind }, name, heads) {
  const rows = axes(record, kind).rows.length;
  const able = record.measures[kind].offset_queries;
  if (name !== 'offset_share' || !able || heads.length > 1) return plural(rows, 'query', 'queries');
  const [[, layer, head]] = heads;
  return `${able[layer][head]} of ${plural(rows, 'query', 'queries')} can have this distance`;
}

// Known once the person has asked which heads matter.
function importanceOf({ importance }, heads) {
  if (!importance || heads.length > 1) return [];
  const [[kind, layer, head]] = heads;
  const all = Object.values(importance).flat(2);
  const rank = all.filter((change) => change < importance[kind][layer][head]).length + 1; // silence that loses more
  const text = `${rank} of ${all.length}`;
  return [element('p', { class: 'hl-fact' }, element('span', {}, 'importance, rank'), figure(text))];
}
