// Chooses which value of a cell is shown.

import { VALUES } from '../values/values.js';
import { chosenHeads } from '../domain/heads.js';
import { titleOfHeads } from './labels.js';
import { chooseKind } from './actions.js';
import { isPossible } from './queries.js';

// The values whose numbers the page has or can ask for.
/** @type {(state: State, hasServer: boolean) => Value[]} */
export const availableValues = ({ values }, canAsk) =>
  VALUES.filter(({ request }) => !request || canAsk || values[request]);

/** @type {(state: State, hasServer: boolean) => Changes} */
export function nextValue(state, canAsk) {
  const possible = availableValues(state, canAsk).filter(({ name }) => isPossible({ ...state, valueName: name }));
  const place = possible.findIndex(({ name }) => name === state.valueName);
  return { valueName: possible[(place + 1) % possible.length].name };
}

/** @type {(state: State, value: Value) => Changes} */
export function chooseValue(state, value) {
  const kind = value.kinds.includes(state.kind) ? {} : chooseKind(state, value.kinds[0]);
  return { ...kind, ...(value.choose?.(state, () => keep(state)) ?? { valueName: value.name }) };
}

// The heads on screen as the reference that the next heads are compared with.
/** @type {(state: State) => Reference} */
export const keep = (state) => ({ label: titleOfHeads(state), record: state.record, heads: chosenHeads(state) });
