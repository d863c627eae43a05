"""Instruments that need whole translations: ablations with a baseline, and surveys of many sentences.

The others are functions of `model.analysis` on the ids of one pair, `Translator.pair`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch

from model.analysis.corpus import CorpusHeads, heads_over
from model.analysis.jacobian_lens import mean_jacobians, measure, save_lens
from model.analysis.patching import HeadOutputs, Rows, ablation_gates, head_outputs, mean_outputs
from model.decoding.options import LENGTH_PENALTY, PAGE_BEAM, SearchOptions
from model.errors import Sentence, UserError
from model.inputs import NOTHING
from model.results import AblationResult, Head, Translation
from model.translator import Translator

MAX_SAMPLE = 50  # sentences whose mean is a baseline
LENS_SENTENCES = 50  # whose mean Jacobian is a lens, which takes a second for each


@dataclass(frozen=True)
class Baseline:
    """What the outputs of heads are replaced by, and in which rows."""

    outputs: HeadOutputs | None = None  # None: zero
    name: str = "zero"  # or "mean", "sentence"
    sentences: int = 0  # that the mean is taken over
    translation: str = ""  # of the other sentence


# The last mean of each translator: the page asks for the same one at every click, and takes it over up to 50
# sentences. No sentence is kept, only a digest of all; a translator that is no longer used is freed.
_last_means: WeakKeyDictionary[Translator, tuple[bytes, Baseline]] = WeakKeyDictionary()


def mean_baseline(translator: Translator, sentences: Sequence[str]) -> Baseline:
    """The mean output of each head over sentences and the model's greedy translations of them.

    Sentences that the model cannot read are left out. Raises UserError if none is left or there are too
    many.
    """
    if not 0 < len(sentences) <= MAX_SAMPLE:
        raise UserError(f"Give 1 to {MAX_SAMPLE} sentences for the mean.")
    digest = hashlib.sha256(repr(tuple(sentences)).encode()).digest()
    kept = _last_means.get(translator)
    if kept is None or kept[0] != digest:
        kept = _last_means[translator] = digest, _mean_over(translator, sentences)
    return kept[1]


def _mean_over(translator: Translator, sentences: Sequence[str]) -> Baseline:
    pairs = [
        translator.pair(sentences[place], ids)
        for place, ids in _translations(translator, sentences, SearchOptions())
        if not isinstance(ids, UserError)
    ]
    if not pairs:
        raise UserError(Sentence("The model can read none of these sentences; give others."))
    model = translator.checkpoint.model
    return Baseline(mean_outputs(head_outputs(model, *pair) for pair in pairs), "mean", len(pairs))


def sentence_baseline(translator: Translator, other: str) -> Baseline:
    """What each head gives for another sentence and the model's greedy translation of it."""
    translation = translator.translate(other)
    outputs = head_outputs(translator.checkpoint.model, *translator.pair(translation.source, translation.ids))
    return Baseline(outputs, "sentence", 0, translation.text)


def ablate(
    translator: Translator,
    text: str,
    heads: Iterable[Head],
    baseline: Baseline | None = None,
    row: int | None = None,
    *,
    beam_size: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    target: str | Sequence[int] | None = None,
    forced: str | Sequence[int] = (),
) -> AblationResult:
    """Translate with the heads' outputs replaced by a baseline, in all rows or in one; see `ablation_gates`.

    Zero in all rows, the default, is `Translator.mute`. A row is a row of the source for heads of the
    encoder, and a step of the translation for the others. Raises UserError as `Translator.mute` does, and
    for a row that does not exist.
    """
    heads = tuple(heads)
    options = SearchOptions(beam_size, length_penalty)
    original = translator.original(text, target, options, forced)
    source, steps = len(original.attention.source), len(original.ids)
    if row is not None and any(row >= (source if head.kind == "encoder" else steps) for head in heads):
        raise UserError(
            Sentence(
                "There is no row {row}; the sentence has {source} rows and its translation {steps}.",
                row=row,
                source=source,
                steps=steps,
            )
        )
    limit = options.limit(source)
    config = translator.checkpoint.model.config
    outputs = None if baseline is None else baseline.outputs
    gates = ablation_gates(config, heads, Rows(source, max(limit, steps)), outputs, row)
    gates = gates.to(translator.device)
    return translator.compare(original, heads, gates, beam_size, length_penalty, forced)


def survey_sentences(
    translator: Translator,
    sentences: Sequence[str],
    beam_size: int = 1,
    length_penalty: float = LENGTH_PENALTY,
) -> Iterator[tuple[int, Translation | UserError]]:
    """The translation of each sentence with every weight, or why there is none; longest sentences first."""
    options = SearchOptions(beam_size, length_penalty)
    for place, ids in _translations(translator, sentences, options):
        yield place, ids if isinstance(ids, UserError) else translator.score(sentences[place], ids)


def measure_corpus(
    translator: Translator, sentences: Sequence[str], count: Callable[[Iterable[Any]], Iterable[Any]] = iter
) -> CorpusHeads:
    """Every head over the model's own translations of these sentences; see `model.analysis.corpus`."""
    return measure_translations(translate_corpus(translator, sentences, count))


def measure_translations(translations: Sequence[Translation]) -> CorpusHeads:
    """Every head over what `translate_corpus` gives."""
    return heads_over(translations) | {"beam": PAGE_BEAM}


def translate_corpus(
    translator: Translator, sentences: Sequence[str], count: Callable[[Iterable[Any]], Iterable[Any]] = iter
) -> list[Translation]:
    """The model's own translations of these sentences, with every weight.

    The search is the page's, so that a sentence opens there with the same translation. Sentences that the
    model cannot read are left out. `count` may show the progress. Raises UserError if none is left.
    """
    found = {
        place: result
        for place, result in count(survey_sentences(translator, sentences, PAGE_BEAM))
        if isinstance(result, Translation)
    }
    if not found:
        raise UserError("The model can read none of these sentences; give others.")
    return [found[place] for place in sorted(found)]


def make_lens(
    translator: Translator,
    translations: Sequence[Translation],
    directory: Path,
    count: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> Path | None:
    """Write the Jacobian lens of a model, the mean over some of these translations; measured over all.

    None for a decoder of one layer, which needs none.
    """
    model = translator.checkpoint.model
    if len(model.decoder) == 1:
        return None
    pairs = [
        (*translator.pair(one.source, one.ids), torch.tensor(one.ids, device=translator.device))
        for one in translations
    ]
    fitted = [pair[:2] for pair in pairs[:: -(-len(pairs) // LENS_SENTENCES)]]
    matrices = mean_jacobians(model, count(fitted))
    measured = measure(model, matrices, pairs) | {"fitted": len(fitted)}
    return save_lens(matrices["decoder"], measured, directory)


def _translations(
    translator: Translator, sentences: Sequence[str], options: SearchOptions
) -> Iterator[tuple[int, Sequence[int] | UserError]]:
    # Exact, because the page opens a sentence of a survey with its own translation and pins a row of it.
    for place, found in translator.translate_lines(sentences, options, exact=True):
        if isinstance(found, UserError):
            yield place, found
        elif not found:
            yield place, UserError(NOTHING)
        else:
            yield place, found[0].ids
