// Which heads of all layers read the pinned cell most.

import { createButton, element } from '../core/dom.js';
import { fixed, kindName, plural } from '../core/labels.js';
import { cellOfAllHeads } from '../core/payload.js';
import { headOf } from '../core/store.js';
import { note, numberText, section, shareBar } from '../core/widgets.js';

const LISTED = 8;

// The section about a cell { kind, row, column }; a line opens its head.
export function readersOf(store, record, { kind, row, column }, shown) {
  const ranked = cellOfAllHeads(record, kind, row, column).sort((one, other) => other.value - one.value);
  const lines = ranked.slice(0, LISTED).map((one) => lineOf(store, kind, one, shown));
  const place = ranked.findIndex((one) => isShown(one, shown));
  return section(
    'Heads that read this cell most',
    element('ol', { class: 'hl-readers' }, ...lines),
    note(
      `Of all ${plural(ranked.length, 'head')} of ${kindName(kind)}, in this sentence.${place < 0 ? '' : ` The head on screen is number ${place + 1}.`}`,
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
  const pieces = [
    element('span', {}, `layer ${layer + 1}, head ${head + 1}`),
    shareBar(value),
    numberText(fixed(value)),
  ];
  return element('li', {}, createButton('hl-choice', open, attributes, ...pieces));
}
