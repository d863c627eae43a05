// The language of the page. English texts are the keys of the catalogues in this folder, one file for each language; a
// text that a catalogue lacks stays English. `say` is for the texts of the code, `tell` for texts that come with data.

import { OF_LETTERS } from './letters.js';

const ENGLISH = 'en';
const LABELS = ['aria-label', 'label', 'placeholder', 'title']; // attributes that a person reads
const UNTRANSLATED = '.headlight, #hl-prefix, #hl-examples, #hl-language option, textarea, pre, script, style';
const SCORE = /^(\d+\.\d M|[a-z]+ \d+\.\d)$/i; // a part of a title: the size, or a score
// The place of a value in a text, with a format of Python: "," groups thousands, ".2f" writes two decimals.
const PLACE = /\{(\w+)(?::(,|\.\df))?\}/;

const [OPENING, CLOSING] = [/[“„«]\u202f?$/, /^\u202f?[”“»]/];

const ROOT = typeof document === 'undefined' ? null : document.documentElement;
const isText = () => location.protocol === 'about:'; // in a frame, where no address may change
const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];
/** @type {Map<string, string> | null} */
let codesByName = null; // of two letters, by the English names of their languages
let areLetters = false; // whether the texts are about a model that reads and writes letters
let known = [ENGLISH]; // codes of the languages that the page can speak
/** @type {string | null} */
let chosen = null; // the language that the link or the person chose; it stays in the link
let spoken = languageOfTexts(ENGLISH, {}); // of the page
if (ROOT) keepLanguage(ROOT);

// Takes a language and its catalogue: English texts with their translations.
/** @type {(code: string, texts: Catalogue) => void} */
export function speak(code, texts) {
  spoken = languageOfTexts(code, texts);
  if (ROOT) ROOT.lang = code;
}

/** @type {(code: string, texts: Catalogue) => { code: string; texts: Catalogue; mark: string; plurals: Intl.PluralRules }} */
function languageOfTexts(code, texts) {
  const mark = new Intl.NumberFormat(code).format(0.5)[1];
  const own = Object.assign(Object.create(null), texts); // so that no text is a name of Object
  return { code, texts: own, mark, plurals: new Intl.PluralRules(code) };
}

// Gradio writes the browser's language into the document when it begins, which may be after the page has chosen its own.
function keepLanguage(root) {
  const restore = () => {
    if (root.lang !== spoken.code) root.lang = spoken.code;
  };
  restore();
  new MutationObserver(restore).observe(root, { attributes: true, attributeFilter: ['lang'] });
}

export const spokenLanguage = () => spoken.code;

export const spokenTexts = () => ({ ...spoken.texts });

// Whether what is said next is about a model of letters: then it says "letter" where it says "word" of others.
/** @type {(isSo: boolean) => void} */
export function speakOfLetters(isSo) {
  areLetters = isSo;
}

// Texts

// The translation of an English text; the text itself where there is none.
/** @type {(text: string) => string} */
function translated(text) {
  const said = (areLetters && OF_LETTERS[text]) || text;
  return /** @type {string | undefined} */ (spoken.texts[said]) ?? said;
}

// A text with its values. The first argument is a literal, so that a test can collect all texts.
/** @type {(text: string, values?: Values) => string} */
export const say = (text, values = {}) => sayParts(text, values).join('');

// A text about a count, which is its value {count}: `one` for 1 in English, else `other`, which is also the key.
/** @type {(count: number, one: string, other: string, values?: Values) => string} */
export function sayCount(count, one, other, values = {}) {
  if (areLetters && OF_LETTERS[other]) return say(other, { count, ...values }); // of many
  const forms = /** @type {{ [category: string]: string }} */ (spoken.texts[other] ?? { one, other });
  return fill(forms[spoken.plurals.select(count)] ?? forms.other, { count, ...values }).join('');
}

// A text whose values may be elements: the pieces for `append`.
/** @type {(text: string, values: Values) => Piece[]} */
export const sayParts = (text, values) => keepQuoted(fill(translated(text), values));

