// The address of the page, which follows the view.

// Writes the address without loading it. A document that a frame has as text (srcdoc) has no address that may change.
/** @type {(address: string, isNew?: boolean) => void} */
export function rewriteAddress(address, isNew = false) {
  const written = location.protocol === 'about:' ? undefined : address;
  history[isNew ? 'pushState' : 'replaceState'](history.state, '', written);
}
