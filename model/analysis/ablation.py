"""What a translation loses when heads are silent: one set of heads, or all of them one by one."""

from __future__ import annotations

import difflib
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.network.attention import KeyValue
from model.network.transformer import Encoded, HeadGates, Transformer
from model.results import HeadValues, Word
from model.tokenizer import BOS_ID

PASS_TOKENS = 2048  # target tokens scored together; their logits decide the memory that this takes


@torch.inference_mode()
def importance(model: Transformer, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]) -> HeadValues:
    """How much the target's log-probability changes when one head is silent, for each head.

    In nats, summed over the target; below 0 where the head helps. All heads go through the decoder as one
    batch. Heads of the decoder share the encoder's output, since they do not change it.
    """
    config = model.config
    encoder_heads = config.n_encoder_layers * config.n_heads
    decoder_heads = config.n_decoder_layers * config.n_heads
    rows = encoder_heads + 2 * decoder_heads + 1  # the last one has every head
    gates = HeadGates(
        *(gate.expand(rows, -1, -1).clone().to(source.device) for gate in HeadGates.open(config))
    )
    row = 0
    for gate in gates:
        heads = gate[0].numel()
        gate[row : row + heads].flatten(1).fill_diagonal_(0.0)
        row += heads
    own = HeadGates(*(gate[:encoder_heads] for gate in gates))
    muted = model.encode(source.expand(encoder_heads, -1), None, own)
    whole = model.encode(source)
    memory = [
        KeyValue(
            *(torch.cat((a, b.expand(rows - encoder_heads, -1, -1, -1))) for a, b in zip(*pair, strict=True))
        )
        for pair in zip(muted.cross_kv, whole.cross_kv, strict=True)
    ]
    totals = _forced(model, Encoded(memory, None, None), target, gates)
    sizes = [encoder_heads, decoder_heads, decoder_heads]
    encoder, decoder, cross = torch.split((totals[:-1] - totals[-1]).cpu(), sizes)
    shape = (-1, config.n_heads)
    return HeadValues(encoder.view(shape), decoder.view(shape), cross.view(shape))


def _forced(
    model: Transformer, encoded: Encoded, target: Int[Tensor, "1 T"], gates: HeadGates
) -> Float[Tensor, " R"]:
    """Log-probability of the target under each row of gates."""
    read = torch.cat((torch.full_like(target[:, :1], BOS_ID), target[:, :-1]), 1)
    size = max(1, PASS_TOKENS // target.shape[1])
    totals = []
    for start in range(0, len(gates.encoder), size):
        part = slice(start, start + size)
        memory = [KeyValue(key[part], value[part]) for key, value in encoded.cross_kv]
        some = HeadGates(*(gate[part] for gate in gates))
        rows = len(some.encoder)
        hidden = model.decode(read.expand(rows, -1), Encoded(memory, None, None), None, some).hidden
        logits = cast(Tensor, model.output(hidden))
        chosen = logits.gather(2, target.expand(rows, -1)[..., None])[..., 0]
        totals.append((chosen - logits.logsumexp(-1)).sum(-1))
    return torch.cat(totals)


def changed_words(original: str, new: str) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """The words of two texts, each marked when the other text lacks it there."""
    before, after = original.split(), new.split()
    changed_before, changed_after = [True] * len(before), [True] * len(after)
    for a, b, size in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        changed_before[a : a + size] = changed_after[b : b + size] = [False] * size
    return tuple(map(Word, before, changed_before)), tuple(map(Word, after, changed_after))
