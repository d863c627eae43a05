// The role of a head as a small glyph: a mark beneath its thumbnail, explained once in the legend.

import { element, shape } from './dom.js';

const SIDE = 10;
const ROLES = {
  'previous token': { path: 'M8.5 5H1.5M4.5 2 1.5 5l3 3', meaning: 'reads the token before' },
  'next token': { path: 'M1.5 5h7M5.5 2l3 3-3 3', meaning: 'reads the token after' },
  'same token': { path: 'M1.5 3.5h7M1.5 6.5h7', meaning: 'reads its own token' },
  'separator sink': { path: 'M8 1v8M1 5h4.5M3.5 3l2 2-2 2', meaning: 'rests on special tokens and final punctuation' },
  aligned: { path: 'M1 1h2v2h2v2h2v2h2v2', meaning: 'reads the source word being translated' },
  'rare word': { path: 'M5 1l4 4-4 4-4-4z', meaning: 'reads the rarest word of the sentence' },
  mixed: { path: 'M4.5 5h1', meaning: 'none of the others' },
};

export function glyph(role) {
  const path = shape('path', { d: ROLES[role].path });
  return shape('svg', { class: 'hl-glyph', viewBox: `0 0 ${SIDE} ${SIDE}`, 'aria-hidden': 'true' }, path);
}

export function meaningOf(role) {
  return ROLES[role].meaning;
}

// The roles that these heads have, in the order of the list above.
export function roleLegend(roles) {
  const present = Object.keys(ROLES).filter((role) => roles.flat().includes(role));
  return present.map((role) => element('li', { title: meaningOf(role) }, glyph(role), role));
}
