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
      pause(play);
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

function pause(play) {
  if (play.pace) setPace(play, 0);
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
  const { examples } = TASKS[settings[0].task];
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
    createControls(play),
    play.problem,
    play.status,
    element('div', { class: 'hl-play-sides' }, ...play.sides.map((side) => side.node)),
    createHistory(play),
    play.charts,
    createExamples(play, examples),
  );
}

function createControls(play) {
  const speeds = PACES.map(
    (pace) =>
      new Option(pace === Infinity ? say('as fast as it can') : say('{count} steps a second', { count: pace }), pace),
  );
  const speed = element('select', { class: 'hl-box', 'aria-label': say('Speed') }, ...speeds);
  const paceOf = () => Number(speed.value);
  speed.addEventListener('change', () => play.pace && setPace(play, paceOf()));
  play.start = actionButton(say('Start'), () => begin(play, paceOf()), { class: 'hl-button' });
  const single = () => {
    pause(play);
    showLast(play);
    play.worker?.postMessage({ steps: 1 });
  };
  const again = () => restart(play);
  return actions(
    play.start,
    actionButton(say('One step'), single),
    actionButton(say('Start again'), again),
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
  const own = settings[side];
  const { examples, write } = TASKS[own.task];
  const title = element('h3', {}, settings.length > 1 ? 'AB'[side] : say('This training'));
  const progress = element('p', { class: 'hl-role' });
  const source = examples[play.example];
  const matrices = createMatrices(own, source, write(source));
  const switches = Object.keys(SWITCHES).filter((name) => side === 0 || name !== 'task');
  const send = (opens) => play.worker?.postMessage({ save: side, opens });
  const node = element(
    'section',
    { class: 'hl-panel', 'aria-label': title.textContent },
    title,
    element('div', { class: 'hl-play-switches' }, ...switches.map((name) => createSwitch(play, side, name))),
    progress,
    matrices.node,
    actions(
      actionButton(say('Open in the viewer'), () => send(true)),
      actionButton(say('Save the model'), () => send(false)),
    ),
  );
  return { node, progress, matrices };
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

function createExamples(play, examples) {
  play.written = element('tbody');
  const own = element('input', {
    class: 'hl-box',
    maxlength: TASKS[play.settings[0].task].longest[0],
    'aria-label': say('Your own word'),
  });
  own.placeholder = say('Type a word of your own');
  own.addEventListener('input', () => play.worker?.postMessage({ word: own.value.trim().toLowerCase() }));
  const heads = [
    say('unseen'),
    say('right'),
    ...play.settings.map((_, side) => (play.settings.length > 1 ? 'AB'[side] : say('written'))),
  ];
  const table = element(
    'table',
    { class: 'hl-play-words' },
    element('thead', {}, element('tr', {}, ...heads.map((head) => element('th', { scope: 'col' }, head)))),
    play.written,
  );
  const choose = element(
    'select',
    { class: 'hl-box', 'aria-label': say('Matrices of') },
    ...examples.map((each, place) => new Option(each, place, false, place === play.example)),
  );
  choose.addEventListener('change', () => {
    play.example = Number(choose.value);
    play.sides.forEach(({ node }, side) => {
      play.sides[side] = createSide(play, side);
      node.replaceWith(play.sides[side].node);
    });
    draw(play);
  });
  play.own = own;
  return element(
    'section',
    { class: 'hl-panel' },
    element('h3', {}, say('Words as the model writes them now')),
    table,
    own,
    element('label', {}, say('Matrices of'), choose),
  );
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
    pause(play);
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
  const texts = [
    ...task.examples,
    ...(shown[0].written.length > task.examples.length ? [play.own.value.trim().toLowerCase()] : []),
  ];
  play.written.replaceChildren(
    ...texts.map((text, place) =>
      wordRow(
        task,
        text,
        shown.map(({ written }) => written[place]),
      ),
    ),
  );
}

function progressOf({ steps, loss, share }) {
  const values = { step: steps, loss: loss === null ? '–' : fixed(loss, 3), share: Math.round(100 * share) };
  return say('Step {step} · loss {loss} · {share} % of unseen words', values);
}

function wordRow(task, text, written) {
  const right = task.write(text);
  const cells = written.map((one) => {
    if (!one.isReadable) return element('td', {}, say('This task does not know all of these letters.'));
    return element(
      'td',
      { class: one.text === right ? 'hl-play-right' : null },
      one.text,
      one.text === right ? ' ✓' : '',
    );
  });
  return element('tr', {}, element('th', { scope: 'row' }, text), element('td', {}, right), ...cells);
}

function drawCharts({ charts, frames, settings }, marked) {
  const last = frames.at(-1)[0].steps;
  const lines = (valueOf) =>
    settings.map((_, side) => ({
      name: settings.length > 1 ? 'AB'[side] : '',
      points: frames
        .filter((each) => valueOf(each[side]) !== null)
        .map((each) => [each[side].steps, valueOf(each[side])]),
    }));
  const axis = { first: 0, last, marked };
  const chart = (title, valueOf, format) => (last === 0 ? null : drawChart(title, lines(valueOf), { ...axis, format }));
  const found = [
    chart(
      say('Loss'),
      ({ loss }) => loss,
      (value) => fixed(value, 2),
    ),
    chart(
      say('Unseen words right, %'),
      ({ share }) => 100 * share,
      (value) => fixed(value, 0),
    ),
  ];
  charts.replaceChildren(...found.filter(Boolean));
}
