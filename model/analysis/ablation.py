"""Head importance by ablation and by gradient, and the words that an ablation changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.patching import HeadOutputs, Rows, ablation_gates
from model.decoding.progress import report
from model.decoding.threads import ALL_THREADS, map_in_threads
from model.errors import Sentence
from model.network.attention import AttentionOutput, KeyValue, MultiHeadAttention
from model.network.config import ModelConfig
from model.network.layers import DecoderLayer, EncoderLayer, Residual
from model.network.masks import causal_mask
from model.network.transformer import HeadGates, Transformer, eval_mode
from model.results import Head, HeadValues, Word
from model.text.tokenizer import BOS_ID

EDGES = re.compile(r"^[^\w]+|[^\w]+$")  # the punctuation around a word
PASS_TOKENS = 4096  # read together
PASS_LOGITS = 2**25  # computed together, a second of work or less: between passes, progress is reported
BLOCK_WORDS = 512  # scored together: their weights stay in a processor's cache
EXPLICIT = True  # torch's fused attention is slower for many short rows


@torch.inference_mode()
def importance(
    model: Transformer,
    source: Int[Tensor, "1 S"],
    target: Int[Tensor, "1 T"],
    baseline: HeadOutputs | None = None,
    only: Collection[Head] | None = None,
) -> HeadValues:
    """Change of the target's log-probability when one head is ablated in all rows, for each head.

    In nats, summed over the target; negative if the head helps. An ablated head gives zero or, with a
    baseline, what `model.analysis.patching.ablation_gates` puts in its place. Heads that are not among `only`
    are not measured and have 0.
    """
    config, values = model.config, HeadValues(*map(torch.zeros_like, HeadGates.open(model.config)))
    heads = [Head("encoder", *place) for place in np.ndindex(config.n_encoder_layers, config.n_heads)]
    for layer in range(config.n_decoder_layers):
        heads += [Head(kind, layer, head) for kind in ("decoder", "cross") for head in range(config.n_heads)]
    heads = [head for head in heads if only is None or head in only]
    rows = Rows(source.shape[1], target.shape[1])
    gates = HeadGates.open(config) if baseline is None else ablation_gates(config, heads, rows, baseline)
    gates = gates.to(source.device)
    size = rows_together(config, max(source.shape[1], target.shape[1]))
    threads = ALL_THREADS if source.device.type == "cpu" else 1
    for start in range(0, len(heads), size):
        report(Sentence("{done} of {count} heads", done=start, count=len(heads)))
        turn = heads[start : start + size]
        parts = [part for first in range(threads) if (part := turn[first::threads])]
        found = map_in_threads(lambda part: _changes(model, source, target, part, gates), parts, threads)
        for (kind, layer, head), value in chain(*(changes.items() for changes in found)):
            getattr(values, kind)[layer, head] = value
    return values


def rows_together(config: ModelConfig, length: int) -> int:
    """How many rows of this many tokens one pass reads."""
    return max(1, min(PASS_TOKENS, PASS_LOGITS // config.target_vocabulary) // length)


@torch.inference_mode()
def _changes(
    model: Transformer,
    source: Int[Tensor, "1 S"],
    target: Int[Tensor, "1 T"],
    heads: Sequence[Head],
    gates: HeadGates,
) -> dict[Head, float]:
    """Change of the target's log-probability without each of these heads; `gates` have the baselines.

    Row 0 is the intact model. The row of a head begins after the head's attention, a row for a head of the
    encoder in the decoder's first cross-attention: nothing before that is different from row 0.
    """
    memory = _encoded(model, source, heads, gates)
    read = torch.cat((torch.full_like(target[:, :1], BOS_ID), target[:, :-1]), 1)
    causal = causal_mask(read.shape[1], read.shape[1], read.device)
    x, order = model.target_embedding(read), list[Head]()
    for layer, module in enumerate(model.decoder):
        block = cast(DecoderLayer, module)
        query, self_kv = block.self_attention.queries_keys_values(block.self_residual.pre(x))
        own = block.self_attention(query, self_kv, causal, None, EXPLICIT)
        begun = [head for head in heads if head[:2] == ("decoder", layer)]
        x = _after(block.self_attention, block.self_residual, x, own, begun, gates)
        order += begun
        if layer == 0:
            order += sorted((head for head in heads if head.kind == "encoder"), key=lambda head: head.layer)
            x = _with_copies(x, 1 + len(order))
            sentences = F.pad(torch.arange(len(memory)), (len(x) - len(memory), 0)).to(x.device)
        sentences = F.pad(sentences, (0, len(x) - len(sentences)))  # what the rows read of `memory`
        cross_kv = KeyValue(*(each[sentences] for each in block.cross_attention.keys_values(memory)))
        query = block.cross_attention.queries(block.cross_residual.pre(x))
        cross = block.cross_attention(query, cross_kv, None, None, EXPLICIT)
        begun = [head for head in heads if head[:2] == ("cross", layer)]
        x = _after(block.cross_attention, block.cross_residual, x, cross, begun, gates)
        order += begun
        x = _fed_forward(block, x)
    totals = _log_probabilities(model, model.decoder_norm(x), target)
    return dict(zip(order, (totals[1:] - totals[0]).tolist(), strict=True))


def _encoded(
    model: Transformer, source: Int[Tensor, "1 S"], heads: Sequence[Head], gates: HeadGates
) -> Float[Tensor, "R S D"]:
    """The encoder's output, intact and without each of its heads, in the order of the layers."""
    x = model.source_embedding(source)
    for layer, module in enumerate(model.encoder):
        block = cast(EncoderLayer, module)
        query, self_kv = block.self_attention.queries_keys_values(block.self_residual.pre(x))
        own = block.self_attention(query, self_kv, None, None, EXPLICIT)
        begun = [head for head in heads if head[:2] == ("encoder", layer)]
        x = _after(block.self_attention, block.self_residual, x, own, begun, gates)
        x = _fed_forward(block, x)
    output: Tensor = model.encoder_norm(x)
    return output


