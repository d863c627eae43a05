// The step: its likeliest tokens, the hypotheses, and a person's own translation.

import { element } from '../core/dom.js';
import { createNext } from './next_tokens.js';
import { createBeams } from './beams.js';
import { createReference } from './own_translation.js';

export function createStep(store, ask) {
  const parts = [createNext, createBeams, createReference].map((create) => create(store, ask));
  return {
    node: element('div', {}, ...parts.map(({ node }) => node)),
    draw(state, before) {
      if (state.record) for (const { draw } of parts) draw(state, before);
    },
  };
}
