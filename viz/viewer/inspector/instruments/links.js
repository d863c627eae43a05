// Word links in the inspector: how they were found, their error against your own links, and untranslated words.

import { createButton, element, visible } from '../../core/dom.js';
import { fixed } from '../../core/numbers.js';
import { whyNot } from '../../core/requests.js';
import { isDrawing, wayOf, waysOf } from '../../core/instruments/links.js';
import { actionButton, actions, note, numberText, shareBar } from '../../core/widgets.js';
import { createQuestion } from './question.js';
import { say } from '../../locales/language.js';

export function createLinks(server) {
  const { store } = server;
  const texts = {
    placeholder: say('Your own links, such as 0-0 2-1, then Enter'),
    'aria-label': say('Your own word links'),
  };
  const box = element('input', { class: 'hl-box', ...texts });
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') store.change({ gold: box.value.trim() });
  });
  const toggle = () => {
    store.change({ drawing: store.get().drawing ? null : { source: null } });
    hint.scrollIntoView({ block: 'nearest' });
  };
  const draw = actionButton(say('Draw them'), toggle);
  const hint = element('p', { class: 'hl-soft', role: 'status' });
  return createQuestion(server, 'links', say('Which words belong together?'), {
    controls: {
      node: element('div', {}, box, actions(draw), hint),
      draw(state, before) {
        if (state.gold !== before.gold) box.value = state.gold; // otherwise the person may be typing
        draw.disabled = whyNot(server, 'links') !== null;
        draw.setAttribute('aria-pressed', isDrawing(state));
        hint.textContent = isDrawing(state) ? hintOf(state) : '';
      },
    },
    draw: (state, answer) => {
      const chosen = wayOf(answer, state.linkedBy);
      return [
        note(
          answer.gold
            ? say(
                'In this sentence, with the alignment error rate against your links: 0 is best. Dotted: not among yours. Dashed: only among yours.',
              )
            : say('In this sentence; the strip shows the links. Words are counted from 0.'),
        ),
        element('ol', { class: 'hl-ways' }, ...waysOf(answer).map((way) => lineOf(store, way, chosen))),
        note(
          say(
            'Without “both directions joined”, each word of the translation chooses one source word. Joined, source words choose too, so that the links and their error differ.',
          ),
        ),
        element('h4', {}, say('Source words: how much all heads of Cross read each, in all rows')),
        coverageOf(answer, chosen),
        note(unlinkedText(answer, chosen)),
        note(
          say('Words of the translation: {words}', {
            words: answer.target_words.map((word, place) => `${place} ${word}`).join(' · '),
          }),
        ),
      ];
    },
  });
}

function hintOf({ record, drawing }) {
  const { source } = record.tokens;
  if (drawing.source === null) return say('Choose a source word in the strip.');
  const word = source
    .filter((token) => token.word === drawing.source)
    .map(visible)
    .join('');
  return say('Choose the word of the translation that “{word}” is linked to; for a link of yours, this removes it.', {
    word,
  });
}

function lineOf(store, { name, label, error }, chosen) {
  const attributes = { 'aria-pressed': String(name === chosen.name) };
  const number = error === null || name === 'own' ? null : numberText(say('AER {value}', { value: fixed(error) }));
  return element(
    'li',
    {},
    createButton('hl-choice', () => store.change({ linkedBy: name }), attributes, label, number),
  );
}

// About 1 for a word that is translated once (Tu et al. 2016).
function coverageOf({ coverage, source_words: words }, { links }) {
  const most = Math.max(1, ...coverage);
  const lines = words.map((word, place) => {
    const linked = links.some(([source]) => source === place);
    const name = element('span', {}, element('span', { class: 'hl-soft' }, `${place} `), element('bdi', {}, word));
    return element(
      'li',
      { class: linked ? null : 'hl-unlinked' },
      name,
      shareBar(coverage[place] / most),
      numberText(fixed(coverage[place], 2)),
    );
  });
  return element('ol', { class: 'hl-most-read', 'aria-label': say('Coverage') }, ...lines);
}

function unlinkedText({ source_words: all }, { links }) {
  const missing = all.filter((_, place) => !links.some(([source]) => source === place));
  if (missing.length === 0) return say('Every source word has a link.');
  const words = missing.map((word) => say('“{word}”', { word })).join(', ');
  return say('No word of the translation is linked to: {words}.', { words });
}
