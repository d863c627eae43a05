// The tokenizers of a model's files: one for each language, the same when the vocabulary is joint.

import { createSentencePiece } from './sentencepiece.js';
import { createTokenizer } from './tokenizer.js';

/** @type {(files: any) => Promise<Tokenizers>} */
export async function createTokenizers(files) {
  const open = async (name) => {
    const settings = JSON.parse(await files.text(name));
    return settings.type === 'sentencepiece' ? createSentencePiece(settings) : createTokenizer(settings);
  };
  if (!files.has('tokenizer.json'))
    return { source: await open('source_tokenizer.json'), target: await open('target_tokenizer.json') };
  const joint = await open('tokenizer.json');
  return { source: joint, target: joint };
}
