// The view on screen (A), and the second view beside it (B), as a difference or next to each other. B is the sentence of A
// through another model or at another step of the training, or another sentence. Also the older comparison of heads.

import { readable } from '../drawing/dom.js';
import { sum } from '../domain/math.js';
import { KINDS, axes, matrixOf, taskOf } from '../domain/payload.js';
import { sameQuestion } from './questions.js';
import { headsOfKind, hasHead, missingHead } from '../domain/heads.js';
import { trainingStep } from './queries.js';
import { difference } from '../values/difference.js';
import { USUAL, chosenValue } from '../values/values.js';
import { counterparts, differingPlaces } from '../domain/counterparts.js';
import { say } from '../locales/language.js';

// `state.sideB` is { by, with, to, separate }: `by` is one of these, or null until the person has chosen; `with` is the
// name of the model, the number of the step, or the sentence, as text; `to` is what stands before its sentence;
// `separate` says that the matrices are shown next to each other, also where their difference could be shown.
/** @type {NonNullable<SideB['by']>[]} */
export const SIDE_B_BY = ['model', 'step', 'sentence'];
/** @type {Readonly<SideB>} */
export const NO_SIDE_B = Object.freeze({ by: null, with: '', to: '', separate: false });
const LEAST_SHARED = 0.2; // of the rows and of the columns of A, special tokens aside, for a difference

// What is asked to get B, or null while there is nothing to ask. The request names all that B depends on.
/** @type {(state: State | EmptyState) => Question | null} */
export function besideQuestion(state) {
  const { sideB, record } = state;
  if (!sideB?.by || !record) return null;
  const training = trainingStep(state);
  const { model, text, language_prefix: prefix = '' } = taskOf(record);
  if (sideB.by === 'model') return { do: 'translate', forced: [], text, model: sideB.with, language_prefix: sideB.to };
  if (sideB.by === 'sentence') return { do: 'translate', forced: [], text: sideB.with, model, language_prefix: prefix };
  return training && { do: 'training_step', model, step: Number(sideB.with), sentence: training.sentence };
}

// The record of B, or null if nothing stands beside the view. The last record stays until the next one arrives.
/** @type {(state: State | EmptyState) => TranslationRecord | null} */
export const recordOfB = (state) => (besideQuestion(state) ? (state.beside?.record ?? null) : null);

// The record of the other side, on either side; null without one.
/** @type {(state: State) => TranslationRecord | null} */
export const otherRecord = (state) => (state.side === 'B' ? (state.beside?.record ?? null) : recordOfB(state));

// The token that the other side has in the place of the step, if both sides are of one model; null if it is the same.
/** @type {(state: State) => Token | null} */
export function wordOfOtherSide(state) {
  const { record, step } = state;
  const other = otherRecord(state);
  if (other?.model.name !== record.model.name) return null;
  const { predicted } = other.tokens;
  const place = counterparts(record.tokens.predicted, predicted)[step];
  return place === null || predicted[place].id === record.tokens.predicted[step].id ? null : predicted[place];
}

// Whether the record of B answers what is asked now.
/** @type {(state: State) => boolean} */
export const isUpToDate = (state) =>
  state.beside?.record ? sameQuestion(state.beside.question, besideQuestion(state)) : false;

// A or B while two sides are on screen, otherwise empty.
/** @type {(state: State) => 'A' | 'B' | ''} */
export const sideOf = (state) => (state.side === 'B' || recordOfB(state) ? state.side : '');

// Whether the matrix shows A minus B.
/** @type {(state: State) => boolean} */
export function isSubtracted(state) {
  const record = chosenValue(state).isSubtracted && !state.sideB?.separate ? recordOfB(state) : null;
  return record !== null && whySeparate(state, record) === '';
}

