"""Numbers about heads: what a head's weights are like, as pure functions of the weights.

Axis letters: L any leading axes (layer, head), Q queries, S keys, T target length, H heads. Every
function measures all heads of a kind in one call. Argmax takes the first of equal weights.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.network.masks import causal_mask
from model.results import AttentionRecord, Token
from model.tokenizer import EOS

Kind = Literal["encoder", "decoder", "cross"]
Role = Literal[
    "previous token", "next token", "same token", "separator sink", "aligned", "rare word", "mixed"
]
ROLES: tuple[Role, ...] = get_args(Role)
ROLE_OF_OFFSET: dict[int, Role] = {-1: "previous token", 1: "next token", 0: "same token"}
POSITIONAL = 0.9  # share of queries at one offset (Voita et al. 2019, section 5.1)
SINK = 0.5  # mean weight: more goes to the sinks than to all words together
RARE = 0.5  # share of queries whose strongest key is the rarest
ALIGNED = 0.5  # source focus


class Positional(NamedTuple):
    """The most common distance from a query to its strongest key."""

    offset: Int[Tensor, "*L"]  # key minus query: -1 is the previous token
    share: Float[Tensor, "*L"]  # of the queries that can have this offset, 0 to 1
    queries: Int[Tensor, "*L"]  # how many those are


@dataclass(frozen=True)
class HeadMeasures:
    """The measures of all heads of one kind, [layer, head]; None where a measure has no meaning."""

    kind: Kind
    queries: int  # rows that were measured
    entropy: Float[Tensor, "L H"]  # bits, mean over rows
    confidence: Float[Tensor, "L H"]
    positional: Positional
    sink_mass: Float[Tensor, "L H"]
    rare_share: Float[Tensor, "L H"] | None  # keys are source tokens: encoder and cross
    source_focus: Float[Tensor, "L H"] | None  # cross


def entropy(weights: Float[Tensor, "*L Q S"]) -> Float[Tensor, "*L Q"]:
    """Entropy of each row in bits: 0 on one key, log2 n when spread evenly over n keys."""
    # Where a weight is 0, forbidden or underflown, xlogy gives the limit 0 instead of NaN.
    nats: Tensor = -torch.special.xlogy(weights, weights).sum(-1)
    return nats.clamp(min=0) / math.log(2)


def confidence(
    weights: Float[Tensor, "*L Q S"], queries: Bool[Tensor, " Q"], keys: Bool[Tensor, " S"]
) -> Float[Tensor, "*L"]:
    """Mean over queries of the largest weight, the end of the sentence left out, 0 to 1.

    Voita et al. 2019, "Analyzing Multi-Head Self-Attention", section 4. `queries` and `keys` are
    False at </s>, which is no real token. Weights are not renormalised over the rest.
    """
    largest = weights.masked_fill(~keys, 0).amax(-1)
    return largest[..., queries].sum(-1) / queries.sum().clamp(min=1)


def positional(weights: Float[Tensor, "*L Q S"], mask: Bool[Tensor, "Q S"] | None = None) -> Positional:
    """The offset from query to strongest key that most queries share, and the share of those who do.

    Voita et al. 2019, section 5.1: a head is positional when the share is at least 0.9. `mask` is
    True where a query may attend. Only queries that can have the offset count: the first token
    has no previous one, and a row with a single permitted key (the decoder's first) has no choice.
    An offset that fewer than half as many queries can have as the most possible one is left out, for
    the share of one or two queries says nothing. Of equally common offsets, more possible ones win.
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
    """For each offset the queries whose strongest key is there, and the queries that can have it.

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


def sink_tokens(tokens: Sequence[Token]) -> Bool[Tensor, " S"]:
    """Where attention goes when a head has nothing to do: special tokens and final punctuation.

    Clark et al. 2019, "What Does BERT Look at?", section 3.2. <unk> stands for a word, so it is
    none of them. Final punctuation is every mark between the last word and </s>.
    """
    sinks = [token.word is None for token in tokens]
    for place in reversed(range(len(tokens))):
        if not sinks[place] and not _is_punctuation(tokens[place]):
            break
        sinks[place] = True
    return torch.tensor(sinks)


def _is_punctuation(token: Token) -> bool:
    return all(unicodedata.category(letter).startswith("P") for letter in token.text)


def rare_word_share(weights: Float[Tensor, "*L Q S"], rarity: Int[Tensor, " S"]) -> Float[Tensor, "*L"]:
    """Share of queries whose strongest key is the rarest token of the sentence, 0 to 1.

    Voita et al. 2019, section 5.3. `rarity` grows from frequent to rare: the rank of each token by
    frequency, least for specials. If the rarest stands more than once, each place counts.
    """
    strongest = weights.max(-1)
    rarest = rarity == rarity.max()
    return (rarest[strongest.indices] & (strongest.values > 0)).to(weights.dtype).mean(-1)


def coverage(cross: Float[Tensor, "*L T S"]) -> Float[Tensor, "*L S"]:
    """Sum over the target of the weight on each source token; over all tokens it adds up to T.

    Tu et al. 2016, "Modeling Coverage for Neural Machine Translation", section 3.
    """
    return cross.sum(-2)


def source_focus(cross: Float[Tensor, "*L T S"], words: Bool[Tensor, " S"]) -> Float[Tensor, "*L"]:
    """How nearly each source token is the one focus of some row, 0 to 1: what an aligning head does.

    Ours: over source tokens, the largest weight that any row gives, summed and divided by
    min(T, tokens), its largest possible value. A head that spreads its weight scores low, and so
    does one whose rows all look at one token; rows shifted by one score the same. `words` is
    False at specials.
    """
    # On the gold links of Vilar et al. 2006 this ranks the 32 heads of de-en as their alignment
    # error does, read the better way, shifted or not: Spearman 0.86, where confidence gives 0.59.
    largest = cross[..., words].amax(-2)
    return largest.sum(-1) / words.sum().clamp(min=1, max=cross.shape[-2])


def head_roles(measures: HeadMeasures) -> Int[Tensor, "L H"]:
    """The role of each head, as its index in ROLES: the first of these that applies.

    - previous token, next token, same token: at least POSITIONAL of the queries at offset -1, 1 or
      0; not for cross-attention, whose positions belong to two sentences.
    - separator sink: a sink mass of at least SINK.
    - rare word: a rare-word share of at least RARE.
    - aligned: a source focus of at least ALIGNED; for cross-attention only.
    - mixed: everything else.
    """
    role = torch.full_like(measures.positional.offset, ROLES.index("mixed"))
    # The last to be written wins, so the order is that of the docstring reversed.
    if measures.source_focus is not None:
        role[measures.source_focus >= ALIGNED] = ROLES.index("aligned")
    if measures.rare_share is not None:
        role[measures.rare_share >= RARE] = ROLES.index("rare word")
    role[measures.sink_mass >= SINK] = ROLES.index("separator sink")
    if measures.kind != "cross":
        for offset, name in ROLE_OF_OFFSET.items():
            at_offset = measures.positional.offset == offset
            role[at_offset & (measures.positional.share >= POSITIONAL)] = ROLES.index(name)
    return role


def measure_heads(record: AttentionRecord, rarity: Int[Tensor, " S"]) -> dict[Kind, HeadMeasures]:
    """Every measure of every head of one record, by kind.

    `rarity` of the source tokens is that of `rare_word_share`; token ids can serve, for a
    vocabulary lists specials first and then, within letters and merges or words, the frequent
    before the rare. The decoder's rows are those of the tokens it reads; the row that predicts
    </s> is the end of the sentence that `confidence` leaves out.
    """
    source, read = record.source, record.read
    words = ~_ends(record.predicted)
    causal = causal_mask(len(read), len(read))
    return {
        "encoder": _measures("encoder", record.encoder, ~_ends(source), source, rarity=rarity),
        "decoder": _measures("decoder", record.decoder, words, read, mask=causal),
        "cross": _measures("cross", record.cross, words, source, rarity=rarity),
    }


def _measures(
    kind: Kind,
    weights: Float[Tensor, "L H Q S"],
    queries: Bool[Tensor, " Q"],
    keys: Sequence[Token],
    mask: Bool[Tensor, "Q S"] | None = None,
    rarity: Int[Tensor, " S"] | None = None,
) -> HeadMeasures:
    """`queries` are those that `confidence` counts."""
    words = torch.tensor([token.word is not None for token in keys])
    return HeadMeasures(
        kind=kind,
        queries=weights.shape[-2],
        entropy=entropy(weights).mean(-1),
        confidence=confidence(weights, queries, ~_ends(keys)),
        positional=positional(weights, mask),
        sink_mass=sink_mass(weights, sink_tokens(keys)),
        rare_share=None if rarity is None else rare_word_share(weights, rarity),
        source_focus=source_focus(weights, words) if kind == "cross" else None,
    )


def _ends(tokens: Sequence[Token]) -> Bool[Tensor, " S"]:
    return torch.tensor([token.special and token.piece == EOS for token in tokens])
