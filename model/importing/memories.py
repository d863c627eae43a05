"""Puts the dimensions of a running memory in order, from those that forget soon to those that keep long."""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.decoding.inference import Inference
from model.decoding.options import SearchOptions
from model.network.layers import DecoderLayer
from model.network.transformer import Transformer
from model.text.tokenizer import BOS_ID, EOS_ID, SPECIALS

N_SENTENCES, LENGTH = 32, 8
N_PIECES = 500  # the most frequent ones, which come first in a vocabulary of SentencePiece


@torch.inference_mode()
def order_memories(model: Transformer) -> None:
    """Sort the dimensions of each layer's memory by their mean forget gate, so that neighbours are alike.

    Each of the model's memories is then a group of neighbours, the first of them the shortest. The network
    computes the same as before. The gates are measured on what the model writes for sentences of frequent
    pieces, because its language need not be known: in two models of Firefox the order of 256 dimensions has
    a rank correlation of 0.95 to 0.97 with the order on 30 real sentences; two sets of real ones have 0.99.
    """
    for layer, gates in zip(model.decoder, _mean_gates(model), strict=True):
        unit = cast(DecoderLayer, layer).self_attention
        order = gates.argsort(stable=True)
        both = torch.cat([order, order + unit.width])  # of the forget gates and of the values
        unit.project.weight.copy_(unit.project.weight[both])
        unit.project.bias.copy_(unit.project.bias[both])
        unit.output.weight.copy_(unit.output.weight[:, order])


def _mean_gates(model: Transformer) -> Float[Tensor, "L D"]:
    """The mean forget gate of each dimension of each layer, over all tokens that the model reads."""
    source = _sentences(model.config.source_vocabulary)
    found = Inference(model, use_kernels=False).search_batch(source, SearchOptions(), exact=True)
    sums = torch.zeros(len(model.decoder), model.config.d_attention)
    count = 0
    for sentence, (best, *_) in zip(source, found, strict=True):
        read = torch.tensor([[BOS_ID, *best.ids[:-1]]])
        decoded = model.decode(read, model.encode(sentence[None]))
        # What stands in the place of keys are the gates.
        sums += torch.stack([layer.key[0].sum(1).flatten() for layer in decoded.self_kv])
        count += read.shape[1]
    return sums / count


def _sentences(vocabulary: int) -> Int[Tensor, "B S"]:
    first = len(SPECIALS)
    last = min(vocabulary, first + N_PIECES)
    pieces = torch.randint(first, last, (N_SENTENCES, LENGTH), generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.pad(pieces, (0, 1), value=EOS_ID)
