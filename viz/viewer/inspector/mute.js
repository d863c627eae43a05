// Silent heads: what becomes of the translation, of each of its tokens, and which of all heads matter.

import { element } from '../core/dom.js';
import { chosenHeads, differs, isMuted, toggleMute } from '../core/store.js';
import { readRecord, request, whyNot } from '../core/requests.js';
import { changeHome, leave, subjectOf, visit } from '../core/visit.js';
import { note, part, plural, pressable } from '../core/widgets.js';
import { kindName, listOf, titleOf } from '../core/labels.js';
import { changeOf, changesOfTokens, wordsOf } from './mute_result.js';
import { drawHeadMap } from './head_map.js';

const NOTHING = 'No head is silent. Silence one to see what becomes of the translation.';

export function createMute(store, ask) {
  const choices = element('section', { class: 'hl-part' });
  const outcome = element('section', { class: 'hl-part hl-outcome' });
  const map = element('div');
  const questions = { asked: 0 };
  store.subscribe((state, before) => followMutes(store, ask, questions, state, before));
  return {
    node: element('div', {}, choices, outcome, part('Which heads matter?', map)),
    draw(state, before) {
      if (!state.record) return;
      const [subject, former] = [subjectOf(state), subjectOf(before)];
      const moved = differs(state, before, ['record', 'kind', 'layer', 'head', 'selection', 'mutes']);
      if (moved) drawChoices(store, ask, choices, state);
      if (moved || differs(subject, former, ['muted', 'mutes'])) drawOutcome(store, ask, outcome, state);
      if (moved || subject.importance !== former.importance) drawImportance(store, ask, map, state);
    },
  };
}

// Ask anew whenever other heads are silent or another record is shown; nothing silent restores the record.
function followMutes(store, ask, questions, state, before) {
  if (!state.record || !differs(state, before, ['record', 'mutes'])) return;
  if (state.visit?.what === 'muted') {
    if (state.mutes === state.visit.from.mutes) return;
    leave(store);
    store.change({ mutes: state.mutes });
  } else if (state.mutes.length === 0) {
    if (state.muted) store.change({ muted: null });
  } else if (state.muted?.heads !== state.mutes && !whyNot(state, ask, 'mute')) {
    askMuted(store, ask, questions);
  }
}

// Without an answer the heads that the last answer was about are silent again, so that what is struck out and
// what is said of it agree; `error` stays and says why.
async function askMuted(store, ask, questions) {
  const { mutes, record } = store.get();
  questions.asked += 1;
  const turn = questions.asked;
  const read = async (answer) => ({ ...answer, heads: mutes, record: await readRecord(answer.payload) });
  const muted = await request(store, ask, 'mute', { do: 'mute', ids: idsOfTarget(record), heads: mutes }, read);
  const now = store.get();
  if (turn !== questions.asked || now.mutes !== mutes || now.record !== record) return;
  store.change(muted ? { muted } : { mutes: now.muted?.heads ?? [] });
}

function idsOfTarget(record) {
  return record.tokens.predicted.map(({ id }) => id);
}

function headName(head) {
  return `${kindName(head[0])} ${listOf([head])}`;
}

// Each choice silences its heads, or lets them speak again when all of them are silent.
function drawChoices(store, ask, node, state) {
  const { kind, layer, head, record, selection, mutes } = state;
  const { layers, heads } = record.attention[kind];
  const row = Array.from({ length: heads }, (_, each) => [kind, layer, each]);
  const column = Array.from({ length: layers }, (_, each) => [kind, each, head]);
  const one = selection.length === 0 && head !== null;
  const options = [
    one && [`Head ${head + 1}`, chosenHeads(state)],
    selection.length > 0 && [`The ${selection.length} chosen`, selection],
    [`All of layer ${layer + 1}`, row],
    one && layers > 1 && [`Head ${head + 1} of each layer`, column],
  ].filter(Boolean);
  const reason = whyNot(state, ask, 'mute');
  const buttons = options.map(([label, those]) =>
    pressable(label, () => store.change(toggleMute(store.get(), those)), {
      'aria-pressed': String(those.every((each) => isMuted(state, each))),
      disabled: reason !== null,
    }),
  );
  const silent = mutes.map((each) =>
    pressable(`${headName(each)} ×`, () => store.change(toggleMute(store.get(), [each])), {
      class: 'hl-act hl-silent',
      'aria-label': `let ${headName(each)} speak`,
    }),
  );
  const clear = pressable('Clear all', () => store.change({ mutes: [] }), { disabled: mutes.length === 0 });
  node.replaceChildren(
    element('h3', {}, 'Silence'),
    note(titleOf(state)),
    element('div', { class: 'hl-actions' }, ...buttons),
    element('div', { class: 'hl-actions hl-silent-heads' }, ...silent, clear),
  );
  if (reason) node.append(note(reason));
}

function drawOutcome(store, ask, node, state) {
  const { muted, mutes, record } = subjectOf(state);
  node.classList.toggle('hl-stale', Boolean(muted) && muted.heads !== mutes);
  if (!muted) return node.replaceChildren(element('h3', {}, 'Without them'), note(mutes.length === 0 ? NOTHING : ''));
  node.replaceChildren(
    element('h3', {}, `Without ${plural(muted.heads.length, 'head')}`),
    ...wordsOf(muted),
    ...changeOf(record, muted),
    changesOfTokens(record, muted),
    element('div', { class: 'hl-actions' }, showing(store, state, muted)),
  );
  return undefined;
}

function showing(store, state, muted) {
  if (state.visit?.what === 'muted') return pressable('Show the model’s own', () => leave(store));
  return pressable('Show its attention', () =>
    visit(store, muted.record, { what: 'muted', label: `without ${plural(muted.heads.length, 'head')}` }),
  );
}

function drawImportance(store, ask, node, state) {
  const { importance, record } = subjectOf(state);
  const reason = whyNot(state, ask, 'importance');
  if (importance) return drawHeadMap(store, node, state, importance);
  const count = Object.values(record.attention).reduce((total, { layers, heads }) => total + layers * heads, 0);
  const measure = () => askImportance(store, ask);
  node.replaceChildren(
    note(reason ?? 'Silence each head alone and see how the log-probability of this translation changes.'),
    element(
      'div',
      { class: 'hl-actions' },
      pressable(`Try all ${plural(count, 'head')}`, measure, { disabled: reason !== null }),
    ),
  );
  return undefined;
}

async function askImportance(store, ask) {
  const ids = idsOfTarget(subjectOf(store.get()).record);
  const importance = await request(store, ask, 'importance', { do: 'importance', ids });
  if (!importance) return;
  if (store.get().visit?.what === 'muted') changeHome(store, { importance });
  else store.change({ importance });
}
