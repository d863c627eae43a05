import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  codesOf,
  prefixOfWritten,
  prefixOfCodes,
  writtenPrefix,
  splitPrefix,
} from '../viewer/domain/language_prefix.js';
import { asksFor, prefixOfAddress } from '../viewer/state/permalink.js';
import { speak } from '../viewer/locales/language.js';
import { nameLanguages } from '../viewer/prefix/lists.js';
import { search } from '../viewer/prefix/search_list.js';

const MANY = { codes: ['>>deu<<', '>>fra<<'], source: '>>deu<<' };
const ONE = { codes: ['>>deu<<', '>>fra<<'], source: '' };
const PROMPTS = { prompts: ['translate: ', 'translate: slowly: '] };

test('a text is split into what the model knows and the sentence', () => {
  const split = (text, known) => Object.values(splitPrefix(text, known));
  assert.deepEqual(split('  >>fra<<Hund', ONE), ['>>fra<< ', 'Hund']);
  assert.deepEqual(split('>>deu<< >>fra<< Hund', MANY), ['>>deu<< >>fra<< ', 'Hund']);
  assert.deepEqual(split('>>deu<< >>fra<< Hund', ONE), ['>>deu<< ', '>>fra<< Hund']);
  assert.deepEqual(split('>>xyz<< Hund', MANY), ['', '>>xyz<< Hund']);
  assert.deepEqual(split('translate: slowly: Hund', PROMPTS), ['translate: slowly: ', 'Hund']);
  assert.deepEqual(split('Hund', {}), ['', 'Hund']);
});

test('an address names codes or a prompt', () => {
  for (const prefix of ['>>fra_Latn<< ', '>>deu_Latn<< >>fra_Latn<< ', 'translate English to German: '])
    assert.equal(prefixOfWritten(writtenPrefix(prefix)), prefix);
  assert.equal(writtenPrefix('>>deu<< >>fra<< '), 'deu,fra');
  assert.deepEqual(codesOf(prefixOfCodes(['>>deu<<', '>>fra<<'])), ['>>deu<<', '>>fra<<']);
  assert.equal(prefixOfAddress('#text=Hund&to=fra'), '>>fra<< '); // a link of release 0.2
  assert.equal(prefixOfAddress('#text=Hund'), null);
  const record = { model: { name: 'm' }, source_text: 'Hund', language_prefix: '>>fra<< ' };
  assert.ok(asksFor('#model=m&text=Hund&to=fra', record));
  assert.ok(!asksFor('#model=m&text=Hund&to=deu,fra', record));
});

test('languages have their names in the language of the page', () => {
  const codes = [
    ['>>zho_Hant<<', 'Chinese'],
    ['>>fra_Latn<<', 'French'],
    ['>>zho_Hans<<', 'Chinese'],
    ['>>de_XX<<', 'German'],
    ['>>NORTH_EU<<', 'North European languages'],
    ['>>qqq<<', 'qqq'],
  ];
  const english = nameLanguages(codes);
  assert.equal(english.find(({ value }) => value === '>>fra_Latn<<').name, 'French');
  assert.equal(english.find(({ value }) => value === '>>de_XX<<').name, 'German');
  assert.equal(english.find(({ value }) => value === '>>NORTH_EU<<').name, 'North European languages');
  assert.equal(english.find(({ value }) => value === '>>qqq<<').detail, '');
  assert.equal(new Set(english.map(({ name }) => name)).size, codes.length);
  speak('de', {});
  const german = nameLanguages(codes);
  speak('en', {});
  assert.equal(german.find(({ value }) => value === '>>fra_Latn<<').name, 'Französisch');
  assert.deepEqual(
    search(german, 'FRANZO').map(({ value }) => value),
    ['>>fra_Latn<<'],
  );
  for (const typed of ['french', 'fra_L']) assert.equal(search(german, typed)[0].value, '>>fra_Latn<<');
  assert.equal(search(german, '').length, codes.length);
  assert.equal(search(german, 'xyz').length, 0);
});
