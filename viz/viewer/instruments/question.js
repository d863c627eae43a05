// An instrument as a line that opens: a question, and its answer while it is open.

import { element, replaceKeepingFocus } from '../drawing/dom.js';
import { askQuestion } from '../transport/effects.js';
import { isAnswered, toggleQuestion } from '../state/questions.js';
import { SUBJECTS, questionOf } from './instruments.js';
import { refusalIn, whyNot } from '../transport/requests.js';
import { differs } from '../state/queries.js';
import { note, offer, scrollToTop } from '../drawing/widgets.js';
import { say } from '../locales/language.js';

const INPUTS = [...SUBJECTS, 'answers', 'busy', 'linkedBy', 'drawing', 'flow', 'beside'];

// Of an instrument, `draw(state, answer, question)` returns the elements of an answer, and `nothing(state)` says in one
// sentence why there is nothing to ask about. `controls`, { node, draw(state, before, refusal) }, are what the person can
// enter; the refusal says why the instrument cannot be asked, if it cannot. The last answer stays, in pale colours, until
// the next one arrives.
/** @type {(client: Client, instrument: Pick<Instrument, 'name' | 'title'> & { create: NonNullable<Instrument['create']> }) => { node: HTMLElement; draw(state: State, before: State): void }} */
export function createQuestion(client, { name, title, create }) {
  const { store } = client;
  const { nothing = () => '', controls = null, draw } = create(store);
  const body = element('div', { class: 'hl-answer' });
  const lack = element('span', { class: 'hl-soft' }, say('not in this page'));
  const heading = element('h3');
  const summary = element('summary', {}, heading, lack);
  const node = element(
    'details',
    { class: 'hl-part hl-question', 'data-question': name },
    summary,
    controls?.node,
    body,
  );
  summary.addEventListener('click', (event) => {
    event.preventDefault(); // the state says which questions are open
    store.change(toggleQuestion(store.get(), name));
  });
  return {
    node,
    draw(state, before) {
      if (!differs(state, before, INPUTS)) return;
      heading.textContent = title();
      const isOpened = !node.open && state.questions.includes(name);
      node.open = state.questions.includes(name);
      lack.hidden = client.ask !== null || Boolean(state.answers[name]?.answer);
      controls?.draw(state, before, whyNot(client, name));
      replaceKeepingFocus(body, ...(node.open ? contentOf(client, state, name, { nothing, draw }, body) : []));
      if (isOpened) scrollToTop(node);
    },
  };
}

function contentOf(client, state, name, { nothing, draw }, body) {
  const reason = whyNot(client, name);
  const question = questionOf(state, name);
  const kept = state.answers[name];
  const isCurrent = question !== null && isAnswered(state, name, question);
  body.classList.toggle('hl-stale', !reason && question !== null && !isCurrent);
  const isKept = !client.ask && isCurrent && kept?.answer; // in a file, what was open
  if ((reason || !question) && !isKept) return [note(reason ? refusalIn(client, reason) : nothing(state))];
  if (kept?.answer) return draw(state, kept.answer, kept.question);
  return isCurrent ? [offer(say('There is no answer.'), say('Ask again'), () => askQuestion(client, name))] : [];
}
