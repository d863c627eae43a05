"""Tiny random models and tokenizers: what the tests show is about the code, not about training."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from model.decoding.options import SearchOptions
from model.errors import UserError
from model.network.config import ModelConfig
from model.network.transformer import HeadGates, Transformer
from model.results import AttentionRecord
from model.storage.checkpoint import Checkpoint, ModelInfo
from model.text.tokenizer import Tokenizer, TokenizerKind
from model.translator import Translator

SENTENCES = (
    "Ein kleiner Hund läuft durch den Schnee.",
    "Wie geht's dir heute, Jürgen?",
    "Die Äpfel kosten 2,50 Euro (pro Kilo)!",
    "Öffne die Tür; es ist heiß – sehr heiß.",
    "A small dog runs through the snow.",
    "How's it going today, Jürgen?",
    'She said: "Don\'t open the door!"',
    "The apples aren't cheap: 2.50 euros/kilo.",
)
INFO = ModelInfo("German", "English", "Tiny")
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class LimitedSearch(SearchOptions):
    """Search options whose length limit does not follow the source."""

    max_length: int = 8

    def limit(self, source_length: int) -> int:
        return self.max_length


def tiny_config(**overrides: Any) -> ModelConfig:
    """A config with unequal numbers everywhere, so that swapped axes show."""
    shape = {
        "source_vocabulary": 13,
        "target_vocabulary": 13,
        "d_model": 12,
        "d_ff": 20,
        "n_heads": 3,
        "n_encoder_layers": 2,
        "n_decoder_layers": 4,
    }
    return ModelConfig(**(shape | overrides))


@torch.no_grad()
def draw_weights(module: Module, seed: int = 0, scale: float = 1.5) -> Module:
    """Give every parameter random values, norms and biases included, and return the module.

    They are multiples of 2^-15 from NumPy's generator: torch's own numbers depend on the processor.
    A matrix has the variance scale² / columns.
    """
    draw = np.random.default_rng(seed)
    for name, parameter in module.named_parameters():
        uniform = torch.from_numpy(draw.integers(-(2**15), 2**15, tuple(parameter.shape)) / 2**15)
        if parameter.ndim > 1:
            parameter.copy_(uniform * (scale * math.sqrt(3 / parameter.shape[-1])))
        else:
            parameter.copy_(uniform * 0.2 + (scale if name.endswith("norm.weight") else 0))
    return module


def random_model(seed: int = 0, **overrides: Any) -> Transformer:
    """A model in eval mode with no weight at its initial value: norms, biases and attention are all busy."""
    return draw_weights(Transformer(tiny_config(**overrides)), seed).eval()


def random_numbers(*shape: int) -> Tensor:
    """Numbers with mean 0 and variance 1, the same on every processor: torch.randn gives others on some."""
    return math.sqrt(3) * (2 * torch.rand(*shape) - 1)


def random_tokens(*shape: int, seed: int = 0, vocabulary: int = 13) -> Tensor:
    """Token ids without specials."""
    return torch.randint(4, vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def set_logits(model: Transformer, logits: dict[int, float]) -> Transformer:
    """Make the (untied) model give the same logits at every step: those given, 0 for all others."""
    with torch.no_grad():
        norm = cast(nn.LayerNorm, model.decoder_norm)
        norm.weight.zero_()
        norm.bias.zero_()
        norm.bias[0] = 1.0
        model.output.weight.zero_()
        for token, value in logits.items():
            model.output.weight[token, 0] = value
    return model


@lru_cache
def trained(kind: TokenizerKind) -> Tokenizer:
    """A tokenizer of SENTENCES."""
    return Tokenizer.train(SENTENCES, kind, 160)


def tiny_checkpoint(tied: bool = True, seed: int = 0, **overrides: Any) -> Checkpoint:
    """A random model with joint BPE when tied, else with words in and characters out."""
    source, target = (trained("bpe"),) * 2 if tied else (trained("word"), trained("character"))
    sizes = {"source_vocabulary": len(source), "target_vocabulary": len(target)}
    return Checkpoint(random_model(seed, tied=tied, **sizes, **overrides), source, target, INFO)


def assert_sentence(error: UserError) -> None:
    """One short line that can be shown as it is."""
    assert str(error).isprintable(), repr(str(error))  # no line breaks, nothing invisible
    assert len(str(error)) < 500
    assert str(error).endswith(".")


def pharaoh_links(line: str) -> frozenset[tuple[int, int]]:
    """The links of a line in Pharaoh format."""
    return frozenset((int(source), int(target)) for source, target in re.findall(r"([0-9]+)-([0-9]+)", line))


def read_target(
    translator: Translator, text: str, target: Sequence[int], gates: HeadGates | None = None
) -> tuple[AttentionRecord, Tensor]:
    """The weights of the pass over a given target, and the log-probabilities [T, V] of all next tokens."""
    source = translator.source(text)
    encoded = translator.inference.encode(translator._batch(source), gates)
    weights, scores = translator.inference.decode(encoded, target, gates)
    return translator._record(source, encoded, target, *weights), scores
