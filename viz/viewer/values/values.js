// The values of a cell, in the order of their buttons and of the key N: the most faithful by the study first.

import { difference } from './difference.js';
import { leaveOneOut } from './leave_one_out.js';
import { normShare } from './norm_share.js';
import { transformedNorm } from './transformed_norm.js';
import { weight } from './weight.js';

/** @type {Value[]} */
export const VALUES = [leaveOneOut, weight, transformedNorm, normShare, difference];
export const USUAL = weight; // of a new page, and where another value cannot be shown

// The value with this name, or with this name in a link of an earlier release; the usual one if there is none.
/** @type {(name: string | null) => Value} */
export const valueNamed = (name) =>
  VALUES.find((value) => value.name === name || value.formerNames.includes(String(name))) ?? USUAL;

// The value that the person chose. Whether it can be shown now, shownValue says.
/** @type {(state: { valueName: string }) => Value} */
export const chosenValue = ({ valueName }) => valueNamed(valueName);

// The name of the chosen value, or of the usual one if the chosen one is not about heads.
/** @type {(state: { valueName: string }) => string} */
export const nameOfHeads = (state) => (chosenValue(state).isOfHeads ? state.valueName : USUAL.name);
