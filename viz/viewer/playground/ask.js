// The question before a training is given up.

import { element } from '../drawing/dom.js';
import { actionButton, actions } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

// Calls `begin` or `keep`. Escape keeps, too.
/** @type {(node: Element, steps: number, begin: () => void, keep: () => void) => void} */
export function askToBegin(node, steps, begin, keep) {
  const title = say('Begin a new training?');
  const dialog = /** @type {HTMLDialogElement} */ (element('dialog', { class: 'hl-help', 'aria-label': title }));
  const answer = (label, act, attributes = {}) => {
    const click = () => {
      dialog.close();
      act();
    };
    return actionButton(label, click, attributes);
  };
  dialog.append(
    element('h2', {}, title),
    element('p', {}, say('This training of {steps} steps will be lost unless you save its model first.', { steps })),
    actions(answer(say('Keep this training'), keep, { class: 'hl-button' }), answer(say('Begin anew'), begin)),
  );
  dialog.addEventListener('cancel', keep);
  dialog.addEventListener('close', () => dialog.remove());
  node.append(dialog);
  dialog.showModal();
}
