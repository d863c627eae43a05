// The hypotheses of a sentence, and the tree of everything that beam search considered on the way to them.

import { element, readable, shape, tokenText, visible } from '../core/dom.js';
import { differs } from '../core/store.js';
import { readRecord, request, whyNot } from '../core/requests.js';
import { changeHome, homeOf, leave, visit } from '../core/visit.js';
import { figure, fixed, note, part, plural, pressable, roving } from '../core/widgets.js';

const LEAST_BEAM = 4; // a greedy search has no tree worth drawing
const STRIDE = 80; // pixels of one step
const RANK = 24; // pixels of one node
const SCORE = 'log p over the length penalty ((5 + tokens) / 6) ^ α: what beam search compares (Wu et al. 2016)';
const TREE_HINT = 'Point at a token to read its fate, click it to see its own attention.';

export function createBeams(store, ask) {
  const list = element('ol', { class: 'hl-hypotheses' });
  const tree = element('div');
  const node = part('Hypotheses', list, tree);
  return {
    node,
    draw(state, before) {
      const [home, former] = [homeOf(state), homeOf(before)];
      if (differs(state, before, ['record']) || differs(home, former, ['beams'])) drawList(store, ask, list, state);
      if (home.record !== former.record || home.beams !== former.beams || state.visit?.what !== before.visit?.what)
        drawTree(store, ask, tree, state);
    },
  };
}

function drawList(store, ask, list, state) {
  const { record, beams } = homeOf(state);
  const found = beams?.hypotheses ?? record.hypotheses;
  const shown = idsOf(state.record).join();
  list.replaceChildren(
    ...found.map(({ text, ids, score }) =>
      element(
        'li',
        {},
        element(
          'button',
          {
            type: 'button',
            class: 'hl-choice',
            'aria-pressed': String(ids.join() === shown),
            disabled: whyNot(state, ask, 'target') !== null,
            onclick: () => showTarget(store, ask, ids, `hypothesis “${readable(text)}”`),
          },
          element('span', { dir: 'auto' }, text === '' ? '(nothing)' : readable(text)),
          scoreOf(score),
        ),
      ),
    ),
  );
}

function scoreOf(score) {
  const label = figure(`score ${fixed(score)}`);
  label.title = SCORE;
  return label;
}

function idsOf(record) {
  return record.tokens.predicted.map(({ id }) => id);
}

// The attention of exactly these tokens; those of the model's own translation are already at home.
async function showTarget(store, ask, ids, label) {
  if (idsOf(homeOf(store.get()).record).join() === ids.join()) return leave(store);
  const record = await request(store, ask, 'target', { do: 'target', ids }, readRecord);
  if (record) visit(store, record, { what: 'hypothesis', label });
  return undefined;
}

function drawTree(store, ask, node, state) {
  const { beams, record } = homeOf(state);
  const reason = whyNot(state, ask, 'beams');
  if (reason) node.replaceChildren(note(reason));
  else if (beams)
    node.replaceChildren(
      note(`what a search with beam size ${beams.beam_size} considered; each with its score`),
      ...treeOf(store, ask, beams),
    );
  else node.replaceChildren(pressable('Draw the beam tree', () => askBeams(store, ask, record)));
}

async function askBeams(store, ask, { options }) {
  const beam = Math.max(LEAST_BEAM, options.beam_size);
  const answer = await request(store, ask, 'beams', { do: 'beams', beam_size: beam });
  if (answer) changeHome(store, { beams: answer });
}

function treeOf(store, ask, { nodes }) {
  const places = standing(nodes);
  const steps = Math.max(...nodes.map(({ step }) => step)) + 1;
  const lines = Math.max(...places.map(({ line }) => line)) + 1;
  const best = bestPath(nodes);
  const readout = element('p', { class: 'hl-soft hl-fate' }, TREE_HINT);
  const buttons = nodes.map((one, index) => nodeOf(store, ask, nodes, index, places[index], best, readout));
  roving(buttons, (place, key) => neighbour(nodes, places, place, key));
  const field = element(
    'div',
    {
      class: 'hl-tree',
      role: 'group',
      'aria-label': `Beam tree of ${plural(nodes.length, 'hypothesis', 'hypotheses')}`,
    },
    edges(nodes, places, best, steps, lines),
    ...buttons,
  );
  field.style.width = `${steps * STRIDE}px`;
  field.style.height = `${lines * RANK}px`;
  field.addEventListener('pointerleave', () => readout.replaceChildren(TREE_HINT));
  return [element('div', { class: 'hl-scroll hl-tree-scroll' }, field), readout];
}

// One column for each step; in a column the best hypothesis first.
function standing(nodes) {
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
  const finished = nodes.flatMap(({ status }, index) => (status === 'finished' ? [index] : []));
  const winner = finished.reduce(
    (best, index) => (best === null || nodes[index].score > nodes[best].score ? index : best),
    null,
  );
  return new Set(winner === null ? [] : pathTo(nodes, winner));
}

function nodeOf(store, ask, nodes, index, { step, line }, best, readout) {
  const { token, status, reason, log_probability: chance, score } = nodes[index];
  const ids = pathTo(nodes, index).map((at) => nodes[at].token.id);
  const facts = `step ${step + 1}, ${status}: ${reason}. log p ${fixed(chance)}, score ${fixed(score)}`;
  const tell = () => readout.replaceChildren('“', tokenText(token), `” ${facts}`);
  const classes = `hl-node hl-${status} ${best.has(index) ? 'hl-best' : ''}`.trim();
  const text = pathTo(nodes, index)
    .map((at) => visible(nodes[at].token))
    .join(' ');
  const button = element(
    'button',
    {
      type: 'button',
      class: classes,
      'aria-label': `${visible(token)}, ${facts}`,
      onclick: () => showTarget(store, ask, ids, `${status} hypothesis “${text}”`),
      onpointerenter: tell,
      onfocus: tell,
    },
    tokenText(token),
  );
  button.style.left = `${step * STRIDE}px`;
  button.style.top = `${line * RANK}px`;
  return button;
}

function edges(nodes, places, best, steps, lines) {
  const middle = ({ line }) => line * RANK + RANK / 2;
  const paths = nodes.flatMap(({ parent, status }, index) => {
    if (parent === null) return [];
    const [from, to] = [places[parent], places[index]];
    const [left, right] = [to.step * STRIDE - 16, to.step * STRIDE];
    const line = `M${left} ${middle(from)}C${left + 8} ${middle(from)} ${right - 8} ${middle(to)} ${right} ${middle(to)}`;
    return [shape('path', { d: line, class: best.has(index) ? 'hl-best' : `hl-${status}` })];
  });
  return shape('svg', { width: steps * STRIDE, height: lines * RANK, 'aria-hidden': 'true' }, ...paths);
}

// Left is the parent, right the best continuation, up and down the rivals of the same step.
function neighbour(nodes, places, place, key) {
  const stands = (line) =>
    nodes.findIndex((_, index) => places[index].step === places[place].step && places[index].line === line);
  if (key === 'ArrowLeft') return nodes[place].parent ?? place;
  if (key === 'ArrowRight')
    return Math.max(
      place,
      nodes.findIndex(({ parent }) => parent === place),
    );
  if (key === 'ArrowUp') return Math.max(0, stands(Math.max(0, places[place].line - 1)));
  if (key === 'ArrowDown') return stands(places[place].line + 1) === -1 ? place : stands(places[place].line + 1);
  return null;
}
