// The order of the heads in the atlas: by their numbers, or by a measure, the largest first.

export const SORT_NAMES = {
  confidence: 'confidence',
  entropy: 'entropy',
  offset_share: 'fixed offset',
  sinks: 'sink weight',
  rare: 'rare words',
  focus: 'source focus',
  importance: 'importance',
};

// The number of a head that a measure orders it by; null where the measure has no meaning or is not known yet.
export function measureOf({ record, kind, importance }, name, layer, head) {
  if (name !== 'importance') return record.measures[kind][name][layer][head];
  return importance && -importance[kind][layer][head]; // the more is lost without a head, the more it matters
}

export function canSort(state, name) {
  return measureOf(state, name, 0, 0) !== null;
}

// All heads of the kind, [layer, head] each, by the state's measure; null when they stand by their numbers.
export function sortedHeads(state) {
  if (state.sort === null || !canSort(state, state.sort)) return null;
  const { layers, heads } = state.record.attention[state.kind];
  const all = Array.from({ length: layers * heads }, (_, place) => [Math.floor(place / heads), place % heads]);
  const value = ([layer, head]) => measureOf(state, state.sort, layer, head);
  return all.sort((one, other) => value(other) - value(one));
}

// How much a head matters here, 0 to 1: its share of the largest change that silencing any head makes.
export function importanceShare({ kind, importance }, layer, head) {
  const all = Object.values(importance).flat(2);
  const most = all.reduce((largest, change) => Math.max(largest, Math.abs(change)), 0);
  return most > 0 ? Math.abs(importance[kind][layer][head]) / most : 0;
}
