// Learn: a course in chapters beside the live page. A chapter asks, shows, and asks again; its exercises are checked against
// the state of the viewer. The link names the chapter, so that a teacher can send it.

import { createButton, element, replaceKeepingFocus } from '../drawing/dom.js';
import { explainTerms } from '../drawing/glossary.js';
import { addressOf, asksFor, toAddress } from '../state/permalink.js';
import { headName } from '../state/labels.js';
import { differs } from '../state/queries.js';
import { EMPTY } from '../state/store.js';
import { actionButton, actions, choiceItem, sayNote } from '../drawing/widgets.js';
import { BACKWARDS, CHAPTERS } from './chapters.js';
import { createLesson } from './lesson.js';
import { createProgress } from './progress.js';
import { answerAt, createAnswers, rightOf } from './question.js';
import { drawAfter, drawBefore } from './quiz_page.js';
import { createQuestion } from '../instruments/question.js';
import { routes } from '../instruments/routes.js';
import { message, say, sayCount, tell } from '../locales/language.js';

const SHEET = '(max-width: 47.5em)'; // see learn.css
const MINUTE = 60_000; // milliseconds
const [BEFORE, AFTER] = [CHAPTERS.length + 1, CHAPTERS.length + 2]; // the numbers of the five questions, in links too

// The pages of the course by their numbers: the chapters, then the questions that stand before and after them.
/** @type {CoursePage[]} */
const PAGES = [
  ...CHAPTERS,
  { title: message('Five questions before'), draw: drawBefore, when: 'before' },
  { title: message('What you have learned'), draw: drawAfter, when: 'after' },
];
const ORDER = [BEFORE, ...CHAPTERS.map((_, place) => place + 1), AFTER];

// Returns { panels, open }: `open` opens the page that comes next. The page is a choice of the state, `learn`.
export function createLearn(client) {
  const { store } = client;
  const progress = createProgress();
  const learn = {
    store,
    progress,
    lesson: createLesson(store, progress, PAGES, ORDER),
    panel: createPanel(),
    routes: createQuestion(client, routes),
    former: null,
    page: null, // its number and the model, as they are drawn
    number: null, // of the page that was opened last
    judged: new Map(), // by the number of a chapter: which question closes it, and the answer that was given
    since: 0, // when the page was opened
    isWanted: false, // before the first translation
    drawn: EMPTY,
    tasks: element('ol', { class: 'hl-tasks' }),
    clock: element('span', { class: 'hl-soft', role: 'timer' }),
    marks: new Map(), // by the number of a page: writes what is done of it into the list
  };
  setInterval(() => drawClock(learn, store.get()), MINUTE / 6);
  store.subscribe((state, before) => follow(learn, state, before));
  return {
    panels: [learn.panel, learn.lesson.node],
    open: () => openNext(learn),
  };
}

function follow(learn, state, before) {
  const { store, panel } = learn;
  if (!state.record) return undefined;
  if (state.learn > PAGES.length) return store.change({ learn: null }); // a link can name any number
  const page = `${state.learn} ${state.record.model.name}`;
  const isOther = page !== learn.page;
  learn.page = page;
  if (isOther) draw(learn, state);
  if (state.learn !== learn.number) start(learn, state);
  if (learn.isWanted) openNext(learn);
  if (state.learn === null) return undefined;
  check(learn, state);
  drawClock(learn, state);
  drawRoutes(learn, state);
  if (isOther) panel.scrollTo(0, 0); // also after the picture of the routes, which scrolls to itself
  const { subject, chosen } = PAGES[state.learn - 1];
  const first = isGuessing(learn, state.learn) ? '.hl-columns' : subject;
  const next = isOther ? first : differs(state, before, ['kind', 'layer', 'head']) && chosen;
  if (next && matchMedia(SHEET).matches) scrollTo(learn, next);
  return undefined;
}

// The picture is there once the guess is made.
function drawRoutes(learn, state) {
  if (!learn.routes.node.isConnected) return;
  learn.routes.draw(state, learn.drawn);
  learn.drawn = state;
}

// The clock starts. A plain link to a chapter about a word brings the word.
function start(learn, { learn: number, about, record }) {
  Object.assign(learn, { number, since: Date.now() });
  const { begin: wanted } = PAGES[number - 1] ?? {};
  if (!wanted?.model || wanted.own || record.model.name === wanted.model) return;
  if (Object.hasOwn(about, wanted.model)) openPage(learn, number);
}

