"""Floating-point operations of the model's matrix products, counted from shapes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable

import torch

from model.network.config import ModelConfig

SIDE = 2048  # of the square matrices that show the machine's rate
FORWARD_AND_BACKWARD = 3  # a product's two gradients are two products of the same size


def translation_flops(config: ModelConfig, source: int, target: int) -> int:
    """Operations of one forward pass over a pair with so many tokens, with specials, without padding.

    Scores that the causal mask hides are counted, because no CPU implementation skips them.
    """
    d, linear = config.d_model, 2 * config.d_model**2
    feed_forward = 4 * d * config.d_ff
    encoder = source * (4 * linear + feed_forward) + 4 * d * source * source
    self_and_forward = target * (4 * linear + feed_forward) + 4 * d * target * target
    cross = (target + source) * 2 * linear + 4 * d * target * source
    output = 2 * target * d * config.target_vocabulary
    return config.n_encoder_layers * encoder + config.n_decoder_layers * (self_and_forward + cross) + output


def training_flops(config: ModelConfig, lengths: Iterable[tuple[int, int]]) -> int:
    """Operations of one training step on pairs of these source and target lengths."""
    return FORWARD_AND_BACKWARD * sum(translation_flops(config, *pair) for pair in lengths)


def product_rate(dtype: torch.dtype) -> float:
    """FLOP/s of a large matrix product here and now."""
    a, b = (torch.randn(SIDE, SIDE).to(dtype) for _ in range(2))
    seconds = []
    for _ in range(6):
        started = time.perf_counter()
        a @ b
        seconds.append(time.perf_counter() - started)
    return 2 * SIDE**3 / statistics.median(seconds[1:])
