// The step's likeliest tokens, each of which can be forced.

import { element, tokenText, visible } from '../core/dom.js';
import { differs } from '../core/store.js';
import { readRecord, request, whyNot } from '../core/requests.js';
import { visit } from '../core/visit.js';
import { figure, fixed, note, pressable, shareBar } from '../core/widgets.js';

export function createNext(store, ask) {
  const node = element('section', { class: 'hl-part' });
  return {
    node,
    draw(state, before) {
      if (differs(state, before, ['record', 'step'])) drawNext(store, ask, node, state);
    },
  };
}

function drawNext(store, ask, node, state) {
  const { record, step } = state;
  const { read, predicted } = record.tokens;
  const to = (place) =>
    pressable(place < step ? '‹' : '›', () => goTo(store, place), {
      'aria-label': place < step ? 'step before' : 'step after',
      disabled: place < 0 || place >= predicted.length,
    });
  const reason = whyNot(state, ask, 'force');
  node.replaceChildren(
    element(
      'div',
      { class: 'hl-fact' },
      element('h3', {}, 'Next word after “', tokenText(read[step]), '”'),
      element('span', { class: 'hl-steps' }, to(step - 1), to(step + 1)),
    ),
    note(`step ${step + 1} of ${predicted.length}${givenAt(record, step)}`),
    element(
      'ol',
      { class: 'hl-next' },
      ...(record.alternatives[step] ?? []).map((one) => alternative(store, ask, state, one, reason)),
    ),
    note(reason ?? 'Click a word to force it; the model continues from there.'),
  );
}

function givenAt({ n_prefix: forced = 0 }, step) {
  return step < forced ? ', its token was given' : '';
}

// A step is the row in focus where there is one, so that the matrix shows the same.
function goTo(store, step) {
  const pin = store.get().kind === 'encoder' ? store.get().pin : { row: step, column: null };
  store.change({ step, pin, hover: null });
}

function alternative(store, ask, { record, step }, one, reason) {
  const taken = one.id === record.tokens.predicted[step].id;
  const probability = Math.exp(one.log_probability);
  const pieces = [tokenText(one), shareBar(probability), figure(fixed(probability))];
  if (taken) return element('li', { class: 'hl-taken', title: `${visible(one)} was taken` }, ...pieces);
  const force = () => forceToken(store, ask, step, one);
  const attributes = {
    type: 'button',
    class: 'hl-choice',
    disabled: reason !== null,
    'aria-label': `force ${visible(one)}, probability ${fixed(probability)}`,
    onclick: force,
  };
  return element('li', {}, element('button', attributes, ...pieces));
}

async function forceToken(store, ask, step, token) {
  const before = store
    .get()
    .record.tokens.predicted.slice(0, step)
    .map(({ id }) => id);
  const record = await request(store, ask, 'force', { do: 'translate', prefix: [...before, token.id] }, readRecord);
  if (record) visit(store, record, { what: 'force', label: `forced “${visible(token)}” at step ${step + 1}` });
}
