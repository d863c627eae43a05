// The tour: a first visit in five steps, on the model that writes words backwards. Its card leaves the page usable.

import { element } from './core/dom.js';
import { matrixOf } from './core/payload.js';
import { readRecord, request } from './core/requests.js';
import { leave, visit } from './core/visit.js';
import { pressable } from './core/widgets.js';

const MODEL = 'reverse';
const WORD = 'umbrella';
const REMEMBERED = 'headlight.tour';

// Each step: the part of the page that it speaks of, what it says, and the changes that it makes to the state.
const VISITS = [
  {
    part: '.hl-strip',
    title: 'A model that writes backwards',
    text: () =>
      'Above are the letters that this small model read, beneath those that it wrote. An arc joins each written letter with the letters that one attention head looked at. They cross, because the first letter written is the last one read.',
    changes: () => ({ panel: 'head', pin: null, mutes: [] }),
  },
  {
    part: '.hl-heads',
    title: 'Every head at once',
    text: () =>
      'Each small square is one head of cross-attention; its rows are the letters written, its columns the letters read. The chosen head has a line from the lower left to the upper right: it reads the word from its end.',
    changes: () => ({ panel: 'head', pin: null, mutes: [] }),
  },
  {
    part: '.hl-centre',
    title: 'One weight',
    text: ({ record }) =>
      `This is that head. To write “${record.tokens.predicted[0].text}”, the first letter, it looks at “${lastLetter(record).text}”, the last one. The number is the share of its attention; each row adds up to 1.`,
    changes: ({ record }) => ({ panel: 'head', pin: corner(record), mutes: [] }),
  },
  {
    part: '.hl-inspector',
    title: 'How it comes about',
    text: () =>
      'The query of the written letter is multiplied with the key of the letter read, number by number. Their sum is scaled and goes through the softmax of the row: that is the weight.',
    changes: ({ record }) => ({ panel: 'cell', pin: corner(record), mutes: [] }),
  },
  {
    part: '.hl-inspector',
    title: 'What if they were silent?',
    text: () =>
      'Now the heads of the last layer are silent. The inspector shows what the model writes without them, and how likely each letter of the former word still is. Try single heads too: where several do the same, one of them can be spared. At the end your own sentence comes back.',
    changes: ({ record }) => ({ panel: 'mute', mutes: lastLayer(record) }),
  },
];

function lastLetter(record) {
  return record.tokens.source[record.tokens.source.length - 2];
}

function lastLayer(record) {
  const { layers, heads } = record.attention.cross;
  return Array.from({ length: heads }, (_, head) => ['cross', layers - 1, head]);
}

function corner(record) {
  return { row: 0, column: record.tokens.source.length - 2 };
}

// Offers the tour on a first visit; returns the button that starts it at any time. Without a server there is none.
export function createTour(store, ask, root) {
  const opener = pressable('Take the tour', () => start(tour), { hidden: !ask });
  const tour = {
    store,
    ask,
    root,
    opener,
    at: null,
    panel: null, // the tab to come back to
    card: element('aside', { class: 'hl-panel hl-tour', 'aria-label': 'Tour', hidden: true }),
  };
  tour.card.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    end(tour);
  });
  store.subscribe((state, before) => {
    if (tour.at !== null && !state.visit) end(tour);
    if (ask && state.record && !before.record && !isRemembered()) offer(tour);
  });
  root.append(tour.card);
  return opener;
}

function offer(tour) {
  const later = () => close(tour);
  tour.card.classList.add('hl-aside');
  tour.card.replaceChildren(
    element('p', {}, 'New here? Take a two-minute tour.'),
    element(
      'div',
      { class: 'hl-actions' },
      pressable('No, thanks', later),
      pressable('Start', () => start(tour), { class: 'hl-button' }),
    ),
  );
  tour.card.hidden = false;
}

// The tour has a record of its own and gives the former one back, whichever model is chosen in the page.
async function start(tour) {
  const { store, ask, opener } = tour;
  opener.closest('dialog')?.close();
  const question = { do: 'translate', prefix: [], model: MODEL, text: WORD, beam_size: 1, length_penalty: 1 };
  const record = await request(store, ask, 'tour', question, readRecord);
  if (!record) return close(tour);
  leave(store);
  tour.panel = store.get().panel;
  visit(store, record, { what: 'tour', label: 'the tour' });
  store.change({ kind: 'cross', selection: [], ...mostReversed(record) });
  return go(tour, 0);
}

// The head whose weights lie most on the diagonal from the lower left to the upper right.
function mostReversed(record) {
  const { layers, heads } = record.attention.cross;
  let best = { layer: 0, head: 0, lastHead: 0, score: -1 };
  for (let layer = 0; layer < layers; layer += 1) {
    for (let head = 0; head < heads; head += 1) {
      const { rows, columns, values } = matrixOf(record, 'cross', layer, head);
      let score = 0;
      for (let row = 0; row < Math.min(rows, columns - 1); row += 1) score += values[row * columns + columns - 2 - row];
      if (score > best.score) best = { layer, head, lastHead: head, score };
    }
  }
  return { layer: best.layer, head: best.head, lastHead: best.lastHead };
}

function go(tour, at) {
  const { store, root, card } = tour;
  tour.at = at;
  const step = VISITS[at];
  store.change({ hover: null, ...step.changes(store.get()) });
  const last = at === VISITS.length - 1;
  const next = pressable(last ? 'Done' : 'Next', () => (last ? end(tour) : go(tour, at + 1)), { class: 'hl-button' });
  card.replaceChildren(
    element('p', { class: 'hl-soft' }, `${at + 1} of ${VISITS.length}`),
    element('h2', {}, step.title),
    element('p', { 'aria-live': 'polite' }, step.text(store.get())),
    element(
      'div',
      { class: 'hl-actions' },
      pressable('Skip', () => end(tour)),
      pressable('Back', () => go(tour, at - 1), { disabled: at === 0 }),
      next,
    ),
  );
  card.classList.toggle('hl-aside', step.part !== '.hl-heads'); // so that it hides nothing of what it speaks
  card.hidden = false;
  highlight(root.querySelector(step.part), root);
  next.focus({ preventScroll: true });
}

function highlight(part, root) {
  for (const other of root.querySelectorAll('.hl-toured')) other.classList.remove('hl-toured');
  part.classList.add('hl-toured');
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  part.scrollIntoView({
    block: matchMedia('(max-width: 760px)').matches ? 'start' : 'nearest',
    behavior: still ? 'auto' : 'smooth',
  });
}

function end(tour) {
  const { store, panel } = tour;
  close(tour);
  const touring = store.get().visit?.what === 'tour'; // else the person went elsewhere and stays there
  leave(store);
  if (touring) store.change({ panel });
}

function close(tour) {
  tour.at = null;
  tour.card.hidden = true;
  for (const part of tour.root.querySelectorAll('.hl-toured')) part.classList.remove('hl-toured');
  remember();
}

// A browser may refuse to remember; the tour is then offered again.
function isRemembered() {
  try {
    return localStorage.getItem(REMEMBERED) !== null;
  } catch {
    return false;
  }
}

function remember() {
  try {
    localStorage.setItem(REMEMBERED, 'seen');
  } catch {
    return;
  }
}
