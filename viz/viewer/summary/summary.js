// In short: what happened in this translation, in plain sentences; each opens the view that shows it.

import { createButton, element, readable, replaceKeepingFocus, visible } from '../drawing/dom.js';
import { askImportance, askSummary } from '../transport/effects.js';
import { forceToken } from '../transport/views.js';
import { isAnswered } from '../state/questions.js';
import { questionOf } from '../instruments/instruments.js';
import { fixed, percent } from '../drawing/numbers.js';
import { fullHeadName } from '../state/labels.js';
import { whyNot } from '../transport/requests.js';
import { chooseKind, closeAside, openAside, showHead } from '../state/actions.js';
import { differs, spotOfToken } from '../state/queries.js';
import { actionButton, actions, note, numberText, offer, sayNote } from '../drawing/widgets.js';
import { factsOf, importanceWithout, targetWords } from './facts.js';
import { quoted, tokenName, wordAt, wordButton } from './words.js';
import { chooseValue } from '../state/value_choice.js';
import { leaveOneOut } from '../values/leave_one_out.js';
import { nameOfHeads } from '../values/values.js';
import { THRESHOLDS } from '../domain/limits.js';
import { say, sayCount, sayParts } from '../locales/language.js';

const MOST_TIMES = 1000;
const ALMOST_ALL = 0.999; // a larger share reads “more than”, which does not follow “at least”
const AT_ONCE = 3; // sentences
const INPUTS = ['record', 'summary', 'importance', 'values', 'answers', 'busy', 'about', 'translating'];

// The sentences stand under the translation, across the page: three of them, the rest on demand.
export function createSummary(client) {
  const { store } = client;
  const sentences = element('ul', { class: 'hl-summary' });
  const notes = element('div', { class: 'hl-summary-notes' });
  const all = createButton('hl-tab hl-summary-all', () => unfold(!node.classList.contains('hl-unfolded')), {});
  const node = element('section', { class: 'hl-panel hl-short', 'aria-label': say('In short') }, sentences, all, notes);
  const unfold = (isUnfolded) => {
    node.classList.toggle('hl-unfolded', isUnfolded);
    all.setAttribute('aria-expanded', isUnfolded);
    all.textContent = isUnfolded ? say('Fewer ▴') : say('All {count} ▾', { count: sentences.children.length });
  };
  store.subscribe((state, before) => {
    if (!state.record || !differs(state, before, INPUTS) || state.translating) return;
    const isWaiting = isAwaited(client, state);
    replaceKeepingFocus(sentences, ...(isWaiting ? [] : sentencesOf(client, node, state)));
    replaceKeepingFocus(notes, ...(isWaiting ? [] : notesOf(client, state, sentences)));
    const isCut = sentences.children.length > AT_ONCE || sentences.querySelector('ul > li + li') !== null;
    all.hidden = !isCut && notes.children.length === 0;
    unfold(node.classList.contains('hl-unfolded'));
  });
  return node;
}

// Whether an answer is on its way: a sentence that is read must not change.
function isAwaited(client, { record, summary, shown }) {
  if (summary || shown?.type === 'muted' || whyNot(client, 'summary')) return false;
  const asked = client.requests.get('summary');
  return asked?.record !== record || asked.isOpen;
}

function sentencesOf(client, node, state) {
  const open = openersOf(client, node);
  const question = questionOf(state, 'lens');
  const lens = question && isAnswered(state, 'lens', question) ? state.answers.lens.answer : null; // of this sentence
  return factsOf({ ...state, lens }).map((fact) => {
    const title = element('p', { class: 'hl-soft' }, TITLES[fact.name](fact));
    const text = element('div', { class: 'hl-sentence' }, ...SENTENCES[fact.name](fact, open, state.record));
    return element('li', { 'data-fact': fact.name }, title, text);
  });
}

const notesOf = (client, state, sentences) => [
  ...(sentences.textContent.includes('…')
    ? [sayNote('… marks a piece of a word: the model writes words in pieces, and the word may end there or go on.')]
    : []),
  ...rest(client, state),
];

// What is not measured, and why.
function rest(client, state) {
  const { busy, record, summary, shown } = state;
  const reason = whyNot(client, 'summary');
  if (reason) return client.ask ? [note(reason)] : [];
  if (shown?.type === 'muted') return [sayNote('Go back to the translation without muting to read more about it.')];
  if (busy) return [];
  if (!summary) return [offer(say('There is no answer.'), say('Ask again'), () => askSummary(client))];
  if (importanceWithout(state)) return [];
  const count = Object.values(record.attention).reduce((total, { layers, heads }) => total + layers * heads, 0);
  const attributes = { disabled: whyNot(client, 'importance') !== null };
  return [
    sayNote('It takes a while to see which of the {count} heads of so large a model it needed.', { count }),
    actions(actionButton(say('Mute each head in turn'), () => askImportance(client), attributes)),
  ];
}

