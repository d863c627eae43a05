// What a person has done in the course, kept in the browser: nothing is sent.

import { useStorage } from '../transport/storage.js';

const STORED = 'headlight.learned';
const NOTHING = { tasks: [], understood: [], guesses: {}, before: {}, after: {} };

// { get, change }. `tasks` are names such as "1.2" for the second of chapter 1, `understood` numbers of chapters, `guesses` the
// distance from the right answer by the number of the chapter, `before` and `after` the answers to the five questions by their
// places.
export function createProgress() {
  let known = storedProgress();
  return {
    get: () => known,
    change(changes) {
      known = { ...known, ...changes };
      useStorage((storage) => storage.setItem(STORED, JSON.stringify(known)));
    },
  };
}

// Other programs of the same host may have written anything there.
function storedProgress() {
  try {
    const stored = JSON.parse(useStorage((storage) => storage.getItem(STORED)) ?? '{}');
    const fits = ([name, usual]) => [name, isLike(stored?.[name], usual) ? stored[name] : usual];
    return Object.fromEntries(Object.entries(NOTHING).map(fits));
  } catch {
    return NOTHING;
  }
}

function isLike(value, usual) {
  const isNumbered = (list) => list.every((one) => /^-?\d+(\.\d)?$/.test(one));
  if (Array.isArray(usual)) return Array.isArray(value) && isNumbered(value);
  return typeof value === 'object' && value !== null && isNumbered([...Object.keys(value), ...Object.values(value)]);
}
