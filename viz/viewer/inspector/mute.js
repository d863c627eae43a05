// The panel What if: which heads are muted or give something else, what that changes, and which of all heads matter.

import { element, readable, replaceKeepingFocus, visible } from '../drawing/dom.js';
import { askImportance } from '../transport/effects.js';
import { showMuted } from '../transport/views.js';
import { changedHeads, kindName, listOf, titleOfHeads } from '../state/labels.js';
import { largest, sum } from '../domain/math.js';
import { forcedIds } from '../domain/payload.js';
import { baselineGiven, isOutcome } from '../state/questions.js';
import { refusalIn, whyNot } from '../transport/requests.js';
import { closeView, toggleMute, withoutRow } from '../state/actions.js';
import { importanceOf } from '../state/measures.js';
import { chosenHeads } from '../domain/heads.js';
import { aboutModel, differs, isMuted, sourceView } from '../state/queries.js';
import {
  actionButton,
  actions,
  fact,
  note,
  numberText,
  sayNote,
  section,
  signedBar,
  tokenColumns,
} from '../drawing/widgets.js';
import { headList, headMap } from '../instruments/head_map.js';
import { createQuestion } from '../instruments/question.js';
import { pruning } from '../instruments/pruning.js';
import { say, sayCount } from '../locales/language.js';
import { fixed, signed } from '../drawing/numbers.js';

export function createMute(client) {
  const choices = element('section', { class: 'hl-part' });
  const outcome = element('section', { class: 'hl-part hl-outcome' });
  const map = element('div');
  const baseline = createBaseline(client);
  const ofPruning = createQuestion(client, pruning);
  return {
    node: element(
      'div',
      {},
      choices,
      baseline.node,
      outcome,
      section(say('Which heads matter for this sentence?'), map),
      ofPruning.node,
    ),
    draw(state, before) {
      const [source, former] = [sourceView(state), sourceView(before)];
      const moved = differs(state, before, ['record', 'kind', 'layer', 'head', 'selection', 'mutes']);
      if (moved) drawChoices(client, choices, state);
      baseline.draw(state, before);
      ofPruning.draw(state, before);
      const changed = state.ablation !== before.ablation || differs(source, former, ['muted', 'mutes']);
      if (moved || changed) drawOutcome(client, outcome, state);
      if (moved || changed || source.importance !== former.importance) drawImportance(client, map, state);
    },
  };
}

/** @type {(state: State) => [label: string, heads: readonly Head[]][]} */
function groupsOf(state) {
  const { kind, layer, head, record, selection } = state;
  const { layers, heads } = record.attention[kind];
  /** @type {(length: number, headAt: (place: number) => Head) => Head[]} */
  const list = (length, headAt) => Array.from({ length }, (_, place) => headAt(place));
  /** @type {[string, Head[]]} */
  const ofLayer = [say('All of layer {layer}', { layer: layer + 1 }), list(heads, (each) => [kind, layer, each])];
  if (selection.length > 0) return [[say('The {count} chosen', { count: selection.length }), selection], ofLayer];
  if (head === null) return [ofLayer];
  const names = { head: head + 1 };
  const column = list(layers, (each) => [kind, each, head]);
  return [
    [say('Head {head}', names), chosenHeads(state)],
    ofLayer,
    ...(layers > 1 ? [/** @type {[string, Head[]]} */ ([say('Head {head} of each layer', names), column])] : []),
  ];
}

function drawChoices(client, node, state) {
  const { store } = client;
  const reason = whyNot(client, 'mute');
  const toggle = (heads) => store.change(toggleMute(store.get(), heads));
  const buttons = groupsOf(state).map(([label, heads]) =>
    actionButton(label, () => toggle(heads), {
      'aria-pressed': String(heads.every((each) => isMuted(state, each))),
      disabled: reason !== null,
    }),
  );
  const muted = state.mutes.map((each) => {
    const name = `${kindName(each[0])} ${listOf([each])}`;
    const attributes = {
      class: 'hl-act hl-muted-head',
      'aria-label': say('Unmute {head}', { head: name }),
      disabled: reason !== null,
    };
    return actionButton(`${name} ×`, () => toggle([each]), attributes);
  });
  const clearAll = () => store.change({ mutes: [], ablation: withoutRow(store.get().ablation) });
  const clear = actionButton(say('Clear all'), clearAll, { disabled: state.mutes.length === 0 || reason !== null });
  replaceKeepingFocus(
    node,
    element('h3', {}, say('Mute')),
    note(titleOfHeads(state)),
    actions(...buttons),
    element('div', { class: 'hl-actions hl-muted-heads' }, ...muted, clear),
  );
  if (reason) node.append(note(refusalIn(client, reason)));
}

/** @type {(measured: { ablation: Ablation; baseline?: MuteBaseline }) => string} */
function changeText({ ablation, baseline }) {
  if (baseline?.name === 'mean')
    return sayCount(
      baseline.sentences,
      'Change of the log-probability of this translation, in nats, if one head gives its mean over {count} sentence, in all rows.',
      'Change of the log-probability of this translation, in nats, if one head gives its mean over {count} sentences, in all rows.',
    );
  if (ablation.baseline === 'sentence')
    return say(
      'Change of the log-probability of this translation, in nats, if one head gives what it gives for “{sentence}”, in all rows.',
      { sentence: readable(ablation.sentence) },
    );
  return say('Change of the log-probability of this translation, in nats, if one head is muted in all rows.');
}

