// The playground: a small Transformer, or two, that the person trains and watches.

import { watchTheme } from '../core/colormap.js';
import { createButton, element } from '../core/dom.js';
import { fixed } from '../core/labels.js';
import { startWorker } from '../core/requests.js';
import { actionButton, actions, note } from '../core/widgets.js';
import { drawChart } from '../inspector/line_chart.js';
import { save } from '../matrix/save_menu.js';
import { say, tell } from '../locales/language.js';
import { zip } from './directory.js';
import { createMatrices } from './matrices.js';
import { SWITCHES, addressOf, settingsOf } from './settings.js';
import { TASKS } from './tasks.js';

const MOST_FRAMES = 400; // of the slider; then every other one is dropped
const PACES = [Infinity, 20, 2]; // steps a second
const SECOND = 1000;

// Returns { node, open, close }. `page` has `engine()`, the script of the Worker, and `openModel(identity, files)`, which
// puts a model into the page. `report` gets the settings and the frame of each training.
export function createPlayground(page, report, leave) {
  const play = {
    page,
    report,
    node: element('dialog', { class: 'hl-playground hl-scroll' }),
    leave,
    frames: [],
    shown: null,
  };
  Object.assign(play, { settings: [], worker: null, pace: 0, example: 0, drawnAt: 0, sides: [], step: 0 });
  play.node.setAttribute('aria-label', say('Playground'));
  watchTheme(() => draw(play));
  return {
    node: play.node,
    async open(address) {
      play.settings = settingsOf(address);
      if (!play.node.open) play.node.show();
      build(play);
      await restart(play);
    },
    close() {
      setPace(play, 0);
      play.node.close();
    },
  };
}

// The trainings

async function restart(play) {
  play.worker ??= await connect(play);
  Object.assign(play, { frames: [], shown: null });
  setPace(play, 0);
  play.worker.postMessage({ start: play.settings });
}

async function connect(play) {
  const worker = startWorker(await play.page.engine(), 'train');
  worker.addEventListener('message', ({ data: { frames, directory, said, opens } }) => {
    if (frames) take(play, frames);
    if (directory) keep(play, directory, opens);
    if (said) fail(play, said);
  });
  return worker;
}

function take(play, frames) {
  const last = play.frames.at(-1);
  if (last && last[0].steps === frames[0].steps) play.frames.pop(); // the same weights, perhaps with another word
  play.frames.push(frames);
  if (play.frames.length > MOST_FRAMES)
    play.frames = play.frames.filter((_, place) => place % 2 === 0 || place === MOST_FRAMES);
  play.report(frames.map((frame, side) => ({ settings: play.settings[side], steps: frame.steps, share: frame.share })));
  const isSlow = matchMedia('(prefers-reduced-motion: reduce)').matches && play.pace > 0;
  if (play.shown !== null || (isSlow && performance.now() - play.drawnAt < SECOND)) return;
  draw(play);
}

function fail(play, said) {
  setPace(play, 0);
  play.problem.textContent = tell(said);
  play.problem.hidden = false;
}

function setPace(play, pace) {
  play.pace = pace;
  if (play.start) play.start.textContent = pace ? say('Pause') : say('Start');
  play.worker?.postMessage({ pace });
}

function keep(play, { identity, files }, opens) {
  if (opens) {
    play.leave();
    play.page.openModel(identity, files);
  } else save(new Blob([zip(identity.name, files)], { type: 'application/zip' }), `${identity.name}.zip`);
}

// The page. A change of a switch begins the training again and is written into the address.

function build(play) {
  const { node, settings } = play;
  play.problem = element('p', { class: 'hl-problem', role: 'alert', hidden: true });
  play.status = element('p', { class: 'hl-unseen', 'aria-live': 'polite' });
  play.charts = element('div', { class: 'hl-play-charts' });
  play.sides = settings.map((_, side) => createSide(play, side));
  node.replaceChildren(
    element(
      'header',
      { class: 'hl-bar' },
      element('h2', {}, say('Playground')),
      createButton('hl-tab', play.leave, {}, say('Close')),
    ),
    note(say('Train a small Transformer in this browser and watch its heads form. Nothing leaves this page.')),
    element('div', { class: 'hl-play-controls' }, createControls(play), createHistory(play)),
    play.problem,
    play.status,
    element('div', { class: 'hl-play-sides' }, ...play.sides.map((side) => side.node)),
    element('div', { class: 'hl-panel hl-play-below' }, createWords(play, TASKS[settings[0].task]), play.charts),
    element('div', { class: 'hl-play-sides' }, ...settings.map((_, side) => createSwitches(play, side))),
  );
}

