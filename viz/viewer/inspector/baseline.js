// What replaces the output of a muted head: zero, its mean, or its output for another sentence.

import { element, readable, replaceKeepingFocus, visible } from '../drawing/dom.js';
import { whyNot } from '../transport/requests.js';
import { aboutModel, differs } from '../state/queries.js';
import { actionButton, actions } from '../drawing/widgets.js';
import { say, sayCount } from '../locales/language.js';

export function createBaseline(client) {
  const { store } = client;
  const change = (changes) => store.change({ ablation: { ...store.get().ablation, ...changes } });
  const choice = element('select', { class: 'hl-box', 'aria-label': say('What muted heads give') });
  choice.addEventListener('change', () => change({ baseline: choice.value }));
  const texts = { placeholder: say('Another sentence, then Enter'), 'aria-label': say('Text to patch from') };
  const box = element('input', { class: 'hl-box', dir: 'auto', ...texts });
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing) change({ sentence: box.value.trim() });
  });
  const only = element('div');
  const label = element('label', { class: 'hl-asked-word' }, say('Muted heads give'), choice);
  return {
    node: element('div', { hidden: !client.ask }, label, box, only), // a file has no sentences and no model
    draw(state, before) {
      if (!differs(state, before, ['record', 'ablation', 'about', 'kind', 'pin', 'step', 'shown'])) return;
      const { baseline, sentence } = state.ablation;
      choice.replaceChildren(...optionsOf(client, state));
      choice.value = baseline;
      box.hidden = baseline !== 'sentence';
      if (state.ablation !== before.ablation) box.value = sentence;
      replaceKeepingFocus(only, actions(rowButton(client, state, change)));
    },
  };
}

function optionsOf(client, state) {
  const { everyday } = aboutModel(state);
  const isRefused = whyNot(client, 'mute') !== null;
  const mean = everyday
    ? sayCount(everyday.length, 'their mean over {count} sentence', 'their mean over {count} sentences')
    : say('their mean (no sentences for this model)');
  const option = (value, text, disabled) => element('option', { value, disabled }, text);
  return [
    option('zero', say('nothing'), false),
    option('mean', mean, isRefused || !everyday),
    option('sentence', say('what they give for another sentence'), isRefused),
  ];
}

function rowButton(client, state, change) {
  const { row } = state.ablation;
  const reason = whyNot(client, 'mute');
  const place = rowOf(state);
  const label =
    row === null || row === place.row
      ? say('Only in row “{token}”', { token: visible(place.token) })
      : say('Only in row {row}', { row: row + 1 });
  const attributes = { 'aria-pressed': String(row !== null), disabled: reason !== null, title: reason };
  return actionButton(label, () => change({ row: row === null ? place.row : null }), attributes);
}

// The row in focus: a source token for the encoder, otherwise a step of the translation.
function rowOf({ record, kind, pin, step }) {
  if (kind !== 'encoder') return { row: step, token: record.tokens.predicted[step] };
  const row = pin?.row ?? 0;
  return { row, token: record.tokens.source[row] };
}

// Which baseline an outcome was computed with.
/** @type {(record: TranslationRecord, outcome: { baseline?: MuteBaseline; ablation: Ablation; heads: Head[] }) => string} */
export function baselineOf(record, { baseline, ablation, heads }) {
  const where = ablation.row === null ? say('in all rows') : say('only in row {row}', { row: ablation.row + 1 });
  if (!baseline || baseline.name === 'zero')
    return say('The output of these heads is zero, {where}. This also removes what a head gives for every sentence.', {
      where,
    });
  if (baseline.name === 'mean')
    return sayCount(
      baseline.sentences,
      'Each head gives its mean over {count} sentence of the project and its translation, {where}.',
      'Each head gives its mean over {count} sentences of the project and their translations, {where}.',
      { where },
    );
  const { translation, rows } = baseline;
  const kinds = [...new Set(heads.map(([kind]) => kind))];
  const own = { encoder: record.tokens.source.length, other: record.tokens.predicted.length };
  const short = kinds.filter((kind) => rows[kind] < (own[kind] ?? own.other));
  const fewest = Math.min(...short.map((kind) => rows[kind]));
  const others =
    short.length > 0 &&
    sayCount(
      fewest,
      'It has only {count} row; the others keep their own output.',
      'It has only {count} rows; the others keep their own output.',
    );
  const rest = others ? ` ${others}` : '';
  const texts = { sentence: readable(ablation.sentence), translation: readable(translation), where };
  return `${say('Each head gives what it gives for “{sentence}” (“{translation}”), row by row, {where}.', texts)}${rest}`;
}
