// The instruments: what they ask, by name, and which of them the person has opened. An instrument has
// - `name`, which is also the name of its request, unless `ask` says `do`, and `title`, the question that the person reads;
// - `panel`: the tab that shows it, null for every tab;
// - `ask(state)`: the fields of its request, null if the state has nothing that it could be about;
// - `doing`: what the status line says meanwhile;
// - `create(store)`: { draw, controls, nothing }, as question.js reads them; a panel may give it instead.

import { PINNED } from '../state/queries.js';
import { contributions } from './contributions.js';
import { corpus } from './corpus.js';
import { lens } from './lens.js';
import { wordLinks } from './links.js';
import { pruning } from './pruning.js';
import { removal } from './removal.js';
import { routes } from './routes.js';
import { scoreSplit } from './score_split.js';
import { writing } from './writing.js';

/** @type {Instrument[]} */
const INSTRUMENTS = [lens, routes, contributions, scoreSplit, writing, removal, wordLinks, corpus, pruning];
export const QUESTIONS = INSTRUMENTS.map(({ name }) => name);

// The parts of the state that a question may be about, and which questions are open.
export const SUBJECTS = ['questions', ...PINNED, 'step', 'other', 'gold'];

/** @type {(name: string) => Instrument} */
export const instrumentNamed = (name) => /** @type {Instrument} */ (INSTRUMENTS.find((one) => one.name === name));

/** @type {(state: State, name: string) => Question | null} */
export function questionOf(state, name) {
  const asked = instrumentNamed(name).ask(state);
  return asked && { do: name, ...asked };
}

// The questions that the person has opened and that are in sight.
/** @type {(state: State) => string[]} */
export const openQuestions = ({ questions, panel }) =>
  questions.filter((name) => [null, panel].includes(instrumentNamed(name).panel));
