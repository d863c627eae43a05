// What the model would say after each decoder layer: a line for each step, a column for each layer.

import { targetIds } from '../domain/payload.js';
import { createButton, element, replaceKeepingFocus, tokenText, visible } from '../drawing/dom.js';
import { fixed } from '../drawing/numbers.js';
import { note, numberText, shareBar } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

export const lens = {
  name: 'lens',
  panel: 'step',
  title: () => say('What would it say after each layer?'),
  doing: () => say('Reading the model after each layer'),
  ask: ({ record }) => ({ ids: targetIds(record) }),
  create() {
    const opened = { place: null }; // the layer and the step whose likeliest words are listed
    return {
      draw: (state, answer) => {
        const table = element('table', { class: 'hl-layers' });
        table.style.setProperty('--hl-layers', answer.words.length);
        const open = (place) => {
          opened.place = opened.place === place ? null : place;
          replaceKeepingFocus(table, ...rowsOf(state, answer, opened.place, open));
        };
        table.replaceChildren(...rowsOf(state, answer, opened.place, open));
        return [
          note(leadText(state, answer)),
          element('div', { class: 'hl-scroll' }, table),
          note(say('In this sentence: the likeliest word if the model stopped after that layer, and its probability.')),
          note(say('Outlined: the word of the translation, once it stays the likeliest up to the last layer.')),
        ];
      },
    };
  },
};

function leadText({ record, step }, { words, leads_from: leads }) {
  const word = visible(record.tokens.predicted[step]);
  const from = leads[step];
  const values = { step: step + 1, word, layers: words.length };
  if (from === null)
    return say('Step {step}: after the last layer another word leads, and “{word}” was taken.', values);
  return say('Step {step}: “{word}” leads from layer {layer} of {layers} on.', { ...values, layer: from + 1 });
}

function rowsOf({ record, step: current }, answer, place, open) {
  const layers = answer.words.map((_, layer) => layer);
  const head = element(
    'tr',
    {},
    element('th', { scope: 'col' }, say('layer')),
    ...layers.map((layer) => element('th', { scope: 'col' }, String(layer + 1))),
  );
  const lines = record.tokens.predicted.flatMap((token, step) => {
    const cells = layers.map((layer) => element('td', {}, cellOf(answer, layer, step, place, open)));
    const name = element('th', { scope: 'row' }, tokenText(token));
    const line = element('tr', { class: step === current ? 'hl-this' : null }, name, ...cells);
    const [layer, of] = place?.split('.').map(Number) ?? [];
    return of === step ? [line, likeliest(answer, layer, step)] : [line];
  });
  return [element('thead', {}, head), element('tbody', {}, ...lines)];
}

function cellOf(answer, layer, step, place, open) {
  const { words, log_probabilities: chances, leads_from: leads, tokens } = answer;
  const own = `${layer}.${step}`;
  const token = tokens[words[layer][step][0]];
  const leading = leads[step] !== null && layer >= leads[step];
  const chance = fixed(Math.exp(chances[layer][step][0]), 2);
  const attributes = {
    'aria-expanded': String(place === own),
    'aria-label': say('layer {layer}, step {step}: {word}, probability {value}', {
      layer: layer + 1,
      step: step + 1,
      word: visible(token),
      value: chance,
    }),
  };
  const classes = `hl-layer-word ${leading ? 'hl-leads' : ''}`.trim();
  return createButton(classes, () => open(own), attributes, tokenText(token), numberText(chance));
}

// The likeliest words after one layer, in a line of their own.
function likeliest({ words, log_probabilities: chances, tokens }, layer, step) {
  const lines = words[layer][step].map((word, rank) => {
    const chance = Math.exp(chances[layer][step][rank]);
    return element('li', {}, tokenText(tokens[word]), shareBar(chance), numberText(fixed(chance)));
  });
  const name = say('after layer {layer}', { layer: layer + 1 });
  const list = element('ol', { class: 'hl-next', 'aria-label': name }, ...lines);
  return element('tr', {}, element('td', { colspan: words.length + 1 }, note(name), list));
}
