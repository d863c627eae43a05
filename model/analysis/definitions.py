"""The measures and roles of heads, as the page, the study and the documentation name them.

CONTRIBUTING.md says what a new role needs. The payload carries the definitions.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from model.results import KINDS, Kind

Role = str  # a key of ROLE_DEFINITIONS
MEMORY: Role = "memory"  # of every part of a decoder without self-attention, and of no head
# The least share of queries at one offset that makes a head positional (Voita et al. 2019, section 5.1).
POSITIONAL = 0.9


class Measure(NamedTuple):
    """A measure as the page shows it: one value for each head, the largest first when heads are sorted."""

    name: str  # in payloads and links
    label: str
    definition: str
    comparison: str = ""  # for roles: {here} % in this sentence, {there} % over {count} sentences
    unit: str = ""
    digits: int = 2  # decimals
    maximum: float | None = 1.0  # end of the scale; None when there is no upper bound
    offset: str | None = None  # table of the offsets that the values are about
    sample: str | None = None  # table of the number of queries measured; None when it is every query
    without_end: bool = False  # whether the query of </s> is left out


MEASURES = (
    Measure(
        "confidence",
        "confidence",
        "Mean over queries of the largest weight; the end of the sentence is left out (Voita et al. 2019, "
        "section 4).",
        without_end=True,
    ),
    Measure(
        "entropy",
        "entropy",
        "Mean over queries of the entropy of the row: 0 if all weight is on one token, log2 n if it is "
        "spread evenly over n tokens.",
        unit=" bit",
        maximum=None,
    ),
    Measure(
        "offset_share",
        "fixed offset",
        "Share of queries whose strongest key is at the most common offset. The offset follows “at”; −1 is "
        f"the previous token. A head is positional from {POSITIONAL:.2f} on (Voita et al. 2019, "
        "section 5.1).",
        "Its strongest weight is there in {here} % of the rows here, in {there} % over {count} sentences.",
        offset="offset",
        sample="offset_queries",
    ),
    Measure(
        "sinks",
        "sink weight",
        "Mean weight on special tokens and final punctuation (Clark et al. 2019, section 3.2).",
        "{here} % of its weight here, {there} % over {count} sentences.",
    ),
    Measure(
        "focus",
        "source focus",
        "For each source token the largest weight that any row gives it; summed, and divided by the largest "
        "possible sum. Heads that align words score high. After “at”: 0 if the rows align the words that "
        "they predict, −1 if they align the words that they read. This is Headlight's own measure.",
        "Source focus {here} % here, {there} % over {count} sentences.",
        offset="focus_offset",
    ),
)
OFFSETS = {one.name: one.offset for one in MEASURES}


class RoleDefinition(NamedTuple):
    """A role: which heads have it, and how the page and the study show it.

    A head of one of `kinds` has the role if `measure` is at least `least` and, for a role with an offset, if
    the measure is about this offset. If it has several roles, the first one counts. Rows cannot show a role
    that even rows would have too; see `even_evidence`.
    """

    definition: str
    symbol: str  # an SVG path in a square of 10 by 10
    measure: str | None = None  # by its name in MEASURES; None for mixed
    least: float = 0.0
    kinds: tuple[Kind, ...] = KINDS
    offset: int | None = None
    evidence: str = ""  # a sentence about the measure, as {share} %
    short: str = ""  # in a cell of the study's figure


# In cross-attention the positions of query and key belong to two sentences.
_positional_role = partial(
    RoleDefinition, measure="offset_share", least=POSITIONAL, kinds=("encoder", "decoder")
)
# A row of cross-attention predicts one word and reads another; `focus_offset` says which of them it aligns.
_aligned_role = partial(
    RoleDefinition,
    measure="focus",
    least=0.5,
    kinds=("cross",),
    evidence="a source token gets {share} % of the weight in its best row, on average",
)
ROLE_DEFINITIONS: dict[Role, RoleDefinition] = {
    "previous token": _positional_role(
        "reads the previous token",
        "M8.5 5H1.5M4.5 2 1.5 5l3 3",
        offset=-1,
        evidence="{share} % of its rows look most at the previous token",
        short="prev",
    ),
    "next token": _positional_role(
        "reads the next token",
        "M1.5 5h7M5.5 2l3 3-3 3",
        offset=1,
        evidence="{share} % of its rows look most at the next token",
        short="next",
    ),
    "same token": _positional_role(
        "reads its own token",
        "M1.5 3.5h7M1.5 6.5h7",
        offset=0,
        evidence="{share} % of its rows look most at their own token",
        short="same",
    ),
    "separator sink": RoleDefinition(
        "reads special tokens and final punctuation",
        "M8 1v8M1 5h4.5M3.5 3l2 2-2 2",
        "sinks",
        least=0.5,  # the sinks get more than all words together
        evidence="{share} % of its weight is on special tokens and the final mark",
        short="sink",
    ),
    "aligned to the word it writes": _aligned_role(
        "most source tokens have a row that mainly reads them and predicts their translation",
        "M1 1h2v2h2v2h2v2h2v2",
        offset=0,
        short="writes",
    ),
    "aligned to the word just written": _aligned_role(
        "most source tokens have a row that mainly reads them, just after their translation was written",
        "M1 3h2v2h2v2h2v2M1 1h8",
        offset=-1,
        short="wrote",
    ),
    MEMORY: RoleDefinition(
        "keeps a running memory in place of attention", "M2 8V5M5 8V3.5M8 8V2", short="memory"
    ),
    "mixed": RoleDefinition("has none of the other roles", "M4.5 5h1"),
}
ROLES: tuple[Role, ...] = tuple(ROLE_DEFINITIONS)
