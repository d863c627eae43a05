// Trains as settings.json says, one training after the other, and writes outcomes.json: the loss, the share of unseen
// words right, and the first step of 25 at which 95 % of them were; there the training ends.

import { readFileSync, writeFileSync } from 'node:fs';

import { createTraining, rightByLength, shareRight, trainOnce } from '../viewer/playground/worker.js';

const GOOD = 95; // per cent

const outcomes = [];
for (const { settings, steps } of JSON.parse(readFileSync('settings.json', 'utf8'))) {
  const training = await createTraining(settings);
  const isGood = () => (training.log.at(-1)?.['validation/exact_match'] ?? 0) >= GOOD;
  while (training.trainer.steps < steps && !isGood()) trainOnce(training);
  const lengths = Object.fromEntries(rightByLength(training).map(([letters, share]) => [letters, share]));
  outcomes.push({
    loss: training.loss,
    share: shareRight(training),
    lengths,
    good: isGood() ? training.trainer.steps : null,
  });
}
writeFileSync('outcomes.json', JSON.stringify(outcomes));
