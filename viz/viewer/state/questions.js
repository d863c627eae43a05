// What the state asks: about its pinned cell and its muted heads, and when an answer is about what is asked now.

import { targetIds } from '../domain/payload.js';
import { aboutModel, pinnedCell, sourceView } from './queries.js';

// What a question about the pinned cell asks; null without one.
/** @type {(state: State) => object | null} */
export function ofPinnedCell(state) {
  const cell = pinnedCell(state);
  return cell && { ids: targetIds(state.record), ...cell };
}

// Whether the last answer is about what is asked now.
/** @type {(state: State, name: string, question: Question) => boolean} */
export const isAnswered = ({ answers }, name, question) =>
  Boolean(answers[name]) && sameQuestion(answers[name].question, question);

/** @type {(one: any, other: any) => boolean} */
export const sameQuestion = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Opens a question or closes it; for `store.change`.
/** @type {(state: Pick<State, 'questions'>, name: string) => Changes} */
export function toggleQuestion({ questions }, name) {
  return { questions: questions.includes(name) ? questions.filter((one) => one !== name) : [...questions, name] };
}

// What muted heads give, as a request says it: {} for nothing; null while the other sentence is not chosen yet.
/** @type {(state: State) => object | null} */
export function baselineGiven(state) {
  const { baseline, sentence } = state.ablation;
  if (baseline === 'sentence' && sentence === '') return null;
  const given = { mean: { sample: aboutModel(state).everyday }, sentence: { other: sentence } }[baseline];
  return given ? { baseline, ...given } : {};
}

// The same with the row, if the heads give it in one row alone.
/** @type {(state: State) => object | null} */
export function ablationOf(state) {
  const given = baselineGiven(state);
  const { row } = state.ablation;
  return given && { ...given, ...(row !== null && { row }) };
}

// What muting heads asks of the model; null while what they give instead is not chosen yet.
/** @type {(state: State) => Question | null} */
export function muteQuestion(state) {
  const given = ablationOf(state);
  return given && { do: 'mute', ...given };
}

// Whether the outcome on screen belongs to the muted heads and to what they give instead.
/** @type {(state: State) => boolean} */
export function isOutcome(state) {
  const { muted, mutes } = sourceView(state);
  return muted?.heads === mutes && muted.ablation === state.ablation;
}
