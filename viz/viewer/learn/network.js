// The whole network in one picture: every layer of the encoder and the decoder with its heads, and the sentence that
// goes through them. A click on a head chooses it.

import { createButton, element, tokenText } from '../core/dom.js';
import { headOf } from '../core/state/actions.js';
import { chosenHeads, isMuted, sameHead } from '../core/state/queries.js';
import { headName, kindName } from '../core/labels.js';
import { addRovingFocus } from '../core/widgets.js';
import { say } from '../locales/language.js';

// Returns { node, draw }; `draw(state)` is called while the picture is on screen.
export function createNetwork(store) {
  const node = element('div', { class: 'hl-network' });
  let heads = []; // { head, button } each
  let drawn = null; // the record
  const draw = (state) => {
    if (state.record !== drawn) {
      [drawn, heads] = [state.record, []];
      node.replaceChildren(encoder(store, state, heads), decoder(store, state, heads));
      addRovingFocus(
        heads.map(({ button }) => button),
        (place, key) => ({ ArrowRight: place + 1, ArrowLeft: place - 1 })[key],
      );
    }
    mark(heads, state);
  };
  return { node, draw };
}

// A stack, the first layer at the bottom.
function encoder(store, { record }, heads) {
  const { layers } = record.attention.encoder;
  const blocks = Array.from({ length: layers }, (_, layer) =>
    block(layer, [row(store, record, 'encoder', layer, heads), feedForward()]),
  );
  return stack(
    kindName('encoder'),
    blocks,
    words(say('your sentence:'), record.tokens.source),
    say('to cross-attention →'),
  );
}

function decoder(store, { record }, heads) {
  const { layers } = record.attention.decoder;
  const blocks = Array.from({ length: layers }, (_, layer) =>
    block(layer, [
      row(store, record, 'decoder', layer, heads),
      row(store, record, 'cross', layer, heads),
      feedForward(),
    ]),
  );
  return stack(
    kindName('decoder'),
    blocks,
    words(say('read:'), record.tokens.read),
    words(say('predicted:'), record.tokens.predicted),
  );
}

function stack(name, blocks, below, above) {
  return element(
    'section',
    { class: 'hl-stack', 'aria-label': name },
    element('p', { class: 'hl-soft' }, above),
    ...blocks.toReversed(),
    element('p', { class: 'hl-soft' }, below),
    element('h4', {}, name),
  );
}

function block(layer, rows) {
  const number = element('span', { class: 'hl-soft' }, String(layer + 1));
  return element('div', { class: 'hl-block' }, number, element('div', {}, ...rows.toReversed()));
}

function row(store, record, kind, layer, heads) {
  const buttons = Array.from({ length: record.attention[kind].heads }, (_, head) => {
    const choose = () => store.change({ hover: null, ...headOf({ kind, layer, head }) });
    const name = `${kindName(kind)}, ${headName(layer, head)}`;
    const button = createButton('hl-network-head', choose, { 'aria-label': name, title: name });
    heads.push({ head: [kind, layer, head], button });
    return button;
  });
  return element('div', { class: `hl-network-row hl-network-${kind}` }, ...buttons);
}

function feedForward() {
  return element('div', { class: 'hl-network-row hl-soft' }, say('feed-forward'));
}

function words(label, tokens) {
  const spaced = tokens.flatMap((token) => [' ', tokenText(token)]);
  return element('span', { class: 'hl-network-words' }, label, ...spaced);
}

function mark(heads, state) {
  const chosen = chosenHeads(state);
  for (const { head, button } of heads) {
    const isChosen = chosen.some((one) => sameHead(one, head));
    button.setAttribute('aria-pressed', isChosen);
    button.classList.toggle('hl-muted', isMuted(state, head));
  }
}
