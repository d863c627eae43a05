// The bar of Side by side: it chooses the second view and how the matrices are shown, and it shows notices.

import { createButton, element, readable } from '../drawing/dom.js';
import { askTraining, showTrainingStep } from '../transport/views.js';
import { NO_SIDE_B, besideQuestion, isSubtracted, lackOf, recordOfB, whySeparate } from '../state/comparison.js';
import { whyNot } from '../transport/requests.js';
import { differs, trainingStep } from '../state/queries.js';
import { actionButton, tabs } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

const LONGEST_TEXT = 2000; // characters that fit into a link
const OF_B = ['busy', 'waiting', 'error', 'record', 'kind', 'layer', 'head', 'selection'];

// `clients` are the clients of A and of B. `otherModels` gives the other models of the page, { name, title, to } each.
export function createBar(clients, otherModels) {
  const [client] = clients;
  const { store } = client;
  const choose = (choice) => store.change({ sideB: { ...NO_SIDE_B, ...choice } });
  const model = createList(say('Another model'), (name) =>
    choose({ by: 'model', ...modelOf(otherModels, store, name) }),
  );
  const step = createList(say('Another training step'), (value) => chooseStep(client, value, choose));
  const sentence = createSentence((text) => choose({ by: 'sentence', with: text }));
  const set = (separate) => store.change({ sideB: { ...store.get().sideB, separate } });
  const difference = createButton('hl-tab', () => set(false), { title: say('A minus B') }, say('Difference'));
  const separate = createButton('hl-tab', () => set(true), {}, say('Next to each other'));
  const notice = element('p', { class: 'hl-beside-notice hl-soft', role: 'status' });
  const close = actionButton(say('Close'), () => store.change({ sideB: null }));
  const node = element(
    'section',
    { class: 'hl-beside-bar', 'aria-label': say('Side by side') },
    element('div', { class: 'hl-beside-choices' }, model, step, sentence),
    notice,
    tabs(say('Matrices'), difference, separate),
    close,
  );
  const parts = { clients, otherModels, model, step, sentence, difference, separate, notice };
  store.subscribe((state, before) => renderBar(parts, state, before));
  clients[1].store.subscribe((now, before) => {
    if (store.get().sideB !== null && differs(now, before, OF_B)) writeNotice(parts, store.get());
  });
  return node;
}

function createList(label, act) {
  const list = element('select', { class: 'hl-box', 'aria-label': label });
  list.addEventListener('change', () => list.value !== '' && act(list.value));
  return list;
}

function createSentence(act) {
  const texts = { placeholder: say('Another sentence, then Enter'), 'aria-label': say('Another sentence') };
  const box = element('input', { class: 'hl-box', dir: 'auto', maxlength: LONGEST_TEXT, ...texts });
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.isComposing && box.value.trim() !== '') act(box.value.trim());
  });
  return box;
}

function modelOf(otherModels, store, chosen) {
  const { name, to } = otherModels(store.get().record).find((one) => one.name === chosen);
  return { with: name, to };
}

// Training steps are compared on a sentence that the training saved. If A shows no step yet, it shows the last one first.
async function chooseStep(client, value, choose) {
  const { store } = client;
  const { steps } = store.get().trainings[store.get().record.model.name];
  if (!trainingStep(store.get()) && !(await showTrainingStep(client, steps.at(-1), 0))) return;
  choose({ by: 'step', with: value });
  store.change({ panel: 'training' }); // whose slider chooses the step of A
}

function renderBar(parts, state, before) {
  const { model, step, sentence, difference, separate, clients } = parts;
  if (state.sideB === null) return;
  // Only a choice replaces the sentence: an answer that arrives must not throw away what is being typed.
  const text = sentenceOf(state);
  if (before.sideB === null || text !== sentenceOf(before)) sentence.value = text;
  if (state.record === null) return;
  const opened = before.sideB === null || before.record === null;
  if (opened || differs(state, before, ['sideB', 'record', 'trainings'])) {
    drawModels(parts, state);
    drawSteps(parts, state);
    sentence.disabled = whyNot(clients[0], 'beside') !== null;
    model.disabled = sentence.disabled || model.options.length === 1;
    step.disabled = sentence.disabled || step.options.length === 1;
  }
  const record = recordOfB(state);
  const canSubtract = record !== null && whySeparate(state, record) === '';
  difference.disabled = !canSubtract;
  separate.disabled = record === null;
  difference.setAttribute('aria-pressed', isSubtracted(state));
  separate.setAttribute('aria-pressed', record !== null && !isSubtracted(state));
  writeNotice(parts, state);
  if (opened || state.record !== before.record) askForSteps(clients[0], state);
}

const sentenceOf = ({ sideB }) => (sideB.by === 'sentence' ? sideB.with : '');

function drawModels({ otherModels, model }, { record, sideB }) {
  const models = otherModels(record);
  const title = models.length > 0 ? say('Another model …') : say('There is no other model');
  fillList(
    model,
    title,
    models.map(({ name, title: text }) => [name, text]),
  );
  model.value = sideB.by === 'model' ? sideB.with : '';
}

function drawSteps({ step }, { record, trainings, sideB }) {
  const steps = trainings[record.model.name]?.steps ?? [];
  const title = steps.length > 0 ? say('Another training step …') : say('No saved training steps');
  fillList(
    step,
    title,
    steps.map((one) => [one, say('step {step}', { step: one })]),
  );
  step.value = sideB.by === 'step' ? sideB.with : '';
}

function fillList(list, title, choices) {
  const options = [['', title], ...choices];
  list.replaceChildren(...options.map(([value, text]) => element('option', { value }, readable(text))));
}

function askForSteps(client, { record, trainings }) {
  if (!trainings[record.model.name] && !whyNot(client, 'training')) askTraining(client);
}

// One sentence: what is being asked, what went wrong, or why the sides are shown as they are.
function writeNotice({ clients, notice }, state) {
  const states = clients.map(({ store }) => store.get());
  const error = states.find((one) => one.error)?.error;
  const busy = states.find((one) => one.busy)?.busy;
  const text = busy ? `${busy.what} … ${busy.waiting}` : (error ?? remarkOf(clients, state));
  if (notice.textContent === text) return;
  notice.textContent = notice.title = text;
  notice.classList.toggle('hl-loss', !busy && Boolean(error));
}

function remarkOf([client, { store: storeOfB }], state) {
  const refusal = whyNot(client, 'beside');
  if (refusal) return refusal;
  const { sideB } = state;
  if (!sideB?.by) return say('Choose a second view, B: another model, training step or sentence.');
  if (sideB.by === 'step' && besideQuestion(state) === null)
    return say('A shows no training step any more. Choose a step again, or something else.');
  const record = recordOfB(state);
  if (record === null || record !== storeOfB.get().record) return '';
  const remark = whySeparate(state, record) || lackOf('A', storeOfB.get(), state.record);
  return remark || say('Words that differ have a dotted frame. The tab Head ranks the heads by how much they differ.');
}
