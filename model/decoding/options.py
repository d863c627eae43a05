"""How to search: the options of a translation, and the penalty of its length."""

from __future__ import annotations

from dataclasses import dataclass

from model.errors import UserError

MAX_BEAM, MAX_LENGTH_PENALTY = 100, 10.0
PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY = 8, 2.0  # of the page and its HTTP API
# What a new page searches with. Beam 4 scores 0.5 to 1.5 BLEU more than greedy (de-en, en-fr, en-it). It
# takes 1.5 to 2.1 times as long: 21 to 27 ms for 25 tokens (docs/benchmarks.md).
PAGE_BEAM = 4
LENGTH_PENALTY = 1.0  # unless another is given
# The longest translation: so many tokens for each token of the source, and so many more.
TARGET_PER_SOURCE, MORE_TARGET = 2, 10


@dataclass(frozen=True)
class SearchOptions:
    """How to search; the search ends when no hypothesis can still become one of the `n_best`."""

    beam_size: int = 1
    length_penalty: float = LENGTH_PENALTY
    n_best: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.beam_size <= MAX_BEAM:
            raise UserError(f"The beam size is {self.beam_size}; give 1 to {MAX_BEAM}.")
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            raise UserError(f"The length penalty is {self.length_penalty}; give 0 to {MAX_LENGTH_PENALTY:g}.")
        if not 1 <= self.n_best <= self.beam_size:
            raise UserError(
                f"A beam of {self.beam_size} cannot find {self.n_best} translations; "
                f"give n_best 1 to {self.beam_size}."
            )

    def limit(self, source_length: int) -> int:
        """Maximum number of target tokens, </s> included, for a source of this many tokens."""
        return TARGET_PER_SOURCE * source_length + MORE_TARGET

    def longest_source(self, limit: int) -> int:
        """The longest source whose translation has at most this many tokens."""
        return (limit - MORE_TARGET) // TARGET_PER_SOURCE


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, equation 14 of Wu et al. 2016."""
    return float(((5 + length) / 6) ** alpha)
