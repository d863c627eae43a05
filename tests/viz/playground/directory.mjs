// Trains as settings.json says and writes the model directory as model.zip, with what the page writes for some words.

import { readFileSync, writeFileSync } from 'node:fs';

import { zip } from '../viewer/engine/tensors/zip.js';
import { directoryOf } from '../viewer/playground/directory.js';
import { createTraining, frameOf, trainOnce, write } from '../viewer/playground/worker.js';

const { settings, steps, texts } = JSON.parse(readFileSync('settings.json', 'utf8'));
const training = await createTraining(settings);
frameOf(training, '');
for (let count = 0; count < steps; count += 1) trainOnce(training);
const { identity, files } = await directoryOf(training);
const inFolder = Object.fromEntries(Object.entries(files).map(([name, bytes]) => [`${identity.name}/${name}`, bytes]));
writeFileSync('model.zip', Buffer.concat(zip(inFolder).map(({ buffer }) => new Uint8Array(buffer))));
const written = texts.flatMap((text) => write(training, [text]).map((found) => found.text));
const weights = Object.fromEntries([...training.trainer.weights].map(([name, { value }]) => [name, [...value]]));
writeFileSync('written.json', JSON.stringify({ name: identity.name, written, weights }));
