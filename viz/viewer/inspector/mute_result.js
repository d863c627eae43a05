// What muted heads change: the words of the translation, its log-probability, and the log-probability of each token.

import { element, readable } from '../drawing/dom.js';
import { fixed, signed } from '../drawing/numbers.js';
import { largest, sum } from '../domain/math.js';
import { fact, numberText, sayNote, signedBar, tokenColumns } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

// The translation before and after. Changed words are del and ins elements, so that colour is not the only mark.
export function wordsOf({ original_words: before, words: after }) {
  const same = String(before.map(([text]) => text)) === String(after.map(([text]) => text));
  return [line(say('before'), before, 'del'), line(same ? say('after (unchanged)') : say('after'), after, 'ins')];
}

function line(name, words, mark) {
  const marked = words.flatMap(([text, changed]) => {
    return [element(changed ? mark : 'span', { dir: 'auto' }, readable(text)), ' '];
  });
  return element(
    'p',
    { class: 'hl-words' },
    element('span', { class: 'hl-soft' }, name),
    ' ',
    ...(words.length ? marked : [say('(nothing)')]),
  );
}

export function changeOf(record, { differences }) {
  const before = sum(record.log_probabilities);
  const change = sum(differences);
  return [
    fact(say('log p of the translation before'), `${fixed(before, 2)} → ${fixed(before + change, 2)}`),
    fact(
      say('changes by'),
      element('strong', { class: `hl-number ${change < 0 ? 'hl-loss' : ''}`.trim() }, signed(change)),
    ),
  ];
}

export function changesOfTokens(record, { differences }) {
  const most = largest(differences);
  const change = (step) => [signedBar(differences[step], most), numberText(signed(differences[step], 2))];
  const label = { 'aria-label': say('Change of the log-probability of each token') };
  const longest = sayNote('The longest bar is {most} nats; other heads have other scales.', { most: fixed(most, 2) });
  return [tokenColumns(record.tokens.predicted, change, label), longest];
}