def _after(
    attention: MultiHeadAttention,
    residual: Residual,
    x: Float[Tensor, "R P D"],
    found: AttentionOutput,
    begun: Sequence[Head],
    gates: HeadGates,
) -> Float[Tensor, "Q P D"]:
    """The stream x after an attention, with a new row for each head that is ablated in row 0."""
    y = found.y
    if begun:
        outputs = cast(Tensor, found.heads)[:1].expand(len(begun), -1, -1, -1)
        share = F.one_hot(torch.tensor([head.head for head in begun]), outputs.shape[1]) == 0
        gate = gates.of_layer(begun[0].kind, begun[0].layer)._replace(share=share.to(outputs))
        y = torch.cat((y, attention.output(gate.apply(outputs).transpose(1, 2).flatten(-2))))
    return residual.post(_with_copies(x, len(y)), y)


def _fed_forward(block: EncoderLayer | DecoderLayer, x: Float[Tensor, "R P D"]) -> Float[Tensor, "R P D"]:
    """The stream x after the last sub-layer."""
    return block.feed_forward_residual.post(x, block.feed_forward(block.feed_forward_residual.pre(x)))


def _with_copies(x: Float[Tensor, "R *shape"], rows: int) -> Float[Tensor, "Q *shape"]:
    """Append copies of row 0 until there are so many rows."""
    return torch.cat((x, x[:1].expand(rows - len(x), *x.shape[1:])))


