// The playground: a small Transformer, or two, that the person trains and watches.

import { watchTheme } from '../drawing/colormap.js';
import { createButton, element } from '../drawing/dom.js';
import { fixed } from '../drawing/numbers.js';
import { startWorker } from '../transport/requests.js';
import { actionButton, actions, sayNote } from '../drawing/widgets.js';
import { askToBegin } from './ask.js';
import { isPlayground } from './entry.js';
import { chartsOf } from './charts.js';
import { save } from '../drawing/files.js';
import { rewriteAddress } from '../state/parameters.js';
import { message, say, tell } from '../locales/language.js';
import { zip } from '../engine/tensors/zip.js';
import { createMatrices } from './matrices.js';
import { createChallenges } from './challenges.js';
import { createOwnPairs } from './own_pairs.js';
import { addressOf, createSwitch, createSwitches, nameOf, settingsOf, stepOf, titlesOf, USUAL } from './settings.js';
import { OWN, taskNamed } from './tasks.js';
import { BOTH, WHY_STEPS, createWhy } from './why.js';

const MOST_FRAMES = 400; // of the slider; then every other one is dropped
const PACES = [Infinity, 20, 2]; // steps a second
const SECOND = 1000;

// Returns { node, open, close, address }; `address` is the address of the present training. `page` has `engine()`, the script
// of the Worker, and `openModel(identity, files)`, which puts a model into the page. `report` gets the settings, step and share
// of each training. `leave` closes the playground, and `giveWay` closes it for a model that is opened.
export function createPlayground(page, report, leave, giveWay) {
  const node = element('dialog', { class: 'hl-playground hl-scroll', 'aria-label': say('Playground') });
  const play = { page, report, leave, giveWay, node, number: 0, example: 0, drawnAt: 0, frames: [], sides: [] };
  Object.assign(play, { until: 0, pairs: null, challenge: null });
  watchTheme(() => draw(play));
  return {
    node,
    open: (address) => {
      node.show();
      return openAddress(play, address);
    },
    close() {
      setPace(play, 0);
      node.close();
    },
    address: () => addressOf(play.settings, stepsOf(play)),
  };
}

// The trainings

// The training stays as it was while the person is in the viewer.
async function openAddress(play, address) {
  const settings = settingsOf(address);
  const isForeign = settings[0].task === OWN && play.pairs === null;
  const wanted = isForeign ? settings.map((each) => ({ ...each, task: USUAL.task })) : settings;
  if (!play.settings) await begin(play, wanted);
  else if (!isSame(wanted, play.settings)) await beginAfterAsking(play, wanted);
  else draw(play);
  if (isForeign)
    fail(
      play,
      message(
        'The link is about pairs that somebody had pasted, and no link holds them. Paste your own at the end of this page.',
      ),
    );
  const step = stepOf(address);
  if (step > stepsOf(play) && isSame(wanted, play.settings)) setPace(play, Infinity, step);
}

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

function begin(play, settings) {
  play.settings = settings;
  play.example = 0;
  rewriteAddress(addressOf(settings));
  build(play);
  return restart(play);
}

function beginAfterAsking(play, wanted, start = () => begin(play, wanted)) {
  if (stepsOf(play) === 0) return start();
  setPace(play, 0);
  return askToBegin(play.node, stepsOf(play), start, () => {
    rewriteAddress(addressOf(play.settings, stepsOf(play)));
    build(play); // the lists show what is trained
    setPace(play, 0);
    draw(play);
  });
}

const stepsOf = ({ frames }) => frames.at(-1)?.[0].steps ?? 0;

async function restart(play) {
  play.problem.hidden = true;
  try {
    play.worker ??= await connect(play);
  } catch {
    return fail(play, message('The playground could not be loaded; check the connection, then load the page again.'));
  }
  Object.assign(play, { frames: [], shown: null });
  setPace(play, 0);
  play.number += 1;
  return play.worker.postMessage({ start: play.settings, number: play.number, pairs: play.pairs });
}

async function connect(play) {
  const worker = startWorker(await play.page.engine(), 'train');
  worker.addEventListener('message', ({ data: { frames, number, directory, said, opens } }) => {
    if (frames && number === play.number) take(play, frames); // not of a training that was given up
    if (directory) keep(play, directory, opens);
    if (said) fail(play, said);
  });
  worker.addEventListener('error', () => {
    worker.terminate();
    play.worker = null; // Start again makes another one
    fail(play, message('The training failed; reload the page, then try again.'));
  });
  return worker;
}

function take(play, frames) {
  if (play.frames.at(-1)?.[0].steps === frames[0].steps) play.frames.pop(); // the same weights, perhaps with another word
  play.frames.push(frames);
  if (play.frames.length > MOST_FRAMES)
    play.frames = play.frames.filter((_, place) => place % 2 === 0 || place === MOST_FRAMES);
  if (play.until > 0 && frames[0].steps >= play.until) setPace(play, 0);
  if (!play.pace && isPlayground(location.hash)) rewriteAddress(addressOf(play.settings, frames[0].steps));
  const played = ({ steps, share, parameters }, side) => ({ settings: play.settings[side], steps, share, parameters });
  const trainings = frames.map(played);
  play.report(trainings);
  play.challenges.note(trainings);
  play.slider.max = play.frames.length - 1; // End reaches a frame that came while an earlier one is shown
  const isSlow = matchMedia('(prefers-reduced-motion: reduce)').matches && play.pace > 0;
  if (play.shown === null && !(isSlow && performance.now() - play.drawnAt < SECOND)) draw(play);
}

