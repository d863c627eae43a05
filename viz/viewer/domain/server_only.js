// The message of a page without a server for requests that need a server.

import { fault } from '../locales/language.js';

export function needsServer() {
  return fault('Only a Headlight page with a server can do this; this page works without one.');
}
