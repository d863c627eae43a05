// Opens the playground: its address, and its code, which the page fetches when it is first needed.

import { writeCourse } from '../state/linked_choices.js';
import { courseOfAddress, toAddress } from '../state/permalink.js';
import { startWorker, workerAsker } from '../transport/requests.js';
import { rewriteAddress } from '../state/parameters.js';
import { say } from '../locales/language.js';

export const isPlayground = (address) => new URLSearchParams(address.slice(1)).has('playground');

function withChapter(address, course) {
  const parameters = new URLSearchParams(address.slice(1));
  for (const name of ['learn', 'minutes']) parameters.delete(name);
  for (const [name, value] of Object.entries(writeCourse(course))) parameters.set(name, String(value));
  return `#${parameters}`;
}

// Returns the function that opens it. The playground opens in `root` while the page's address is one of its own. `page` has
// `playground()`, which gives createPlayground, `engine()` and `openModel`.
/** @type {(store: Store, root: HTMLElement, page: any) => () => void} */
export function createEntry(store, root, page) {
  /** @type {Promise<any> | null} */
  let opening = null;
  let training = () => '#playground=reverse'; // the address of the training that is there
  const addressOfView = () => {
    const state = store.get();
    return state.record ? toAddress(state) : '#';
  };
  const leave = () => (location.hash = addressOfView());
  // Leaves for a model that opens in the viewer. No event tells of this address: it would ask for the translation on screen.
  const giveWay = () => {
    rewriteAddress(addressOfView(), true);
    follow();
  };
  const create = async () => {
    const createPlayground = await page.playground();
    const playground = createPlayground(page, (played) => store.change({ played }), leave, giveWay);
    root.append(playground.node);
    return playground;
  };
  const follow = async () => {
    const isOpen = isPlayground(location.hash);
    document.body.classList.toggle('hl-playing', isOpen);
    if (!isOpen) return (await opening)?.close();
    // An address that names no task is of the training that is there.
    if (new URLSearchParams(location.hash.slice(1)).get('playground') === '')
      rewriteAddress(withChapter(training(), courseOfAddress(location.hash)));
    store.change(courseOfAddress(location.hash));
    opening ??= create();
    const playground = await opening.catch(() => null);
    if (playground) {
      await playground.open(location.hash);
      training = playground.address;
      return undefined;
    }
    opening = null;
    leave();
    return store.change({
      error: say('The playground could not be loaded; check the connection, then load the page again.'),
    });
  };
  window.addEventListener('hashchange', follow);
  store.subscribe((state, before) => {
    if (state.learn === before.learn || !isPlayground(location.hash)) return;
    rewriteAddress(withChapter(location.hash, state));
  });
  follow();
  return () => (location.hash = withChapter(training(), store.get()));
}

// An `ask` that also answers for models that were trained in this page: each of them has a Worker of its own. `add` takes
// what the page knows of a model, and its files as bytes.
export function withOwnModels(ask, engine, settings) {
  const own = new Map(); // { worker, ask } by the name of the model
  const both = (request, ...rest) => (own.get(request.model)?.ask ?? ask)(request, ...rest);
  const add = async (identity, files) => {
    const { name } = identity;
    own.get(name)?.worker.terminate();
    const worker = startWorker(await engine(), 'serve');
    const model = { ...identity, files: Object.fromEntries(Object.keys(files).map((file) => [file, {}])), size: 1 };
    worker.postMessage({ start: { settings, models: { [name]: model }, address: '' } });
    worker.postMessage({ embedded: { name, files } });
    own.set(name, { worker, ask: workerAsker(worker) });
  };
  const isHere = (name) => Boolean(ask.isLocal) || own.has(name); // no request leaves the page
  return Object.assign(both, { kept: ask.kept, add, isHere });
}
