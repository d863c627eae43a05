"""Converts weights with BART's parameter names to Headlight's.

mBART, MarianMT, Pegasus and M2M100 share these names; FSMT shares the names of the layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from model.errors import UserError
from model.importing.family import output_bias
from model.importing.files.tokenizers import Side
from model.importing.files.weights import Weights
from model.network.layers import sinusoids
from model.network.transformer import Transformer

SHARED, ENCODER, DECODER, OUTPUT = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
READS, WRITES = "reads", "writes"  # whether a weight reads the residual stream or writes to it
SELF_ATTENTION = (
    ("self_attention.project", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), READS),
    ("self_attention.output", ("self_attn.out_proj",), WRITES),
    ("self_residual.norm", ("self_attn_layer_norm",), WRITES),
)
CROSS_ATTENTION = (
    ("cross_attention.project", ("encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj"), READS),
    ("cross_attention.output", ("encoder_attn.out_proj",), WRITES),
    ("cross_residual.norm", ("encoder_attn_layer_norm",), WRITES),
)
FEED_FORWARD = (
    ("feed_forward.inner", ("fc1",), READS),
    ("feed_forward.outer", ("fc2",), WRITES),
    ("feed_forward_residual.norm", ("final_layer_norm",), WRITES),
)
LAYERS = {
    "encoder": SELF_ATTENTION + FEED_FORWARD,
    "decoder": SELF_ATTENTION + CROSS_ATTENTION + FEED_FORWARD,
}


def sublayers(
    model: Transformer, side: str
) -> Iterator[tuple[str, nn.Linear | nn.LayerNorm, list[str], str]]:
    """Our name, our module, their names, and the role of each matrix and norm of the encoder or decoder.

    Names are without `.weight` and `.bias`. With pre-norm the norm after the last layer is among them.
    """
    for place, layer in enumerate(getattr(model, side)):
        for ours, theirs, role in LAYERS[side]:
            names = [f"model.{side}.layers.{place}.{name}" for name in theirs]
            yield f"{side}.{place}.{ours}", cast(nn.Linear, layer.get_submodule(ours)), names, role
    if model.config.norm == "pre":
        yield f"{side}_norm", getattr(model, f"{side}_norm"), [f"model.{side}.layer_norm"], WRITES


def convert_layers(weights: Weights, model: Transformer, axis: Tensor) -> Iterator[tuple[str, Tensor]]:
    """All weights of the layers under our names; `axis` is our order of their dimensions of the stream."""
    for side in LAYERS:
        for ours, module, theirs, role in sublayers(model, side):
            weight, bias = (
                weights.take_rows([f"{name}.{part}" for name in theirs], tuple(parameter.shape))
                for part, parameter in (("weight", module.weight), ("bias", module.bias))
            )
            reads = role == READS
            yield f"{ours}.weight", weight[:, axis] if reads else weight[axis]
            yield f"{ours}.bias", bias if reads else bias[axis]


def axis_of(width: int) -> Tensor:
    """Our order of their dimensions: all sines of the positions, then all cosines; ours take turns."""
    return torch.arange(width).view(2, -1).t().flatten()


def convert_tied(
    weights: Weights, model: Transformer, side: Side, scaled: bool
) -> Iterator[tuple[str, Tensor]]:
    """All weights of a model of one matrix for both embeddings and the output."""
    width = model.config.d_model
    axis = axis_of(width)
    embedding = weights.take_first([SHARED, DECODER, ENCODER, OUTPUT], (int(side.order.max()) + 1, width))
    embedding = embedding[side.order[:, None], axis]
    yield "output.bias", output_bias(weights, side)
    if not scaled:
        yield "output.weight", embedding
        embedding = embedding.float() * width**-0.5
    yield "source_embedding.tokens.weight", embedding
    yield from convert_layers(weights, model, axis)


def convert_with_sinusoids(
    weights: Weights, model: Transformer, side: Side, scaled: bool
) -> Iterator[tuple[str, Tensor]]:
    """All weights of a model whose positions may stand in its file, as Pegasus; they must be sinusoids."""
    yield from convert_tied(weights, model, side, scaled)
    for place in ("encoder", "decoder"):
        check_sinusoids(weights, f"model.{place}.embed_positions.weight", axis_of(model.config.d_model))


def convert_with_positions(
    weights: Weights, model: Transformer, side: Side, scaled: bool
) -> Iterator[tuple[str, Tensor]]:
    """All weights of a model that learned its positions, as BART and mBART did."""
    yield from convert_tied(weights, model, side, scaled)
    yield from _convert_positions(weights, model, axis_of(model.config.d_model))


def _convert_positions(weights: Weights, model: Transformer, axis: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Learned positions and the norm after the embedding, under our names."""
    count, width = model.config.n_positions, model.config.d_model
    for ours, theirs in (("source", "encoder"), ("target", "decoder")):
        # The first two rows are for padding, which has no position.
        positions = weights.take(f"model.{theirs}.embed_positions.weight", (count + 2, width))
        yield f"{ours}_embedding.positions", positions[2:, axis]
        for part in ("weight", "bias"):
            norm = weights.take(f"model.{theirs}.layernorm_embedding.{part}", (width,))
            yield f"{ours}_embedding.norm.{part}", norm[axis]


def check_sinusoids(weights: Weights, name: str, axis: Tensor) -> None:
    """Raise UserError if a checkpoint has positions and they are not sinusoids."""
    positions = weights.take_any(name)
    if positions is None:
        return
    if positions.ndim != 2 or positions.shape[1] != len(axis):
        raise UserError(f"{name} in {weights.path} has another width than the model; copy it again.")
    wanted = sinusoids(min(len(positions), 1024), len(axis))
    # In 16 bits a number near 1 is off by at most 0.0005.
    if not torch.allclose(positions[:1024, axis].float(), wanted, rtol=0, atol=2e-3):
        raise UserError(f"{name} in {weights.path} has learned positions; only sinusoids can be imported.")
