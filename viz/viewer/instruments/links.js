// Word links of a sentence: pairs [source word, word of the translation], both counted from 0, found in several ways; their
// error against the person's own links, and untranslated words.

import { element, visible } from '../drawing/dom.js';
import { fixed } from '../drawing/numbers.js';
import { isAnswered } from '../state/questions.js';
import { targetIds } from '../domain/payload.js';
import { sameHead } from '../domain/heads.js';
import { actionButton, actions, choiceItem, note, numberText, sayNote, shareBar } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

export const wordLinks = {
  name: 'links',
  panel: null, // the strip, which is always in sight, shows links too
  title: () => say('Which words belong together?'),
  doing: () => say('Linking the words'),
  ask: linksOf,
  create(store) {
    const texts = {
      placeholder: say('Your own links, such as 0-0 2-1, then Enter'),
      'aria-label': say('Your own word links'),
    };
    const box = element('input', { class: 'hl-box', ...texts });
    box.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') store.change({ gold: box.value.trim() });
    });
    const toggle = () => {
      store.change({ drawing: store.get().drawing ? null : { source: null } });
      hint.scrollIntoView({ block: 'nearest' });
    };
    const draw = actionButton(say('Draw them'), toggle);
    const hint = element('p', { class: 'hl-soft', role: 'status' });
    return {
      controls: {
        node: element('div', {}, box, actions(draw), hint),
        draw(state, before, refusal) {
          if (state.gold !== before.gold) box.value = state.gold; // otherwise the person may be typing
          draw.disabled = refusal !== null;
          draw.setAttribute('aria-pressed', String(isDrawing(state)));
          hint.textContent = isDrawing(state) ? hintOf(state) : '';
        },
      },
      draw: (state, answer) => {
        const chosen = wayOf(answer, state.linkedBy);
        return [
          note(
            answer.gold
              ? say(
                  'In this sentence, with the alignment error rate against your links: 0 is best. Dotted: not among yours. Dashed: only among yours.',
                )
              : say('In this sentence; the strip shows the links. Words are counted from 0.'),
          ),
          element('ol', { class: 'hl-ways' }, ...waysOf(answer).map((way) => lineOf(store, way, chosen))),
          sayNote(
            'Without “both directions joined”, each word of the translation chooses one source word. Joined, source words choose too, so that the links and their error differ.',
          ),
          element('h4', {}, say('Source words: how much all heads of Cross read each, in all rows')),
          coverageOf(answer, chosen),
          note(unlinkedText(answer, chosen)),
          sayNote('Words of the translation: {words}', {
            words: answer.target_words.map((word, place) => `${place} ${word}`).join(' · '),
          }),
        ];
      },
    };
  },
};

function hintOf({ record, drawing }) {
  const { source } = record.tokens;
  if (drawing.source === null) return say('Choose a source word in the strip.');
  const word = source
    .filter((token) => token.word === drawing.source)
    .map(visible)
    .join('');
  return say('Choose the word of the translation that “{word}” is linked to; for a link of yours, this removes it.', {
    word,
  });
}

function lineOf(store, { name, label, error }, chosen) {
  const attributes = { 'aria-pressed': String(name === chosen.name) };
  const number = error === null || name === 'own' ? null : numberText(say('AER {value}', { value: fixed(error) }));
  return choiceItem(() => store.change({ linkedBy: name }), attributes, label, number);
}

// About 1 for a word that is translated once (Tu et al. 2016).
function coverageOf({ coverage, source_words: words }, { links }) {
  const most = Math.max(1, ...coverage);
  const lines = words.map((word, place) => {
    const linked = links.some(([source]) => source === place);
    const name = element('span', {}, element('span', { class: 'hl-soft' }, `${place} `), element('bdi', {}, word));
    return element(
      'li',
      { class: linked ? null : 'hl-unlinked' },
      name,
      shareBar(coverage[place] / most),
      numberText(fixed(coverage[place], 2)),
    );
  });
  return element('ol', { class: 'hl-most-read', 'aria-label': say('Coverage') }, ...lines);
}

function unlinkedText({ source_words: all }, { links }) {
  const missing = all.filter((_, place) => !links.some(([source]) => source === place));
  if (missing.length === 0) return say('Every source word has a link.');
  const words = missing.map((word) => say('“{word}”', { word })).join(', ');
  return say('No word of the translation is linked to: {words}.', { words });
}

function linksOf({ record, gold }) {
  const taught = record.taught ? { head: ['cross', ...record.taught] } : {};
  return { ids: targetIds(record), ...taught, ...(gold === '' ? {} : { gold }) };
}

// The ways that an answer has: { name, label, links, error } each. An error is null without the person's own links. Of a
// taught head, the links of both directions are joined; it has no line of its own if it is the clearest one.
/** @type {(answer: any) => Way[]} */
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

const isSameHead = (best, taught) => Boolean(taught && best.head) && sameHead(best.head, taught.head);
const nameOf = ({ head }) => head && `${head[1] + 1}.${head[2] + 1}`;

// The links that the strip shows in place of the arcs, and the person's own; null while the question is closed or unanswered.
/** @type {(state: State) => (Way & { gold: Link[] | null }) | null} */
export function shownLinks(state) {
  if (!state.questions.includes('links')) return null;
  const { answer } = state.answers.links ?? {};
  if (!answer || !isAnswered(state, 'links', { do: 'links', ...linksOf(state) })) return null;
  return { ...wayOf(answer, state.linkedBy), gold: answer.gold };
}

// What a click on a token does while the person draws: first it chooses a source word, then it links that word to a word
// of the translation, or removes the link. Returns changes for `store.change`.
/** @type {(state: State, side: 'source' | 'target', place: number) => Changes} */
export function drawLink({ record, drawing, gold }, side, place) {
  if (!drawing) return {};
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

/** @type {(state: State) => boolean} */
export const isDrawing = ({ drawing, questions }) => drawing !== null && questions.includes('links');

/** @type {(answer: any, wanted: string) => Way} */
export function wayOf(answer, wanted) {
  const ways = waysOf(answer);
  const [best, , taught] = answer.methods;
  const name = wanted === 'taught' && isSameHead(best, taught) ? 'joined' : wanted;
  return ways.find((way) => way.name === name) ?? ways[0];
}

/** @type {(links: Link[], link: Link) => boolean} */
export const hasLink = (links, [source, target]) => links.some((link) => link[0] === source && link[1] === target);
