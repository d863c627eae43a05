// What the model would say after each decoder layer, through the Jacobian lens or directly, a line for each step and a column
// for each layer; and how near the encoder's states are to its last ones.

import { targetIds } from '../domain/payload.js';
import { createButton, element, replaceKeepingFocus, tokenText, visible } from '../drawing/dom.js';
import { fixed, percent } from '../drawing/numbers.js';
import { choiceTabs, note, numberText, sayNote, shareBar } from '../drawing/widgets.js';
import { say, sayCount } from '../locales/language.js';
import { sum } from '../domain/math.js';

export const lens = {
  name: 'lens',
  panel: 'step',
  title: () => say('What would it say after each layer?'),
  doing: () => say('Reading the model after each layer'),
  ask: ({ record }) => ({ ids: targetIds(record) }),
  create() {
    const chosen = { view: null, place: null }; // the tab, and the layer and the step whose likeliest words are listed
    const node = element('div');
    const draw = (state, answer) => {
      const choose = (changes) => {
        Object.assign(chosen, changes);
        draw(state, answer);
      };
      replaceKeepingFocus(node, ...contentOf(state, answer, chosen, choose));
    };
    return {
      draw: (state, answer) => {
        draw(state, answer);
        return [node];
      },
    };
  },
};

function contentOf(state, answer, { view, place }, choose) {
  const first = isJacobianFirst(answer) ? 'jacobian' : 'direct';
  const shown = view === 'jacobian' && !answer.jacobian ? first : (view ?? first);
  const names = { jacobian: say('Jacobian lens'), direct: say('Logit lens'), encoder: say('Encoder') };
  const views = answer.jacobian
    ? [first, first === 'direct' ? 'jacobian' : 'direct', 'encoder']
    : ['direct', 'encoder'];
  /** @type {[string, string][]} */
  const entries = views.map((name) => [name, names[name]]);
  const open = (own) => choose({ place: place === own ? null : own });
  return [
    choiceTabs(say('Which lens'), entries, shown, (name) => choose({ view: name, place: null })),
    ...(shown === 'encoder'
      ? encoderOf(state, answer)
      : wordsOf(state, answer, shown === 'direct' ? answer : { ...answer, ...answer.jacobian }, place, open)),
    ...(answer.measured
      ? []
      : [
          sayNote('Nobody has made the Jacobian lens of this model. This command does: {command}', {
            command: `python -m viz study ${state.record.model.name} --sentences FILE`,
          }),
        ]),
  ];
}

function tableOf(count, ...rows) {
  const table = element('table', { class: 'hl-layers' }, ...rows);
  table.style.setProperty('--hl-layers', count);
  return element('div', { class: 'hl-scroll' }, table);
}

function headOf(count) {
  const layers = Array.from({ length: count }, (_, layer) => element('th', { scope: 'col' }, String(layer + 1)));
  return element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, say('layer')), ...layers));
}

function wordsOf(state, answer, found, place, open) {
  const isDirect = found === answer;
  return [
    note(leadText(state, found)),
    tableOf(found.words.length, ...rowsOf(state, found, place, open)),
    note(
      isDirect
        ? say('In this sentence: the likeliest word if the model stopped after that layer, and its probability.')
        : say(
            'In this sentence: the likeliest word after what all later layers do to such a state on average (their mean Jacobian), and its probability.',
          ),
    ),
    sayNote('Outlined: the word of the translation, once it stays the likeliest up to the last layer.'),
    ...(answer.measured ? [note(worthOf(answer))] : []),
  ];
}

const byLayer = (values, write) => values.map(write).join(' · ');

// How often each lens is right, which says why one of them comes first.
function worthOf(answer) {
  const { sentences: count, fitted, decoder } = answer.measured;
  const values = { jacobian: byLayer(decoder.jacobian, percent), direct: byLayer(decoder.direct, percent) };
  const order = isJacobianFirst(answer)
    ? say('So the Jacobian lens comes first.')
    : say('So the logit lens comes first.');
  const shares = sayCount(
    count,
    'Over {count} sentence the likeliest word is the word of the translation, by layer: Jacobian lens {jacobian}; logit lens {direct}.',
    'Over {count} sentences the likeliest word is the word of the translation, by layer: Jacobian lens {jacobian}; logit lens {direct}.',
    values,
  );
  const limits = say(
    'The mean Jacobian is of {fitted} of them. The last layer is not always right, because the search may take another word than the likeliest.',
    { fitted },
  );
  return `${shares} ${order} ${limits}`;
}

function encoderOf({ record }, { encoder, measured }) {
  const lines = record.tokens.source.map((token, row) => {
    const cells = encoder.map((values) => element('td', {}, numberText(fixed(values[row], 2))));
    return element('tr', {}, element('th', { scope: 'row' }, tokenText(token)), ...cells);
  });
  const nearness = say(
    'The encoder says no words. How near the state after that layer is to the last state of its token (cosine, 1 is the same direction).',
  );
  return [
    tableOf(encoder.length, headOf(encoder.length), element('tbody', {}, ...lines)),
    note(nearness),
    ...(measured ? [note(worthOfEncoder(measured))] : []),
  ];
}

function worthOfEncoder({ sentences: count, encoder: { direct, jacobian } }) {
  const write = (value) => fixed(value, 2);
  return sayCount(
    count,
    'Over {count} sentence, by layer: {direct}; through the mean Jacobian of the later layers {jacobian}. The table shows the states as they are.',
    'Over {count} sentences, by layer: {direct}; through the mean Jacobian of the later layers {jacobian}. The table shows the states as they are.',
    { direct: byLayer(direct, write), jacobian: byLayer(jacobian, write) },
  );
}

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
  const lines = record.tokens.predicted.flatMap((token, step) => {
    const cells = layers.map((layer) => element('td', {}, cellOf(answer, layer, step, place, open)));
    const name = element('th', { scope: 'row' }, tokenText(token));
    const line = element('tr', { class: step === current ? 'hl-this' : null }, name, ...cells);
    const [layer, of] = place?.split('.').map(Number) ?? [];
    return of === step ? [line, likeliest(answer, layer, step)] : [line];
  });
  return [headOf(layers.length), element('tbody', {}, ...lines)];
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

function likeliest({ words, log_probabilities: chances, tokens }, layer, step) {
  const lines = words[layer][step].map((word, rank) => {
    const chance = Math.exp(chances[layer][step][rank]);
    return element('li', {}, tokenText(tokens[word]), shareBar(chance), numberText(fixed(chance)));
  });
  const name = say('after layer {layer}', { layer: layer + 1 });
  const list = element('ol', { class: 'hl-next', 'aria-label': name }, ...lines);
  return element('tr', {}, element('td', { colspan: words.length + 1 }, note(name), list));
}

// Whether the Jacobian lens is right more often than the logit lens, over many sentences.
/** @type {(answer: any) => boolean} */
const isJacobianFirst = ({ jacobian, measured }) =>
  Boolean(jacobian) && sum(measured.decoder.jacobian) > sum(measured.decoder.direct);

// An answer of the lens with the words of that lens.
export const firstLens = (answer) => (isJacobianFirst(answer) ? { ...answer, ...answer.jacobian } : answer);
