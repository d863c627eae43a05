// Which heads can have a role, by the definitions of model/analysis/measures.py.

// The measure that decides on a role, for one head; null if the head cannot have the role. `valueOf` returns the value of
// the head by the name of a measure or of its table of offsets. The roles of a payload of release 0.1 have no kinds.
export function evidenceOf({ measures, roles }, role, kind, valueOf) {
  const { measure, kinds, offset } = roles[role];
  if (!measure || kinds?.includes(kind) === false) return null;
  if (offset !== null && valueOf(offsetsOf(measures, measure)) !== offset) return null;
  return valueOf(measure);
}

// The name of the table with the offsets that a measure is about; null if it is about none.
export function offsetsOf(measures, measure) {
  return measures.find(({ name }) => name === measure).offset;
}
