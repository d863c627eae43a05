"""ModelConfig: the shape of a Transformer, to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypedDict

from model.errors import UserError, quote_untrusted

# More than any model of the page needs, but small enough that the checks of a hostile config are fast.
LARGEST = {
    "source_vocabulary": 260_000,  # NLLB has 256,206
    "target_vocabulary": 260_000,
    "d_model": 4096,
    "d_ff": 16_384,
    "n_heads": 64,
    "n_encoder_layers": 32,
    "n_decoder_layers": 32,
    "n_positions": 16_384,
    "d_key": 256,
    "n_buckets": 256,
    "max_distance": 16_384,
    "decoder_ff": 16_384,
}
# Few weights can make many maps, so these are bounded too.
MOST_HEADS = 768  # of the three kinds of attention; Pegasus has as many
MOST_QUERIES = 65_536  # numbers in the queries of all heads; Pegasus has 49,152
# Settings that name one of several ways.
CHOICES = {
    "norm": ("pre", "post"),
    "activation": ("relu", "silu", "gelu", "gelu_new"),  # gelu_new has a hyperbolic tangent in place of erf
    "positions": ("sinusoidal", "fairseq", "marian", "learned", "relative", "none"),
    "final_norm": ("pre", "both", "none"),
    "decoder_norm": ("", "pre", "post"),
    "autoregression": ("attention", "ssru"),
}
# Numbers that may be 0, with what 0 means.
MAY_BE_ZERO = (
    "source_vocabulary",
    "target_vocabulary",
    "n_positions",
    "d_key",
    "n_buckets",
    "max_distance",
    "decoder_ff",
)
# What the configs of earlier versions lack; left out of config.json where it is the default.
LATER = (
    "positions",
    "n_positions",
    "embedding_norm",
    "d_key",
    "gated",
    "rms_norm",
    "n_buckets",
    "max_distance",
    "final_norm",
    "decoder_norm",
    "decoder_ff",
    "autoregression",
)
# The other settings are strings.
_FROM_JSON = {"int": int, "float": float, "bool": bool, "tuple[int, int] | None": list}


class Shape(TypedDict, total=False):
    """Arguments of ModelConfig that a file or a family of models determines."""

    d_model: int
    d_ff: int
    n_heads: int
    n_encoder_layers: int
    n_decoder_layers: int
    norm: str
    tied: bool
    activation: str
    positions: str
    n_positions: int
    embedding_norm: bool
    d_key: int
    gated: bool
    rms_norm: bool
    n_buckets: int
    max_distance: int
    final_norm: str
    decoder_norm: str
    decoder_ff: int
    autoregression: str
    output_bias: bool


@dataclass(frozen=True)
class ModelConfig:
    """Everything that determines the weights' shapes and the computation of the model.

    Names follow table 3 of "Attention Is All You Need" (Vaswani et al. 2017).
    """

    source_vocabulary: int
    target_vocabulary: int
    d_model: int = 256
    d_ff: int = 1024
    n_heads: int = 8
    n_encoder_layers: int = 4
    n_decoder_layers: int = 4
    dropout: float = 0.1
    norm: str = "pre"  # or "post", which __post_init__ checks
    tied: bool = True  # source embedding = target embedding = output projection (section 3.4)
    separate_output: bool = False  # the output projection has its own weights even when tied
    activation: str = "relu"  # of the feed-forward networks; or another of CHOICES
    # Of the paper; "fairseq" numbers and spaces them differently, "marian" only spaces them so; or another.
    positions: str = "sinusoidal"
    n_positions: int = 0  # how many are learned; 0 if they are not
    embedding_norm: bool = False  # a LayerNorm after tokens and positions are added, as in BART
    d_key: int = 0  # width of a head's queries, keys and values; 0: d_model / n_heads, as in the paper
    gated: bool = False  # feed-forward networks with a second product that scales the first (Shazeer 2020)
    rms_norm: bool = False  # RMSNorm (Zhang and Sennrich 2019) in place of each LayerNorm, as in T5
    n_buckets: int = 0  # of distances, each with a bias of the scores; 0 unless positions are "relative"
    max_distance: int = 0  # from which on all distances share a bucket
    # A norm follows the last layer of a pre-norm side; or "both": of any side, as in torch.nn.Transformer.
    final_norm: str = "pre"
    decoder_norm: str = ""  # where the decoder's norms are; "": as in the encoder
    decoder_ff: int = 0  # d_ff of the decoder; 0: as in the encoder
    # How the decoder sees the tokens before: by attention, or by a running memory (`network/recurrence.py`).
    autoregression: str = "attention"
    output_bias: bool = False  # the output projection adds a number for each entry of the vocabulary
    taught_head: tuple[int, int] | None = None  # layer and cross-attention head that was taught to align

    def __post_init__(self) -> None:
        for name, largest in LARGEST.items():
            value = getattr(self, name)
            smallest = 0 if name in MAY_BE_ZERO else 1
            if not smallest <= value <= largest:
                raise UserError(f"{name} is {quote_untrusted(value)}; give {smallest} to {largest:,}.")
        if self.d_model % self.n_heads and not self.d_key:
            raise UserError(f"d_model {self.d_model} must be a multiple of n_heads {self.n_heads}.")
        if self.total_heads > MOST_HEADS or self.total_queries > MOST_QUERIES:
            raise UserError(
                f"The model has {self.total_heads:,} heads with queries of {self.total_queries:,} numbers in "
                f"all; at most {MOST_HEADS} and {MOST_QUERIES:,} are read."
            )
        if self.d_model % 2:
            raise UserError(f"d_model {self.d_model} must be even for sinusoidal positions.")
        if not 0 <= self.dropout < 1:
            raise UserError(f"dropout {self.dropout} must be at least 0 and below 1.")
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                choices = ", ".join(map(repr, known))
                raise UserError(f"{name} is {quote_untrusted(value)}; it must be one of {choices}.")
        self._check_positions()
        if self.taught_head is not None:
            layer, head = self.taught_head
            if not (0 <= layer < self.n_decoder_layers and 0 <= head < self.n_heads):
                raise UserError(
                    f"taught_head is {quote_untrusted(list(self.taught_head))}; give a layer and a head, "
                    f"counted from 0, of the {self.n_decoder_layers} decoder layers of {self.n_heads} heads."
                )
        if self.tied and self.source_vocabulary != self.target_vocabulary:
            raise UserError("Tied weights need one vocabulary for both languages; set tied to false.")

    def _check_positions(self) -> None:
        """Raise UserError if the positions do not fit the other settings."""
        if (self.positions == "learned") != (self.n_positions > 0):
            raise UserError(
                f"n_positions is {self.n_positions} and positions {self.positions!r}; set n_positions if and "
                "only if positions are learned."
            )
        if (self.positions == "relative") != (self.n_buckets > 0):
            raise UserError(
                f"n_buckets is {self.n_buckets} and positions {self.positions!r}; set n_buckets if and "
                "only if positions are relative."
            )
        if self.positions == "relative" and self.is_recurrent:
            raise UserError("A decoder without self-attention has no relative positions; set other ones.")
        # Half of the buckets are of one direction; half of these hold one distance each.
        if self.n_buckets and not (self.n_buckets % 4 == 0 and self.max_distance > self.n_buckets // 2):
            raise UserError(
                f"n_buckets is {self.n_buckets} and max_distance {self.max_distance}; n_buckets must be a "
                "multiple of 4 and max_distance more than half of it."
            )
        if self.positions in ("fairseq", "marian") and self.d_model < 4:
            raise UserError(f"d_model {self.d_model} must be at least 4 for positions of {self.positions}.")

    @property
    def of_decoder(self) -> ModelConfig:
        """The config whose norm and d_ff are the decoder's."""
        norm, d_ff = self.decoder_norm or self.norm, self.decoder_ff or self.d_ff
        return replace(self, norm=norm, d_ff=d_ff, decoder_norm="", decoder_ff=0)

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm follows the last layer of the encoder; of the decoder, asked of `of_decoder`.

        With pre-norm the sum of all sub-layers is not normalised, so the paper's successors add one.
        """
        return self.final_norm == "both" or (self.final_norm == "pre" and self.norm == "pre")

    @property
    def d_head(self) -> int:
        """Width K of one head's queries, keys and values."""
        return self.d_key or self.d_model // self.n_heads

    @property
    def total_heads(self) -> int:
        """The heads of the encoder, the decoder and the cross-attention."""
        return self.n_heads * (self.n_encoder_layers + 2 * self.n_decoder_layers)

    @property
    def total_queries(self) -> int:
        """Width of the queries of all these heads together."""
        return self.total_heads * self.d_head

    def map_cells(self, source: int, target: int) -> int:
        """How many attention weights the record of a translation has, by the tokens of its sides."""
        decoder = self.n_decoder_layers * target * (target + source)
        return self.n_heads * (self.n_encoder_layers * source * source + decoder)

    @property
    def d_attention(self) -> int:
        """Width of the queries of all heads together; keys and values have the same width."""
        return self.n_heads * self.d_head

    @property
    def has_parts_of_t5(self) -> bool:
        """Whether the network has a part of T5 (Raffel et al. 2020)."""
        return bool(self.positions == "relative" or self.gated or self.rms_norm or self.d_key)

    @property
    def is_recurrent(self) -> bool:
        """Whether the decoder keeps a running memory in place of self-attention."""
        return self.autoregression == "ssru"

    @property
    def only_torch(self) -> bool:
        """Whether no kernel computes a part of the network."""
        return self.has_parts_of_t5 or self.is_recurrent

    @property
    def n_parameters(self) -> int:
        """Number of weights, computed before the model takes memory.

        Building the model on torch's meta device would count them too, but its first use imports 800
        modules and takes seconds.
        """
        d, inner = self.d_model, self.d_attention
        norm = d if self.rms_norm else 2 * d
        attention = 4 * d * inner
        encoder_ff, decoder_ff = ((2 + self.gated) * d * side.d_ff for side in (self, self.of_decoder))
        encoder = self.n_encoder_layers * (attention + encoder_ff + 2 * norm)
        own = attention - d * inner if self.is_recurrent else attention
        decoder = self.n_decoder_layers * (own + attention + decoder_ff + 3 * norm)
        final = (self.has_final_norm + self.of_decoder.has_final_norm) * norm
        vocabularies = self.source_vocabulary
        if not self.tied:
            vocabularies += self.target_vocabulary
        if not self.tied or self.separate_output:
            vocabularies += self.target_vocabulary
        bias = self.target_vocabulary if self.output_bias else 0
        embeddings = 2 * self.n_positions * d + (2 * norm if self.embedding_norm else 0)
        embeddings += 2 * self.n_buckets * self.n_heads
        return encoder + decoder + self.n_biases + final + embeddings + vocabularies * d + bias

    @property
    def n_biases(self) -> int:
        """Number of weights that are biases of a layer's matrices, which T5 does not have."""
        attention = 3 * self.d_attention + self.d_model
        encoder_ff, decoder_ff = (
            (1 + self.gated) * side.d_ff + self.d_model for side in (self, self.of_decoder)
        )
        encoder = self.n_encoder_layers * (attention + encoder_ff)
        own = attention - self.d_attention if self.is_recurrent else attention
        return encoder + self.n_decoder_layers * (own + attention + decoder_ff)

    def to_json(self) -> dict[str, object]:
        """The settings as JSON values; what earlier versions lack is left out where it is the default."""
        values = asdict(self)
        for each in fields(self):
            if each.name in LATER and values[each.name] == each.default:
                del values[each.name]
        head = values.pop("taught_head")
        return values if head is None else values | {"taught_head": list(head)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ModelConfig:
        """The config that `to_json` wrote. Raises UserError for unknown or missing names and wrong types."""
        types = {field.name: _FROM_JSON.get(str(field.type), str) for field in fields(cls)}
        if unknown := sorted(set(values) - set(types)):
            raise UserError(f"Unknown model settings: {', '.join(map(quote_untrusted, unknown[:3]))}.")
        for name, value in values.items():
            wanted = types[name]
            # isinstance would take true for the number 1. JavaScript writes 0.0 as 0.
            if type(value) is not wanted and not (wanted is float and type(value) is int and value == 0):
                raise UserError(
                    f"The model's setting {name} is {quote_untrusted(value)}; it must be {wanted.__name__}."
                )
        head = values.get("taught_head")
        if head is not None and [type(each) for each in head] != [int, int]:
            raise UserError("The model's setting taught_head must be a list of two integers.")
        try:
            floats = {name: float(value) for name, value in values.items() if types[name] is float}
            return cls(**dict(values) | floats | ({} if head is None else {"taught_head": tuple(head)}))
        except TypeError as error:
            raise UserError(f"The model's settings are incomplete: {error}.") from error
