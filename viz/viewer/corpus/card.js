// What a head does over a corpus: its card, from the file that model/analysis/corpus.py writes.

import { createCall, save } from '../drawing/files.js';
import { element, nameInvisible, shape } from '../drawing/dom.js';
import { cellName } from '../drawing/names.js';
import { fixed, percent, wholePercent } from '../drawing/numbers.js';
import { actionButton, actions, hitLine, note, numberText, roleSymbol, sayNote, shareBar } from '../drawing/widgets.js';
import { cardRows, csvText, sentenceRows } from '../domain/csv.js';
import { chosenHeads } from '../domain/heads.js';
import { sum } from '../domain/math.js';
import { titleOfHeads } from '../state/labels.js';
import { addressOfCell, toAddress } from '../state/permalink.js';
import { say, sayCount, tell } from '../locales/language.js';

const FARTHEST = 5; // distances from there on are counted together, as in model/analysis/corpus.py
const BAR = { width: 20, height: 40, gap: 2 };

// What an instrument draws; see instruments/question.js.
export const createCorpusCard = () => ({
  nothing: ({ record }) =>
    say('Nobody has measured the heads of this model over many sentences. This command does: {command}', {
      command: `python -m viz study ${record.model.name} --sentences FILE`,
    }),
  draw: (state, answer) => {
    const [one, ...others] = chosenHeads(state);
    if (others.length > 0) return [sayNote('Choose one head to see what it does over many sentences.')];
    return cardOf(state, answer, one);
  },
});

function cardOf(state, answer, one) {
  const [kind, layer, head] = one;
  const card = answer.heads[kind]?.[layer]?.[head];
  if (!card) return [sayNote('The file is about another model; make it again.')];
  return [
    note(titleOfHeads(state)),
    ...explainedBy(state, answer, one, card),
    ...histogramsOf(card),
    ...wordsOf(answer, one, card),
    ...intervalsOf(state, answer, one, card),
    ...waysOut(state, answer, one, card),
  ];
}

// The share of the head's attention that its role, or the role that it comes nearest to, explains.
function explainedBy({ record }, { count, roles }, [kind, layer, head], { nearest: [role, evidence], explained }) {
  if (explained === null) return [];
  const { offset } = record.definitions.roles[role];
  const isMixed = roles[kind][layer][head] === 'mixed';
  const words = isMixed ? say('mixed, nearest: {role}', { role: tell(role) }) : tell(role);
  const name = element('strong', {}, roleSymbol(record, role), ' ', words);
  const share = say('{share} %', { share: wholePercent(explained) });
  const sentence = sayCount(
    count,
    '{share} of its attention over {count} sentence is explained by this role.',
    '{share} of its attention over {count} sentences is explained by this role.',
    { share },
  );
  const rows =
    offset === null
      ? ''
      : say('In {share} % of the rows its strongest weight is there; the rest may be elsewhere.', {
          share: wholePercent(evidence),
        });
  return [
    element('p', { class: 'hl-explained' }, name, shareBar(explained), numberText(share)),
    note(sentence, ' ', rows),
  ];
}

function histogramsOf({ distances, largest, entropies }) {
  const distanceName = (place) => {
    const distance = place - FARTHEST;
    const end = Math.abs(distance) === FARTHEST ? (distance < 0 ? '≤ ' : '≥ ') : '';
    return `${end}${distance > 0 ? '+' : ''}${fixed(distance, 0)}`;
  };
  const binName = (place) => `${fixed(place / 10, 1)}–${fixed((place + 1) / 10, 1)}`;
  return [
    element(
      'div',
      { class: 'hl-histograms' },
      histogram(say('Distance of the strongest token'), distances, distanceName),
      histogram(say('Largest weight of a row'), largest, binName),
      histogram(say('Entropy, of the largest possible'), entropies, binName),
    ),
  ];
}

