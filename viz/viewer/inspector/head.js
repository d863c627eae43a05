// The panel Head: the role and the measures of the chosen head.

import { element, replaceKeepingFocus } from '../drawing/dom.js';
import { fixed, wholePercent } from '../drawing/numbers.js';
import { measuresOf } from '../state/measures.js';
import { evidenceOf, isTaught, nearestRole, roleDefinition, rolesWithoutCase } from '../domain/roles.js';
import { sum } from '../domain/math.js';
import { axes } from '../domain/payload.js';
import { titleOfHeads } from '../state/labels.js';
import { aboutModel, differs } from '../state/queries.js';
import { chosenHeads, isMemory } from '../domain/heads.js';
import { note, numberText, roleSymbol, rug, sayNote } from '../drawing/widgets.js';
import { createQuestion } from '../instruments/question.js';
import { corpus } from '../instruments/corpus.js';
import { removal } from '../instruments/removal.js';
import { createCorpusCard } from '../corpus/card.js';
import { createFinder } from '../corpus/finder.js';
import { differingHeads } from './rankings.js';
import { say, sayCount, tell } from '../locales/language.js';

export function createHeadCard(client) {
  const [differences, card] = [element('div'), { role: element('div'), rest: element('div') }];
  const ofRemoval = createQuestion(client, removal);
  const questions = [createQuestion(client, { ...corpus, create: createCorpusCard }), createFinder(client), ofRemoval];
  return {
    node: element('div', {}, differences, card.role, ...questions.map(({ node }) => node), card.rest),
    draw(state, before) {
      const moved = differs(state, before, ['record', 'kind', 'layer', 'head', 'selection', 'about']);
      if (moved) drawCard(card, state);
      ofRemoval.node.hidden = isMemory(state.record, state.kind);
      if (moved || differs(state, before, ['sideB', 'beside']))
        replaceKeepingFocus(differences, ...differingHeads(client.store, state));
      for (const one of questions) one.draw(state, before);
    },
  };
}

// Says that a statement is about the model: the study measured many sentences.
function studied(state) {
  const { study } = aboutModel(state);
  return element(
    'span',
    { class: 'hl-soft' },
    study ? say('Over {count} sentences:', { count: study.sentences }) : say('Over many sentences:'),
  );
}

// The names of the open definitions, which stay open on the next head.
const openNames = (node) => new Set([...node.querySelectorAll('details[open]')].map((one) => one.dataset.name));

function drawCard({ role, rest }, state) {
  role.replaceChildren(element('section', { class: 'hl-part' }, ...roleOf(state, chosenHeads(state))));
  rest.replaceChildren(...(isMemory(state.record, state.kind) ? [] : [measuresOfHeads(state, openNames(rest))]));
}

function measuresOfHeads(state, open) {
  const heads = chosenHeads(state);
  const { rows } = axes(state.record, state.kind);
  const roles = [...new Set(heads.map(([kind, layer, head]) => state.record.roles[kind][layer][head]))];
  return element(
    'details',
    { class: 'hl-part hl-measures', 'data-name': 'all', open: open.has('all') },
    element('summary', {}, element('h3', {}, say('Measures'))),
    ...(roles.length === 1 ? [note(roleDefinition(state.record, roles[0]))] : []),
    element('h4', {}, cardTitle(state, heads)),
    note(
      sayCount(
        rows.length,
        'Over the {count} row of this sentence. Each tick is one head of this kind.',
        'Over the {count} rows of this sentence. Each tick is one head of this kind.',
      ),
    ),
    ...measuresOf(state.record).map((measure) => rowOfMeasure(state, heads, measure, open.has(measure.name))),
  );
}

function cardTitle(state, heads) {
  const layer = state.layer + 1;
  if (state.selection.length > 0) return sayCount(heads.length, 'Mean of {count} head', 'Mean of {count} heads');
  if (state.head !== null) return titleOfHeads(state);
  return sayCount(heads.length, 'Layer {layer}, mean of {count} head', 'Layer {layer}, mean of {count} heads', {
    layer,
  });
}

function roleOf(state, heads) {
  const { record, kind } = state;
  const roles = heads.map(([, layer, head]) => record.roles[kind][layer][head]);
  const names = [...new Set(roles)];
  if (heads.length === 1) return roleOfOne(state, heads[0], roles[0]);
  if (names.length === 1) return [sayNote('Role of each head in this sentence'), roleName(record, names[0])];
  const counted = names.map((name) => `${roles.filter((role) => role === name).length} ${tell(name)}`);
  return [
    sayNote('Roles in this sentence'),
    element('p', { class: 'hl-role' }, say('Various')),
    note(counted.join(', ')),
  ];
}

/** @type {(state: State, one: Head, role: string) => (Node | string)[]} */
function roleOfOne(state, one, role) {
  const { record } = state;
  const nearest = nearestRole(record, one);
  const lines =
    role === 'mixed' && nearest
      ? [
          roleName(record, role),
          sayNote('nearest: {role}; the role needs {least} %', {
            role: shareOfRole(nearest),
            least: wholePercent(nearest.least),
          }),
        ]
      : [roleName(record, role)];
  const taught =
    isTaught(record, ...one) && aboutModel(state).origin
      ? [
          sayNote(
            'Taught to align: its card names guided alignment, for which Marian by default teaches this head word links.',
          ),
        ]
      : []; // the title of the matrix says it of a model of this project
  return [sayNote('Role in this sentence'), ...lines, ...studiedRole(state, one, role), ...taught];
}

