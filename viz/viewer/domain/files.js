// Names and texts of the files that a page gives to a person, and bytes as text.

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

/** @type {(base64: string) => Uint8Array<ArrayBuffer>} */
export const fromBase64 = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** @type {(bytes: Uint8Array) => string} */
export function toBase64(bytes) {
  let text = '';
  for (let start = 0; start < bytes.length; start += 0x8000)
    text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  return btoa(text);
}

// A text as it may stand in HTML, also as a value of an attribute; as Python's html.escape writes it.
/** @type {(text: string) => string} */
export function escaped(text) {
  const names = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#x27;' };
  return text.replaceAll(/[&<>"']/gu, (character) => names[character]);
}
