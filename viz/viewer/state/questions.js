// Questions and answers: when two questions are the same, and when an answer is about what is asked now.

import { targetIds } from '../domain/payload.js';
import { pinnedCell } from './queries.js';

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
