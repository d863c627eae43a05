// The panel Training: curves of the model's training run, and its attention at the saved steps.

import { element, readable } from '../drawing/dom.js';
import { askTraining, askTrainingHeads, fetchTrainingAgain, showTrainingStep } from '../transport/views.js';
import { fixed } from '../drawing/numbers.js';
import { fullHeadName, titleOfHeads } from '../state/labels.js';
import { matrixOf } from '../domain/payload.js';
import { refusalIn, whyNot } from '../transport/requests.js';
import { differs, trainingStep } from '../state/queries.js';
import { actionButton, actions, note, sayNote } from '../drawing/widgets.js';
import { drawThumbnail } from '../heads/thumbnails.js';
import { axisOfSteps, drawChart } from '../drawing/line_chart.js';
import { say, tell, tellTitle } from '../locales/language.js';
import { labelOfMeasure } from '../state/measures.js';
import { nearestRole, offsetsOf } from '../domain/roles.js';
import { chosenHeads } from '../domain/heads.js';

/** @typedef {[name: () => string, key: string, range?: [number, number]]} Curve */

const HEAD = ['kind', 'layer', 'head', 'selection'];
const PAUSE = 700; // milliseconds between two steps while playing
const FOLLOW = 5000; // milliseconds between two looks at a run that goes on
/** @type {Curve[]} */
const LOSSES = [
  [() => say('training'), 'train/loss'],
  [() => say('validation'), 'validation/loss'],
];
/** @type {Curve[]} */
const SCORES = [
  [() => 'BLEU', 'validation/bleu'],
  [() => say('Unseen words right, %'), 'validation/exact_match', [0, 100]],
];

export function createTraining(client) {
  const node = element('div');
  const charts = element('section', { class: 'hl-part' });
  const picture = element('canvas', { class: 'hl-step-picture', role: 'img' });
  const controls = createControls(client, picture);
  const curve = element('section', { class: 'hl-part' });
  setInterval(() => {
    const state = client.store.get();
    if (node.isConnected && state.panel === 'training' && trainingOf(state)?.goes_on) fetchTrainingAgain(client);
  }, FOLLOW);
  return {
    node,
    draw(state, before) {
      if (!differs(state, before, ['record', 'trainings', 'shown', 'busy', 'theme', ...HEAD])) return;
      const training = trainingOf(state);
      if (!training?.steps.length) return drawNothing(client, node, state);
      if (controls.node.parentNode !== node) node.replaceChildren(controls.node, charts, curve);
      controls.draw(state, before);
      drawPicture(picture, state);
      if (differs(state, before, ['record', 'trainings', 'shown', ...HEAD]))
        drawHeadCurve(client, curve, state, training);
      if (training !== trainingOf(before) || stepShown(state) !== stepShown(before)) drawCharts(charts, state);
      return undefined;
    },
  };
}

const trainingOf = ({ record, trainings }) => trainings[record?.model.name] ?? null;
const noticeOf = (training) => training && tell(training.said ?? training.notice);

function drawNothing(client, node, state) {
  const reason = whyNot(client, 'training') ?? noticeOf(trainingOf(state));
  if (reason) node.replaceChildren(note(refusalIn(client, reason)));
  else if (state.busy) node.replaceChildren();
  else
    node.replaceChildren(
      sayNote('The training record has not been read.'),
      actionButton(say('Read it'), () => askTraining(client)),
    );
}

// The step of the slider: the step on screen, or the last step, which is the finished model.
const stepShown = (state) => trainingStep(state)?.step ?? trainingOf(state)?.steps.at(-1) ?? null;
const sentenceShown = (state) => trainingStep(state)?.sentence ?? 0;

// The head on screen, for small screens, on which the matrix and the slider are never in sight together.
function drawPicture(canvas, { record, kind, layer, head, theme }) {
  const shown = head ?? 0;
  drawThumbnail(canvas, record, kind, matrixOf(record, kind, layer, shown), theme);
  canvas.setAttribute('aria-label', fullHeadName([kind, layer, shown]));
}

