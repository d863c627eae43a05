// What the mutes of the page ask: which heads, and what they give instead of their output.

import { aboutModel, sourceView } from './queries.js';

// What muted heads give, as a request says it: {} for nothing; null while the other sentence is not chosen yet.
/** @type {(state: State) => object | null} */
export function baselineGiven(state) {
  const { baseline, sentence } = state.ablation;
  if (baseline === 'sentence' && sentence === '') return null;
  const given = { mean: { sample: aboutModel(state).everyday }, sentence: { other: sentence } }[baseline];
  return given ? { baseline, ...given } : {};
}

// The same with the row, if the heads give it in one row alone.
/** @type {(state: State) => object | null} */
export function ablationOf(state) {
  const given = baselineGiven(state);
  const { row } = state.ablation;
  return given && { ...given, ...(row !== null && { row }) };
}

// What muting heads asks of the model; null while what they give instead is not chosen yet.
/** @type {(state: State) => Question | null} */
export function muteQuestion(state) {
  const given = ablationOf(state);
  return given && { do: 'mute', ...given };
}

// Whether the outcome on screen belongs to the muted heads and to what they give instead.
/** @type {(state: State) => boolean} */
export function isOutcome(state) {
  const { muted, mutes } = sourceView(state);
  return muted?.heads === mutes && muted.ablation === state.ablation;
}
