// What Gradio's widgets around the viewer do in the browser: the link that opened the page, menus, what is on screen.

import { taskOfAddress } from './address.js';

// What a link asks for, in place of what the page opens with. `examples` has a sentence for each model there is.
// Another link in the same page opens it anew; the viewer's own part of the address does not.
export function readAddress(examples, most, [sentence, model, beam, penalty]) {
  window.addEventListener('hashchange', ({ oldURL, newURL }) => {
    const [before, after] = [oldURL, newURL].map((url) => JSON.stringify(taskOfAddress(new URL(url).hash)));
    if (before !== after) location.reload();
  });
  const task = taskOfAddress(location.hash);
  const known = task.model !== null && Object.hasOwn(examples, task.model);
  return [
    task.text ?? (known ? examples[task.model] : sentence),
    known ? task.model : model,
    Math.min(task.beam ?? beam, most.beam),
    Math.min(task.alpha ?? penalty, most.penalty),
  ];
}

// The record on screen as a request that gives it again: the tokens that were given, the model's own behind them.
// A step of the training cannot be had again from the finished model, nor can what it says with heads silent from
// the whole one, so the translation that they came from stands for them.
export function onScreen(state) {
  const { record, mutes } = ['training', 'muted'].includes(state.visit?.what) ? state.visit.from : state;
  const { theme } = state;
  if (!record) return [null];
  const ids = record.tokens.predicted.map((token) => token.id);
  const identity = { model: record.model.name, text: record.source_text, ...record.options };
  const address = location.origin + location.pathname;
  return [{ ...identity, ids, prefix: ids.slice(0, record.forced), heads: mutes, address, theme }];
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
