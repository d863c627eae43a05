// The pages of the course with five questions: before the first chapter without a judgement, and after the last one with the
// summary of the course, once they are answered.

import { element } from '../drawing/dom.js';
import { actionButton, actions, note, sayNote } from '../drawing/widgets.js';
import { say, tell } from '../locales/language.js';
import { createAnswers } from './question.js';
import { QUIZ, countRight } from './quiz.js';

// Both return the elements of a page. `redraw` draws the page again; `openResult` opens what can be printed.
/** @type {(progress: any, chapters: any[], redraw: () => void, openResult: () => void) => Element[]} */
export function drawBefore(progress, _, redraw) {
  const isComplete = Object.keys(progress.get().before).length === QUIZ.length;
  return [
    sayNote(
      'Two minutes. Nobody sees your answers: they stay in this browser. After the course come five questions of the same kind, and you see what has changed. You can also go on at once.',
    ),
    ...createQuestions(progress, 'before', false, redraw),
    ...(isComplete ? [sayNote('Thank you. After the course you will see what was right.')] : []),
  ];
}

/** @type {(progress: any, chapters: any[], redraw: () => void, openResult: () => void) => Element[]} */
export function drawAfter(progress, chapters, redraw, openResult) {
  const { understood, before, after } = progress.get();
  const done = chapters.filter((_, place) => understood.includes(String(place + 1)));
  const isComplete = Object.keys(after).length === QUIZ.length;
  const summary = element(
    'ol',
    { class: 'hl-summary-of-course' },
    ...done.map(({ learned }) => element('li', {}, tell(learned))),
  );
  return [
    element('h3', {}, say('Five questions after')),
    ...createQuestions(progress, 'after', isComplete, redraw),
    ...(isComplete ? [element('p', { role: 'status' }, element('strong', {}, scoreOf(before, after)))] : []),
    ...(isComplete && Object.keys(before).length > 0
      ? [element('h3', {}, say('Five questions before')), ...createQuestions(progress, 'before', true, redraw)]
      : []),
    // Its sentences would answer the questions.
    isComplete && done.length > 0
      ? summary
      : sayNote('One sentence appears here for each chapter that you have understood.'),
    actions(actionButton(say('Print what I have learned'), openResult)),
  ];
}

export function scoreOf(before, after) {
  const right = countRight(after);
  return Object.keys(before).length < QUIZ.length
    ? say('{right} of 5 right.', { right })
    : say('Before the course {before} of 5, now {right} of 5.', { before: countRight(before), right });
}

// What is right is said when all five are answered.
const createQuestions = (progress, when, isJudged, redraw) =>
  QUIZ.flatMap((pair, place) => {
    const question = pair[when];
    const answers = progress.get()[when];
    const choose = (chosen) => {
      progress.change({ [when]: { ...answers, [place]: chosen } });
      redraw();
    };
    return [
      element('p', { class: 'hl-asked' }, `${place + 1}. ${tell(question.text)}`),
      createAnswers(question, null, {
        chosen: answers[place] ?? null,
        isJudged,
        choose: isJudged ? undefined : choose,
      }),
      isJudged ? note(tell(question.because)) : null,
    ].filter((one) => one !== null);
  });
