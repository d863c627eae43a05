// The glossary: one plain sentence for each word of the field. A text underlines the first use of each word; a click, a tap or
// the Enter key shows the sentence.

import { createButton, element } from './dom.js';
import { message, tell } from '../locales/language.js';

// The forms of a word as texts have them, and what it means.
const TERMS = [
  [
    message('token|tokens'),
    message('A token is a piece of text that the model reads or writes at once: a word, a part of a word, or a sign.'),
  ],
  [message('attention'), message('Attention is how much each step of the model looks at each token that it reads.')],
  [
    message('weight|weights'),
    message('A weight is the share of its attention that a step gives to one token; the weights of a row add up to 1.'),
  ],
  [
    message('head|heads'),
    message('A head is one of several parts of a layer that look at the tokens side by side, each in its own way.'),
  ],
  [
    message('layer|layers'),
    message('A layer is one round of the network: its heads look, then each token is computed anew.'),
  ],
  [message('encoder'), message('The encoder is the half of the network that reads your sentence.')],
  [
    message('decoder'),
    message('The decoder is the half of the network that writes the translation, one token after the other.'),
  ],
  [message('cross-attention'), message('In cross-attention the steps of the decoder look at your sentence.')],
  [message('query|queries'), message('A query is the list of numbers with which a step asks for what it needs.')],
  [message('key|keys'), message('A key is the list of numbers with which a token answers to queries.')],
  [message('value|values'), message('A value is the list of numbers that a token hands over to those who look at it.')],
  [
    message('score|scores'),
    message('A score says how well a query fits a key, before the softmax makes a weight of it.'),
  ],
  [
    message('softmax'),
    message('The softmax turns a list of scores into shares that add up to 1; a higher score gets a larger share.'),
  ],
  [message('mask'), message('The mask hides tokens that a step must not see, because they are not written yet.')],
  [
    message('log-probability|log p'),
    message('The log-probability of a word is the logarithm of its probability: 0 is certain, and -2.3 is one in ten.'),
  ],
  [
    message('entropy'),
    message('The entropy says how spread out the weights of a row are: low if it looks at one token, high if at many.'),
  ],
  [
    message('beam|beams'),
    message('A beam is the number of unfinished translations that the search keeps at each step.'),
  ],
  [message('greedy'), message('A greedy search takes the likeliest word at each step and never goes back.')],
  [
    message('hypothesis|hypotheses'),
    message('A hypothesis is a translation, or its beginning, that the search has considered.'),
  ],
  [message('norm'), message('A norm is the length of a list of numbers; here it says how much a token really adds.')],
  [message('mute|muted'), message('A muted head passes nothing on, as if it were switched off.')],
  [
    message('baseline|baselines'),
    message('A baseline is what a head gives in place of its own output, to see what changes.'),
  ],
  [
    message('source focus'),
    message(
      'The source focus of a head is how much of its attention it gives, in the mean, to the word it looks at most.',
    ),
  ],
  [
    message('loss'),
    message('The loss says how surprised the model is by the right answers; training makes it smaller.'),
  ],
  [message('seed'), message('A seed is the number from which all random numbers of a training follow.')],
  [message('learning rate'), message('The learning rate says how far each step of a training changes the model.')],
];
const SKIPPED =
  'button, summary, a, label, select, bdi, svg, h1, h2, pre, table, textarea, kbd, .hl-terms-not, [translate=no]';

const patterns = new Map(); // by the forms of a word, as the language of the page has them

// Underlines the first use of each word in the texts of a node. What was underlined before stays.
/** @type {(node: Element) => void} */
export function explainTerms(node) {
  /** @type {NodeListOf<HTMLElement>} */
  const terms = node.querySelectorAll('.hl-term');
  const known = new Set([...terms].map(({ dataset }) => Number(dataset.term)));
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) if (!walker.currentNode.parentElement?.closest(SKIPPED)) texts.push(walker.currentNode);
  for (const text of texts) explainIn(text, known);
}

// The earliest word of a text first; the rest of the text may have others.
function explainIn(text, known) {
  const found = TERMS.flatMap(([forms], term) => {
    const match = known.has(term) ? null : patternOf(tell(forms)).exec(text.data);
    return match ? [{ term, start: match.index, length: match[0].length }] : [];
  }).sort((one, other) => one.start - other.start || other.length - one.length);
  if (found.length === 0) return;
  const [{ term, start, length }] = found;
  known.add(term);
  const word = text.splitText(start);
  const rest = word.splitText(length);
  const button = createButton('hl-term', () => explain(button, term), { 'data-term': term }, word.data);
  const [mark] = /^\p{P}*/u.exec(rest.data) ?? ['']; // stays on the line of the word
  const further = rest.splitText(mark.length);
  word.replaceWith(mark ? element('span', { class: 'hl-term-line' }, button, rest) : button);
  explainIn(further, known);
}

function patternOf(forms) {
  if (!patterns.has(forms))
    patterns.set(forms, new RegExp(`(?<![\\p{L}\\p{N}-])(?:${forms})(?![\\p{L}\\p{N}-])`, 'iu'));
  return patterns.get(forms);
}

// Below the word, or above it where the window ends.
function explain(button, term) {
  const card = element('span', { class: 'hl-meaning', role: 'status', popover: 'auto' }, tell(TERMS[term][1]));
  button.after(card);
  card.addEventListener('toggle', ({ newState }) => newState === 'closed' && card.remove());
  card.showPopover();
  const [word, box] = [button, card].map((one) => one.getBoundingClientRect());
  const isBelow = word.bottom + box.height + 8 < innerHeight;
  card.style.left = `${Math.max(8, Math.min(word.left, innerWidth - box.width - 8))}px`;
  card.style.top = `${isBelow ? word.bottom + 4 : Math.max(8, word.top - box.height - 4)}px`;
}
