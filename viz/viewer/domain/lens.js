// Which lens the page trusts: the lens whose likeliest word is more often the word of the translation, over many sentences.

import { sum } from './math.js';

/** @type {(answer: any) => boolean} */
export function isJacobianFirst({ jacobian, measured }) {
  return Boolean(jacobian) && sum(measured.decoder.jacobian) > sum(measured.decoder.direct);
}

// An answer of the lens with the words of that lens.
/** @type {(answer: any) => any} */
export function firstLens(answer) {
  return isJacobianFirst(answer) ? { ...answer, ...answer.jacobian } : answer;
}
