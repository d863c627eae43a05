// Why attention? Two trainings side by side; the decoder of the second one may read only the last state of the encoder.

import { element } from '../drawing/dom.js';
import { actionButton, actions } from '../drawing/widgets.js';
import { say } from '../locales/language.js';
import { USUAL } from './settings.js';

export const BOTH = [USUAL, { ...USUAL, last: true }];
export const WHY_STEPS = 1000; // tests/viz/playground/test_switches.py trains so long to see that the text is true

export const createWhy = (run) =>
  element(
    'section',
    { class: 'hl-panel' },
    element('h3', {}, say('Why attention?')),
    element(
      'p',
      {},
      say(
        'Before there was attention, a decoder saw only the last state of the encoder: a whole sentence in one list of numbers. Train both side by side, and watch the words of 8 letters.',
      ),
    ),
    element(
      'p',
      {},
      say(
        'In our runs of {steps} steps, the model that reads the whole word spells nearly all unseen words backwards. The one with only the last state manages words of 3 letters, and hardly any word of 8.',
        { steps: WHY_STEPS },
      ),
    ),
    actions(actionButton(say('Train both'), run)),
  );
