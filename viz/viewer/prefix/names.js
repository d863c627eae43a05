// The names of languages in the language of the page, from the codes of models, such as fra, fra_Latn and fr_XX.

import { spokenLanguage } from '../locales/language.js';

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
