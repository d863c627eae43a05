// The dialog about the model on screen: where it fails, its size, what was measured, and the card that came with it. Of an
// imported model it says first that it was not trained here.

import { element, nameInvisible } from './drawing/dom.js';
import { KINDS } from './domain/payload.js';
import { aboutModel } from './state/queries.js';
import { closeButton, note, openDialog, sayNote, section } from './drawing/widgets.js';
import { localNumber, say, spokenLanguage, tell, tellTitle } from './locales/language.js';

// Returns { dialog, open }.
export function createAbout({ store, ask }) {
  const body = element('div');
  const title = element('h2');
  const dialog = element('dialog', { class: 'hl-help', 'aria-label': say('About') }, title, body, closeButton());
  const open = () => {
    const state = store.get();
    if (!state.record) return;
    title.textContent = tellTitle(state.record.model.title);
    const about = aboutModel(state);
    body.replaceChildren(
      ...(about.origin ? [note(importedFrom(about.origin))] : []),
      ...weaknessesOf(about),
      listOf([...fixedRowsOf(about), [say('heads'), shapeOf(state.record)], ...measuredOf(about)]),
      ...(ask?.kept ? [keptModels(ask)] : []),
      cardOf(about),
    );
    openDialog(dialog);
  };
  return { dialog, open };
}

const importedFrom = (origin) =>
  say('Imported from {origin}. This project did not train the model and has not measured how good it is.', {
    origin: nameInvisible(origin),
  });

// Which models the page without a server can also use without a connection. Without its engine it says nothing.
function keptModels(ask) {
  const line = note();
  const write = async () => {
    const models = (await ask.kept()).join(', ');
    line.textContent = models
      ? say('Kept for use without a connection: {models}', { models })
      : say('No model is kept yet for use without a connection.');
  };
  write().catch(() => line.remove());
  return line;
}

// In the page's language, or else in English.
/** @type {(about: { weaknesses?: { [language: string]: string[] } }) => Element[]} */
function weaknessesOf({ weaknesses = {} }) {
  const lines = weaknesses[spokenLanguage()] ?? weaknesses.en ?? [];
  if (lines.length === 0) return [];
  const items = lines.map((line) => element('li', {}, nameInvisible(line)));
  return [section(say('Where it fails'), element('ul', { class: 'hl-weaknesses' }, ...items))];
}

function shapeOf({ attention }) {
  const sizeOf = ({ layers, heads }) => `${layers} × ${heads}`;
  const count = KINDS.reduce((sum, kind) => sum + attention[kind].layers * attention[kind].heads, 0);
  return say(
    'layers × heads of each: {encoder} in the encoder; {decoder} of self-attention and {cross} of cross-attention in the decoder; {count} in all',
    {
      encoder: sizeOf(attention.encoder),
      decoder: sizeOf(attention.decoder),
      cross: sizeOf(attention.cross),
      count,
    },
  );
}

// The rows of the card that the page can say in its language; the other values are free text.
const isFixed = ([, value]) => Array.isArray(value);
const fixedRowsOf = ({ card = [] }) => card.filter(isFixed).map(([name, value]) => [tell(name), tell(value)]);

function measuredOf({ trained, study }) {
  const lines = [];
  if (trained)
    lines.push([
      say('training sentences'),
      say('almost all have at most {tokens} tokens; their words have at most {pieces} tokens on average', {
        tokens: trained.tokens,
        pieces: localNumber(String(trained.pieces)),
      }),
    ]);
  if (study)
    lines.push([say('study of the heads'), say('measured over {count} sentences', { count: study.sentences })]);
  return lines;
}

function cardOf({ card = [] }) {
  const title = spokenLanguage() === 'en' ? say('The card of the model') : say('The card of the model, in English');
  const free = card.filter((row) => !isFixed(row));
  if (free.length === 0) return sayNote('This model came without a card.');
  /** @type {[string, string][]} */
  const lines = free.map(([name, value]) => [nameInvisible(tell(name)), withoutMarks(value)]);
  return element('details', { class: 'hl-part' }, element('summary', {}, title), listOf(lines, 'en'));
}

const withoutMarks = (value) => nameInvisible(value.replaceAll(/[*`]|\[([^\]]*)\]\([^)]*\)/g, '$1'));

/** @type {(lines: [name: string, value: string][], lang?: string | null) => Element} */
function listOf(lines, lang = null) {
  const pairs = lines.flatMap(([name, value]) => [element('dt', {}, name), element('dd', { lang }, value)]);
  return element('dl', { class: 'hl-about' }, ...pairs);
}
