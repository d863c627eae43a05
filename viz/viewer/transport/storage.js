// The browser's storage. A browser may refuse it; then nothing is remembered.

/** @type {(name: string) => string | null} */
export function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** @type {(name: string, text: string) => void} */
export function keepStored(name, text) {
  try {
    localStorage.setItem(name, text);
  } catch {
    // it is forgotten with the page
  }
}

// The fields of a stored object that `fits` accepts: other programs of the same host may have written anything there.
/** @type {(name: string, fits: (field: [name: string, value: any]) => boolean) => { [name: string]: any }} */
export function storedFields(name, fits) {
  try {
    return Object.fromEntries(Object.entries(JSON.parse(stored(name) ?? '{}')).filter(fits));
  } catch {
    return {};
  }
}
