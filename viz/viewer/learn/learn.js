// Learn: a course in chapters beside the live page. Its exercises are checked against the state of the viewer. The link
// names the chapter, so that a teacher can send it.
// @ts-nocheck

import { createButton, element, replaceKeepingFocus } from '../drawing/dom.js';
import { addressOf, asksFor, toAddress } from '../state/permalink.js';
import { EMPTY } from '../state/store.js';
import { useStorage } from '../transport/storage.js';
import { actionButton, actions, note } from '../drawing/widgets.js';
import { BACKWARDS, CHAPTERS } from './chapters.js';
import { createQuestion } from '../instruments/question.js';
import { routes } from '../instruments/routes.js';
import { say } from '../locales/language.js';

const STORED = 'headlight.learned'; // in the browser: the tasks that were done, "1.2" for the second of chapter 1
const SHEET = '(max-width: 760px)'; // see panels.css

// Returns { panel, open }: `open` opens the chapter that comes next. The chapter is a choice of the state, `learn`.
export function createLearn(server) {
  const { store } = server;
  const learn = {
    store,
    panel: createPanel(),
    routes: createQuestion(server, routes),
    done: new Set(stored()),
    former: null,
    chapter: null, // its number and the model, as they are drawn
    drawn: EMPTY,
  };
  learn.tasks = element('ol', { class: 'hl-tasks' });
  store.subscribe((state) => {
    if (!state.record) return;
    if (state.learn > CHAPTERS.length) return store.change({ learn: null }); // a link can name any number
    const chapter = `${state.learn} ${state.record.model.name}`;
    const isOther = chapter !== learn.chapter;
    if (isOther) drawChapter(learn, state);
    learn.chapter = chapter;
    if (state.learn === null) return;
    if (isOther) showSubject(learn.panel, CHAPTERS[state.learn - 1]);
    check(learn, state);
    learn.routes.draw(state, learn.drawn);
    learn.drawn = state;
  });
  return { panel: learn.panel, open: () => openChapter(learn, nextChapter(learn)) };
}

function createPanel() {
  return element('aside', { class: 'hl-learn hl-scroll', 'aria-label': say('Learn'), hidden: true });
}

function stored() {
  const text = useStorage((storage) => storage.getItem(STORED)) ?? '';
  return text.split(',').filter((name) => /^\d\.\d$/.test(name));
}

// The numbers of the chapters whose sentence this page can show: a chapter may need a model that is not here.
function openable({ about, home }) {
  return CHAPTERS.flatMap(({ begin }, place) =>
    begin.address || keepsSentence(home, begin) || Object.hasOwn(about, begin.model) ? [place + 1] : [],
  );
}

// Whether a chapter keeps the sentence on screen.
function keepsSentence({ record }, { own }) {
  return own && record.model.name !== BACKWARDS.model;
}

// The first chapter with a task that is not done; the first one when all are.
function nextChapter({ done, store }) {
  const numbers = openable(store.get());
  return numbers.find((number) => countDone(done, number) < CHAPTERS[number - 1].tasks.length) ?? numbers[0];
}

function countDone(done, number) {
  return CHAPTERS[number - 1].tasks.filter((_, task) => done.has(nameOf(number, task))).length;
}

function nameOf(number, task) {
  return `${number}.${task + 1}`;
}

// The address changes, and the page follows it as it follows every link.
function openChapter(learn, number) {
  const { store } = learn;
  const { home, kind, layer, learn: current } = store.get();
  const { begin, view } = CHAPTERS[number - 1];
  if (current === null) learn.former = toAddress(store.get());
  if (begin.address) {
    location.hash = `${begin.address}&learn=${number}`;
    return;
  }
  const keeps = keepsSentence(home, begin);
  const record = keeps ? home.record : { model: { name: begin.model }, source_text: begin.text };
  scrollTo(0, 0);
  const { kind: wanted = kind, ...open } = view ?? {};
  const choices = keeps ? { kind: wanted, layer: layer + 1, ...open } : open;
  location.hash = addressOf(record, { ...choices, learn: number });
}

// A sentence that Learn brought gives way to the sentence that was on screen before.
function close({ store, former }) {
  const { record } = store.get().home;
  const isOfLearn = CHAPTERS.some(
    ({ begin: { model, text, own } }) => record.model.name === model && (!own || record.source_text === text),
  );
  if (former === null || !isOfLearn || asksFor(former, record)) store.change({ learn: null });
  else location.hash = former;
}