function createPanel() {
  const panel = element('aside', { class: 'hl-learn hl-scroll', 'aria-label': say('Learn'), hidden: true });
  explainTerms(panel);
  return panel;
}

// A click before the first translation is there waits for it.
function openNext(learn) {
  learn.isWanted = learn.store.get().record === null;
  if (!learn.isWanted) openPage(learn, nextPage(learn));
}

// The numbers of the pages that can be opened, in their order: a chapter may need a model that is not here.
/** @type {(state: any) => number[]} */
function openable({ about, home }) {
  /** @type {(page: CoursePage) => boolean} */
  const isHere = ({ begin }) => !begin?.model || keepsSentence(home, begin) || Object.hasOwn(about, begin.model);
  return ORDER.filter((number) => isHere(PAGES[number - 1]));
}

/** @type {(home: View, begin: Beginning) => boolean} */
const keepsSentence = ({ record }, { own }) => own === true && record.model.name !== BACKWARDS.model;

// The first page that is not done; the first chapter when all are.
function nextPage({ progress, store }) {
  const numbers = openable(store.get());
  const { understood, before, after } = progress.get();
  const isDone = (number) =>
    number === BEFORE
      ? understood.length > 0 || Object.keys(before).length > 0
      : number === AFTER
        ? Object.keys(after).length > 0
        : understood.includes(String(number));
  return numbers.find((number) => !isDone(number)) ?? 1;
}

// The address changes, and the page follows it as it follows every link.
function openPage(learn, number) {
  const { store } = learn;
  const { home, kind, layer, learn: current } = store.get();
  const { begin, view } = PAGES[number - 1];
  if (current === null) learn.former = toAddress(store.get());
  if (!begin) return store.change({ learn: number, minutes: null });
  if (begin.address) {
    location.hash = `${begin.address}&learn=${number}`;
    return undefined;
  }
  const keeps = keepsSentence(home, begin);
  const record = keeps ? home.record : { model: { name: begin.model }, source_text: begin.text };
  window.scrollTo(0, 0);
  const { kind: wanted = kind, ...open } = view ?? {};
  const choices = keeps ? { kind: wanted, layer: layer + 1, ...open } : open;
  location.hash = addressOf(record, { ...choices, learn: number });
  return undefined;
}

// A sentence that Learn brought gives way to the sentence that was on screen before. The playground stays open.
function close({ store, former }) {
  const { record } = store.get().home;
  const isOfLearn = CHAPTERS.some(
    ({ begin: { model, text, own } }) => record.model.name === model && (!own || record.source_text === text),
  );
  const isPlaying = new URLSearchParams(location.hash.slice(1)).has('playground');
  if (former === null || !isOfLearn || isPlaying || asksFor(former, record)) store.change({ learn: null });
  else location.hash = former;
}

// Drawing

function draw(learn, { learn: number, record }) {
  const { panel, store } = learn;
  panel.hidden = number === null;
  document.body.classList.toggle('hl-learning', number !== null);
  document.body.classList.toggle('hl-guessing', isGuessing(learn, number));
  if (number === null) return;
  const page = PAGES[number - 1];
  const numbers = openable(store.get());
  const place = numbers.indexOf(number);
  const go = (label, to, attributes = {}) => actionButton(label, () => openPage(learn, to), attributes);
  const [back, next] = [numbers[place - 1], numbers[place + 1]];
  const content = page.draw
    ? page.draw(learn.progress, CHAPTERS, () => draw(learn, store.get()), learn.lesson.openResult)
    : createChapter(learn, number, record);
  const turning = [back, next].map((to, at) => [to, turningButtons(panel)[at] === document.activeElement]);
  replaceKeepingFocus(
    panel,
    createHeader(learn, number),
    element('h2', {}, tell(page.title)),
    ...content,
    element(
      'div',
      { class: 'hl-actions hl-turning' },
      go(say('Back'), back, { disabled: !back }),
      go(say('Next'), next, { disabled: !next, class: 'hl-button' }),
    ),
    createList(learn, number, numbers),
    ...(numbers.length < PAGES.length ? [sayNote('The grey chapters need a model that this page does not have.')] : []),
    actions(actionButton(say('For teachers: a link and a sheet'), () => learn.lesson.open(number))),
  );
  // Who turns pages by the keyboard stays on the button that turns them, whatever stands above it.
  turning.forEach(([to, isFocused], at) => to && isFocused && turningButtons(panel)[at].focus({ preventScroll: true }));
  if (!page.draw) markTasks(learn, number);
}

