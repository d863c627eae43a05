"""How much heads and tokens contribute beyond raw weights: norm-based weights and rollout.

Axis letters: B batch, S source length, T target length, H heads, L encoder layers, M decoder layers,
D d_model, K head width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.trace import output_rows, trace
from model.network.attention import MultiHeadAttention
from model.network.transformer import Transformer
from model.results import KINDS


class NormWeights(NamedTuple):
    """Norm-based weights of each kind, [layer, head, query, key]."""

    encoder: Float[Tensor, "L H S S"]
    decoder: Float[Tensor, "M H T T"]
    cross: Float[Tensor, "M H T S"]

    def row_shares(self) -> NormWeights:
        """Each norm as a share of all norms of its row, 0 to 1; a row whose norms are all 0 stays 0."""
        totals = (kind.sum(-1, keepdim=True) for kind in self)
        return NormWeights(
            *(kind / total.where(total > 0, 1) for kind, total in zip(self, totals, strict=True))
        )


class Rollout(NamedTuple):
    """The share of each input token in each position after each layer, 0 to 1."""

    encoder: Float[Tensor, "L S S"]  # rows sum to 1
    decoder: Float[Tensor, "M T T"]  # a row and the same row of `cross` together sum to 1
    cross: Float[Tensor, "M T S"]


def head_vectors(
    attention: MultiHeadAttention, value: Float[Tensor, "*B H S K"]
) -> Float[Tensor, "*B H S D"]:
    """f(x_j) = (x_j W_V + b_V) W_O of each head: what key j would add at weight 1.

    `value` is x_j W_V + b_V. Kobayashi et al. 2020, "Attention is Not Only a Weight". The weighted sum
    over keys and heads is the output of the attention without the bias of W_O.
    """
    return value @ output_rows(attention)


@torch.no_grad()
def norm_weights(model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"]) -> NormWeights:
    """||a_ij f(x_j)|| of every head of every layer while the model reads one sentence pair.

    Kobayashi et al. 2020. `source` ends with </s> and `read` begins with <s>, both without padding.
    The model is in eval mode meanwhile. The norms are in the unit of the residual stream.
    """
    found = trace(model, source, read)
    return NormWeights(*(torch.stack([one.norms() for one in found.attentions(kind)]) for kind in KINDS))


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

    The page does not offer it, because it names the wrong source tokens. Measured on 1,156 words of 100
    development sentences of the model de-en: when the source token is hidden that a measure ranks first, a
    word loses 2.15 nats by rollout, 3.13 by the mean weight of the last layer, 3.45 by the mean weight of
    all layers, 3.49 by ALTI+ and 3.98 by leave-one-out (both in `model.analysis`), and 0.33 at
    random. As word alignment, 74 to 84 % of its links are wrong.
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
