// The tour: five steps with the model that reverses words. The page stays usable meanwhile.

import { element } from './core/dom.js';
import { matrixOf } from './core/payload.js';
import { openTour } from './core/effects.js';
import { goHome, headOf } from './core/state/actions.js';
import { chosenHeads } from './core/state/queries.js';
import { CHOICES } from './core/state/store.js';
import { useStorage } from './core/storage.js';
import { actionButton, actions } from './core/widgets.js';
import { say } from './locales/language.js';

const MODEL = 'reverse';
const WORD = 'umbrella';
const STORED = 'headlight.tour'; // in the browser, after the person has answered

// Each step: the part of the page that it explains, its text, and its changes of the state.
const STEPS = [
  {
    part: '.hl-strip',
    title: () => say('A model that writes backwards'),
    text: () =>
      say(
        'The letters above are what this small model read, the letters below are what it wrote. Arcs connect each written letter with the letters that one attention head read for it. The arcs cross, because the first written letter is the last letter of the word.',
      ),
    changes: () => ({ panel: 'head', pin: null, mutes: [] }),
  },
  {
    part: '.hl-heads',
    title: () => say('Every head at once'),
    text: () =>
      say(
        'Each small square is one head of cross-attention. Its rows are the written letters, its columns are the letters of the word. The chosen head has a line from the lower left to the upper right: it reads the word from its end.',
      ),
    changes: () => ({ panel: 'head', pin: null, mutes: [] }),
  },
  {
    part: '.hl-centre',
    title: () => say('One weight'),
    text: ({ record }) =>
      say(
        'This is the matrix of that head. For the first written letter, “{first}”, it reads the last letter of the word, “{last}”. The number is the attention weight; each row adds up to 1.',
        { first: record.tokens.predicted[0].text, last: record.tokens.source.at(-2).text },
      ),
    changes: ({ record }) => ({ panel: 'head', pin: corner(record), mutes: [] }),
  },
  {
    part: '.hl-inspector',
    title: () => say('How a weight is computed'),
    text: () =>
      say(
        'The query of the written letter is multiplied with the key of the letter that is read, number by number. The sum is scaled, and the softmax over the row turns it into the weight.',
      ),
    changes: ({ record }) => ({ panel: 'cell', pin: corner(record), mutes: [] }),
  },
  {
    part: '.hl-inspector',
    title: () => say('What if heads are muted?'),
    text: () =>
      say(
        'Now all heads of the last layer are muted. The inspector shows what the model writes without them, and how much the probability of each letter changes. Try single heads, too: if several heads do the same, the model can spare one of them. After the tour, your own sentence comes back.',
      ),
    changes: ({ record }) => ({ panel: 'mute', mutes: lastLayer(record) }),
  },
];

function lastLayer(record) {
  const layer = record.attention.cross.layers - 1;
  return chosenHeads({ record, kind: 'cross', layer, head: null, selection: [] });
}

function corner(record) {
  return { row: 0, column: record.tokens.source.length - 2 };
}

// Offers the tour on the first visit and returns the button that starts it. Without a server there is no tour.
export function createTour(server, root) {
  const { store, ask } = server;
  const opener = actionButton(say('Take the tour'), () => start(tour), { hidden: !ask });
  const tour = {
    server,
    root,
    opener,
    at: null, // the current step
    record: null,
    choices: null, // to restore: what closing a view leaves as it is
    card: element('aside', { class: 'hl-panel hl-tour', 'aria-label': say('Tour'), hidden: true }),
  };
  tour.card.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    end(tour);
  });
  store.subscribe((state) => {
    if (tour.at !== null && !state.shown) end(tour);
  });
  root.append(tour.card);
  if (ask && !useStorage((storage) => storage.getItem(STORED))) offer(tour);
  return opener;
}

function offer(tour) {
  tour.card.classList.add('hl-offer'); // a line above the panels, which covers nothing
  tour.root.prepend(tour.card);
  tour.card.replaceChildren(
    element('p', {}, say('New here? Take a two-minute tour.')),
    actions(
      actionButton(say('Start'), () => start(tour)),
      actionButton(say('No, thanks'), () => close(tour)),
    ),
  );
  tour.card.hidden = false;
}

// The tour shows a record of its own model. The translation from before comes back at the end.
async function start(tour) {
  const { server, opener } = tour;
  opener.closest('dialog')?.close();
  const { panel, questions, instead } = server.store.get();
  const record = await openTour(server, MODEL, WORD);
  if (!record) return close(tour);
  Object.assign(tour, { choices: { panel, questions, instead }, record });
  tour.card.classList.remove('hl-offer');
  tour.root.append(tour.card);
  const plain = { questions: CHOICES.questions, instead: CHOICES.instead };
  server.store.change({ ...headOf({ kind: 'cross', ...mostReversed(record) }), ...plain });
  return go(tour, 0);
}

// The head with the most weight on the diagonal from the lower left to the upper right.
function mostReversed(record) {
  const { layers, heads } = record.attention.cross;
  let best = { layer: 0, head: 0, score: -1 };
  for (let layer = 0; layer < layers; layer += 1) {
    for (let head = 0; head < heads; head += 1) {
      const { rows, columns, values } = matrixOf(record, 'cross', layer, head);
      let score = 0;
      for (let row = 0; row < Math.min(rows, columns - 1); row += 1) score += values[row * columns + columns - 2 - row];
      if (score > best.score) best = { layer, head, score };
    }
  }
  return best;
}

function go(tour, at) {
  const { root, card } = tour;
  const { store } = tour.server;
  tour.at = at;
  const step = STEPS[at];
  store.change({ hover: null, ...step.changes(store.get()) });
  const last = at === STEPS.length - 1;
  const proceed = () => (last ? end(tour) : go(tour, at + 1));
  const next = actionButton(last ? say('Done') : say('Next'), proceed, { class: 'hl-button' });
  card.replaceChildren(
    element('p', { class: 'hl-soft' }, say('{number} of {count}', { number: at + 1, count: STEPS.length })),
    element('h2', {}, step.title()),
    element('p', { 'aria-live': 'polite' }, step.text(store.get())),
    actions(
      actionButton(say('Skip'), () => end(tour)),
      actionButton(say('Back'), () => go(tour, at - 1), { disabled: at === 0 }),
      next,
    ),
  );
  card.classList.toggle('hl-aside', step.part !== '.hl-heads'); // so that the card does not cover what it explains
  card.hidden = false;
  highlight(root.querySelector(step.part), root);
  next.focus({ preventScroll: true });
}

function highlight(part, root) {
  clearHighlight(root);
  part.classList.add('hl-toured');
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  part.scrollIntoView({
    block: matchMedia('(max-width: 760px)').matches ? 'start' : 'nearest',
    behavior: still ? 'auto' : 'smooth',
  });
}

function clearHighlight(root) {
  for (const part of root.querySelectorAll('.hl-toured')) part.classList.remove('hl-toured');
}

function end(tour) {
  const { choices, record } = tour;
  const { store } = tour.server;
  close(tour);
  const state = store.get();
  const isOpen = state.record === record; // otherwise the person opened another record and its panel
  store.change({ ...goHome(state), ...(isOpen ? choices : {}) });
}

function close(tour) {
  tour.at = null;
  tour.card.hidden = true;
  clearHighlight(tour.root);
  useStorage((storage) => storage.setItem(STORED, 'seen'));
}
