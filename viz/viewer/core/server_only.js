// What a page without a server says where only a server answers.

import { fault } from '../locales/language.js';

export function needsServer() {
  return fault('This needs the page with a server: run “make app” and open the same link there.');
}
