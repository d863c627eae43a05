// The inspector: what the chosen head is like, and the likeliest words of the step in focus.

import { element, tokenText, visible } from './dom.js';
import { axes, matrixOf } from './payload.js';
import { confidence, isPunctuation, isSpecial, massOn, meanEntropy } from './measures.js';
import { selectionChanged } from './state.js';

const MEASURES = [
  {
    name: 'confidence',
    meaning: 'Mean over rows of the largest weight, the end of the sentence left out (Voita et al. 2019).',
    of: (matrix, columns) => confidence(matrix, columns).toFixed(2),
  },
  {
    name: 'entropy',
    meaning: 'Mean over rows of the entropy: 0 when each row looks at one token, higher when it spreads.',
    of: (matrix) => `${meanEntropy(matrix).toFixed(2)} bit`,
  },
  {
    name: 'weight on special tokens',
    meaning: 'Mean share of a row that rests on tokens such as <s> and </s>.',
    of: (matrix, columns) => massOn(matrix, columns, isSpecial).toFixed(2),
  },
  {
    name: 'weight on punctuation',
    meaning: 'Mean share of a row that rests on punctuation.',
    of: (matrix, columns) => massOn(matrix, columns, isPunctuation).toFixed(2),
  },
];

export function createInspector(store) {
  const title = element('h2');
  const sample = element('p', { class: 'hl-soft' });
  const values = MEASURES.map(() => element('span', { class: 'hl-number' }));
  const rows = MEASURES.map(({ name, meaning }, index) =>
    element(
      'details',
      { class: 'hl-measure' },
      element('summary', {}, element('span', {}, name), values[index]),
      element('p', { class: 'hl-soft' }, meaning),
    ),
  );
  const stepTitle = element('h2');
  const next = element('ol', { class: 'hl-next' });
  const others = element('ol', { class: 'hl-others' });
  const othersPart = element('div', { class: 'hl-part' }, element('h2', {}, 'Other translations found'), others);
  const node = element(
    'section',
    { class: 'hl-panel hl-inspector', 'aria-label': 'Inspector' },
    element('div', { class: 'hl-part' }, title, sample, ...rows),
    element('div', { class: 'hl-part' }, stepTitle, next),
    othersPart,
  );
  const parts = { title, sample, values, stepTitle, next, others, othersPart };
  store.subscribe((state, before) => renderInspector(parts, state, before));
  return node;
}

function renderInspector(parts, state, before) {
  if (!state.record) return;
  if (selectionChanged(state, before)) drawHead(parts, state);
  if (state.record !== before.record || state.step !== before.step) drawStep(parts, state);
  if (state.record !== before.record) drawOthers(parts, state.record);
}

function drawHead({ title, sample, values }, state) {
  const { columns } = axes(state.record, state.kind);
  const matrix = matrixOf(state.record, state.kind, state.layer, state.head);
  title.textContent = state.head === null ? `Layer ${state.layer + 1}, average` : `Layer ${state.layer + 1}, head ${state.head + 1}`;
  sample.textContent = `over the ${matrix.rows} ${matrix.rows === 1 ? 'row' : 'rows'} of this sentence`;
  MEASURES.forEach(({ of }, index) => {
    values[index].textContent = of(matrix, columns);
  });
}

function drawStep({ stepTitle, next }, { record, step }) {
  const { read, predicted } = record.tokens;
  stepTitle.replaceChildren('Next word after “', tokenText(read[step]), '”');
  next.replaceChildren(
    ...record.alternatives[step].map((one) => {
      const probability = Math.exp(one.log_probability);
      const bar = element('span', { class: 'hl-chance', 'aria-hidden': 'true' });
      bar.style.setProperty('--hl-share', `${100 * probability}%`);
      const taken = one.piece === predicted[step].piece;
      return element(
        'li',
        { class: taken ? 'hl-taken' : null, title: taken ? `${visible(one)} was taken` : null },
        tokenText(one),
        bar,
        element('span', { class: 'hl-number' }, probability.toFixed(3)),
      );
    }),
  );
}

function drawOthers({ others, othersPart }, record) {
  const rest = record.hypotheses.filter(({ text }) => text !== record.text);
  othersPart.hidden = rest.length === 0;
  others.replaceChildren(
    ...rest.map(({ text, score }) =>
      element(
        'li',
        {},
        element('span', { dir: 'auto' }, text),
        element('span', { class: 'hl-number' }, score.toFixed(2).replace('-', '−')),
      ),
    ),
  );
}
