// Keeps the page's address and the view in step: every change of the view is written into the address, and the view
// follows a link that is opened and the browser's Back and Forward. Each translation is an entry of the
// history, and each comparison of two sides.

import { askImportance, askMuted } from './transport/effects.js';
import { askTraining, cancelViews, compareWithReference, forceTokens, scoreTranslation } from './transport/views.js';
import { showHypothesis, showMuted, showReference, showTrainingStep } from './transport/views.js';
import { compareWith } from './values/difference.js';
import { keep } from './state/value_choice.js';
import { asksFor, courseOfAddress, fromAddress, toAddress, viewOfAddress } from './state/permalink.js';
import { sameQuestion } from './state/questions.js';
import { goHome } from './state/actions.js';
import { differs, sameSpot } from './state/queries.js';
import { CHOICES } from './state/store.js';
import { CHAPTERS } from './learn/chapters.js';
import { isPlayground } from './playground/entry.js';
import { rewriteAddress } from './state/parameters.js';
import { otherLanguageOf } from './locales/language.js';

/** @typedef {{ record: TranslationRecord | null; chosen: Set<string>; isWanted: () => boolean }} FollowedLink */

export function hasChanged(state, before) {
  const names = Object.keys(CHOICES).filter((name) => name !== 'pin');
  return Boolean(state.record) && (differs(state, before, ['record', ...names]) || !sameSpot(state.pin, before.pin));
}

// Returns { open }: `open(address, show)` calls `show`, which may show another translation, and then opens what else the
// address asks for. `translateAddress` translates the sentence of the present address; it is null where there is only
// one translation.
export function createAddress(client, translateAddress) {
  const { store } = client;
  /** @type {FollowedLink | null} */
  let opening = null; // the link that is followed: the view that it asks for is not on screen yet
  let isTranslating = false; // whether the sentence of a link that was followed is being translated
  const open = async (address, show = () => {}) => {
    /** @type {FollowedLink} */
    const link = { record: null, chosen: new Set(), isWanted: () => opening === link };
    opening = link;
    cancelViews(client); // that an earlier link opens
    try {
      show();
      link.record = store.get().home.record;
      await openAddress(client, address, link);
    } finally {
      if (link.isWanted()) {
        opening = null;
        write(store.get());
      }
    }
  };
  store.subscribe((state, before) => {
    if (opening?.record && opening.record !== state.home.record) opening = null; // another translation took its place
    if (opening) noteChosen(opening, state, before);
    const isOfPointer = state.hover !== null; // the step of the row under it
    const names = ['reference', 'scored', ...(isOfPointer ? [] : ['step'])];
    if (before.translating && !state.translating) isTranslating = false;
    const changed = hasChanged(state, before) || differs(state, before, names);
    const isNew = () => state.page.typed < 2 && !asksFor(toAddress(before), state.home.record); // what is typed is one entry
    if (!opening && changed) write(state, isNew() || isOtherSideB(state, before));
  });
  window.addEventListener('hashchange', ({ newURL }) => {
    const { hash } = new URL(newURL);
    // A view that changed just before this event may have written its own address over the new one.
    if (location.hash !== hash) rewriteAddress(hash);
    if (otherLanguageOf(location.hash)) return location.reload();
    const { home } = store.get();
    if (isPlayground(location.hash)) return undefined;
    if (!home.record) return translateAddress?.();
    const isWaiting = isTranslating || store.get().translating !== null;
    if (!isWaiting && location.hash === toAddress(store.get())) return undefined;
    // Back to the sentence on screen, too, takes the place of a translation that is not there yet.
    isTranslating = Boolean(translateAddress) && (isWaiting || !asksFor(location.hash, home.record));
    return isTranslating ? translateAddress() : open(location.hash);
  });
  return { open };
}

// Something else stands beside the view, or nothing any more.
function isOtherSideB(state, before) {
  const [now, then] = [state, before].map(({ sideB }) => (sideB?.by ? [sideB.by, sideB.with] : null));
  return !sameQuestion(now, then);
}

function write(state, isNew = false) {
  if (!state.record || isPlayground(location.hash) || location.hash === toAddress(state)) return;
  rewriteAddress(toAddress(state), isNew);
}

// What the person chooses while the view of a link is computed stays. A pin belongs to its kind.
function noteChosen({ chosen }, state, before) {
  if (state.record !== before.record) return;
  for (const name of [...Object.keys(CHOICES), 'step']) if (state[name] !== before[name]) chosen.add(name);
  if (chosen.has('kind')) chosen.add('pin');
}

// The choices are applied twice: to the model's own translation, where closing a view leads back to, and to the view.
async function openAddress(client, address, { chosen, isWanted }) {
  const { store } = client;
  const wanted = viewOfAddress(address);
  const choices = () => ({ hover: null, ...fromAddress(withChapter(address), store.get().record) });
  store.change({ ...goHome(store.get()), valueName: CHOICES.valueName, reference: null });
  const mutes = store.get().record.muted?.heads ?? CHOICES.mutes;
  store.change({ ...choices(), mutes, gold: CHOICES.gold }); // the mutes and links of the address belong to the view
  chosen.clear(); // of this change
  if (!client.ask) return; // an exported file has one record
  if (wanted.reference !== null) await scoreTranslation(client, wanted.reference);
  if (isWanted()) await openWanted(client, wanted, isWanted);
  if (!isWanted()) return;
  store.change(Object.fromEntries(Object.entries(choices()).filter(([name]) => !chosen.has(name))));
  if (wanted.comparesReference) compareWithReference(client);
  if (wanted.compared) compareWithHeads(store, wanted);
  if (wanted.marksImportance || wanted.sortsByImportance) await askImportance(client);
  if (!isWanted()) return;
  if (wanted.sortsByImportance && !chosen.has('sort')) store.change({ sort: 'importance' });
  if (wanted.showsMuted) await showMutedOnes(client, isWanted);
}

// A plain link to a chapter of Learn opens the kind of attention, the tab and the question with which the chapter begins.
function withChapter(address) {
  const given = Object.fromEntries(new URLSearchParams(address.slice(1)));
  const { learn } = courseOfAddress(address);
  const { kind, panel, ask } = (learn && CHAPTERS[learn - 1]?.view) || {};
  if (given.kind) return address; // of a view that was shared
  const isUsual = kind === undefined || kind === CHOICES.kind; // then the head is the clearest one
  const begin = { ...(!isUsual && { kind }), ...(panel && { panel }), ...(ask && { ask }) };
  return `#${new URLSearchParams({ ...begin, ...given })}`;
}

async function openWanted(client, { forced, hypothesis, training, showsReference }, isWanted) {
  if (forced) await forceTokens(client, forced);
  else if (hypothesis) await showHypothesis(client, hypothesis);
  else if (showsReference) showReference(client);
  else if (training && (await askTraining(client)) && isWanted())
    await showTrainingStep(client, training.step, training.sentence);
}

function compareWithHeads(store, { compared, comparesOwn }) {
  const state = store.get();
  const [[kind, layer, head]] = compared;
  const heads = compared.length > 1 ? { selection: compared } : { selection: [] };
  const { record } = comparesOwn ? state.home : state;
  const reference = keep({ ...state, kind, layer, head, ...heads, record });
  store.change(compareWith(reference));
}

async function showMutedOnes(client, isWanted) {
  const { store } = client;
  if (store.get().mutes.length === 0) return;
  await askMuted(client);
  const { muted } = store.get();
  if (muted && isWanted()) showMuted(client, muted);
}
