// The panel Examples: what the head on screen does over many sentences, and where it does it most clearly.

import { element, nameInvisible, replaceKeepingFocus } from '../drawing/dom.js';
import { askExamples } from '../transport/effects.js';
import { fixed } from '../drawing/numbers.js';
import { headName, titleOfHeads } from '../state/labels.js';
import { LIMITS } from '../domain/limits.js';
import { addressOfCell } from '../state/permalink.js';
import { refusalIn, whyNot } from '../transport/requests.js';
import { showHead } from '../state/actions.js';
import { aboutModel, differs, rowOffset } from '../state/queries.js';
import { chosenHeads } from '../domain/heads.js';
import { MOST_SENTENCES, headSurvey, sentencesOf } from '../domain/survey.js';
import { actionButton, actions, choiceItem, hitLine, note, numberText, sayNote } from '../drawing/widgets.js';
import { section, shareBar } from '../drawing/widgets.js';
import { cellName } from '../drawing/names.js';
import { say, sayCount, tell } from '../locales/language.js';

const INPUTS = ['record', 'surveys', 'kind', 'layer', 'head', 'selection', 'about'];
const pairsNote = () =>
  say(
    'A row’s token and its strongest key. Only the ten most frequent pairs of each part of {count} sentences are counted, so a count can be too low.',
    { count: LIMITS.sentences },
  );

export function createExamples(client) {
  const { store } = client;
  const box = element('textarea', {
    class: 'hl-box',
    rows: 2,
    dir: 'auto',
    placeholder: say('Paste up to {count} sentences, one a line, or a text', { count: MOST_SENTENCES }),
    'aria-label': say('Your text'),
  });
  const ask = (sentences) => sentences.length > 0 && askExamples(client, sentences.slice(0, MOST_SENTENCES));
  const own = actionButton(say('Read them'), () => ask(sentencesOf(box.value)));
  const project = actionButton('', () => ask(aboutModel(store.get()).everyday));
  const progress = note();
  const result = element('div');
  const title = element('h3', {}, say('What does this head do in other sentences?'));
  const form = element('section', { class: 'hl-part' }, title, box, actions(own, project), progress);
  return {
    node: element('div', {}, form, result),
    draw(state, before) {
      if (!differs(state, before, INPUTS)) return;
      const { everyday } = aboutModel(state);
      const reason = whyNot(client, 'examples');
      box.disabled = own.disabled = project.disabled = reason !== null;
      project.hidden = !everyday;
      project.textContent = sayCount(
        everyday?.length ?? 0,
        'Or {count} sentence of the project',
        'Or {count} sentences of the project',
      );
      progress.textContent = reason === null ? progressOf(client, state) : refusalIn(client, reason);
      replaceKeepingFocus(result, ...(reason ? [] : foundOf(store, state)));
    },
  };
}

const surveyOf = ({ surveys, record }) => surveys[record.model.name] ?? null;

function progressOf({ ask }, state) {
  const survey = surveyOf(state);
  if (!survey)
    return ask.isHere?.(state.record.model.name)
      ? say('Every head is read over all of them. They do not leave this page.')
      : say('Every head is read over all of them. The server keeps none.');
  const { done, sentences, found } = survey;
  const skipped = found?.skipped.length ?? 0;
  const read = sayCount(sentences.length, '{done} of {count} sentence read.', '{done} of {count} sentences read.', {
    done,
  });
  if (skipped === 0) return read;
  const [[, reason]] = found.skipped;
  const left = sayCount(
    skipped,
    '{count} sentence could not be read: {reason}',
    '{count} sentences could not be read: {reason}',
    { reason: tell(reason) },
  );
  return `${read} ${left}`;
}

function foundOf(store, state) {
  const survey = surveyOf(state);
  if (!survey?.found) return [];
  const [one, ...others] = chosenHeads(state);
  if (others.length > 0) return [sayNote('Choose one head to see what it does in these sentences.')];
  const found = headSurvey(survey.found, one, rowOffset(state));
  if (!found) return [];
  const name = titleOfHeads(state);
  return [
    section(
      say('Its strongest cells'),
      sayNote('{head}. Each opens its sentence; special tokens are left out.', { head: name }),
      hitsOf(state, one, survey, found),
    ),
    section(
      sayCount(found.sentences, 'Its role in each of {count} sentence', 'Its role in each of {count} sentences'),
      rolesOf(found),
    ),
    section(say('What its rows read most'), pairsOf(found), note(pairsNote())),
    section(
      say('The heads most alike'),
      alikeOf(store, one[0], found),
      sayNote('The mean distance of their rows in bits: 0 is equal, 1 has nothing in common (Clark et al. 2019).'),
    ),
  ];
}

// A cell has the name that it has in the matrix.
function hitsOf(state, [kind, layer, head], { sentences, found }, { hits }) {
  const lines = hits.map(([weight, place, row, column]) => {
    const { source, predicted } = found.sentences[place];
    const read = ['<s>', ...predicted];
    const [token, reads] = kind === 'encoder' ? [source[row], null] : [predicted[row], tokenOf(read[row])];
    const to = tokenOf(kind === 'decoder' ? read[column] : source[column]);
    const href = addressOfCell(state, sentences[place], { kind, layer, head, row, column });
    return hitLine(href, cellName({ token: tokenOf(token), reads }, to), fixed(weight), sentences[place]);
  });
  return element('ol', { 'aria-label': say('Strongest cells') }, ...lines);
}

const tokenOf = (text) => ({ text: text.trim() });

function rolesOf({ roles, sentences }) {
  const lines = roles.map(([role, count]) =>
    element('li', {}, tell(role), shareBar(count / sentences), numberText(String(count))),
  );
  return element('ol', { class: 'hl-most-read', 'aria-label': say('Roles') }, ...lines);
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
  return element('ol', { class: 'hl-most-read', 'aria-label': say('Pairs') }, ...lines);
}

function alikeOf(store, kind, { alike }) {
  const lines = alike.map(({ layer, head, distance }) => {
    const open = () => store.change(showHead(store.get(), [kind, layer, head]));
    return choiceItem(open, {}, headName(layer, head), numberText(fixed(distance)));
  });
  return element('ol', { 'aria-label': say('Heads most alike') }, ...lines);
}
