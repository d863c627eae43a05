// Pages of the overview: a model of many layers and heads has some layers on each page, so that its pictures are large enough
// to read. A layer of many heads has several lines.

import { createButton, element, replaceKeepingFocus } from '../drawing/dom.js';
import { sortedHeads } from '../state/measures.js';
import { chosenHeads } from '../domain/heads.js';
import { differs } from '../state/queries.js';
import { say } from '../locales/language.js';

const MOST_COLUMNS = 8;
const MOST_LINES = 6; // of a single page
const LINES = { layers: 4, sorted: 3 }; // of each of several pages; sorted heads have their numbers below them

// How many heads a line has, and how many lines a layer has.
export function linesOf({ record, kind }) {
  const { heads } = record.attention[kind];
  const lines = Math.ceil(heads / MOST_COLUMNS);
  return { lines, columns: Math.ceil(heads / lines) };
}

// All pages, each the heads [layer, head] on it, in their order: by layers, or by a measure.
export function pagesOf(state) {
  const { layers, heads } = state.record.attention[state.kind];
  const { lines, columns } = linesOf(state);
  const sorted = sortedHeads(state);
  const all = sorted ?? Array.from({ length: layers * heads }, (_, one) => [Math.floor(one / heads), one % heads]);
  if (layers * lines <= MOST_LINES) return [all];
  const size = sorted ? LINES.sorted * columns : heads * Math.max(1, Math.floor(LINES.layers / lines));
  return Array.from({ length: Math.ceil(all.length / size) }, (_, page) => all.slice(page * size, (page + 1) * size));
}

// The page on screen: the page that the person has turned to since the last choice of a head, or the page of the chosen head.
export function pageOf(state, pages) {
  const { browsed, layer, head } = state;
  if (browsed && browsed.page < pages.length && !differs(state, browsed.at, Object.keys(browsed.at)))
    return browsed.page;
  const place = pages.findIndex((heads) => heads.some((one) => one[0] === layer && one[1] === (head ?? one[1])));
  return Math.max(0, place);
}

// A page that stays until another head, kind or order is chosen; for `store.change`.
export const turnTo = ({ kind, layer, head, sort }, page) => ({ browsed: { page, at: { kind, layer, head, sort } } });

export const createPager = () =>
  element('div', { class: 'hl-pages', role: 'group', 'aria-label': say('Pages of the heads'), hidden: true });

// A button for each page. A dot marks each page with a head on screen.
export function drawPager(pager, store, pages, shown) {
  const state = store.get();
  const isSorted = sortedHeads(state) !== null;
  const chosen = chosenHeads(state);
  const isChosen = (one) => chosen.some((each) => each[1] === one[0] && each[2] === one[1]);
  pager.hidden = pages.length < 2;
  const buttons = pages.map((heads, page) =>
    createButton(
      'hl-tab',
      () => store.change(turnTo(store.get(), page)),
      {
        'aria-label': nameOf(pages, page, isSorted),
        'aria-pressed': String(page === shown),
        'data-chosen': page !== shown && heads.some(isChosen),
      },
      numbersOf(pages, page, isSorted),
    ),
  );
  replaceKeepingFocus(pager, ...(pages.length < 2 ? [] : buttons));
}

// The first and the last layer of a page, or the first and the last rank by a measure.
function rangeOf(pages, page, isSorted) {
  const [first, last] = [pages[page][0], pages[page].at(-1)];
  if (!isSorted) return [first[0] + 1, last[0] + 1];
  const start = page * pages[0].length;
  return [start + 1, start + pages[page].length];
}

function numbersOf(pages, page, isSorted) {
  const [first, last] = rangeOf(pages, page, isSorted);
  return first === last ? String(first) : `${first}–${last}`;
}

function nameOf(pages, page, isSorted) {
  const [first, last] = rangeOf(pages, page, isSorted);
  if (isSorted) return say('heads {first} to {last} in this order', { first, last });
  return first === last ? say('layer {layer}', { layer: first }) : say('layers {first} to {last}', { first, last });
}
