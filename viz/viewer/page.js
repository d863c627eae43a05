// What Gradio's widgets around the viewer do in the browser: the link that opened the page, menus, what is on screen.

import { taskOfAddress } from './core/permalink.js';
import { waitingText } from './core/requests.js';

const LOOK_EVERY = 2000; // milliseconds between two looks at the queue
const UNREACHABLE =
  'The server does not answer. It has stopped, or the text is far too long; see to that, then try again.';

let provideViewer;
const viewer = new Promise((resolve) => {
  provideViewer = resolve;
});
let captions = {}; // of each model, captions by sentence
let latest = null; // the translation that the page waits for

// Gradio's `server` functions as one: the answer to a request, or an error with the sentence to show. `tellPlace`
// hears the request's place in the queue, null when it is in none.
export function asker(server) {
  return async (request, tellPlace) => {
    let open = true;
    const look = async () => {
      const place = await server.queue_position(request);
      if (open) tellPlace?.(place);
    };
    const clock = setInterval(look, LOOK_EVERY);
    try {
      // Gradio answers nothing at all when the server cannot be reached.
      const { answer, error } = (await server.ask(request)) ?? { error: UNREACHABLE };
      if (error) throw new Error(error);
      return answer;
    } finally {
      open = false;
      clearInterval(clock);
    }
  };
}

// The viewer, once it is mounted, for the page's own widgets.
export function provide(mounted) {
  window.Headlight.viewer = mounted;
  provideViewer(mounted);
}

// Shows a translation; returns the new message and the Export button, which needs a record. A translation that was
// cancelled or replaced by a newer one changes nothing.
export async function translate(text, model, beam, penalty) {
  const mine = {};
  latest = mine;
  const isLatest = () => latest === mine;
  const request = { do: 'translate', model, text, beam_size: beam, length_penalty: penalty, prefix: [] };
  document.body.classList.add('hl-pending');
  try {
    const { ask, show } = await viewer;
    const payload = await ask(request, (place) => isLatest() && tellWaiting(waitingText(place)));
    if (!isLatest()) return [];
    show(JSON.stringify(payload), captionOf(model, text));
    return ['', { __type__: 'update', interactive: true }];
  } catch (error) {
    return isLatest() ? [escaped(error.message)] : [];
  } finally {
    if (isLatest()) cancel();
  }
}

function captionOf(model, text) {
  const ofModel = Object.hasOwn(captions, model) ? captions[model] : {};
  return Object.hasOwn(ofModel, text) ? ofModel[text] : null;
}

export function cancel() {
  latest = null;
  document.body.classList.remove('hl-pending');
  tellWaiting('');
}

function tellWaiting(text) {
  document.querySelector('#hl-place [role="status"]').textContent = text;
}

function escaped(text) {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

// What a link asks for, in place of what the page opens with. `examples` has a sentence for each model there is,
// `known` the captions. Another link in the same page opens it anew; the viewer's own part of the address does not.
export function readAddress({ examples, most, captions: known }, [sentence, model, beam, penalty]) {
  captions = known;
  window.addEventListener('hashchange', ({ oldURL, newURL }) => {
    const [before, after] = [oldURL, newURL].map((url) => JSON.stringify(taskOfAddress(new URL(url).hash)));
    if (before !== after) location.reload();
  });
  const task = taskOfAddress(location.hash);
  const isThere = task.model !== null && Object.hasOwn(examples, task.model);
  return [
    task.text ?? (isThere ? examples[task.model] : sentence),
    isThere ? task.model : model,
    Math.min(task.beam ?? beam, most.beam),
    Math.min(task.alpha ?? penalty, most.penalty),
  ];
}

// The record on screen as a request that gives it again: the tokens that were given, the model's own behind them.
// A step of the training cannot be had again from the finished model, nor can what it says with heads silent from
// the whole one, so the translation that they came from stands for them.
export function onScreen(state) {
  const { record, mutes } = ['training', 'muted'].includes(state.visit?.what) ? state.visit.from : state;
  if (!record) return [null];
  const prefix = record.tokens.predicted.slice(0, record.n_prefix).map((token) => token.id);
  const identity = { model: record.model.name, text: record.source_text, ...record.options };
  const address = location.origin + location.pathname;
  return [{ ...identity, prefix, heads: mutes, address }];
}

export function toggleDisclosure(button, menu) {
  const open = document.getElementById(menu).classList.toggle('hl-open');
  document.getElementById(button).setAttribute('aria-expanded', open);
}

// A menu that stands over the page closes on Escape and on a press elsewhere.
export function togglePopover(button, menu) {
  toggleDisclosure(button, menu);
  const [opener, sheet] = [button, menu].map((id) => document.getElementById(id));
  const isOpen = () => sheet.classList.contains('hl-open');
  if (!isOpen()) return;
  const listening = new AbortController();
  const close = () => {
    listening.abort();
    if (isOpen()) toggleDisclosure(button, menu);
  };
  const outside = ({ target }) => !sheet.contains(target) && !opener.contains(target) && close();
  const escape = ({ key }) => {
    if (key !== 'Escape') return;
    if (sheet.contains(document.activeElement)) opener.focus();
    close();
  };
  document.addEventListener('pointerdown', outside, { signal: listening.signal });
  document.addEventListener('keydown', escape, { signal: listening.signal });
}
