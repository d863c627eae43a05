"""Measures and roles of heads: pure functions of the attention weights.

Axis letters: L any leading axes (layer, head), Q queries, S keys, T target length, H heads. Every
function measures all heads of a kind in one call. Argmax takes the first of equal weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.analysis.definitions import MEMORY, OFFSETS, ROLE_DEFINITIONS, ROLES, Role
from model.analysis.marks import end_mask, sink_tokens, word_mask
from model.analysis.thresholds import THRESHOLDS
from model.network.masks import causal_mask
from model.results import AttentionRecord, Kind, Token

EVEN_DECIMALS = 6  # both implementations round, so that they agree where an even share equals a threshold


class Positional(NamedTuple):
    """The most common distance from a query to its strongest key, for each head."""

    offset: Int[Tensor, "*L"]  # key minus query: -1 is the previous token
    share: Float[Tensor, "*L"]  # of the queries that can have this offset, 0 to 1
    queries: Int[Tensor, "*L"]  # the number of those queries


@dataclass(frozen=True)
class HeadMeasures:
    """The measures of all heads of one kind, [layer, head]; None where a measure has no meaning."""

    kind: Kind
    queries: int  # rows that were measured
    entropy: Float[Tensor, "L H"]  # bits, mean over rows
    confidence: Float[Tensor, "L H"]
    positional: Positional
    sink_mass: Float[Tensor, "L H"]
    source_focus: Float[Tensor, "L H"] | None  # cross
    focus_offset: Int[Tensor, "L H"] | None  # cross: 0 or -1, see `focus_offset`
    even: Mapping[Role, float]  # the evidence for each role of the kind in rows without any preference
    is_memory: bool = False  # of a decoder without self-attention, where no measure has a meaning


# The fields of HeadMeasures by the names of MEASURES and of the tables that they name.
FIELDS = {
    "confidence": "confidence",
    "entropy": "entropy",
    "offset_share": "positional.share",
    "offset": "positional.offset",
    "offset_queries": "positional.queries",
    "sinks": "sink_mass",
    "focus": "source_focus",
    "focus_offset": "focus_offset",
}


def measure_tables(heads: HeadMeasures) -> dict[str, Tensor | None]:
    """The values of MEASURES and of the tables that they name, [layer, head]; None without a meaning."""
    if heads.is_memory:
        return dict.fromkeys(FIELDS)
    return {name: attrgetter(field)(heads) for name, field in FIELDS.items()}


def entropy(weights: Float[Tensor, "*L Q S"]) -> Float[Tensor, "*L Q"]:
    """Entropy of each row in bits: 0 on one key, log2 n when spread evenly over n keys."""
    # A weight can be 0 because of the mask or underflow; xlogy then gives the limit 0 instead of NaN.
    nats: Tensor = -torch.special.xlogy(weights, weights).sum(-1)
    return nats.clamp(min=0) / math.log(2)


def confidence(
    weights: Float[Tensor, "*L Q S"], queries: Bool[Tensor, " Q"], keys: Bool[Tensor, " S"]
) -> Float[Tensor, "*L"]:
    """Mean over queries of the largest weight, without the end of the sentence, 0 to 1.

    Voita et al. 2019, "Analyzing Multi-Head Self-Attention", section 4. `queries` and `keys` are
    False at </s>, which is not a real token. Weights are not renormalised over the rest.
    """
    largest = weights.masked_fill(~keys, 0).amax(-1)
    return largest[..., queries].sum(-1) / queries.sum().clamp(min=1)


def positional(weights: Float[Tensor, "*L Q S"], mask: Bool[Tensor, "Q S"] | None = None) -> Positional:
    """The most common offset from a query to its strongest key, and the share of queries that have it.

    Voita et al. 2019, section 5.1: a head is positional when the share is at least 0.9. `mask` is
    True where a query may attend. Only queries that can have the offset count: the first token
    has no previous one, and a row with a single permitted key (the decoder's first) has no choice.
    An offset is left out if fewer than half as many queries can have it as can have the most possible
    offset, because a share of one or two queries means little. Of equally common offsets, the
    offset that more queries can have is taken.
    """
    counts, able = offset_counts(weights, mask)
    n_queries = weights.shape[-2]
    # Counts decide; `able`, never above Q, breaks ties.
    rank = (counts * (n_queries + 1) + able).masked_fill(2 * able < able.max(), -1)
    best = rank.argmax(-1)
    count = counts.gather(-1, best[..., None])[..., 0]
    return Positional(best - (n_queries - 1), count / able[best].clamp(min=1), able[best])


def offset_counts(
    weights: Float[Tensor, "*L Q S"], mask: Bool[Tensor, "Q S"] | None = None
) -> tuple[Int[Tensor, "*L O"], Int[Tensor, " O"]]:
    """For each offset: how many queries have their strongest key there, and how many could.

    Entry d of the last axis is the offset d - (Q - 1). See `positional`.
    """
    n_queries, n_keys = weights.shape[-2:]
    allowed = weights.new_ones(n_queries, n_keys, dtype=torch.bool) if mask is None else mask
    choosing = allowed.sum(-1) > 1
    places = torch.arange(n_queries, device=weights.device)
    bins = torch.arange(n_keys, device=weights.device) - places[:, None] + n_queries - 1
    able = torch.bincount(bins[allowed & choosing[:, None]], minlength=n_queries + n_keys - 1)
    strongest = weights.max(-1)
    votes = (strongest.values > 0) & choosing
    counts = torch.zeros(*weights.shape[:-2], len(able), dtype=torch.long, device=weights.device)
    counts.scatter_add_(-1, strongest.indices - places + n_queries - 1, votes.long())
    return counts, able


def sink_mass(weights: Float[Tensor, "*L Q S"], sinks: Bool[Tensor, " S"]) -> Float[Tensor, "*L"]:
    """Mean over queries of the weight on the keys that `sinks` marks, 0 to 1; see `sink_tokens`."""
    return weights[..., sinks].sum(-1).mean(-1)


def source_focus(cross: Float[Tensor, "*L T S"], words: Bool[Tensor, " S"]) -> Float[Tensor, "*L"]:
    """How strongly some row looks at each source token, 0 to 1: high for heads that align words.

    Our own measure: for each source token the largest weight that any row gives it, summed and divided
    by min(T, tokens), the largest possible sum. A head that spreads its weight scores low, and so
    does a head whose rows all look at one token. Rows shifted by one do not change the value.
    `words` is False at special tokens.
    """
    # On the gold links of Vilar et al. 2006 this ranks the 32 heads of de-en much as their alignment
    # error does (the lower one of shifted and unshifted): Spearman 0.86; confidence reaches 0.59.
    largest = cross[..., words].amax(-2)
    return largest.sum(-1) / words.sum().clamp(min=1, max=cross.shape[-2])


def focus_offset(cross: Float[Tensor, "*L T S"], words: Bool[Tensor, " S"]) -> Int[Tensor, "*L"]:
    """Which target word the rows of a head align: 0 the predicted word, -1 the word that is read.

    A row that reads "dog" and predicts "is" is about "is" with 0, and about "dog" with -1.

    Naive-Att and Shift-Att of Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine
    Translation". The mean of all heads decides: its row that predicts a word is compared with two rows of the
    head, the row that predicts the word and the row that reads it, by the sum of products over the source
    words. The row that reads it counts only if its sum is clearly larger, because rounding would decide
    between rows that are alike.
    `words` is False at special tokens. Limit: most heads of the model must align the words that they predict.
    """
    # Checked on 300 pairs of Vilar et al. 2006, with de-en: where a head has a source focus of at least 0.5
    # (1,297 times), this is in 99.6 % the reading with which it has the lower alignment error on all pairs.
    weights = cross[..., words]
    mean = weights.flatten(0, -3).mean(0)[:-1]  # the last row predicts </s>, which no row reads
    predicting = (weights[..., :-1, :] * mean).sum((-2, -1))
    reading = (weights[..., 1:, :] * mean).sum((-2, -1))
    return -(reading > THRESHOLDS["clearly"] * predicting).long()


def even_evidence(
    kind: Kind, queries: int, keys: Sequence[Token], mask: Bool[Tensor, "Q S"] | None = None
) -> dict[Role, float]:
    """The evidence for each role of a kind if every row spread its weight evenly over what it may read.

    In "Ja." half of the tokens are separators, so an even row already gives them half of its weight, and
    the sentence says nothing of separator sinks. For a role with an offset it is the chance that a row
    which can have the offset has its strongest key there, and 1 if no row can.
    """
    allowed = torch.ones(queries, len(keys), dtype=torch.bool) if mask is None else mask
    even = allowed.double() / allowed.sum(-1, keepdim=True)
    return {
        role: round(float(EVIDENCE[one.measure].even(even, keys, one.offset)), EVEN_DECIMALS)
        for role, one in ROLE_DEFINITIONS.items()
        if one.measure is not None and kind in one.kinds
    }


def _even_offset(even: Float[Tensor, "Q S"], offset: int) -> Float[Tensor, ""]:
    """The mean chance of this offset in the rows that can have it and have a choice."""
    chances = even.diagonal(offset)
    chances = chances[(chances > 0) & (chances < 1)]
    return chances.mean() if len(chances) else torch.tensor(1.0)


class Evidence(NamedTuple):
    """What a measure that decides on a role says of rows, their keys and the offset of the role.

    `even` is the measure in even rows, and `explained` the weight that the role explains, summed over rows.
    """

    even: Callable[..., Tensor]
    explained: Callable[..., Tensor]


EVIDENCE = {
    "sinks": Evidence(
        lambda even, keys, _: sink_mass(even, sink_tokens(keys)),
        lambda heads, keys, _: heads[..., sink_tokens(keys)].sum((-2, -1)),
    ),
    # What `source_focus` counts: of each source word the largest weight.
    "focus": Evidence(
        lambda even, keys, _: source_focus(even, word_mask(keys)),
        lambda heads, keys, _: heads[..., word_mask(keys)].amax(-2).sum(-1),
    ),
    "offset_share": Evidence(
        lambda even, _, offset: _even_offset(even, offset),
        lambda heads, _, offset: heads.diagonal(offset, -2, -1).sum(-1),
    ),
}


def explained(
    kind: Kind, heads: Float[Tensor, "N Q S"], keys: Sequence[Token]
) -> dict[Role, Float[Tensor, " N"]]:
    """The weight that each role of a kind explains, summed over rows."""
    return {
        role: EVIDENCE[one.measure].explained(heads, keys, one.offset)
        for role, one in ROLE_DEFINITIONS.items()
        if one.measure is not None and kind in one.kinds
    }


def role_evidence(role: Role, measures: HeadMeasures) -> Float[Tensor, "L H"] | None:
    """The measure that decides on a role, 0 for heads at another offset.

    None if the kind cannot have the role, or if the rows cannot show it.
    """
    one = ROLE_DEFINITIONS[role]
    if one.measure is None or measures.kind not in one.kinds or measures.even[role] >= one.least:
        return None
    tables, table = measure_tables(measures), OFFSETS[one.measure]
    values, offsets = tables[one.measure], None if table is None else tables[table]
    if values is None or offsets is None or one.offset is None:
        return values
    return values * (offsets == one.offset)


def head_roles(measures: HeadMeasures) -> Int[Tensor, "L H"]:
    """The role of each head, as its index in ROLES: the first that applies, else mixed."""
    usual = MEMORY if measures.is_memory else "mixed"
    roles = torch.full_like(measures.positional.offset, ROLES.index(usual))
    for index, role in reversed(list(enumerate(ROLES))):  # an earlier role replaces a later one
        evidence = role_evidence(role, measures)
        if evidence is not None:
            roles[evidence >= ROLE_DEFINITIONS[role].least] = index
    return roles


def measure_heads(record: AttentionRecord) -> dict[Kind, HeadMeasures]:
    """Every measure of every head of one record, by kind.

    A decoder's row is named by the token it reads; `confidence` leaves out the row that predicts </s>.
    """
    source, read = record.source, record.read
    words = ~end_mask(record.predicted)
    decoder = _measures("decoder", record.decoder, words, read, mask=causal_mask(len(read), len(read)))
    return {
        "encoder": _measures("encoder", record.encoder, ~end_mask(source), source),
        "decoder": replace(decoder, is_memory=record.is_recurrent),
        "cross": _measures("cross", record.cross, words, source),
    }


def _measures(
    kind: Kind,
    weights: Float[Tensor, "L H Q S"],
    queries: Bool[Tensor, " Q"],
    keys: Sequence[Token],
    mask: Bool[Tensor, "Q S"] | None = None,
) -> HeadMeasures:
    """`queries` are the rows that `confidence` counts."""
    words = word_mask(keys)
    return HeadMeasures(
        kind=kind,
        queries=weights.shape[-2],
        entropy=entropy(weights).mean(-1),
        confidence=confidence(weights, queries, ~end_mask(keys)),
        positional=positional(weights, mask),
        sink_mass=sink_mass(weights, sink_tokens(keys)),
        source_focus=source_focus(weights, words) if kind == "cross" else None,
        focus_offset=focus_offset(weights, words) if kind == "cross" else None,
        even=even_evidence(kind, weights.shape[-2], keys, mask),
    )
