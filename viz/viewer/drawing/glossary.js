// The glossary: one sentence for each word of the field. A text underlines its first use; a click, a tap or Enter shows it.

import { createButton, element } from './dom.js';
import { spokenLanguage, tell } from '../locales/language.js';

// The forms of a word as texts have them, and what it means, in English.
const TERMS = {
  'token|tokens':
    'A token is a piece of text that the model reads or writes at once: a word, a part of a word, or a sign.',
  attention: 'Attention is how much each step of the model looks at each token that it reads.',
  'weight|weights':
    'A weight is the share of its attention that a step gives to one token; the weights of a row add up to 1.',
  'head|heads': 'A head is one of several parts of a layer that look at the tokens side by side, each in its own way.',
  'layer|layers': 'A layer is one round of the network: its heads look, then each token is computed anew.',
  encoder: 'The encoder is the half of the network that reads your sentence.',
  decoder: 'The decoder is the half of the network that writes the translation, one token after the other.',
  'cross-attention': 'In cross-attention the steps of the decoder look at your sentence.',
  'query|queries': 'A query is the list of numbers with which a step asks for what it needs.',
  'key|keys': 'A key is the list of numbers with which a token answers to queries.',
  'value|values': 'A value is the list of numbers that a token hands over to those who look at it.',
  'score|scores': 'A score says how well a query fits a key, before the softmax makes a weight of it.',
  softmax: 'The softmax turns a list of scores into shares that add up to 1; a higher score gets a larger share.',
  mask: 'The mask hides tokens that a step must not see, because they are not written yet.',
  'log-probability|log p':
    'The log-probability of a word is the logarithm of its probability: 0 is certain, and -2.3 is one in ten.',
  entropy: 'The entropy says how spread out the weights of a row are: low if it looks at one token, high if at many.',
  'beam|beams': 'A beam is the number of unfinished translations that the search keeps at each step.',
  greedy: 'A greedy search takes the likeliest word at each step and never goes back.',
  'hypothesis|hypotheses': 'A hypothesis is a translation, or its beginning, that the search has considered.',
  norm: 'A norm is the length of a list of numbers; here it says how much a token really adds.',
  'mute|muted': 'A muted head passes nothing on, as if it were switched off.',
  'baseline|baselines': 'A baseline is what a head gives in place of its own output, to see what changes.',
  'source focus':
    'The source focus of a head is how much of its attention it gives, in the mean, to the word it looks at most.',
  loss: 'The loss says how surprised the model is by the right answers; training makes it smaller.',
  seed: 'A seed is the number from which all random numbers of a training follow.',
  'learning rate': 'The learning rate says how far each step of a training changes the model.',
};
const patterns = new Map(); // by the code of a language
const SKIPPED =
  'button, summary, a, label, select, bdi, svg, h1, h2, pre, table, textarea, kbd, .hl-meaning, .hl-terms-not, [translate=no]';

// Underlines the first use of each word in the texts of a node, now and whenever its content changes.
/** @type {(node: Element) => void} */
export function explainTerms(node) {
  const observer = new MutationObserver(() => {
    explainNow(node);
    observer.takeRecords(); // what was just underlined is no news
  });
  explainNow(node);
  observer.observe(node, { childList: true, subtree: true });
}

// What was underlined before stays.
function explainNow(node) {
  /** @type {NodeListOf<HTMLElement>} */
  const terms = node.querySelectorAll('.hl-term');
  const known = new Set([...terms].map(({ dataset }) => dataset.term));
  for (const text of textsOf(node)) explainIn(text, known);
}

/** @type {(node: Element) => Text[]} */
function textsOf(node) {
  const accept = (each) => {
    if (each instanceof Text) return NodeFilter.FILTER_ACCEPT;
    return each.matches(SKIPPED) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP;
  };
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_ELEMENT + NodeFilter.SHOW_TEXT, accept);
  const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  return texts;
}

// The rest of the text may have other words.
/** @type {(text: Text, known: Set<string | undefined>) => void} */
function explainIn(text, known) {
  const { pattern, termOf } = formsOf(spokenLanguage());
  const found = [...text.data.matchAll(pattern)].find(([form]) => !known.has(termOf(form)));
  if (!found) return;
  const [form] = found;
  const term = termOf(form);
  known.add(term);
  const word = text.splitText(found.index);
  const rest = word.splitText(form.length);
  const button = createButton('hl-term', () => explain(button, term), { 'data-term': term }, form);
  const [mark] = /^\p{P}*/u.exec(rest.data) ?? ['']; // stays on the line of the word
  const further = rest.splitText(mark.length);
  word.replaceWith(mark ? element('span', { class: 'hl-term-line' }, button, rest) : button);
  explainIn(further, known);
}

// The pattern of all forms of words, the longest first, and the name of a form in TERMS.
/** @type {(language: string) => { pattern: RegExp; termOf: (form: string) => string }} */
function formsOf(language) {
  if (!patterns.has(language)) {
    const forms = Object.keys(TERMS).flatMap((term) =>
      tell(term)
        .split('|')
        .map((form) => ({ form, term })),
    );
    forms.sort((one, other) => other.form.length - one.form.length);
    const places = new Map(forms.map(({ form, term }) => [form.toLowerCase(), term]));
    const any = forms.map(({ form }) => form).join('|');
    patterns.set(language, {
      pattern: new RegExp(`(?<![\\p{L}\\p{N}-])(?:${any})(?![\\p{L}\\p{N}-])`, 'giu'),
      termOf: (form) => places.get(form.toLowerCase()),
    });
  }
  return patterns.get(language);
}

// Below the word, or above it where the window ends.
function explain(button, term) {
  const card = element('span', { class: 'hl-meaning', role: 'status', popover: 'auto' }, tell(TERMS[term]));
  button.after(card);
  card.addEventListener('toggle', ({ newState }) => newState === 'closed' && card.remove());
  card.showPopover();
  const [word, box] = [button, card].map((one) => one.getBoundingClientRect());
  const isBelow = word.bottom + box.height + 8 < innerHeight;
  card.style.left = `${Math.max(8, Math.min(word.left, innerWidth - box.width - 8))}px`;
  card.style.top = `${isBelow ? word.bottom + 4 : Math.max(8, word.top - box.height - 4)}px`;
}
