// For teachers: a dialog that makes a link to a chapter with a sentence and a time, and the sheet to print.

import { element } from '../drawing/dom.js';
import { actionButton, actions, closeButton, openDialog, sayNote } from '../drawing/widgets.js';
import { copy } from '../drawing/files.js';
import { addressOf } from '../state/permalink.js';
import { offerLanguages, say, tell } from '../locales/language.js';
import { BACKWARDS, CHAPTERS } from './chapters.js';
import { createPaper } from './paper.js';

const [LEAST, MOST] = [0, 90]; // minutes
const LONGEST = 300; // characters of a sentence, which the code beside the link has to hold

// Returns { node, open, openResult }: `open(number)` begins with this page of the course. `node` holds the dialog while it is open.
export function createLesson(store, progress, pages, order) {
  const paper = createPaper(store, progress);
  const node = element('div');
  const open = (number) => {
    const { dialog, begin } = createDialog(store, pages, order, paper.openSheet);
    dialog.addEventListener('close', () => dialog.remove());
    node.replaceChildren(dialog);
    begin(number);
  };
  return { node, open, openResult: () => paper.openResult(CHAPTERS) };
}

// `open(page, given)` opens the sheet of a page.
function createDialog(store, pages, order, open) {
  const controls = createControls({ follow, write, take, openSheet });
  const { language, chapter, model, sentence, link, withKey, said, dialog } = controls;
  offerLanguages(language, write);
  const pageChosen = () => pages[Number(chapter.value) - 1];

  // A chapter that brings its own model has no choice of models; the questions before and after need none.
  function follow() {
    const { begin } = pageChosen();
    const { record } = store.get();
    /** @type {HTMLSelectElement | null} */
    const offered = document.querySelector('#hl-model select');
    const models = [...(offered?.options ?? [])].filter(({ value }) => fits(begin, value));
    model.replaceChildren(...models.map(({ value, text }) => new Option(text, value)));
    const isKept = models.some(({ value }) => value === record.model.name);
    if (isKept) model.value = record.model.name;
    sentence.value = isKept ? record.source_text.slice(0, LONGEST) : (begin?.text ?? '');
    for (const one of [model, sentence]) one.closest('label')?.toggleAttribute('hidden', models.length === 0);
    write();
  }

  function write() {
    said.textContent = '';
    link.value = `${location.href.split('#')[0]}${addressFor(pageChosen(), controls)}`;
  }

  async function take() {
    said.textContent = (await copy(link.value)) ? say('The link is copied.') : say('Select the text and copy it.');
  }

  function openSheet() {
    dialog.close();
    open(pageChosen(), { link: link.value, text: sentence.value, model: model.value, withKey: withKey.checked });
  }

  const begin = (number) => {
    chapter.replaceChildren(...order.map((one) => new Option(tell(pages[one - 1].title), one, false, one === number)));
    follow();
    openDialog(dialog);
  };
  return { dialog, begin };
}

function addressFor({ begin }, { minutes, chapter, language, model, sentence }) {
  const time = Math.min(MOST, Math.max(LEAST, Math.round(minutes.valueAsNumber) || 0));
  const further = { learn: chapter.value, ...(time > 0 && { minutes: String(time) }), lang: language.value };
  if (begin?.address) return `${begin.address}reverse&${new URLSearchParams(further)}`;
  const task = begin ? { model: { name: model.value }, source_text: sentence.value } : null;
  return addressOf(task, further);
}

function createControls({ follow, write, take, openSheet }) {
  const box = (attributes) => element('input', { class: 'hl-box', ...attributes });
  const list = (onchange) => element('select', { class: 'hl-box', onchange });
  const field = (label, control) => element('label', {}, label, control);
  const [language, chapter, model] = [list(null), list(follow), list(write)];
  const sentence = box({ maxlength: LONGEST, dir: 'auto', oninput: write });
  const minutes = box({ type: 'number', min: LEAST, max: MOST, value: 10, oninput: write });
  const link = box({ readonly: true, dir: 'ltr', 'aria-label': say('Link') });
  const withKey = element('input', { type: 'checkbox' });
  const said = element('span', { class: 'hl-soft', role: 'status' });
  const dialog = element(
    'dialog',
    { class: 'hl-help hl-lesson', 'aria-label': say('For teachers') },
    element('h2', {}, say('For teachers')),
    sayNote('Choose what your class opens. The link holds it all: there is no account, and nothing is sent.'),
    field(say('Language'), language),
    field(say('Chapter'), chapter),
    field(say('Model'), model),
    field(say('Sentence'), sentence),
    field(say('Minutes (0: no limit)'), minutes),
    field(say('Link'), link),
    actions(actionButton(say('Copy'), take), said),
    element('label', { class: 'hl-check' }, withKey, ` ${say('with an answer key on a page of its own')}`),
    actions(actionButton(say('Sheet to print'), openSheet, { class: 'hl-button' })),
    closeButton(),
  );
  return { language, chapter, model, sentence, minutes, link, withKey, said, dialog };
}

function fits(begin, model) {
  if (!begin || begin.address) return false;
  return begin.own ? model !== BACKWARDS.model : model === begin.model;
}
