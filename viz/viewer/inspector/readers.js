// Which heads of all layers read the pinned cell most.

import { createButton, element } from '../core/dom.js';
import { fixed, headName, kindName } from '../core/labels.js';
import { cellOfAllHeads } from '../core/payload.js';
import { headOf } from '../core/state/actions.js';
import { note, numberText, section, shareBar } from '../core/widgets.js';
import { say, sayCount } from '../locales/language.js';

const LISTED = 8;

// The section about a cell { kind, row, column }; a line opens its head.
export function readersOf(store, record, { kind, row, column }, shown) {
  const ranked = cellOfAllHeads(record, kind, row, column).sort((one, other) => other.value - one.value);
  const lines = ranked.slice(0, LISTED).map((one) => lineOf(store, kind, one, shown));
  const place = ranked.findIndex((one) => isShown(one, shown));
  return section(
    say('Heads that read this cell most'),
    element('ol', { class: 'hl-readers' }, ...lines),
    note(
      sayCount(
        ranked.length,
        'Of all {count} head of {kind}, in this sentence; other kinds have other cells.',
        'Of all {count} heads of {kind}, in this sentence; other kinds have other cells.',
        { kind: kindName(kind) },
      ),
      place < 0 ? '' : ` ${say('The head on screen is number {number}.', { number: place + 1 })}`,
    ),
  );
}

function isShown({ layer, head }, shown) {
  return shown.layer === layer && shown.head === head && shown.selection.length === 0;
}

function lineOf(store, kind, one, shown) {
  const { layer, head, value } = one;
  const open = () => store.change(headOf({ kind, layer, head }));
  const attributes = { 'aria-pressed': String(isShown(one, shown)) };
  const pieces = [element('span', {}, headName(layer, head)), shareBar(value), numberText(fixed(value))];
  return element('li', {}, createButton('hl-choice', open, attributes, ...pieces));
}
