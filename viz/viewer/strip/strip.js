// The strip: the translation, the source tokens above the target tokens, and arcs for the heads on screen.

import { createButton, element, nameInvisible, readable, tokenText, visible } from '../core/dom.js';
import { palette, stepOf } from '../core/colormap.js';
import { fixed, logP } from '../core/labels.js';
import { clamp, sum } from '../core/math.js';
import { rangeNotices } from '../core/measures.js';
import {
  aboutModel,
  differs,
  focusOf,
  isElsewhere,
  placeOfColumn,
  placeOfRow,
  sameSpot,
  spotOfToken,
  togglePin,
} from '../core/store.js';
import { gridChanged, shownGrid } from '../core/grid.js';
import { shownLinks } from '../core/instruments/links.js';
import { toggleQuestion } from '../core/instruments/questions.js';
import { createArcs, drawArcs, drawLinks, lightArcs, litPlaces } from './arcs.js';
import { say, sayCount, tell } from '../locales/language.js';

const OF_LINKS = ['questions', 'answers', 'linkedBy', 'gold'];
const RIGHT_TO_LEFT = /^\P{L}*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

export function createStrip(store) {
  const analysed = element('p', { class: 'hl-analysed hl-soft' });
  const text = element('p', { class: 'hl-translation', dir: 'auto' });
  const facts = element('p', { class: 'hl-soft hl-result-facts', title: logP() });
  const notices = element('div', { class: 'hl-notices' });
  const linksTitle = say('link the words of the sentence and of its translation, in place of the arcs');
  const toggle = createButton(
    'hl-tab hl-links-tab',
    () => toggleLinks(store),
    { title: linksTitle },
    say('Word links'),
  );
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
  const node = element(
    'section',
    { class: 'hl-panel hl-strip', 'aria-label': say('Tokens') },
    element(
      'div',
      { class: 'hl-result' },
      element('div', { tabindex: 0 }, analysed, text), // a long translation scrolls
      element('div', { class: 'hl-result-side' }, element('div', { class: 'hl-result-line' }, facts, toggle), notices),
    ),
    scroll,
  );
  const parts = { store, analysed, text, facts, toggle, notices, chips, arcs, body, scroll, drawn: [], lit: [] };
  listen(parts);
  new ResizeObserver(() => redraw(parts, store.get())).observe(body);
  store.subscribe((state, before) => renderStrip(parts, state, before));
  return node;
}

function renderStrip(parts, state, before) {
  if (!state.record) return;
  if (state.shown !== before.shown) parts.analysed.textContent = nameOfShown(state);
  if (differs(state, before, ['record', 'theme', 'words'])) drawTokens(parts, state);
  if (gridChanged(state, before) || differs(state, before, ['theme', ...OF_LINKS])) redraw(parts, state);
  else if (!sameSpot(focusOf(state), focusOf(before)) || state.pin !== before.pin) light(parts, state);
  if (state.pin !== before.pin && state.pin && !state.hover) scrollToPin(parts, state, before.pin);
}

// What is on screen in place of the translation of the person's sentence; empty for that translation.
function nameOfShown(state) {
  const { shown } = state;
  if (!shown) return '';
  const { model, source_text: sentence } = shown.record;
  return isElsewhere(state)
    ? say('{view} · {model} · “{sentence}”', { view: shown.label, model: model.title, sentence: readable(sentence) })
    : shown.label;
}

// The links take the place of the arcs; their panel says how they were found.
function toggleLinks(store) {
  const changes = toggleQuestion(store.get(), 'links');
  store.change(changes.questions.includes('links') ? { ...changes, panel: 'step' } : changes);
}

function redraw(parts, state) {
  if (!state.record) return;
  const links = shownLinks(state);
  parts.toggle.setAttribute('aria-pressed', state.questions.includes('links'));
  parts.isLinked = links !== null;
  if (links) drawLinks(parts, state.record, links);
  else drawArcs(parts, shownGrid(state), state.kind);
  light(parts, state);
}