function createControls(client, picture) {
  const { store } = client;
  const label = element('p', { class: 'hl-role' });
  const choice = element('select', { class: 'hl-box', 'aria-label': say('Sentence') });
  const name = say('Saved step of the training');
  const slider = element('input', { type: 'range', min: 0, class: 'hl-slider', 'aria-label': name });
  const player = createPlayer(client);
  choice.addEventListener('change', () => showTrainingStep(client, stepShown(store.get()), Number(choice.value)));
  slider.addEventListener('input', () => {
    const state = store.get();
    player.stop();
    showTrainingStep(client, trainingOf(state).steps[slider.value], sentenceShown(state));
  });
  const hint = sayNote(
    'Attention was saved during the training for these sentences only. Move the slider to see one of them at that step.',
  );
  const beginning = sayNote(
    'This is the record of the last of several runs. It began with the weights of a trained model, so the heads are finished at step 0.',
  );
  const earlierNotes = element('div');
  const node = element(
    'section',
    { class: 'hl-part' },
    label,
    beginning,
    earlierNotes,
    hint,
    choice,
    slider,
    picture,
    actions(player.node),
  );
  const parts = { label, beginning, earlierNotes, choice, slider };
  return { node, draw: (state, before) => drawControls(parts, state, before) };
}

function drawControls({ label, beginning, earlierNotes, choice, slider }, state, before) {
  const training = trainingOf(state);
  const isNew = training !== trainingOf(before);
  if (!isNew && state.shown === before.shown) return; // the person may move the slider
  const { steps, sentences, begins_trained: beginsTrained = false } = training;
  beginning.hidden = !beginsTrained;
  const shown = stepShown(state);
  if (isNew) {
    earlierNotes.replaceChildren(...earlierTexts(training).map((text) => note(text)));
    choice.replaceChildren(
      ...sentences.map(({ source }, index) => element('option', { value: index }, readable(source))),
    );
  }
  choice.value = sentenceShown(state);
  slider.max = steps.length - 1;
  slider.value = steps.indexOf(shown);
  slider.setAttribute('aria-valuetext', say('step {step}', { step: shown }));
  label.textContent = say('Step {step} of {last}', { step: shown, last: steps.at(-1) });
}

// What another vocabulary or other languages of the first steps mean for the pictures and the curves.
const earlierTexts = ({ earlier = [] }) =>
  earlier.map(({ last, title }) =>
    title
      ? say(
          'Up to step {last} (dashed line) the model learned {title}. The losses and scores before and after cannot be compared.',
          { last, title: tellTitle(title) },
        )
      : say(
          'Up to step {last} (dashed line) the model split some words into other pieces. The losses before and after cannot be compared.',
          { last },
        ),
  );

// Plays the training step by step. The style sheet hides it for people who prefer reduced motion.
function createPlayer(client) {
  const { store } = client;
  /** @type {object | null} */
  let playing = null; // one object for each run: a stopped one may wake while the next one goes on
  const node = actionButton(say('Play'), () => (playing ? stop() : play()), { class: 'hl-act hl-play' });
  function stop() {
    playing = null;
    node.textContent = say('Play');
  }
  async function play() {
    const mine = {};
    playing = mine;
    node.textContent = say('Stop');
    const { steps } = trainingOf(store.get());
    const from = steps.indexOf(stepShown(store.get()));
    for (let at = from === steps.length - 1 ? 0 : from + 1; playing === mine && at < steps.length; at += 1) {
      const shown = await showTrainingStep(client, steps[at], sentenceShown(store.get()));
      if (!shown) break;
      await new Promise((done) => setTimeout(done, PAUSE));
      if (trainingStep(store.get())?.step !== steps[at]) break; // the person opened something else
    }
    if (playing === mine) stop();
  }
  return { node, stop };
}

function drawCharts(node, state) {
  const training = trainingOf(state);
  const { curves, goes_on: goesOn } = training;
  const notice = noticeOf(training);
  /** @type {(curve: Curve) => { key: string; range: [number, number] | null; name: string; points: [number, number][] }} */
  const curve = ([name, key, range = null]) => ({
    key,
    range,
    name: name(),
    points: curves.filter((one) => one[key] !== undefined).map((one) => [one.step, one[key]]),
  });
  const losses = LOSSES.map(curve).filter(({ points }) => points.length > 0);
  // BLEU is 0 for a model whose outputs are single words; the share of exact matches is shown then.
  // A single point is no curve.
  const scores = SCORES.map(curve).filter(({ points }) => points.length > 1);
  const score = scores.length > 1 ? scores.find(({ points }) => points.some(([, value]) => value > 0)) : scores[0];
  const steps = curves.map(({ step }) => step);
  const axis = axisOfSteps(steps, stepShown(state), training);
  /** @type {(title: string, lines: object[], digits: number, range?: number[] | null) => Element} */
  const chart = (title, lines, digits, range = null) =>
    drawChart(title, lines, { ...axis, range, format: (value) => fixed(value, digits) });
  const parts = [
    losses.length > 0 && chart(say('Loss'), losses, 2),
    losses.length > 1 &&
      sayNote(
        'The loss of training is usually the larger one: it is measured with dropout and with smoothed targets, the loss of validation without both.',
      ),
    score && chart(score.name, [score], 1, score.range),
    score?.key === 'validation/bleu' &&
      sayNote(
        'BLEU says how much translations have in common with reference translations, from 0 to 100. Here it is about the development set; the scores in “About” are of other sentences.',
      ),
    notice && note(notice),
    goesOn && sayNote('This training goes on. Its curves and saved steps arrive here as they are written.'),
  ];
  node.replaceChildren(...parts.filter(Boolean));
}

