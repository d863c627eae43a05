// What a head writes when it reads the token of the pinned cell: the words that it pushes up and down.

import { element, tokenText } from '../../core/dom.js';
import { fixed } from '../../core/labels.js';
import { largest } from '../../core/math.js';
import { fact, note, signedLine } from '../../core/widgets.js';
import { createQuestion } from './question.js';

const LIMIT = {
  encoder:
    'a head of the encoder does not write words. These are the words of the source language whose embeddings are nearest: a hint at best.',
  other: 'the change of each word’s logit, against the mean of all words, if the whole row went to this token.',
};

export function createWriting(server) {
  return createQuestion(server, 'writing', 'What does it write from there?', {
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
        note(`In this sentence: ${LIMIT[kind] ?? LIMIT.other}`),
        ...list('Words pushed up', up),
        ...list('Words pushed down', down),
        fact('length of what it writes', fixed(norm)),
        fact('share that it writes here, the weight', fixed(weight)),
      ];
    },
  });
}
