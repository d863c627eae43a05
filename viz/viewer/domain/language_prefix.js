// What stands before a sentence for the model to read: codes of languages, as ">>deu<< >>fra<< " or ">>fra<< ", or a prompt,
// as "translate English to German: ". It ends with the space after it.

const CODE = />>[^<>\s]+<</g;
const LEADING_CODE = /^\s*(>>[^<>\s]+<<)\s*/;

// The codes in a prefix: the target language last, the source language before it if the prefix has one.
/** @type {(prefix: string) => string[]} */
export const codesOf = (prefix) => prefix.match(CODE) ?? [];

/** @type {(codes: string[]) => string} */
export const prefixOfCodes = (codes) => codes.map((code) => `${code} `).join('');

// A text as { prefix, sentence }, as model/inputs.py splits it. `known` are the choices of a model: its `codes`, its `prompts`, and
// whether a sentence may have two codes (`source`).
/** @type {(text: string, known: { codes?: string[]; prompts?: string[]; source?: string }) => { prefix: string; sentence: string }} */
export function splitPrefix(text, { codes = [], prompts = [], source = '' }) {
  const [prompt] = prompts.filter((each) => text.startsWith(each)).sort((one, other) => other.length - one.length);
  if (prompt !== undefined) return { prefix: prompt, sentence: text.slice(prompt.length).trim() };
  const found = [];
  let sentence = text;
  while (found.length < (source === '' ? 1 : 2)) {
    const [all = '', code = ''] = LEADING_CODE.exec(sentence) ?? [];
    if (!codes.includes(code)) break;
    found.push(code);
    sentence = sentence.slice(all.length);
  }
  return { prefix: prefixOfCodes(found), sentence };
}

// A prefix if a model can read it; else the same target language, or else what a new page begins with. `choices` are the
// choices of the model, as viz/about.py: prefix_choices gives them.
/** @type {(choices: { codes?: string[][]; prompts?: string[]; source?: string; usual?: string }, wanted: string | null) => string} */
export function fittingPrefix({ codes = [], prompts = [], source = '', usual = '' }, wanted) {
  const known = { codes: codes.map(([code]) => code), prompts, source };
  if (wanted === null) return usual;
  if (splitPrefix(wanted, known).prefix === wanted && (wanted !== '' || codes.length === 0)) return wanted;
  const target = codesOf(wanted).at(-1);
  return target !== undefined && known.codes.includes(target) ? prefixOfCodes([target]) : usual;
}

// A prefix as an address writes it: deu,fra in place of codes.
/** @type {(prefix: string) => string} */
export function writtenPrefix(prefix) {
  const codes = codesOf(prefix);
  return codes.length > 0 ? codes.map((code) => code.slice(2, -2)).join() : prefix;
}

// The prefix that an address names. A prompt has a space, which no code has.
/** @type {(written: string) => string} */
export const prefixOfWritten = (written) =>
  /^[^<>\s]+$/.test(written) ? prefixOfCodes(written.split(',').map((code) => `>>${code}<<`)) : written;
