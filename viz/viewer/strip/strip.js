// The strip: the translation, source tokens above, target tokens below, and arcs for the heads shown.

import { element, readable, spelt, tokenText, visible } from '../core/dom.js';
import { palette, stepOf } from '../core/colormap.js';
import { differs, focusOf, placeOfColumn, placeOfRow, sameSpot, spotOfToken, togglePin } from '../core/store.js';
import { gridChanged, shownGrid } from '../core/grid.js';
import { createArcs, drawArcs, lightArcs, litPlaces } from './arcs.js';

const RIGHT_TO_LEFT = /^\P{L}*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

export function createStrip(store) {
  const text = element('p', { class: 'hl-translation', dir: 'auto' });
  const facts = element('p', { class: 'hl-soft hl-result-facts' });
  const notices = element('div', { class: 'hl-notices' });
  const chips = {};
  for (const side of ['source', 'target']) {
    const name = side === 'source' ? 'Source tokens' : 'Tokens of the translation';
    chips[side] = element('div', { class: 'hl-chips', role: 'group', 'aria-label': name });
  }
  const arcs = createArcs();
  const label = (name) => element('span', { class: 'hl-strip-label hl-soft' }, name);
  const body = element(
    'div',
    { class: 'hl-strip-body' },
    label('source'),
    chips.source,
    label('translation'),
    chips.target,
    arcs,
  );
  const scroll = element('div', { class: 'hl-scroll hl-strip-scroll' }, body);
  const node = element(
    'section',
    { class: 'hl-panel hl-strip', 'aria-label': 'Tokens' },
    element('div', { class: 'hl-result' }, text, element('div', { class: 'hl-result-side' }, facts, notices)),
    scroll,
  );
  const parts = { store, text, facts, notices, chips, arcs, body, scroll, drawn: [], lit: [] };
  listen(parts);
  new ResizeObserver(() => redraw(parts, store.get())).observe(body);
  store.subscribe((state, before) => renderStrip(parts, state, before));
  return node;
}

function renderStrip(parts, state, before) {
  if (!state.record) return;
  if (differs(state, before, ['record', 'theme', 'words'])) drawTokens(parts, state);
  if (gridChanged(state, before) || state.theme !== before.theme) redraw(parts, state);
  else if (!sameSpot(focusOf(state), focusOf(before)) || state.pin !== before.pin) light(parts, state);
  if (state.pin !== before.pin && state.pin && !state.hover) bringIntoSight(parts, state, before.pin);
}

function redraw(parts, state) {
  if (!state.record) return;
  drawArcs(parts, shownGrid(state), state.kind);
  light(parts, state);
}

function drawTokens({ text, facts, notices, chips }, { record, theme, words }) {
  const { source, read, predicted } = record.tokens;
  text.textContent = record.text === '' ? '(nothing)' : readable(record.text);
  facts.replaceChildren(...factsOf(record));
  notices.replaceChildren(...record.notices.map((notice) => element('p', {}, spelt(notice))));
  chips.source.replaceChildren(...source.map((token, place) => chip('source', place, token, source[place - 1])));
  const colours = palette(theme).css;
  const targets = predicted.map((token, step) => {
    const probability = Math.exp(record.log_probabilities[step]);
    const forced = step < (record.n_prefix ?? 0);
    return chip('target', step + 1, token, predicted[step - 1], {
      probability,
      forced,
      colour: colours[stepOf(probability)],
    });
  });
  chips.target.replaceChildren(chip('target', 0, read[0]), ...targets);
  for (const side of ['source', 'target']) {
    const sentence = side === 'source' ? record.source_text : record.text;
    chips[side].dir = RIGHT_TO_LEFT.test(sentence) ? 'rtl' : 'ltr';
    chips[side].classList.toggle('hl-whole', words);
    chips[side].firstChild.tabIndex = 0;
  }
}

