// What a head writes when it reads the token of the pinned cell: the words that it pushes up and down.

import { ofPinnedCell } from '../state/questions.js';
import { element, tokenText } from '../drawing/dom.js';
import { fixed } from '../drawing/numbers.js';
import { largest } from '../domain/math.js';
import { fact, note, signedLine } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

const limitOf = (kind) =>
  kind === 'encoder'
    ? say(
        'In this sentence: a head of the encoder does not write words. These are the words of the source language whose embeddings are nearest: a hint at best.',
      )
    : say(
        'In this sentence: the change of each word’s logit, against the mean of all words, if the whole row went to this token.',
      );

export const writing = {
  name: 'writing',
  panel: 'cell',
  title: () => say('What does it write from there?'),
  doing: () => say('Reading what the head writes'),
  ask: ofPinnedCell,
  create: () => ({
    draw: (_, { weight, norm, up, down, tokens }, { kind }) => {
      const most = largest([...up, ...down].map(([, change]) => change));
      const list = (label, pushes) => [
        element('h4', {}, label),
        element(
          'ol',
          { class: 'hl-shares', 'aria-label': label },
          ...pushes.map(([word, change]) => signedLine(tokenText(tokens[word]), change, most)),
        ),
      ];
      return [
        note(limitOf(kind)),
        ...list(say('Words pushed up'), up),
        ...list(say('Words pushed down'), down),
        fact(say('length of what it writes'), fixed(norm)),
        fact(say('share that it writes here, the weight'), fixed(weight)),
      ];
    },
  }),
};
