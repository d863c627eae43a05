"""Scores of translations: BLEU and chrF by sacrebleu, word and character errors by jiwer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jiwer
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


@dataclass(frozen=True)
class Scores:
    """Corpus scores; signatures name the exact metric (Post 2018)."""

    bleu: float  # 0 to 100, 13a tokens, case kept
    chrf: float  # 0 to 100
    wer: float  # errors per reference word
    cer: float  # errors per reference character
    exact_match: float  # share of sentences equal to their reference, 0 to 100
    bleu_signature: str
    chrf_signature: str


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """Compare detokenised hypotheses with one reference each, in that order."""
    bleu, chrf = BLEU(), CHRF()
    matches = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        wer=jiwer.wer(list(references), list(hypotheses)),
        cer=jiwer.cer(list(references), list(hypotheses)),
        exact_match=100 * matches / len(references),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )
