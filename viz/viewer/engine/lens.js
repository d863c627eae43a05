// The logit lens, as model/analysis/lens.py defines it: what the model would say after each decoder layer.

import { predict } from './model.js';
import { normaliseOutput } from './network.js';
import { rounded } from './payload.js';
import { largestPlaces } from './search.js';

const WORDS = 5; // likeliest words of each layer and step

// The likeliest words, [layer][step][rank], with their log-probabilities, and the log-probabilities of `ids`. `trace` is
// the trace of one pass over `ids`.
export function lens({ model, tokenizers: { target } }, ids, { inputs, output }) {
  const layers = [...inputs.decoder.slice(1), output].map((x) => predict(model, normaliseOutput(model.network, x)));
  const found = layers.map((steps) => steps.map(({ logits }) => largestPlaces(logits, WORDS)));
  const chances = (valuesOf) =>
    layers.map((steps, layer) =>
      steps.map(({ logits, norm }, step) => valuesOf(layer, step, (id) => logits[id] - norm)),
    );
  return {
    words: found,
    log_probabilities: chances((layer, step, chanceOf) => found[layer][step].map((id) => rounded(chanceOf(id)))),
    chosen: chances((_, step, chanceOf) => rounded(chanceOf(ids[step]))),
    leads_from: ids.map((id, step) => leadsFrom(found, id, step)),
    tokens: Object.fromEntries([...new Set(found.flat(2))].map((id) => [id, target.tokens([id])[0]])),
  };
}

// The first layer from which on this word leads and stays; null where the last layer prefers another one.
function leadsFrom(found, id, step) {
  const last = found.findLastIndex((steps) => steps[step][0] !== id);
  return last + 1 < found.length ? last + 1 : null;
}
