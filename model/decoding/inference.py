"""Encodes, searches and reads for a Translator: by the kernels, or by torch where they cannot be used."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.decoding.beam_tree import BeamTree
from model.decoding.kernels.compilation import COMPILATION
from model.decoding.kernels.model import MAX_ROWS, N_LIKELIEST, CompiledModel, Steps
from model.decoding.options import SearchOptions
from model.decoding.search import NEVER_PREDICTED, Candidate, encode_source, search, trim_padding
from model.decoding.step_decoder import product_dtype
from model.decoding.threads import map_in_threads
from model.errors import NOT_FINITE, UserError
from model.network.transformer import Encoded, HeadGates, Transformer
from model.text.tokenizer import BOS_ID, EOS_ID

CERTAIN = 1e-3  # nats by which a token must lead: rounding changes the lead by less
MAX_CELLS = 1 << 26  # attention weights that a search keeps, 268 MB; de-en has 3.6 million a hypothesis
PART_ROWS = 32  # hypotheses that a thread should have: with fewer, its products are slow


class EncodedSource(NamedTuple):
    """A source sentence and the encoder's output for it."""

    ids: Int[Tensor, "1 S"]
    encoded: Encoded  # with its weights
    milliseconds: float  # that encoding took
    compiled: CompiledModel | None  # what encoded it and reads its translation; None: torch does both


def greedy_start(steps: Steps, target: Sequence[int], n_forced: int, limit: int) -> int:
    """The number of leading tokens of `target` that a greedy search is sure to choose again.

    Its first `n_forced` tokens are forced; `steps` are the steps of `target`. A token is sure
    if it leads by more than rounding can change. `limit` is the length at which the search ends.
    """
    for step in range(n_forced, min(len(target), limit)):
        ids, values = steps.likeliest[step].tolist(), steps.likeliest_log_probabilities[step].tolist()
        allowed = [each for each in zip(ids, values, strict=True) if each[0] not in NEVER_PREDICTED]
        if len(allowed) < 2 or allowed[0][1] - allowed[1][1] < CERTAIN or allowed[0][0] != target[step]:
            return step
        if target[step] == EOS_ID:
            return step + 1
    return min(len(target), max(n_forced, limit))


def _check_finite(found: Sequence[Candidate | Steps]) -> None:
    if not found or not all(map(math.isfinite, found[0].log_probabilities)):
        raise UserError(NOT_FINITE)


