// Side by side: the panels of the second view (tokens, heads, matrix), and the bar above both views.

import { startEffectsOfB } from '../transport/effects.js';
import { isSubtracted, isUpToDate, recordOfB } from '../state/comparison.js';
import { createClient } from '../transport/requests.js';
import { createOverview } from '../heads/overview.js';
import { createMatrix } from '../matrix/matrix.js';
import { createTable } from '../matrix/table.js';
import { createHeading } from '../matrix/toolbar.js';
import { createStrip } from '../strip/strip.js';
import { createStoreOfB } from '../state/sides.js';
import { createBar } from './bar.js';

// Puts the bar and the second side into the page while they are asked for. `places` are the elements of the viewer,
// { root, strips, columns }. `otherModels` gives the other models of the page. Returns the store of side B.
export function createBeside(client, places, otherModels) {
  const { store } = client;
  const own = createClient(createStoreOfB(store), client.ask);
  startEffectsOfB(own);
  const bar = createBar([client, own], otherModels);
  let side = /** @type {any} */ (null); // made when it is first asked for, so that a page without it stays as light as it was
  store.subscribe((state) => {
    const isShown = recordOfB(state) !== null;
    if (isShown) side ??= createSide(own);
    place(bar, state.sideB !== null, () => places.strips.before(bar));
    if (side) arrange(side, state, isShown, places);
    places.root.classList.toggle('hl-has-bar', state.sideB !== null);
    places.root.classList.toggle('hl-has-second', isShown);
    places.root.classList.toggle('hl-one-matrix', isSubtracted(state));
  });
  return own.store;
}

function createSide(client) {
  const { store } = client;
  return {
    strip: createStrip(client),
    matrix: createMatrix(store, createHeading(store, null, null), createTable(store)),
    overview: createOverview(store),
  };
}

function arrange({ strip, matrix, overview }, state, isShown, { strips, columns }) {
  place(strip, isShown, () => strips.append(strip));
  place(overview, isShown, () => columns.lastElementChild.before(overview));
  place(matrix, isShown && !isSubtracted(state), () => overview.before(matrix));
  for (const node of [strip, matrix, overview]) node.classList.toggle('hl-stale', isShown && !isUpToDate(state));
}

function place(node, isShown, insert) {
  if (!isShown) node.remove();
  else if (!node.isConnected) insert();
}
