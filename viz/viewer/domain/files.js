// Names and texts of the files that a page gives to a person.

const LONGEST_SLUG = 40; // characters of a sentence in the name of its file

// The letters and digits of a text, with hyphens between the words.
/** @type {(text: string) => string} */
export function slug(text) {
  const words = text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-/, '');
  return words.slice(0, LONGEST_SLUG).replace(/-$/, '') || 'sentence';
}

// A value as JSON that cannot end the script element that holds it.
/** @type {(value: unknown) => string} */
export function asScriptText(value) {
  const text = JSON.stringify(value);
  return text.replaceAll('<', '\\u003c').replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029');
}
