// How the page with a server reaches it: through Gradio's `server` functions, and by its scripts.

import { speakAsWanted } from './page.js';
import { say, tell } from './locales/language.js';

const POLL_EVERY = 2000; // milliseconds between two questions for the position in the queue

// Runs a script of the server, which adds to `Headlight`.
export const loadScript = (address) =>
  new Promise((resolve, reject) => {
    const script = document.createElement('script');
    Object.assign(script, { src: address, onload: resolve, onerror: reject });
    document.head.append(script);
  });

// Speaks the language that the person wants; `addresses` says where each catalogue is, by the code of its language.
export const useLanguages = (addresses) =>
  speakAsWanted(Object.keys(addresses), async (code) => (await fetch(addresses[code])).json());

// Returns a function that sends a request through Gradio's `server` functions. It returns the answer or throws an
// error with the sentence to show. `showPosition` gets the position in the queue, or the progress as text; null means
// that neither is known. `signal` cancels the work.
export function asker(server) {
  let tickets = 0; // the number of a request, by which the server knows what to cancel
  return async (request, showPosition, signal) => {
    signal?.throwIfAborted();
    const ticket = (tickets += 1);
    let open = true;
    signal?.addEventListener('abort', () => {
      if (open) server.cancel(ticket);
    });
    const poll = async () => {
      const position = await server.queue_position(ticket);
      if (open) showPosition?.(position);
    };
    const clock = setInterval(poll, POLL_EVERY);
    try {
      // Gradio returns nothing when the server cannot be reached.
      const { answer, error, said = error } = (await server.ask({ ...request, ticket })) ?? { error: unreachable() };
      if (error) throw new Error(tell(said));
      return answer;
    } finally {
      open = false;
      clearInterval(clock);
    }
  };
}

const unreachable = () =>
  say('The server does not answer. Check that it is running and that the text is not far too long, then try again.');
