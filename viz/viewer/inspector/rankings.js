// Rankings of heads: which of all layers read the pinned cell most, and which differ most between the two sides.

import { element } from '../drawing/dom.js';
import { fixed } from '../drawing/numbers.js';
import { fullHeadName, headName, kindName } from '../state/labels.js';
import { headsByDifference, recordOfB } from '../state/comparison.js';
import { axes, cellOfAllHeads } from '../domain/payload.js';
import { showHead } from '../state/actions.js';
import { placesOfPin } from '../state/queries.js';
import { choiceItem, note, numberText, section, shareBar } from '../drawing/widgets.js';
import { say, sayCount } from '../locales/language.js';

const LISTED = 8;

// The section about the pinned cell, with the weights that the matrix of each head shows; a line opens the head.
export function readersOf(store, shown) {
  const { record, kind, words, hideSpecials } = shown;
  const { columns } = axes(record, kind);
  const specials = [...columns.keys()].filter((column) => columns[column].word === null);
  const places = placesOfPin(shown);
  const isLeft = hideSpecials && !specials.includes(places.columns[0]);
  const weights = cellOfAllHeads(record, kind, places, isLeft ? specials : []);
  const ranked = weights.sort((one, other) => other.value - one.value);
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
      words ? ` ${say('The weights are those of whole words.')}` : '',
    ),
  );
}

const isShown = ({ layer, head }, shown) =>
  shown.layer === layer && shown.head === head && shown.selection.length === 0;

function lineOf(store, kind, one, shown) {
  const { layer, head, value } = one;
  const open = () => store.change(showHead(store.get(), [kind, layer, head]));
  return rankedLine(open, headName(layer, head), value, isShown(one, shown));
}

function rankedLine(open, name, value, isPressed) {
  const pieces = [element('span', {}, name), shareBar(value), numberText(fixed(value))];
  return choiceItem(open, { 'aria-pressed': String(isPressed) }, ...pieces);
}

// The heads that differ most between A and B, of all kinds; nothing without a B, or if both share too few tokens.
export function differingHeads(store, state) {
  const other = recordOfB(state);
  if (!other) return [];
  const ranked = headsByDifference(state.record, other);
  if (ranked.length === 0) return [];
  const isOtherModel = other.model.name !== state.record.model.name;
  const lines = ranked.slice(0, LISTED).map(({ head: one, value }) => {
    const [kind, layer, head] = one;
    const open = () => store.change(showHead(store.get(), one));
    return rankedLine(open, fullHeadName(one), value, kind === state.kind && isShown({ layer, head }, state));
  });
  return [
    section(
      say('Heads that differ most between A and B'),
      element('ol', { class: 'hl-readers' }, ...lines),
      note(
        sayCount(
          ranked.length,
          'Of {count} head: half the sum of the differences in a row, in the mean over the rows that both have. 0: both read the same; 1: they read nothing alike.',
          'Of {count} heads: half the sum of the differences in a row, in the mean over the rows that both have. 0: both read the same; 1: they read nothing alike.',
        ),
        isOtherModel ? ` ${say('Heads of two models correspond only by their numbers.')}` : '',
      ),
    ),
  ];
}
