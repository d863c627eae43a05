// Heads as [kind, layer, head]: which ones a state shows, and which ones a record has.

export function sameHead(one, other) {
  return one.every((value, place) => value === other[place]);
}

// The heads that the matrix shows, [kind, layer, head] each: one, a selection, or all of a layer.
export function chosenHeads({ record, kind, layer, head, selection }) {
  if (selection.length > 0) return selection;
  if (head !== null) return [[kind, layer, head]];
  return Array.from({ length: record.attention[kind].heads }, (_, each) => [kind, layer, each]);
}

// All heads of the kind on screen.
export function headsOfKind({ record, kind }) {
  const { layers, heads } = record.attention[kind];
  return Array.from({ length: layers * heads }, (_, one) => [kind, Math.floor(one / heads), one % heads]);
}

// The first of the heads on screen that a record does not have.
export function missingHead(state, record) {
  return chosenHeads(state).find((head) => !hasHead(record, head));
}

export function hasHeads(state, record) {
  return missingHead(state, record) === undefined;
}

export function hasHead({ attention }, [kind, layer, head]) {
  return layer < attention[kind].layers && head < attention[kind].heads;
}
