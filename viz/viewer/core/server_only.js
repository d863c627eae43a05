// What a page without a server says where only a server answers.

import { fault } from '../locales/language.js';

export function needsServer() {
  return fault('Only a Headlight page with a server can do this; this page works without one.');
}
