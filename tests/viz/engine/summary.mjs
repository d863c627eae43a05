// The facts of In short and the answers of the instruments that they open, for test_summary.py: it writes facts.json from
// questions.json, for the engine's own answers and for those of a server.

import { readFileSync, writeFileSync } from 'node:fs';

import { targetIds } from '../viewer/domain/payload.js';
import { ZERO } from '../viewer/state/store.js';
import { answer } from '../viewer/engine/answers.js';
import { factsOf } from '../viewer/summary/facts.js';
import { loaderOf } from './models.mjs';

const { models, settings, sentences } = JSON.parse(readFileSync('questions.json', 'utf8'));
const load = loaderOf(models, settings);

function factsOfAnswers(record, { heads, rivals, importance, lens, leave_one_out: losses }) {
  const known = importance && { changes: importance, ablation: ZERO };
  return factsOf({ record, summary: { heads, rivals }, importance: known, lens, values: { leave_one_out: losses } });
}

// What the engine answers about a sentence, and what is said of that.
async function byEngine(task) {
  const loaded = await load(task.model);
  const ask = (request) => answer(loaded, { ...task, ...request }, async () => {});
  const { attention: _, ...record } = await ask({ do: 'translate' });
  const ids = targetIds(record);
  const facts = factsOfAnswers(record, await ask({ do: 'summary', ids }));
  const heads = facts.flatMap((fact) => fact.heads ?? []);
  const mutes = [];
  for (const { head } of heads) mutes.push(await ask({ do: 'mute', ids, heads: [head] }));
  return {
    record,
    facts,
    leave_one_out: await ask({ do: 'leave_one_out', ids }),
    lens: await ask({ do: 'lens', ids }),
    mutes: mutes.map(({ text, differences }) => ({ text, differences })),
  };
}

const found = [];
for (const { task, record, summary } of sentences)
  found.push({ server: factsOfAnswers(record, summary), engine: await byEngine(task) });
writeFileSync('facts.json', JSON.stringify(found));