function factsOf(record) {
  const total = record.log_probabilities.reduce((sum, value) => sum + value, 0);
  const facts = [`log p ${total.toFixed(2).replace('-', '−')}`];
  const time = Object.values(record.timings).reduce((sum, value) => sum + value, 0);
  if (time > 0) facts.push(`${time.toFixed(0)} ms`);
  const forced = record.n_prefix ?? 0;
  if (forced === 0) return [facts.join(' · ')];
  const given =
    forced === record.tokens.predicted.length
      ? 'all tokens given'
      : `first ${forced === 1 ? 'token' : `${forced} tokens`} forced`;
  return [element('span', { class: 'hl-given' }, given), ` · ${facts.join(' · ')}`];
}

function chip(side, place, token, before = null, { probability = null, forced = false, colour = null } = {}) {
  const facts = [
    visible(token),
    forced ? 'forced' : null,
    probability === null ? null : `probability ${probability.toFixed(4)}`,
  ];
  const label = facts.filter(Boolean).join(', ');
  const continues = token.word !== null && token.word === before?.word;
  const classes = [
    'hl-chip',
    forced && 'hl-forced',
    continues && 'hl-continues',
    side === 'target' && place === 0 && 'hl-chip-start',
  ];
  const button = element(
    'button',
    {
      type: 'button',
      class: classes.filter(Boolean).join(' '),
      tabindex: '-1',
      'data-side': side,
      'data-place': place,
      'aria-label': label,
      title: facts.slice(1).filter(Boolean).join(', ') || null,
    },
    tokenText(token),
  );
  if (colour) button.style.setProperty('--hl-chance', colour);
  return button;
}

function listen({ store, body }) {
  const chipOf = (event) => event.target.closest('.hl-chip');
  const spotOf = (button) => spotOfToken(store.get(), button.dataset.side, Number(button.dataset.place));
  body.addEventListener('pointerover', (event) => {
    const button = chipOf(event);
    if (event.pointerType !== 'touch' && store.get().record) store.change({ hover: button && spotOf(button) });
  });
  body.addEventListener('pointerleave', () => store.change({ hover: null }));
  body.addEventListener('click', (event) => {
    const button = chipOf(event);
    const spot = button && spotOf(button);
    if (spot) store.change(pinToken(store.get(), spot, button.dataset.side));
  });
  body.addEventListener('keydown', (event) => walk(event, chipOf(event)));
}

// A pinned target token shows the words that the model weighed at its step.
function pinToken(state, spot, side) {
  const changes = togglePin(state, spot);
  return changes.pin && side === 'target' ? { ...changes, panel: 'step' } : changes;
}

// Inside a line of tokens the arrows go from token to token, in the direction in which it is read.
function walk(event, button) {
  if (!button || event.shiftKey || !['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) return;
  const line = [...button.parentElement.children];
  const forwards = (event.key === 'ArrowRight') === (button.parentElement.dir === 'ltr');
  const place = { Home: 0, End: line.length - 1 }[event.key] ?? line.indexOf(button) + (forwards ? 1 : -1);
  const next = line[Math.min(line.length - 1, Math.max(0, place))];
  button.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
  event.preventDefault();
}

function light(parts, state) {
  const grid = shownGrid(state);
  for (const button of parts.lit) button.classList.remove('hl-lit');
  parts.lit = ['source', 'target'].flatMap((side) => {
    const buttons = parts.chips[side].children;
    return [...litPlaces(state, grid, side)].map((place) => buttons[place]);
  });
  for (const button of parts.lit) button.classList.add('hl-lit');
  lightArcs(parts, state, grid);
}

// The token whose row or column was pinned last comes into sight along the strip; the page itself stays where it is.
function bringIntoSight({ scroll, chips }, { kind, pin }, before) {
  const moved = pin.column !== null && pin.column !== before?.column;
  const { side, place } = moved ? placeOfColumn(kind, pin.column) : placeOfRow(kind, pin.row ?? 0);
  const frame = scroll.getBoundingClientRect();
  const { left, right } = chips[side].children[place].getBoundingClientRect();
  if (left < frame.left || right > frame.right) scroll.scrollLeft += (left + right - frame.left - frame.right) / 2;
}