// "previous token 63 %".
const shareOfRole = ({ role, value }) => say('{role} {share} %', { role: tell(role), share: wholePercent(value) });

// The role over the corpus: the share of the same role, or the other role, pale where this sentence has no case of it.
function studiedRole(state, one, here) {
  const { record } = state;
  const { study } = aboutModel(state);
  const [kind, layer, head] = one;
  const role = study?.roles[kind][layer]?.[head];
  if (!role || isMemory(record, kind)) return [];
  if (role === here && role !== 'mixed')
    return [
      // The measure is explained where it stands among the measures.
      element(
        'p',
        { class: 'hl-soft hl-terms-not' },
        bothShares(record, study, one, role),
        ...ofEvenRows(record, kind, role),
      ),
    ];
  const nearest = nearestRole({ ...study, definitions: record.definitions }, one);
  if (role !== 'mixed' && nearest && rolesWithoutCase(record, kind).includes(role))
    return [
      element('p', { class: 'hl-role hl-no-case' }, ...roleName(record, role).childNodes),
      sayNote('no case in this sentence, where even rows would have this role; {share} % over {count} sentences', {
        share: wholePercent(evidenceHere({ ...study, definitions: record.definitions }, one, role)),
        count: study.sentences,
      }),
    ];
  const value = evidenceHere({ ...study, definitions: record.definitions }, one, role);
  const found =
    role === 'mixed' && nearest
      ? say('mixed, nearest: {role}', { role: shareOfRole(nearest) })
      : shareOfRole({ role, value });
  return [note(studied(state), ' ', found)];
}

// How clear a role is here and over the corpus, by what its measure counts; payloads of release 0.2 have no sentence for it.
function bothShares({ definitions, measures }, study, one, role) {
  const { measure } = definitions.roles[role];
  const { comparison = '' } = definitions.measures.find(({ name }) => name === measure);
  const share = (of) => wholePercent(evidenceHere({ definitions, measures: of.measures }, one, role));
  return tell([comparison, { here: share({ measures }), there: share(study), count: study.sentences }]);
}

// What rows without any preference would have: in a short sentence that may be much.
function ofEvenRows({ even }, kind, role) {
  const share = even?.[kind]?.[role];
  return share > 0 ? [' ', say('Even rows have {share} % here.', { share: wholePercent(share) })] : [];
}

const evidenceHere = ({ definitions, measures }, [kind, layer, head], role) =>
  evidenceOf(definitions, role, kind, (name) => measures[kind][String(name)][layer][head]) ?? 0;

function roleName(record, role) {
  const name = tell(role);
  return element('p', { class: 'hl-role' }, roleSymbol(record, role), name[0].toUpperCase() + name.slice(1));
}

// The mean over the heads for which the measure has a meaning; null if there are none.
function meanOf({ record, kind }, name, heads) {
  const table = record.measures[kind][name];
  const values = heads.map(([, layer, head]) => table[layer][head]).filter((value) => value !== null);
  return values.length === 0 ? null : sum(values) / values.length;
}

// Null where the measure has no meaning.
function rowOfMeasure(state, heads, measure, open) {
  const { record, kind } = state;
  const { name, label, unit, digits, maximum, definition } = measure;
  const mean = meanOf(state, name, heads);
  if (mean === null) return null;
  const all = record.measures[kind][name].flat().filter((value) => value !== null);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const ends = { least: fixed(least, digits), most: fixed(most, digits) };
  const range = sayCount(
    all.length,
    'All {count} head: {least} to {most}.',
    'All {count} heads: {least} to {most}.',
    ends,
  );
  return element(
    'details',
    { class: 'hl-measure', 'data-name': name, open },
    element(
      'summary',
      {},
      element('span', {}, label),
      rug(all, mean, maximum ?? (most || 1)),
      numberText(`${fixed(mean, digits)}${unit}${offsetText(state, measure, heads)}`),
    ),
    note(`${definition} ${sampleText(state, measure, heads)} ${range}`),
  );
}

// The offset that a measure is about, if all the heads have the same one.
function offsetText({ record, kind }, { offset: table }, heads) {
  const offsets = new Set(heads.map(([, layer, head]) => table && record.measures[kind][table][layer][head]));
  const [offset] = offsets;
  if (!table || offsets.size > 1) return '';
  return ` ${say('at {offset}', { offset: `${offset > 0 ? '+' : ''}${fixed(offset, 0)}` })}`;
}

function sampleText({ record, kind }, { sample, without_end: withoutEnd }, heads) {
  const { source, predicted } = record.tokens;
  const rows = kind === 'encoder' ? source : predicted;
  const count = rows.filter(({ special, text }) => !(withoutEnd && special && text === '</s>')).length;
  if (!sample || heads.length > 1)
    return sayCount(count, 'Measured over {count} query.', 'Measured over {count} queries.');
  const [[, layer, head]] = heads;
  return sayCount(
    count,
    'Measured over the {able} of {count} query that can have this offset.',
    'Measured over the {able} of {count} queries that can have this offset.',
    { able: record.measures[kind][sample][layer][head] },
  );
}
