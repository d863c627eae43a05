// Which heads can have a role, by the definitions of model/analysis/measures.py.

// The measure that decides on a role, for one head; null if the head cannot have the role. `valueOf` returns the value of
// the head by the name of a measure. The roles of a payload of release 0.1 have no kinds.
export function evidenceOf({ measure, kinds, offset }, kind, valueOf) {
  if (!measure || kinds?.includes(kind) === false || (offset !== null && valueOf('offset') !== offset)) return null;
  return valueOf(measure);
}
