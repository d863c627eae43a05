// The strip: the translation, the source tokens above the target tokens, and arcs for the heads on screen.

import { createButton, element, nameInvisible, readable, tokenText, visible } from '../drawing/dom.js';
import { palette, stepOf } from '../drawing/colormap.js';
import { fixed } from '../drawing/numbers.js';
import { labelOf } from '../state/labels.js';
import { clamp } from '../domain/math.js';
import { rangeNotices } from '../state/measures.js';
import { togglePin, toggleRemoved } from '../state/actions.js';
import { aboutModel, differs, focusOf, isElsewhere, placeOfColumn, placesOfRows } from '../state/queries.js';
import { sameSpot, spotOfToken } from '../state/queries.js';
import { NO_SIDE_B, otherRecord, sideOf } from '../state/comparison.js';
import { differingPlaces } from '../domain/counterparts.js';
import { gridChanged, shownGrid } from '../state/grid.js';
import { drawLink, isDrawing, shownLinks } from '../instruments/links.js';
import { toggleQuestion } from '../state/questions.js';
import { canRemove, createRemoved, drawRemoved } from './removed.js';
import { createWordMenu } from './word_menu.js';
import { createArcs, drawArcs, drawLinks, lightArcs, litPlaces } from './arcs.js';
import { say, sayCount, tell, tellTitle } from '../locales/language.js';

const LEAST_MORE = 8; // pixels of words out of sight that are worth a button
const OF_REMOVED = ['removedAt', 'valueName', 'kind', 'pin', 'words'];
const OF_LINKS = ['questions', 'answers', 'linkedBy', 'gold', 'drawing'];
const RIGHT_TO_LEFT = /^\P{L}*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

export function createStrip(client) {
  const { store } = client;
  const analysed = element('p', { class: 'hl-analysed hl-soft' });
  const text = element('p', { class: 'hl-translation', dir: 'auto', lang: '', translate: 'no' });
  const given = element('span', { class: 'hl-given hl-soft' });
  const notices = element('div', { class: 'hl-notices' });
  const { toggle, beside } = createButtons(client);
  const line = element('div', { class: 'hl-result-line' }, given, toggle, beside);
  const result = element(
    'div',
    { class: 'hl-result' },
    element('div', { tabindex: 0 }, analysed, text), // a long translation scrolls
    element('div', { class: 'hl-result-side' }, line, notices),
  );
  const tokens = createTokens();
  const removed = createRemoved(store);
  const legend = createLegend();
  const foot = element('div', { class: 'hl-strip-foot' }, removed.node, legend.node);
  const menu = createWordMenu(client);
  const name = store.get().side === 'B' ? say('Tokens of B') : say('Tokens');
  const attributes = { class: 'hl-panel hl-strip', 'aria-label': name };
  const node = element('section', attributes, result, tokens.scroll, tokens.more, foot, menu.node);
  const shown = { analysed, text, given, toggle, beside, notices, legend, removed, menu };
  const parts = { client, store, ...shown, ...tokens, drawn: [], lit: [] };
  listen(parts);
  new ResizeObserver(() => redraw(parts, store.get())).observe(parts.body);
  store.subscribe((state, before) => renderStrip(parts, state, before));
  return node;
}

// The buttons of A are for both sides.
function createButtons(client) {
  const { store } = client;
  const isB = store.get().side === 'B';
  const links = say('link the words of the sentence and of its translation, in place of the arcs');
  const others = say('show another model, another step of the training or another sentence beside this translation');
  const button = (name, title, text, act) => createButton(`hl-tab hl-links-tab ${name}`, act, { title }, text);
  const toggle = button('', links, say('Word links'), () => toggleLinks(store));
  const beside = button('hl-beside-tab', others, say('Side by side'), () => toggleBeside(store));
  toggle.hidden = isB || !client.ask;
  beside.hidden = isB || !client.ask;
  return { toggle, beside };
}

// Both lines of tokens with the arcs between them, and a button where words are out of sight.
function createTokens() {
  const chips = {};
  for (const side of ['source', 'target']) {
    const name = side === 'source' ? say('Source tokens') : say('Tokens of the translation');
    chips[side] = element('div', { class: 'hl-chips', role: 'group', 'aria-label': name });
  }
  const arcs = createArcs();
  const label = (name) => element('span', { class: 'hl-strip-label hl-soft' }, name);
  const lines = [label(say('source')), chips.source, label(say('translation')), chips.target];
  const body = element('div', { class: 'hl-strip-body' }, ...lines, arcs);
  const scroll = element('div', { class: 'hl-scroll hl-strip-scroll' }, body);
  const more = createButton('hl-swipe', () => showMore(scroll), {}, '›');
  const follow = () =>
    (more.hidden = scroll.scrollWidth - scroll.clientWidth - Math.abs(scroll.scrollLeft) < LEAST_MORE);
  new ResizeObserver(follow).observe(scroll);
  new ResizeObserver(follow).observe(body);
  scroll.addEventListener('scroll', follow);
  return { chips, arcs, body, scroll, more };
}

