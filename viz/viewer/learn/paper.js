// What a class prints: the sheet of a chapter with room for answers, and what a person has learned. It lies over the page, as
// it will be on paper, and stands alone in the document while it is printed.

import { KINDS } from '../domain/payload.js';
import { element, readable, shape, visible } from '../drawing/dom.js';
import { percent } from '../drawing/numbers.js';
import { actionButton, actions, sayNote } from '../drawing/widgets.js';
import { pictureOfSides } from '../matrix/svg.js';
import { chooseKind } from '../state/actions.js';
import { settle } from '../state/store.js';
import { say, tell } from '../locales/language.js';
import { generateQr } from './lean_qr.js';
import { answerAt, orderOf, rightOf } from './question.js';
import { QUIZ } from './quiz.js';
import { scoreOf } from './quiz_page.js';

const LINES = 2; // of room for an answer
const LIKELIEST = 3; // words of a step
const QUIET = 2; // modules around a code

// Returns { openSheet, openResult }.
export function createPaper(store, progress) {
  const node = element('dialog', { class: 'headlight hl-paper' });
  node.addEventListener('keydown', ({ key }) => key === 'Escape' && node.close());
  node.addEventListener('close', () => node.remove());
  // Not modal: what is above all pages is cut after the first one.
  const show = (label, ...content) => {
    const bar = actions(
      actionButton(say('Print'), () => window.print(), { class: 'hl-button' }),
      actionButton(say('Close'), () => node.close()),
    );
    node.setAttribute('aria-label', label);
    node.replaceChildren(bar, element('h1', {}, label), nameLine(), ...content);
    document.body.append(node);
    node.show();
    node.scrollTo(0, 0);
  };
  return {
    // `page` is a page of the course; see learn.js.
    openSheet(page, given) {
      const state = store.get();
      const questions = page.guess ? [page.guess, page.check] : QUIZ.map((pair) => pair[page.when]);
      show(
        tell(page.title),
        ...(page.begin && !page.begin.address ? viewOf(state, page, given) : []),
        questionsOf(questions, state.record),
        ...(page.tasks ? [tasksOf(page.tasks)] : []),
        element('div', { class: 'hl-address' }, codeOf(given.link), element('p', {}, given.link)),
        ...(given.withKey ? [keyOf(page, questions, state.record)] : []),
      );
    },
    openResult(chapters) {
      show(say('What I have learned'), ...resultOf(chapters, progress.get()));
    },
  };
}

// The sentences of the chapters that are done, and the answers before and after the course.
function resultOf(chapters, { understood, before, after }) {
  const done = chapters.filter((_, place) => understood.includes(String(place + 1)));
  const given = (when, answers) => (pair, place) =>
    element('li', {}, tell(pair[when].text), givenOf(pair[when], answers[place]));
  const part = (title, when, answers) =>
    Object.keys(answers).length === 0
      ? []
      : [element('h2', {}, title), element('ol', {}, ...QUIZ.map(given(when, answers)))];
  const isComplete = Object.keys(after).length === QUIZ.length;
  return [
    element(
      'ol',
      {},
      ...done.map(({ title, learned }) => element('li', {}, element('strong', {}, `${tell(title)}: `), tell(learned))),
    ),
    ...(isComplete ? [element('p', {}, element('strong', {}, scoreOf(before, after)))] : []),
    ...part(say('Five questions before'), 'before', before),
    ...part(say('Five questions after'), 'after', after),
  ];
}

const nameLine = () =>
  element('p', { class: 'hl-name-line' }, `${say('Name')}: `, element('span'), `${say('Date')}: `, element('span'));

// The sentence, and what the model makes of it; without a picture if the class has another sentence than the page.
function viewOf(state, { subject, view }, { text, model }) {
  const { record } = state;
  const line = (label, ...content) => element('p', {}, element('strong', {}, `${label}: `), ...content);
  const sentence = line(say('Sentence'), element('bdi', {}, readable(text)));
  if (text !== record.source_text || model !== record.model.name)
    return [sentence, line(say('The model writes')), roomFor(1)];
  const kinds = view?.ask ? KINDS : ['cross'];
  return [
    sentence,
    line(say('The model writes'), element('bdi', {}, readable(record.text))),
    subject === '.hl-inspector'
      ? likeliestOf(record)
      : element('figure', {}, ...kinds.map((kind) => pictureOf(state, kind))),
  ];
}

function pictureOf(state, kind) {
  const shown = { ...state, ...chooseKind(state, kind), theme: 'light', pin: null, hover: null, beside: null };
  return pictureOfSides({ ...shown, ...settle(shown) }, state);
}

function likeliestOf({ alternatives }) {
  const cell = ({ log_probability: chance, text }) =>
    element('td', {}, element('bdi', {}, visible({ text })), ` ${percent(Math.exp(chance))}`);
  const rows = alternatives.map((step, place) =>
    element('tr', {}, element('th', {}, String(place + 1)), ...step.slice(0, LIKELIEST).map(cell)),
  );
  return element('table', {}, element('caption', {}, say('The likeliest words of each step')), ...rows);
}

function questionsOf(questions, record) {
  const item = (question) =>
    element('li', {}, tell(question.text), boxesOf(question, record), say('Why?'), roomFor(LINES));
  return element('ol', { class: 'hl-paper-questions' }, ...questions.map(item));
}

function tasksOf(tasks) {
  const item = ({ text }) => element('li', {}, tell(text), sayNote('What do you see?'), roomFor(LINES));
  return element('section', {}, element('h2', {}, say('Try it')), element('ol', {}, ...tasks.map(item)));
}

function boxesOf(question, record, chosen = null) {
  const box = (place) => element('li', {}, `${place === chosen ? '☒' : '☐'} ${answerAt(question, record, place)}`);
  return element('ul', { class: 'hl-boxes' }, ...orderOf(question, record).map(box));
}

function givenOf(question, chosen) {
  const right = answerAt(question, null, rightOf(question, null));
  const answer = chosen === undefined ? '–' : answerAt(question, null, chosen);
  return element('p', {}, answer === right ? `✓ ${answer}` : `✗ ${answer} → ${right}`);
}

const roomFor = (lines) =>
  element('div', { class: 'hl-room' }, ...Array.from({ length: lines }, () => element('span')));

function keyOf({ learned }, questions, record) {
  const item = (question) =>
    element(
      'li',
      {},
      element('strong', {}, answerAt(question, record, rightOf(question, record))),
      ` ${tell(question.because)}`,
    );
  return element(
    'section',
    { class: 'hl-key' },
    element('h2', {}, say('Answer key')),
    element('ol', {}, ...questions.map(item)),
    ...(learned ? [element('p', {}, tell(learned))] : []),
  );
}

function codeOf(link) {
  let code;
  try {
    code = generateQr(link);
  } catch {
    return null;
  }
  const places = Array.from({ length: code.size ** 2 }, (_, place) => [
    place % code.size,
    Math.floor(place / code.size),
  ]);
  const dark = places.filter(([x, y]) => code.get(x, y)).map(([x, y]) => `M${x} ${y}h1v1h-1z`);
  const side = code.size + 2 * QUIET;
  const box = {
    class: 'hl-code',
    viewBox: `${-QUIET} ${-QUIET} ${side} ${side}`,
    role: 'img',
    'aria-label': say('The link as a code to scan'),
  };
  return shape('svg', box, shape('path', { d: dark.join('') }));
}
