// What a person has done in the course, kept in the browser: nothing is sent.

import { keepStored, storedFields } from '../transport/storage.js';

const STORED = 'headlight.learned';
const NOTHING = { tasks: [], understood: [], guesses: {}, before: {}, after: {} };

// { get, change }. `tasks` are names such as "1.2" for the second of chapter 1, `understood` numbers of chapters, `guesses` the
// distance from the right answer by the number of the chapter, `before` and `after` the answers to the five questions by their
// places.
export function createProgress() {
  let known = {
    ...NOTHING,
    ...storedFields(STORED, ([name, value]) => Object.hasOwn(NOTHING, name) && isLike(value, NOTHING[name])),
  };
  return {
    get: () => known,
    change(changes) {
      known = { ...known, ...changes };
      keepStored(STORED, JSON.stringify(known));
    },
  };
}

function isLike(value, usual) {
  const isNumbered = (list) => list.every((one) => /^-?\d+(\.\d)?$/.test(one));
  if (Array.isArray(usual)) return Array.isArray(value) && isNumbered(value);
  return typeof value === 'object' && value !== null && isNumbered([...Object.keys(value), ...Object.values(value)]);
}
