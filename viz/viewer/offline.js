// The service worker of the page without a server: keeps the page's own files, so that a later visit needs no
// connection. They are fetched anew whenever there is one. The engine keeps the models itself.

const CACHE = 'headlight-page';
const FILES = ['./', 'viewer.deflate', 'engine.js']; // what every visit needs
const OF_MODELS = /\/models\/.*(?<!\/stored\.json)$/;

self.addEventListener('install', (event) => {
  self.skipWaiting();
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)));
});
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('fetch', (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== 'GET' || origin !== location.origin || OF_MODELS.test(pathname)) return;
  event.respondWith(fetchOrKept(request));
});

async function fetchOrKept(request) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(request, { ignoreSearch: true });
    if (kept) return kept;
    throw error;
  }
}