function createControls(play) {
  const paceText = (pace) =>
    pace === Infinity ? say('as fast as it can') : say('{count} steps a second', { count: pace });
  const speeds = PACES.map((pace) => new Option(paceText(pace), pace));
  const speed = element('select', { class: 'hl-box', 'aria-label': say('Speed') }, ...speeds);
  const paceOf = () => Number(speed.value);
  speed.addEventListener('change', () => play.pace && setPace(play, paceOf()));
  play.start = actionButton(say('Start'), () => begin(play, paceOf()), { class: 'hl-button' });
  const single = () => {
    setPace(play, 0);
    showLast(play);
    play.worker?.postMessage({ steps: 1 });
  };
  return actions(
    createSwitch(play, 0, 'task'),
    play.start,
    actionButton(say('One step'), single),
    actionButton(say('Start again'), () => restart(play)),
    speed,
    besideButton(play),
  );
}

function begin(play, pace) {
  showLast(play);
  setPace(play, play.pace ? 0 : pace);
}

function besideButton(play) {
  const [first, second] = play.settings;
  const settings = second ? [first] : [first, { ...first, positions: !first.positions }];
  return actionButton(second ? say('Without the second one') : say('A second one side by side'), () =>
    change(play, settings),
  );
}

function change(play, settings) {
  play.settings = settings;
  history.replaceState(history.state, '', addressOf(settings));
  build(play);
  return restart(play);
}

function createSide(play, side) {
  const { settings } = play;
  const { examples, write } = TASKS[settings[side].task];
  const title = nameOf(settings, side);
  const progress = element('p', { class: 'hl-role' });
  const source = examples[play.example];
  const matrices = createMatrices(settings[side], source, write(source));
  const send = (opens) => play.worker?.postMessage({ save: side, opens });
  const buttons = actions(
    actionButton(say('Open in the viewer'), () => send(true)),
    actionButton(say('Save the model'), () => send(false)),
  );
  const bar = element('div', { class: 'hl-play-bar' }, title && element('h3', {}, title), progress, buttons);
  const node = element(
    'section',
    { class: 'hl-panel', 'aria-label': title || say('This training') },
    bar,
    matrices.node,
  );
  return { node, progress, matrices };
}

// A and B, where there are two.
function nameOf(settings, side) {
  return settings.length > 1 ? 'AB'[side] : '';
}

function createSwitches(play, side) {
  const names = Object.keys(SWITCHES).filter((name) => name !== 'task');
  const title = element('h3', {}, `${say('Switches')} ${nameOf(play.settings, side)}`.trim());
  const list = element('div', { class: 'hl-play-switches' }, ...names.map((name) => createSwitch(play, side, name)));
  return element('section', { class: 'hl-panel', 'aria-label': title.textContent }, title, list);
}

function createSwitch(play, side, name) {
  const { values, label, text = String, hint } = SWITCHES[name];
  const own = play.settings[side];
  const id = `hl-play-${name}-${side}`;
  const options = values.map((value, place) => new Option(text(value), place, false, value === own[name]));
  const list = element('select', { class: 'hl-box', 'aria-describedby': id }, ...options);
  list.addEventListener('change', () => {
    const value = values[Number(list.value)];
    const chosen = play.settings.map((each, place) =>
      place === side || name === 'task' ? { ...each, [name]: value } : each,
    );
    change(play, chosen).then(() => play.node.querySelector(`[aria-describedby="${id}"]`)?.focus());
  });
  return element('label', {}, label(), list, element('span', { class: 'hl-soft', id }, hint()));
}

