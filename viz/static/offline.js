// The service worker of the page without a server: keeps the page's own files, so that a later visit needs no
// connection. They are fetched anew whenever there is one. The engine keeps the models itself.

// The document and the parts that it fetches, [address, checksum] each: viz/static/site.py writes them here, so that
// each release has another worker.
const FILES = [];
const PAGE = new URL('./', location).pathname;
const OWN = `headlight-page ${PAGE} `; // an origin may have several pages
const CACHE = `${OWN}${FILES[0][1]}`;

self.addEventListener('install', (event) => event.waitUntil(keep()));
self.addEventListener('activate', (event) => event.waitUntil(dropOlder()));
self.addEventListener('fetch', (event) => {
  const { method, url } = event.request;
  const { origin, pathname } = new URL(url);
  if (method !== 'GET' || origin !== location.origin || pathname.startsWith(`${PAGE}models/`)) return;
  event.respondWith(fetchOrKept(event.request));
});

// An older release and its worker stay if these files do not arrive as they were written, or have no room.
async function keep() {
  const cache = await caches.open(CACHE);
  const requests = FILES.map(([address, integrity]) => new Request(address, { integrity, cache: 'no-cache' }));
  try {
    await cache.addAll(requests);
  } catch (error) {
    await caches.delete(CACHE);
    throw error;
  }
  await self.skipWaiting();
}

async function dropOlder() {
  const names = await caches.keys();
  const older = names.filter((name) => name.startsWith(OWN) && name !== CACHE);
  await Promise.all(older.map((name) => caches.delete(name)));
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