// An element between quotation marks stays on one line with them.
/** @type {(pieces: Piece[]) => Piece[]} */
const keepQuoted = (pieces) =>
  pieces.flatMap(
    /** @type {(piece: Piece, place: number) => Piece[]} */ (piece, place) => {
      const [before, after] = [pieces[place - 1], pieces[place + 1]];
      if (typeof piece === 'string') {
        const start = isQuoted(pieces, place - 1) ? piece.replace(CLOSING, '') : piece;
        return [isQuoted(pieces, place + 1) ? start.replace(OPENING, '') : start];
      }
      if (!isQuoted(pieces, place)) return [piece];
      const quoted = document.createElement('span');
      quoted.className = 'hl-quoted';
      quoted.append(String(before).match(OPENING)?.[0] ?? '', piece, String(after).match(CLOSING)?.[0] ?? '');
      return [quoted];
    },
  );

function isQuoted(pieces, place) {
  const [before, piece, after] = [-1, 0, 1].map((step) => pieces[place + step] ?? '');
  return typeof piece === 'object' && OPENING.test(before) && CLOSING.test(after);
}

// A text that came with data: a text without values, or [text, values] from model/errors.py.
/** @type {(said: Said) => string} */
export const tell = (said) =>
  typeof said === 'string' ? translated(said) : fill(translated(said[0]), said[1]).join('');

// The title of a model, such as "German → English · 9.9 M", with its languages and numbers as the page writes them.
/** @type {(title: string) => string} */
export function tellTitle(title) {
  const write = (part) => (SCORE.test(part) ? localNumber(part) : (languageNamed(part) ?? tell(part)));
  return title
    .split(/( [→·] )/)
    .map(write)
    .join('');
}

// The name in the language of the page of a language with this English name; null if there is none.
/** @type {(name: string) => string | null} */
function languageNamed(name) {
  const codes = LETTERS.flatMap((one) => LETTERS.map((two) => `${one}${two}`));
  codesByName ??= new Map(codes.map((code) => [nameOfLanguage(code, ENGLISH), code]));
  const code = codesByName.get(name);
  return code === undefined ? null : nameOfLanguage(code, spoken.code);
}

/** @type {(code: string, language: string) => string} */
function nameOfLanguage(code, language) {
  const name = new Intl.DisplayNames([language], { type: 'language' }).of(code) ?? code;
  return name[0].toLocaleUpperCase(language) + name.slice(1);
}

// A text that the page says later, for `tell`: a Worker has no catalogue.
/** @type {(text: string, values?: Values) => [text: string, values: Values]} */
export const message = (text, values = {}) => [text, values];

// An error with a sentence for the person, in English and as `said` for `tell`.
/** @type {(text: string, values?: Values) => Error & { said: Said }} */
export function fault(text, values = {}) {
  const said = message(text, values);
  return Object.assign(new Error(inEnglish(said)), { said });
}

/** @type {(said: [text: string, values: Values]) => string} */
export function inEnglish([text, values]) {
  /** @type {(value: Values[string], format: string) => string} */
  const write = (value, format) => (Array.isArray(value) ? inEnglish(value) : formatted(value, format, ENGLISH));
  return text.replaceAll(new RegExp(PLACE, 'g'), (_, name, format) => write(values[name], format));
}

/** @type {(text: string, values: Values) => Piece[]} */
function fill(text, values) {
  /** @type {(value: Values[string], format: string) => Piece} */
  const write = (value, format) => (Array.isArray(value) ? tell(value) : formatted(value, format, spoken.code));
  return text.split(PLACE).flatMap((piece, place, pieces) => {
    if (place % 3 === 2) return [];
    return [place % 3 === 1 ? write(values[piece], pieces[place + 1]) : piece];
  });
}

