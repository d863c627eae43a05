"""The whole Transformer, figure 1 of "Attention Is All You Need" (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from model.errors import UserError, quote_untrusted
from model.network.attention import (
    AttentionOutput,
    Gate,
    KeyValue,
    MultiHeadAttention,
    RelativePositions,
)
from model.network.config import ModelConfig
from model.network.layers import DecoderLayer, Embedding, EncoderLayer, SubLayerPass, norm_of
from model.network.masks import causal_mask
from model.results import KINDS, Head


class HeadBaseline(NamedTuple):
    """What replaces the outputs of the heads of one kind, before W_O, where their gates are closed."""

    outputs: Float[Tensor, "*B L H P K"]  # of the first P positions, which are all that are read
    rows: Bool[Tensor, " P"]  # the positions where the gates apply; elsewhere the heads keep their outputs


@dataclass(frozen=True, eq=False)
class HeadGates:
    """A share in [0, 1] of the output of every head before W_O: 1 changes nothing, 0 closes the gate.

    A closed gate ablates its head: the output becomes zero or, if `baselines` has the head's kind, the
    baseline. With a leading batch dimension each sentence has its own gates.
    """

    encoder: Float[Tensor, "*B L H"]
    decoder: Float[Tensor, "*B M H"]
    cross: Float[Tensor, "*B M H"]
    baselines: Mapping[str, HeadBaseline] = field(default_factory=dict, kw_only=True)  # by kind

    def __iter__(self) -> Iterator[Tensor]:
        """The shares of each kind."""
        return iter((self.encoder, self.decoder, self.cross))

    @property
    def ablated(self) -> tuple[Head, ...]:
        """The heads whose gates are not open."""
        closed = ((kind, (share != 1).nonzero().tolist()) for kind, share in zip(KINDS, self, strict=True))
        return tuple(Head(kind, *place) for kind, places in closed for place in places)

    def of_layer(self, kind: str, layer: int) -> Gate:
        """The gates of one layer's heads."""
        share: Tensor = getattr(self, kind)[..., layer, :]
        if kind not in self.baselines:
            return Gate(share)
        outputs, rows = self.baselines[kind]
        return Gate(share, outputs[..., layer, :, :, :], rows)

    def to(self, device: torch.device) -> HeadGates:
        """The same gates on this device."""
        moved = {
            kind: HeadBaseline(outputs.to(device), rows.to(device))
            for kind, (outputs, rows) in self.baselines.items()
        }
        return HeadGates(*(share.to(device) for share in self), baselines=moved)

    @classmethod
    def open(cls, config: ModelConfig) -> HeadGates:
        """Every gate at 1."""
        decoder = torch.ones(config.n_decoder_layers, config.n_heads)
        return cls(torch.ones(config.n_encoder_layers, config.n_heads), decoder, decoder.clone())

    @classmethod
    def ablating(cls, config: ModelConfig, heads: Iterable[Head]) -> HeadGates:
        """These heads at 0, all others at 1. Raises UserError if the model does not have one of them."""
        gates = cls.open(config)
        for kind, layer, head in heads:
            check_head(config, Head(kind, layer, head))
            gate: Tensor = getattr(gates, kind)
            gate[layer, head] = 0.0
        return gates


def check_head(config: ModelConfig, head: Head) -> None:
    """Raise UserError if the model does not have this head."""
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
    """The encoder's output, as every decoder layer reads it; weights and sub-layers only if `explicit`."""

    cross_kv: list[KeyValue]  # of each decoder layer
    mask: Bool[Tensor, "B 1 1 S"] | None = None
    weights: Float[Tensor, "B L H S S"] | None = None
    self_kv: Sequence[KeyValue] = ()  # of each encoder layer
    sublayers: Sequence[SubLayerPass] = ()  # of all layers, in the order of the computation


class Decoded(NamedTuple):
    """The decoder's output; weights and sub-layers only if `explicit`."""

    hidden: Float[Tensor, "B T D"]
    self_kv: list[KeyValue]  # of each decoder layer
    cross_queries: list[Float[Tensor, "B H T K"]]  # of each decoder layer
    self_weights: Float[Tensor, "B M H T T"] | None
    cross_weights: Float[Tensor, "B M H T S"] | None
    sublayers: Sequence[SubLayerPass]  # of all layers, in the order of the computation


def _weights(layers: Sequence[Sequence[SubLayerPass]], place: int) -> Tensor | None:
    """Weights of this sub-layer of all layers as one tensor [batch, layer, head, query, key]."""
    found = [cast(AttentionOutput, layer[place].attention).weights for layer in layers if layer]
    return torch.stack(cast(list[Tensor], found), dim=1) if found else None


