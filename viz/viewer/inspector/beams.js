// The hypotheses of a sentence, and the tree of all hypotheses that beam search considered.

import { createButton, element, readable, replaceKeepingFocus, shape, tokenText, visible } from '../drawing/dom.js';
import { askBeams } from '../transport/effects.js';
import { showHypothesis } from '../transport/views.js';
import { fixed, forPointer } from '../drawing/numbers.js';
import { logP } from '../state/labels.js';
import { strongest } from '../domain/math.js';
import { targetIds } from '../domain/payload.js';
import { refusalIn, whyNot } from '../transport/requests.js';
import { differs, trainingStep } from '../state/queries.js';
import { actionButton, addRovingFocus, choiceItem, note, numberText, sayNote, section } from '../drawing/widgets.js';
import { say, sayCount, tell } from '../locales/language.js';

const STATUS = { kept: () => say('kept'), pruned: () => say('pruned'), finished: () => say('finished') };
const STRIDE = 80; // of one step, in sixteenths of a rem
const LINE = 24; // of one node
const scoreTitle = () =>
  say('log p divided by the length penalty ((5 + tokens) / 6) ^ α: beam search compares these scores (Wu et al. 2016)');
const treeHint = () =>
  forPointer(
    say('Point at a token to read why it was kept or pruned. Click it to see its attention.'),
    say('Tap a token to read why it was kept or pruned and to see its attention.'),
  );

export function createBeams(client) {
  const list = element('ol', { class: 'hl-hypotheses' });
  const tree = element('div');
  const node = section(say('Hypotheses'), list, note(logP()), tree);
  return {
    node,
    draw(state, before) {
      const changed = differs(state.home, before.home, ['record', 'beams']);
      if (changed || state.record !== before.record) drawList(client, list, state);
      // While hypotheses are shown, the tree keeps its scroll position and its focus.
      if (changed || trainingStep(state) !== trainingStep(before)) drawTree(client, tree, state.home);
    },
  };
}

// The hypotheses of the tree. Without a tree the best hypothesis alone: the search stops when no other can win, so the second
// one that it knows need not be the second best. A forced translation has hypotheses of its own.
function hypothesesOf({ shown, record, home }) {
  if (shown?.type === 'forced') return record.hypotheses.slice(0, 1);
  return home.beams?.hypotheses ?? home.record.hypotheses.slice(0, 1);
}

function drawList(client, list, state) {
  const found = hypothesesOf(state);
  const shown = targetIds(state.record).join();
  const disabled = whyNot(client, 'target') !== null;
  replaceKeepingFocus(
    list,
    ...found.map(({ text, ids, score }) => {
      const show = () => showHypothesis(client, ids);
      const words = element('span', { dir: 'auto' }, text === '' ? say('(nothing)') : readable(text));
      const attributes = { 'aria-pressed': String(ids.join() === shown), disabled };
      const number = numberText(say('score {score}', { score: fixed(score) }), { title: scoreTitle() });
      return choiceItem(show, attributes, words, number);
    }),
  );
}

// The tree belongs to the model's own translation, also while another record is shown.
function drawTree(client, node, { beams }) {
  const reason = whyNot(client, 'beams');
  if (reason) node.replaceChildren(note(refusalIn(client, reason)));
  else if (beams)
    replaceKeepingFocus(
      node,
      sayNote('All hypotheses that a search with beam size {size} considered, with their scores.', {
        size: beams.beam_size,
      }),
      ...treeOf(client, beams),
    );
  else node.replaceChildren(actionButton(say('Draw the beam tree'), () => askBeams(client)));
}

