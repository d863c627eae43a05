// The instruments as questions: what each of them asks about a state. Its answer is kept in the view that it is about.

import { targetIds } from '../payload.js';
import { aboutModel, pinnedCell, sourceView } from '../state/queries.js';

// The parts of the state that a question may be about, and which questions are open.
export const SUBJECTS = ['questions', 'record', 'kind', 'layer', 'head', 'selection', 'pin', 'step', 'other', 'gold'];

// By name, which is that of the request too: the panel that shows the answer (null: every panel), and what is asked about
// a state; null if the state has nothing that it could be about.
const ASKED = {
  lens: { panel: 'step', of: ({ record }) => ({ ids: targetIds(record) }) },
  contributions: { panel: 'step', of: contributionsOf },
  score_split: { panel: 'cell', of: ofCell },
  writing: { panel: 'cell', of: ofCell },
  removal: { panel: 'head', of: removalOf },
  links: { panel: null, of: linksOf }, // of the strip, which is always in sight
};
export const QUESTIONS = Object.keys(ASKED);
// Every request of an instrument.
export const INSTRUMENTS = [...QUESTIONS, 'intervene', 'examples'];

// What muting heads asks of the model, and what giving them another output asks; null while that is not chosen yet.
export function muteQuestion(state) {
  const { baseline, sentence, row } = state.instead;
  if (baseline === 'zero' && row === null) return { do: 'mute' };
  if (baseline === 'sentence' && sentence === '') return null;
  const given = { mean: { sample: aboutModel(state).everyday }, sentence: { other: sentence } }[baseline];
  return { do: 'intervene', baseline, ...given, ...(row === null ? {} : { row }) };
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