// The examples, whose matrices a click shows, and a word of the person: what is right, and what is written.
function createWords(play, { examples, longest }) {
  const attributes = { class: 'hl-box', maxlength: longest[0], placeholder: say('Your own word') };
  play.own = element('input', { ...attributes, 'aria-label': say('Your own word'), autocomplete: 'off' });
  play.own.addEventListener('input', () => play.worker?.postMessage({ word: wordOf(play) }));
  const chosen = (place) => ({ 'aria-pressed': place === play.example });
  const buttons = examples.map((text, place) => createButton('hl-choice', () => choose(place), chosen(place), text));
  const choose = (place) => {
    play.example = place;
    buttons.forEach((button, each) => button.setAttribute('aria-pressed', each === place));
    play.sides.forEach(({ node }, side) => {
      play.sides[side] = createSide(play, side);
      node.replaceWith(play.sides[side].node);
    });
    draw(play);
  };
  play.rows = [...buttons, play.own].map((head) => {
    const cells = [null, ...play.settings].map(() => element('td'));
    return { cells, node: element('tr', {}, element('th', { scope: 'row' }, head), ...cells) };
  });
  const written = play.settings.map((_, side) => nameOf(play.settings, side) || say('written now'));
  const names = [say('unseen'), say('right'), ...written].map((name) => element('th', { scope: 'col' }, name));
  const rows = play.rows.map(({ node }) => node);
  const table = element('table', {}, element('thead', {}, element('tr', {}, ...names)), element('tbody', {}, ...rows));
  const title = say('Words as the model writes them now');
  return element('section', { class: 'hl-play-words' }, element('h3', {}, title), table);
}

function wordOf({ own }) {
  return own.value.trim().toLowerCase();
}

function createHistory(play) {
  play.slider = element('input', {
    type: 'range',
    min: 0,
    max: 0,
    class: 'hl-slider',
    'aria-label': say('Back through the training'),
  });
  play.slider.addEventListener('input', () => {
    const place = Number(play.slider.value);
    setPace(play, 0);
    play.shown = place === play.frames.length - 1 ? null : place;
    draw(play);
  });
  return play.slider;
}

function showLast(play) {
  if (play.shown === null) return;
  play.shown = null;
  draw(play);
}

// Drawing

function draw(play) {
  const { frames, sides, slider, settings } = play;
  const shown = frames[play.shown ?? frames.length - 1];
  if (!shown || shown.length !== sides.length) return;
  play.drawnAt = performance.now();
  slider.max = frames.length - 1;
  slider.value = play.shown ?? frames.length - 1;
  slider.setAttribute('aria-valuetext', say('step {step}', { step: shown[0].steps }));
  shown.forEach((frame, side) => {
    sides[side].progress.textContent = progressOf(frame);
    sides[side].matrices.draw(frame.examples[play.example]);
  });
  if (!play.pace) play.status.textContent = shown.map(progressOf).join('. ');
  drawCharts(play, shown[0].steps);
  const task = TASKS[settings[0].task];
  [...task.examples, wordOf(play)].forEach((text, place) => {
    const { cells } = play.rows[place];
    const right = task.write(text);
    const written = shown.map((frame) => frame.written[place]);
    cells.forEach((cell, at) => (cell.textContent = at === 0 ? right : writtenText(written[at - 1], right)));
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
  return say('Step {step} · loss {loss} · {share} % of unseen words', values);
}

function drawCharts({ charts, frames, settings }, marked) {
  const last = frames.at(-1)[0].steps;
  const lines = (valueOf) =>
    settings.map((_, side) => ({
      name: nameOf(settings, side),
      points: frames
        .filter((each) => valueOf(each[side]) !== null)
        .map((each) => [each[side].steps, valueOf(each[side])]),
    }));
  const axis = { first: 0, last, marked };
  const chart = (title, valueOf, look) => (last === 0 ? null : drawChart(title, lines(valueOf), { ...axis, ...look }));
  const found = [
    chart(say('Loss'), ({ loss }) => loss, { format: (value) => fixed(value, 2) }),
    chart(say('Unseen words right, %'), ({ share }) => 100 * share, { format: (value) => fixed(value, 0), most: 100 }),
  ];
  charts.replaceChildren(...found.filter(Boolean));
}
