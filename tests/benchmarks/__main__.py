"""Speed beside PyTorch's own nn.Transformer of the same shape, in one run: `make bench`.

Prints medians and ratios; nothing here passes or fails, since machines differ and drift.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import ModelConfig
from model.decoding import SearchOptions, search
from model.tokenizer import BOS_ID
from model.transformer import Transformer
from training.batching import Batch
from training.loss import SequenceLoss
from training.machine import bfloat16_pays, keep_freed_memory

V, D, H, F_WIDTH, LAYERS = 8000, 256, 8, 1024, 4
ROUNDS = 7


class Peer(nn.Module):
    """nn.Transformer with one embedding, as the manual shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, D)
        self.transformer = nn.Transformer(D, H, LAYERS, LAYERS, F_WIDTH, batch_first=True, norm_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits [B, T, V]."""
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(
            self.embedding(source), self.embedding(target), tgt_mask=causal, tgt_is_causal=True
        )
        return F.linear(hidden, self.embedding.weight)


def seconds(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Medians of the two, run in turn so that a drifting machine hits both."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS + 1):
        for work, taken in zip((first, second), times, strict=True):
            started = time.perf_counter()
            work()
            if turn:  # the first turn warms up
                taken.append(time.perf_counter() - started)
    return statistics.median(times[0]), statistics.median(times[1])


def training_step() -> None:
    """One update on 4,096 target tokens in sentences of 12."""
    dtype, enabled = torch.bfloat16, bfloat16_pays()
    ours, peer = SequenceLoss(Transformer(ModelConfig(V, V)), 0.1), Peer()
    source, target = torch.randint(4, V, (340, 12)), torch.randint(4, V, (340, 13))
    batch = Batch(source, target[:, :-1], target[:, 1:])

    def step(loss: Callable[[], Tensor], module: nn.Module) -> Callable[[], None]:
        optimizer = torch.optim.AdamW(module.parameters(), fused=True)

        def run() -> None:
            with torch.autocast("cpu", dtype, enabled):
                value = loss()
            value.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()

        return run

    def peer_loss() -> Tensor:
        logits = peer(source, target[:, :-1]).flatten(0, 1)
        return F.cross_entropy(logits, target[:, 1:].flatten(), label_smoothing=0.1)

    mine, theirs = seconds(step(lambda: ours(batch) / target[:, 1:].numel(), ours), step(peer_loss, peer))
    tokens = target[:, 1:].numel()
    print(f"training step   {tokens / mine:8,.0f} target tokens/s, nn.Transformer {tokens / theirs:8,.0f}")
    print(f"                {theirs / mine:8.2f} x")


def decoding() -> None:
    """Greedy, one sentence of 25 tokens to 25 tokens; the peer has no cache and keeps no weights."""
    ours, peer = Transformer(ModelConfig(V, V)).eval(), Peer().eval()
    source, options = torch.randint(4, V, (1, 25)), SearchOptions(max_length=25)

    @torch.inference_mode()
    def mine() -> None:
        found = search(ours, source, options)[0][0]
        encoded = ours.encode(source, explicit=True)
        ours.decode(torch.tensor([[BOS_ID, *found.ids[:-1]]]), encoded, explicit=True)

    @torch.inference_mode()
    def theirs() -> None:
        target = torch.tensor([[BOS_ID]])
        for _ in range(options.limit(25)):
            following = peer(source, target)[:, -1:].argmax(-1)
            target = torch.cat((target, following), 1)

    a, b = seconds(mine, theirs)
    print(f"greedy + record {1000 * a:8.1f} ms, nn.Transformer without cache or record {1000 * b:8.1f} ms")
    print(f"                {b / a:8.2f} x")


if __name__ == "__main__":
    keep_freed_memory()
    torch.manual_seed(0)
    training_step()
    decoding()
