// A question of the course: the guess at the beginning of a chapter, what closes it, the ten questions before and after, and
// what stands on the sheet of a teacher: { text, answers, because }, texts in English. The answers may be a function of the record
// on screen. The first answer is right, or the answer at `right`; answers of a question with `right` keep their order.

import { choiceItem } from '../drawing/widgets.js';
import { element } from '../drawing/dom.js';
import { localNumber, tell } from '../locales/language.js';

function answersOf({ answers }, record) {
  if (typeof answers === 'function') return answers(record);
  return answers.map((answer) => (typeof answer === 'number' ? localNumber(String(answer)) : tell(answer)));
}

export function rightOf(question, record) {
  const { right = 0 } = question;
  return right < 0 ? answersOf(question, record).length + right : right;
}

// The places of the answers in the order in which a person sees them: not the right one first.
export function orderOf(question, record) {
  const places = answersOf(question, record).map((_, place) => place);
  if ('right' in question) return places;
  const turned = tell(question.text).length % places.length;
  return [...places.slice(turned), ...places.slice(0, turned)];
}

// The answers as buttons. `chosen` is the place of the answer that was given, or null; with `isJudged` the right one has a
// tick, and a wrong one that was chosen a cross. Without `choose` nothing can be chosen.
/** @type {(question: any, record: any, shown: { chosen?: number | null; isJudged?: boolean; choose?: (place: number) => void }) => Element} */
export function createAnswers(question, record, { chosen = null, isJudged = false, choose }) {
  const right = rightOf(question, record);
  const entries = orderOf(question, record).map((place) => {
    const sign = isJudged && place === right ? '✓ ' : isJudged && place === chosen ? '✗ ' : '';
    const attributes = { 'aria-pressed': String(place === chosen), disabled: !choose };
    return choiceItem(() => choose?.(place), attributes, sign, answerAt(question, record, place));
  });
  const isShort = answersOf(question, record).every((answer) => [...answer].length < 3);
  return element('ul', { class: isShort ? 'hl-answers hl-letters' : 'hl-answers' }, ...entries);
}

export const answerAt = (question, record, place) => answersOf(question, record)[place];
