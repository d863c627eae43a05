// The words of the sentence to choose from, and the whole translation without the chosen one.

import { element } from '../drawing/dom.js';
import { leaveOneOut, removedPlaces, translationWithout } from '../values/leave_one_out.js';
import { whyNot } from '../transport/requests.js';
import { closeAside, openAside } from '../state/actions.js';
import { chooseValue } from '../state/value_choice.js';
import { differs } from '../state/queries.js';
import { sourceWords } from './facts.js';
import { wordButton } from './words.js';
import { say } from '../locales/language.js';

export function createRemovedWord(server) {
  const words = element('p', { dir: 'auto' });
  const answer = element('p', { class: 'hl-verdict', role: 'status' });
  const title = element('h3', {}, say('What would it say without one of these?'));
  const node = element('section', { class: 'hl-part hl-left-out' }, title, words, answer);
  return {
    node,
    draw(state, before) {
      if (!differs(state, before, ['record', 'shown', 'removed', 'mode', 'kind', 'pin', 'words'])) return;
      node.hidden = whyNot(server, 'remove_word') !== null;
      if (state.record !== before.record) words.replaceChildren(...buttonsOf(server, state));
      const chosen = removedPlaces(state)?.[0];
      for (const button of words.children) button.setAttribute('aria-pressed', Number(button.dataset.place) === chosen);
      answer.textContent = translationWithout(state);
      if (state.removed !== before.removed && answer.textContent) scrollDownTo(answer);
    },
  };
}

// Scrolls the panel, but not the page, which may have gone to the matrix.
function scrollDownTo(answer) {
  const panel = answer.closest('.hl-scroll');
  panel.scrollTop += Math.max(0, answer.getBoundingClientRect().bottom - panel.getBoundingClientRect().bottom);
}

function buttonsOf({ store }, { record }) {
  return sourceWords(record).flatMap((word) => {
    const choose = () => {
      const state = store.get();
      const isChosen = state.aside && removedPlaces(state)?.[0] === word.places[0];
      store.change(isChosen ? closeAside(state) : openAside(state, (before) => removeWord(before, word)));
    };
    const button = wordButton(word, say('Translate without it'), choose);
    button.dataset.place = word.places[0];
    return [button, ' '];
  });
}

// Shows what is lost without a source word, whose pieces are hidden together; `made` is a word of the translation or null.
export function removeWord(state, from, made = null) {
  const words = state.words || [from, made].some((one) => one?.places.length > 1);
  return { ...chooseValue(state, leaveOneOut), words, pin: { row: made && made.places[0], column: from.places[0] } };
}
