"""Metrics: BLEU, chrF and error rates of translations, and the loss and speed of training steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import jiwer

from model.text.scripts import HAN, KANA, SPACELESS, count_words, space_out
from training.corpus.links import words

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU


@dataclass(frozen=True)
class Scores:
    """Scores of a corpus; a signature says exactly how a score was computed (Post 2018)."""

    bleu: float  # 0 to 100, tokens as `bleu_tokens` says, case kept
    chrf: float  # 0 to 100
    wer: float  # errors per reference word, or character of a script without spaces
    cer: float  # errors per reference character
    exact_match: float  # share of sentences equal to their reference, 0 to 100
    bleu_signature: str
    chrf_signature: str


LENGTHS = ((1, 10), (11, 20), (21, 35), (36, 60))  # words of the source


class LengthScore(NamedTuple):
    """BLEU of the sentences of one bucket of lengths."""

    sentences: int
    bleu: float


def score_by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> dict[str, LengthScore]:
    """BLEU for each bucket of source lengths that has a sentence, such as "11-20"; longer ones have none."""
    found, bleu = {}, new_bleu(references)
    words = [count_words(source) for source in sources]
    for low, high in LENGTHS:
        places = [place for place, count in enumerate(words) if low <= count <= high]
        if places:
            pairs = [hypotheses[place] for place in places], [[references[place] for place in places]]
            found[f"{low}-{high}"] = LengthScore(len(places), bleu.corpus_score(*pairs).score)
    return found


class NameRecall(NamedTuple):
    """How many names of the references the translations have, spelt in the same way."""

    names: int
    found: int

    @property
    def percent(self) -> float:
        """The share of the names that were found, 0 to 100."""
        return 100 * self.found / self.names


def names(text: str) -> Counter[str]:
    """The capitalised words of a text that do not begin a sentence or a quotation.

    In languages that write common nouns in lower case, these are mostly names, days and nations.
    """
    return Counter(
        word
        for before, word in pairwise(words(text))
        if (before[-1].isalnum() or before == ",") and word[0].isupper() and word[1:2].isalpha()
    )


def name_recall(hypotheses: Sequence[str], references: Sequence[str]) -> NameRecall:
    """Count the names of the references, and those that their translation has too, in any place."""
    wanted = [names(reference) for reference in references]
    kept = [each & Counter(words(text)) for each, text in zip(wanted, hypotheses, strict=True)]
    return NameRecall(sum(map(Counter.total, wanted)), sum(map(Counter.total, kept)))


def new_bleu(references: Sequence[str]) -> BLEU:
    """BLEU with the tokens that fit the language of the references."""
    from sacrebleu.metrics.bleu import BLEU  # here, because it takes its time, and other locks on Windows

    return BLEU(tokenize=bleu_tokens(references))


def bleu_tokens(references: Sequence[str]) -> str:
    """SacreBLEU's name of what BLEU counts: words (13a), or characters where no spaces part the words.

    "zh" counts Chinese characters and the words of other scripts between them. Japanese, Thai, Lao, Khmer and
    Burmese count characters ("char"), because their words need a dictionary that is not installed.
    """
    text = "".join(references)
    if 2 * len(SPACELESS.findall(text)) <= sum(map(str.isalpha, text)):
        return "13a"
    return "zh" if len(HAN.findall(text)) > 10 * len(KANA.findall(text)) else "char"


def score(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """The scores of detokenised hypotheses, with one reference each."""
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = new_bleu(references), CHRF()
    matches = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return Scores(
        bleu=bleu.corpus_score(hypotheses, [references]).score,
        chrf=chrf.corpus_score(hypotheses, [references]).score,
        wer=jiwer.wer(list(map(space_out, references)), list(map(space_out, hypotheses))),
        cer=jiwer.cer(list(references), list(hypotheses)),
        exact_match=100 * matches / len(references),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


class WindowSums(TypedDict, total=False):
    """Of the steps since the last line of the log."""

    loss: float
    tokens: int
    alignment: float | None


class TrainingWindow:
    """Loss and speed over the steps since the last line of the log."""

    def __init__(self, loss: float = 0.0, tokens: int = 0, alignment: float | None = None) -> None:
        self.started, self.latest = time.monotonic(), (0.0, 0.0)
        self.loss, self.tokens, self.alignment = loss, tokens, alignment
        self.timed = -tokens  # a resumed run does not count the time before

    @property
    def sums(self) -> WindowSums:
        """What a run that resumes here goes on with."""
        return {"loss": self.loss, "tokens": self.tokens, "alignment": self.alignment}

    def add(self, loss: float, tokens: int, norm: float, rate: float, alignment: float | None = None) -> None:
        """Count one step: losses in nats per token, gradient norm before clipping, learning rate."""
        if alignment is not None:
            self.alignment = (self.alignment or 0.0) + alignment * tokens
        self.loss += loss * tokens
        self.tokens += tokens
        self.latest = norm, rate

    def values(self) -> dict[str, float]:
        """Nats per target token and target tokens per second over all steps; the rest of the latest step."""
        norm, rate = self.latest
        tokens = max(self.tokens, 1)
        taught = {} if self.alignment is None else {"alignment_loss": self.alignment / tokens}
        return taught | {
            "loss": self.loss / tokens,
            "gradient_norm": norm,
            "learning_rate": rate,
            "tokens_per_second": (self.tokens + self.timed) / max(time.monotonic() - self.started, 1e-9),
        }
