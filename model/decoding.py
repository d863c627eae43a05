"""Beam search over a key-value cache; greedy decoding is beam 1."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.attention import KeyValue
from model.errors import UserError
from model.masks import padding_mask
from model.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from model.transformer import Encoded, HeadGates, Transformer

MAX_BEAM = 100
MAX_LENGTH_PENALTY = 10
NEVER_PREDICTED = [PAD_ID, UNK_ID, BOS_ID]


@dataclass(frozen=True)
class SearchOptions:
    """How to search. `max_length` counts target tokens with </s>; None follows the source."""

    beam_size: int = 1
    length_penalty: float = 1.0
    max_length: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.beam_size <= MAX_BEAM:
            raise UserError(f"The beam size is {self.beam_size}; give 1 to {MAX_BEAM}.")
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            limits = f"0 to {MAX_LENGTH_PENALTY}"
            raise UserError(f"The length penalty is {self.length_penalty}; give {limits}.")

    def limit(self, source_length: int) -> int:
        """Longest target allowed for a source of this many tokens."""
        return self.max_length or 2 * source_length + 10


@dataclass(frozen=True)
class Candidate:
    """One translation that a search ended with, as ids without <s>."""

    ids: tuple[int, ...]  # ends with </s> unless the length limit cut it
    log_probability: float
    score: float


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, equation 14 of Wu et al. 2016."""
    return float(((5 + length) / 6) ** alpha)


@torch.inference_mode()
def search(
    model: Transformer,
    source: Int[Tensor, "B S"],
    options: SearchOptions | None = None,
    gates: HeadGates | None = None,
) -> list[list[Candidate]]:
    """The best translations of each sentence, at most `beam_size`, the best first.

    A hypothesis that ends leaves the beam, which narrows by one (Sutskever et al. 2014), so
    beam 1 is greedy decoding. A sentence is done when nothing alive can still score higher
    than its best finished hypothesis. Padding must stand on the right of `source`.
    """
    options = options or SearchOptions()
    mask = padding_mask(source, PAD_ID)
    encoded = model.encode(source, None if bool(mask.all()) else mask, gates)
    # The limit follows each sentence's own length, so that padding changes nothing.
    limits = [options.limit(length) for length in (source != PAD_ID).sum(-1).tolist()]
    beam = _Beam.start(encoded, limits, options)
    while beam.sentences:
        decoded = model.decode(beam.last, beam.encoded, beam.past, gates)
        beam.extend(model.output(decoded.hidden[:, -1]), decoded.past)
    return [sorted(done, key=lambda found: -found.score) for done in beam.finished]


