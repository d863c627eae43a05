// The instruments as questions: what each of them asks about a state. Its answer is kept in the view that it is about.

import { targetIds } from '../payload.js';
import { PINNED, aboutModel, pinnedCell, sourceView } from '../state/queries.js';
import { say } from '../../locales/language.js';

// The parts of the state that a question may be about, and which questions are open.
export const SUBJECTS = ['questions', ...PINNED, 'step', 'other', 'gold'];

// By name, which is that of the request too: the panel that shows the answer (null: every panel); what is asked about a
// state, null if the state has nothing that it could be about; what the status line says meanwhile; and whether only a
// server answers, not the engine in the page.
const ASKED = {
  lens: {
    panel: 'step',
    of: ({ record }) => ({ ids: targetIds(record) }),
    doing: () => say('Reading the model after each layer'),
  },
  // The picture stands in the tab Step and in Learn.
  routes: {
    panel: null,
    of: ({ record, step }) => ({ ids: targetIds(record), step }),
    doing: () => say('Following this word through the network'),
  },
  contributions: {
    panel: 'step',
    of: contributionsOf,
    doing: () => say('Adding up what wrote this word'),
    isServerOnly: true,
  },
  score_split: { panel: 'cell', of: ofCell, doing: () => say('Splitting the score'), isServerOnly: true },
  writing: { panel: 'cell', of: ofCell, doing: () => say('Reading what the head writes'), isServerOnly: true },
  removal: { panel: 'head', of: removalOf, doing: () => say('Removing cells of this row'), isServerOnly: true },
  // The strip, which is always in sight, shows links too.
  links: { panel: null, of: linksOf, doing: () => say('Linking the words'), isServerOnly: true },
};
export const QUESTIONS = Object.keys(ASKED);
const OTHERS = ['baseline', 'examples', 'export']; // that only a server answers
export const SERVER_ONLY = [...QUESTIONS.filter((name) => ASKED[name].isServerOnly), ...OTHERS];

// What the status line says while an instrument is asked.
export function doingOf(name) {
  return ASKED[name].doing();
}

// What muted heads give, as a request says it: {} for nothing; null while the other sentence is not chosen yet.
export function baselineGiven(state) {
  const { baseline, sentence } = state.instead;
  if (baseline === 'sentence' && sentence === '') return null;
  const given = { mean: { sample: aboutModel(state).everyday }, sentence: { other: sentence } }[baseline];
  return given ? { baseline, ...given } : {};
}

// The same with the row, if the heads give it in one row alone.
export function interventionOf(state) {
  const given = baselineGiven(state);
  const { row } = state.instead;
  return given && { ...given, ...(row !== null && { row }) };
}

// What muting heads asks of the model; null while what they give instead is not chosen yet.
export function muteQuestion(state) {
  const given = interventionOf(state);
  return given && { do: 'mute', ...given };
}

// The names under which a page without a server knows what is asked of muted heads, and of each head muted alone in all
// rows: it has no baseline but nothing.
export function nameOfMute({ instead }) {
  return instead.baseline === 'zero' && instead.row === null ? 'mute' : 'baseline';
}

export function nameOfImportance({ instead }) {
  return instead.baseline === 'zero' ? 'importance' : 'baseline';
}

function contributionsOf(state) {
  const { record, step } = state;
  const ids = targetIds(record);
  const other = otherWord(state);
  return { ids, step, word: ids[step], ...(other === null ? {} : { other }) };
}

function ofCell(state) {
  const cell = pinnedCell(state);
  return cell && { ids: targetIds(state.record), ...cell };
}

// Whether the outcome on screen is that of the muted heads and of what they give instead.
export function isOutcome(state) {
  const { muted, mutes } = sourceView(state);
  return muted?.heads === mutes && muted.instead === state.instead;
}

function linksOf({ record, gold }) {
  const taught = record.taught ? { head: ['cross', ...record.taught] } : {};
  return { ids: targetIds(record), ...taught, ...(gold === '' ? {} : { gold }) };
}

// The row of the matrix that loses its cells: that of the step, or of the pinned source token.
function removalOf({ record, kind, layer, head, selection, pin, step }) {
  const row = kind === 'encoder' ? (pin?.row ?? null) : step;
  if (row === null || selection.length > 0) return null;
  return { ids: targetIds(record), kind, layer, ...(head === null ? {} : { head }), row, step };
}

// The id of the other word, if it is an alternative at this step.
export function otherWord({ record, step, other }) {
  const { id: word } = record.tokens.predicted[step];
  return (record.alternatives[step] ?? []).some(({ id }) => id === other && id !== word) ? other : null;
}

export function questionOf(state, name) {
  const asked = ASKED[name].of(state);
  return asked && { do: name, ...asked };
}

// The questions that the person has opened and that are in sight.
export function openQuestions({ questions, panel }) {
  return questions.filter((name) => [null, panel].includes(ASKED[name].panel));
}

// Whether the last answer is about what is asked now.
export function isAnswered({ answers }, name, question) {
  return Boolean(answers[name]) && sameQuestion(answers[name].question, question);
}

export function sameQuestion(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

// Opens a question or closes it; for `store.change`.
export function toggleQuestion({ questions }, name) {
  return { questions: questions.includes(name) ? questions.filter((one) => one !== name) : [...questions, name] };
}
