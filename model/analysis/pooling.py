"""The measures of heads over the rows of many sentences, in which every row has the same weight.

Axis letters: L layers, H heads, R the offsets that are a role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from model.analysis.definitions import ROLE_DEFINITIONS, ROLES, Role
from model.analysis.measures import FIELDS, HeadMeasures, Positional, offset_counts, role_evidence
from model.network.masks import causal_mask
from model.results import AttentionRecord, Kind

# The tables that are a mean over rows, with their fields of HeadMeasures.
MEANS = {name: field for name, field in FIELDS.items() if not field.startswith("positional.")}
ROLE_OFFSETS = torch.tensor(
    [one.offset for one in ROLE_DEFINITIONS.values() if one.measure == "offset_share"]
)


class MeasurePool:
    """The heads of one kind over all sentences so far; `add` reads one more."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.queries = 0
        self.sums: dict[str, Tensor | None] = {}  # over rows, by the names of MEANS
        self.even: dict[Role, float] = {}
        self.is_memory = False
        self.counts = torch.zeros(1, 1, len(ROLE_OFFSETS), dtype=torch.long)  # [L, H, R] with a record
        self.able = torch.zeros_like(ROLE_OFFSETS)

    def add(self, record: AttentionRecord, measures: HeadMeasures) -> None:
        """Read the measures of one record."""
        rows, self.is_memory = measures.queries, measures.is_memory
        self.queries += rows
        for name, field in MEANS.items():
            value, before = getattr(measures, field), self.sums.get(name)
            total = None if value is None else value * rows
            self.sums[name] = total if before is None or total is None else before + total
        for role, even in measures.even.items():
            self.even[role] = self.even.get(role, 0.0) + even * rows
        counts, able = _role_offsets(self.kind, record)
        self.counts = self.counts + counts
        self.able = self.able + able

    def measures(self) -> HeadMeasures:
        """The measures over all rows."""
        means: dict[str, Any] = {
            field: None if (value := self.sums[name]) is None else value / self.queries
            for name, field in MEANS.items()
        }
        if (offset := means["focus_offset"]) is not None:
            means["focus_offset"] = offset.round().long()  # of most rows
        return HeadMeasures(
            kind=self.kind,
            queries=self.queries,
            positional=self.positional(),
            even={role: total / self.queries for role, total in self.even.items()},
            is_memory=self.is_memory,
            **means,
        )

    def sums_of_rows(self) -> Mapping[str, object]:
        """What answers about parts of a text add up, as plain numbers; see viz/viewer/domain/survey.js."""
        sums = {
            name: None if one is None or self.is_memory else one.tolist() for name, one in self.sums.items()
        }
        return {
            "queries": self.queries,
            "sums": sums,
            "counts": self.counts.movedim(-1, 0).tolist(),
            "able": self.able.tolist(),
            "even": self.even,
        }

    def positional(self) -> Positional:
        """The most common of the offsets that are a role; see `measures.positional`."""
        share, best = (self.counts / self.able.clamp(min=1)).max(-1)
        return Positional(ROLE_OFFSETS[best], share, self.able[best])


def _role_offsets(kind: Kind, record: AttentionRecord) -> tuple[Int[Tensor, "L H R"], Int[Tensor, " R"]]:
    """How many rows have their strongest key at each offset that is a role, and how many could."""
    weights: Tensor = getattr(record, kind)
    n_queries, n_keys = weights.shape[-2:]
    mask = causal_mask(n_queries, n_queries) if kind == "decoder" else None
    counts, able = offset_counts(weights, mask)
    places = ROLE_OFFSETS + n_queries - 1
    inside = (places >= 0) & (places < n_queries + n_keys - 1)
    places = places.clamp(0, n_queries + n_keys - 2)
    return counts[..., places] * inside, able[places] * inside


def nearest_role(measures: HeadMeasures, layer: int, head: int, role: Role) -> tuple[Role, float]:
    """The role and its measure; for a mixed head, the role whose threshold it comes nearest to.

    The role itself and 0 if the rows can show no role.
    """
    all_evidence = {name: role_evidence(name, measures) for name in ROLES}
    found = {name: values[layer, head].item() for name, values in all_evidence.items() if values is not None}
    if role in found or not found:
        return role, found.get(role, 0.0)
    nearest = max(found, key=lambda name: found[name] / ROLE_DEFINITIONS[name].least)
    return nearest, found[nearest]
