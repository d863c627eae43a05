// What a person takes away: files, and texts to copy.

import { createButton, element } from './dom.js';
import { fromBase64 } from '../domain/files.js';
import { say } from '../locales/language.js';

// The calls that give the record on screen; none without a record that the model can compute again.
/** @type {(python?: string | null, shell?: string | null) => Element[]} */
export function createCalls(python = null, shell = null) {
  const titles = [say('The same from Python'), say('From a shell')];
  return [python, shell].flatMap((text, place) => (text === null ? [] : createCall(titles[place], text)));
}

/** @type {(title: string, text: string) => Element[]} */
export function createCall(title, text) {
  const button = createButton('hl-act', async () => {
    button.textContent = (await copy(text)) ? say('Copied') : say('Select the text and copy it.');
  });
  button.textContent = say('Copy');
  const heading = element('p', { class: 'hl-call-title' }, title, button);
  return [heading, element('pre', { class: 'hl-call', tabindex: 0, 'aria-label': title, dir: 'ltr' }, text)];
}

/** @type {(blob: Blob, name: string) => void} */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  element('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads it after this task
}

// Returns whether the text was copied; a page without TLS has no clipboard.
/** @type {(text: string) => Promise<boolean>} */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// A file of an answer, [name, base64], as a download of Gradio.
/** @type {(file: [name: string, base64: string]) => { path: string; orig_name: string; url: string; meta: object }} */
export function fileOf([name, base64]) {
  const bytes = fromBase64(base64);
  return {
    path: name,
    orig_name: name,
    url: URL.createObjectURL(new Blob([bytes])),
    meta: { _type: 'gradio.FileData' },
  };
}
