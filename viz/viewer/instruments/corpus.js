// What a head does over a corpus; viz/viewer/corpus/card.js draws the answer.

import { aboutModel } from '../state/queries.js';
import { say } from '../locales/language.js';

export const corpus = {
  name: 'corpus',
  panel: 'head',
  title: () => say('What does it do over many sentences?'),
  doing: () => say('Reading what the heads do over many sentences'),
  ask: (state) => (aboutModel(state).study ? {} : null),
};
