// A list with a search box: the combobox of the WAI-ARIA Authoring Practices. It shows the chosen name; typing filters the list.

import { element } from '../drawing/dom.js';
import { say, sayCount } from '../locales/language.js';

const PAGE = 8; // entries that Page Up and Page Down pass
let lists = 0; // on the page, to give each an id

// `entries` are { value, name, detail, terms }. `take` gets the value that a person chooses.
export function createSearchList({ label, entries, value, take }) {
  lists += 1;
  const id = `hl-search-list-${lists}`;
  const list = element('ul', { role: 'listbox', id, 'aria-label': label, hidden: true });
  const count = element('span', { class: 'hl-unseen', role: 'status' });
  const input = element('input', {
    role: 'combobox',
    'aria-label': label,
    title: label,
    'aria-autocomplete': 'list',
    'aria-controls': id,
    'aria-expanded': 'false',
    autocomplete: 'off',
    autocapitalize: 'off',
    spellcheck: 'false',
  });
  const parts = { id, entries, take, input, list, count, value, found: [], active: -1 };
  input.value = nameOf(parts);
  listen(parts);
  return element('div', { class: 'hl-search-list' }, input, list, count);
}

function listen(parts) {
  const { input, list } = parts;
  input.addEventListener('click', () => open(parts));
  input.addEventListener('focus', () => input.select());
  input.addEventListener('input', () => open(parts, input.value));
  input.addEventListener('keydown', (event) => onKey(parts, event));
  input.addEventListener('blur', () => close(parts));
  list.addEventListener('mousedown', (event) => event.preventDefault()); // the box keeps the focus
  list.addEventListener('click', ({ target }) => {
    const option = target.closest('[role="option"]');
    if (option) choose(parts, [...list.children].indexOf(option));
  });
}

function onKey(parts, event) {
  const isOpen = !parts.list.hidden;
  const last = parts.found.length - 1;
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE };
  if (event.key in steps) {
    if (isOpen) activate(parts, Math.min(last, Math.max(0, parts.active + steps[event.key])));
    else open(parts);
  } else if (event.key === 'Enter') {
    if (isOpen) choose(parts, parts.active);
    else open(parts);
  } else if (event.key === 'Escape' && isOpen) {
    close(parts);
    parts.input.select();
  } else return;
  event.preventDefault(); // also the form, which Enter would send
  event.stopPropagation();
}

// Shows the entries that a text finds; all of them without one.
function open(parts, text = '') {
  const { id, entries, list, input, count, value } = parts;
  if (list.hidden) input.select();
  parts.found = search(entries, text);
  list.replaceChildren(...parts.found.map((entry, place) => createOption(entry, `${id}-${place}`, value)));
  if (parts.found.length === 0) list.append(element('li', { class: 'hl-soft', role: 'presentation' }, say('No match')));
  list.hidden = false;
  input.setAttribute('aria-expanded', 'true');
  count.textContent = sayCount(parts.found.length, '{count} entry', '{count} entries');
  const chosen = parts.found.findIndex((entry) => entry.value === value);
  activate(parts, text === '' ? Math.max(0, chosen) : 0);
}

function createOption({ value, name, detail }, id, chosen) {
  const about = detail ? element('span', { class: 'hl-soft' }, detail) : null;
  const attributes = { role: 'option', id, 'aria-selected': String(value === chosen) };
  return element('li', attributes, element('span', {}, name), about);
}

function activate(parts, place) {
  const { list, input } = parts;
  list.querySelector('.hl-active')?.classList.remove('hl-active');
  parts.active = parts.found.length > 0 ? place : -1;
  const option = list.children[parts.active];
  input.setAttribute('aria-activedescendant', parts.found.length > 0 ? option.id : '');
  if (parts.found.length === 0) return;
  option.classList.add('hl-active');
  option.scrollIntoView({ block: 'nearest' });
}

function choose(parts, place) {
  const entry = parts.found[place];
  if (!entry) return;
  const isNew = entry.value !== parts.value;
  parts.value = entry.value;
  close(parts);
  parts.input.select();
  if (isNew) parts.take(entry.value);
}

// The box shows what is chosen again.
function close(parts) {
  const { list, input, count } = parts;
  list.hidden = true;
  list.replaceChildren();
  count.textContent = '';
  input.value = nameOf(parts);
  input.setAttribute('aria-expanded', 'false');
  input.removeAttribute('aria-activedescendant');
}

const nameOf = ({ entries, value }) => entries.find((entry) => entry.value === value)?.name ?? '';

// The entries whose name or terms contain a text. Names that begin with it come first, then names with a word that does.
export function search(entries, text) {
  const wanted = plain(text).trim();
  if (wanted === '') return entries;
  const rankOf = ({ name, terms }) => {
    const words = plain([name, ...terms].join(' '));
    if (plain(name).startsWith(wanted)) return 0;
    if (` ${words.replaceAll(/[(_-]/g, ' ')}`.includes(` ${wanted}`)) return 1;
    return words.includes(wanted) ? 2 : 3;
  };
  const ranked = entries.map((entry) => ({ entry, rank: rankOf(entry) })).filter(({ rank }) => rank < 3);
  return ranked.sort((one, other) => one.rank - other.rank).map(({ entry }) => entry);
}

// Without accents and capitals.
const plain = (text) => text.normalize('NFD').replaceAll(/\p{M}/gu, '').toLowerCase();