// Drawing

function drawChapter(learn, { learn: number, record }) {
  const { panel } = learn;
  panel.hidden = number === null;
  document.body.classList.toggle('hl-learning', number !== null);
  if (number === null) return;
  const { title, text, tasks, view } = CHAPTERS[number - 1];
  learn.routes.node.hidden = view?.ask !== routes.name; // it stays in its place, so the focus finds its button again
  learn.tasks.replaceChildren(...tasks.map((task) => element('li', {}, task.text())));
  const go = (label, to, attributes = {}) => actionButton(label, () => openChapter(learn, to), attributes);
  const numbers = openable(learn.store.get());
  const [back, next] = [numbers.findLast((one) => one < number), numbers.find((one) => one > number)];
  replaceKeepingFocus(
    panel,
    element(
      'header',
      {},
      element('span', { class: 'hl-soft' }, say('Learn · {number} of {count}', { number, count: CHAPTERS.length })),
      createFold(panel),
      createButton('hl-tab', () => close(learn), {}, say('Close')),
    ),
    element('h2', {}, title()),
    ...text(record).map((paragraph) => element('p', {}, paragraph)),
    element('h3', {}, say('Try it')),
    learn.tasks,
    learn.routes.node,
    actions(go(say('Back'), back, { disabled: !back }), go(say('Next'), next, { disabled: !next, class: 'hl-button' })),
    chapterList(learn, number, numbers),
    ...(numbers.length < CHAPTERS.length
      ? [note(say('The grey chapters need a model that this page does not have.'))]
      : []),
  );
  panel.scrollTo(0, 0);
  markTasks(learn, number);
}

// On a small screen the chapter lies over the lower part of the page: what it is about scrolls to the part above it.
function showSubject(panel, { subject }) {
  if (matchMedia(SHEET).matches) panel.closest('.headlight').querySelector(subject).scrollIntoView();
}

function chapterList(learn, number, numbers) {
  learn.progress = CHAPTERS.map(() => element('span', { class: 'hl-soft hl-number' }));
  const entries = CHAPTERS.map(({ title }, place) => {
    const one = place + 1;
    const attributes = { 'aria-current': one === number ? 'step' : null, disabled: !numbers.includes(one) };
    const open = () => openChapter(learn, one);
    return element('li', {}, createButton('hl-choice', open, attributes, title(), learn.progress[place]));
  });
  return element('ol', { class: 'hl-chapters', 'aria-label': say('Chapters') }, ...entries);
}

// On a small screen a chapter covers the lower part of the page; folded, it leaves the page in sight.
function createFold(panel) {
  const button = createButton('hl-tab hl-learn-fold', () => fold(!panel.classList.contains('hl-folded')), {});
  const fold = (isFolded) => {
    panel.classList.toggle('hl-folded', isFolded);
    button.textContent = isFolded ? say('Unfold') : say('Fold');
    button.setAttribute('aria-expanded', !isFolded);
  };
  fold(false);
  return button;
}

// Tasks

function check(learn, state) {
  const { learn: number, record } = state;
  const found = CHAPTERS[number - 1].tasks
    .map((task, place) => ({ name: nameOf(number, place), task }))
    .filter(({ name, task }) => !learn.done.has(name) && record && task.isDone(state));
  if (found.length === 0) return;
  for (const { name } of found) learn.done.add(name);
  useStorage((storage) => storage.setItem(STORED, [...learn.done].join(',')));
  markTasks(learn, number);
}

function markTasks({ tasks, done, progress }, number) {
  [...tasks.children].forEach((item, place) => {
    const isDone = done.has(nameOf(number, place));
    item.classList.toggle('hl-done', isDone);
    if (isDone && !item.querySelector('.hl-done-mark'))
      item.append(element('strong', { class: 'hl-done-mark', role: 'status' }, ` ✓ ${say('Done')}`));
  });
  progress.forEach((mark, place) => (mark.textContent = progressOf(countDone(done, place + 1), CHAPTERS[place])));
}

function progressOf(count, { tasks }) {
  if (count === 0) return '';
  return count === tasks.length ? `✓ ${say('Done')}` : say('{count} of {total}', { count, total: tasks.length });
}
