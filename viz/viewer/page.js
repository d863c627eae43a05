// The browser's part of the Gradio widgets around the viewer: translating, the link that opened the page, menus, and
// the request that describes the record on screen.

import { targetIds } from './core/payload.js';
import { taskOfAddress } from './core/permalink.js';
import { waitingText } from './core/requests.js';
import { reproducibleView } from './core/store.js';

const POLL_EVERY = 2000; // milliseconds between two questions for the position in the queue
const UNREACHABLE =
  'The server does not answer. Check that it is running and that the text is not far too long, then try again.';

let provideViewer;
const viewer = new Promise((resolve) => {
  provideViewer = resolve;
});
let captions = {}; // by model and sentence
let examples = {}; // the sentences of each model
let buttons = 0; // for examples
let downloads = []; // addresses of the exported files
let latest = null; // the request that the page waits for

// Returns a function that sends a request through Gradio's `server` functions. It returns the answer or throws an
// error with the sentence to show. `showPosition` gets the position in the queue; null means that it is not queued.
export function asker(server) {
  return async (request, showPosition) => {
    let open = true;
    const poll = async () => {
      const position = await server.queue_position(request);
      if (open) showPosition?.(position);
    };
    const clock = setInterval(poll, POLL_EVERY);
    try {
      // Gradio returns nothing when the server cannot be reached.
      const { answer, error } = (await server.ask(request)) ?? { error: UNREACHABLE };
      if (error) throw new Error(error);
      return answer;
    } finally {
      open = false;
      clearInterval(clock);
    }
  };
}

// Makes the mounted viewer available to the page's own widgets.
export function provide(mounted) {
  window.Headlight.viewer = mounted;
  provideViewer(mounted);
}

// Shows a translation. Returns the updates of the message and of the Export button, which needs a record; none if
// another translation or Cancel has replaced it.
export async function translate(text, model, beam, penalty) {
  const mine = {};
  latest = mine;
  const isLatest = () => latest === mine;
  const request = { do: 'translate', model, text, beam_size: beam, length_penalty: penalty, prefix: [] };
  document.body.classList.add('hl-pending');
  try {
    const { ask, show } = await viewer;
    const payload = await ask(request, (position) => isLatest() && showWaiting(waitingText(position)));
    if (!isLatest()) return [];
    show(payload, captionOf(model, text));
    return ['', update({ interactive: true })];
  } catch (error) {
    return isLatest() ? [escaped(error.message)] : [];
  } finally {
    if (isLatest()) cancel();
  }
}

function captionOf(model, text) {
  return Object.hasOwn(captions, model) && Object.hasOwn(captions[model], text) ? captions[model][text] : null;
}

export function cancel() {
  latest = null;
  document.body.classList.remove('hl-pending');
  showWaiting('');
}

function showWaiting(text) {
  document.querySelector('#hl-queue-position [role="status"]').textContent = text;
}

function escaped(text) {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

// The widgets' values from the link, or their default values. `examples` has a sentence for each loaded model. If the
// sentence, model or options in the address change, the page reloads. Changes of head, pin or tab do not reload it.
export function readAddress({ most, ...known }, [sentence, model, beam, penalty]) {
  ({ examples, captions, buttons } = known);
  window.addEventListener('hashchange', ({ oldURL, newURL }) => {
    const [before, after] = [oldURL, newURL].map((url) => JSON.stringify(taskOfAddress(new URL(url).hash)));
    if (before !== after) location.reload();
  });
  const task = taskOfAddress(location.hash);
  const isLoaded = task.model !== null && Object.hasOwn(examples, task.model);
  return [
    task.text ?? (isLoaded ? examples[task.model][0] : sentence),
    isLoaded ? task.model : model,
    Math.min(task.beam ?? beam, most.beam),
    Math.min(task.alpha ?? penalty, most.penalty),
  ];
}

// Updates of the example buttons. A button without a sentence is hidden.
export function exampleButtons(model) {
  const sentences = examplesOf(model);
  return Array.from({ length: buttons }, (_, number) => sentences[number] ?? '').map((value) =>
    update({ value, visible: value !== '' }),
  );
}

function examplesOf(model) {
  return Object.hasOwn(examples, model) ? examples[model] : [];
}

// Updates of the sentence, which becomes the model's first example if it has one, and of the example buttons.
export function chooseModel(model) {
  return [examplesOf(model)[0] || update({}), ...exampleButtons(model)];
}

// Updates of the message, the download buttons and the API calls. After an error, only the message changes.
export async function exportRecord() {
  const { ask, state } = await viewer;
  try {
    const { files, python, curl } = await ask({ do: 'export', ...onScreen(state()) });
    downloads.forEach((url) => URL.revokeObjectURL(url));
    const values = Object.entries(files).map(fileOf);
    downloads = values.map(({ url }) => url);
    return [
      '',
      ...values.map((value) => update({ value, interactive: true })),
      update({ value: python }),
      update({ value: curl }),
    ];
  } catch (error) {
    return [escaped(error.message), ...Array.from({ length: 5 }, () => update({}))];
  }
}

function fileOf([name, base64]) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return {
    path: name,
    orig_name: name,
    url: URL.createObjectURL(new Blob([bytes])),
    meta: { _type: 'gradio.FileData' },
  };
}

function update(properties) {
  return { __type__: 'update', ...properties };
}

// The request that gives the record on screen again: the forced tokens, then the tokens of the model. A step of the
// training and a translation with muted heads cannot be computed again, so their source is used instead.
function onScreen(state) {
  const { record, mutes } = reproducibleView(state);
  if (!record) return {};
  const prefix = targetIds(record).slice(0, record.n_prefix);
  const identity = { model: record.model.name, text: record.source_text, ...record.options };
  const address = location.origin + location.pathname;
  return { ...identity, prefix, heads: mutes, address };
}

export function toggleDisclosure(button, menu) {
  const open = document.getElementById(menu).classList.toggle('hl-open');
  document.getElementById(button).setAttribute('aria-expanded', open);
}

// A menu over the page. It closes on Escape and on a click outside.
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
