// The switches of a training: a list of values for each setting.

import { element } from '../drawing/dom.js';
import { say, tell } from '../locales/language.js';
import { HINTS, SWITCHES } from './settings.js';
import { OWN } from './tasks.js';

// A and B, where there are two.
export const nameOf = ({ settings }, side) => (settings.length > 1 ? 'AB'[side] : '');

export function createSwitches(play, side, begin) {
  const names = Object.keys(SWITCHES).filter((name) => name !== 'task');
  const title = `${say('Switches')} ${nameOf(play, side)}`.trim();
  const list = element(
    'div',
    { class: 'hl-play-switches' },
    ...names.map((name) => createSwitch(play, side, name, begin)),
  );
  return element('section', { class: 'hl-panel', 'aria-label': title }, element('h3', {}, title), list);
}

// A list of values. A change begins the training again, with `begin`, and is written into the address.
export function createSwitch(play, side, name, begin) {
  const { label, text = String } = SWITCHES[name];
  const values = SWITCHES[name].values.filter((value) => value !== OWN || play.pairs !== null);
  const id = `hl-play-${name}-${side}`;
  const own = play.settings[side][name];
  const options = values.map((value, place) => new Option(text(value), place, false, value === own));
  const list = element('select', { class: 'hl-box', 'aria-describedby': id }, ...options);
  list.addEventListener('change', () => {
    const change = { [name]: values[Number(list.value)] };
    const changed = (each, place) => (place === side || name === 'task' ? { ...each, ...change } : each);
    begin(play, play.settings.map(changed));
    play.node.querySelector(`[aria-describedby="${id}"]`)?.focus();
  });
  return element('label', {}, tell(label), list, element('span', { class: 'hl-soft', id }, tell(HINTS[name])));
}
