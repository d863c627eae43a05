// What muted heads give instead of their own output: nothing, their mean, or what they give for another sentence.

import { element, readable, visible } from '../../core/dom.js';
import { plural } from '../../core/labels.js';
import { whyNot } from '../../core/requests.js';
import { aboutModel, differs } from '../../core/store.js';
import { actionButton, actions } from '../../core/widgets.js';

const NO_SAMPLE = 'their mean (no sentences for this model)';

export function createBaseline(server) {
  const { store } = server;
  const change = (changes) => store.change({ instead: { ...store.get().instead, ...changes } });
  const choice = element('select', { class: 'hl-box', 'aria-label': 'What they give' });
  choice.addEventListener('change', () => change({ baseline: choice.value }));
  const texts = { placeholder: 'Another sentence, then Enter', 'aria-label': 'Text to patch from' };
  const box = element('input', { class: 'hl-box', dir: 'auto', ...texts });
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing) change({ sentence: box.value.trim() });
  });
  const only = element('div');
  const label = element('label', { class: 'hl-asked-word' }, 'They give', choice);
  return {
    node: element('div', {}, label, box, only),
    draw(state, before) {
      if (!differs(state, before, ['record', 'instead', 'about', 'kind', 'pin', 'step', 'shown'])) return;
      const { baseline, sentence } = state.instead;
      choice.replaceChildren(...optionsOf(server, state));
      choice.value = baseline;
      box.hidden = baseline !== 'sentence';
      if (state.instead !== before.instead) box.value = sentence;
      only.replaceChildren(actions(rowButton(server, state, change)));
    },
  };
}

function optionsOf(server, state) {
  const { everyday } = aboutModel(state);
  const isRefused = whyNot(server, 'intervene') !== null;
  const mean = everyday ? `their mean over ${plural(everyday.length, 'sentence')}` : NO_SAMPLE;
  const option = (value, text, disabled) => element('option', { value, disabled }, text);
  return [
    option('zero', 'nothing', false),
    option('mean', mean, isRefused || !everyday),
    option('sentence', 'what they give for another sentence', isRefused),
  ];
}

function rowButton(server, state, change) {
  const { row } = state.instead;
  const reason = whyNot(server, 'intervene');
  const place = rowOf(state);
  const label = row === null || row === place.row ? `Only in row “${visible(place.token)}”` : `Only in row ${row + 1}`;
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
export function baselineOf(record, { baseline = { name: 'zero' }, instead, heads }) {
  const where = instead.row === null ? 'in all rows' : `only in row ${instead.row + 1}`;
  const { name, sentences, translation, rows } = baseline;
  if (name === 'zero') return `Baseline: nothing, ${where}. This also takes away what a head always gives.`;
  if (name === 'mean')
    return `Baseline: the mean of each head over ${plural(sentences, 'sentence')} of the project and their translations, ${where}.`;
  const kinds = [...new Set(heads.map(([kind]) => kind))];
  const own = { encoder: record.tokens.source.length, other: record.tokens.predicted.length };
  const short = kinds.filter((kind) => rows[kind] < (own[kind] ?? own.other));
  const rest =
    short.length > 0
      ? ` It has only ${Math.min(...short.map((kind) => rows[kind]))} rows; the others keep their own output.`
      : '';
  return `Baseline: “${readable(instead.sentence)}” (“${readable(translation)}”), row by row, ${where}.${rest}`;
}