/** @type {(value: any, format: string | undefined, code: string) => any} */
function formatted(value, format, code) {
  if (!format) return value;
  const digits = format === ',' ? 0 : Number(format[1]);
  return value.toLocaleString(code, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// A number written with a point, with the decimal mark of the language.
/** @type {(text: string) => string} */
export const localNumber = (text) => text.replace('.', spoken.mark);

// The choice

// The language to speak of English and these: the language of the link, the `stored` choice of before, or a language of the
// browser. A file that was exported has a language of its own in place of the browser's.
/** @type {(codes: string[], stored: string | null, own?: string | null) => string} */
export function chooseLanguage(codes, stored, own = null) {
  known = [ENGLISH, ...codes];
  chosen = [languageOf(location.hash), stored].find((code) => code !== null && known.includes(code)) ?? null;
  const usual = own ? [own] : navigator.languages.map((each) => each.split('-')[0]);
  return chosen ?? usual.find((code) => known.includes(code)) ?? ENGLISH;
}

// The language for the link; null unless somebody chose it.
export const chosenLanguage = () => chosen;

// The language of a link, if the page does not speak it yet but can.
/** @type {(address: string) => string | null} */
export function otherLanguageOf(address) {
  const code = languageOf(address);
  return code !== null && known.includes(code) && code !== spoken.code ? code : null;
}

/** @type {(address: string) => string | null} */
const languageOf = (address) => new URLSearchParams(address.slice(1)).get('lang');

// Fills a list with the languages by their own names; `take` gets the code of a chosen one.
/** @type {(list: HTMLSelectElement, take: (code: string) => void) => void} */
export function offerLanguages(list, take) {
  list.replaceChildren(...known.map((code) => new Option(nameOfLanguage(code, code), code)));
  list.value = spoken.code;
  list.addEventListener('change', () => take(list.value));
}

// Opens the page again in another language, with the same link, model and sentence.
/** @type {(code: string, model: string) => void} */
export function reopenIn(code, model) {
  const parameters = new URLSearchParams(location.hash.slice(1));
  parameters.set('lang', code);
  // The one of the link is on screen, and of a page where nothing is there is none, if the chosen one failed.
  if (!parameters.has('playground')) parameters.set('model', model);
  /** @type {HTMLInputElement | null} */
  const box = document.querySelector('#hl-sentence :is(textarea, input)');
  const typed = box?.value.trim();
  history.replaceState(typed ? { typed } : null, '', isText() ? undefined : `#${parameters}`);
  location.reload();
}

// The sentence that had been typed but not translated when another language was chosen, once; otherwise null. The view of
// the link is of `linked`, another sentence, and is left out then.
/** @type {(linked: string | null) => string | null} */
export function takeTyped(linked) {
  const { typed = linked } = history.state ?? {};
  const address = typed === linked ? location.href : `${location.pathname}${location.search}`;
  history.replaceState(null, '', isText() ? undefined : address);
  return typed === linked ? null : typed;
}

// Translates the texts and labels of a page whose HTML is English, now and whenever its widgets write others. The viewer
// translates its own texts, and the person's sentences stay as they are.
/** @type {(root: HTMLElement) => void} */
export function translatePage(root) {
  if (spoken.code === ENGLISH) return;
  const labelled = LABELS.map((name) => `[${name}]`).join();
  const translate = (node) => {
    const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    do translateText(texts.currentNode);
    while (texts.nextNode());
    for (const one of node.querySelectorAll?.(labelled) ?? []) translateLabels(one);
  };
  translate(root);
  new MutationObserver((records) => {
    for (const { type, target, addedNodes } of records) {
      if (isUntranslated(target)) continue;
      for (const node of type === 'characterData' ? [target] : addedNodes) translate(node);
    }
  }).observe(root, { subtree: true, childList: true, characterData: true });
}

// Also what has left the page.
function isUntranslated(node) {
  const place = node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement;
  return !place || place.closest(UNTRANSLATED) !== null;
}

function translateText(node) {
  if (node.nodeType !== Node.TEXT_NODE || isUntranslated(node)) return;
  const text = node.data.trim();
  const said = node.data.replace(text, () => (node.parentElement.matches('#hl-model option') ? tellTitle : tell)(text));
  if (said !== node.data) node.data = said;
}

function translateLabels(node) {
  if (isUntranslated(node)) return;
  for (const name of LABELS) if (node.hasAttribute(name)) node.setAttribute(name, tell(node.getAttribute(name)));
}
