// A translation by the person, scored by the model and compared with the model's own.

import { element, replaceKeepingFocus } from '../drawing/dom.js';
import { compareWithReference, scoreTranslation, showReference } from '../transport/views.js';
import { fixed } from '../drawing/numbers.js';
import { sum } from '../domain/math.js';
import { refusalIn, whyNot } from '../transport/requests.js';
import { differs } from '../state/queries.js';
import { actionButton, actions, note, numberText, sayNote, section, tokenColumns } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

export function createOwnTranslation(client) {
  const texts = { placeholder: say('How would you translate it?'), 'aria-label': say('Your own translation') };
  const box = element('textarea', { class: 'hl-box', rows: 2, dir: 'auto', ...texts });
  const submit = () => score(client, box.value.trim(), result);
  box.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  const button = actionButton(say('Score it'), submit);
  const hint = note();
  const result = element('div', { class: 'hl-scored' });
  const node = section(say('Your own translation'), box, actions(button), hint, result);
  return {
    node,
    draw(state, before) {
      const reason = whyNot(client, 'score');
      box.disabled = button.disabled = reason !== null;
      hint.textContent = refusalIn(client, reason ?? '');
      if (differs(state.home, before.home, ['record', 'scored'])) drawResult(client, result, state.home);
    },
  };
}

async function score(client, text, result) {
  if (text === '') return;
  if (await scoreTranslation(client, text)) result.scrollIntoView({ block: 'nearest' }); // below the visible part
}

function drawResult(client, node, { record, scored }) {
  if (!scored) return node.replaceChildren();
  const words = new Set(wordsIn(record));
  const isDisjoint = !wordsIn(scored).some((word) => words.has(word));
  replaceKeepingFocus(
    node,
    ...sideOf(say('the model’s'), say('Log-probability of each token, the model’s'), record),
    ...sideOf(say('yours'), say('Log-probability of each token, yours'), scored),
    actions(
      actionButton(say('Show its attention'), () => showReference(client)),
      actionButton(say('Difference in the matrix'), () => compareWithReference(client), { disabled: isDisjoint }),
    ),
    sayNote(
      'A low number means that the model did not expect the token there. The translation can be right all the same: a rare word or another wording scores low, too.',
    ),
    note(
      isDisjoint
        ? say('The two translations have no token in common, so there is no difference to show.')
        : say(
            'The difference is the model’s weight minus the weight in your translation, for tokens that are in both translations.',
          ),
    ),
  );
  return undefined;
}

const wordsIn = ({ tokens }) => tokens.predicted.filter(({ special }) => !special).map(({ text }) => text);

const sideOf = (name, label, { tokens, log_probabilities: chances }) => [
  element(
    'p',
    { class: 'hl-fact' },
    element('strong', {}, name),
    numberText(say('log p {value}', { value: fixed(sum(chances)) })),
  ),
  tokenColumns(tokens.predicted, (step) => [numberText(fixed(chances[step], 2))], {
    'aria-label': label,
  }),
];
