// The chapters of Learn: what each one explains, where it begins, and two things to do that the page can check.
// @ts-nocheck

import { isAllowed, matrixOf } from '../domain/payload.js';
import { headName } from '../state/labels.js';
import { nearestRole } from '../domain/roles.js';
import { isMuted, pinnedCell } from '../state/queries.js';
import { shownValue } from '../state/comparison.js';
import { transformedNorm } from '../values/transformed_norm.js';
import { say } from '../locales/language.js';

const CLEAR = 0.5; // of a row: more than all other cells of the row together

// A chapter begins with a model and a sentence. `own` keeps the sentence on screen, unless it is of the model that
// writes words backwards. `view` is what its address says more of a sentence that is kept, `subject` the panel that the
// chapter is about.
export const BACKWARDS = { model: 'reverse', text: 'umbrella', own: false };
const TRANSLATION = { model: 'de-en', text: 'Der alte Mann liest seinem Enkel eine Geschichte vor.', own: true };

// A task is done when `isDone(state)` is true once. `text(record)` is about the model on screen.
export const CHAPTERS = [
  {
    title: () => say('What attention is'),
    begin: BACKWARDS,
    subject: '.hl-centre',
    text: () => [
      say(
        'This small model writes a word backwards, one letter at a time. Before each letter it looks at the letters of the word. How much it looks at each one is its attention.',
      ),
      say(
        'In the matrix, each row is one step of writing and each column is a letter of the word. A row adds up to 1. The more a cell stands out, the more the step looks there.',
      ),
    ],
    tasks: [
      {
        text: () => say('Pin a cell with a weight above 0.5: choose one that stands out.'),
        isDone: (state) => weightOfPin(state) > CLEAR,
      },
      {
        text: () =>
          say(
            'Type a word of your own into the box at the top, and press Enter. Its strongest cells run from the lower left to the upper right, too.',
          ),
        isDone: hasOwnWord,
      },
    ],
  },
  {
    title: () => say('Query, key and value'),
    begin: BACKWARDS,
    subject: '.hl-centre',
    text: () => [
      say(
        'Where does a weight come from? The step that reads has a query, and each letter has a key; both are lists of numbers. They are multiplied number by number, and the sum, divided by the square root of how many they are, is the score. The softmax turns the scores of a row into weights.',
      ),
      say('Each letter also has a value. The weights decide how much of each value the head passes on.'),
    ],
    tasks: [
      {
        text: () => say('Pin a cell that stands out and open the tab Cell: it shows query, key and score.'),
        isDone: (state) => state.panel === 'cell' && state.cell !== null && weightOfPin(state) > CLEAR,
      },
      {
        text: () =>
          say(
            'Choose Norm above the matrix. It shows how much each letter really adds: its weight times the length of its value.',
          ),
        isDone: (state) => shownValue(state) === transformedNorm,
      },
    ],
  },
  {
    title: () => say('Three kinds of attention'),
    begin: TRANSLATION,
    subject: '.hl-heads',
    view: { kind: 'encoder', ask: 'routes' },
    text: () => [
      say(
        'A translator has three kinds of heads. In the encoder, the words of your sentence read each other. In the decoder, each step reads what is written so far. In cross-attention, the steps read your sentence.',
      ),
      say(
        'The picture below shows the way of one word through the encoder and the decoder; the sentence goes in at the bottom. Click a head to see its matrix.',
      ),
    ],
    tasks: [
      {
        text: () =>
          say(
            'A step cannot read what is not yet written. Choose Decoder, and pin a cell that the mask hides: the hatched ones.',
          ),
        isDone: ({ record, kind, pin }) =>
          kind === 'decoder' && isWhole(pin) && !isAllowed(record, kind, pin.row, pin.column),
      },
      {
        text: () =>
          say(
            'Find a head of the encoder or the decoder that is nearest to the role “previous token”: the tab Head says it. Pin a cell above 0.5 in which it reads the previous token.',
          ),
        isDone: isPreviousTokenPinned,
      },
    ],
  },
  {
    title: () => say('How a translation is chosen'),
    begin: TRANSLATION,
    subject: '.hl-inspector',
    view: { kind: 'cross', panel: 'step' },
    text: () => [
      say(
        'At each step the model gives every word it knows a probability. Greedy search takes the likeliest word and goes on from there. It never takes a word back.',
      ),
      say(
        'A beam search keeps several beginnings and goes on with the best of them. So a second-best word can win, if what follows is likelier.',
      ),
    ],
    tasks: [
      {
        text: () =>
          say(
            'In the tab Step, force another word: choose one of the likeliest next words. Watch how the rest changes.',
          ),
        isDone: ({ shown }) => shown?.type === 'forced',
      },
      {
        text: () =>
          say('Open the beam tree in the tab Step. It needs a beam of at least 2 under Options; then translate.'),
        isDone: ({ home }) => (home.record.options?.beam_size ?? 1) > 1 && home.beams !== null,
      },
    ],
  },
  {
    title: () => say('What heads do, and what they do not'),
    begin: TRANSLATION,
    subject: '.hl-heads',
    view: { kind: 'cross', panel: 'mute' },
    text: (record) => [
      say(
        'A head with a clear picture looks important. To know whether it is, mute it and see what the model writes without it. Often nothing changes, because another head does the same.',
      ),
      say('So a picture of attention is not yet a reason. It says where a head looked, not what the model made of it.'),
      ...taughtHead(record, (head) =>
        say('One head of this model was taught in training which words belong together: {head}. No other head was.', {
          head,
        }),
      ),
    ],
    tasks: [
      {
        text: () =>
          say(
            'Mute the head of cross-attention that aligns best in this sentence: the one with the largest source focus. Sort the heads by it.',
          ),
        isDone: (state) => isMuted(state, bestAligned(state)),
      },
      {
        text: () =>
          say(
            'Now find the head that matters most: the tab What if tries all heads one by one. Mute it. Is it the head that aligns best?',
          ),
        isDone: isMostImportantMuted,
      },
    ],
  },
  {
    title: () => say('How heads form'),
    begin: { address: '#playground=reverse' },
    subject: '.hl-centre',
    text: (record) => [
      say(
        'At the start of its training a model knows nothing, and where its heads look is chance. Here the training does not say what a head should do. Each head finds its part while the model learns.',
      ),
      ...taughtHead(record, (head) =>
        say('The training of “{model}” was different: it taught one head which words belong together, {head}.', {
          model: record.model.name,
          head,
        }),
      ),
      say(
        'Here a small model trains in your browser. Press Start and watch its cross-attention: noise at first, then stripes, a band, and in the end a line from the lower left to the upper right.',
      ),
      say(
        'Three challenges: find the smallest model that still sorts. Reach 95 % of unseen words in as few steps as you can. Make a training fail in two different ways.',
      ),
    ],
    tasks: [
      {
        text: () => say('Train until the model spells 95 % of the unseen words backwards.'),
        isDone: ({ played }) =>
          played !== null && played.some(({ settings, share }) => settings.task === 'reverse' && share >= 0.95),
      },
      {
        text: () => say('Switch positions off and train for 300 steps. How far does the model come?'),
        isDone: ({ played }) => played !== null && !played[0].settings.positions && played[0].steps >= 300, // a second one is without them anyway
      },
    ],
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
  const all = tableOf(state.importance.changes);
  const least = Math.min(...all.map(({ value }) => value));
  return all.some(({ value, head }) => value === least && isMuted(state, head));
}

// The values of all heads by kind, [layer][head], as a list.
function tableOf(values) {
  return Object.entries(values).flatMap(([kind, layers]) =>
    layers.flatMap((heads, layer) => heads.map((value, head) => ({ value, head: [kind, layer, head] }))),
  );
}

// What a chapter says of the head that was taught to align; nothing if the model has none.
function taughtHead({ taught }, sentence) {
  return taught ? [sentence(headName(...taught))] : [];
}

function isWhole(pin) {
  return pin !== null && pin.row !== null && pin.column !== null;
}

function weightOfPin(state) {
  const cell = pinnedCell(state);
  if (!cell) return 0;
  const { columns, values } = matrixOf(state.record, cell.kind, cell.layer, cell.head);
  return values[cell.row * columns + cell.column];
}

function bestAligned({ record }) {
  const all = tableOf({ cross: record.measures.cross.focus });
  return all.reduce((best, one) => (one.value > best.value ? one : best)).head;
}
