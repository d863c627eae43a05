// The files of a model: embedded in the page, kept by the browser, or fetched; checked before they are used.

import { fromBase64 } from '../domain/files.js';
import { fault } from '../locales/language.js';

const CACHE = 'headlight-models';
const unreachable = () => fault('The model could not be loaded; check the connection, then try again.');
const cut = () => fault('The download of the model was cut off; try again.');
const wrong = () => fault('The model arrived damaged: its checksum is wrong; try again.');

// `listed` has { size, sha256 } of each file by name. `embedded` has their content, in base64 or as bytes, or is null;
// then they are fetched below `address`. `report` gets the bytes that arrived. Files that arrived whole are kept for later
// visits, also without a connection.
/** @type {(files: any, report?: (name: string, count: number) => void) => any} */
export function createFiles({ listed, embedded, address }, report = () => {}) {
  const bytes = (name) =>
    embedded ? contentOf(embedded[name]) : load(`${address}${name}`, listed[name], (count) => report(name, count));
  return {
    has: (name) => Object.hasOwn(listed, name),
    isKept: async (name) => Boolean(await (await openCache())?.match(versionOf(`${address}${name}`, listed[name]))),
    bytes: async (name) => (await bytes(name)).buffer,
    text: async (name) => new TextDecoder().decode(await bytes(name)),
  };
}

const contentOf = (content) => (typeof content === 'string' ? fromBase64(content) : content);

// A new version of a file is another address.
const versionOf = (url, { sha256 }) => `${url}?${sha256.slice(0, 16)}`;

async function load(url, { size, sha256 }, report) {
  const address = versionOf(url, { sha256 });
  const cache = await openCache();
  const kept = await cache?.match(address);
  if (kept) return new Uint8Array(await kept.arrayBuffer());
  const found = await download(address, size, report);
  if (!(await fits(found, sha256))) throw wrong();
  await keep(cache, address, found);
  return found;
}

async function download(address, size, report) {
  const response = await fetch(address).catch(() => null);
  if (!response?.ok || !response.body) throw unreachable();
  const found = new Uint8Array(size);
  const reader = response.body.getReader();
  let count = 0;
  for (;;) {
    const { value } = await reader.read().catch(() => ({ value: undefined }));
    if (!value) break;
    if (count + value.length > size) throw wrong();
    found.set(value, count);
    count += value.length;
    report(count);
  }
  if (count < size) throw cut();
  return found;
}

// Browsers compute a checksum only for pages that came safely or from this machine.
async function fits(bytes, sha256) {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) return true;
  const digest = new Uint8Array(await subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') === sha256;
}

// Null where the browser keeps nothing, as for a page from a file.
async function openCache() {
  try {
    return await caches.open(CACHE);
  } catch {
    return null;
  }
}

// Replaces older versions of the file. A browser without room keeps nothing, and the file is fetched again next time.
async function keep(cache, address, bytes) {
  try {
    await cache.delete(address, { ignoreSearch: true });
    await cache.put(address, new Response(bytes));
  } catch {
    // nothing is lost but time
  }
}
