// A person's own translation, scored by the model and shown beside the model's.

import { element } from '../core/dom.js';
import { chooseKind } from '../core/store.js';
import { homeOf, changeHome, leave, visit } from '../core/visit.js';
import { readRecord, request, whyNot } from '../core/requests.js';
import { figure, fixed, note, part, pressable, sum, tokenColumns } from '../core/widgets.js';

export function createReference(store, ask) {
  const box = element('textarea', {
    class: 'hl-box',
    rows: 2,
    dir: 'auto',
    placeholder: 'How would you translate it?',
    'aria-label': 'Your own translation',
  });
  const submit = () => score(store, ask, box.value.trim(), result);
  box.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  const button = pressable('Score it', submit);
  const hint = note();
  const result = element('div', { class: 'hl-scored' });
  const node = part('Your own translation', box, element('div', { class: 'hl-actions' }, button), hint, result);
  return {
    node,
    draw(state, before) {
      const reason = whyNot(state, ask, 'score');
      box.disabled = button.disabled = reason !== null;
      hint.textContent = reason ?? '';
      const [home, former] = [homeOf(state), homeOf(before)];
      if (home.record !== former.record || home.scored !== former.scored) drawScored(store, result, home);
    },
  };
}

async function score(store, ask, text, result) {
  if (text === '') return;
  const record = await request(store, ask, 'score', { do: 'score', target: text }, readRecord);
  if (!record) return;
  changeHome(store, { scored: record });
  result.scrollIntoView({ block: 'nearest' }); // it comes in beneath what the panel shows
}

function drawScored(store, node, { record, scored }) {
  if (!scored) return node.replaceChildren();
  const words = new Set(wordsIn(record));
  const apart = !wordsIn(scored).some((word) => words.has(word));
  node.replaceChildren(
    ...sideOf('the model’s', record),
    ...sideOf('yours', scored),
    element(
      'div',
      { class: 'hl-actions' },
      pressable('Show its attention', () => visit(store, scored, { what: 'reference', label: 'your own translation' })),
      pressable('Difference in the matrix', () => compare(store, scored), { disabled: apart }),
    ),
    note(
      apart
        ? 'The two have no token in common, so there is no difference to draw: show one at a time.'
        : 'The difference is the model’s weights less those of yours, where a token of the one stands in the other too.',
    ),
  );
  return undefined;
}

function wordsIn({ tokens }) {
  return tokens.predicted.filter(({ special }) => !special).map(({ text }) => text);
}

function sideOf(name, { tokens, log_probabilities: chances }) {
  return [
    element('p', { class: 'hl-fact' }, element('strong', {}, name), figure(`log p ${fixed(sum(chances))}`)),
    tokenColumns(tokens.predicted, (step) => [figure(fixed(chances[step], 2))], {
      'aria-label': `Log-probability of each token, ${name}`,
    }),
  ];
}

function compare(store, scored) {
  leave(store);
  const reference = { label: 'your own translation', record: scored };
  store.change({ ...chooseKind(store.get(), 'cross'), reference, mode: 'difference' });
}