// Draws into `node` what is known of the head on screen; `training` is the record of the model's training.
function drawHeadCurve(client, node, state, training) {
  const sentence = trainingStep(state)?.sentence ?? 0;
  const heads = chosenHeads(state);
  const found = training.heads.get(sentence);
  const title = element('h3', {}, say('The head on screen'));
  if (heads.length > 1) return node.replaceChildren(title, sayNote('Choose one head to see how it got its role.'));
  const ask = () => askTrainingHeads(client, sentence);
  node.replaceChildren(
    title,
    note(titleOfHeads(state)),
    ...(found
      ? curveOf(state, heads[0], { ...training, found })
      : [actions(actionButton(say('Show how it got its role'), ask))]),
  );
  return undefined;
}

/** @type {(state: State, one: Head, training: any) => Element[]} */
function curveOf(state, one, training) {
  const { steps, found } = training;
  const { record } = state;
  const [kind, layer, head] = one;
  const roles = found.map((step) => step.roles[kind][layer][head]);
  const last = { ...found.at(-1), definitions: record.definitions };
  const final = roles.at(-1);
  const role = final === 'mixed' ? nearestRole(last, one)?.role : final;
  const { measures, roles: definitions } = record.definitions;
  if (!role || !definitions[role].measure) return [note(alignedSince(record, training))]; // no measure has a meaning for it
  const { measure, least, offset } = definitions[role];
  const offsets = offsetsOf(measures, measure);
  const line = (name) => ({
    name: labelOfMeasure(record, name),
    points: steps.flatMap((step, place) => {
      const table = found[place].measures[kind];
      const isOther = offset !== null && offsets !== null && table[offsets][layer][head] !== offset;
      return name === measure && isOther ? [] : [[step, table[name][layer][head]]];
    }),
  });
  const threshold = { name: say('threshold'), points: [steps[0], steps.at(-1)].map((step) => [step, least]) };
  const lines = [line(measure), threshold, ...(kind === 'cross' && measure !== 'focus' ? [line('focus')] : [])];
  const axis = axisOfSteps(steps, trainingStep(state)?.step ?? steps.at(-1), training);
  return [
    note(alignedSince(record, training)),
    note(sinceWhen(role, least, steps[roles.indexOf(role)], final === role)),
    drawChart(labelOfMeasure(record, measure), lines, { ...axis, format: (value) => fixed(value, 2) }),
  ];
}

// From which saved step on the model aligns: some head of cross-attention is focused enough at it and at all later ones.
function alignedSince({ definitions }, { steps, found }) {
  const { least } = Object.values(definitions.roles).find(({ measure }) => measure === 'focus');
  const aligns = found.map(({ measures }) => Math.max(...measures.cross.focus.flat()) >= least);
  const step = steps[aligns.lastIndexOf(false) + 1];
  if (step === undefined) return say('At the last step no head of cross-attention aligns the words of this sentence.');
  return step === steps[0]
    ? say('Some head of cross-attention aligns the words of this sentence at every saved step.')
    : say('The model aligns the words of this sentence from step {step} on: some head of cross-attention does.', {
        step,
      });
}

function sinceWhen(role, least, first, stays) {
  const values = { role: tell(role), least: fixed(100 * least, 0), step: first };
  if (first === undefined)
    return say('At no saved step does the head count as “{role}”, which takes at least {least} %.', values);
  return stays
    ? say('At step {step} the head counts as “{role}”, which takes at least {least} %, for the first time.', values)
    : say(
        'At step {step} the head counts as “{role}”, which takes at least {least} %, for the first time; at the last step it does not.',
        values,
      );
}