function renderStrip(parts, state, before) {
  if (!state.record) return;
  if (differs(state, before, ['record', 'shown', 'sideB', 'beside'])) writeName(parts, state);
  if (differs(state, before, ['record', 'theme', 'words'])) drawTokens(parts, state);
  if (differs(state, before, ['record', 'theme', 'removed', ...OF_REMOVED]))
    drawRemoved(parts.chips.source, parts.removed, state);
  if (differs(state, before, ['record', 'theme', 'words', 'sideB', 'beside'])) markDiffering(parts, state);
  if (gridChanged(state, before) || differs(state, before, ['theme', 'isPrinting', ...OF_LINKS])) redraw(parts, state);
  else if (!sameSpot(focusOf(state), focusOf(before)) || state.pin !== before.pin) light(parts, state);
  if (state.pin !== before.pin && state.pin && !state.hover) scrollToPin(parts, state, before.pin);
}

function writeName({ analysed, beside, more }, state) {
  more.title = say('More words');
  beside.setAttribute('aria-pressed', state.sideB !== null);
  analysed.textContent = analysed.title = nameOfShown(state);
}

// What is on screen in place of the translation of the person's sentence, if anything; of two sides, each is named.
function nameOfShown(state) {
  const { record } = state;
  const side = sideOf(state);
  if (side === '' && !isElsewhere(state)) return labelOf(state);
  const quoted = say('“{text}”', { text: readable(record.source_text) });
  const named = [side, quoted, labelOf(state), tellTitle(record.model.title)];
  return named.filter(Boolean).join(' · ');
}

function showMore(scroll) {
  scroll.scrollBy({ left: scroll.clientWidth / 2, behavior: 'smooth' });
}

function toggleBeside(store) {
  store.change({ sideB: store.get().sideB === null ? NO_SIDE_B : null });
}

// The links take the place of the arcs; their panel says how they were found.
function toggleLinks(store) {
  const changes = toggleQuestion(store.get(), 'links');
  store.change(changes.questions?.includes('links') ? { ...changes, panel: 'step' } : changes);
}

function redraw(parts, state) {
  if (!state.record) return;
  const links = shownLinks(state);
  parts.toggle.setAttribute('aria-pressed', state.questions.includes('links'));
  parts.isLinked = links !== null;
  parts.body.classList.toggle('hl-drawing', isDrawing(state));
  if (links) drawLinks(parts, state.record, links);
  else drawArcs(parts, ownGrid(state), state);
  light(parts, state);
}

// The code of a language as HTML has it; empty for other codes, such as the codes of models of letters.
const languageTag = (code = '') =>
  /^[a-z]{2,3}([_-][a-z]+)*$/i.test(code) && code !== 'mul' ? code.replaceAll('_', '-') : '';

function drawTokens({ text, given, notices, chips, legend }, state) {
  const { record, theme, words } = state;
  const { source, read, predicted } = record.tokens;
  text.lang = chips.target.lang = languageTag(record.target_language);
  chips.source.lang = languageTag(record.source_language);
  text.textContent = text.title = record.text === '' ? say('(nothing)') : readable(record.text);
  given.textContent = givenText(record);
  given.hidden = given.textContent === '';
  const warnings = [...rangeNotices(record, aboutModel(state)), ...noticesOf(record)];
  notices.replaceChildren(...warnings.map((notice) => element('p', {}, nameInvisible(notice))));
  chips.source.replaceChildren(...source.map((token, place) => chip('source', place, token, source[place - 1])));
  const colours = palette(theme).css;
  legend.scale.style.background = `linear-gradient(90deg, ${colours.filter((_, place) => place % 16 === 0).join()})`;
  const targets = predicted.map((token, step) => {
    const probability = Math.exp(record.log_probabilities[step]);
    const forced = step < (record.n_forced ?? 0) ? say('forced') : '';
    const chance = say('probability {value}', { value: fixed(probability) });
    const target = chip('target', step + 1, token, predicted[step - 1], [forced, chance]);
    target.classList.toggle('hl-forced', Boolean(forced));
    target.style.setProperty('--hl-chance', colours[stepOf(probability)]);
    return target;
  });
  chips.target.replaceChildren(chip('target', 0, read[0]), ...targets);
  for (const side of ['source', 'target']) {
    const sentence = side === 'source' ? record.source_text : record.text;
    chips[side].dir = RIGHT_TO_LEFT.test(sentence) ? 'rtl' : 'ltr';
    chips[side].classList.toggle('hl-whole', words);
    chips[side].firstChild.tabIndex = 0;
  }
}

// While there are two sides: the tokens that the other side does not have in their place.
function markDiffering({ chips }, state) {
  const other = otherRecord(state)?.tokens;
  const { source, predicted } = state.record.tokens;
  const mark = (side, tokens, others, first = 0) => {
    const differing = other ? differingPlaces(tokens, others) : new Set();
    [...chips[side].children].forEach((one, place) => one.classList.toggle('hl-differs', differing.has(place - first)));
  };
  mark('source', source, other?.source);
  mark('target', predicted, other?.predicted, 1);
}

