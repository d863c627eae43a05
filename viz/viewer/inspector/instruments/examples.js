// The panel Examples: what the head on screen does over many sentences, and where it does it most clearly.

import { createButton, element, nameInvisible } from '../../core/dom.js';
import { askExamples } from '../../core/effects.js';
import { fixed, plural, titleOf } from '../../core/labels.js';
import { addressOfCell } from '../../core/permalink.js';
import { whyNot } from '../../core/requests.js';
import { aboutModel, chosenHeads, differs, headOf } from '../../core/store.js';
import { MOST_SENTENCES, headSurvey, sentencesOf } from '../../core/instruments/survey.js';
import { actionButton, actions, note, numberText, section, shareBar } from '../../core/widgets.js';

const INPUTS = ['record', 'surveys', 'kind', 'layer', 'head', 'selection', 'about', 'busy'];
const PAIRS =
  'A row’s token and its strongest key. Only the ten most frequent pairs of each part of 20 sentences are counted, so a count can be too low.';
const PASTE = `Paste up to ${MOST_SENTENCES} sentences, one a line, or a text`;

export function createExamples(server) {
  const { store } = server;
  const box = element('textarea', {
    class: 'hl-box',
    rows: 2,
    dir: 'auto',
    placeholder: PASTE,
    'aria-label': 'Your text',
  });
  const read = (sentences) => sentences.length > 0 && askExamples(server, sentences.slice(0, MOST_SENTENCES));
  const own = actionButton('Read them', () => read(sentencesOf(box.value)));
  const project = actionButton('', () => read(aboutModel(store.get()).everyday));
  const progress = note();
  const result = element('div');
  const title = element('h3', {}, 'Where else does this head do that?');
  const form = element('section', { class: 'hl-part' }, title, box, actions(own, project), progress);
  return {
    node: element('div', {}, form, result),
    draw(state, before) {
      if (!differs(state, before, INPUTS)) return;
      const { everyday } = aboutModel(state);
      const reason = whyNot(server, 'examples');
      box.disabled = own.disabled = project.disabled = reason !== null;
      project.hidden = !everyday;
      project.textContent = `Or ${plural(everyday?.length ?? 0, 'sentence')} of the project`;
      progress.textContent = reason ?? progressOf(state);
      result.replaceChildren(...(reason ? [] : foundOf(store, state)));
    },
  };
}

function surveyOf({ surveys, record }) {
  return surveys[record.model.name] ?? null;
}

function progressOf(state) {
  const survey = surveyOf(state);
  if (!survey) return 'Every head is read over all of them. The server keeps none.';
  const { done, sentences, found } = survey;
  const skipped = found?.skipped.length ?? 0;
  const left = skipped > 0 ? ` ${plural(skipped, 'sentence')} could not be read: ${found.skipped[0][1]}` : '';
  return `${done} of ${plural(sentences.length, 'sentence')} read.${left}`;
}

function foundOf(store, state) {
  const survey = surveyOf(state);
  if (!survey?.found) return [];
  const [one, ...others] = chosenHeads(state);
  if (others.length > 0) return [note('Choose one head to see what it does in these sentences.')];
  const found = headSurvey(survey.found, one);
  if (!found) return [];
  const name = titleOf({ ...state, mode: 'weight' });
  return [
    section(
      'Its strongest cells',
      note(`${name}. Each opens its sentence; special tokens are left out.`),
      hitsOf(state, one, survey, found),
    ),
    section(`Its role in each of ${plural(found.sentences, 'sentence')}`, rolesOf(found)),
    section('What its rows read most', pairsOf(found), note(PAIRS)),
    section(
      'The heads most alike',
      alikeOf(store, one[0], found),
      note('The mean distance of their rows in bits: 0 is equal, 1 has nothing in common (Clark et al. 2019).'),
    ),
  ];
}

function hitsOf(state, [kind, layer, head], { sentences, found }, { hits }) {
  const lines = hits.map(([weight, place, row, column]) => {
    const tokens = found.sentences[place];
    const from = tokens[kind === 'encoder' ? 'source' : 'predicted'][row];
    const to = kind === 'decoder' ? (['<s>', ...tokens.predicted][column] ?? '') : tokens.source[column];
    const href = addressOfCell(state, sentences[place], { kind, layer, head, row, column });
    const names = element(
      'span',
      {},
      element('bdi', {}, nameInvisible(from.trim())),
      ' ← ',
      element('bdi', {}, nameInvisible(to.trim())),
    );
    const sentence = element(
      'span',
      { class: 'hl-soft hl-hit-sentence', dir: 'auto' },
      nameInvisible(sentences[place]),
    );
    return element(
      'li',
      {},
      element('a', { class: 'hl-choice hl-hit', href }, names, numberText(fixed(weight)), sentence),
    );
  });
  return element('ol', { 'aria-label': 'Strongest cells' }, ...lines);
}

function rolesOf({ roles, sentences }) {
  const lines = roles.map(([role, count]) =>
    element('li', {}, role, shareBar(count / sentences), numberText(String(count))),
  );
  return element('ol', { class: 'hl-most-read', 'aria-label': 'Roles' }, ...lines);
}

function pairsOf({ pairs }) {
  const most = Math.max(1, ...pairs.map(([, , count]) => count));
  const lines = pairs.map(([query, key, count]) => {
    const names = element(
      'span',
      {},
      element('bdi', {}, nameInvisible(query.trim())),
      ' ← ',
      element('bdi', {}, nameInvisible(key.trim())),
    );
    return element('li', {}, names, shareBar(count / most), numberText(String(count)));
  });
  return element('ol', { class: 'hl-most-read', 'aria-label': 'Pairs' }, ...lines);
}

function alikeOf(store, kind, { alike }) {
  const lines = alike.map(({ layer, head, distance }) => {
    const open = () => store.change(headOf({ kind, layer, head }));
    return element(
      'li',
      {},
      createButton('hl-choice', open, {}, `layer ${layer + 1}, head ${head + 1}`, numberText(fixed(distance))),
    );
  });
  return element('ol', { 'aria-label': 'Heads most alike' }, ...lines);
}
