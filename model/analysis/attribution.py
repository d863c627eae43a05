"""How much heads and tokens contribute beyond raw weights: norm-based weights and rollout.

Axis letters: B batch, S source length, T target length, H heads, L encoder layers, M decoder layers,
D d_model, K head width.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.network.attention import KeyValue, MultiHeadAttention
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.transformer import Transformer, eval_mode


class NormWeights(NamedTuple):
    """Norm-based weights of each kind, [layer, head, query, key]; rows do not sum to 1."""

    encoder: Float[Tensor, "L H S S"]
    decoder: Float[Tensor, "M H T T"]
    cross: Float[Tensor, "M H T S"]


class Rollout(NamedTuple):
    """The share of each input token in each position after each layer, 0 to 1."""

    encoder: Float[Tensor, "L S S"]  # rows sum to 1
    decoder: Float[Tensor, "M T T"]  # a row and the same row of `cross` together sum to 1
    cross: Float[Tensor, "M T S"]


def head_vectors(attention: MultiHeadAttention, value: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H S D"]:
    """f(x_j) = (x_j W_V + b_V) W_O of each head: what key j would add at weight 1.

    `value` is x_j W_V + b_V. Kobayashi et al. 2020, "Attention is Not Only a Weight". The weighted sum
    over keys and heads is the output of the attention without the bias of W_O.
    """
    heads, width = value.shape[1], value.shape[3]
    per_head = attention.output.weight.view(-1, heads, width)  # D H K
    return value @ per_head.permute(1, 2, 0)  # H K D


@torch.no_grad()
def norm_weights(model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"]) -> NormWeights:
    """||a_ij f(x_j)|| of every head of every layer while the model reads one sentence pair.

    Kobayashi et al. 2020. `source` ends with </s> and `read` begins with <s>, both without padding.
    The model is in eval mode meanwhile. The norms are in the unit of the residual stream.
    """
    encoder = [cast(EncoderLayer, block) for block in model.encoder]
    decoder = [cast(DecoderLayer, block) for block in model.decoder]
    with eval_mode(model):
        encoded = model.encode(source[None], explicit=True)
        decoded = model.decode(read[None], encoded, explicit=True)
    return NormWeights(
        _scale(encoded.weights, (block.self_attention for block in encoder), encoded.self_kv),
        _scale(decoded.self_weights, (block.self_attention for block in decoder), decoded.self_kv),
        _scale(decoded.cross_weights, (block.cross_attention for block in decoder), encoded.cross_kv),
    )


def _scale(
    weights: Tensor | None, attentions: Iterable[MultiHeadAttention], keys_values: Sequence[KeyValue]
) -> Float[Tensor, "L H Q S"]:
    """||a f(x)|| = a ||f(x)|| for the only sentence of the batch, without a vector for each cell."""
    pairs = zip(attentions, keys_values, strict=True)
    norms = torch.cat([head_vectors(attention, kv.value).norm(dim=-1) for attention, kv in pairs])
    return cast(Tensor, weights)[0] * norms[:, :, None, :]


def rollout(
    encoder: Float[Tensor, "L H S S"], decoder: Float[Tensor, "M H T T"], cross: Float[Tensor, "M H T S"]
) -> Rollout:
    """Attention rollout: the product of the layers' weights, with half of each step for the residual.

    Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers": with A
    averaged over heads, A' = 0.5 A + 0.5 I and R_l = A'_l R_{l-1}, here for every l.

    The paper has encoders only; the decoder is our extension, with source and prefix propagated
    together. A position starts as its own input. Masked self-attention mixes the positions' shares of
    prefix and source, then cross-attention adds shares of the source by the encoder's last R, each
    with half for the residual. Feed-forward networks and norms are ignored. A row sums to 1 if the same
    row of the weights does.
    """
    encoded = _self_rollout(encoder)
    source_length, target_length = cross.shape[-1], cross.shape[-2]
    prefix = torch.eye(target_length).to(decoder)
    source = cross.new_zeros(target_length, source_length)
    prefixes, sources = [], []
    for self_weights, cross_weights in zip(_with_residual(decoder), cross.mean(1), strict=True):
        prefix = 0.5 * (self_weights @ prefix)
        source = 0.5 * (self_weights @ source) + 0.5 * (cross_weights @ encoded[-1])
        prefixes.append(prefix)
        sources.append(source)
    return Rollout(encoded, torch.stack(prefixes), torch.stack(sources))


def _with_residual(weights: Float[Tensor, "L H Q Q"]) -> Float[Tensor, "L Q Q"]:
    mean = weights.mean(1)
    return 0.5 * mean + 0.5 * torch.eye(mean.shape[-1]).to(mean)


def _self_rollout(weights: Float[Tensor, "L H Q Q"]) -> Float[Tensor, "L Q Q"]:
    layers = [*_with_residual(weights)]
    rolled = layers[:1]
    for layer in layers[1:]:
        rolled.append(layer @ rolled[-1])
    return torch.stack(rolled)
