"""Everything that a beam search considered, one tree for each sentence."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.results import NodeStatus

FORCED, IN_BEAM = "given by the prefix", "among the best of its step"
ENDED, CUT = "ended", "cut at the length limit"
OUTSCORED, NARROWED, HOPELESS = "outscored", "the beam had narrowed", "could no longer win"
REASONS = (FORCED, IN_BEAM, ENDED, CUT, OUTSCORED, NARROWED, HOPELESS)


@dataclass(frozen=True)
class Node:
    """A hypothesis as the search saw it: `model.results.BeamNode` with the token as its id."""

    step: int
    token: int
    parent: int | None
    log_probability: float
    score: float
    status: NodeStatus
    reason: str


class BeamTrees:
    """Listens to a search; `nodes[i]` is the tree of sentence i, each parent before its children."""

    def __init__(self) -> None:
        self.nodes: defaultdict[int, list[Node]] = defaultdict(list)
        self._open: dict[int, list[int]] = {}  # of each sentence, the node in each place of its beam

    def force(self, sentence: int, step: int, token: int, log_probability: float, penalty: float) -> None:
        """Note a token that the prefix gives."""
        (parent,) = self._open.get(sentence, [None])
        nodes = self.nodes[sentence]
        nodes.append(Node(step, token, parent, log_probability, log_probability / penalty, "kept", FORCED))
        self._open[sentence] = [len(nodes) - 1]

    def extend(
        self,
        sentence: int,
        step: int,
        penalty: float,
        width: int,
        parent: Int[Tensor, " C"],
        token: Int[Tensor, " C"],
        log_probability: Float[Tensor, " C"],
        ended: Bool[Tensor, " k"],
        cut: bool,
    ) -> None:
        """Note the best C extensions of one sentence's k hypotheses.

        `parent` is a place in the beam before the step; the first `width` extensions are taken, and
        `ended` says of the first k whether they leave the beam.
        """
        before, k = self._open.get(sentence), len(ended)
        nodes = self.nodes[sentence]
        places = []
        rows = zip(parent.tolist(), token.tolist(), log_probability.tolist(), strict=True)
        for rank, (place, index, value) in enumerate(rows):
            if value == float("-inf"):
                break
            status: NodeStatus = "kept"
            reason = IN_BEAM
            if rank >= width:
                status, reason = "pruned", NARROWED if rank < k else OUTSCORED
            elif bool(ended[rank]):
                status, reason = "finished", CUT if cut else ENDED
            origin = before[place] if before else None
            nodes.append(Node(step, index, origin, value, value / penalty, status, reason))
            if rank < k:
                places.append(len(nodes) - 1)
        self._open[sentence] = places

    def stop(self, sentence: int) -> None:
        """Note that what is still in the beam of a sentence was given up."""
        nodes = self.nodes[sentence]
        for place in self._open.pop(sentence):
            if nodes[place].status == "kept":
                nodes[place] = replace(nodes[place], status="pruned", reason=HOPELESS)