// Why the heads cannot be tried, in one sentence; null if they can.
function whyNoImportance(client, state) {
  if (baselineGiven(state) === null) return say('Type another sentence above.');
  return whyNot(client, 'importance');
}

function drawOutcome(client, node, state) {
  const { muted, mutes, record } = sourceView(state);
  const { baseline, sentence } = state.ablation;
  const lacksSentence = mutes.length > 0 && baseline === 'sentence' && sentence === '';
  node.classList.toggle('hl-stale', Boolean(muted) && !isOutcome(state) && !lacksSentence);
  if (!muted || lacksSentence) {
    const reason = lacksSentence ? say('Type another sentence above.') : '';
    const nothing = say('No head is muted. Mute one to see what changes in the translation.');
    const title = element('h3', {}, say('With heads muted'));
    return node.replaceChildren(title, note(mutes.length === 0 ? nothing : reason));
  }
  replaceKeepingFocus(
    node,
    element('h3', {}, say('With {changed}', { changed: changedHeads(muted.heads, muted.ablation) })),
    note(baselineOf(record, muted)),
    ...wordsOf(muted),
    ...givenNote(record),
    ...changeOf(record, muted),
    ...changesOfTokens(record, muted),
    actions(showButton(client, state, muted)),
  );
  return undefined;
}

function givenNote(record) {
  const given = forcedIds(record).length;
  if (given === 0) return [];
  if (given === record.tokens.predicted.length)
    return [sayNote('All tokens are given, so the words stay and only their probabilities change.')];
  return [note(sayCount(given, '{count} forced token stays.', '{count} forced tokens stay.'))];
}

function showButton(client, state, muted) {
  const { store } = client;
  if (state.record === muted.record)
    return actionButton(say('Show it without muting'), () => store.change(closeView(store.get())));
  return actionButton(say('Show its attention'), () => showMuted(client, muted));
}

function drawImportance(client, node, state) {
  const { importance, record } = sourceView(state);
  const changes = importanceOf({ ...state, importance });
  if (changes)
    return replaceKeepingFocus(
      node,
      note(changeText({ ...importance, ablation: state.ablation })),
      ...headMap(client.store, state, changes),
      element('h4', {}, say('The most important heads for this translation')),
      headList(client.store, changes),
    );
  const reason = whyNoImportance(client, state);
  const count = sum(Object.values(record.attention).map(({ layers, heads }) => layers * heads));
  const attributes = { disabled: reason !== null };
  const isUsual = state.ablation.baseline === 'zero' && state.ablation.row === null;
  const invitation = isUsual
    ? say('Mute each head alone to see how the log-probability of this translation changes.')
    : say(
        'Let each head alone give what is chosen above, in all rows, to see how the log-probability of this translation changes.',
      );
  replaceKeepingFocus(
    node,
    note(reason === null ? invitation : refusalIn(client, reason)),
    actions(
      actionButton(
        sayCount(count, 'Try all {count} head', 'Try all {count} heads'),
        () => askImportance(client),
        attributes,
      ),
    ),
  );
  return undefined;
}

// The translation before and after. Changed words are del and ins elements, so that colour is not the only mark.
function wordsOf({ original_words: before, words: after }) {
  const same = String(before.map(([text]) => text)) === String(after.map(([text]) => text));
  return [line(say('before'), before, 'del'), line(same ? say('after (unchanged)') : say('after'), after, 'ins')];
}

function line(name, words, mark) {
  const marked = words.flatMap(([text, changed]) => {
    return [element(changed ? mark : 'span', { dir: 'auto' }, readable(text)), ' '];
  });
  return element(
    'p',
    { class: 'hl-words' },
    element('span', { class: 'hl-soft' }, name),
    ' ',
    ...(words.length ? marked : [say('(nothing)')]),
  );
}

function changeOf(record, { differences }) {
  const before = sum(record.log_probabilities);
  const change = sum(differences);
  return [
    fact(say('log p of the translation before'), `${fixed(before, 2)} → ${fixed(before + change, 2)}`),
    fact(
      say('changes by'),
      element('strong', { class: `hl-number ${change < 0 ? 'hl-loss' : ''}`.trim() }, signed(change)),
    ),
  ];
}

function changesOfTokens(record, { differences }) {
  const most = largest(differences);
  const change = (step) => [signedBar(differences[step], most), numberText(signed(differences[step], 2))];
  const label = { 'aria-label': say('Change of the log-probability of each token') };
  const longest = sayNote('The longest bar is {most} nats; other heads have other scales.', { most: fixed(most, 2) });
  return [tokenColumns(record.tokens.predicted, change, label), longest];
}

function createBaseline(client) {
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
function baselineOf(record, { baseline, ablation, heads }) {
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
