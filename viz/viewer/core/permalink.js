// The state in the address, so that a link opens the same view. Heads, layers, rows and columns count from 1
// there, as on the screen: #model=de-en&text=Guten+Tag&kind=cross&layer=4&head=7&row=3&column=2
// An address is typed by anybody: each word is checked on its own, and what does not pass is as if left out.

import { KINDS } from './payload.js';
import { CHOICES, MODES, PANELS, REDUCTIONS, SCALES, SORTS } from './store.js';

const LONGEST_ADDRESS = 64_000; // what the longest text and every head take, in percent signs
const LONGEST_NAME = 255; // of a model's directory
const LONGEST_TEXT = 2000;
const MOST_HEADS = 576; // three kinds of 12 layers of 16 heads
const RANGES = { beam: [1, 16], alpha: [0, 4] };
const WORDS = { mode: MODES, reduce: REDUCTIONS, scale: SCALES, sort: SORTS, panel: PANELS };

// Only what differs from how a fresh page opens is written.
export function toAddress(state) {
  const words = { ...taskWords(state.record), kind: state.kind, layer: state.layer + 1 };
  words.head = state.head === null ? 'all' : state.head + 1;
  if (state.selection.length > 0)
    words.heads = state.selection.map(([, layer, head]) => `${layer + 1}.${head + 1}`).join(',');
  if (state.mutes.length > 0)
    words.mute = state.mutes.map(([kind, layer, head]) => `${kind}.${layer + 1}.${head + 1}`).join(',');
  for (const name of Object.keys(WORDS)) if (state[name] !== CHOICES[name]) words[name] = state[name];
  if (words.mode === 'difference') delete words.mode; // what it is taken to is in no address
  if (state.hideSpecials) words.specials = 'hidden';
  if (state.words) words.words = 'merged';
  if (state.threshold !== CHOICES.threshold) words.threshold = state.threshold;
  return `#${new URLSearchParams({ ...words, ...pinWords(state.pin) })}`;
}

function taskWords(record) {
  if (!record) return {};
  const words = { model: record.model.name };
  if (record.source_text.length <= LONGEST_TEXT) words.text = record.source_text;
  const { beam_size: beam, length_penalty: alpha } = record.options ?? {};
  if (beam > 1) words.beam = beam;
  if (alpha !== undefined && alpha !== 1) words.alpha = alpha;
  return words;
}

function pinWords(pin) {
  const words = {};
  if (pin && pin.row !== null) words.row = pin.row + 1;
  if (pin && pin.column !== null) words.column = pin.column + 1;
  if (pin?.token) words.pin = 'token';
  return words;
}

// The choices that an address makes, for `store.change`; {} when it makes none.
export function fromAddress(address) {
  const words = parse(address);
  if (!KINDS.includes(words.get('kind'))) return {};
  const kind = words.get('kind');
  const head = words.get('head') === 'all' ? null : (index(words, 'head') ?? 0);
  const choices = {
    ...CHOICES,
    kind,
    layer: index(words, 'layer') ?? 0,
    head,
    selection: headsOf((words.get('heads') ?? '').split(','), (text) => `${kind}.${text}`),
    mutes: headsOf((words.get('mute') ?? '').split(',')),
    pin: pinOf(words),
    hideSpecials: words.get('specials') === 'hidden',
    words: words.get('words') === 'merged',
    threshold: number(words, 'threshold', [0, 1]) ?? CHOICES.threshold,
  };
  for (const [name, known] of Object.entries(WORDS))
    if (known.includes(words.get(name))) choices[name] = words.get(name);
  return choices;
}

// What an address asks to have translated: { model, text, beam, alpha }, null for each that it does not say.
export function taskOfAddress(address) {
  const words = parse(address);
  const text = words.get('text');
  const model = words.get('model');
  return {
    model: model !== null && model.length <= LONGEST_NAME ? model : null,
    text: text !== null && text.length <= LONGEST_TEXT ? text : null,
    beam: Number.isInteger(number(words, 'beam', RANGES.beam)) ? number(words, 'beam', RANGES.beam) : null,
    alpha: number(words, 'alpha', RANGES.alpha),
  };
}

function parse(address) {
  return new URLSearchParams(address.length <= LONGEST_ADDRESS ? address.replace(/^#/, '') : '');
}

function index(words, name) {
  return /^[1-9]\d{0,3}$/.test(words.get(name) ?? '') ? Number(words.get(name)) - 1 : null;
}

function number(words, name, [least, most]) {
  const text = words.get(name) ?? '';
  if (!/^\d{1,4}(\.\d{1,4})?$/.test(text)) return null;
  return Number(text) >= least && Number(text) <= most ? Number(text) : null;
}

function pinOf(words) {
  const pin = { row: index(words, 'row'), column: index(words, 'column') };
  if (pin.row === null && pin.column === null) return null;
  return words.get('pin') === 'token' ? { ...pin, token: true } : pin;
}

function headsOf(texts, complete = (text) => text) {
  const pattern = new RegExp(`^(${KINDS.join('|')})\\.([1-9]\\d{0,2})\\.([1-9]\\d{0,2})$`);
  const found = texts.slice(0, MOST_HEADS).map((text) => pattern.exec(complete(text)));
  const heads = found.filter(Boolean).map(([, kind, layer, head]) => [kind, layer - 1, head - 1]);
  return heads.length > 0 ? heads : CHOICES.mutes;
}