function treeOf(client, { nodes }) {
  const places = placesOf(nodes);
  const steps = Math.max(...nodes.map(({ step }) => step)) + 1;
  const lines = Math.max(...places.map(({ line }) => line)) + 1;
  const best = bestPath(nodes);
  const readout = element('p', { class: 'hl-soft hl-reason' }, treeHint());
  const buttons = nodes.map((one, index) => nodeOf(client, nodes, index, places[index], best, readout));
  addRovingFocus(buttons, (place, key) => neighbour(nodes, places, place, key));
  const name = sayCount(nodes.length, 'Beam tree of {count} hypothesis', 'Beam tree of {count} hypotheses');
  const attributes = { class: 'hl-tree', role: 'group', 'aria-label': name };
  const field = element('div', attributes, edges(nodes, places, best, steps, lines), ...buttons);
  field.style.width = rem(steps * STRIDE);
  field.style.height = rem(lines * LINE);
  field.addEventListener('pointerleave', () => readout.replaceChildren(treeHint()));
  return [element('div', { class: 'hl-scroll hl-tree-scroll' }, field), readout];
}

// The step and the line of each node. Nodes of a step are ordered from the best score to the worst.
function placesOf(nodes) {
  const filled = [];
  return nodes.map(({ step }) => {
    filled[step] = (filled[step] ?? 0) + 1;
    return { step, line: filled[step] - 1 };
  });
}

function pathTo(nodes, index) {
  const path = [];
  for (let at = index; at !== null; at = nodes[at].parent) path.unshift(at);
  return path;
}

function bestPath(nodes) {
  const scores = nodes.map(({ status, score }) => (status === 'finished' ? score : -Infinity));
  const best = strongest(scores);
  return new Set(scores[best] === -Infinity ? [] : pathTo(nodes, best));
}

function nodeOf(client, nodes, index, { step, line }, best, readout) {
  const { token, status, reason, log_probability: chance, score } = nodes[index];
  const path = pathTo(nodes, index).map((at) => nodes[at].token);
  const ids = path.map(({ id }) => id);
  const facts = say('step {step}, {status}: {reason}. log p {chance}, score {score}', {
    step: step + 1,
    status: STATUS[status](),
    reason: tell(reason),
    chance: fixed(chance),
    score: fixed(score),
  });
  const showFacts = () => readout.replaceChildren('“', tokenText(token), `” ${facts}`);
  const classes = `hl-node hl-node-${status} ${best.has(index) ? 'hl-best' : ''}`.trim();
  const show = () => showHypothesis(client, ids, status);
  const attributes = { 'aria-label': `${visible(token)}, ${facts}`, onpointerenter: showFacts, onfocus: showFacts };
  const button = createButton(classes, show, attributes, tokenText(token));
  button.style.left = rem(step * STRIDE);
  button.style.top = rem(line * LINE);
  return button;
}

function edges(nodes, places, best, steps, lines) {
  const middle = ({ line }) => line * LINE + LINE / 2;
  const paths = nodes.flatMap(({ parent, status }, index) => {
    if (parent === null) return [];
    const [from, to] = [places[parent], places[index]];
    const [left, right] = [to.step * STRIDE - 16, to.step * STRIDE];
    const line = `M${left} ${middle(from)}C${left + 8} ${middle(from)} ${right - 8} ${middle(to)} ${right} ${middle(to)}`;
    return [shape('path', { d: line, class: best.has(index) ? 'hl-best' : `hl-node-${status}` })];
  });
  const size = [steps * STRIDE, lines * LINE];
  return shape(
    'svg',
    { viewBox: `0 0 ${size.join(' ')}`, width: '100%', height: '100%', 'aria-hidden': 'true' },
    ...paths,
  );
}

const rem = (sixteenths) => `${sixteenths / 16}rem`;

// Left goes to the parent, right to the best continuation, up and down to the other nodes of the step.
function neighbour(nodes, places, place, key) {
  const { step, line } = places[place];
  const inLine = (other) => places.findIndex((one) => one.step === step && one.line === other);
  if (key === 'ArrowLeft') return nodes[place].parent ?? place;
  const to = {
    ArrowRight: nodes.findIndex(({ parent }) => parent === place),
    ArrowUp: inLine(line - 1),
    ArrowDown: inLine(line + 1),
  }[key];
  return to === -1 ? place : to;
}
