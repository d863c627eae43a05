// Measures of heads. Their definitions come with the record, from the list in model/analysis/definitions.py.

import { otherRecord } from './comparison.js';
import { say, tell, localNumber } from '../locales/language.js';

export const MARKED = [2, 10, 100]; // factors that the legend of the marks names

// Importance is known once it was asked for.
const importanceMeasure = () => ({ name: 'importance', label: say('importance') });

/** @type {(record: { definitions: Definitions }) => Measure[]} */
export const measuresOf = (record) =>
  record.definitions.measures.map((one) => ({
    ...one,
    label: tell(one.label),
    definition: tell(one.definition),
    unit: tell(one.unit),
  }));

// The measures that heads can be sorted by.
/** @type {(record: { definitions: Definitions }) => { name: string; label: string }[]} */
export const sortsOf = (record) => [...measuresOf(record), importanceMeasure()];

// The label of a measure, or of importance.
/** @type {(record: { definitions: Definitions }, name: string) => string} */
export const labelOfMeasure = (record, name) => sortsOf(record).find((one) => one.name === name)?.label ?? '';

// How log p changes without each head, [layer][head] by kind; null unless it was measured for what muted heads give at present.
/** @type {(state: Pick<State, 'importance' | 'ablation'>) => ByKind<number[][]> | null} */
export function importanceOf({ importance, ablation }) {
  if (!importance) return null;
  const { baseline, sentence } = importance.ablation;
  if (baseline === ablation.baseline && (baseline !== 'sentence' || sentence === ablation.sentence))
    return importance.changes;
  return ablation.baseline === 'zero' ? (importance.usual ?? null) : null;
}

// The importance of heads on the other side, so that the colours mean the same on both sides; null without another side.
/** @type {(state: State) => ByKind<number[][]> | null} */
export const importanceBeside = (state) =>
  state.beside?.record && otherRecord(state) ? importanceOf({ ...state.beside, ablation: state.ablation }) : null;

// The value of a head for sorting; null where the measure has no meaning or is not known yet.
/** @type {(state: State, name: string, layer: number, head: number) => number | null} */
export function measureOf(state, name, layer, head) {
  const { record, kind } = state;
  if (name !== 'importance') return record.measures[kind][name][layer][head];
  const importance = importanceOf(state);
  return importance && -importance[kind][layer][head]; // a head is important if the log-probability falls without it
}

/** @type {(state: State, name: string) => boolean} */
export const canSort = (state, name) => measureOf(state, name, 0, 0) !== null;

// All heads of the kind, [layer, head] each, by the chosen measure, the largest first; null without a measure.
/** @type {(state: State) => [number, number][] | null} */
export function sortedHeads(state) {
  const { sort } = state;
  if (sort === null || !canSort(state, sort)) return null;
  const { layers, heads } = state.record.attention[state.kind];
  /** @type {[number, number][]} */
  const all = Array.from({ length: layers * heads }, (_, place) => [Math.floor(place / heads), place % heads]);
  const value = ([layer, head]) => measureOf(state, sort, layer, head) ?? 0;
  return all.sort((one, other) => value(other) - value(one));
}

// How dark the mark of a head is, 0 to 1: how much less likely the translation is without it, on one logarithmic scale for all.
/** @type {(changes: ByKind<number[][]>, head: Head) => number} */
export const darknessOf = (changes, [kind, layer, head]) => darknessOfFactor(Math.exp(-changes[kind][layer][head]));

/** @type {(factor: number) => number} */
export const darknessOfFactor = (factor) =>
  Math.min(1, Math.max(0, Math.log(factor) / Math.log(MARKED[MARKED.length - 1])));

// Warnings about a sentence that is far from what the model was trained on.
/** @type {(record: TranslationRecord, about: { trained?: { tokens: number; pieces: number } }) => string[]} */
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
      say(
        'The model splits these words into many pieces: {pieces} a word; almost all training sentences have at most {most}.',
        {
          pieces: localNumber(pieces.toFixed(1)),
          most: localNumber(trained.pieces.toFixed(1)),
        },
      ),
    ];
  return [];
}
