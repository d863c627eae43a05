"""What heads contribute beyond their raw weights: norm-based weights, rollout, importance by gradient.

Axis letters: B batch, S source length, T target length, H heads, L encoder layers, M decoder layers,
D d_model, K head width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.network.attention import MultiHeadAttention
from model.network.layers import DecoderLayer, EncoderLayer
from model.network.transformer import Encoded, HeadGates, Transformer, stack


class NormWeights(NamedTuple):
    """Norm-based weights of each kind, [layer, head, query, key]; rows do not sum to 1."""

    encoder: Float[Tensor, "L H S S"]
    decoder: Float[Tensor, "M H T T"]
    cross: Float[Tensor, "M H T S"]


class Rollout(NamedTuple):
    """How much of each input token is in each position after each layer, from 0 to 1."""

    encoder: Float[Tensor, "L S S"]  # rows sum to 1
    decoder: Float[Tensor, "M T T"]  # a row sums to 1 together with its row in `cross`
    cross: Float[Tensor, "M T S"]


def head_vectors(attention: MultiHeadAttention, value: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H S D"]:
    """f(x_j) = (x_j W_V + b_V) W_O of each head: what a key adds to the output at a weight of 1.

    `value` is x_j W_V + b_V. Kobayashi et al. 2020, "Attention is Not Only a Weight". The sum over
    keys, weighted, and over heads is the attention's output less W_O's bias.
    """
    heads, width = value.shape[1], value.shape[3]
    per_head = attention.output.weight.view(-1, heads, width)  # D H K
    return value @ per_head.permute(1, 2, 0)  # H K D


@torch.no_grad()
def norm_weights(model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"]) -> NormWeights:
    """||a_ij f(x_j)|| of every head of every layer while the model reads one sentence pair.

    Kobayashi et al. 2020. `source` ends with </s> and `read` begins with <s>; nothing
    is padding. Weights and vectors are those of eval mode, whichever mode the model is in. The
    unit is that of the residual stream.
    """
    decoder = [cast(DecoderLayer, block) for block in model.decoder]
    with _eval_mode(model):
        encoded, norms = _encode(model, source[None])
        decoded = model.decode(read[None], encoded, explicit=True)
    self_norms = [
        _key_norms(block.self_attention, past.value)
        for block, past in zip(decoder, decoded.past, strict=True)
    ]
    cross_norms = [
        _key_norms(block.cross_attention, memory.value)
        for block, memory in zip(decoder, encoded.cross_kv, strict=True)
    ]
    return NormWeights(
        _scale(encoded.weights, norms),
        _scale(decoded.self_weights, self_norms),
        _scale(decoded.cross_weights, cross_norms),
    )


def _encode(model: Transformer, source: Int[Tensor, "B S"]) -> tuple[Encoded, list[Float[Tensor, "B H S"]]]:
    """`model.encode` on the explicit path, with the norms ||f(x_j)|| of each layer."""
    x = model.source_embedding(source)
    weights, norms = [], []
    for block in model.encoder:
        layer = cast(EncoderLayer, block)
        value = layer.self_attention.keys_values(layer.self_residual.pre(x)).value
        norms.append(_key_norms(layer.self_attention, value))
        x, layer_weights = layer(x, None, explicit=True)
        weights.append(layer_weights)
    x = model.encoder_norm(x)
    memory = [cast(DecoderLayer, block).cross_attention.keys_values(x) for block in model.decoder]
    return Encoded(memory, None, stack(weights)), norms


def _key_norms(attention: MultiHeadAttention, value: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H S"]:
    norms: Tensor = head_vectors(attention, value).norm(dim=-1)
    return norms


def _scale(weights: Tensor | None, norms: list[Float[Tensor, "B H S"]]) -> Float[Tensor, "L H Q S"]:
    """||a f(x)|| = a ||f(x)|| for the only sentence of the batch: no vector for each cell is needed."""
    return cast(Tensor, weights)[0] * torch.cat(norms)[:, :, None, :]


def rollout(
    encoder: Float[Tensor, "L H S S"], decoder: Float[Tensor, "M H T T"], cross: Float[Tensor, "M H T S"]
) -> Rollout:
    """Attention rollout: weights multiplied through the layers, half of each step for the residual.

    Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers": with A
    averaged over heads, A' = 0.5 A + 0.5 I and R_l = A'_l R_{l-1}, here for every l.

    For the decoder this is an extension of the paper, which has encoders only: source and prefix
    are propagated together. A position starts as its own input; masked self-attention mixes the
    positions' shares of prefix and source, then cross-attention adds shares of the source
    according to the encoder's last R, each with the residual's half. Feed-forward layers and
    norms are passed over. Rows sum to 1 where those of the weights do.
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


def gradient_importance(
    model: Transformer, source: Int[Tensor, " S"], read: Int[Tensor, " T"], predicted: Int[Tensor, " T"]
) -> HeadGates:
    """I_h = |dL / d gate_h| at open gates, for every head of each kind.

    Michel et al. 2019, "Are Sixteen Heads Really Better than One?", for one sentence; their
    expectation is the mean over sentences. L is the negative log-probability of `predicted` in
    nats, summed over its tokens, while the model reads `read` in eval mode, so that I_h is to
    first order what closing the gate changes.
    """
    # The caller may have switched gradients off, and tensors of inference mode take part in none.
    with torch.inference_mode(False), torch.enable_grad(), _eval_mode(model):
        source, read, predicted = source.clone(), read.clone(), predicted.clone()
        device = model.output.weight.device
        gates = HeadGates(*(gate.to(device).requires_grad_() for gate in HeadGates.open(model.config)))
        encoded = model.encode(source[None], None, gates)
        decoded = model.decode(read[None], encoded, None, gates)
        scores = model.output(decoded.hidden[0]).log_softmax(-1)
        loss = -scores.gather(-1, predicted[:, None]).sum()
        gradients = torch.autograd.grad(loss, tuple(gates))
    return HeadGates(*(gradient.abs() for gradient in gradients))


@contextmanager
def _eval_mode(model: Transformer) -> Iterator[None]:
    """No dropout inside; the model's own mode afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
