// The likeliest tokens of a step. The person can force each of them.

import { element, replaceKeepingFocus, tokenText, visible } from '../drawing/dom.js';
import { differs, showsMuted } from '../state/queries.js';
import { forceToken, showMuted } from '../transport/views.js';
import { isOutcome } from '../state/questions.js';
import { changedHeads, logP } from '../state/labels.js';
import { sum } from '../domain/math.js';
import { continues } from '../domain/payload.js';
import { fixed, forPointer } from '../drawing/numbers.js';
import { refusalIn, whyNot } from '../transport/requests.js';
import { actionButton, choiceItem, note, numberText, offer, sayNote, shareBar } from '../drawing/widgets.js';
import { say, sayParts } from '../locales/language.js';

const forceHint = () =>
  forPointer(
    say('Click a word to force it. The model then continues from there.'),
    say('Tap a word to force it. The model then continues from there.'),
  );

export function createNextTokens(client) {
  const node = element('section', { class: 'hl-part' });
  return {
    node,
    draw(state, before) {
      if (differs(state, before, ['record', 'step', 'mutes', 'muted', 'ablation', 'shown']))
        drawNextTokens(client, node, state);
    },
  };
}

function drawNextTokens(client, node, state) {
  const { record, step } = state;
  const { read, predicted } = record.tokens;
  const to = (place) =>
    actionButton(place < step ? '‹' : '›', () => goTo(client.store, place), {
      'aria-label': place < step ? say('step before') : say('step after'),
      disabled: place < 0 || place >= predicted.length,
    });
  replaceKeepingFocus(
    node,
    element(
      'div',
      { class: 'hl-fact' },
      element('h3', {}, ...sayParts('Next word after “{word}”', { word: tokenText(read[step]) })),
      element('span', { class: 'hl-steps' }, to(step - 1), to(step + 1)),
    ),
    note(stepText(record, step)),
    ...mutingNote(client, state),
    ...alternatives(client, state, step),
    element('p', { class: 'hl-soft hl-result-facts', title: logP() }, factsOf(record)),
  );
}

// The likeliest tokens of a step, which can be forced, and what a click on one does.
export function alternatives(client, { record }, step) {
  const reason = whyNot(client, 'force');
  const list = toldApart(record.alternatives[step] ?? []).map((one) => alternative(client, record, step, one, reason));
  return [
    element('ol', { class: 'hl-next' }, ...list),
    note(reason === null ? forceHint() : refusalIn(client, reason)),
  ];
}

// If two entries look alike, an entry that goes on with a word begins with an ellipsis.
function toldApart(tokens) {
  const isTwin = (one) => tokens.some((other) => other !== one && visible(other) === visible(one));
  return tokens.map((one) => (isTwin(one) && continues(one) ? { ...one, text: `…${one.text}` } : one));
}

function factsOf({ log_probabilities: chances, options, n_forced: given, tokens, timings }) {
  const facts = [say('log p {value}', { value: fixed(sum(chances), 2) })];
  const { beam_size: beam = 1 } = options ?? {};
  if (beam > 1 && given !== tokens.predicted.length) facts.push(say('beam {size}', { size: beam }));
  const time = sum(Object.values(timings));
  if (time > 0) facts.push(say('{time} ms', { time: time.toFixed(0) }));
  return facts.join(' · ');
}

function stepText({ n_forced: forced = 0, tokens }, step) {
  const place = { step: step + 1, count: tokens.predicted.length };
  return step < forced
    ? say('step {step} of {count}, its token was given', place)
    : say('step {step} of {count}', place);
}

// While heads are muted, the numbers of a translation without muting say so, and what muting makes of the word of the step.
function mutingNote(client, state) {
  const { record, step, muted, mutes } = state;
  if (mutes.length === 0 || showsMuted(state)) return [];
  if (!muted || !isOutcome(state)) return [sayNote('These numbers are those without muting.')];
  const before = record.log_probabilities[step];
  const values = {
    changed: changedHeads(muted.heads, muted.ablation),
    word: visible(record.tokens.predicted[step]),
    before: fixed(Math.exp(before)),
    after: fixed(Math.exp(before + muted.differences[step])),
  };
  const text = say(
    'These numbers are those without muting. With {changed}, “{word}” has {after} instead of {before}.',
    values,
  );
  return [offer(text, say('Show it with muting'), () => showMuted(client, muted))];
}

// Decoder and cross-attention have a row for each step, so the row is pinned too.
function goTo(store, step) {
  const { kind, pin } = store.get();
  store.change({ step, pin: kind === 'encoder' ? pin : { row: step, column: null }, hover: null });
}

function alternative(client, record, step, one, reason) {
  const taken = one.id === record.tokens.predicted[step].id;
  const probability = Math.exp(one.log_probability);
  const pieces = [tokenText(one), shareBar(probability), numberText(fixed(probability))];
  if (taken)
    return element('li', { class: 'hl-taken', title: say('{word} was taken', { word: visible(one) }) }, ...pieces);
  const force = () => forceToken(client, step, one.id);
  const name = say('force {word}, probability {value}', { word: visible(one), value: fixed(probability) });
  const attributes = { disabled: reason !== null, 'aria-label': name };
  return choiceItem(force, attributes, ...pieces);
}
