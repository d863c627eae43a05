// Trains as settings.json says, one training after the other, and writes outcomes.json: the loss, the share of unseen
// words right, and the first step of 25 at which 95 % of them were.

import { readFileSync, writeFileSync } from 'node:fs';

import { createTraining, shareRight, trainOnce } from '../viewer/playground/worker.js';

const GOOD = 95; // per cent

const outcomes = [];
for (const { settings, steps } of JSON.parse(readFileSync('settings.json', 'utf8'))) {
  const training = await createTraining(settings);
  const isGood = (row) => row['validation/exact_match'] >= GOOD;
  while (training.steps < steps) trainOnce(training);
  const good = training.log.find(isGood)?.step ?? null;
  outcomes.push({ loss: training.loss, share: shareRight(training), good });
}
writeFileSync('outcomes.json', JSON.stringify(outcomes));