@dataclass
class _Beam:
    """Hypotheses of the sentences still searched: row i * k + j is hypothesis j of sentence i."""

    options: SearchOptions
    encoded: Encoded
    tokens: Int[Tensor, "R t"]
    log_probability: Float[Tensor, "N k"]  # -inf where the beam has narrowed
    sentences: list[int]  # place in the caller's batch of each of the N sentences
    limits: Int[Tensor, " N"]  # longest target allowed
    finished: list[list[Candidate]]  # of all sentences of the batch
    past: list[KeyValue] | None = None

    @classmethod
    def start(cls, encoded: Encoded, limits: list[int], options: SearchOptions) -> _Beam:
        """One empty hypothesis in each sentence's beam."""
        k, batch = options.beam_size, len(limits)
        device = encoded.memory[0].key.device
        rows = torch.arange(batch, device=device).repeat_interleave(k)
        score = torch.full((batch, k), float("-inf"), device=device)
        score[:, 0] = 0.0
        tokens = torch.full((batch * k, 1), BOS_ID, device=device)
        encoded = encoded if k == 1 else _select_memory(encoded, rows)
        finished: list[list[Candidate]] = [[] for _ in limits]
        longest = torch.tensor(limits, device=device)
        return cls(options, encoded, tokens, score, list(range(batch)), longest, finished)

    @property
    def last(self) -> Int[Tensor, "R 1"]:
        """The token that each hypothesis reads next."""
        return self.tokens[:, -1:]

    def extend(self, logits: Float[Tensor, "R V"], past: list[KeyValue]) -> None:
        """Replace each sentence's hypotheses by their best extensions."""
        k = self.options.beam_size
        n = len(self.sentences)
        length = self.tokens.shape[1]  # of the extended hypotheses, without <s>
        step = logits.float().log_softmax(-1)
        step[:, NEVER_PREDICTED] = float("-inf")
        total = (self.log_probability.view(-1, 1) + step).view(n, -1)
        best, flat = total.topk(k, dim=-1)
        device = best.device
        width = torch.tensor([[k - len(self.finished[i])] for i in self.sentences], device=device)
        best = best.masked_fill(torch.arange(k, device=device) >= width, float("-inf"))
        parent = flat // step.shape[-1] + torch.arange(0, n * k, k, device=device)[:, None]
        token = flat % step.shape[-1]
        tokens = torch.cat((self.tokens[parent.view(-1)], token.view(-1, 1)), dim=1)

        ended = (token == EOS_ID) | (length >= self.limits)[:, None]
        ended &= best > float("-inf")
        self._finish(tokens, best, ended)
        self.log_probability = best.masked_fill(ended, float("-inf"))
        self.tokens = tokens
        self._keep(self._alive(), parent, past)

    def _finish(
        self, tokens: Int[Tensor, "R t"], total: Float[Tensor, "N k"], ended: Bool[Tensor, "N k"]
    ) -> None:
        """Move the hypotheses that ended to the finished ones."""
        k = self.options.beam_size
        penalty = length_penalty(tokens.shape[1] - 1, self.options.length_penalty)
        for i, j in ended.nonzero().tolist():
            ids = tuple(tokens[i * k + j, 1:].tolist())
            value = float(total[i, j])
            self.finished[self.sentences[i]].append(Candidate(ids, value, value / penalty))

    def _alive(self) -> Bool[Tensor, " N"]:
        """Sentences that could still end better than the best they have.

        As a hypothesis grows its log-probability only falls and its penalty, for an exponent of
        at least 0, only grows, so today's log-probability over the penalty at the length limit
        bounds every future score.
        """
        alpha = self.options.length_penalty
        bounds = self.log_probability.amax(-1).tolist()
        alive = []
        for sentence, limit, bound in zip(self.sentences, self.limits.tolist(), bounds, strict=True):
            best = max((found.score for found in self.finished[sentence]), default=None)
            alive.append(
                bound > float("-inf") and (best is None or bound / length_penalty(limit, alpha) > best)
            )
        return torch.tensor(alive, device=self.tokens.device)

    def _keep(self, alive: Bool[Tensor, " N"], parent: Int[Tensor, "N k"], past: list[KeyValue]) -> None:
        """Drop sentences that are done and make the cache follow its hypotheses."""
        if bool(alive.all()):
            rows = parent.view(-1)
            reordered = self.options.beam_size > 1
        else:
            places = alive.nonzero().view(-1)
            k = self.options.beam_size
            kept = (places[:, None] * k + torch.arange(k, device=places.device)).view(-1)
            self.sentences = [self.sentences[i] for i in places.tolist()]
            self.tokens, self.log_probability = self.tokens[kept], self.log_probability[places]
            self.limits = self.limits[places]
            self.encoded = _select_memory(self.encoded, kept)
            rows, reordered = parent[places].view(-1), True
        self.past = [_select(layer, rows) for layer in past] if reordered else past


def _select(layer: KeyValue, rows: Int[Tensor, " R"]) -> KeyValue:
    return KeyValue(layer.key.index_select(0, rows), layer.value.index_select(0, rows))


def _select_memory(encoded: Encoded, rows: Int[Tensor, " R"]) -> Encoded:
    mask = None if encoded.mask is None else encoded.mask.index_select(0, rows)
    return Encoded([_select(layer, rows) for layer in encoded.memory], mask, None)