const turningButtons = (panel) => panel.querySelectorAll('.hl-turning > button');

function createHeader(learn, number) {
  const count = CHAPTERS.length;
  const name = number > count ? say('Learn') : say('Learn · {number} of {count}', { number, count });
  const label = element('span', { class: 'hl-soft' }, name);
  const end = createButton('hl-tab', () => close(learn), {}, say('Close'));
  return element('header', {}, label, learn.clock, createFold(learn.panel), end);
}

const isGuessing = ({ progress }, number) =>
  number !== null && number <= CHAPTERS.length && !(number in progress.get().guesses);

// First the guess alone; then the picture answers it, the person tries it, and one more question closes the chapter.
/** @type {(learn: any, number: number, record: TranslationRecord) => Element[]} */
function createChapter(learn, number, record) {
  const { guess, text, tasks, view, subject, learned } = CHAPTERS[number - 1];
  const { guesses, understood } = learn.progress.get();
  const redraw = () => draw(learn, learn.store.get());
  const judge = () => {
    redraw();
    learn.panel.querySelector('.hl-asked').scrollIntoView(); // its answer and what is said of it come below
  };
  if (isGuessing(learn, number)) {
    const choose = (chosen) => {
      learn.progress.change({
        guesses: { ...learn.progress.get().guesses, [number]: chosen - rightOf(guess, record) },
      });
      redraw();
      drawRoutes(learn, learn.store.get());
      learn.panel.scrollTo(0, 0);
      if (matchMedia(SHEET).matches) scrollTo(learn, subject);
    };
    return [
      sayNote('What do you think? Guess first; the picture answers.'),
      element('p', { class: 'hl-asked' }, tell(guess.text)),
      createAnswers(guess, record, { choose }),
    ];
  }
  learn.routes.node.hidden = view?.ask !== routes.name; // it stays in its place, so the focus finds its button again
  learn.tasks.replaceChildren(...tasks.map((task) => createTask(learn, task)));
  const isUnderstood = understood.includes(String(number));
  return [
    createGuessed(guess, record, guesses[number]),
    ...paragraphsOf(text, record).map((paragraph) => element('p', {}, paragraph)),
    element('h3', {}, say('Try it')),
    learn.tasks,
    learn.routes.node,
    element('h3', {}, say('Do you know it now?')),
    ...createCheck(learn, number, record, isUnderstood, judge),
    ...(isUnderstood ? [element('p', { class: 'hl-learned' }, element('strong', {}, tell(learned)))] : []),
  ];
}

/** @type {(texts: string[], record: TranslationRecord) => string[]} */
function paragraphsOf(texts, { taught, model }) {
  const values = { model: model.name, head: taught ? headName(...taught) : '' };
  return texts.filter((text) => taught || !text.includes('{head}')).map((text) => tell([text, values]));
}

// What was guessed, and what the picture says. `distance` is from the right answer: another word has other letters.
function createGuessed(guess, record, distance) {
  const answer = answerAt(guess, record, rightOf(guess, record) + distance);
  const isRight = distance === 0;
  const said = isRight
    ? say('You guessed “{answer}”, and that is right.', { answer })
    : answer && say('You guessed “{answer}”; that is not quite it.', { answer });
  return element('p', { class: 'hl-guessed' }, [said, tell(guess.because)].filter(Boolean).join(' '));
}

// The question that closes a chapter. After a wrong answer the question of the beginning takes its place, and the other way
// round: the tick is for what was understood, not for the third click.
function createCheck(learn, number, record, isUnderstood, judge) {
  const chapter = CHAPTERS[number - 1];
  const { asked = 'check', chosen = null } = learn.judged.get(number) ?? {};
  const question = chapter[asked];
  /** @type {Element[]} */
  const parts = [element('p', { class: 'hl-asked' }, tell(question.text))];
  if (isUnderstood || chosen !== null) {
    const shown = { chosen: isUnderstood ? rightOf(question, record) : chosen, isJudged: true };
    parts.push(createAnswers(question, record, shown), element('p', { role: 'status' }, tell(question.because)));
    const again = () => {
      learn.judged.set(number, { asked: asked === 'check' ? 'guess' : 'check' });
      judge();
    };
    return isUnderstood ? parts : [...parts, actions(actionButton(say('Another question'), again))];
  }
  const choose = (place) => {
    learn.judged.set(number, { asked, chosen: place });
    const { understood } = learn.progress.get();
    if (place === rightOf(question, record)) learn.progress.change({ understood: [...understood, String(number)] });
    judge();
  };
  return [...parts, createAnswers(question, record, { choose })];
}

