// A word of the sentence that a click has removed: it is struck out, and below the words stands the translation without it.

import { createButton, element } from '../drawing/dom.js';
import { chooseKind, togglePin } from '../state/actions.js';
import { toAddress } from '../state/permalink.js';
import { isElsewhere, spotOfToken } from '../state/queries.js';
import { removedPlaces, translationWithout } from '../values/leave_one_out.js';
import { whyNot } from '../transport/requests.js';
import { say } from '../locales/language.js';

// Whether a click on a source token removes its word.
export const canRemove = (client, { record }, place) =>
  record.tokens.source[place].word !== null && whyNot(client, 'remove_word') === null;

// The translation without the word, and what else one can do with the word.
export function createRemoved(store) {
  const text = element('span', { role: 'status' });
  const act = (label, onclick) => createButton('hl-act', onclick, {}, label);
  const follow = act(say('Follow it'), () => store.change(followWord(store.get())));
  const retype = act('', () => (location.hash = addressWithout(store.get())));
  const back = act(say('Bring it back'), () => store.change({ removedAt: null }));
  const node = element('div', { class: 'hl-removed', hidden: true }, text, follow, retype, back);
  return { node, text, follow, retype, back };
}

export function drawRemoved(chips, { node, text, follow, retype, back }, state) {
  const places = removedPlaces(state) ?? [];
  [...chips.children].forEach((chip, place) => {
    chip.classList.toggle('hl-struck', places.includes(place));
    if (places.includes(place)) chip.setAttribute('aria-pressed', true);
    else chip.removeAttribute('aria-pressed');
  });
  node.hidden = places.length === 0;
  text.textContent = text.title = translationWithout(state);
  const isChosen = state.removedAt !== null;
  follow.hidden = back.hidden = !isChosen;
  follow.setAttribute('aria-pressed', isChosen && state.pin?.column === state.removedAt);
  retype.textContent = say('Retype without it');
  retype.title = say('Here the word is hidden at its place. A sentence that never had it can be translated otherwise.');
  retype.hidden = !isChosen || state.page.model === null || isElsewhere(state);
}

// Pins the word, in cross-attention where the heads on screen do not read the sentence.
function followWord(state) {
  const kind = state.kind === 'decoder' ? chooseKind(state, 'cross') : {};
  const there = { ...state, ...kind };
  const spot = spotOfToken(there, 'source', state.removedAt);
  return spot ? { ...kind, ...togglePin(there, spot) } : {};
}

// The address of the view for the sentence as it is without the word.
function addressWithout(state) {
  const { home } = state;
  const places = removedPlaces(state) ?? [];
  const left = home.record.tokens.source.filter(({ special }, place) => !special && !places.includes(place));
  const text = left.map((token) => token.text).join('');
  const record = { ...home.record, source_text: text.trim() };
  return toAddress({ ...state, home: { ...home, record }, removedAt: null, pin: null });
}
