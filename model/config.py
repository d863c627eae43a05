"""ModelConfig: the shape of a Transformer, to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from model.errors import UserError


@dataclass(frozen=True)
class ModelConfig:
    """Everything that decides the shape of the weights and the arithmetic of the model.

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
    norm: Literal["pre", "post"] = "pre"
    tied: bool = True  # source embedding = target embedding = output projection (section 3.4)
    separate_output: bool = False  # the output projection has its own weights even when tied

    def __post_init__(self) -> None:
        for name in ("d_model", "d_ff", "n_heads", "n_encoder_layers", "n_decoder_layers"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; give at least 1.")
        if self.d_model % self.n_heads:
            raise UserError(f"d_model {self.d_model} must be a multiple of n_heads {self.n_heads}.")
        if self.d_model % 2:
            raise UserError(f"d_model {self.d_model} must be even for sinusoidal positions.")
        if not 0 <= self.dropout < 1:
            raise UserError(f"dropout {self.dropout} must be at least 0 and below 1.")
        if self.norm not in ("pre", "post"):
            raise UserError(f"norm is {self.norm!r}; it must be 'pre' or 'post'.")
        if self.tied and self.source_vocabulary != self.target_vocabulary:
            raise UserError("Tied weights need one vocabulary for both languages; set tied to false.")

    @property
    def d_head(self) -> int:
        """Width K of one head's queries, keys and values."""
        return self.d_model // self.n_heads

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for `json.dump`."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ModelConfig:
        """The config that `to_json` wrote. Raises UserError on unknown or missing names."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise UserError(f"Unknown model settings: {', '.join(unknown)}.")
        try:
            return cls(**values)
        except TypeError as error:
            raise UserError(f"The model's settings are incomplete: {error}.") from error
