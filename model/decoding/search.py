"""Beam search over a key-value cache; greedy decoding is beam 1.

Axis letters beside the project's: N sentences still searched, k hypotheses of each, R = N k rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.decoding.beam_tree import BeamTrees
from model.decoding.step_decoder import IncrementalDecoder
from model.errors import UserError
from model.network.masks import padding_mask
from model.network.transformer import Encoded, HeadGates, Transformer
from model.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID

MAX_BEAM = 100
MAX_LENGTH_PENALTY = 10
NEVER_PREDICTED = [PAD_ID, UNK_ID, BOS_ID]
KEPT_SHARE = 0.75  # of the rows still alive, below which dropping the others pays for copying the cache
NEVER = float("-inf")
BFLOAT16_TOLERANCE = 0.1  # nats a token; of 1,000 captions 93 % came out the same, BLEU within 0.2


@dataclass(frozen=True)
class SearchOptions:
    """How to search. `max_length` counts target tokens with </s>; None follows the source.

    The search ends when nothing alive can still enter the `n_best` translations found.
    """

    beam_size: int = 1
    length_penalty: float = 1.0
    max_length: int | None = None
    n_best: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.beam_size <= MAX_BEAM:
            raise UserError(f"The beam size is {self.beam_size}; give 1 to {MAX_BEAM}.")
        if not 0 <= self.length_penalty <= MAX_LENGTH_PENALTY:
            limits = f"0 to {MAX_LENGTH_PENALTY}"
            raise UserError(f"The length penalty is {self.length_penalty}; give {limits}.")
        if self.max_length is not None and self.max_length < 1:
            raise UserError(f"The longest translation allowed has {self.max_length} tokens; give at least 1.")
        if not 1 <= self.n_best <= self.beam_size:
            raise UserError(
                f"A beam of {self.beam_size} cannot find {self.n_best} translations; "
                f"give n_best 1 to {self.beam_size}."
            )

    def limit(self, source_length: int) -> int:
        """Longest target allowed for a source of this many tokens."""
        return 2 * source_length + 10 if self.max_length is None else self.max_length


@dataclass(frozen=True)
class Candidate:
    """One translation that a search ended with, as ids without <s>."""

    ids: tuple[int, ...]  # ends with </s> unless the length limit cut it
    log_probability: float
    score: float
    log_probabilities: tuple[float, ...]  # of each token


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha, equation 14 of Wu et al. 2016."""
    return float(((5 + length) / 6) ** alpha)


