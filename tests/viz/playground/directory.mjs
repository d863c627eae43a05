// Trains as settings.json says and writes the model directory as model.zip, with what the page writes for some words.

import { readFileSync, writeFileSync } from 'node:fs';

import { directoryOf, zip } from '../viewer/playground/directory.js';
import { createTraining, frameOf, trainOnce, write } from '../viewer/playground/worker.js';

const { settings, steps, texts } = JSON.parse(readFileSync('settings.json', 'utf8'));
const training = await createTraining(settings);
frameOf(training, '');
for (let count = 0; count < steps; count += 1) trainOnce(training);
const { identity, files } = await directoryOf(training);
writeFileSync('model.zip', Buffer.concat(zip(identity.name, files).map(({ buffer }) => new Uint8Array(buffer))));
const written = texts.flatMap((text) => write(training, [text]).map((found) => found.text));
const weights = Object.fromEntries([...training.trainer.weights].map(([name, { value }]) => [name, [...value]]));
writeFileSync('written.json', JSON.stringify({ name: identity.name, written, weights }));