class Transformer(nn.Module):
    """Encoder, decoder and output projection. Attention weights are returned; no module stores them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d = config.d_model
        source = nn.Embedding(config.source_vocabulary, d)
        target = source if config.tied else nn.Embedding(config.target_vocabulary, d)
        self.source_embedding, self.target_embedding = (
            Embedding(
                tokens,
                config.dropout,
                config.positions,
                learned=config.n_positions,
                norm=config.embedding_norm,
            )
            for tokens in (source, target)
        )
        source_positions, target_positions = (_positions(config, is_encoder) for is_encoder in (True, False))
        self.encoder = nn.ModuleList(
            EncoderLayer(config, source_positions) for _ in range(config.n_encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(config.of_decoder, target_positions) for _ in range(config.n_decoder_layers)
        )
        self.encoder_norm, self.decoder_norm = (
            norm_of(side) if side.has_final_norm else nn.Identity() for side in (config, config.of_decoder)
        )
        self.output = nn.Linear(d, config.target_vocabulary, bias=config.output_bias)
        if config.tied and not config.separate_output:
            self.output.weight = target.weight
        self.initialise()

    @torch.no_grad()
    def initialise(self) -> None:
        """Xavier uniform for every projection (W_Q, W_K and W_V separately), zero for biases.

        Embeddings get standard deviation d_model^-0.5, so that after the factor of section 3.4
        they are as large as the positional encodings.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not self.output:
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        if self.output.bias is not None:
            nn.init.zeros_(self.output.bias)
        d = self.config.d_model
        for module in self.modules():
            if isinstance(module, MultiHeadAttention):
                for block in module.project.weight.view(-1, module.width, d):
                    nn.init.xavier_uniform_(block)
        matrices = (self.source_embedding.tokens, self.target_embedding.tokens, self.output)
        for weight in dict.fromkeys(module.weight for module in matrices):  # a set has no certain order
            nn.init.normal_(weight, std=self.config.d_model**-0.5)
        if self.config.positions == "learned":
            for embedding in (self.source_embedding, self.target_embedding):
                nn.init.normal_(embedding.positions, std=0.02)  # as of BART

    def encode(
        self,
        source: Int[Tensor, "B S"],
        mask: Bool[Tensor, "B 1 1 S"] | None = None,
        gates: HeadGates | None = None,
        explicit: bool = False,
    ) -> Encoded:
        """Read the source; `mask` may be None if there is no padding."""
        x = self.source_embedding(source)
        outputs = []
        for layer, block in enumerate(self.encoder):
            gate = None if gates is None else gates.of_layer("encoder", layer)
            outputs.append(block(x, mask, gate, explicit))
            x = outputs[-1].x
        x = self.encoder_norm(x)
        cross_kv = [cast(DecoderLayer, block).cross_attention.keys_values(x) for block in self.decoder]
        layers = [output.sublayers for output in outputs]
        self_kv, sublayers = [output.self_kv for output in outputs], list(chain(*layers))
        return Encoded(cross_kv, mask, _weights(layers, 0), self_kv, sublayers)

    def decode(
        self,
        target: Int[Tensor, "B T"],
        encoded: Encoded,
        gates: HeadGates | None = None,
        explicit: bool = False,
    ) -> Decoded:
        """Read T target tokens; each position sees itself and those before it.

        The target needs no padding mask: padding is on the right, where no real query looks.
        """
        length = target.shape[1]
        causal = causal_mask(length, length, target.device)
        x = self.target_embedding(target)
        outputs = []
        for layer, block in enumerate(self.decoder):
            output = block(
                x,
                causal,
                encoded.cross_kv[layer],
                encoded.mask,
                None if gates is None else gates.of_layer("decoder", layer),
                None if gates is None else gates.of_layer("cross", layer),
                explicit,
            )
            x = output.x
            outputs.append(output)
        layers = [output.sublayers for output in outputs]
        return Decoded(
            self.decoder_norm(x),
            [output.self_kv for output in outputs],
            [output.cross_query for output in outputs],
            _weights(layers, 0),
            _weights(layers, 1),
            list(chain(*layers)),
        )

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


def _positions(config: ModelConfig, is_encoder: bool) -> RelativePositions | None:
    """The relative positions that all layers of one side share, if the model has such."""
    if config.positions != "relative":
        return None
    return RelativePositions(config.n_buckets, config.max_distance, config.n_heads, is_encoder)


@contextmanager
def eval_mode(model: Transformer) -> Iterator[None]:
    """Eval mode inside, the previous mode afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