// What each sentence is about, by the name of its fact.
const TITLES = {
  missing: () => say('Is a word missing?'),
  spelled: () => say('Check this word'),
  doubted: () => say('Check this word'),
  unsure: ({ count }) => sayCount(count, 'It hesitated', 'It hesitated at {count} places'),
  sure: () => say('Where it was least sure'),
  depends: () => say('Strongest dependence'),
  spare: () => say('What it could spare'),
  moved: () => say('Another order'),
  'in order': () => say('The same order'),
  heads: () => say('Heads it needs most'),
  'no head': () => say('No single head decides'),
  late: ({ layer, layers }) => say('Decided only in layer {layer} of {layers}', { layer: layer + 1, layers }),
};

// The sentences by the name of their fact; each returns elements and strings. `open` has the buttons.
const SENTENCES = {
  missing: ({ words, count }, open) => {
    const names = words.map((word) => open.source(word));
    if (count === 1) return sayParts('{word} seems to be missing from the translation.', { word: names[0] });
    const parts = { count, words: joined(names) };
    return count > words.length
      ? sayParts('{count} words seem to be missing from the translation, most clearly these: {words}', parts)
      : sayParts('These words seem to be missing from the translation: {words}', parts);
  },
  spelled: ({ word, pieces }, open) =>
    sayParts('The model knows {word} only in {count} pieces ({pieces}): check its translation.', {
      word: open.source(word),
      count: pieces.length,
      pieces: listOf(pieces),
    }),
  doubted: ({ word, made, pieces }, open) =>
    sayParts(
      'The model knows {word} only in {count} pieces ({pieces}), and it was unsure of {made}, which depends on it: check that.',
      { word: open.source(word), made: quoted(made), count: pieces.length, pieces: listOf(pieces) },
    ),
  unsure: ({ steps }, open, record) => [
    list(steps, ({ step, chance, rival }) => choiceAt(record, step, chance, rival, open)),
  ],
  sure: ({ steps, isForced }, open, record) => [
    isForced
      ? say('Apart from what was forced, no word was in doubt: each choice had more than {share}. The least sure:', {
          share: largestDoubt(),
        })
      : say('No word was in doubt: each choice had more than {share}. The least sure:', { share: largestDoubt() }),
    list(steps, ({ step, chance, rival }) => choiceAt(record, step, chance, rival, open)),
  ],
  depends: ({ word, from, factor, other }, open, record) => {
    const parts = { word: quoted(word), from: open.without(word, from), factor: timesText(factor) };
    return other
      ? sayParts(
          '{word} depends most on {from}: without it, it is {factor} times less likely, and “{other}” comes first.',
          { ...parts, other: tokenName(record, other) },
        )
      : sayParts(
          '{word} depends most on {from}: without it, it is {factor} times less likely, but still comes first.',
          parts,
        );
  },
  spare: ({ words }, open) => {
    const names = words.map((word) => open.without(null, word));
    return names.length === 1
      ? sayParts(
          'Without {word}, everything in the translation but punctuation keeps at least 90 % of its probability.',
          {
            word: names[0],
          },
        )
      : sayParts(
          'Without any one of these, everything in the translation but punctuation keeps at least 90 % of its probability: {words}',
          { words: joined(names) },
        );
  },
  moved: ({ word, source, count }, open) => {
    const places = { from: source.written, to: word.written };
    const parts = { source: open.without(word, source), word: quoted(word), ...places };
    return count === 1
      ? sayParts(
          '{source} changed places: from place {from} in the sentence to place {to} in the translation, as {word}.',
          parts,
        )
      : sayParts(
          'At least {count} changed places. Of these, {source} moved most: from place {from} in the sentence to place {to} in the translation, as {word}.',
          { ...parts, count },
        );
  },
  'in order': () => [say('Nothing changed places: the words come in the order of the words that they depend on most.')],
  heads: ({ heads }, open, record) => [list(heads, (one) => withoutHead(one, open, record))],
  'no head': ({ count, share }) => [
    say(
      'It needed no single one of its {count} heads (the small squares): without any one of them, the translation keeps at least {share} of its probability.',
      { count, share: percent(Math.min(share, ALMOST_ALL)) },
    ),
  ],
  late: ({ words }, open, record) => {
    const lineOf = ({ step, other }) =>
      other
        ? sayParts('{word}; before that, “{other}” came first', {
            word: open.layers(step, record),
            other: tokenName(record, other),
          })
        : [open.layers(step, record)];
    return [list(words, lineOf)];
  },
};

