// Measures and roles of heads. Their definitions come with the record, from the lists in model/analysis/measures.py.

import { element, shape } from './dom.js';
import { largest } from './math.js';
import { evidenceOf } from './roles.js';
import { say, tell, localNumber } from '../locales/language.js';

// Importance is known only after the server has computed it.
const importanceMeasure = () => ({ name: 'importance', label: say('importance') });

export function measuresOf(record) {
  return record.definitions.measures.map((one) => ({
    ...one,
    label: tell(one.label),
    definition: tell(one.definition),
    unit: tell(one.unit),
  }));
}

// The measures that heads can be sorted by.
export function sortsOf(record) {
  return [...measuresOf(record), importanceMeasure()];
}

// How log p changes without each head, [layer][head] by kind; null unless it was measured with what muted heads give now.
export function importanceOf({ importance, instead }) {
  if (!importance) return null;
  const { baseline, sentence } = importance.instead;
  return baseline === instead.baseline && sentence === instead.sentence ? importance.changes : null;
}

// The value of a head for sorting; null where the measure has no meaning or is not known yet.
export function measureOf(state, name, layer, head) {
  const { record, kind } = state;
  if (name !== 'importance') return record.measures[kind][name][layer][head];
  const importance = importanceOf(state);
  return importance && -importance[kind][layer][head]; // a head is important if the log-probability falls without it
}

export function canSort(state, name) {
  return measureOf(state, name, 0, 0) !== null;
}

// All heads of the kind, [layer, head] each, by the chosen measure, the largest first; null without a measure.
export function sortedHeads(state) {
  if (state.sort === null || !canSort(state, state.sort)) return null;
  const { layers, heads } = state.record.attention[state.kind];
  const all = Array.from({ length: layers * heads }, (_, place) => [Math.floor(place / heads), place % heads]);
  const value = ([layer, head]) => measureOf(state, state.sort, layer, head);
  return all.sort((one, other) => value(other) - value(one));
}

// The importance of a head from 0 to 1: its change as a share of the largest change by any head.
export function importanceShare(state, layer, head) {
  const importance = importanceOf(state);
  return Math.abs(importance[state.kind][layer][head]) / largest(Object.values(importance).flat(2));
}

export function roleDefinition(record, role) {
  return tell(record.definitions.roles[role].definition);
}

export function taughtName() {
  return say('taught to align');
}

// Whether a head was taught to align words, instead of finding its role by itself.
export function isTaught(record, kind, layer, head) {
  const taught = kind === 'cross' && record.taught;
  return Boolean(taught) && taught[0] === layer && taught[1] === head;
}

// Which target token a row of a head is about: 0 the one that it predicts, −1 the one that it reads. A head of
// cross-attention that is aligned, or was taught to align, is about the one whose source it looks up.
export function alignedOffset(record, head) {
  const [, layer, place] = head;
  const { focus_offset: offsets } = record.measures.cross; // not in payloads of release 0.1
  return isAligned(record, head) && offsets ? offsets[layer][place] : 0;
}

export function isAligned(record, [kind, layer, head]) {
  const role = record.roles[kind]?.[layer][head];
  return record.definitions.roles[role]?.measure === 'focus' || isTaught(record, kind, layer, head);
}

// The role whose threshold a head comes nearest to in this sentence, { role, value }; null without any.
export function nearestRole({ definitions, measures }, [kind, layer, head]) {
  const valueOf = (name) => measures[kind][name][layer][head];
  const found = Object.entries(definitions.roles).map(([role, one]) => ({
    role,
    value: evidenceOf(definitions, role, kind, valueOf),
    least: one.least,
  }));
  const ranked = found.filter(({ value }) => value !== null).sort((a, b) => b.value / b.least - a.value / a.least);
  return ranked[0] ?? null;
}

// Warnings about a sentence that is far from what the model was trained on.
export function rangeNotices({ tokens: { source } }, { trained }) {
  if (!trained) return [];
  const words = source.filter(({ word }) => word !== null);
  const pieces = words.length / new Set(words.map(({ word }) => word)).size;
  if (source.length > trained.tokens)
    return [
      say('Far longer than the training: {tokens} tokens; almost all training sentences have at most {most}.', {
        tokens: source.length,
        most: trained.tokens,
      }),
    ];
  if (pieces > trained.pieces)
    return [
      say('Mostly spelled out: {pieces} pieces a word; almost all training sentences have at most {most}.', {
        pieces: localNumber(pieces.toFixed(1)),
        most: localNumber(trained.pieces.toFixed(1)),
      }),
    ];
  return [];
}

export function roleSymbol(record, role) {
  const path = shape('path', { d: record.definitions.roles[role].symbol });
  return shape('svg', { class: 'hl-glyph', viewBox: '0 0 10 10', 'aria-hidden': 'true' }, path);
}

// The roles that heads of this kind have, in the order of the definitions.
export function roleLegend(record, kind) {
  const present = new Set(record.roles[kind].flat());
  const roles = Object.keys(record.definitions.roles).filter((role) => present.has(role));
  const items = roles.map((role) =>
    element('li', { title: roleDefinition(record, role) }, roleSymbol(record, role), tell(role)),
  );
  return [element('li', {}, say('in this sentence:')), ...items, ...taughtItem(record, kind)];
}

function taughtItem({ taught }, kind) {
  if (!taught || kind !== 'cross') return [];
  return [
    element(
      'li',
      {},
      `${say('layer {layer}, head {head}', { layer: taught[0] + 1, head: taught[1] + 1 })}: ${taughtName()}`,
    ),
  ];
}
