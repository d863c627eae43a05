// The chapters of Learn: what each one asks and explains, where it begins, two tasks that the page checks, and what was learned.

import { isAllowed, matrixOf } from '../domain/payload.js';
import { headsWith, mostFocused } from '../domain/heads.js';
import { nearestRole } from '../domain/roles.js';
import { isCell, isMuted, pinnedCell } from '../state/queries.js';
import { shownValue } from '../state/comparison.js';
import { transformedNorm } from '../values/transformed_norm.js';
import { visible } from '../drawing/dom.js';

const CLEAR = 0.5; // of a row: more than all other cells of the row together

// A chapter begins with a model and a sentence. `own` keeps the sentence on screen, unless it is of the model that writes words
// backwards. `view` is what the address of the chapter says about the view, `subject` the panel that the chapter is about,
// `chosen` the panel that is needed once a head is chosen. `guess` comes first, and the picture answers it; `check` comes last.
// See question.js. All texts are in English; who shows them tells them in the language of the page. A paragraph about {head}, the
// head that was taught to align, is for models that have one.
/** @type {Sentence} */
export const BACKWARDS = { model: 'reverse', text: 'umbrella', own: false };
/** @type {Sentence} */
const TRANSLATION = { model: 'de-en', text: 'Der alte Mann liest seinem Enkel eine Geschichte vor.', own: true };

