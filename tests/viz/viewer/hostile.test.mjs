import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { decode } from '../viewer/domain/payload.js';
import {
  chapterAddress,
  fromAddress,
  prefixOfAddress,
  taskOfAddress,
  toAddress,
  viewOfAddress,
} from '../viewer/state/permalink.js';
import { LIMITS } from '../viewer/domain/limits.js';
import { nameInvisible, readable, visible } from '../viewer/drawing/dom.js';
import { takeAddress } from '../viewer/page.js';
import { CHOICES } from '../viewer/state/store.js';
import { opened, record } from './record.mjs';

const HOSTILE = JSON.parse(readFileSync(new URL('../hostile.json', import.meta.url), 'utf-8'));
const WORDS =
  'model text beam alpha kind layer head heads mute mode value reduce scale sort panel specials words threshold';
const NAMES = [...WORDS.split(' '), 'row', 'column', 'pin', '__proto__', 'constructor', 'toString', ''];
const NOTHING_ASKED = { model: null, text: null, beam: null, alpha: null };
const FRAGMENTS = [
  ...NAMES.flatMap((name) => [`#${name}`, `#${name}=`, `#${name}[]=1&${name}[x]=2`, `#${name}=1&${name}=2`]),
  '#%',
  '#%zz=%u0041&%ff=%c0%ae',
  '##kind=cross',
  '#?kind=cross',
  '#kind=cross&layer=9007199254740993&head=1e309&row=-0&column=0x10&threshold=Infinity',
  '#__proto__[hlCanary]=1&constructor[prototype][hlCanary]=1',
  `#${'&'.repeat(50_000)}`,
  `#kind=cross&heads=${'1.1,'.repeat(15_000)}`,
  `#kind=cross&mute=${'cross.1.1,'.repeat(6_000)}`,
];

const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

// Without the emoji that are drawn as one, however many characters they have.
function withoutEmoji(text) {
  return text.replace(/\p{RGI_Emoji}/gv, '');
}

function opens(address) {
  const task = taskOfAddress(address);
  assert.deepEqual(Object.keys(task), Object.keys(NOTHING_ASKED));
  assert.ok((task.model ?? '').length <= 255 && (task.text ?? '').length <= 2000, address.slice(0, 80));
  for (const name of ['beam', 'alpha']) assert.ok(task[name] === null || Number.isFinite(task[name]));
  const { forced, reference, training } = viewOfAddress(address);
  assert.ok((forced ?? []).every(Number.isInteger) && (reference ?? '').length <= 2000);
  assert.ok(training === null || Number.isInteger(training.step + training.sentence));
  assert.ok((chapterAddress(address) ?? '').length < 4000 && (prefixOfAddress(address) ?? '').length < 300);
  const store = opened();
  store.change(fromAddress(address, record));
  const { layer, head, selection, mutes, pin } = store.get();
  const { layers, heads } = record.attention.cross;
  assert.ok(layer >= 0 && layer < layers && (head === null || (head >= 0 && head < heads)), address.slice(0, 80));
  assert.ok(selection.length <= layers * heads && mutes.length <= 3 * layers * heads);
  assert.ok(pin === null || Number.isInteger(pin.row ?? pin.column));
  assert.ok(toAddress(store.get()).length < 4000);
  assert.equal({}.hlCanary, undefined);
}

test('the viewer opens with the valid parameters of any address', () => {
  FRAGMENTS.forEach(opens);
  for (const name of NAMES)
    for (const text of HOSTILE) opens(`#kind=cross&${name}=${encodeURIComponent(text.toWellFormed())}`);
});

// Whole numbers below `limit`, the same in each run (the generator of Park and Miller).
function generator(seed) {
  let state = seed;
  return (limit) => {
    state = (state * 48271) % 2147483647;
    return state % limit;
  };
}

test('an address in which anything was changed opens', () => {
  const every = NAMES.map((name) => `${name}=cross.1.2,0&${name}=Ein+Hund%20%C3%A4`).join('&');
  const parts = [
    '%',
    '%C3',
    '%ff',
    '&',
    '=',
    '#',
    ',',
    '.',
    '-',
    '1e999',
    '9'.repeat(400),
    '\ud800',
    '\0',
    '__proto__',
  ];
  const next = generator(36);
  for (let count = 0; count < 1000; count += 1) {
    let address = `${toAddress(opened().get())}&${every}`;
    for (let changes = 1 + next(6); changes > 0; changes -= 1) {
      const start = next(address.length);
      const part = next(2) ? parts[next(parts.length)] : String.fromCharCode(next(0x10000));
      address = address.slice(0, start) + part + address.slice(start + next(20));
    }
    opens(address);
  }
});

// A value in which one number, text or list became another one, or went.
function changed(value, next) {
  const others = [null, -1, 1.5, 1e308, '', '%', '9'.repeat(400), [], {}, [[]]];
  const places = value !== null && typeof value === 'object' ? Object.keys(value) : [];
  if (places.length === 0 || next(4) === 0) {
    if (typeof value !== 'string' || next(2)) return others[next(others.length)];
    const start = next(value.length + 1);
    return value.slice(0, start) + String.fromCharCode(next(0x80)) + value.slice(start + next(3));
  }
  const place = places[next(places.length)];
  const copy = Array.isArray(value) ? [...value] : { ...value };
  copy[place] = changed(copy[place], next);
  return copy;
}

