"""The training loop of the notebook and courses that Headlight grew from ("seeds"), for comparison.

Every sentence is padded to one length, whatever its own, and everything is float32: a loop over
batches of a fixed number of sentences in random order. Two changes make it faster than the originals: its
modules come from nn.Transformer, whose attention torch may fuse, and its sentences are tokenised before.
It computes with padding because the originals did.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.network.config import ModelConfig
from model.network.layers import sinusoids
from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID
from tests.benchmarks.pairs import Pairs
from tests.benchmarks.race import Work
from training.recipes import RECIPES


@dataclass(frozen=True)
class SeedSettings:
    """The settings of one of the documents."""

    sentences: int  # a batch
    length: int  # that every sentence is padded to
    masks_padding: bool  # in attention and in the loss
    label_smoothing: float
    learning_rate: float
    adam_eps: float


# Their own shapes, in Headlight's batches of tokens.
SEED_000 = replace(RECIPES["wmt14-de-en"], title="The shape of seed 000", pairs_per_batch=None)
SEEDS_001_004 = replace(
    RECIPES["opus-books-en-it"],
    title="The shape of seeds 001 and 004",
    source_language="de",
    target_language="en",
    pairs_per_batch=None,
)
WAY_000 = SeedSettings(
    sentences=32, length=100, masks_padding=False, label_smoothing=0.0, learning_rate=1e-3, adam_eps=1e-8
)
WAY_001_004 = SeedSettings(
    sentences=8, length=350, masks_padding=True, label_smoothing=0.1, learning_rate=1e-4, adam_eps=1e-9
)


class SeedTransformer(nn.Module):
    """nn.Transformer between embeddings with sinusoids and an output projection of its own."""

    positions: Tensor

    def __init__(self, config: ModelConfig, settings: SeedSettings) -> None:
        super().__init__()
        d, self.settings = config.d_model, settings
        self.source_embedding = nn.Embedding(config.source_vocabulary, d)
        self.target_embedding = (
            self.source_embedding if config.tied else nn.Embedding(config.target_vocabulary, d)
        )
        self.register_buffer("positions", sinusoids(settings.length, d))
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(settings.length) < 0)
        self.transformer = nn.Transformer(
            d,
            config.n_heads,
            config.n_encoder_layers,
            config.n_decoder_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
            norm_first=config.norm == "pre",
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(d, config.target_vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits [B, T, V] of padded ids [B, S] and [B, T]."""
        masks = {}
        if self.settings.masks_padding:
            padding = source == PAD_ID
            masks = {
                "src_key_padding_mask": padding,
                "memory_key_padding_mask": padding,
                "tgt_key_padding_mask": target == PAD_ID,
            }
        hidden = self.transformer(
            self._embed(self.source_embedding, source),
            self._embed(self.target_embedding, target),
            tgt_mask=self.causal,
            **masks,
        )
        logits: Tensor = self.output(hidden)
        return logits

    def _embed(self, embedding: nn.Embedding, ids: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(embedding(ids) * embedding.embedding_dim**0.5 + self.positions)
        return embedded


class SeedTraining:
    """Adam on batches of sentences in random order."""

    def __init__(self, config: ModelConfig, settings: SeedSettings, pairs: Pairs) -> None:
        self.settings, self.pairs = settings, pairs
        self.model = SeedTransformer(config, settings)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), settings.learning_rate, eps=settings.adam_eps
        )
        self.rows = self._batches()

    def _batches(self) -> Iterator[list[int]]:
        for epoch in itertools.count():
            order = np.random.default_rng(epoch).permutation(len(self.pairs.sources)).tolist()
            for start in range(0, len(order), self.settings.sentences):
                yield order[start : start + self.settings.sentences]

    def step(self) -> Work:
        """One update."""
        rows = next(self.rows)
        source = self._pad([[BOS_ID, *self.pairs.sources[i], EOS_ID] for i in rows])
        read = self._pad([[BOS_ID, *self.pairs.targets[i]] for i in rows])
        labels = self._pad([[*self.pairs.targets[i], EOS_ID] for i in rows])
        logits = self.model(source, read)
        loss = F.cross_entropy(
            logits.flatten(0, 1),
            labels.flatten(),
            ignore_index=PAD_ID if self.settings.masks_padding else -100,
            label_smoothing=self.settings.label_smoothing,
        )
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return self.pairs.work(rows)

    def _pad(self, rows: list[list[int]]) -> Tensor:
        width = self.settings.length
        return torch.tensor([[*ids, *[PAD_ID] * (width - len(ids))] for ids in rows])