def _log_probabilities(
    model: Transformer, hidden: Float[Tensor, "R T D"], target: Int[Tensor, "1 T"]
) -> Float[Tensor, " R"]:
    """Log-probability of the target for each row."""
    weight, bias = model.output.weight, cast(Tensor | None, model.output.bias)
    words = target.expand(hidden.shape[:2])
    log_sum_exp = hidden.new_full(hidden.shape[:2], -torch.inf)
    chosen = torch.zeros_like(log_sum_exp)
    for start in range(0, len(weight), BLOCK_WORDS):
        block = slice(start, start + BLOCK_WORDS)
        logits = F.linear(hidden, weight[block], None if bias is None else bias[block])
        # The same product in both terms: the rounding of a likely word cancels.
        places = (words - start).clamp(0, logits.shape[-1] - 1)
        here = (words >= start) & (words < start + BLOCK_WORDS)
        chosen = torch.where(here, logits.gather(-1, places[..., None])[..., 0], chosen)
        largest = logits.amax(-1, keepdim=True)
        total = logits.sub_(largest).exp_().sum(-1)  # in place: a copy takes as long as the exponentials
        log_sum_exp = torch.logaddexp(log_sum_exp, total.log() + largest[..., 0])
    return (chosen - log_sum_exp).sum(-1)


def gradient_importance(
    model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], predicted: Int[Tensor, " T"]
) -> HeadGates:
    """I_h = |dL / d gate_h| with all gates at 1, for every head of each kind.

    Michel et al. 2019, "Are Sixteen Heads Really Better than One?", for one sentence; the paper takes
    the mean over sentences. L is the negative log-probability of `predicted` in nats, summed over its
    tokens, while the model reads `read` in eval mode. So I_h is the first-order estimate of what
    ablating the head changes.
    """

    def loss(hidden: Float[Tensor, "T D"]) -> Float[Tensor, ""]:
        scores: Tensor = model.output(hidden).log_softmax(-1)
        return -scores.gather(-1, predicted.clone()[:, None]).sum()

    return HeadGates(*(gradient.abs() for gradient in gate_gradients(model, source, read, loss)))


def gate_gradients(
    model: Transformer,
    source: Int[Tensor, " S"],
    read: Int[Tensor, " T"],
    score: Callable[[Float[Tensor, "T D"]], Float[Tensor, ""]],
) -> HeadGates:
    """D score / d gate with all gates at 1, for every head of each kind; `score` gets the decoder's output.

    The model is in eval mode meanwhile.
    """
    # The caller may have disabled gradients. A tensor made in inference mode has none; its copy can.
    with torch.inference_mode(False), torch.enable_grad(), eval_mode(model):
        device = model.output.weight.device
        gates = HeadGates(*(gate.to(device).requires_grad_() for gate in HeadGates.open(model.config)))
        encoded = model.encode(source.clone()[None], None, gates)
        decoded = model.decode(read.clone()[None], encoded, gates)
        return HeadGates(*torch.autograd.grad(score(decoded.hidden[0]), tuple(gates)))


def changed_words(original: str, new: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """The words of two texts; a word is marked if the other text does not have it at that place.

    As few words as possible are marked. The punctuation around a word does not count.
    """
    before, after = original.split(), new.split()
    places = _match_in_order(*([EDGES.sub("", word) or word for word in words] for words in (before, after)))
    kept = {place for place in places if place is not None}
    return (
        tuple(Word(word, place is None) for word, place in zip(before, places, strict=True)),
        tuple(Word(word, place not in kept) for place, word in enumerate(after)),
    )


def _match_in_order(names: Sequence[str], others: Sequence[str]) -> list[int | None]:
    """The longest common subsequence: for each of `names` its place in `others`, or None.

    Of several that are as long, it is the one whose places are nearest to each other. The same as
    `viz/viewer/domain/math.js: matchInOrder`.
    """
    worth = (len(names) + len(others)) ** 2  # more than the distances of all pairs together
    best = np.zeros((len(names) + 1, len(others) + 1), np.int64)

    def as_pair(one: int, two: int) -> int:
        return int(best[one + 1, two + 1]) + worth - abs(one - two) if names[one] == others[two] else 0

    for one in reversed(range(len(names))):
        for two in reversed(range(len(others))):
            best[one, two] = max(as_pair(one, two), best[one + 1, two], best[one, two + 1])
    found: list[int | None] = [None] * len(names)
    one = two = 0
    while one < len(names) and two < len(others):
        most = best[one, two]
        if most > 0 and most == as_pair(one, two):
            found[one] = two
            one, two = one + 1, two + 1
        elif most == best[one, two + 1]:
            two += 1
        else:
            one += 1
    return found
