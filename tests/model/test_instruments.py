"""An ablation finds what a search with its gates finds."""

from __future__ import annotations

import pytest
import torch

from model.analysis.patching import Rows, ablation_gates
from model.instruments import Baseline, ablate, sentence_baseline
from model.network.transformer import Transformer
from model.results import KINDS
from model.translator import Translator
from tests.model.analysis.test_patching import OTHER, TEXT, all_heads
from tests.model.helpers import tiny_checkpoint
from tests.numerics import roundings, translator_of

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize("use_kernels", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(
    ("seed", "every"),
    [(1, 13), pytest.param(1, 3, marks=pytest.mark.slow), pytest.param(3, 3, marks=pytest.mark.slow)],
)
def test_a_search_behind_what_is_certain_finds_what_a_whole_search_finds(
    seed: int, every: int, use_kernels: bool
):
    translator = Translator(tiny_checkpoint(seed=seed), use_kernels=use_kernels)
    config, original = translator.checkpoint.model.config, translator.translate(TEXT)

    def read(model: Transformer) -> tuple[object, ...]:
        scored = translator_of(translator, model).score(TEXT, original.ids)
        return scored.log_probabilities, scored.attention.cross, scored.attention.decoder

    # Both sides round, as much as they do without an ablation.
    of_token, *of_weights = (2 * each for each in roundings(read, translator.checkpoint.model).values())
    forced = (*original.ids[:1], next(a.token.id for a in original.alternatives[1][1:] if a.token.id > 3))
    other = sentence_baseline(translator, OTHER)
    shared = set()
    for head in all_heads(config)[::every]:
        for baseline, prefix in ((Baseline(), ()), (other, ()), (other, forced)):
            result = ablate(translator, TEXT, [head], baseline, forced=prefix)
            rows = Rows(len(original.attention.source), 100)
            gates = ablation_gates(config, [head], rows, baseline.outputs)
            whole = translator.translate(TEXT, gates=gates, forced=prefix)
            found = result.ablated
            assert found.ids == whole.ids
            assert (found.text, found.n_forced, found.notices) == (whole.text, whole.n_forced, whole.notices)
            assert found.log_probabilities == pytest.approx(whole.log_probabilities, abs=of_token)
            assert found.hypotheses[0].ids == whole.hypotheses[0].ids
            assert found.hypotheses[0].log_probability == pytest.approx(
                whole.hypotheses[0].log_probability, abs=of_token * len(found.ids)
            )
            for kind in KINDS:
                mine, theirs = getattr(found.attention, kind), getattr(whole.attention, kind)
                torch.testing.assert_close(mine, theirs, rtol=0, atol=max(of_weights))
            pairs = zip(found.ids, result.original.ids, strict=False)
            shared.add(next((n for n, (one, two) in enumerate(pairs) if one != two), len(found.ids)))
    assert len(shared) > 2  # nothing, a part and all of the original translation
