// Word links of a sentence: pairs [source word, word of the translation], both counted from 0, in several ways.

import { isAnswered, questionOf } from './questions.js';
import { sameHead } from '../heads.js';
import { say } from '../../locales/language.js';

// The ways that an answer has: { name, label, links, error } each. An error is null without the person's own links. Of a
// taught head, the links are those of both directions, joined; it has no line of its own if it is the clearest one.
export function waysOf({ methods, gold }) {
  const [best, average, taught] = methods;
  const way = (name, label, method, kind) => ({
    name,
    label,
    links: method[kind],
    error: method.errors?.[kind] ?? null,
  });
  const isBest = isSameHead(best, taught);
  const clearest = isBest
    ? say('Clearest head of Cross, head {head}, which was taught to align', { head: nameOf(best) })
    : say('Clearest head of Cross, head {head}', { head: nameOf(best) });
  const taughtLabel = () =>
    say('Head {head}, which was taught to align, both directions joined', { head: nameOf(taught) });
  return [
    way('best', clearest, best, 'links'),
    way('joined', say('The same head, both directions joined'), best, 'grown'),
    way('average', say('Average of all heads of Cross'), average, 'links'),
    ...(taught && !isBest ? [way('taught', taughtLabel(), taught, 'grown')] : []),
    ...(gold ? [{ name: 'own', label: say('Your links'), links: gold, error: 0 }] : []),
  ];
}

function isSameHead(best, taught) {
  return Boolean(taught && best.head) && sameHead(best.head, taught.head);
}

function nameOf({ head }) {
  return head && `${head[1] + 1}.${head[2] + 1}`;
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
export function wayOf(answer, wanted) {
  const ways = waysOf(answer);
  const [best, , taught] = answer.methods;
  const name = wanted === 'taught' && isSameHead(best, taught) ? 'joined' : wanted;
  return ways.find((way) => way.name === name) ?? ways[0];
}

export function hasLink(links, [source, target]) {
  return links.some((link) => link[0] === source && link[1] === target);
}
