"""TrainConfig: everything that decides a training run, to and from JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from model.config import ModelConfig
from model.decoding.search import SearchOptions
from model.errors import UserError
from model.tokenizer import TokenizerKind
from training.schedule import Schedule, learning_rate

STANDARD = ModelConfig(source_vocabulary=0, target_vocabulary=0)
AT_LEAST_ONE = (
    "max_tokens",
    "tokens_per_batch",
    "pairs_per_batch",
    "accumulate",
    "max_steps",
    "decay_every",
    "validate_every",
    "save_every",
    "patience",
)


@dataclass(frozen=True)
class TrainConfig:
    """One training run. The model's vocabulary sizes are filled in from its tokenizers."""

    name: str  # of the recipe; runs/NAME is where its run goes
    title: str  # as the page shows it
    source_language: str
    target_language: str
    model: ModelConfig = STANDARD
    tokenizer: TokenizerKind = "bpe"
    vocabulary: int = 8000
    min_frequency: int = 1
    hub: tuple[str, str] | None = None  # data set and configuration on the Hugging Face hub
    train_parts: tuple[str, ...] = ("train",)  # names of the parallel files to train on, the first required
    reverse_words: bool = False  # the data is a word list; the target is each word reversed
    validation_rows: int | float = 2000  # or their share; at random where the data has no such part
    test_rows: int = 0  # taken at random, never looked at by training
    max_tokens: int = 100  # longer sentences are dropped and counted
    tokens_per_batch: int = 4096  # on either side, padding counted
    pairs_per_batch: int | None = None  # also at most so many sentence pairs
    accumulate: int = 1  # batches whose gradients make one step
    max_steps: int = 10_000
    peak_learning_rate: float = 1.5e-3
    warmup_steps: int = 1200
    schedule: Schedule = "inverse_sqrt"
    decay_every: int = 1000  # steps; of the schedule "step" alone
    decay_factor: float = 0.9
    label_smoothing: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    validate_every: int = 1000
    save_every: int = 250
    best_by: Literal["bleu", "chrf", "exact_match", "loss"] = "bleu"
    patience: int | None = None  # validations without a better one after which the run stops
    keep_last: int = 5  # snapshots, one at each validation, that stay for averaging
    keep_best: int = 5
    beam_size: int = 4  # of the evaluation at the end
    seed: int = 1

    def __post_init__(self) -> None:
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}; give at least 1.")
        SearchOptions(self.beam_size)  # refuses now what it would refuse after the last step

    def learning_rate(self, step: int) -> float:
        """Rate of step 1, 2, ..."""
        return learning_rate(
            step,
            peak=self.peak_learning_rate,
            warmup_steps=self.warmup_steps,
            max_steps=self.max_steps,
            schedule=self.schedule,
            decay_every=self.decay_every,
            decay_factor=self.decay_factor,
        )

    def optimizer(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.AdamW:
        """AdamW over these parameters; the learning rate is for each step to set."""
        return torch.optim.AdamW(
            parameters, betas=self.betas, eps=self.epsilon, weight_decay=self.weight_decay, fused=True
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for `json.dump`."""
        return asdict(self)