function createList(learn, number, numbers) {
  const doneOf = (one) => {
    const { tasks, understood, before, after } = learn.progress.get();
    if (one > CHAPTERS.length) return Object.keys(one === BEFORE ? before : after).length > 0 ? `✓ ${say('Done')}` : '';
    if (understood.includes(String(one))) return `✓ ${say('Understood')}`;
    const count = tasks.filter((name) => name.startsWith(`${one}.`)).length;
    return count === 0 ? '' : say('{count} of {total}', { count, total: CHAPTERS[one - 1].tasks.length });
  };
  learn.marks.clear();
  const entries = ORDER.map((one) => {
    const attributes = { 'aria-current': one === number ? 'step' : null, disabled: !numbers.includes(one) };
    const mark = element('span', { class: 'hl-soft hl-number' }, doneOf(one));
    learn.marks.set(one, () => (mark.textContent = doneOf(one)));
    return choiceItem(() => openPage(learn, one), attributes, tell(PAGES[one - 1].title), mark);
  });
  return element('ol', { class: 'hl-chapters', 'aria-label': say('Chapters') }, ...entries);
}

// On a small screen a chapter covers the lower part of the page; folded, it leaves the page in sight.
function createFold(panel) {
  const button = createButton('hl-tab hl-learn-fold', () => fold(!panel.classList.contains('hl-folded')), {});
  const fold = (isFolded) => {
    panel.classList.toggle('hl-folded', isFolded);
    button.textContent = isFolded ? say('Unfold') : say('Fold');
    button.setAttribute('aria-expanded', String(!isFolded));
  };
  fold(false);
  return button;
}

// The time that the link of a teacher gives.
function drawClock({ clock, since }, { minutes, learn }) {
  const left = minutes === null || learn === null ? null : Math.ceil(minutes - (Date.now() - since) / MINUTE);
  clock.textContent =
    left === null ? '' : left > 0 ? sayCount(left, '{count} minute left', '{count} minutes left') : say('Time is up');
}

// Tasks

const createTask = (learn, { text, at }) =>
  element(
    'li',
    {},
    tell(text),
    ' ',
    createButton(
      'hl-act',
      () => scrollTo(learn, typeof at === 'function' ? at(learn.store.get()) : at),
      {},
      say('Show me where'),
    ),
  );

// Brings a panel into sight: on a small screen above the chapter, which lies over the lower part of the page.
function scrollTo({ panel }, at) {
  const root = panel.closest('.headlight');
  if (at === 'top') window.scrollTo(0, 0);
  else root.querySelector(at)?.scrollIntoView({ block: matchMedia(SHEET).matches ? 'start' : 'nearest' });
}

const nameOf = (number, task) => `${number}.${task + 1}`;

function check(learn, state) {
  const { progress } = learn;
  const { learn: number } = state;
  const found = (PAGES[number - 1].tasks ?? [])
    .map((task, place) => ({ name: nameOf(number, place), task }))
    .filter(({ name, task }) => !progress.get().tasks.includes(name) && task.isDone(state));
  if (found.length === 0) return;
  progress.change({ tasks: [...progress.get().tasks, ...found.map(({ name }) => name)] });
  if (isGuessing(learn, number)) return;
  markTasks(learn, number);
  const [{ name, task }] = found;
  learn.tasks.children[Number(name.at(-1)) - 1].scrollIntoView({ block: 'nearest' });
  if (task.result && matchMedia(SHEET).matches) scrollTo(learn, task.result);
}

function markTasks({ tasks, progress, marks }, number) {
  [...tasks.children].forEach((item, place) => {
    const isDone = progress.get().tasks.includes(nameOf(number, place));
    item.classList.toggle('hl-done', isDone);
    if (isDone && !item.querySelector('.hl-done-mark'))
      item.append(element('strong', { class: 'hl-done-mark', role: 'status' }, ` ✓ ${say('Done')}`));
  });
  marks.get(number)();
}
