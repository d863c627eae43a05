// The service worker of the page without a server: keeps the page's own files, so that a later visit needs no
// connection. They are fetched anew whenever there is one. The engine keeps the models itself.

const CACHE = 'headlight-page';
const PAGE = new URL('./', location).pathname;

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('message', (event) => event.waitUntil(keep(event.data)));
self.addEventListener('fetch', (event) => {
  const { method, url } = event.request;
  const { origin, pathname } = new URL(url);
  if (method !== 'GET' || origin !== location.origin || pathname.startsWith(`${PAGE}models/`)) return;
  event.respondWith(fetchOrKept(event.request));
});

// Keeps the document and its parts, [address, checksum] each, in place of the parts of an older release; that one stays
// whole if these do not arrive or have no room.
async function keep(parts) {
  const cache = await caches.open(CACHE);
  for (const [address, integrity] of parts)
    if (!(await cache.match(address))) await cache.add(new Request(address, { integrity }));
  await cache.add(PAGE);
  for (const [address] of parts)
    for (const version of await cache.keys(address, { ignoreSearch: true }))
      if (version.url !== new URL(address, location).href) await cache.delete(version);
}

async function fetchOrKept(request) {
  try {
    return await fetch(request);
  } catch (error) {
    const kept = await (await caches.open(CACHE)).match(keyOf(request));
    if (kept) return kept;
    throw error;
  }
}

// The document is kept once, whatever follows in its address.
function keyOf(request) {
  return [PAGE, `${PAGE}index.html`].includes(new URL(request.url).pathname) ? PAGE : request;
}