// A task is done when `isDone(state)` is true once; `at` is the panel that it needs (in a task of two steps, the panel that the
// next step needs), `result` the panel that shows the outcome.
/** @type {Chapter[]} */
export const CHAPTERS = [
  {
    title: 'What attention is',
    begin: BACKWARDS,
    subject: '.hl-centre',
    guess: {
      text: 'The model writes this word backwards. Which letter does it look at before it writes the first letter of its answer?',
      answers: ({ tokens }) => tokens.source.filter(({ special }) => !special).map(visible),
      right: -1,
      because:
        'Its answer begins with the last letter. In the first row of the matrix the last letter stands out: there it looks.',
    },
    text: [
      'This small model writes a word backwards, one letter at a time. Before each letter it looks at the letters of the word. How much it looks at each one is its attention.',
      'In the matrix, each row is one step of writing and each column is a letter of the word. A row adds up to 1. The more a cell stands out, the more the step looks there.',
    ],
    tasks: [
      {
        at: '.hl-centre',
        text: 'Pin a cell with a weight above 0.5: choose one that stands out.',
        isDone: (state) => weightOfPin(state) > CLEAR,
      },
      {
        at: 'top',
        text: 'Type a word of your own into the box at the top, and press Enter. Its strongest cells run from the lower left to the upper right, too.',
        isDone: hasOwnWord,
      },
    ],
    check: {
      text: 'What does one row of the matrix show?',
      answers: [
        'How much one step looks at each letter',
        'How likely each letter is as the next one',
        'How often each letter occurs',
      ],
      because: 'A row is one step of writing. Its weights add up to 1, because the step shares out its attention.',
    },
    learned: 'Attention is how a step shares out its look over what it reads. The shares add up to 1.',
  },
  {
    title: 'Query, key and value',
    begin: BACKWARDS,
    subject: '.hl-centre',
    guess: {
      text: 'Imagine that each step has a question, and that each letter has a label and a content. What decides how much the step looks at a letter?',
      answers: ['How well the label fits the question', 'How long the content is', 'Only where the letter stands'],
      because: 'The question is called query, the label key, the content value. Query and key decide the weight.',
    },
    text: [
      'Where does a weight come from? The step that reads has a query, and each letter has a key; both are lists of numbers. They are multiplied number by number, and the sum, divided by the square root of how many they are, is the score. The softmax turns the scores of a row into weights.',
      'Each letter also has a value. The weights decide how much of each value the head passes on.',
    ],
    tasks: [
      {
        at: (state) => (weightOfPin(state) > CLEAR ? '.hl-inspector' : '.hl-centre'),
        text: 'Pin a cell that stands out and open the tab Cell: it shows query, key and score.',
        isDone: (state) => state.panel === 'cell' && state.cell !== null && weightOfPin(state) > CLEAR,
      },
      {
        at: '.hl-centre',
        text: 'Choose Norm in the menu View above the matrix. It shows how much each letter really adds: its weight times the length of its value.',
        isDone: (state) => shownValue(state) === transformedNorm,
      },
    ],
    check: {
      text: 'A letter has a large weight, but its value has almost length 0. How much does it add?',
      answers: ['Almost nothing', 'As much as its weight says', 'More than any other letter'],
      because: 'A head passes on weight times value. So a large weight can add little.',
    },
    learned: 'Query and key decide where a head looks; the value is what it takes from there.',
  },
  {
    title: 'Three kinds of attention',
    begin: TRANSLATION,
    subject: '.hl-heads',
    chosen: '.hl-centre',
    view: { kind: 'encoder', ask: 'routes' },
    guess: {
      text: 'The model is writing the third word of its translation. What can this step read?',
      answers: [
        'Your whole sentence, and the words written so far',
        'Only the third word of your sentence',
        'Your whole sentence and the whole translation',
      ],
      because:
        'Cross-attention reads your whole sentence. The decoder reads only what is written: later words are hatched.',
    },
    text: [
      'A translator has three kinds of heads. In the encoder, the words of your sentence read each other. In the decoder, each step reads what is written so far. In cross-attention, the steps read your sentence.',
      'The picture below shows the way of one word through the encoder and the decoder; the sentence goes in at the bottom. Choose a head to see its matrix.',
    ],
    tasks: [
      {
        at: ({ kind }) => (kind === 'decoder' ? '.hl-centre' : '.hl-heads'),
        text: 'A step cannot read what is not yet written. Choose Decoder, and pin a cell that the mask hides: the hatched ones.',
        isDone: ({ record, kind, pin }) =>
          kind === 'decoder' && isCell(pin) && !isAllowed(record, kind, pin.row, pin.column),
      },
      {
        at: '.hl-heads',
        text: 'Find a head of the encoder or the decoder that is nearest to the role “previous token”: the tab Head says it. Pin a cell above 0.5 in which it reads the previous token.',
        isDone: isPreviousTokenPinned,
      },
    ],
    check: {
      text: 'Why are some cells of the decoder hatched?',
      answers: [
        'Those words are not written yet',
        'Their weight is too small to be drawn',
        'The head does not need those words',
      ],
      because: 'While a word is written, later words do not exist. The mask sets their weights to 0.',
    },
    learned:
      'In the encoder your sentence reads itself, in the decoder a step reads what is written, and cross-attention joins the two.',
  },
  {
    title: 'How a translation is chosen',
    begin: TRANSLATION,
    subject: '.hl-inspector',
    view: { kind: 'cross', panel: 'step' },
    guess: {
      text: 'At each step one word is the likeliest. If you always take it, do you get the likeliest sentence?',
      answers: [
        'No, a second-best word can lead to a likelier sentence',
        'Yes, the best steps make the best sentence',
        'Yes, if the sentence is long enough',
      ],
      because: 'The beam tree shows it: several beginnings go on, and one with a weaker start can win.',
    },
    text: [
      'At each step the model gives every word it knows a probability. Greedy search takes the likeliest word and goes on from there. It never takes a word back.',
      'A beam search keeps several beginnings and goes on with the best of them. So a second-best word can win, if what follows is likelier.',
    ],
    tasks: [
      {
        at: '.hl-inspector',
        result: 'top',
        text: 'In the tab Step, force another word: choose one of the likeliest next words. Watch how the rest changes.',
        isDone: ({ shown }) => shown?.type === 'forced',
      },
      {
        at: ({ panel }) => (panel === 'step' ? '.hl-hypotheses ~ div .hl-act' : '.hl-inspector'),
        text: 'At the end of the tab Step, draw the beam tree. Find a beginning that was dropped.',
        isDone: ({ home }) => home.beams !== null,
      },
    ],
    check: {
      text: 'What does a beam of 4 keep at each step?',
      answers: ['The 4 likeliest beginnings', 'The 4 likeliest words of the dictionary', 'The 4 best heads'],
      because: 'At each step the 4 likeliest beginnings go on, and the others are dropped.',
    },
    learned: 'A translation is one path through many possible words. A beam keeps several paths open.',
  },
  {
    title: 'What heads do, and what they do not',
    begin: TRANSLATION,
    subject: '.hl-heads',
    chosen: '.hl-inspector',
    view: { kind: 'cross', panel: 'mute' },
    guess: {
      text: 'A head shows clearly which words belong together. What happens to the translation if you switch this head off?',
      answers: ['Often nothing', 'It always breaks', 'Exactly the words that it joins are missing'],
      because: 'Try it below. Other heads often do the same work.',
    },
    text: [
      'A head with a clear picture looks important. To know whether it is, mute it and see what the model writes without it. Often nothing changes, because another head does the same.',
      'So a picture of attention is not yet a reason. It says where a head looked, not what the model made of it.',
      'One head of this model was taught in training which words belong together: {head}. No other head was.',
    ],
    tasks: [
      {
        at: '.hl-heads',
        text: 'Sort the heads of cross-attention by source focus: the first one aligns best in this sentence. Choose it, and mute it in the tab What if.',
        isDone: (state) => isMuted(state, mostFocused(state.record.measures.cross.focus)),
      },
      {
        at: '.hl-inspector',
        text: 'Now find the head that matters most: the tab What if tries all heads one by one. Mute it. Is it the head that aligns best?',
        isDone: isMostImportantMuted,
      },
    ],
    check: {
      text: 'How do you find out whether a head matters?',
      answers: [
        'Mute it, and compare what the model writes',
        'Look for the strongest cells',
        'Count the words that it reads',
      ],
      because: 'A weight says where a head looked. Only an experiment says what the translation needs it for.',
    },
    learned: 'A picture of attention shows where a head looked, not why the model wrote a word.',
  },
  {
    title: 'How heads form',
    begin: { address: '#playground=' },
    subject: '.hl-centre',
    guess: {
      text: 'Where do the heads look before the training has begun?',
      answers: ['Anywhere: it is chance', 'At the right letters already', 'Always at the first letter'],
      because: 'At step 0 the pictures are noise. Press Start and watch how a line forms.',
    },
    text: [
      'At the start of its training a model knows nothing, and where its heads look is chance. Here the training does not say what a head should do. Each head finds its part while the model learns.',
      'The training of “{model}” was different: it taught one head which words belong together, {head}.',
      'Here a small model trains in your browser. Press Start and watch its cross-attention: noise at first, then stripes, a band, and in the end a line from the lower left to the upper right.',
      'Below the training there are challenges, with a goal and your own record.',
    ],
    tasks: [
      {
        at: '.hl-play-controls',
        text: 'Train until the model spells 95 % of the unseen words backwards.',
        isDone: ({ played }) =>
          played !== null && played.some(({ settings, share }) => settings.task === 'reverse' && share >= 0.95),
      },
      {
        at: '.hl-play-below ~ .hl-play-sides',
        text: 'Switch positions off and train for 300 steps. How far does the model come?',
        isDone: ({ played }) => played !== null && !played[0].settings.positions && played[0].steps >= 300, // a second one is without them anyway
      },
    ],
    check: {
      text: 'Why is the model tested with words that no training has shown it?',
      answers: [
        'So that it cannot know them by heart',
        'So that the training takes less time',
        'Because the other words are too easy',
      ],
      because: 'Only unseen words show whether the model has learned the rule.',
    },
    learned: 'Nobody programs what a head does. It forms, because it makes the errors of the training smaller.',
  },
];

// A word that the page does not offer.
function hasOwnWord({ home: { record }, page: { site } }) {
  const offered = [BACKWARDS.text, ...(site.examples?.[BACKWARDS.model] ?? [])];
  return record.model.name === BACKWARDS.model && record.text !== '' && !offered.includes(record.source_text);
}

// In a head of self-attention with this role; the pin shows that the person has found it.
function isPreviousTokenPinned(state) {
  const { record, kind, pin } = state;
  if (kind === 'cross' || !(weightOfPin(state) > CLEAR) || pin.column !== pin.row - 1) return false;
  return nearestRole(record, [kind, state.layer, state.head])?.role === 'previous token';
}

// Muting is what the person does; the page may have measured all heads unasked.
function isMostImportantMuted(state) {
  if (state.importance === null) return false;
  const all = headsWith(state.importance.changes);
  const least = Math.min(...all.map(({ value }) => value));
  return all.some(({ value, head }) => value === least && isMuted(state, head));
}

function weightOfPin(state) {
  const cell = pinnedCell(state);
  if (!cell) return 0;
  const { columns, values } = matrixOf(state.record, cell.kind, cell.layer, cell.head);
  return values[cell.row * columns + cell.column];
}
