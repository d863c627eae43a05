"""Head importance by ablation and by gradient, and the words that an ablation changes."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.decoding.progress import report
from model.network.attention import KeyValue
from model.network.transformer import Encoded, HeadGates, Transformer, eval_mode
from model.results import HeadValues, Word
from model.tokenizer import BOS_ID

PASS_TOKENS = 2048  # target tokens scored together
PASS_LOGITS = 2**25  # and their logits, which take most of the memory: at most 128 MB


@torch.inference_mode()
def importance(model: Transformer, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]) -> HeadValues:
    """Change of the target's log-probability when one head is ablated, for each head.

    In nats, summed over the target; negative if the head helps. The decoder runs all ablations as one
    batch. Ablating a decoder head does not change the encoder's output, so these rows share one.
    """
    config = model.config
    encoder_heads = config.n_encoder_layers * config.n_heads
    decoder_heads = config.n_decoder_layers * config.n_heads
    rows = encoder_heads + 2 * decoder_heads + 1  # in the last row no head is ablated
    gates = HeadGates(
        *(gate.expand(rows, -1, -1).clone().to(source.device) for gate in HeadGates.open(config))
    )
    row = 0
    for gate in gates:
        heads = gate[0].numel()
        gate[row : row + heads].flatten(1).fill_diagonal_(0.0)
        row += heads
    totals = _log_probabilities(model, source, target, gates, encoder_heads)
    sizes = [encoder_heads, decoder_heads, decoder_heads]
    encoder, decoder, cross = torch.split((totals[:-1] - totals[-1]).cpu(), sizes)
    shape = (-1, config.n_heads)
    return HeadValues(encoder.view(shape), decoder.view(shape), cross.view(shape))


def _log_probabilities(
    model: Transformer,
    source: Int[Tensor, "1 S"],
    target: Int[Tensor, "1 T"],
    gates: HeadGates,
    encoder_heads: int,
) -> Float[Tensor, " R"]:
    """Log-probability of the target for each row of gates; the first rows ablate the encoder's heads."""
    read = torch.cat((torch.full_like(target[:, :1], BOS_ID), target[:, :-1]), 1)
    size = max(1, min(PASS_TOKENS, PASS_LOGITS // model.config.target_vocabulary) // target.shape[1])
    heads = len(gates.encoder) - 1
    intact = model.encode(source)
    totals = []
    for start in range(0, heads + 1, size):
        report(f"{min(start, heads)} of {heads} heads")
        some = HeadGates(*(gate[start : start + size] for gate in gates))
        rows = len(some.encoder)
        encoded = _encode(model, source, intact, some, max(0, min(rows, encoder_heads - start)))
        hidden = model.decode(read.expand(rows, -1), encoded, some).hidden
        logits = cast(Tensor, model.output(hidden))
        chosen = logits.gather(2, target.expand(rows, -1)[..., None])[..., 0]
        totals.append((chosen - logits.logsumexp(-1)).sum(-1))
    return torch.cat(totals)


def _encode(
    model: Transformer, source: Int[Tensor, "1 S"], intact: Encoded, gates: HeadGates, ablated: int
) -> Encoded:
    """The source for each row of gates; only the first `ablated` rows change what the encoder gives."""
    rest = len(gates.encoder) - ablated
    shared = [KeyValue(*(x.expand(rest, -1, -1, -1) for x in pair)) for pair in intact.cross_kv]
    if not ablated:
        return Encoded(shared)
    changed = model.encode(source.expand(ablated, -1), None, HeadGates(*(gate[:ablated] for gate in gates)))
    pairs = zip(changed.cross_kv, shared, strict=True)
    return Encoded([KeyValue(*map(torch.cat, zip(*pair, strict=True))) for pair in pairs])


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
    """The words of two texts; a word is marked if the other text does not have it at that place."""
    before, after = original.split(), new.split()
    changed_before, changed_after = [True] * len(before), [True] * len(after)
    for a, b, size in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        changed_before[a : a + size] = changed_after[b : b + size] = [False] * size
    return tuple(map(Word, before, changed_before)), tuple(map(Word, after, changed_after))
