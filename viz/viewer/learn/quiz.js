// The five questions before the course, and five of the same kind after it: the same idea, never the same sentence.

export const QUIZ = [
  {
    before: {
      text: 'A step gives the word “moon” a weight of 0.8. How much is left for all other words together?',
      answers: [0.2, 'Up to 1 for each of them', 'That depends on the head'],
      because: 'The weights of a step add up to 1.',
    },
    after: {
      text: 'A step reads four words, all equally. Which weight has each of them?',
      answers: [0.25, 1, 'That depends on the words'],
      because: 'The weights of a step add up to 1.',
    },
  },
  {
    before: {
      text: 'A model has written “She reads a”. Can its next step look at the word that comes after?',
      answers: ['No, that word does not exist yet', 'Yes, the model plans ahead', 'Yes, with one of its heads'],
      because: 'A step reads what is written so far.',
    },
    after: {
      text: 'A model writes the fourth word of its answer. Which of its own words can it read?',
      answers: ['The first three', 'Those that come later, too', 'None, only the sentence'],
      because: 'A step reads what is written so far.',
    },
  },
  {
    before: {
      text: 'A search takes the likeliest word at each step. Does it find the likeliest sentence?',
      answers: ['Not always', 'Always', 'Never'],
      because: 'What follows a second-best word can be likelier.',
    },
    after: {
      text: 'The best translation begins with a word that is only second at its step. Which search can find that translation?',
      answers: ['One that keeps several beginnings', 'One that always takes the likeliest word', 'None'],
      because: 'What follows a second-best word can be likelier.',
    },
  },
  {
    before: {
      text: 'A head looks strongly at the word “not”. What do you know then?',
      answers: [
        'Where it looked; the rest must be tested',
        'That “not” decided the translation',
        'That the model understands the word',
      ],
      because: 'A weight says where a head looked, not what the model made of it.',
    },
    after: {
      text: 'One head has the clearest picture of all. Without it, the translation stays the same. What follows?',
      answers: [
        'A clear picture does not make a head important',
        'There must be a mistake in the test',
        'No head matters for the translation',
      ],
      because: 'A weight says where a head looked, not what the model made of it.',
    },
  },
  {
    before: {
      text: 'Who decides what each head of a model does?',
      answers: ['Nobody: it forms in the training', 'The people who program the model', 'A grammar inside the model'],
      because: 'Heads begin with random numbers and find their part in the training.',
    },
    after: {
      text: 'The same training is run twice, each time from other random numbers. What do you expect of head 1?',
      answers: ['It may do another job each time', 'It does the same both times', 'It learns nothing'],
      because: 'Heads begin with random numbers and find their part in the training.',
    },
  },
];

// How many answers are right, { 0: 2, 3: 0 } by the places of the questions.
export const countRight = (answers) => Object.values(answers).filter((chosen) => chosen === 0).length;