function keep(play, { identity, files }, opens) {
  const inFolder = Object.entries(files).map(([name, bytes]) => [`${identity.name}/${name}`, bytes]);
  const zipped = zip(Object.fromEntries(inFolder));
  if (!opens) return save(new Blob(zipped, { type: 'application/zip' }), `${identity.name}.zip`);
  play.giveWay();
  const named = { task: tell(identity.task), steps: identity.steps };
  return play.page.openModel({ ...identity, title: say('Playground: {task}, {steps} steps', named) }, files);
}

function fail(play, said) {
  setPace(play, 0);
  play.problem.textContent = tell(said);
  play.problem.hidden = false;
}

// Nothing trains without a Worker.
function setPace(play, pace, until = 0) {
  Object.assign(play, { pace: play.worker ? pace : 0, until });
  if (play.start) play.start.textContent = play.pace ? say('Pause') : say('Start');
  play.worker?.postMessage({ pace, until });
}

// Shows a frame; null is the last one at any time.
function show(play, place) {
  play.shown = place;
  draw(play);
}

// The page

function build(play) {
  const { node, settings, leave } = play;
  play.problem = element('p', { class: 'hl-problem', role: 'alert', hidden: true });
  play.status = element('p', { class: 'hl-unseen', 'aria-live': 'polite' });
  play.charts = element('div', { class: 'hl-play-charts' });
  play.trainings = element('div', { class: 'hl-play-sides' });
  const switches = settings.map((_, side) => createSwitches(play, side, beginAfterAsking));
  play.challenges = createChallenges((name, task) => takeOn(play, name, task));
  node.classList.toggle('hl-no-hints', play.challenge !== null);
  const close = createButton('hl-tab', leave, {}, say('Close'));
  createSides(play);
  node.replaceChildren(
    element('header', { class: 'hl-bar' }, element('h2', {}, say('Playground')), close),
    sayNote('Train a small Transformer in this browser and watch its heads form. Nothing leaves this page.'),
    element('p', { class: 'hl-goal' }, play.challenges.goalOf(play.challenge)),
    element('div', { class: 'hl-play-controls' }, createControls(play), createHistory(play)),
    play.problem,
    play.status,
    play.trainings,
    sayNote(
      'Each row shows where one letter looks: faint over many letters, strong on one. ▸ is the start, ⏎ the end.',
    ),
    element('div', { class: 'hl-panel hl-play-below' }, createWords(play, taskOf(play)), play.charts),
    element('div', { class: 'hl-play-sides' }, ...switches),
    createWhy(() => trainBoth(play)),
    play.challenges.node,
    createOwnPairs((pairs) => trainOn(play, pairs)),
  );
}

const taskOf = ({ settings, pairs }) => taskNamed(settings[0].task, pairs);

// The switches of the first training stay.
function trainOn(play, pairs) {
  const wanted = [{ ...play.settings[0], task: OWN }];
  return beginAfterAsking(play, wanted, async () => {
    Object.assign(play, { pairs, challenge: null });
    play.node.scrollTo(0, 0);
    await begin(play, wanted);
    setPace(play, Infinity);
  });
}

// A challenge begins with the usual model.
const takeOn = (play, name, task) =>
  beginAfterAsking(play, [], () => {
    play.challenge = name;
    play.node.scrollTo(0, 0);
    return begin(play, [{ ...USUAL, task }]);
  });

// The two trainings of “Why attention?”, up to the step that its text is about.
const trainBoth = (play) =>
  beginAfterAsking(play, BOTH, async () => {
    play.challenge = null;
    play.node.scrollTo(0, 0);
    await begin(play, BOTH);
    setPace(play, Infinity, WHY_STEPS);
  });

function createControls(play) {
  const textOf = (pace) =>
    pace === Infinity ? say('as fast as it can') : say('{count} steps a second', { count: pace });
  const speeds = PACES.map((pace) => new Option(textOf(pace), String(pace)));
  const speed = element('select', { class: 'hl-box', 'aria-label': say('Speed') }, ...speeds);
  speed.addEventListener('change', () => play.pace && setPace(play, Number(speed.value)));
  const run = (pace) => {
    show(play, null);
    setPace(play, pace);
  };
  const single = () => {
    run(0);
    play.worker?.postMessage({ steps: 1 });
  };
  const startOrPause = () => run(play.pace ? 0 : Number(speed.value));
  play.start = actionButton(say('Start'), startOrPause, { class: 'hl-button hl-start' });
  const [first, second] = play.settings;
  const other = second ? [first] : [first, { ...first, positions: !first.positions }];
  return actions(
    createSwitch(play, 0, 'task', beginAfterAsking),
    play.start,
    actionButton(say('One step'), single),
    actionButton(say('Start again'), () => restart(play)),
    speed,
    actionButton(second ? say('Without the second one') : say('A second one side by side'), () =>
      beginAfterAsking(play, other),
    ),
  );
}

