// Pairs that the person pastes or drops: two columns, a source and what to write for it. They never leave the browser.

import { element } from '../drawing/dom.js';
import { actionButton, actions, sayNote } from '../drawing/widgets.js';
import { fault, say, tell } from '../locales/language.js';

const [FEWEST, MOST] = [20, 3000]; // pairs
const LONGEST = 40; // characters of a column
const MOST_CHARACTERS = 200; // different ones
const LARGEST_FILE = 1_000_000; // bytes
const HELD_OUT = [4, 8, 16]; // one of so many sources is kept for the test
const SEPARATORS = ['\t', ';', ','];

// The pairs of a text; throws the sentence that says what is wrong. All lines have the separator of the first line.
function parsePairs(text) {
  const lines = text.normalize('NFC').split(/\r\n|[\r\n]/);
  const first = lines.find((line) => line.trim() !== '') ?? '';
  const separator = SEPARATORS.find((one) => first.includes(one)) ?? SEPARATORS[0];
  const answers = new Map();
  lines.forEach((line, place) => {
    if (line.trim() === '') return;
    const [source, target] = pairOf(line, separator, place + 1);
    if ((answers.get(source) ?? target) !== target)
      throw fault('Line {line} has another answer for “{source}” than a line before it.', { line: place + 1, source });
    answers.set(source, target);
  });
  return checked([...answers]);
}

function pairOf(line, separator, number) {
  const columns = line.split(separator).map((column) => column.trim());
  if (columns.length !== 2 || columns.includes(''))
    throw fault('Line {line} does not have two columns: put a tab, a semicolon or a comma between them.', {
      line: number,
    });
  if (columns.some((column) => [...column].length > LONGEST))
    throw fault('Line {line} has a column of more than {most} characters.', { line: number, most: LONGEST });
  return columns;
}

function checked(pairs) {
  const count = pairs.length;
  if (count < FEWEST)
    throw fault('These are {count} different pairs; the playground needs at least {fewest}.', {
      count,
      fewest: FEWEST,
    });
  if (count > MOST) throw fault('These are {count} pairs; the playground takes at most {most}.', { count, most: MOST });
  const characters = new Set(pairs.flat().join('')).size;
  if (characters > MOST_CHARACTERS)
    throw fault('The pairs have {count} different characters; the playground takes at most {most}.', {
      count: characters,
      most: MOST_CHARACTERS,
    });
  return pairs;
}

// The place where pairs are pasted, or where a file of them is dropped. `take` gets { pairs, heldOut }.
export function createOwnPairs(take) {
  const problem = element('p', { class: 'hl-problem', role: 'alert', hidden: true });
  const show = (sentence) => Object.assign(problem, { textContent: sentence, hidden: sentence === '' });
  const { box, file } = createBox(show);
  const share = element(
    'select',
    { class: 'hl-box', 'aria-label': say('Kept for the test') },
    ...HELD_OUT.map((one) => new Option(say('one in {count}', { count: one }), String(one), false, one === 8)),
  );
  const train = () => {
    show('');
    try {
      take({ pairs: parsePairs(box.value), heldOut: Number(share.value) });
    } catch (error) {
      show(error.said ? tell(error.said) : error.message);
    }
  };
  return element(
    'details',
    { class: 'hl-panel hl-own-pairs' },
    element('summary', {}, say('Own pairs')),
    sayNote(
      'Paste two columns, or drop a file here: what the model reads, and what it writes. A tab, a semicolon or a comma stands between them. At most {most} pairs of {longest} characters; they stay in this browser.',
      { most: MOST, longest: LONGEST },
    ),
    box,
    actions(
      file,
      element('label', {}, say('Kept for the test'), ' ', share),
      actionButton(say('Train with these pairs'), train, { class: 'hl-button' }),
    ),
    problem,
  );
}

function createBox(show) {
  const box = element('textarea', {
    class: 'hl-box',
    rows: 6,
    'aria-label': say('Own pairs'),
    placeholder: 'Hund;Hunde\nKatze;Katzen',
    spellcheck: 'false',
  });
  const fill = async (file) => {
    if (!file) return;
    if (file.size > LARGEST_FILE) show(say('The file is larger than 1 MB.'));
    else box.value = await file.text();
  };
  box.addEventListener('dragover', (event) => event.preventDefault());
  box.addEventListener('drop', (event) => {
    const dropped = event.dataTransfer?.files[0];
    if (!dropped) return;
    event.preventDefault();
    fill(dropped);
  });
  const name = say('A file with two columns');
  const file = element('input', { type: 'file', accept: '.csv,.tsv,.txt', 'aria-label': name });
  file.addEventListener('change', () => fill(file.files?.[0]));
  return { box, file };
}