// Warnings of the model; a record from an earlier version has them in English only.
const noticesOf = ({ notices, said = notices }) => said.map(tell);

// The tokens that the person gave; empty without any.
function givenText({ n_forced: forced = 0, tokens }) {
  if (forced === 0) return '';
  if (forced === tokens.predicted.length) return say('all tokens given');
  return sayCount(forced, 'first token given', 'first {count} tokens given');
}

/** @type {(side: string, place: number, token: Token, before?: Token | null, facts?: string[]) => HTMLElement} */
function chip(side, place, token, before = null, facts = []) {
  const known = facts.filter(Boolean);
  const continues = token.word !== null && token.word === before?.word;
  const attributes = {
    tabindex: '-1',
    'data-side': side,
    'data-place': place,
    translate: 'no',
    'aria-label': [visible(token), ...known].join(', '),
    title: known.join(', ') || null,
  };
  const classes = ['hl-chip', continues && 'hl-continues', side === 'target' && place === 0 && 'hl-chip-start'];
  return createButton(classes.filter(Boolean).join(' '), null, attributes, tokenText(token));
}

function listen(parts) {
  const { store, body } = parts;
  const chipOf = (event) => event.target.closest('.hl-chip');
  const spotOf = ({ dataset }) => spotOfToken(store.get(), dataset.side, Number(dataset.place));
  body.addEventListener('pointerover', (event) => {
    const target = chipOf(event);
    if (event.pointerType !== 'touch' && store.get().record) store.change({ hover: target && spotOf(target) });
  });
  body.addEventListener('pointerleave', () => store.change({ hover: null }));
  body.addEventListener('click', (event) => {
    const target = chipOf(event);
    if (!target) return;
    const state = store.get();
    const { side, place } = target.dataset;
    const spot = spotOf(target);
    if (isDrawing(state)) store.change(drawLink(state, side, Number(place)));
    else actOn(parts, state, target, spot);
  });
  body.addEventListener('keydown', (event) => moveFocus(event, chipOf(event)));
}

// A word of the sentence is removed; a word of the translation is pinned, and shows what else could stand there.
function actOn({ client, store, menu }, state, target, spot) {
  const place = Number(target.dataset.place);
  const isOfSource = target.dataset.side === 'source';
  if (isOfSource && canRemove(client, state, place)) return store.change(toggleRemoved(state, place));
  if (spot) store.change(togglePin(state, spot));
  if (!isOfSource && place > 0 && (!spot || store.get().pin)) menu.show(target, place - 1);
}

function createLegend() {
  const scale = element('span', { class: 'hl-scale', 'aria-hidden': 'true' });
  const name = say('Underline: probability');
  return { scale, node: element('p', { class: 'hl-chances hl-soft' }, name, ' 0', scale, '1') };
}

// The left and right arrows move between tokens, in the reading direction of the line.
function moveFocus(event, button) {
  if (!button || event.shiftKey || !['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) return;
  const line = [...button.parentElement.children];
  const forwards = (event.key === 'ArrowRight') === (button.parentElement.dir === 'ltr');
  const place = { Home: 0, End: line.length - 1 }[event.key] ?? line.indexOf(button) + (forwards ? 1 : -1);
  const next = line[clamp(place, line.length)];
  button.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  event.preventDefault();
}

// The strip shows the weights of its own side, also while the matrix shows the difference of both.
const ownGrid = (state) => shownGrid(state.sideB ? { ...state, sideB: { ...state.sideB, separate: true } } : state);

function light(parts, state) {
  const grid = ownGrid(state);
  for (const button of parts.lit) button.classList.remove('hl-lit');
  parts.lit = ['source', 'target'].flatMap((side) => {
    return [...litPlaces(state, grid, side)].map((place) => parts.chips[side].children[place]);
  });
  if (isDrawing(state)) parts.lit.push(...chipsOfWord(parts, state, state.drawing.source));
  for (const button of parts.lit) button.classList.add('hl-lit');
  if (parts.isLinked) parts.arcs.classList.remove('hl-has-focus');
  else lightArcs(parts, state, grid);
}

// The source word that waits for a word of the translation.
const chipsOfWord = ({ chips }, { record }, word) =>
  [...chips.source.children].filter((_, place) => word !== null && record.tokens.source[place].word === word);

function scrollToPin({ scroll, chips }, state, before) {
  const { kind, pin } = state;
  const moved = pin.column !== null && pin.column !== before?.column;
  const { side, place } = moved ? placeOfColumn(kind, pin.column) : placesOfRows(state, [pin.row ?? 0])[0];
  const frame = scroll.getBoundingClientRect();
  const { left, right } = chips[side].children[place].getBoundingClientRect();
  if (left < frame.left || right > frame.right) scroll.scrollLeft += (left + right - frame.left - frame.right) / 2;
}
