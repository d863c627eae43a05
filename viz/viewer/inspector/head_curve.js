// How the head on screen got its role: the measure of the role at each saved step of the training.

import { element } from '../drawing/dom.js';
import { askTrainingHeads } from '../transport/views.js';
import { fixed } from '../drawing/numbers.js';
import { titleOfHeads } from '../state/labels.js';
import { labelOfMeasure } from '../state/measures.js';
import { nearestRole, offsetsOf } from '../domain/roles.js';
import { chosenHeads } from '../domain/heads.js';
import { trainingStep } from '../state/queries.js';
import { actionButton, actions, note, sayNote } from '../drawing/widgets.js';
import { axisOfSteps, drawChart } from '../drawing/line_chart.js';
import { say, tell } from '../locales/language.js';

// Draws into `node` what is known of the head on screen; `training` is the record of the model's training.
export function drawHeadCurve(client, node, state, training) {
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
