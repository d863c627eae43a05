// Routes: the whole network in one picture, with what carries the chosen word through it. A line of a head opens its cell; in
// the large picture it silences the head, and the picture says what that changes.

import { targetIds } from '../domain/payload.js';
import { element, readable, visible } from '../drawing/dom.js';
import { changedHeads, headName, kindName } from '../state/labels.js';
import { fixed, percent, signed } from '../drawing/numbers.js';
import { sum } from '../domain/math.js';
import { showHead, toggleMute } from '../state/actions.js';
import { isOutcome } from '../state/questions.js';
import { actionButton, actions, choiceItem, closeButton, note, numberText, openDialog } from '../drawing/widgets.js';
import { percentSlider } from '../drawing/widgets.js';
import { axesOf, layoutOf, pathsOf, pictureOf, placesOf } from './route_picture.js';
import { say, sayCount } from '../locales/language.js';

const MARGIN = 96; // pixels beside the large picture
const SMALLEST = 0.00005; // a part that is written as more than 0
const FLOWS = [1, 20]; // per cent

export const routes = {
  name: 'routes',
  panel: null, // the tab Step and Learn show it
  title: () => say('Which way did this word come?'),
  doing: () => say('Following this word through the network'),
  ask: ({ record, step }) => ({ ids: targetIds(record), step }),
  create: (store) => {
    const openLarge = createLarge(store);
    return {
      controls: createThreshold(store),
      draw: (state, answer, { step }) => drawRoutes(store, state, answer, step, openLarge),
    };
  },
};

function createThreshold(store) {
  const label = say('Lines that carry at least');
  const { node, draw } = percentSlider(FLOWS, (flow) => store.change({ flow }), { class: 'hl-soft', label });
  return { node, draw: ({ flow }) => draw(flow) };
}

function drawRoutes(store, state, answer, step, openLarge) {
  const { record, flow } = state;
  const layers = { encoder: record.attention.encoder.layers, decoder: record.attention.decoder.layers };
  const paths = pathsOf(answer, flow, layers.encoder);
  const { predicted } = record.tokens;
  const drawn = (width) => ({ record, paths, layout: layoutOf(placesOf(paths), layers, width), step });
  const word = visible(predicted[step]);
  const values = { word, source: percent(sum(answer.source)), prefix: percent(sum(answer.prefix)) };
  const heads = paths.filter(({ head }) => head !== null).length;
  const split = element('div', { class: 'hl-route-split' });
  const open = ({ kind, layer, head, row, column }) =>
    store.change({ hover: null, ...showHead(store.get(), [kind, layer, head]), pin: { row, column }, panel: 'cell' });
  return [
    note(
      step === 0
        ? say('Of “{word}”, {source} comes from the sentence and {prefix} from the start sign {start}.', {
            ...values,
            start: visible(record.tokens.read[0]),
          })
        : say('Of “{word}”, {source} comes from the sentence and {prefix} from what was written before it.', values),
    ),
    pictureOf(drawn(), open, (one) => split.replaceChildren(...splitOf(record, one, open))),
    split,
    actions(actionButton(say('Large picture'), ({ target }) => openLarge(target, drawn))),
    note(
      sayCount(
        heads,
        'Grey lines: a position keeps its own content. {count} orange line: a head reads another position; its kind, layer and number are on the line. Choose it to open its cell.',
        'Grey lines: a position keeps its own content. {count} orange lines: a head reads another position; its kind, layer and number are on the line. Choose one to open its cell.',
      ),
      ' ',
      say('The wider a line, the more of the word it carries (ALTI+, Ferrando et al. 2022).'),
    ),
  ];
}

// What each head brings over a line, and what the position keeps: the parts add up to the line.
function splitOf(record, one, open) {
  const { kind, layer, row, column, flow, split } = one;
  const { rows, columns } = axesOf(record, kind);
  const names = { kind: kindName(kind), layer: layer + 1, row: visible(rows[row]), share: percent(flow) };
  const kept = split.length - 1;
  const ranked = [...split.keys()]
    .filter((part) => Math.abs(split[part]) >= SMALLEST)
    .sort((a, b) => Math.abs(split[b]) - Math.abs(split[a]));
  const line = (part) => {
    const value = numberText(`${signed(100 * split[part], 2)} %`);
    if (part === kept || column === null) return element('li', {}, say('what the position keeps'), ' ', value);
    const name = element('span', {}, headName(layer, part));
    return choiceItem(() => open({ ...one, head: part }), {}, name, value);
  };
  return [
    note(
      column === null || column === row
        ? say('{kind}, layer {layer}: “{row}” keeps its content, {share} of the word. The parts add up to that:', names)
        : say('{kind}, layer {layer}: “{row}” reads “{column}”, {share} of the word. The heads add up to that:', {
            ...names,
            column: visible(columns[column]),
          }),
    ),
    element('ol', {}, ...ranked.map(line)),
  ];
}

// Returns the function that opens the large picture; `drawn(width)` is what is drawn.
function createLarge(store) {
  const place = element('div', { class: 'hl-scroll' });
  const outcome = element('p', { class: 'hl-role', role: 'status' });
  const label = { 'aria-label': routes.title() };
  const dialog = element('dialog', { class: 'hl-help hl-routes-large', ...label }, outcome, place, closeButton());
  const show = (state) => {
    if (!dialog.open || !state.record) return;
    outcome.textContent = outcomeOf(state);
    for (const node of place.querySelectorAll('[data-head]'))
      node.classList.toggle(
        'hl-muted',
        state.mutes.some((one) => String(one) === node.getAttribute('data-head')),
      );
  };
  store.subscribe(show);
  return (opener, drawn) => {
    const silence = ({ kind, layer, head }) => store.change(toggleMute(store.get(), [[kind, layer, head]]));
    opener.closest('.headlight').append(dialog);
    place.replaceChildren(pictureOf(drawn(window.innerWidth - MARGIN), silence));
    openDialog(dialog);
    show(store.get());
  };
}

function outcomeOf(state) {
  const { mutes, muted, record } = state;
  if (mutes.length === 0) return say('Choose a line to silence its head: is the head needed?');
  if (!muted || !isOutcome(state)) return '…';
  const values = {
    changed: changedHeads(muted.heads, muted.ablation),
    factor: fixed(Math.exp(sum(muted.differences)), 2),
    text: readable(muted.record.text),
  };
  return muted.record.text === record.text
    ? say('{changed}: the same translation, {factor} times as likely.', values)
    : say('{changed}: this translation is {factor} times as likely, and “{text}” takes its place.', values);
}
