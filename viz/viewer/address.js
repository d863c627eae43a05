// Keeps the page's address and the view in step: every change of the view is written into the address, and the view
// follows a link that is opened and the browser's Back and Forward. Each translation is an entry of the
// history, and each comparison of two sides.

import { askImportance, askMuted, askTraining, compareWithReference, scoreTranslation } from './core/effects.js';
import { forceTokens, showHypothesis, showMuted, showReference, showTrainingStep } from './core/effects.js';
import { keep } from './core/state/modes.js';
import { asksFor, chapterOfAddress, fromAddress, toAddress, viewOfAddress } from './core/state/permalink.js';
import { sameQuestion } from './core/instruments/questions.js';
import { goHome } from './core/state/actions.js';
import { differs, sameSpot } from './core/state/queries.js';
import { CHOICES } from './core/state/store.js';
import { CHAPTERS } from './learn/chapters.js';
import { isPlayground } from './playground/entry.js';
import { otherLanguageOf } from './locales/language.js';

// Whether there is another record or another choice.
export function hasChanged(state, before) {
  const names = Object.keys(CHOICES).filter((name) => name !== 'pin');
  return Boolean(state.record) && (differs(state, before, ['record', ...names]) || !sameSpot(state.pin, before.pin));
}

// Returns { open }: `open(address, show)` calls `show`, which may show another translation, and then opens what else the
// address asks for. `translateAddress` translates the sentence of the present address; it is null where there is only
// one translation.
export function createAddress(server, translateAddress) {
  const { store } = server;
  let opening = 0; // while an address is followed, the view on screen is not yet the one that it asks for
  const open = async (address, show = () => {}) => {
    opening += 1;
    try {
      show();
      await openAddress(server, address);
    } finally {
      opening -= 1;
      if (opening === 0) write(store.get());
    }
  };
  store.subscribe((state, before) => {
    const changed = hasChanged(state, before) || differs(state, before, ['reference', 'scored']);
    if (opening === 0 && changed) write(state, isNewTask(state, before) || isOtherBeside(state, before));
  });
  window.addEventListener('hashchange', ({ newURL }) => {
    const { hash } = new URL(newURL);
    // A view that changed just before this event may have written its own address over the new one.
    if (location.hash !== hash) history.replaceState(history.state, '', hash);
    if (otherLanguageOf(location.hash)) return location.reload();
    const { home } = store.get();
    if (isPlayground(location.hash)) return undefined;
    if (!home.record || location.hash === toAddress(store.get())) return undefined;
    if (translateAddress && !asksFor(location.hash, home.record)) return translateAddress();
    return open(location.hash);
  });
  return { open };
}

// Another sentence or model: a new translation.
function isNewTask(state, before) {
  return !asksFor(toAddress(before), state.home.record);
}

// Something else stands beside the view, or nothing any more.
function isOtherBeside(state, before) {
  const [now, then] = [state, before].map(({ beside }) => (beside?.by ? [beside.by, beside.with] : null));
  return !sameQuestion(now, then);
}

function write(state, isNew = false) {
  if (!state.record || isPlayground(location.hash) || location.hash === toAddress(state)) return;
  history[isNew ? 'pushState' : 'replaceState'](history.state, '', toAddress(state));
}

// The choices are applied twice: to the model's own translation, where closing a view leads back to, and to the view.
async function openAddress(server, address) {
  const { store } = server;
  const wanted = viewOfAddress(address);
  const choices = () => ({ hover: null, ...fromAddress(withChapter(address), store.get().record) });
  store.change({ ...goHome(store.get()), mode: 'weight', reference: null });
  const mutes = store.get().record.muted?.heads ?? CHOICES.mutes;
  store.change({ ...choices(), mutes, gold: CHOICES.gold }); // those of the address belong to the view
  if (!server.ask) return; // an exported file has one record
  if (wanted.reference !== null) await scoreTranslation(server, wanted.reference);
  await openWanted(server, wanted);
  store.change(choices());
  if (wanted.comparesReference) compareWithReference(server);
  if (wanted.compared) compareWithHeads(store, wanted);
  if (wanted.marksImportance || wanted.sortsByImportance) await askImportance(server);
  if (wanted.sortsByImportance) store.change({ sort: 'importance' });
  if (wanted.showsMuted) await showMutedOnes(server);
}

// A plain link to a chapter of Learn opens the tab and the question with which the chapter begins.
function withChapter(address) {
  const given = Object.fromEntries(new URLSearchParams(address.slice(1)));
  const { panel, ask } = CHAPTERS[chapterOfAddress(address) - 1]?.view ?? {};
  if (given.kind) return address; // of a view that was shared
  return `#${new URLSearchParams({ ...(panel && { panel }), ...(ask && { ask }), ...given })}`;
}

async function openWanted(server, { forced, hypothesis, training, showsReference }) {
  if (forced) await forceTokens(server, forced);
  else if (hypothesis) await showHypothesis(server, hypothesis);
  else if (showsReference) showReference(server);
  else if (training && (await askTraining(server))) await showTrainingStep(server, training.step, training.sentence);
}

function compareWithHeads(store, { compared, comparesOwn }) {
  const state = store.get();
  const [[kind, layer, head]] = compared;
  const heads = compared.length > 1 ? { selection: compared } : { selection: [] };
  const { record } = comparesOwn ? state.home : state;
  const reference = keep({ ...state, kind, layer, head, ...heads, record });
  store.change({ reference, mode: 'difference' });
}

async function showMutedOnes(server) {
  const { store } = server;
  if (store.get().mutes.length === 0) return;
  await askMuted(server);
  const { muted } = store.get();
  if (muted) showMuted(server, muted);
}
