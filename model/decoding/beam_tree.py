"""The beam tree: every hypothesis that a beam search considered, and why it was kept or dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.errors import Sentence
from model.results import BeamNode, NodeStatus, Token

FORCED, IN_BEAM = Sentence("given by the prefix"), Sentence("one of the best of its step")
ENDED, CUT = Sentence("ended"), Sentence("cut at the length limit")
OUTSCORED, NARROWED = Sentence("others had better scores"), Sentence("fewer places were left in the beam")
HOPELESS = Sentence("its score could not become the best")
REASONS = {
    "forced": FORCED,
    "in_beam": IN_BEAM,
    "ended": ENDED,
    "cut": CUT,
    "outscored": OUTSCORED,
    "narrowed": NARROWED,
    "hopeless": HOPELESS,
}  # by their names in viz/viewer/engine/search.js


class BeamTree:
    """Records the search of one sentence in `nodes`, each parent before its children."""

    def __init__(self, token: Callable[[int], Token]) -> None:
        self.nodes: list[BeamNode] = []
        self._token = token  # the token of an id
        self._beam: list[int] = []  # the node of each hypothesis in the beam, best first

    def add_prefix_token(self, step: int, token: int, log_probability: float, penalty: float) -> None:
        self._add(step, token, 0, log_probability, penalty, "kept", FORCED)
        self._beam = [len(self.nodes) - 1]

    def extend(
        self,
        step: int,
        penalty: float,
        width: int,
        parent: Int[Tensor, " C"],
        token: Int[Tensor, " C"],
        log_probability: Float[Tensor, " C"],
        ended: Bool[Tensor, " k"],
        cut: bool,
    ) -> None:
        """Add the best C extensions of the k hypotheses in the beam.

        `parent` is an index into the beam before this step. The first `width` extensions are taken;
        `ended` says for each of the first k whether it leaves the beam.
        """
        k = len(ended)
        beam = []
        rows = zip(parent.tolist(), token.tolist(), log_probability.tolist(), strict=True)
        for rank, (origin, index, value) in enumerate(rows):
            if value == float("-inf"):
                break
            status: NodeStatus = "kept"
            reason = IN_BEAM
            if rank >= width:
                status, reason = "pruned", NARROWED if rank < k else OUTSCORED
            elif bool(ended[rank]):
                status, reason = "finished", CUT if cut else ENDED
            self._add(step, index, origin, value, penalty, status, reason)
            if rank < k:
                beam.append(len(self.nodes) - 1)
        self._beam = beam

    def stop(self) -> None:
        """Mark what is still in the beam as given up."""
        for place in self._beam:
            if self.nodes[place].status == "kept":
                self.nodes[place] = replace(self.nodes[place], status="pruned", reason=HOPELESS)

    def _add(
        self,
        step: int,
        token: int,
        origin: int,
        log_probability: float,
        penalty: float,
        status: NodeStatus,
        reason: str,
    ) -> None:
        parent = self._beam[origin] if self._beam else None
        score = log_probability / penalty
        self.nodes.append(BeamNode(step, self._token(token), parent, log_probability, score, status, reason))
