"""The card of a trained model: the README.md of its directory."""

from __future__ import annotations

from collections.abc import Mapping

from training.config import TrainConfig
from training.metrics import Scores


def card(config: TrainConfig, step: int, pairs: int, scores: Mapping[str, Scores]) -> str:
    """What the run itself knows, in the form of the Hugging Face hub; the rest is for people to add.

    `scores` are named by the set and the way of decoding.
    """
    shape = config.model
    rows = "\n".join(
        f"| {name} | {s.bleu:.2f} | {s.chrf:.2f} | {s.wer:.3f} | {s.cer:.3f} | {s.exact_match:.2f} |"
        for name, s in scores.items()
    )
    signatures = next(iter(scores.values()))
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
{pairs:,} training pairs, {step:,} steps of at most {config.accumulate * config.tokens_per_batch:,} tokens.

| set | BLEU | chrF | WER | CER | exact match, % |
|---|---|---|---|---|---|
{rows}

BLEU `{signatures.bleu_signature}`, chrF `{signatures.chrf_signature}`.

Say here before you share it: the data and its licence, test scores with their signature,
what the model is bad at.
"""
