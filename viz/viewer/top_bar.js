// What the buttons of the bar and of the sentence open, by the names of viz/widgets.py; and light or dark.

import { toggleDisclosure } from './drawing/widgets.js';
import { keepStored, stored } from './transport/storage.js';

const THEME = 'headlight.theme'; // in the browser's storage

let offer;
export const whenMounted = new Promise((resolve) => {
  offer = resolve;
});

export function offerViewer(mounted) {
  offer(mounted);
}

// The viewer opens these; a click on a button before the viewer is mounted waits for it.
const open = (name) => whenMounted.then((mounted) => mounted[name]?.());

export const openAbout = () => open('openAbout');
export const openHelp = () => open('openHelp');
export const openLearn = () => open('openLearn');
export const openPlayground = () => open('openPlayground');

export function toggleOptions() {
  toggleDisclosure('hl-options-button', 'hl-options');
}

// Light or dark, until the person chooses the other one again; a browser may refuse to store the choice.
export function toggleTheme() {
  const dark = document.body.classList.toggle('dark');
  keepStored(THEME, dark ? 'dark' : 'light');
}

export function restoreTheme() {
  const theme = stored(THEME);
  if (theme) document.body.classList.toggle('dark', theme === 'dark');
}
