// The tokenizers of model/text/tokenizer.py: text to tokens and back, by joint BPE, words or characters.
//
// The library @huggingface/tokenizers is not used: it joins unknown characters across words, splits at special tokens
// that a person types, has no word-level model and no offsets, so it would not agree with Python.

export const UNK = '<unk>';
export const EOS = '</s>';
export const PAD_ID = 0;
export const UNK_ID = 1;
export const BOS_ID = 2;
export const EOS_ID = 3;
export const SPACE = '\u2581';
export const NEVER_PREDICTED = [PAD_ID, UNK_ID, BOS_ID];

// What str.split() of Python takes for space, which differs from \s.
// oxlint-disable-next-line no-control-regex -- U+001C to U+001F are spaces there
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
// A sequence of letters, one digit or one punctuation mark, each with the space before it.
const PRE_TOKEN = /\u2581?(?:\p{L}[\p{L}\p{M}]*|[^\p{L}\u2581])|\u2581/gu;
const SPACES_AROUND = new RegExp(`^${SPACES.source}|${SPACES.source}$`, 'gu');
const MARK = /^[\p{P}\p{S}\p{Z}]$/u;

// The characters of model/text/scripts.py that nobody sees, such as soft hyphens.
export const INVISIBLE =
  /[\u00ad\u200b\u200e\u200f\u2060\ufeff\u202a-\u202e\u2066-\u2069]|(?<=[A-Za-z\u00c0-\u024f\u0370-\u052f])[\u200c\u200d](?=[A-Za-z\u00c0-\u024f\u0370-\u052f])/gu;

// Unicode NFC with single spaces, none at the ends, and nothing invisible. Half a surrogate pair becomes a question mark.
/** @type {(text: string) => string} */
export function normalise(text) {
  const whole = text
    .replaceAll(/\p{Surrogate}/gu, '?')
    .replaceAll(INVISIBLE, '')
    .normalize('NFC');
  return whole.replaceAll(SPACE, ' ').split(SPACES).filter(Boolean).join(' ');
}

// `settings` is the value of a tokenizer.json. The result has `size`, `encode`, `decode`, `tokens` and `sourceTokens`.
/** @type {(settings: any) => Tokenizer} */
export function createTokenizer({ model, pre_tokenizer: { pretokenizers } }) {
  const ids = new Map(Object.entries(model.vocab));
  const entries = [];
  for (const [piece, id] of ids) entries[id] = piece;
  const prepends = pretokenizers[0].prepend_scheme === 'always';
  const isByCharacter = !prepends;
  const ranks = model.type === 'BPE' ? new Map(model.merges.map((pair, rank) => [pair.join(' '), rank])) : null;
  // Segments of a text: the id of each, and the text that it was cut from.
  const segments = (text) => {
    const clean = normalise(text);
    if (clean === '') return [];
    const marked = (prepends ? SPACE : '') + clean.replaceAll(' ', SPACE);
    const words = isByCharacter ? [...marked] : (marked.match(PRE_TOKEN) ?? []);
    const found = words.flatMap((word) => (ranks ? bytePairs(word, ids, ranks) : [segmentOf(word, ids)]));
    if (prepends) found[0].text = found[0].text.slice(SPACE.length); // it is not part of the sentence
    return found;
  };
  return withVocabulary(entries, segments);
}

// A tokenizer from its vocabulary and what cuts a text into segments. `textOf` turns pieces into text, `finish` completes tokens.
/** @type {(entries: string[], segments: (text: string) => Segment[], how?: { textOf?: (pieces: string[]) => string; finish?: (tokens: Token[]) => Token[] }) => Tokenizer} */
export function withVocabulary(
  entries,
  segments,
  { textOf = (pieces) => pieces.join(''), finish = (tokens) => tokens } = {},
) {
  const tokens = (ids, surfaces) => finish(describe(ids, surfaces, entries));
  return {
    size: entries.length,
    piece: (id) => entries[id],
    encode: (text) => segments(text).map(({ id }) => id),
    tokens,
    // Tokens of a source sentence, </s> last; <unk> keeps the text that it replaces.
    sourceTokens(text) {
      const found = segments(text);
      return tokens([...found.map(({ id }) => id), EOS_ID], [...found.map((one) => one.text), EOS]);
    },
    // Text of the ids up to </s>, without special tokens.
    decode(ids) {
      const end = ids.indexOf(EOS_ID);
      const known = (end < 0 ? ids : ids.slice(0, end)).filter((id) => !NEVER_PREDICTED.includes(id));
      const text = textOf(known.map((id) => entries[id]));
      return text.replaceAll(SPACE, ' ').replaceAll(SPACES_AROUND, '');
    },
  };
}

const segmentOf = (text, ids) => ({ id: ids.get(text) ?? UNK_ID, text });

// Joins the neighbours of the lowest rank. Unknown characters in a row are one segment.
function bytePairs(word, ids, ranks) {
  const parts = [];
  for (const character of word) {
    const part = segmentOf(character, ids);
    if (part.id === UNK_ID && parts.at(-1)?.id === UNK_ID) parts.at(-1).text += character;
    else parts.push(part);
  }
  const rankOf = (left, right) => {
    if (left.id === UNK_ID || right.id === UNK_ID) return Infinity;
    return ranks.get(`${left.text} ${right.text}`) ?? Infinity;
  };
  return joinPairs(parts, rankOf, (left, right) => segmentOf(left.text + right.text, ids));
}

// Joins the neighbours of the lowest rank, the leftmost first, until no two have one.
/** @type {<Part>(given: Part[], rankOf: (one: Part, next: Part) => number, join: (one: Part, next: Part) => Part) => Part[]} */
export function joinPairs(given, rankOf, join) {
  const parts = [...given];
  const rankAt = (place) =>
    place < 0 || place + 1 >= parts.length ? Infinity : rankOf(parts[place], parts[place + 1]);
  const found = parts.map((_, place) => rankAt(place));
  while (parts.length > 1) {
    let best = 0;
    for (let place = 1; place < found.length; place += 1) if (found[place] < found[best]) best = place;
    if (found[best] === Infinity) break;
    parts[best] = join(parts[best], parts[best + 1]);
    parts.splice(best + 1, 1);
    found.splice(best + 1, 1);
    found[best] = rankAt(best);
    if (best > 0) found[best - 1] = rankAt(best - 1);
  }
  return parts;
}

// Ids as tokens to show. `surfaces` has the text of each id in the sentence, which is shown for an unknown piece.
function describe(ids, surfaces, entries) {
  const written = ids.map((id, place) => (surfaces && id === UNK_ID ? surfaces[place] : entries[id]));
  const words = wordIndices(ids, written);
  return ids.map((id, place) => ({
    piece: entries[id],
    text: written[place].replaceAll(SPACE, '') || ' ',
    word: words[place],
    special: id <= EOS_ID,
    id,
  }));
}

// The word of each id; a new word begins at each space and each punctuation mark. A space that is a piece of its own
// belongs to the next word.
function wordIndices(ids, pieces) {
  let word = -1;
  let previous = '';
  return pieces.map((piece, place) => {
    if ([PAD_ID, BOS_ID, EOS_ID].includes(ids[place])) {
      previous = '';
      return null;
    }
    const [last, first] = [[...previous].at(-1) ?? '', [...piece][0] ?? ''];
    const meetsMark = previous !== SPACE && (MARK.test(first) || MARK.test(last));
    if (previous === '' || piece.startsWith(SPACE) || meetsMark) word += 1;
    previous = piece;
    return word;
  });
}
