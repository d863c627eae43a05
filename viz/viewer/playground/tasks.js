// The tasks of the playground: pairs of a source and what to write, some held out from training.

import { BOS_ID, EOS, EOS_ID, NEVER_PREDICTED, SPACE, UNK } from '../engine/text/tokenizer.js';
import { say } from '../locales/language.js';

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];
const DIGITS = [...'0123456789'];
const [SHORTEST, LONGEST] = [3, 8]; // letters of a word
const ONES =
  ',ein,zwei,drei,vier,fünf,sechs,sieben,acht,neun,zehn,elf,zwölf,dreizehn,vierzehn,fünfzehn,sechzehn,siebzehn,achtzehn,neunzehn'.split(
    ',',
  );
const TENS = ',,zwanzig,dreißig,vierzig,fünfzig,sechzig,siebzig,achtzig,neunzig'.split(',');
const MONTHS = 'january,february,march,april,may,june,july,august,september,october,november,december'.split(',');
const HELD_OUT = 8; // one of so many sources

// A task of words of random letters. `write` turns a list of letters into another one.
function words(title, write) {
  const draw = (random) =>
    Array.from({ length: SHORTEST + Math.floor((LONGEST - SHORTEST + 1) * random()) }, () =>
      pick(LETTERS, random),
    ).join('');
  const examples = ['lantern', 'notebook', 'umbrella'];
  return {
    title,
    draw,
    write: (text) => write([...text]).join(''),
    examples,
    characters: LETTERS,
    longest: [LONGEST, 2 * LONGEST],
  };
}

function pick(list, random) {
  return list[Math.floor(list.length * random())];
}

// A number from 1 to 999 in German words.
export function germanNumber(number) {
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

function drawDate(random) {
  const from = (first, count) => first + Math.floor(count * random());
  return `${from(1, 28)} ${pick(MONTHS, random)} ${from(1900, 200)}`;
}

export const TASKS = {
  reverse: words(
    () => say('Spell backwards'),
    (letters) => letters.reverse(),
  ),
  copy: words(
    () => say('Copy'),
    (letters) => letters,
  ),
  shift: words(
    () => say('Shift every letter by one'),
    (letters) => letters.map((letter) => LETTERS[(LETTERS.indexOf(letter) + 1) % 26]),
  ),
  double: words(
    () => say('Double every letter'),
    (letters) => letters.flatMap((letter) => [letter, letter]),
  ),
  sort: words(
    () => say('Sort the letters'),
    (letters) => letters.sort(),
  ),
  numbers: {
    title: () => say('German number words to digits'),
    draw: (random) => pick([...NUMBERS.keys()], random),
    write: (text) => NUMBERS.get(text) ?? '',
    examples: ['einundzwanzig', 'siebenhundertdreißig', 'neunhundertvierundsechzig'],
    characters: [...new Set([...NUMBERS.keys()].join('')), ...DIGITS],
    longest: [Math.max(...[...NUMBERS.keys()].map((each) => each.length)), 3],
  },
  dates: {
    title: () => say('Dates to a standard form'),
    draw: drawDate,
    write: writeDate,
    examples: ['3 may 2024', '21 december 1989', '17 august 1956'],
    characters: [...new Set(MONTHS.join('')), ...DIGITS, '-', SPACE],
    longest: ['28 september 2024'.length, '2024-09-28'.length],
  },
};

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

// Whether no training sees this source: the examples, and every eighth other one by a checksum of its letters (FNV-1a).
export function isHeldOut({ examples }, source) {
  let sum = 0x811c9dc5;
  for (const letter of source) sum = Math.imul(sum ^ letter.codePointAt(0), 0x01000193);
  return examples.includes(source) || (sum >>> 16) % HELD_OUT === 0;
}

// Sources that are held out, or that are not.
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

// The likeliest token of each sentence after the last one that was read.
export function likeliest(logits, { labels, targets }, vocabulary) {
  const width = logits.length / labels.length;
  return targets.slice(1).map((end) => {
    const scores = logits.subarray((end - 1) * width, (end - 1) * width + vocabulary);
    let best = NEVER_PREDICTED.length;
    for (let id = best; id < vocabulary; id += 1) if (scores[id] > scores[best]) best = id;
    return best;
  });
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