function drawTokens({ text, facts, notices, chips }, state) {
  const { record, theme, words } = state;
  const { source, read, predicted } = record.tokens;
  text.textContent = record.text === '' ? say('(nothing)') : readable(record.text);
  facts.replaceChildren(...factsOf(record));
  const warnings = [...rangeNotices(record, aboutModel(state)), ...noticesOf(record)];
  notices.replaceChildren(...warnings.map((notice) => element('p', {}, nameInvisible(notice))));
  chips.source.replaceChildren(...source.map((token, place) => chip('source', place, token, source[place - 1])));
  const colours = palette(theme).css;
  const targets = predicted.map((token, step) => {
    const probability = Math.exp(record.log_probabilities[step]);
    const forced = step < (record.n_prefix ?? 0) && say('forced');
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

// Warnings of the model; a record from an earlier version has them in English only.
function noticesOf({ notices, said = notices }) {
  return said.map(tell);
}

function factsOf(record) {
  const facts = [say('log p {value}', { value: fixed(sum(record.log_probabilities), 2) })];
  const time = sum(Object.values(record.timings));
  if (time > 0) facts.push(say('{time} ms', { time: time.toFixed(0) }));
  const forced = record.n_prefix ?? 0;
  if (forced === 0) return [facts.join(' · ')];
  const given =
    forced === record.tokens.predicted.length
      ? say('all tokens given')
      : sayCount(forced, 'first token forced', 'first {count} tokens forced');
  return [element('span', { class: 'hl-given' }, given), ` · ${facts.join(' · ')}`];
}

function chip(side, place, token, before = null, facts = []) {
  const known = facts.filter(Boolean);
  const continues = token.word !== null && token.word === before?.word;
  const attributes = {
    tabindex: '-1',
    'data-side': side,
    'data-place': place,
    'aria-label': [visible(token), ...known].join(', '),
    title: known.join(', ') || null,
  };
  const classes = ['hl-chip', continues && 'hl-continues', side === 'target' && place === 0 && 'hl-chip-start'];
  return createButton(classes.filter(Boolean).join(' '), null, attributes, tokenText(token));
}

function listen({ store, body }) {
  const chipOf = (event) => event.target.closest('.hl-chip');
  const spotOf = ({ dataset }) => spotOfToken(store.get(), dataset.side, Number(dataset.place));
  body.addEventListener('pointerover', (event) => {
    const target = chipOf(event);
    if (event.pointerType !== 'touch' && store.get().record) store.change({ hover: target && spotOf(target) });
  });
  body.addEventListener('pointerleave', () => store.change({ hover: null }));
  body.addEventListener('click', (event) => {
    const target = chipOf(event);
    const spot = target && spotOf(target);
    if (spot) store.change(pinToken(store.get(), spot, target.dataset.side));
  });
  body.addEventListener('keydown', (event) => moveFocus(event, chipOf(event)));
}

// Pinning a target token opens the panel with the likeliest words of its step.
function pinToken(state, spot, side) {
  const changes = togglePin(state, spot);
  return changes.pin && side === 'target' ? { ...changes, panel: 'step' } : changes;
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

function light(parts, state) {
  const grid = shownGrid(state);
  for (const button of parts.lit) button.classList.remove('hl-lit');
  parts.lit = ['source', 'target'].flatMap((side) => {
    return [...litPlaces(state, grid, side)].map((place) => parts.chips[side].children[place]);
  });
  for (const button of parts.lit) button.classList.add('hl-lit');
  if (!parts.isLinked) lightArcs(parts, state, grid);
}

// Scrolls the strip, but not the page, to the token whose row or column was pinned last.
function scrollToPin({ scroll, chips }, { kind, pin }, before) {
  const moved = pin.column !== null && pin.column !== before?.column;
  const { side, place } = moved ? placeOfColumn(kind, pin.column) : placeOfRow(kind, pin.row ?? 0);
  const frame = scroll.getBoundingClientRect();
  const { left, right } = chips[side].children[place].getBoundingClientRect();
  if (left < frame.left || right > frame.right) scroll.scrollLeft += (left + right - frame.left - frame.right) / 2;
}