// Each training with its progress, its matrices of the chosen example, and what can be done with its model.
function createSides(play) {
  play.sides = play.settings.map((own, side) => {
    const { examples, write } = taskOf(play);
    const source = examples[play.example];
    const title = titlesOf(play.settings)[side];
    const progress = element('p', { class: 'hl-role' });
    const matrices = createMatrices(own, source, write(source));
    const send = (opens) => play.worker?.postMessage({ save: side, opens });
    // A model directory has no setting for what this decoder reads: elsewhere it would read the whole word.
    const bound = own.last
      ? { disabled: true, title: say('The viewer knows no decoder that reads only the last state.') }
      : {};
    const open = actionButton(say('Open in the viewer'), () => send(true), bound);
    const download = actionButton(say('Save the model'), () => send(false), bound);
    const parts = [title && element('h3', {}, title), progress, actions(open, download)];
    const bar = element('div', { class: 'hl-play-bar' }, ...parts);
    const labelled = { class: 'hl-panel', 'aria-label': title || say('This training') };
    return { node: element('section', labelled, bar, matrices.node), progress, matrices };
  });
  play.trainings.replaceChildren(...play.sides.map(({ node }) => node));
}

// The examples, whose matrices a click shows, and a word of the person: what is right, and what is written.
function createWords(play, { examples, longest }) {
  const own = { class: 'hl-box', maxlength: longest, placeholder: say('Your own word'), autocomplete: 'off' };
  play.own = element('input', { ...own, 'aria-label': say('Your own word') });
  play.own.addEventListener('input', () => play.worker?.postMessage({ word: wordOf(play) }));
  const pressed = (place) => ({ 'aria-pressed': place === play.example });
  const choose = (chosen) => {
    play.example = chosen;
    buttons.forEach((button, place) => button.setAttribute('aria-pressed', place === chosen));
    createSides(play);
    draw(play);
  };
  const buttons = examples.map((text, place) => createButton('hl-choice', () => choose(place), pressed(place), text));
  play.rows = [...buttons, play.own].map((head) => {
    const cells = [null, ...play.settings].map(() => element('td'));
    return { cells, node: element('tr', {}, element('th', { scope: 'row' }, head), ...cells) };
  });
  const written = play.settings.map((_, side) => nameOf(play, side) || say('written now'));
  const names = [say('unseen'), say('right'), ...written].map((name) => element('th', { scope: 'col' }, name));
  const body = element('tbody', {}, ...play.rows.map(({ node }) => node));
  const table = element('table', {}, element('thead', {}, element('tr', {}, ...names)), body);
  const title = element('h3', {}, say('Words as the model writes them now'));
  return element('section', { class: 'hl-play-words' }, title, table);
}

// In small letters, unless the task has others.
function wordOf(play) {
  const word = play.own.value.trim();
  return /\p{Lu}/u.test(taskOf(play).characters.join('')) ? word : word.toLowerCase();
}

function createHistory(play) {
  const attributes = { type: 'range', min: 0, max: 0, class: 'hl-slider' };
  play.slider = element('input', { ...attributes, 'aria-label': say('Back through the training') });
  play.slider.addEventListener('input', () => {
    const place = Number(play.slider.value);
    setPace(play, 0);
    show(play, place === play.frames.length - 1 ? null : place);
  });
  return play.slider;
}

// Drawing

function draw(play) {
  const { frames, sides, slider, charts } = play;
  const place = play.shown ?? frames.length - 1;
  const shown = frames[place];
  if (shown?.length !== sides.length) return;
  play.drawnAt = performance.now();
  Object.assign(slider, { max: frames.length - 1, value: place });
  slider.setAttribute('aria-valuetext', say('step {step}', { step: shown[0].steps }));
  shown.forEach((frame, side) => {
    sides[side].progress.textContent = progressOf(frame);
    sides[side].matrices.draw(frame.examples[play.example]);
  });
  if (!play.pace) play.status.textContent = shown.map(progressOf).join('. ');
  charts.replaceChildren(
    ...chartsOf(
      frames,
      shown,
      play.settings.map((_, side) => nameOf(play, side)),
    ),
  );
  const { examples, write } = taskOf(play);
  [...examples, wordOf(play)].forEach((text, row) => {
    const texts = [write(text), ...shown.map(({ written }) => writtenText(written[row], write(text)))];
    play.rows[row].cells.forEach((cell, at) => (cell.textContent = texts[at]));
  });
}

// Nothing for a word that was typed after this frame.
function writtenText(written, right) {
  if (!written) return '';
  if (!written.isReadable) return say('This task does not know all of these letters.');
  return written.text === right ? `${written.text} ✓` : written.text;
}

function progressOf({ steps, loss, share }) {
  const values = { step: steps, loss: loss === null ? '–' : fixed(loss, 3), share: Math.round(100 * share) };
  return say('Step {step} · loss {loss} · {share} % of unseen words right', values);
}
