// The dialog about the model on screen: what its card says of its size and its training, and what was measured. Of an
// imported model it says first that it was not trained here.

import { element, nameInvisible } from './core/dom.js';
import { aboutModel } from './core/state/queries.js';
import { note, openDialog } from './core/widgets.js';
import { localNumber, say, spokenLanguage, tell } from './locales/language.js';

// Returns { dialog, open }.
export function createAbout(store) {
  const body = element('dl', { class: 'hl-about' });
  const origin = element('div');
  const title = element('h2');
  const close = element('button', { type: 'submit', class: 'hl-button' }, say('Close'));
  const form = element('form', { method: 'dialog' }, close);
  const dialog = element('dialog', { class: 'hl-help', 'aria-label': say('About') }, title, origin, body, form);
  const open = () => {
    const state = store.get();
    if (!state.record) return;
    title.textContent = state.record.model.title;
    const about = aboutModel(state);
    const lines = linesOf(about);
    origin.replaceChildren(
      ...(about.origin ? [note(importedFrom(about.origin))] : []),
      ...(about.card && spokenLanguage() !== 'en' ? [note(say('The card of the model is in English.'))] : []),
    );
    body.replaceChildren(...(lines.length > 0 ? lines : [element('dd', {}, say('This model came without a card.'))]));
    openDialog(dialog);
  };
  return { dialog, open };
}

function importedFrom(origin) {
  return say('Imported from {origin}. This project did not train the model and has not measured how good it is.', {
    origin: nameInvisible(origin),
  });
}

function linesOf({ card = [], trained, study }) {
  const lines = card.map(([name, value]) => [tell(name), value, 'en']);
  if (trained)
    lines.push([
      say('training sentences'),
      say('almost all have at most {tokens} tokens, and {pieces} tokens a word', {
        tokens: trained.tokens,
        pieces: localNumber(String(trained.pieces)),
      }),
    ]);
  if (study)
    lines.push([say('study of the heads'), say('measured over {count} sentences', { count: study.sentences })]);
  return lines.flatMap(([name, value, lang = null]) => [
    element('dt', {}, nameInvisible(name)),
    element('dd', { lang }, nameInvisible(value.replaceAll(/[*`]|\[([^\]]*)\]\([^)]*\)/g, '$1'))),
  ]);
}
