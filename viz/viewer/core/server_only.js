// The requests that only a server answers; the engine in the page answers all others.

import { fault } from '../locales/language.js';

export const SERVER_ONLY = [
  'contributions',
  'examples',
  'export',
  'intervene',
  'links',
  'portable',
  'removal',
  'score_split',
  'writing',
];
export function needsServer() {
  return fault('This needs the page with a server: run “make app” and open the same link there.');
}