test('a payload in which anything was changed is read or refused', async () => {
  const weights = { shape: [1, 1, 2, 2], data: 'eJz7/5+BgaHhfz0AEvYD/Q==' };
  const payload = { version: 3, tokens: {}, attention: { encoder: weights, decoder: weights, cross: weights } };
  const next = generator(37);
  let refused = 0;
  for (let count = 0; count < 1000; count += 1) {
    const other = { ...changed(payload, next), version: 3 };
    await decode(other).then(
      ({ attention }) => assert.deepEqual(Object.keys(attention), ['encoder', 'decoder', 'cross']),
      (error) => {
        assert.ok(error instanceof Error);
        refused += 1;
      },
    );
  }
  assert.ok(refused > 0 && refused < 1000);
});

test('a text that is not an address changes nothing', () => {
  for (const text of HOSTILE) opens(`#${text}`);
});

test('an address that is too long is ignored', () => {
  const words = 'kind=encoder&layer=2&model=de-en&text=Hallo';
  assert.equal(fromAddress(`#${words}`, record).layer, 1);
  const long = `#${words}&x=${'a'.repeat(100_000)}`;
  assert.deepEqual(fromAddress(long, record), {});
  assert.deepEqual(taskOfAddress(long), NOTHING_ASKED);
});

test('the longest text and every head fit into a link', () => {
  const store = opened();
  store.change({ record: { ...record, source_text: '犬'.repeat(2000) } });
  const every = Array.from({ length: LIMITS.heads }, () => 'decoder.12.16').join(',');
  const address = `${toAddress(store.get())}&heads=${every}&mute=${every}`;
  assert.equal(taskOfAddress(address).text, '犬'.repeat(2000));
  assert.notDeepEqual(fromAddress(address, record), {});
});

test('the name of a model is only looked up', () => {
  globalThis.history = { state: null, replaceState: () => {} };
  const examples = JSON.parse('{"de-en": ["Hallo"], "<b>\\"": ["Hund"]}');
  const languages = JSON.parse('{"de-en": "de", "<b>\\"": "de"}');
  const site = { examples, first: 'de-en', readers: {}, buttons: 0, languages };
  for (const name of HOSTILE) {
    globalThis.location = { hash: `#model=${encodeURIComponent(name.toWellFormed())}&beam=16&alpha=4` };
    assert.deepEqual(takeAddress(site).slice(0, 2), ['Hallo', 'de-en'], name);
  }
  globalThis.location = { hash: `#model=${encodeURIComponent('<b>"')}&beam=16&alpha=4` };
  assert.deepEqual(takeAddress(site), ['Hund', '<b>"', LIMITS.beam, LIMITS.penalty]);
  globalThis.location = { hash: `#model=${encodeURIComponent('<b>"')}` };
  assert.deepEqual(takeAddress(site), ['Hund', '<b>"', 1, 1]);
});

test('a token is short, visible and on its own line', () => {
  for (const text of HOSTILE) {
    const written = visible({ text });
    assert.ok(written.trim() !== '' && written.length < 1000);
    assert.doesNotMatch(written, /^\p{M}/u);
    assert.doesNotMatch(withoutEmoji(written), UNSEEN);
  }
  const cases = { '\0': '␀', '\x7f': '␡', '\u200b': '⟨U+200B⟩', '\ufeff': '⟨U+FEFF⟩', ' ': '␣', '\u0301': '◌\u0301' };
  for (const [text, written] of Object.entries(cases)) assert.equal(visible({ text }), written);
  for (const text of ['läuft', 'e\u0301', 'שלום', '日本', '<s>', '👩‍👩‍👧', '❤️‍🔥']) assert.equal(visible({ text }), text);
  assert.equal(visible({ text: 'x'.repeat(81) }), `${'x'.repeat(80)}…`);
});

test('a notice names its invisible characters', () => {
  assert.equal(nameInvisible('The model does not know “\u200b”.'), 'The model does not know “⟨U+200B⟩”.');
  for (const text of HOSTILE) assert.doesNotMatch(withoutEmoji(nameInvisible(text)), UNSEEN);
});

test('a sentence loses only the characters that change its line', () => {
  // What XML 1.0 allows, so that a picture with it can be read again.
  for (const text of HOSTILE)
    assert.match(readable(text), /^[\u{20}-\u{7e}\u{a0}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]*$/u);
  assert.equal(readable('👩‍👧 می‌خواهم'), '👩‍👧 می‌خواهم');
  assert.equal(readable('a\u202eb\nc'), 'a⟨U+202E⟩b␊c');
});

test('an address without choices has those of a new page', () => {
  const chosen = { ...CHOICES, kind: 'cross', layer: 0, head: 0, pin: null };
  assert.deepEqual(fromAddress('#kind=cross', record), { ...chosen, step: 0 });
});