// Bars of the counts; each names itself to a pointer, and all of them together to a screen reader.
function histogram(title, counts, nameOf) {
  const [most, total] = [Math.max(1, ...counts), Math.max(1, sum(counts))];
  const textOf = (count, place) => `${nameOf(place)}: ${percent(count / total)}`;
  const bars = counts.map((count, place) => {
    const height = (BAR.height * count) / most;
    const [x, y] = [place * BAR.width, BAR.height - height];
    const room = shape('rect', { class: 'hl-bar-room', x, y: 0, width: BAR.width, height: BAR.height });
    const bar = shape('rect', { x, y: y.toFixed(1), width: BAR.width - BAR.gap, height: height.toFixed(1) });
    return shape('g', {}, room, bar, shape('title', {}, textOf(count, place)));
  });
  const picture = shape(
    'svg',
    {
      class: 'hl-histogram',
      viewBox: `0 0 ${counts.length * BAR.width} ${BAR.height}`,
      preserveAspectRatio: 'none',
      role: 'img',
      'aria-label': `${title}. ${counts.map(textOf).join(', ')}`,
    },
    ...bars,
  );
  const place = counts.indexOf(Math.max(...counts));
  const ends = element(
    'span',
    { class: 'hl-histogram-ends' },
    element('span', {}, nameOf(0)),
    element('span', {}, nameOf(counts.length - 1)),
  );
  return element(
    'figure',
    {},
    element('figcaption', {}, element('span', {}, title), numberText(textOf(counts[place], place))),
    picture,
    ends,
  );
}

function wordsOf({ measures }, [kind, layer, head], { to, from }) {
  const line = (word, share, text) =>
    element('li', {}, element('bdi', {}, nameInvisible(word)), shareBar(share), numberText(text));
  const most = Math.max(0.01, ...to.map(([, share]) => share));
  return [
    element('h4', {}, say('It attends most to')),
    note(
      say('The share of its weight on words, and how many times the share of even rows that is.'),
      ' ',
      say('Special tokens and final punctuation get {share} of all its weight.', {
        share: percent(measures[kind].sinks[layer][head]),
      }),
    ),
    element(
      'ol',
      { class: 'hl-most-read' },
      ...to.map(([word, share, times]) => line(word, share / most, `${percent(share)} ×${fixed(times, 1)}`)),
    ),
    element('h4', {}, say('It attends most from')),
    sayNote('The rows of a word, and the mean of the largest weight that they give to a word.'),
    element(
      'ol',
      { class: 'hl-most-read' },
      ...from.map(([word, share, rows]) => line(word, share, `${fixed(share, 2)} (${rows})`)),
    ),
  ];
}

// The intervals of activity, the highest first; each sentence opens on its row.
function intervalsOf(state, answer, [kind, layer, head], { intervals }) {
  const total = Math.max(1, sum(intervals.map(([rows]) => rows)));
  const options = { beam_size: answer.beam, length_penalty: 1 };
  const origin = { ...state, record: { ...state.record, options }, panel: 'head' };
  const lineOf = ([place, row, column, weight, key, token, reads]) => {
    const text = answer.sentences[place];
    const href = `${addressOfCell(origin, text, { kind, layer, head, row, column })}&ask=corpus`;
    const name = cellName(
      { token: { text: token }, reads: reads === undefined ? null : { text: reads } },
      { text: key },
    );
    return hitLine(href, name, fixed(weight, 2), text);
  };
  return [
    element('h4', {}, say('Sentences from all of its activity')),
    sayNote(
      'Not the best cases alone: the activity of a row is the largest weight that it gives to a word. Its range is cut into five equal intervals; of the highest one these are the strongest rows, of each other one rows drawn at random with a fixed seed, the weakest included. Each opens its sentence.',
    ),
    ...intervals.flatMap(([rows, cells], place) => [
      element(
        'h5',
        { class: 'hl-interval' },
        sayCount(rows, 'Interval {place} of 5: {count} row, {share}', 'Interval {place} of 5: {count} rows, {share}', {
          place: intervals.length - place,
          share: percent(rows / total),
        }),
      ),
      element('ol', {}, ...cells.map(lineOf)),
    ]),
  ];
}

// The head as a table and as a frame for another page.
function waysOut(state, answer, one, card) {
  const { model, source_text: text } = state.record;
  const name = `headlight-${model.name}-${one[0]}-${one[1] + 1}-${one[2] + 1}`;
  const table = (rows, what) => save(new Blob([csvText(rows)], { type: 'text/csv' }), `${name}-${what}.csv`);
  const buttons = actions(
    actionButton(say('CSV of this sentence'), () => table(sentenceRows(state.record, one), 'sentence')),
    actionButton(say('CSV over the corpus'), () => table(cardRows(card, answer.sentences), 'corpus')),
  );
  if (!location.protocol.startsWith('http')) return [buttons];
  const address = `${location.href.split('#')[0]}${toAddress(state)}`;
  const title = `${titleOfHeads(state)}: ${text}`;
  const frame = element('iframe', { src: address, title, width: '100%', height: '900', loading: 'lazy' });
  return [
    buttons,
    element(
      'details',
      {},
      element('summary', {}, say('Show this head in another page')),
      ...createCall('HTML', frame.outerHTML),
    ),
  ];
}
