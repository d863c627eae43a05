// Learn: a course in chapters beside the live page. Its exercises are checked against the state of the viewer. The link
// names the chapter, so that a teacher can send it.

import { createButton, element } from '../core/dom.js';
import { addressOf, asksFor, toAddress } from '../core/state/permalink.js';
import { EMPTY } from '../core/state/store.js';
import { useStorage } from '../core/storage.js';
import { actionButton, actions } from '../core/widgets.js';
import { BACKWARDS, CHAPTERS } from './chapters.js';
import { createRoutes } from '../routes/routes.js';
import { say } from '../locales/language.js';

const STORED = 'headlight.learned'; // in the browser: the tasks that were done, "1.2" for the second of chapter 1

// Returns { panel, button }: the button opens the chapter that comes next. The chapter is a choice of the state, `learn`.
export function createLearn(server) {
  const { store } = server;
  const learn = {
    store,
    panel: createPanel(),
    routes: createRoutes(server),
    done: new Set(stored()),
    former: null,
    drawn: EMPTY,
  };
  learn.tasks = element('ol', { class: 'hl-tasks' });
  store.subscribe((state, before) => {
    if (!state.record) return;
    if (state.learn > CHAPTERS.length) return store.change({ learn: null }); // a link can name any number
    if (state.learn !== before.learn || !before.record) drawChapter(learn, state);
    if (state.learn === null) return undefined;
    check(learn, state);
    learn.routes.draw(state, learn.drawn);
    learn.drawn = state;
  });
  const open = () => openChapter(learn, nextChapter(learn));
  return { panel: learn.panel, button: createButton('hl-tab hl-learn-open', open, {}, say('Learn')) };
}

function createPanel() {
  return element('aside', { class: 'hl-learn hl-scroll', 'aria-label': say('Learn'), hidden: true });
}

function stored() {
  const text = useStorage((storage) => storage.getItem(STORED)) ?? '';
  return text.split(',').filter((name) => /^\d\.\d$/.test(name));
}

// The first chapter with a task that is not done; the first one when all are.
function nextChapter({ done }) {
  const open = CHAPTERS.findIndex(({ tasks }, place) => tasks.some((_, task) => !done.has(nameOf(place + 1, task))));
  return Math.max(0, open) + 1;
}

function nameOf(number, task) {
  return `${number}.${task + 1}`;
}

// The address changes, and the page follows it as it follows every link.
function openChapter(learn, number) {
  const { store } = learn;
  const { about, home, kind, layer, learn: current } = store.get();
  const { begin, view } = CHAPTERS[number - 1];
  if (current === null) learn.former = toAddress(store.get());
  if (begin.address) {
    location.hash = `${begin.address}&learn=${number}`;
    return;
  }
  const keeps = begin.own && home.record.model.name !== BACKWARDS.model;
  if (!keeps && !Object.hasOwn(about, begin.model)) {
    store.change({ error: say('This chapter needs the model “{model}”, which is not here.', { model: begin.model }) });
    return;
  }
  const record = keeps ? home.record : { model: { name: begin.model }, source_text: begin.text };
  scrollTo(0, 0);
  const { kind: wanted = kind, ...open } = view ?? {};
  const choices = keeps ? { kind: wanted, layer: layer + 1, ...open } : open;
  location.hash = addressOf(record, { ...choices, learn: number });
}

// A sentence that Learn brought gives way to the one that was on screen before.
function close({ store, former }) {
  const { record } = store.get().home;
  const isOfLearn = CHAPTERS.some(
    ({ begin: { model, text, own } }) => record.model.name === model && (!own || record.source_text === text),
  );
  if (former === null || !isOfLearn || asksFor(former, record)) store.change({ learn: null });
  else location.hash = former;
}

// Drawing

function drawChapter(learn, { learn: number }) {
  const { panel } = learn;
  panel.hidden = number === null;
  document.body.classList.toggle('hl-learning', number !== null);
  if (number === null) return;
  const { title, text, tasks } = CHAPTERS[number - 1];
  learn.tasks.replaceChildren(...tasks.map((task) => element('li', {}, task.text())));
  const go = (label, to, attributes = {}) => actionButton(label, () => openChapter(learn, to), attributes);
  panel.replaceChildren(
    element(
      'header',
      {},
      element('span', { class: 'hl-soft' }, say('Learn · {number} of {count}', { number, count: CHAPTERS.length })),
      createButton('hl-tab', () => close(learn), {}, say('Close')),
    ),
    element('h2', {}, title()),
    ...text().map((paragraph) => element('p', {}, paragraph)),
    element('h3', {}, say('Try it')),
    learn.tasks,
    learn.routes.node,
    actions(
      go(say('Back'), number - 1, { disabled: number === 1 }),
      go(say('Next'), number + 1, { disabled: number === CHAPTERS.length, class: 'hl-button' }),
    ),
    chapterList(learn, number),
  );
  panel.scrollTo(0, 0);
  markTasks(learn, number);
}

function chapterList(learn, number) {
  const entries = CHAPTERS.map(({ title }, place) => {
    const current = place + 1 === number ? 'step' : null;
    const button = createButton('hl-choice', () => openChapter(learn, place + 1), { 'aria-current': current }, title());
    return element('li', {}, button);
  });
  return element('ol', { class: 'hl-chapters', 'aria-label': say('Chapters') }, ...entries);
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

function markTasks({ tasks, done }, number) {
  [...tasks.children].forEach((item, place) => {
    const isDone = done.has(nameOf(number, place));
    item.classList.toggle('hl-done', isDone);
    if (isDone && !item.querySelector('.hl-done-mark'))
      item.append(element('strong', { class: 'hl-done-mark', role: 'status' }, ` ✓ ${say('Done')}`));
  });
}
