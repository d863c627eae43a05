// How In short writes words and tokens.

import { createButton, element, readable, visible } from '../drawing/dom.js';
import { continues, isOfLetters } from '../domain/payload.js';
import { say } from '../locales/language.js';

export const wordButton = (word, title, onclick) =>
  createButton('hl-open', onclick, { title }, element('bdi', {}, wordName(word)));

// One of several equal words has its number in the sentence.
const wordName = ({ name, number }) =>
  number === undefined ? readable(name) : say('{word} (no. {number})', { word: readable(name), number });

export const quoted = (word) => element('strong', {}, element('bdi', {}, wordName(word)));

// A token that the model could write, which need not be a whole word: "Mü…", or "Müller (Mü…)" where the word is known.
export function tokenName(record, token) {
  if (token.text === '</s>') return say('the end');
  const { whole } = token;
  if (whole && !isOfLetters(record)) {
    const { whole: _, ...piece } = token;
    if (whole.pieces === 1) return element('bdi', {}, readable(whole.text));
    return element('bdi', {}, `${readable(whole.text)} (`, tokenName(record, piece), ')');
  }
  const text = visible(token).trim();
  const isPart = !isOfLetters(record) && /[\p{L}\p{N}]$/u.test(text) && !isWordOf(record, token);
  if (!isPart) return element('bdi', {}, text);
  return element('bdi', {}, `${continues(token) ? '…' : ''}${text}…`);
}

function isWordOf({ tokens: { predicted } }, { id }) {
  const isAlone = ({ word }) => predicted.filter((other) => other.word === word).length === 1;
  return predicted.some((one) => one.id === id && one.word !== null && isAlone(one));
}

// The word of a step, with the token if that is a part of the word: "Müller (Mü…)".
/** @type {(word: { places: number[]; name: string; number: number | null }, record: TranslationRecord, step: number) => Element} */
export function wordAt({ places, ...word }, { tokens: { predicted } }, step) {
  if (places.length < 2) return element('bdi', {}, wordName(word));
  const [first, last] = [places[0], places[places.length - 1]];
  const piece = `${step > first ? '…' : ''}${visible(predicted[step]).trim()}${step < last ? '…' : ''}`;
  return element('bdi', {}, `${wordName(word)} (${piece})`);
}
