"""The card of a trained model: the README.md of its directory."""

from __future__ import annotations

from collections.abc import Mapping

from training.config import TrainConfig


def card(config: TrainConfig, step: int, pairs: int, validation: Mapping[str, float]) -> str:
    """What the run itself knows, in the form of the Hugging Face hub; the rest is for people to add."""
    shape = config.model
    scores = "\n".join(f"| {name} | {value:.3f} |" for name, value in validation.items())
    return f"""---
tags:
  - headlight
  - transformer
  - attention
library_name: pytorch
---

# {config.title}

An encoder-decoder Transformer trained by Headlight:
{shape.n_encoder_layers} + {shape.n_decoder_layers} layers of width {shape.d_model}, {shape.n_heads} heads,
feed-forward {shape.d_ff}, {shape.norm}-norm, {config.tokenizer} tokens;
{pairs:,} training pairs, {step:,} steps of at most {config.tokens_per_batch:,} tokens.

| validation, greedy | |
|---|---|
{scores}

Say here before you share it: the data and its licence, test scores with their signature,
what the model is bad at.
"""
