// The tasks of the playground: pairs of a source and what to write, some held out from training.

import { BOS_ID, EOS, EOS_ID, SPACE, UNK } from '../engine/text/tokenizer.js';
import { message } from '../locales/language.js';

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];
const DIGITS = [...'0123456789'];
const [SHORTEST, LONGEST] = [3, 8]; // letters of a word
const ONES = [
  ...['', 'ein', 'zwei', 'drei', 'vier', 'fünf', 'sechs', 'sieben', 'acht', 'neun', 'zehn', 'elf', 'zwölf'],
  ...['dreizehn', 'vierzehn', 'fünfzehn', 'sechzehn', 'siebzehn', 'achtzehn', 'neunzehn'],
];
const TENS = ['', '', 'zwanzig', 'dreißig', 'vierzig', 'fünfzig', 'sechzig', 'siebzig', 'achtzig', 'neunzig'];
const MONTHS = 'january february march april may june july august september october november december'.split(' ');
const LONG = 16; // letters: a step with longer words has fewer of them
const HELD_OUT = 8; // one of so many sources

const from = (first, count, random) => first + Math.floor(count * random());
const pick = (list, random) => list[from(0, list.length, random)];

function germanNumber(number) {
  const [hundreds, rest] = [Math.floor(number / 100), number % 100];
  const [tens, ones] = [Math.floor(rest / 10), rest % 10];
  const small = rest < 20 ? ONES[rest] : `${ones ? `${ONES[ones]}und` : ''}${TENS[tens]}`;
  return `${hundreds ? `${ONES[hundreds]}hundert` : ''}${small}${rest === 1 ? 's' : ''}`;
}

const NUMBERS = new Map(Array.from({ length: 999 }, (_, place) => [germanNumber(place + 1), String(place + 1)]));

function writeDate(text) {
  const [day, month, year] = text.split(' ');
  const two = (number) => String(number).padStart(2, '0');
  return `${year}-${two(MONTHS.indexOf(month) + 1)}-${two(day)}`;
}

// A task of words of random letters. `write` turns a list of letters into another one.
function words(title, write) {
  const lengthOf = (random) => from(SHORTEST, LONGEST - SHORTEST + 1, random);
  return {
    ...{ title, examples: ['lantern', 'notebook', 'umbrella'], characters: LETTERS, longest: LONGEST },
    draw: (random) => Array.from({ length: lengthOf(random) }, () => pick(LETTERS, random)).join(''),
    write: (text) => write([...text]).join(''),
  };
}

const following = (letter) => LETTERS[(LETTERS.indexOf(letter) + 1) % LETTERS.length];

// Each task: its title, sources as `draw` gives them, what to `write` for one, examples, which no training sees, the
// characters of both sides, and the characters of the longest source.
export const TASKS = {
  reverse: words(message('Spell backwards'), (letters) => letters.reverse()),
  copy: words(message('Copy'), (letters) => letters),
  shift: words(message('Shift every letter by one'), (letters) => letters.map(following)),
  double: words(message('Double every letter'), (letters) => letters.flatMap((letter) => [letter, letter])),
  sort: words(message('Sort the letters'), (letters) => letters.sort()),
  numbers: {
    title: message('German number words to digits'),
    draw: (random) => germanNumber(from(1, 999, random)),
    write: (text) => NUMBERS.get(text) ?? '',
    byHeart: [...NUMBERS.keys()].slice(0, 19), // the other numbers are made of these
    examples: ['einundzwanzig', 'siebenhundertdreißig', 'neunhundertvierundsechzig'],
    characters: [...new Set([...NUMBERS.keys()].join('')), ...DIGITS],
    longest: germanNumber(777).length,
  },
  dates: {
    title: message('Dates to a standard form'),
    draw: (random) => `${from(1, 28, random)} ${pick(MONTHS, random)} ${from(1900, 200, random)}`,
    write: writeDate,
    examples: ['3 may 2024', '21 december 1989', '17 august 1956'],
    characters: [...new Set(MONTHS.join('')), ...DIGITS, '-', SPACE],
    longest: '28 september 2024'.length,
  },
};

export const OWN = 'own';

// The task of this name; `own` is { pairs, heldOut } of own_pairs.js.
export const taskNamed = (name, own) => (name === OWN ? taskOfPairs(own) : TASKS[name]);

// Three of the pairs are its examples.
function taskOfPairs({ pairs, heldOut }) {
  const answers = new Map(pairs);
  const sources = [...answers.keys()];
  const longest = Math.max(...pairs.flat().map((text) => [...text].length));
  const letters = new Set(pairs.flat().join('').replaceAll(' ', SPACE));
  return {
    title: message('Own pairs'),
    draw: (random) => pick(sources, random),
    write: (text) => answers.get(text) ?? '',
    examples: [0, 1, 2].map((third) => sources[Math.floor(((third + 0.5) * sources.length) / 3)]),
    characters: [...letters],
    longest,
    longestTarget: longest + 1,
    size: Math.min(1, LONG / longest),
    heldOut,
  };
}

// The settings of a tokenizer of characters, as Python's Tokenizer.save writes them.
export function tokenizerSettings({ characters }) {
  const names = ['<pad>', UNK, '<s>', EOS];
  const special = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const split = { type: 'Split', pattern: { String: '' }, behavior: 'Isolated', invert: false };
  const spaces = { type: 'Metaspace', replacement: SPACE, prepend_scheme: 'never', split: false };
  return {
    ...{ version: '1.0', truncation: null, padding: null },
    added_tokens: names.map((content, id) => ({ id, content, ...special })),
    normalizer: null,
    pre_tokenizer: { type: 'Sequence', pretokenizers: [spaces, split] },
    ...{ post_processor: null, decoder: null },
    model: {
      type: 'WordLevel',
      vocab: Object.fromEntries([...names, ...characters].map((piece, id) => [piece, id])),
      unk_token: UNK,
    },
  };
}

// Whether no training sees this source: the examples, and one of `heldOut` others by a checksum of its letters (FNV-1a),
// unless it must be learned by heart.
function isHeldOut({ examples, byHeart = [], heldOut = HELD_OUT }, source) {
  let sum = 0x811c9dc5;
  for (const letter of source) sum = Math.imul(sum ^ letter.codePointAt(0), 0x01000193);
  return examples.includes(source) || ((sum >>> 16) % heldOut === 0 && !byHeart.includes(source));
}

export function drawSources(task, count, random, heldOut) {
  const found = [];
  while (found.length < count) {
    const source = task.draw(random);
    if (isHeldOut(task, source) === heldOut) found.push(source);
  }
  return found;
}

// Sentences as a batch for the trainer. A target that is null begins with <s> alone. With `peeks` the decoder reads what
// it is to write, the mistake of a published notebook.
export function batchOf(pairs, peeks = false) {
  /** @type {{ [part in 'source' | 'read' | 'labels' | 'sources' | 'targets']: number[] }} */
  const batch = { source: [], read: [], labels: [], sources: [0], targets: [0] };
  for (const [source, target] of pairs) {
    batch.source.push(...source, EOS_ID);
    batch.labels.push(...target, EOS_ID);
    batch.read.push(...(peeks ? [...target, EOS_ID] : [BOS_ID, ...target]));
    batch.sources.push(batch.source.length);
    batch.targets.push(batch.labels.length);
  }
  return batch;
}

// Random numbers from 0 to 1 that depend on the seed alone (mulberry32).
export function createRandom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
