"""CompiledModel: one model, run by the kernels. Results equal torch's up to rounding errors.

Further axis letters: N sentences, k hypotheses of each, A likeliest tokens kept of each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from model.decoding.beam_tree import BeamTree
from model.decoding.kernels.packed import (
    Floats,
    Gates,
    Integers,
    Memory,
    Reading,
    Scratch,
    new_scratch,
    pack_decoder,
    pack_encoder,
    pack_positions,
)
from model.decoding.options import SearchOptions, length_penalty
from model.decoding.search import Candidate, trim_padding
from model.decoding.threads import map_in_threads
from model.network.attention import KeyValue
from model.network.transformer import Encoded, HeadGates, Transformer
from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from model.decoding.kernels.search import Ends, Extensions, History, Rules

MAX_ROWS = 16  # hypotheses of all sentences together; more make the kernels no faster
N_LIKELIEST = 5  # tokens kept of each step


class Steps(NamedTuple):
    """What the model computed at each token of one translation."""

    self_weights: Float[Tensor, "M H T T"]
    cross_weights: Float[Tensor, "M H T S"]
    log_probabilities: tuple[float, ...]
    likeliest: Int[Tensor, "T A"]  # ids of the next tokens, the likeliest first
    likeliest_log_probabilities: Float[Tensor, "T A"]


class Found(NamedTuple):
    """The translations found of one sentence, the best first, and the steps of the best."""

    candidates: list[Candidate]
    steps: Steps


class _Searched(NamedTuple):
    """What a search has filled in."""

    rules: Rules
    history: History
    extensions: Extensions
    ends: Ends

    def candidates(self, n: int) -> list[Candidate]:
        """The finished hypotheses of sentence n, the best first."""
        return [_candidate(self.history, self.ends, n, place) for place in self.order(n)]

    def order(self, n: int) -> list[int]:
        """Their places, the best first."""
        order: list[int] = np.argsort(-self.ends.score[n, : self.ends.number[n]], kind="stable").tolist()
        return order


class CompiledModel:
    """One model's weights, packed at this moment. Results equal torch's to rounding."""

    def __init__(self, model: Transformer) -> None:
        self.config = model.config
        self._parameters = list(model.parameters())  # once: walking through all modules takes longer
        self._versions = _versions(self._parameters)
        self._source_embedding, self._target_embedding = model.source_embedding, model.target_embedding
        self._encoder = pack_encoder(model)
        self._decoder = pack_decoder(model, self._encoder.embedding)

    def is_current(self) -> bool:
        """Whether the model still has these weights, as far as torch notices their changes."""
        return self._versions == _versions(self._parameters)

    def encode(self, source: Int[Tensor, "B S"], gates: HeadGates | None = None) -> Encoded:
        """Read padded sentences, every attention weight kept: `Transformer.encode`."""
        memory, weights = self._read(source, gates, kept=len(source))
        key, value = torch.from_numpy(memory.key), torch.from_numpy(memory.value)
        mask = (source != PAD_ID)[:, None, None, :]
        return Encoded(
            [KeyValue(*layer) for layer in zip(key, value, strict=True)], mask, torch.from_numpy(weights)
        )

    def _read(self, source: Int[Tensor, "B S"], gates: HeadGates | None, kept: int) -> tuple[Memory, Floats]:
        """The encoder's output for padded sentences, and the attention weights of all of them or of one."""
        from model.decoding.kernels import network

        config, (n, s) = self.config, source.shape
        if s > len(self._encoder.positions):
            self._encoder = self._encoder._replace(positions=pack_positions(self._source_embedding, s))
        shape = (config.n_decoder_layers, n, config.n_heads, s, config.d_head)
        lengths = (source != PAD_ID).sum(-1).numpy()
        memory = Memory(np.zeros(shape, np.float32), np.zeros(shape, np.float32), lengths, np.arange(s))
        weights = np.zeros((kept, config.n_encoder_layers, config.n_heads, s, s), np.float32)
        gate = _gate(None if gates is None else gates.encoder, config.n_encoder_layers, config.n_heads)
        scratch = new_scratch(s, config.d_model, config.d_ff, 1, config.n_heads, s, 1, 1)
        network.encode(self._encoder, source.contiguous().numpy(), gate, scratch, memory, weights)
        return memory, weights

    def score(self, encoded: Encoded, target: Int[Tensor, "1 T"], gates: HeadGates | None = None) -> Steps:
        """The steps of a given translation of one sentence, in one pass: no search."""
        from model.decoding.kernels import search

        memory, (ids,) = _memory(encoded), target.contiguous().numpy()
        t, s = len(ids), memory.key.shape[3]
        self._lengthen(t)
        tokens, positions = np.concatenate(([BOS_ID], ids[:-1])), np.arange(t)
        reading = Reading(tokens, np.zeros(t, np.int64), positions, np.tile(positions, (t, 1)), 0)
        shape = (self.config.n_decoder_layers, self.config.n_heads)
        record = search.new_record(t, *shape, s, N_LIKELIEST)
        scratch = self._scratch(t, places=t, steps=1)
        search.score(self._decoder, memory, self._gates(gates), scratch, reading, ids, record)
        own, cross = record.self_weights.transpose(1, 2, 0, 3), record.cross_weights.transpose(1, 2, 0, 3)
        values = tuple(record.log_probability.tolist())
        return _steps(own, cross, values, record.top_token, record.top_log_probability)

    def search(
        self,
        encoded: Encoded,
        options: SearchOptions,
        gates: HeadGates | None = None,
        *,
        forced: Int[Tensor, "B F"] | None = None,
        tree: BeamTree | None = None,
    ) -> list[Found]:
        """What `model.decoding.search.search` finds, with every attention weight of the best translation.

        There may be at most MAX_ROWS hypotheses, all sentences counted.
        """
        first = torch.empty(len(encoded.cross_kv[0].key), 0, dtype=torch.long) if forced is None else forced
        searched = self._search(_memory(encoded), options, gates, first, tree, keep=True)
        if tree is not None:
            _watch(tree, searched.rules, searched.history, searched.extensions)
        found = []
        for n in range(len(first)):
            candidates, best = searched.candidates(n), searched.order(n)[0]
            steps = _best_steps(searched.history, searched.ends, n, best, candidates[0])
            found.append(Found(candidates, steps))
        return found

    def search_batch(
        self,
        source: Int[Tensor, "B S"],
        options: SearchOptions,
        gates: HeadGates | None = None,
        forced: Sequence[int] = (),
    ) -> list[list[Candidate]]:
        """The translations of any number of padded sentences, some sentences on each thread."""

        def found(part: Int[Tensor, "b S"]) -> list[list[Candidate]]:
            part = trim_padding(part)
            given = torch.tensor(forced, dtype=torch.long).expand(len(part), -1)
            memory, _ = self._read(part, gates, kept=1)
            searched = self._search(memory, options, gates, given, None, keep=False)
            return [searched.candidates(n) for n in range(len(part))]

        parts = torch.split(source, max(1, MAX_ROWS // options.beam_size))
        return [each for part in map_in_threads(found, parts) for each in part]

    def _search(
        self,
        memory: Memory,
        options: SearchOptions,
        gates: HeadGates | None,
        forced: Int[Tensor, "B F"],
        tree: BeamTree | None,
        keep: bool,
    ) -> _Searched:
        """Search; the attention weights are kept if `keep`."""
        from model.decoding.kernels import search

        n, s = memory.key.shape[1], memory.key.shape[3]
        first = forced.contiguous().numpy()
        limits = [options.limit(length) for length in memory.lengths.tolist()]
        steps = max(*limits, first.shape[1] + 1)
        self._lengthen(steps)
        penalty = [length_penalty(length, options.length_penalty) for length in range(steps + 1)]
        rules = search.Rules(first, options.beam_size, options.n_best, np.array(limits), np.array(penalty))
        shape = (self.config.n_decoder_layers, self.config.n_heads)
        k = options.beam_size * (1 if tree is None else 2)  # a beam tree also shows dropped hypotheses
        rows = n * options.beam_size
        a = max(k, N_LIKELIEST) + search.FIRST_PREDICTED
        history = search.new_history(steps, steps if keep else 1, rows, a, *shape, s)
        extensions = search.new_extensions(1 if tree is None else steps, n, k)
        ends = search.new_ends(n, options.beam_size)
        scratch = self._scratch(rows, rows * steps, steps)
        search.search(self._decoder, memory, self._gates(gates), scratch, rules, history, extensions, ends)
        return _Searched(rules, history, extensions, ends)

    def _lengthen(self, steps: int) -> None:
        """Have at least this many positions."""
        if steps > len(self._decoder.positions):
            self._decoder = self._decoder._replace(positions=pack_positions(self._target_embedding, steps))

    def _scratch(self, rows: int, places: int, steps: int) -> Scratch:
        config = self.config
        layers, heads = config.n_decoder_layers, config.n_heads
        vocabulary = config.target_vocabulary
        inner = config.of_decoder.d_ff
        return new_scratch(rows, config.d_model, inner, layers, heads, places, steps, vocabulary)

    def _gates(self, gates: HeadGates | None) -> Gates:
        shape = (self.config.n_decoder_layers, self.config.n_heads)
        if gates is None:
            return Gates(_gate(None, *shape), _gate(None, *shape))
        return Gates(_gate(gates.decoder, *shape), _gate(gates.cross, *shape))


def _memory(encoded: Encoded) -> Memory:
    key, value = (np.array([layer[i].numpy() for layer in encoded.cross_kv], order="C") for i in (0, 1))
    n, s = key.shape[1], key.shape[3]
    lengths = np.full(n, s) if encoded.mask is None else encoded.mask.sum((1, 2, 3)).numpy()
    return Memory(key, value, lengths, np.arange(s))


def _path(history: History, ends: Ends, n: int, place: int) -> list[int]:
    """The row of each step of a finished hypothesis."""
    step, row = int(ends.step[n, place]), int(ends.row[n, place])
    rows = [row]
    for t in range(step, 0, -1):
        row = int(history.parent[t, row])
        rows.append(row)
    return rows[::-1]


def _candidate(history: History, ends: Ends, n: int, place: int) -> Candidate:
    rows = _path(history, ends, n, place)
    steps = range(1, len(rows))
    values = (float(history.log_probability[t, rows[t]]) for t in steps)
    return Candidate(
        (*(int(history.token[t, rows[t]]) for t in steps), int(ends.token[n, place])),
        float(ends.total[n, place]),
        float(ends.score[n, place]),
        (*values, float(ends.log_probability[n, place])),
    )


def _best_steps(history: History, ends: Ends, n: int, place: int, best: Candidate) -> Steps:
    rows = _path(history, ends, n, place)
    at = np.arange(len(rows)), rows
    self_weights = np.tril(history.self_weights[at][..., : len(rows)].transpose(1, 2, 0, 3))
    cross_weights = history.cross_weights[at].transpose(1, 2, 0, 3)
    likeliest = history.top_token[at], history.top_log_probability[at]
    return _steps(self_weights, cross_weights, best.log_probabilities, *likeliest)


def _steps(
    self_weights: Floats,
    cross_weights: Floats,
    log_probabilities: tuple[float, ...],
    tokens: Integers,
    values: Floats,
) -> Steps:
    found = min(N_LIKELIEST, int((tokens[0] >= 0).sum()))  # fewer in a smaller vocabulary
    own, cross = (torch.from_numpy(np.ascontiguousarray(each)) for each in (self_weights, cross_weights))
    likeliest, best = (torch.from_numpy(each[:, :found]) for each in (tokens, values))
    return Steps(own, cross, log_probabilities, likeliest, best)


def _watch(tree: BeamTree, rules: Rules, history: History, extensions: Extensions) -> None:
    """Record the search of the only sentence in its beam tree."""
    step, k = 0, rules.beam_size
    while history.rows[step] > 0:
        penalty = float(rules.penalty[step + 1])
        if step < rules.forced.shape[1]:
            token, total = int(rules.forced[0, step]), float(history.total[step + 1, 0])
            tree.add_prefix_token(step, token, total, penalty)
        else:
            count, width = int(extensions.number[step, 0]), int(extensions.width[step, 0])
            row, place = extensions.row[step, 0, :count], extensions.place[step, 0, :count]
            token = history.top_token[step, row, place]
            cut = step + 1 >= int(rules.limits[0])
            ended = np.zeros(k, bool)
            ended[: min(count, width)] = ((token == EOS_ID) | cut)[: min(k, width)]
            arrays = (history.rank[step, row], token, extensions.total[step, 0, :count], ended)
            ranks, tokens, totals, ends = map(torch.from_numpy, arrays)
            tree.extend(step, penalty, width, ranks, tokens, totals, ends, cut)
        step += 1
    tree.stop()


def _gate(gate: Tensor | None, layers: int, heads: int) -> Floats:
    if gate is None:
        return np.ones((layers, heads), np.float32)
    return np.ascontiguousarray(gate.numpy(), np.float32)


def _versions(parameters: list[nn.Parameter]) -> list[tuple[int, int]]:
    """Changes of the weights; torch counts none for tensors that were made in inference mode."""
    return [(each.data_ptr(), 0 if each.is_inference() else each._version) for each in parameters]
