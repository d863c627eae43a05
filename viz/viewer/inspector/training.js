// The training: curves of the model's own run, and its attention at saved steps, so that a head is seen forming.

import { element, readable } from '../core/dom.js';
import { differs } from '../core/store.js';
import { readRecord, request, whyNot } from '../core/requests.js';
import { visit } from '../core/visit.js';
import { fixed, note, pressable } from '../core/widgets.js';
import { drawChart } from './line_chart.js';

const PAUSE = 700; // milliseconds that each step stays while playing
const LOSSES = [
  ['training', 'train/loss'],
  ['validation', 'validation/loss'],
];
const SCORES = [
  ['BLEU', 'validation/bleu'],
  ['exact match', 'validation/exact_match'],
];
const fetched = new WeakMap(); // of each answer of "training", the records of its steps

export function createTraining(store, ask) {
  const node = element('div');
  const charts = element('section', { class: 'hl-part' });
  const controls = createControls(store, ask);
  return {
    node,
    draw(state, before) {
      if (!state.record || !differs(state, before, ['record', 'training', 'visit', 'busy'])) return;
      if (!state.training?.steps.length) {
        const another = !state.training && before.record?.model.name !== state.record.model.name;
        if (another && !whyNot(state, ask, 'training')) askTraining(store, ask);
        else drawNothing(store, ask, node, state);
        return;
      }
      if (controls.node.parentNode !== node) node.replaceChildren(controls.node, charts);
      controls.draw(state, before);
      if (state.training !== before.training || stepShown(state) !== stepShown(before)) drawCharts(charts, state);
    },
  };
}

function drawNothing(store, ask, node, state) {
  const reason = whyNot(state, ask, 'training');
  if (reason) node.replaceChildren(note(reason));
  else if (state.training) node.replaceChildren(note(state.training.notice));
  else if (state.busy) node.replaceChildren();
  else
    node.replaceChildren(
      note('The record of this training has not been read.'),
      pressable('Read it', () => askTraining(store, ask)),
    );
}

async function askTraining(store, ask) {
  const training = await request(store, ask, 'training', { do: 'training' });
  if (training) store.change({ training });
}

// Where the slider stands: the step on screen, else the last, which is the finished model.
function stepShown({ visit: visited, training }) {
  if (visited?.what === 'training') return visited.step;
  return training ? training.steps[training.steps.length - 1] : null;
}

function sentenceShown({ visit: visited }) {
  return visited?.what === 'training' ? visited.sentence : 0;
}

function createControls(store, ask) {
  const label = element('p', { class: 'hl-role' });
  const choice = element('select', { class: 'hl-box', 'aria-label': 'Sentence' });
  const slider = element('input', {
    type: 'range',
    min: 0,
    class: 'hl-slider',
    'aria-label': 'Saved step of the training',
  });
  const player = createPlayer(store, ask);
  choice.addEventListener('change', () => showStep(store, ask, stepShown(store.get()), Number(choice.value)));
  slider.addEventListener('input', () => {
    const state = store.get();
    player.stop();
    showStep(store, ask, state.training.steps[slider.value], sentenceShown(state));
  });
  const hint = note('Move the slider: the heads and the matrix show this sentence as the model read it at that step.');
  const node = element(
    'section',
    { class: 'hl-part' },
    label,
    choice,
    slider,
    element('div', { class: 'hl-actions' }, player.node),
    hint,
  );
  return {
    node,
    draw(state, before) {
      if (state.training === before.training && state.visit === before.visit) return; // a hand may be on the slider
      const { steps, sentences } = state.training;
      const shown = stepShown(state);
      if (state.training !== before.training)
        choice.replaceChildren(
          ...sentences.map(({ source }, index) => element('option', { value: index }, readable(source))),
        );
      choice.value = sentenceShown(state);
      slider.max = steps.length - 1;
      slider.value = steps.indexOf(shown);
      slider.setAttribute('aria-valuetext', `step ${shown}`);
      label.textContent = `Step ${shown} of ${steps[steps.length - 1]}`;
    },
  };
}

// Shows the record of one saved step; returns whether it is on screen.
async function showStep(store, ask, step, sentence) {
  const { training } = store.get();
  const record = await recordOf(store, ask, training, step, sentence);
  if (record) visit(store, record, { what: 'training', label: `training, step ${step}`, step, sentence });
  return Boolean(record);
}

async function recordOf(store, ask, training, step, sentence) {
  if (!fetched.has(training)) fetched.set(training, new Map());
  const records = fetched.get(training);
  const name = `${sentence}/${step}`;
  if (records.has(name)) return records.get(name);
  const record = await request(store, ask, 'training_step', { do: 'training_step', step, sentence }, readRecord);
  if (record) records.set(name, record);
  return record;
}

// Steps through the training by itself; the style hides it from whoever prefers little motion.
function createPlayer(store, ask) {
  let playing = false;
  const node = pressable('Play', () => (playing ? stop() : play()), { class: 'hl-act hl-play' });
  function stop() {
    playing = false;
    node.textContent = 'Play';
  }
  async function play() {
    playing = true;
    node.textContent = 'Stop';
    const { steps } = store.get().training;
    const from = steps.indexOf(stepShown(store.get()));
    for (let at = from === steps.length - 1 ? 0 : from + 1; playing && at < steps.length; at += 1) {
      const shown = await showStep(store, ask, steps[at], sentenceShown(store.get()));
      if (!shown) break;
      await new Promise((done) => setTimeout(done, PAUSE));
      if (store.get().visit?.step !== steps[at]) break; // the person went elsewhere
    }
    stop();
  }
  return { node, stop };
}

function drawCharts(node, state) {
  const { curves, notice } = state.training;
  const curve = ([name, key]) => ({
    name,
    points: curves.filter((one) => one[key] !== undefined).map((one) => [one.step, one[key]]),
  });
  const losses = LOSSES.map(curve).filter(({ points }) => points.length > 0);
  // A model that answers with single words has no BLEU to speak of; how many it has right says more.
  const score = SCORES.map(curve).find(({ points }) => points.some(([, value]) => value > 0));
  const steps = curves.map(({ step }) => step);
  const axis = { first: Math.min(...steps), last: Math.max(...steps), marked: stepShown(state) };
  node.replaceChildren(
    ...(losses.length ? [drawChart('Loss', losses, { ...axis, format: (value) => fixed(value, 2) })] : []),
    ...(score ? [drawChart(score.name, [score], { ...axis, format: (value) => fixed(value, 1) })] : []),
    ...(notice ? [note(notice)] : []),
  );
}
