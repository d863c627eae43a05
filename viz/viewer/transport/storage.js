// The browser's storage. A browser may refuse it; then nothing is remembered.

// Calls `use` with the storage and returns its answer, or null.
/** @type {<Found>(use: (storage: Storage) => Found) => Found | null} */
export function useStorage(use) {
  try {
    return use(localStorage);
  } catch {
    return null;
  }
}