// Why the matrices of A and B stand next to each other, in one sentence; empty if their difference can be shown.
/** @type {(state: State, other: TranslationRecord) => string} */
export function whySeparate(state, other) {
  const lack = lackOf('B', state, other);
  if (lack !== '') return lack;
  if (!chosenValue(state).isSubtracted) return say('Next to each other: a difference of A and B is for weights.');
  if (sharesTokens(state.record, other, state.kind)) return '';
  return say('Next to each other: A and B share too few tokens for a difference.');
}

/** @type {(record: TranslationRecord, other: TranslationRecord, kind: Kind) => boolean} */
function sharesTokens(record, other, kind) {
  const [own, others] = [axes(record, kind), axes(other, kind)];
  return ['rows', 'columns'].every((side) => {
    const words = [...own[side].keys()].filter((place) => own[side][place].word !== null);
    const differing = differingPlaces(own[side], others[side]);
    return words.length > 0 && words.filter((place) => !differing.has(place)).length >= LEAST_SHARED * words.length;
  });
}

// All heads that both records have, { head, value } each, the largest value first; only of kinds in which the records share
// enough tokens. The value is half the sum of the absolute differences in a row, in the mean over the rows; rows and columns
// that only one record has do not count. It is 0 if both heads read the same, and at most 1.
/** @type {(record: TranslationRecord, other: TranslationRecord) => { head: Head; value: number }[]} */
export function headsByDifference(record, other) {
  const kinds = KINDS.filter((kind) => sharesTokens(record, other, kind));
  const heads = kinds.flatMap((kind) => headsOfKind({ record, kind })).filter((head) => hasHead(other, head));
  const found = heads.map((head) => ({ head, value: differenceOf(record, other, head) }));
  return found.sort((one, two) => two.value - one.value);
}

/** @type {(record: TranslationRecord, other: TranslationRecord, head: Head) => number} */
function differenceOf(record, other, head) {
  const [kind] = head;
  const [own, others] = [record, other].map((each) => matrixOf(each, ...head));
  const [names, otherNames] = [record, other].map((each) => axes(each, kind));
  const pairsOf = (side) =>
    counterparts(names[side], otherNames[side]).flatMap((to, from) => (to === null ? [] : [{ from, to }]));
  const [rows, columns] = [pairsOf('rows'), pairsOf('columns')];
  const sums = rows.map((row) =>
    sum(
      columns.map((column) =>
        Math.abs(own.values[row.from * own.columns + column.from] - others.values[row.to * others.columns + column.to]),
      ),
    ),
  );
  return sums.length === 0 ? 0 : sum(sums) / 2 / sums.length;
}

// Which of the heads on screen the record of the other side does not have, in one sentence; empty if it has all of them.
/** @type {(side: string, state: State, other: TranslationRecord) => string} */
export function lackOf(side, state, other) {
  const missing = missingHead(state, other);
  if (!missing) return '';
  const [kind, layer, head] = missing;
  const { layers, heads } = other.attention[kind];
  const size = `${layers} × ${heads}`;
  return say('{side} has no head {layer}.{head}: it has {size} of this kind, and keeps the one it shows.', {
    side,
    layer: layer + 1,
    head: head + 1,
    size,
  });
}

// The record that a difference subtracts, { label, own, record, heads }. Without `heads` the same heads are subtracted; `own` is
// the name of the other side. Heads of another translation have its text in their label.
/** @type {(state: State) => Reference | null} */
export function referenceOf(state) {
  const other = isSubtracted(state) ? recordOfB(state) : null;
  if (other) return { label: 'B', own: 'A', record: other };
  const { reference, record } = state;
  if (!reference?.heads || reference.record === record) return reference;
  const values = { view: reference.label, text: readable(reference.record.text) };
  return { ...reference, label: say('{view} of “{text}”', values) };
}

// The value that can be shown now: weights until the numbers of another one are there.
/** @type {(state: State) => Value} */
export function shownValue(state) {
  if (isSubtracted(state)) return difference;
  const value = chosenValue(state);
  return value.canBeShown(state, value) ? value : USUAL;
}
