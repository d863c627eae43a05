// Parameters of an address. An address is untrusted input: each parameter is checked on its own, and an invalid one is null.

import { LIMITS } from '../domain/limits.js';
import { KINDS } from '../domain/payload.js';

export const LONGEST_NAME = 255; // of the directory of a model
export const LONGEST_TEXT = 2000;

/** @type {(address: string) => URLSearchParams} */
export const parse = (address) =>
  new URLSearchParams(address.length <= LIMITS.address ? address.replace(/^#/, '') : '');

/** @type {(parameters: { [name: string]: any }) => string} */
export const hashOf = (parameters) => `#${new URLSearchParams(parameters)}`;

// A text of at most so many characters; null if it is missing or longer.
/** @type {(parameters: URLSearchParams, name: string, longest: number) => string | null} */
export function textOf(parameters, name, longest) {
  const text = parameters.get(name);
  return text !== null && text.length <= longest ? text : null;
}

// A place, which counts from 1 in an address.
/** @type {(text: string) => number | null} */
export const placeOf = (text) => (/^[1-9]\d{0,3}$/.test(text) ? Number(text) - 1 : null);

/** @type {(parameters: URLSearchParams, name: string) => number | null} */
export const index = (parameters, name) => placeOf(parameters.get(name) ?? '');

// A number, at least and at most these.
/** @type {(text: string, least: number, most: number) => number | null} */
export const numberOf = (text, least, most) =>
  /^\d{1,4}(\.\d{1,4})?$/.test(text) ? Math.min(most, Math.max(least, Number(text))) : null;

// Ids of tokens.
/** @type {(text: string | null) => number[] | null} */
export function idsOf(text) {
  if (text === null || !/^\d{1,7}(\.\d{1,7})*$/.test(text)) return null;
  const ids = text.split('.').map(Number);
  return ids.length <= LIMITS.target_tokens ? ids : null;
}

// The heads of a list, "cross.4.7,cross.4.8", or "4.7,4.8" of one kind; null without any.
/** @type {(text: string | null, ofKind?: Kind) => Head[] | null} */
export function headsOf(text, ofKind) {
  const pattern = new RegExp(`^(${KINDS.join('|')})\\.([1-9]\\d{0,2})\\.([1-9]\\d{0,2})$`);
  /** @type {(name: string) => Head[]} */
  const headIn = (name) => {
    const [, kind, layer, head] = pattern.exec(ofKind ? `${ofKind}.${name}` : name) ?? [];
    return kind ? [[/** @type {Kind} */ (kind), Number(layer) - 1, Number(head) - 1]] : [];
  };
  const heads = (text ?? '').split(',').slice(0, LIMITS.heads).flatMap(headIn);
  return heads.length > 0 ? heads : null;
}

// Writes the address without loading it. A document that a frame has as text (srcdoc) has no address that may change.
/** @type {(address: string, isNew?: boolean) => void} */
export function rewriteAddress(address, isNew = false) {
  const written = location.protocol === 'about:' ? undefined : address;
  history[isNew ? 'pushState' : 'replaceState'](history.state, '', written);
}
