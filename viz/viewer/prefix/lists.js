// The lists next to the sentence box: source and target language of a model of many languages, or the prompts of a model.

import { element } from '../drawing/dom.js';
import { codesOf, prefixOfCodes } from '../domain/language_prefix.js';
import { say, spokenLanguage } from '../locales/language.js';
import { createSearchList } from './search_list.js';

// Draws the lists for the choices of a model, as viz/about.py gives them. `take` gets the prefix that a person chooses.
export function drawPrefixLists(place, choices, prefix, take) {
  const lists = choices.codes ? languageLists(choices, prefix, take) : promptList(choices, prefix, take);
  place.replaceChildren(...lists);
}

function languageLists({ codes, source }, prefix, take) {
  const [target, from = source] = codesOf(prefix).reverse();
  const chosen = { from, target };
  const entries = nameLanguages(codes);
  const createList = (side, label) =>
    createSearchList({
      label,
      entries,
      value: chosen[side],
      take: (code) => {
        chosen[side] = code;
        take(prefixOfCodes([chosen.from, chosen.target].slice(chosen.from === source ? 1 : 0)));
      },
    });
  const to = createList('target', say('Target language'));
  if (source === '') return [to];
  return [createList('from', say('Source language')), element('span', { 'aria-hidden': 'true' }, '→'), to];
}

function promptList({ prompts = [] }, prefix, take) {
  if (prompts.length === 0) return [];
  const entries = ['', ...prompts].map((value) => ({
    value,
    name: value.trim() || say('No prompt'),
    detail: '',
    terms: [],
  }));
  return [createSearchList({ label: say('Prompt'), entries, value: prefix, take })];
}

const ANY_REGION = /_XX$/; // of mBART

// The codes with their names, [code, English name] each, as { value, name, detail, terms }, sorted by name. `detail` is the
// code; `terms` are what a person may type in place of the name. If two codes have the same name, the name says the script too.
export function nameLanguages(codes) {
  const nameOf = namesIn(spokenLanguage(), 'language');
  const plainName = (code, english) => nameOf(tagOf(code).split('-')[0]) ?? english;
  const names = codes.map(([code, english]) => plainName(code, english));
  const named = codes.map(([code, english], place) => {
    const plain = names[place];
    const isShared = names.indexOf(plain) !== names.lastIndexOf(plain);
    const name = isShared ? (nameOf(tagOf(code)) ?? withScript(plain, code)) : plain;
    const short = code.slice(2, -2);
    return { value: code, name, detail: short === name ? '' : short, terms: [english, short] };
  });
  return named.sort((one, other) => one.name.localeCompare(other.name, spokenLanguage()));
}

function withScript(name, code) {
  const script = namesIn(spokenLanguage(), 'script')(tagOf(code).split('-')[1] ?? '');
  return script ? `${name} (${script})` : name;
}

// A function that gives the name of a BCP 47 tag, or null if the browser does not know it.
function namesIn(language, type) {
  const names = new Intl.DisplayNames([language], { type, fallback: 'none', languageDisplay: 'standard' });
  return (tag) => {
    try {
      const name = names.of(tag);
      return name ? name[0].toLocaleUpperCase(language) + name.slice(1) : null;
    } catch {
      return null; // not a tag
    }
  };
}

// >>zho_Hans<< as zho-Hans
const tagOf = (code) => code.slice(2, -2).replace(ANY_REGION, '').replaceAll('_', '-');
