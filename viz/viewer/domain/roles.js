// Roles of heads: their definitions, which heads can have one, which it is nearest to, and the head that was taught to align.
// The definitions come with the record, from the list in model/analysis/definitions.py.

import { say, tell } from '../locales/language.js';

/** @type {(record: TranslationRecord, role: string) => string} */
export const roleDefinition = (record, role) => tell(record.definitions.roles[role].definition);

export const taughtName = () => say('taught to align');

// Whether a head was taught to align words, instead of finding its role by itself.
/** @type {(record: TranslationRecord, kind: Kind, layer: number, head: number) => boolean} */
export function isTaught(record, kind, layer, head) {
  const { taught } = record;
  return kind === 'cross' && taught?.[0] === layer && taught[1] === head;
}

// Which word of the translation lights a row of a head: 0 the word that the row writes, −1 the word that it reads. Row "dog → is"
// is lit for *is* in most heads, and for *dog* in a head of cross-attention that looks up the source of the word just written.
/** @type {(record: TranslationRecord, head: Head) => number} */
export function alignedOffset(record, head) {
  const [, layer, place] = head;
  const { focus_offset: offsets } = record.measures.cross; // not in payloads of release 0.1
  return isAligned(record, head) && offsets ? offsets[layer][place] : 0;
}

function isAligned(record, [kind, layer, head]) {
  const role = record.roles[kind]?.[layer][head];
  return record.definitions.roles[role]?.measure === 'focus' || isTaught(record, kind, layer, head);
}

// The role whose threshold a head comes nearest to in this sentence, { role, value, least }; null without any.
/** @type {(record: MeasuredHeads & { definitions: Definitions }, head: Head) => { role: string; value: number; least: number } | null} */
export function nearestRole({ definitions, measures, even }, [kind, layer, head]) {
  const valueOf = (name) => measures[kind][name][layer][head];
  const found = Object.entries(definitions.roles).flatMap(([role, { least }]) => {
    const value = evidenceOf(definitions, role, kind, valueOf, even?.[kind]);
    return value === null ? [] : [{ role, value, least }];
  });
  const ranked = found.sort((a, b) => b.value / b.least - a.value / a.least);
  return ranked[0] ?? null;
}

// The measure that decides on a role, for one head; null if the head cannot have the role, or if its rows cannot show it.
// `valueOf` returns the value of the head by the name of a measure or of its table of offsets; `even` has what rows without any
// preference give each role. The roles of a payload of release 0.1 have no kinds.
/** @type {(definitions: Definitions, role: string, kind: Kind, valueOf: (name: string | null) => number | null, even?: EvenShares) => number | null} */
export function evidenceOf({ measures, roles }, role, kind, valueOf, even) {
  const { measure, kinds, offset } = roles[role];
  if (!measure || kinds?.includes(kind) === false || !canShow(roles[role], even?.[role])) return null;
  if (offset !== null && valueOf(offsetsOf(measures, measure)) !== offset) return null;
  return valueOf(measure);
}

// The first role that applies; the last one, mixed, has no measure. A memory is what no measure has a meaning for.
/** @type {(definitions: Definitions, kind: Kind, valueOf: (name: string | null) => number | null, even: EvenShares) => string} */
export function roleOf(definitions, kind, valueOf, even) {
  const { roles } = definitions;
  const applies = (role) => {
    if (role === 'memory') return valueOf('entropy') === null;
    return !roles[role].measure || Number(evidenceOf(definitions, role, kind, valueOf, even)) >= roles[role].least;
  };
  return /** @type {string} */ (Object.keys(roles).find(applies));
}

// Whether rows can show a role: in a sentence like "Ja." even rows would have it too.
const canShow = ({ least }, even = 0) => even < least;

/** @type {(record: TranslationRecord, kind: Kind) => string[]} */
export const rolesWithoutCase = ({ definitions: { roles }, even }, kind) =>
  Object.keys(roles).filter((role) => !canShow(roles[role], even?.[kind]?.[role]));

// The name of the table with the offsets that a measure is about; null if it is about none.
/** @type {(measures: Definitions['measures'], measure: string) => string | null} */
export const offsetsOf = (measures, measure) => measures.find(({ name }) => name === measure)?.offset ?? null;
