// The lists next to the sentence box: source and target language of a model of many languages, or the prompts of a model.

import { element } from '../drawing/dom.js';
import { codesOf, prefixOfCodes } from '../domain/language_prefix.js';
import { say } from '../locales/language.js';
import { nameLanguages } from './names.js';
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
