// What the buttons of the bar and of the sentence open, by the names of viz/widgets.py; and light or dark.
// @ts-nocheck

import { toggleDisclosure } from './drawing/widgets.js';
import { useStorage } from './transport/storage.js';

const THEME = 'headlight.theme'; // in the browser's storage

// The viewer opens these; it may be mounted after the buttons.
export function openAbout() {
  window.Headlight.viewer?.openAbout();
}

export function openHelp() {
  window.Headlight.viewer?.openHelp();
}

export function openLearn() {
  window.Headlight.viewer?.openLearn();
}

export function openPlayground() {
  window.Headlight.viewer?.openPlayground();
}

export function toggleOptions() {
  toggleDisclosure('hl-options-button', 'hl-options');
}

// Light or dark, until the person chooses the other one again; a browser may refuse to store the choice.
export function toggleTheme() {
  const dark = document.body.classList.toggle('dark');
  useStorage((storage) => storage.setItem(THEME, dark ? 'dark' : 'light'));
}

export function restoreTheme() {
  const theme = useStorage((storage) => storage.getItem(THEME));
  if (theme) document.body.classList.toggle('dark', theme === 'dark');
}
