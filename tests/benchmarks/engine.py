"""CTranslate2 with the weights of one of our models, for comparison.

The specification is filled in memory from a pre-norm model with tied weights, so both engines do the
same arithmetic and, in float32, find the same translations. The file it loads is a temporary one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any, cast

import ctranslate2
import torch
from ctranslate2.specs import TransformerSpec
from torch import nn

from model.network.layers import DecoderLayer, EncoderLayer
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer


def specification(model: Transformer, tokenizer: Tokenizer) -> Any:
    """A TransformerSpec with the model's weights."""
    config = model.config
    layers = (config.n_encoder_layers, config.n_decoder_layers)
    spec = TransformerSpec.from_config(layers, config.n_heads, pre_norm=True)
    vocabulary = tokenizer.pieces(range(len(tokenizer)))
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = model.encoder_norm.eps
    for side, embedding, norm in (
        (spec.encoder, model.source_embedding, model.encoder_norm),
        (spec.decoder, model.target_embedding, model.decoder_norm),
    ):
        side.position_encodings.encodings = embedding.positions
        _fill_norm(side.layer_norm, cast(nn.LayerNorm, norm))
    spec.encoder.embeddings[0].weight = model.source_embedding.tokens.weight.detach()
    spec.decoder.embeddings.weight = model.target_embedding.tokens.weight.detach()
    _fill(spec.decoder.projection, model.output)
    for layer, block in zip(spec.encoder.layer, model.encoder, strict=True):
        _fill_layer(layer, cast(EncoderLayer, block))
    for layer, block in zip(spec.decoder.layer, model.decoder, strict=True):
        decoder_block = cast(DecoderLayer, block)
        _fill_layer(layer, decoder_block)
        _fill_cross_attention(layer.attention, decoder_block)
    spec.validate()
    spec.optimize()
    return spec


def engine(spec: Any, compute_type: str) -> ctranslate2.Translator:
    """A translator with as many threads as torch uses; "int8" quantises the weights as it loads them."""
    with tempfile.TemporaryDirectory() as directory:
        spec.save(directory)
        return ctranslate2.Translator(
            directory, compute_type=compute_type, intra_threads=torch.get_num_threads()
        )


def translate(
    translator: ctranslate2.Translator, sentences: Sequence[list[str]], length: int, beam_size: int = 1
) -> list[list[str]]:
    """The best translations of `length` tokens each."""
    results = translator.translate_batch(
        sentences, beam_size=beam_size, min_decoding_length=length, max_decoding_length=length
    )
    return [result.hypotheses[0] for result in results]


def _fill_layer(layer: Any, block: EncoderLayer | DecoderLayer) -> None:
    attention = layer.self_attention
    _fill_norm(attention.layer_norm, block.self_residual.norm)
    _fill(attention.linear[0], block.self_attention.project)
    _fill(attention.linear[1], block.self_attention.output)
    _fill_norm(layer.ffn.layer_norm, block.feed_forward_residual.norm)
    _fill(layer.ffn.linear_0, block.feed_forward.inner)
    _fill(layer.ffn.linear_1, block.feed_forward.outer)


def _fill_cross_attention(spec: Any, block: DecoderLayer) -> None:
    _fill_norm(spec.layer_norm, block.cross_residual.norm)
    weight, bias = block.cross_attention.project.weight, block.cross_attention.project.bias
    d = block.cross_attention.width
    for linear, rows in zip(spec.linear[:2], (slice(None, d), slice(d, None)), strict=True):
        linear.weight, linear.bias = weight[rows].detach(), bias[rows].detach()
    _fill(spec.linear[2], block.cross_attention.output)


def _fill(spec: Any, linear: nn.Linear) -> None:
    spec.weight = linear.weight.detach()
    if linear.bias is not None:
        spec.bias = linear.bias.detach()


def _fill_norm(spec: Any, norm: nn.Module) -> None:
    weights = dict(norm.named_parameters())
    spec.gamma, spec.beta = weights["weight"].detach(), weights["bias"].detach()