// "bench 34 %, or bank 28 %"; the other word can be forced. A search can leave out the likelier word for a better whole.
function choiceAt(record, step, chance, rival, open) {
  const parts = { word: open.step(step, record), chance: chanceText(chance) };
  if (!rival && chance < THRESHOLDS.unsure)
    return sayParts('{word} {chance}; the rest is spread over many words', parts);
  if (!rival) return sayParts('{word} {chance}', parts);
  const other = { rival: open.force(step, rival), other: chanceText(Math.exp(rival.log_probability)) };
  return Math.exp(rival.log_probability) > chance
    ? sayParts('{word} {chance}; {rival} had {other}, but the search kept this sentence as the better whole', {
        ...parts,
        ...other,
      })
    : sayParts('{word} {chance}, or {rival} {other}', { ...parts, ...other });
}

const largestDoubt = () => percent(Math.floor(100 * THRESHOLDS.unsure) / 100);

function withoutHead({ head, factor, text }, open, record) {
  const parts = { head: open.head(head), factor: timesText(factor), text: text && readable(text) };
  if (text === null) return sayParts('{head} silent: {factor} times less likely.', parts);
  if (text === record.text) return sayParts('{head} silent: {factor} times less likely, but the same words.', parts);
  return sayParts('{head} silent: {factor} times less likely, and the translation is “{text}”', parts);
}

function timesText(factor) {
  if (factor > MOST_TIMES) return say('more than {count}', { count: MOST_TIMES });
  return fixed(factor, factor < 10 ? 1 : 0);
}

const list = (entries, write) => element('ul', {}, ...entries.map((one) => element('li', {}, ...write(one))));

// A probability, which stays on one line.
const chanceText = (probability) => numberText(percent(probability));
const listOf = (pieces) => pieces.map((piece) => visible(piece).trim()).join(' · ');
const joined = (nodes) => element('span', {}, ...nodes.flatMap((node, place) => (place > 0 ? [', ', node] : [node])));

// The buttons in the sentences: what each names, and the view that it opens.
function openersOf(client, node) {
  const { store } = client;
  const openIn = (panel) => (changesOf) => () => {
    store.change(openAside(store.get(), changesOf));
    node.parentElement.querySelector(panel).scrollIntoView({ block: 'nearest' });
  };
  const [change, inMatrix] = ['.hl-inspector', '.hl-centre'].map(openIn);
  const step = (place, record, title, changesOf) =>
    openButton(
      wordAt(
        targetWords(record).find(({ places }) => places.includes(place)),
        record,
        place,
      ),
      title,
      change((state) => ({ ...atStep(state, place), ...changesOf?.(state) })),
    );
  return {
    source: (word) =>
      wordButton(
        word,
        say('Show who reads it'),
        inMatrix((state) => ({
          ...chooseKind(state, 'cross'),
          pin: { row: null, column: word.places[0] },
        })),
      ),
    without: (made, from) =>
      wordButton(
        from,
        say('Show what each word loses without it'),
        inMatrix((state) => removeWord(state, from, made)),
      ),
    step: (place, record) => step(place, record, say('Show the next words at this step')),
    layers: (place, record) =>
      step(place, record, say('Show the words after each layer'), ({ questions }) => ({
        questions: [...new Set([...questions, 'lens'])],
      })),
    force: (place, rival) => forceButton(client, place, rival),
    head: (head) => openButton(fullHeadName(head), say('Mute this head'), change(muted(head))),
  };
}

const openButton = (label, title, onclick) => createButton('hl-open', onclick, { title }, label);

function forceButton(client, place, rival) {
  const { store } = client;
  const reason = whyNot(client, 'force');
  const title = reason ?? say('Force this word and translate on');
  const found = openButton(tokenName(store.get().record, rival), title, () => {
    store.change(closeAside(store.get()));
    forceToken(client, place, rival.id);
  });
  found.disabled = reason !== null;
  return found;
}

// What is lost without a source word, whose pieces are hidden together; `made` is a word of the translation or null.
/** @type {(state: State, from: { places: number[] }, made: { places: number[] } | null) => Changes} */
function removeWord(state, from, made) {
  const words = state.words || [from, made].some((one) => (one?.places.length ?? 0) > 1);
  return { ...chooseValue(state, leaveOneOut), words, pin: { row: made && made.places[0], column: from.places[0] } };
}

// The head on screen and muted, with what that changes.
function muted(head) {
  return (state) => ({
    ...showHead(state, head),
    valueName: nameOfHeads(state),
    mutes: [head],
    panel: 'mute',
  });
}

// The step of the translation, with its row of cross-attention pinned.
function atStep(state, step) {
  const changed = { ...state, ...chooseKind(state, 'cross') };
  return { ...chooseKind(state, 'cross'), panel: 'step', step, pin: spotOfToken(changed, 'target', step + 1) };
}
