"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), figure 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.config import ModelConfig
from model.errors import UserError, quote_untrusted
from model.network.attention import KeyValue, MultiHeadAttention
from model.network.layers import DecoderLayer, Embedding, EncoderLayer
from model.network.masks import causal_mask
from model.results import KINDS, Head


class HeadGates(NamedTuple):
    """A factor in [0, 1] for every head's output before W_O; 1 changes nothing, 0 silences.

    A leading batch dimension, where there is one, gives each sentence of a batch gates of its own.
    """

    encoder: Float[Tensor, "*B L H"]
    decoder: Float[Tensor, "*B M H"]
    cross: Float[Tensor, "*B M H"]

    @classmethod
    def open(cls, config: ModelConfig) -> HeadGates:
        """Every gate at 1."""
        decoder = torch.ones(config.n_decoder_layers, config.n_heads)
        return cls(torch.ones(config.n_encoder_layers, config.n_heads), decoder, decoder.clone())

    @classmethod
    def muting(cls, config: ModelConfig, heads: Iterable[Head]) -> HeadGates:
        """These heads at 0, all others at 1. Raises UserError when the model lacks one of them."""
        gates = cls.open(config)
        for kind, layer, head in heads:
            check_head(config, Head(kind, layer, head))
            gate: Tensor = getattr(gates, kind)
            gate[layer, head] = 0.0
        return gates


def check_head(config: ModelConfig, head: Head) -> None:
    """Raise UserError when the model lacks this head."""
    if head.kind not in KINDS:
        raise UserError(
            f"There is no kind {quote_untrusted(head.kind)} of attention; give one of {', '.join(KINDS)}."
        )
    layers = config.n_encoder_layers if head.kind == "encoder" else config.n_decoder_layers
    if not (0 <= head.layer < layers and 0 <= head.head < config.n_heads):
        raise UserError(
            f"There is no {head.kind} head {quote_untrusted(head.head)} in layer "
            f"{quote_untrusted(head.layer)}; layers go from 0 to {layers - 1} "
            f"and heads from 0 to {config.n_heads - 1}."
        )


class Encoded(NamedTuple):
    """The encoder's output, projected once to keys and values for each decoder layer."""

    cross_kv: list[KeyValue]
    mask: Bool[Tensor, "B 1 1 S"] | None
    weights: Float[Tensor, "B L H S S"] | None


class Decoded(NamedTuple):
    """The decoder's output for the positions just read."""

    hidden: Float[Tensor, "B T D"]
    past: list[KeyValue]
    self_weights: Float[Tensor, "B M H T P"] | None
    cross_weights: Float[Tensor, "B M H T S"] | None


def stack(weights: list[Tensor | None]) -> Tensor | None:
    """Weights of each layer to one tensor [batch, layer, head, query, key]."""
    present = [layer for layer in weights if layer is not None]
    return torch.stack(present, dim=1) if present else None


class Transformer(nn.Module):
    """Encoder, decoder and output projection. Weights come back as values, none is kept inside."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d = config.d_model
        source = nn.Embedding(config.source_vocabulary, d)
        target = source if config.tied else nn.Embedding(config.target_vocabulary, d)
        self.source_embedding = Embedding(source, config.dropout)
        self.target_embedding = Embedding(target, config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        # Pre-norm leaves the sum of all sub-layers unnormalised, so each stack ends in a norm.
        final = nn.LayerNorm if config.norm == "pre" else nn.Identity
        self.encoder_norm, self.decoder_norm = final(d), final(d)
        self.output = nn.Linear(d, config.target_vocabulary, bias=False)
        if config.tied and not config.separate_output:
            self.output.weight = target.weight
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """Xavier uniform for every projection (each of W_Q, W_K, W_V on its own), zero biases.

        Embeddings get standard deviation d_model^-0.5, so that after the factor of section 3.4
        they start at the size of the positions.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not self.output:
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                for block in module.project.weight.chunk(3):
                    nn.init.xavier_uniform_(block)
        for weight in {
            self.source_embedding.tokens.weight,
            self.target_embedding.tokens.weight,
            self.output.weight,
        }:
            nn.init.normal_(weight, std=self.config.d_model**-0.5)

    def encode(
        self,
        source: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B 1 1 S"] | None = None,
        gates: HeadGates | None = None,
        explicit: bool = False,
    ) -> Encoded:
        """Read the source once; `mask` may be None when nothing is padding."""
        x = self.source_embedding(source)
        weights = []
        for layer, block in enumerate(self.encoder):
            gate = None if gates is None else gates.encoder[..., layer, :]
            x, layer_weights = block(x, mask, gate, explicit)
            weights.append(layer_weights)
        x = self.encoder_norm(x)
        memory = [cast(DecoderLayer, block).cross_attention.keys_values(x) for block in self.decoder]
        return Encoded(memory, mask, stack(weights))

    def decode(
        self,
        target: Int[Tensor, "B T"],
        encoded: Encoded,
        past: list[KeyValue] | None = None,
        gates: HeadGates | None = None,
        explicit: bool = False,
    ) -> Decoded:
        """Read T target tokens behind those in `past`; each sees itself and what came before.

        Padding needs no mask here: it stands on the right, where no real query looks.
        """
        before = 0 if past is None else past[0].key.shape[2]
        length = target.shape[1]
        causal = None if length == 1 else causal_mask(length, before + length, target.device)
        x = self.target_embedding(target, start=before)
        present, self_weights, cross_weights = [], [], []
        for layer, block in enumerate(self.decoder):
            step = block(
                x,
                None if past is None else past[layer],
                causal,
                encoded.cross_kv[layer],
                encoded.mask,
                None if gates is None else gates.decoder[..., layer, :],
                None if gates is None else gates.cross[..., layer, :],
                explicit,
            )
            x = step.x
            present.append(step.past)
            self_weights.append(step.self_weights)
            cross_weights.append(step.cross_weights)
        hidden = self.decoder_norm(x)
        return Decoded(hidden, present, stack(self_weights), stack(cross_weights))

    def forward(
        self,
        source: Int[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        source_mask: Bool[Tensor, "B 1 1 S"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token that follows each target token."""
        decoded = self.decode(target, self.encode(source, source_mask))
        logits: Tensor = self.output(decoded.hidden)
        return logits
