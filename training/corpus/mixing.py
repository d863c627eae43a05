"""How often an epoch reads the pairs of each source, and long pairs made by joining short ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from datasets import Dataset, concatenate_datasets
from numpy.random import Generator
from numpy.typing import NDArray

from model.errors import UserError
from model.text.scripts import count_words
from training.corpus.batching import Rows
from training.corpus.links import join_links

CONCATENATED = "concatenated"  # the source of joined pairs
LONGEST = 60  # words of a joined source sentence


@dataclass(frozen=True)
class Mixture:
    """The source of every training pair, and how often an epoch reads the pairs of each source."""

    names: tuple[str, ...]
    weights: tuple[float, ...]  # of each name
    origins: NDArray[np.int64]  # of each row, an index into `names`

    @classmethod
    def of(cls, pairs: Dataset, weights: Mapping[str, float]) -> Mixture:
        """The mixture of these pairs; a source without a weight has weight 1."""
        names, indices = numbered_origins(pairs)
        return cls(names, tuple(weights.get(name, 1.0) for name in names), indices)

    def rows(self, random: Generator) -> Rows:
        """The rows of one epoch, in order.

        A source of n pairs with weight 2.3 gives all its rows twice and 0.3 n others of them, which are
        drawn anew for each epoch.
        """
        found = []
        for index, weight in enumerate(self.weights):
            rows = np.flatnonzero(self.origins == index)
            copies, part = divmod(weight, 1)
            drawn = random.permutation(rows)[: round(part * len(rows))] if part else rows[:0]
            found += [np.repeat(rows, int(copies)), drawn]
        return np.sort(np.concatenate(found))

    def counts(self) -> dict[str, dict[str, float]]:
        """The number of pairs and the weight of each source."""
        pairs = np.bincount(self.origins, minlength=len(self.names)).tolist()
        return {
            name: {"pairs": count, "weight": weight}
            for name, weight, count in zip(self.names, self.weights, pairs, strict=True)
        }


def origins(pairs: Dataset) -> NDArray[np.str_]:
    """The source of each pair."""
    return np.asarray(pairs["origin"][:], dtype=np.str_)


def numbered_origins(pairs: Dataset) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The names of the sources in the order of their first pairs, and the source of each pair as a number.

    The numbers stay the same when a folder, and so a source, gets another name.
    """
    names, firsts, indices = np.unique(origins(pairs), return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    return tuple(map(str, names[order])), np.argsort(order)[indices]


def check_weights(pairs: Dataset, weights: Mapping[str, float]) -> None:
    """Raise UserError if a weight names a source that the pairs do not have."""
    present = {*np.unique(origins(pairs)).tolist(), CONCATENATED}
    for name in weights:
        if name not in present:
            raise UserError(
                f"The data has no source {name!r}; give weights to some of {', '.join(sorted(present))}."
            )


def without_unused(pairs: Dataset, weights: Mapping[str, float]) -> Dataset:
    """The pairs whose source has a weight above 0."""
    unused = [name for name, weight in weights.items() if weight == 0]
    return pairs.select(np.flatnonzero(~np.isin(origins(pairs), unused))) if unused else pairs


def concatenate(pairs: Dataset, share: float, seed: int) -> Dataset:
    """The pairs and `share` times as many long pairs, so that a model learns long sentences.

    A long pair joins neighbouring pairs of one source, from a random one on, up to a limit that is drawn
    evenly from 20 to 60 words of the source language. A draw where fewer than two pairs fit is left out.
    """
    random = np.random.default_rng((seed, len(pairs)))
    starts = random.integers(len(pairs), size=round(share * len(pairs)))
    limits = random.integers(LONGEST // 3, LONGEST + 1, size=len(starts))
    groups = (
        _group(pairs, start, limit) for start, limit in zip(starts.tolist(), limits.tolist(), strict=True)
    )
    joined = [_join(group) for group in groups if len(group) > 1]
    if not joined:
        return pairs
    return concatenate_datasets([pairs, Dataset.from_list(joined, features=pairs.features)])


def _group(pairs: Dataset, start: int, limit: int) -> list[dict[str, str]]:
    """The longest run of pairs from `start` on that have one source and at most `limit` source words."""
    rows = pairs[start : start + LONGEST]
    words = np.cumsum([count_words(text) for text in rows["source"]])
    other = [origin != rows["origin"][0] for origin in rows["origin"]]
    stop = int(np.argmax([*((words > limit) | other), True]))
    return [{name: column[place] for name, column in rows.items()} for place in range(stop)]


def _join(group: list[dict[str, str]]) -> dict[str, str]:
    joined = {side: " ".join(pair[side] for pair in group) for side in ("source", "target")}
    if "links" in group[0]:
        joined["links"] = join_links([(pair["links"], pair["source"], pair["target"]) for pair in group])
    return joined | {"origin": CONCATENATED}