@torch.inference_mode()
def search(
    model: Transformer,
    source: Int[Tensor, "B S"],
    options: SearchOptions | None = None,
    gates: HeadGates | None = None,
    *,
    prefix: Int[Tensor, "B P"] | None = None,
    encoded: Encoded | None = None,
    trees: BeamTrees | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[list[Candidate]]:
    """The translations found of each sentence, at most `beam_size`, the best first.

    A hypothesis that ends leaves the beam, which narrows by one (Sutskever et al. 2014), so
    beam 1 is greedy decoding. Padding must stand on the right of `source`. Every translation
    begins with `prefix`, whose log-probability counts like any other tokens'; it holds no </s>, and at
    least one token follows it whatever the length limit. `gates` have no batch dimension. `encoded`
    is the encoder's output under these gates where the caller has it already. `trees` hears of all
    that is considered. `dtype` is that of the products; in bfloat16 log-probabilities are within
    BFLOAT16_TOLERANCE nats a token of those of a forced pass, in float32 within 1e-4.
    """
    options = options or SearchOptions()
    if encoded is None:
        with torch.autocast(source.device.type, dtype, enabled=dtype != torch.float32):
            encoded = encode(model, source, gates)
    # The limit follows each sentence's own length, so that padding changes nothing.
    limits = [options.limit(length) for length in (source != PAD_ID).sum(-1).tolist()]
    decoder = IncrementalDecoder(model, encoded, options.beam_size, gates, dtype)
    beam = _Beam(options, limits, source.device, trees)
    for tokens in () if prefix is None else prefix.unbind(1):
        beam.force(decoder.step(beam.last), tokens)
    while beam.sentences:
        rows = beam.extend(decoder.step(beam.last))
        kept = beam.drop_finished()
        if kept is not None:
            k = options.beam_size
            rows = rows.view(-1, k)[kept].view(-1)
        if kept is not None or options.beam_size > 1:
            decoder.select(rows, kept)
    return [sorted(done, key=lambda found: -found.score) for done in beam.finished]


def encode(
    model: Transformer, source: Int[Tensor, "B S"], gates: HeadGates | None = None, explicit: bool = False
) -> Encoded:
    """Read padded sentences; without padding there is no mask."""
    mask = padding_mask(source, PAD_ID)
    return model.encode(source, None if bool(mask.all()) else mask, gates, explicit)


class _Beam:
    """Hypotheses of the sentences still searched: row i * k + j is hypothesis j of sentence i."""

    def __init__(
        self, options: SearchOptions, limits: list[int], device: torch.device, trees: BeamTrees | None
    ) -> None:
        k, n = options.beam_size, len(limits)
        alpha = options.length_penalty
        self.options = options
        self.trees = trees
        self.finished: list[list[Candidate]] = [[] for _ in limits]  # of all sentences of the batch
        self.sentences = list(range(n))  # place in the caller's batch of each of the N sentences
        self.tokens = torch.full((n * k, 1), BOS_ID, device=device)  # R, t
        self.totals = torch.zeros(n * k, 1, device=device)  # R, t: log-probability up to each token
        # What each hypothesis has, -inf where there is none: at the start all but the first of a sentence.
        self.log_probability = torch.full((n, k), NEVER, device=device)
        self.log_probability[:, 0] = 0.0
        self.places = torch.arange(k, device=device)
        self.limits = torch.tensor(limits, device=device)[:, None]  # N, 1
        self.last_penalty = torch.tensor([length_penalty(limit, alpha) for limit in limits], device=device)
        self.width = torch.full((n, 1), k, device=device)  # hypotheses not yet finished
        self.score_threshold = torch.full((n,), NEVER, device=device)  # score of the worst of the n best

    @property
    def last(self) -> Int[Tensor, " R"]:
        """The token that each hypothesis reads next."""
        return self.tokens[:, -1]

    @property
    def length(self) -> int:
        """Tokens of each hypothesis without <s>."""
        return self.tokens.shape[1] - 1

    def force(self, logits: Float[Tensor, "R V"], tokens: Int[Tensor, " N"]) -> None:
        """Append the given token of each sentence to all its hypotheses."""
        step = logits.log_softmax(-1).view(len(tokens), self.options.beam_size, -1)
        self.log_probability = self.log_probability + step[torch.arange(len(tokens)), :, tokens]
        self.tokens = torch.cat((self.tokens, tokens.repeat_interleave(self.options.beam_size)[:, None]), 1)
        self.totals = torch.cat((self.totals, self.log_probability.view(-1, 1)), 1)
        if self.trees is not None:
            penalty = length_penalty(self.length, self.options.length_penalty)
            for i, token, total in zip(
                self.sentences, tokens.tolist(), self.log_probability[:, 0].tolist(), strict=True
            ):
                self.trees.force(i, self.length - 1, token, total, penalty)

    def extend(self, logits: Float[Tensor, "R V"]) -> Int[Tensor, " R"]:
        """Replace each sentence's hypotheses by their best extensions; the row that each one extends."""
        k, n = self.options.beam_size, len(self.sentences)
        step = logits.log_softmax(-1)
        step[:, : max(NEVER_PREDICTED) + 1] = NEVER
        best, parent, token = self._best(step, k if self.trees is None else 2 * k)  # who watches sees more
        taken = best[:, :k].masked_fill(self.places >= self.width, NEVER)
        rows = (parent[:, :k] + torch.arange(0, n * k, k, device=step.device)[:, None]).view(-1)
        if k > 1:
            self.tokens, self.totals = self.tokens[rows], self.totals[rows]
        self.tokens = torch.cat((self.tokens, token[:, :k].reshape(-1, 1)), 1)
        self.totals = torch.cat((self.totals, taken.view(-1, 1)), 1)
        ended = ((token[:, :k] == EOS_ID) | (self.length >= self.limits)) & (taken > NEVER)
        if self.trees is not None:
            self._watch(self.trees, parent, token, best, ended)
        self._finish(taken, ended)
        return rows

    def _best(
        self, step: Float[Tensor, "R V"], count: int
    ) -> tuple[Float[Tensor, "N C"], Int[Tensor, "N C"], Int[Tensor, "N C"]]:
        """Log-probability, parent's place in the beam and token of each sentence's best extensions."""
        if count == 1:  # greedy; max takes half of topk's time
            value, token = step.max(-1, keepdim=True)
            return self.log_probability + value, torch.zeros_like(token), token
        # The best of a sentence are among the best of its rows.
        value, token = step.topk(min(count, step.shape[-1]))
        total = (self.log_probability.view(-1, 1) + value).view(len(self.sentences), -1)
        best, place = total.topk(min(count, total.shape[-1]))
        return best, place // value.shape[-1], token.view(len(total), -1).gather(1, place)

    def _finish(self, taken: Float[Tensor, "N k"], ended: Bool[Tensor, "N k"]) -> None:
        """Move what ended to the finished hypotheses, and give up what can no longer win.

        As a hypothesis grows its log-probability only falls and its penalty, for an exponent of
        at least 0, only grows, so today's log-probability over the penalty at the length limit
        bounds every future score.
        """
        k = self.options.beam_size
        penalty = length_penalty(self.length, self.options.length_penalty)
        for i, j in ended.nonzero().tolist():
            totals = self.totals[i * k + j].tolist()
            ids = tuple(self.tokens[i * k + j, 1:].tolist())
            each = tuple(after - before for before, after in pairwise(totals))
            done = self.finished[self.sentences[i]]
            done.append(Candidate(ids, totals[-1], totals[-1] / penalty, each))
            self.width[i] = k - len(done)
            if len(done) >= self.options.n_best:
                self.score_threshold[i] = sorted(found.score for found in done)[-self.options.n_best]
        alive = taken.masked_fill(ended, NEVER)
        hopeless = alive.amax(-1) / self.last_penalty <= self.score_threshold
        self.log_probability = alive.masked_fill(hopeless[:, None], NEVER)
        if self.trees is not None:
            for i in hopeless.nonzero().view(-1).tolist():
                self.trees.stop(self.sentences[i])

    def drop_finished(self) -> Int[Tensor, " n"] | None:
        """Forget the sentences that are done, once they are many enough; the places of those that stay."""
        kept = (self.log_probability.amax(-1) > NEVER).nonzero().view(-1)
        if len(kept) > KEPT_SHARE * len(self.sentences):
            return None
        k = self.options.beam_size
        rows = (kept[:, None] * k + self.places).view(-1)
        self.sentences = [self.sentences[i] for i in kept.tolist()]
        self.tokens, self.totals = self.tokens[rows], self.totals[rows]
        self.log_probability, self.limits = self.log_probability[kept], self.limits[kept]
        self.last_penalty, self.width, self.score_threshold = (
            self.last_penalty[kept],
            self.width[kept],
            self.score_threshold[kept],
        )
        return kept

    def _watch(
        self,
        trees: BeamTrees,
        parent: Int[Tensor, "N C"],
        token: Int[Tensor, "N C"],
        best: Float[Tensor, "N C"],
        ended: Bool[Tensor, "N k"],
    ) -> None:
        penalty = length_penalty(self.length, self.options.length_penalty)
        for i, sentence in enumerate(self.sentences):
            width, limit = int(self.width[i]), int(self.limits[i])
            cut = self.length >= limit
            trees.extend(
                sentence, self.length - 1, penalty, width, parent[i], token[i], best[i], ended[i], cut
            )
