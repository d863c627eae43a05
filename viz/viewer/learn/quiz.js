// The five questions before the course, and five of the same kind after it: the same idea, never the same sentence.

import { fixed } from '../drawing/numbers.js';
import { say } from '../locales/language.js';

export const QUIZ = [
  {
    before: {
      text: () => say('A step gives the word “moon” a weight of 0.8. How much is left for all other words together?'),
      answers: () => [fixed(0.2, 1), say('Up to 1 for each of them'), say('That depends on the head')],
      because: () => say('The weights of a step add up to 1.'),
    },
    after: {
      text: () => say('A step reads four words, all equally. Which weight has each of them?'),
      answers: () => [fixed(0.25, 2), '1', say('That depends on the words')],
      because: () => say('The weights of a step add up to 1.'),
    },
  },
  {
    before: {
      text: () => say('A model has written “She reads a”. Can its next step look at the word that comes after?'),
      answers: () => [
        say('No, that word does not exist yet'),
        say('Yes, the model plans ahead'),
        say('Yes, with one of its heads'),
      ],
      because: () => say('A step reads what is written so far.'),
    },
    after: {
      text: () => say('A model writes the fourth word of its answer. Which of its own words can it read?'),
      answers: () => [say('The first three'), say('Those that come later, too'), say('None, only the sentence')],
      because: () => say('A step reads what is written so far.'),
    },
  },
  {
    before: {
      text: () => say('A search takes the likeliest word at each step. Does it find the likeliest sentence?'),
      answers: () => [say('Not always'), say('Always'), say('Never')],
      because: () => say('What follows a second-best word can be likelier.'),
    },
    after: {
      text: () =>
        say(
          'The best translation begins with a word that is only second at its step. Which search can find that translation?',
        ),
      answers: () => [
        say('One that keeps several beginnings'),
        say('One that always takes the likeliest word'),
        say('None'),
      ],
      because: () => say('What follows a second-best word can be likelier.'),
    },
  },
  {
    before: {
      text: () => say('A head looks strongly at the word “not”. What do you know then?'),
      answers: () => [
        say('Where it looked; the rest must be tested'),
        say('That “not” decided the translation'),
        say('That the model understands the word'),
      ],
      because: () => say('A weight says where a head looked, not what the model made of it.'),
    },
    after: {
      text: () =>
        say('One head has the clearest picture of all. Without it, the translation stays the same. What follows?'),
      answers: () => [
        say('A clear picture does not make a head important'),
        say('There must be a mistake in the test'),
        say('No head matters for the translation'),
      ],
      because: () => say('A weight says where a head looked, not what the model made of it.'),
    },
  },
  {
    before: {
      text: () => say('Who decides what each head of a model does?'),
      answers: () => [
        say('Nobody: it forms in the training'),
        say('The people who program the model'),
        say('A grammar inside the model'),
      ],
      because: () => say('Heads begin with random numbers and find their part in the training.'),
    },
    after: {
      text: () =>
        say('The same training is run twice, each time from other random numbers. What do you expect of head 1?'),
      answers: () => [
        say('It may do another job each time'),
        say('It does the same both times'),
        say('It learns nothing'),
      ],
      because: () => say('Heads begin with random numbers and find their part in the training.'),
    },
  },
];

// How many answers are right, { 0: 2, 3: 0 } by the places of the questions.
export function countRight(answers) {
  return Object.values(answers).filter((chosen) => chosen === 0).length;
}
