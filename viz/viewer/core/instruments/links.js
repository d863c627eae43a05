// Word links of a sentence: pairs [source word, word of the translation], both counted from 0, in several ways.

import { isAnswered, questionOf } from './questions.js';
import { say } from '../../locales/language.js';

// The ways that an answer has: { name, label, links, error } each. An error is null without the person's own links.
export function waysOf({ methods, gold }) {
  const [best, average, taught] = methods;
  const way = (name, label, method, kind) => ({
    name,
    label,
    links: method[kind],
    error: method.errors?.[kind] ?? null,
  });
  const head = best.head && `${best.head[1] + 1}.${best.head[2] + 1}`;
  return [
    way('best', say('Clearest head of Cross, head {head}', { head }), best, 'links'),
    way('joined', say('The same head, both directions joined'), best, 'grown'),
    way('average', say('Average of all heads of Cross'), average, 'links'),
    ...(taught ? [way('taught', say('The head that was taught to align'), taught, 'grown')] : []),
    ...(gold ? [{ name: 'own', label: say('Your links'), links: gold, error: 0 }] : []),
  ];
}

// The links that the strip shows in place of the arcs, with the way and the person's own links; null while the question
// is closed or not answered.
export function shownLinks(state) {
  if (!state.questions.includes('links')) return null;
  const { answer } = state.answers.links ?? {};
  if (!answer || !isAnswered(state, 'links', questionOf(state, 'links'))) return null;
  return { ...wayOf(answer, state.linkedBy), gold: answer.gold };
}

// What a click on a token does while the person draws: first it chooses a source word, then it links that word to a word
// of the translation, or removes the link. Returns changes for `store.change`.
export function drawLink({ record, drawing, gold }, side, place) {
  const { source, predicted } = record.tokens;
  const word = (side === 'source' ? source[place] : predicted[place - 1])?.word ?? null;
  if (word === null) return {};
  if (side === 'source') return { drawing: { source: word === drawing.source ? null : word } };
  if (drawing.source === null) return {};
  return { drawing: { source: null }, gold: toggleLink(gold, `${drawing.source}-${word}`) };
}

// Links in Pharaoh form with one more link, or without it; a possible link, as in 2p3, is a link too.
function toggleLink(gold, link) {
  const links = gold.split(/\s+/).filter((one) => one !== '');
  const others = links.filter((one) => one.replace('p', '-') !== link);
  return (others.length < links.length ? others : [...links, link]).join(' ');
}

export function isDrawing({ drawing, questions }) {
  return drawing !== null && questions.includes('links');
}

// The chosen way, or the first one where there is no such way.
export function wayOf(answer, name) {
  const ways = waysOf(answer);
  return ways.find((way) => way.name === name) ?? ways[0];
}

export function hasLink(links, [source, target]) {
  return links.some((link) => link[0] === source && link[1] === target);
}