class Inference:
    """Encodes, searches and reads. The results of the kernels and of torch are equal to rounding."""

    def __init__(self, model: Transformer, use_kernels: bool = True) -> None:
        self.use_kernels = use_kernels  # False for a model in training: fused optimizers hide their changes
        self._network = model
        self._packed: CompiledModel | None = None

    @property
    def device(self) -> torch.device:
        return self._network.output.weight.device

    @property
    def model(self) -> Transformer:
        """The model in eval mode."""
        model = self._network
        return model.eval() if model.training else model  # eval() visits every module, which takes time

    def compiled(self, gates: HeadGates | None = None) -> CompiledModel | None:
        """The model for the kernels; None while they are not ready, and where only torch can do the work.

        Only torch runs on a GPU, replaces the outputs of heads and knows every part of a network.
        """
        if not self.use_kernels or self.device.type != "cpu" or not COMPILATION.ready():
            return None
        if self._network.config.only_torch:
            return None
        if gates is not None and gates.baselines:
            return None
        if self._packed is None or not self._packed.is_current():
            self._packed = CompiledModel(self._network)
        return self._packed

    @torch.inference_mode()
    def encode(
        self, ids: Int[Tensor, "1 S"], gates: HeadGates | None = None, hidden: Sequence[int] = ()
    ) -> EncodedSource:
        """The source with the encoder's output and weights, read without the `hidden` places."""
        started, compiled = time.perf_counter(), None if hidden else self.compiled(gates)
        if compiled:
            encoded = compiled.encode(ids, gates)
        else:
            encoded = encode_source(self.model, ids, gates, explicit=True, hidden=hidden)
        return EncodedSource(ids, encoded, 1000 * (time.perf_counter() - started), compiled)

    @torch.inference_mode()
    def search(
        self,
        source: EncodedSource,
        options: SearchOptions,
        gates: HeadGates | None = None,
        forced: Sequence[int] = (),
        tree: BeamTree | None = None,
    ) -> tuple[list[Candidate], Steps | None]:
        """The translations found and the steps of the best, where the search kept them.

        Raises UserError if the model's weights are so large that its numbers are not finite.
        """
        ids = torch.tensor([list(forced)], dtype=torch.long, device=self.device)
        if source.compiled and options.beam_size <= MAX_ROWS and self._keeps_few_maps(source, options):
            (found,) = source.compiled.search(source.encoded, options, gates, forced=ids, tree=tree)
            _check_finite(found.candidates)
            return found.candidates, found.steps
        (candidates,) = search(
            self.model, source.ids, options, gates, forced=ids, encoded=source.encoded, tree=tree
        )
        _check_finite(candidates)
        return candidates, None

    def _keeps_few_maps(self, source: EncodedSource, options: SearchOptions) -> bool:
        """Whether there is room for the weights of every hypothesis, which only the kernels' search keeps."""
        length = source.ids.shape[1]
        cells = self.model.config.map_cells(length, options.limit(length))
        return options.beam_size * cells <= MAX_CELLS

    @torch.inference_mode()
    def search_batch(
        self,
        source: Int[Tensor, "B S"],
        options: SearchOptions,
        gates: HeadGates | None = None,
        exact: bool = False,
        forced: Sequence[int] = (),
    ) -> list[list[Candidate]]:
        """Search without weights, many rows in bfloat16 by torch where that is faster.

        Every translation begins with `forced`. If `exact`, all are searched as `search` does.
        """
        rows = len(source) * options.beam_size
        dtype = torch.float32 if exact or rows <= MAX_ROWS else product_dtype(rows, self.device)
        by_kernels = dtype == torch.float32 and options.beam_size <= MAX_ROWS
        if by_kernels and (compiled := self.compiled(gates)):
            return compiled.search_batch(source, options, gates, forced)
        model, count = self.model, torch.get_num_threads() if self.device.type == "cpu" else 1

        def found(part: Int[Tensor, "b S"]) -> list[list[Candidate]]:
            given = torch.tensor(forced, dtype=torch.long, device=part.device).expand(len(part), -1)
            return search(model, trim_padding(part), options, gates, dtype=dtype, forced=given)

        parts = torch.tensor_split(source, max(1, min(count, rows // PART_ROWS)))
        return [each for part in map_in_threads(found, parts) for each in part]

    @torch.inference_mode()
    def score(self, source: EncodedSource, target: Sequence[int], gates: HeadGates | None = None) -> Steps:
        """The steps of a given target. Raises UserError as `search` does."""
        steps = self._score(source, target, gates)
        _check_finite([steps])
        return steps

    def _score(self, source: EncodedSource, target: Sequence[int], gates: HeadGates | None) -> Steps:
        if source.compiled:
            return source.compiled.score(source.encoded, torch.tensor([list(target)]), gates)
        weights, scores = self.decode(source, target, gates)
        chosen = scores[torch.arange(len(target)), torch.tensor(target)]
        best = scores.topk(min(N_LIKELIEST, scores.shape[-1]), dim=-1)
        return Steps(weights[0], weights[1], tuple(chosen.tolist()), best.indices, best.values)

    @torch.inference_mode()
    def decode(
        self, source: EncodedSource, target: Sequence[int], gates: HeadGates | None = None
    ) -> tuple[list[Tensor], Float[Tensor, "T V"]]:
        """Self- and cross-attention weights and log-probabilities of one pass of torch."""
        read = torch.tensor([[BOS_ID, *target[:-1]]], device=self.device)
        decoded = self.model.decode(read, source.encoded, gates, explicit=True)
        weights = [cast(Tensor, kind)[0].cpu() for kind in (decoded.self_weights, decoded.cross_weights)]
        return weights, self.model.output(decoded.hidden[0]).log_softmax(-1).cpu()
