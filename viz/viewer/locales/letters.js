// What is said otherwise of a model that reads and writes letters: English texts about words, with the same about letters.

export const OF_LETTERS = {
  // in short
  'No word was in doubt: each choice had more than {share}. The least sure:':
    'No letter was in doubt: each choice had more than {share}. The least sure:',
  'Apart from what was forced, no word was in doubt: each choice had more than {share}. The least sure:':
    'Apart from what was forced, no letter was in doubt: each choice had more than {share}. The least sure:',
  '{word} {chance}; the rest is spread over many words': '{word} {chance}; the rest is spread over many letters',
  '{word} depends most on {from}: without it, it is {factor} times less likely, and “{other}” comes first.':
    'The letter {word} depends most on {from}: without that, it is {factor} times less likely, and “{other}” comes first.',
  '{word} depends most on {from}: without it, it is {factor} times less likely, but still comes first.':
    'The letter {word} depends most on {from}: without that, it is {factor} times less likely, but still comes first.',
  'Without {word}, everything in the translation but punctuation keeps at least 90 % of its probability.':
    'Without {word}, every letter that it writes keeps at least 90 % of its probability.',
  'Without any one of these, everything in the translation but punctuation keeps at least 90 % of its probability: {words}':
    'Without any one of these, every letter that it writes keeps at least 90 % of its probability: {words}',
  '{source} changed places: from place {from} in the sentence to place {to} in the translation, as {word}.':
    '{source} changed places: it is read at place {from} and written at place {to}.',
  'At least {count} changed places. Of these, {source} moved most: from place {from} in the sentence to place {to} in the translation, as {word}.':
    '{source} moved most of at least {count} letters: it is read at place {from} and written at place {to}.',
  'Nothing changed places: the words come in the order of the words that they depend on most.':
    'Nothing changed places: the letters come in the order of the letters that they depend on most.',
  'It needed no single one of its {count} heads (the small squares): without any one of them, the translation keeps at least {share} of its probability.':
    'It needed no single one of its {count} heads (the small squares): without any one of them, what it writes keeps at least {share} of its probability.',
  '{head} silent: {factor} times less likely, but the same words.':
    '{head} silent: {factor} times less likely, but the same letters.',
  '{head} silent: {factor} times less likely, and the translation is “{text}”':
    '{head} silent: {factor} times less likely, and it writes “{text}”',
  'Show what each word loses without it': 'Show what each letter loses without it',
  'Show the next words at this step': 'Show the next letters at this step',
  'Show the words after each layer': 'Show the letters after each layer',
  'Force this word and translate on': 'Force this letter and go on from there',

  // the strip
  'More words': 'More letters',
  'Retype without it': 'Retype without this letter',
  'Here the word is hidden at its place. A sentence that never had it can be translated otherwise.':
    'Here the letter is hidden at its place. A word that never had it can be written otherwise.',
  'Without “{word}” the translation is the same.': 'Without “{word}” it writes the same.',
  'Without “{word}” the translation is “{text}”': 'Without “{word}” it writes “{text}”',
  'Translating without this word': 'Writing without this letter',
  'Translating from the forced word': 'Writing on from the forced letter',

  // the matrix
  'Remove a word': 'Remove a letter',
  'how much log p each word of the translation loses when one source word is hidden from every layer: what it needs, not what one head reads; of these values the one to trust most, by the study':
    'how much log p each letter that is written loses when one letter of the word is hidden from every layer: what it needs, not what one head reads; of these values the one to trust most, by the study',
  'Hiding each source word in turn': 'Hiding each source letter in turn',
  'Loss without each source word': 'Loss without each source letter',
  'Each word is joined with the word without which it loses most.':
    'Each letter is joined with the letter without which it loses most.',
  'Each word is joined with what is read to write it.': 'Each letter is joined with what is read to write it.',
  'This head looks up the word just written.': 'This head looks up the letter just written.',
  'Words that differ have a dotted frame. The tab Head ranks the heads by how much they differ.':
    'Letters that differ have a dotted frame. The tab Head ranks the heads by how much they differ.',

  // heads
  'aligned to the word it writes': 'aligned to the letter it writes',
  'aligned to the word just written': 'aligned to the letter just written',
  'The share of its weight on words, and how many times the share of even rows that is.':
    'The share of its weight on letters, and how many times the share of even rows that is.',
  'The rows of a word, and the mean of the largest weight that they give to a word.':
    'The rows of a letter, and the mean of the largest weight that they give to a letter.',
  'Not the best cases alone: the activity of a row is the largest weight that it gives to a word. Its range is cut into five equal intervals; of the highest one these are the strongest rows, of each other one rows drawn at random with a fixed seed, the weakest included. Each opens its sentence.':
    'Not the best cases alone: the activity of a row is the largest weight that it gives to a letter. Its range is cut into five equal intervals; of the highest one these are the strongest rows, of each other one rows drawn at random with a fixed seed, the weakest included. Each opens its word.',
  "For each source token the largest weight that any row gives it; summed, and divided by the largest possible sum. Heads that align words score high. After “at”: 0 if the rows align the words that they predict, −1 if they align the words that they read. This is Headlight's own measure.":
    "For each source token the largest weight that any row gives it; summed, and divided by the largest possible sum. Heads that align letters score high. After “at”: 0 if the rows align the letters that they predict, −1 if they align the letters that they read. This is Headlight's own measure.",
  'At the last step no head of cross-attention aligns the words of this sentence.':
    'At the last step no head of cross-attention aligns the letters of this word.',
  'Some head of cross-attention aligns the words of this sentence at every saved step.':
    'Some head of cross-attention aligns the letters of this word at every saved step.',
  'The model aligns the words of this sentence from step {step} on: some head of cross-attention does.':
    'The model aligns the letters of this word from step {step} on: some head of cross-attention does.',

  // the next token, and the instruments
  'Next word after “{word}”': 'Next letter after “{word}”',
  'Click a word to force it. The model then continues from there.':
    'Click a letter to force it. The model then continues from there.',
  'Tap a word to force it. The model then continues from there.':
    'Tap a letter to force it. The model then continues from there.',
  'All tokens are given, so the words stay and only their probabilities change.':
    'All tokens are given, so the letters stay and only their probabilities change.',
  'Why this word?': 'Why this letter?',
  'Adding up what wrote this word': 'Adding up what wrote this letter',
  'In this sentence, in logits. A single logit has a part that all words share; choose another word to leave it out.':
    'In this word, in logits. A single logit has a part that all letters share; choose another letter to leave it out.',
  'In this sentence: the word is {factor} times as likely as the other.':
    'In this word: the letter is {factor} times as likely as the other.',
  'Which way did this word come?': 'Which way did this letter come?',
  'Following this word through the network': 'Following this letter through the network',
  'The wider a line, the more of the word it carries (ALTI+, Ferrando et al. 2022).':
    'The wider a line, the more of the letter it carries (ALTI+, Ferrando et al. 2022).',
  '{kind}, {head}: “{row}” reads “{column}”, {share} of the word':
    '{kind}, {head}: “{row}” reads “{column}”, {share} of the letter',
  '{kind}, layer {layer}: “{row}” keeps its content, {share} of the word. The parts add up to that:':
    '{kind}, layer {layer}: “{row}” keeps its content, {share} of the letter. The parts add up to that:',
  '{kind}, layer {layer}: “{row}” reads “{column}”, {share} of the word. The heads add up to that:':
    '{kind}, layer {layer}: “{row}” reads “{column}”, {share} of the letter. The heads add up to that:',
  'In this sentence: the likeliest word if the model stopped after that layer, and its probability.':
    'In this word: the likeliest letter if the model stopped after that layer, and its probability.',
  'In this sentence: the likeliest word after what all later layers do to such a state on average (their mean Jacobian), and its probability.':
    'In this word: the likeliest letter after what all later layers do to such a state on average (their mean Jacobian), and its probability.',
  'Over {count} sentences the likeliest word is the word of the translation, by layer: Jacobian lens {jacobian}; logit lens {direct}.':
    'Over {count} inputs the likeliest letter is the one that is written, by layer: Jacobian lens {jacobian}; logit lens {direct}.',
  'The mean Jacobian is of {fitted} of them. The last layer is not always right, because the search may take another word than the likeliest.':
    'The mean Jacobian is of {fitted} of them. The last layer is not always right, because the search may take another letter than the likeliest.',
  'The likeliest words of each step': 'The likeliest letters of each step',
  'Outlined: the word of the translation, once it stays the likeliest up to the last layer.':
    'Outlined: the letter that is written, once it stays the likeliest up to the last layer.',
  'Step {step}: after the last layer another word leads, and “{word}” was taken.':
    'Step {step}: after the last layer another letter leads, and “{word}” was taken.',
  'Words pushed up': 'Letters pushed up',
  'Words pushed down': 'Letters pushed down',
  'In this sentence: the change of each word’s logit, against the mean of all words, if the whole row went to this token.':
    'In this word: the change of each letter’s logit, against the mean of all letters, if the whole row went to this token.',
  'In this sentence: a head of the encoder does not write words. These are the words of the source language whose embeddings are nearest: a hint at best.':
    'In this word: a head of the encoder does not write letters. These are the letters whose embeddings are nearest: a hint at best.',
  'The word hardly depends on these cells: its probability stays between {low} and {high}.':
    'The letter hardly depends on these cells: its probability stays between {low} and {high}.',
  "The weights say little here: without the cells of the largest weights the word's average probability is {weight}; without as many random cells it is {random}.":
    "The weights say little here: without the cells of the largest weights the letter's average probability is {weight}; without as many random cells it is {random}.",
  "The weights tell the truth here: without the cells of the largest weights the word's average probability is {weight}; without as many random cells it is {random}.":
    "The weights tell the truth here: without the cells of the largest weights the letter's average probability is {weight}; without as many random cells it is {random}.",
};
