"""TrainConfig: all settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model.decoding.options import SearchOptions
from model.errors import UserError
from model.network.config import ModelConfig
from model.text.tokenizer import TokenizerKind

STANDARD = ModelConfig(source_vocabulary=0, target_vocabulary=0)
LARGEST_WEIGHT = 100  # of a source; more is a mistake
AT_LEAST = {
    1: (
        "max_tokens",
        "tokens_per_batch",
        "pairs_per_batch",
        "accumulate",
        "max_steps",
        "decay_every",
        "validate_every",
        "save_every",
        "patience",
    ),
    0: (
        "random_words",
        "validation_rows",
        "test_rows",
        "warmup_steps",
        "weight_decay",
        "keep_last",
        "keep_best",
    ),
}
POSITIVE = ("peak_learning_rate", "muon_learning_rate", "decay_factor", "epsilon", "clip_norm")
SHARES = ("concatenate", "alignment_weight", "decay_share", "label_smoothing")


@dataclass(frozen=True)
class TrainConfig:
    """The settings of one training run. The tokenizers decide the vocabulary sizes of the model."""

    name: str  # of the recipe; its run is written to runs/NAME
    title: str  # shown on the page
    source_language: str
    target_language: str
    model: ModelConfig = STANDARD
    tokenizer: TokenizerKind = "bpe"
    vocabulary: int = 8000
    min_frequency: int = 1
    hub: tuple[str, str] | None = None  # data set and configuration on the Hugging Face hub
    weights: tuple[tuple[str, float], ...] = ()  # how often an epoch reads the pairs of a source; else once
    alignment_weight: float = 0.05  # of the loss of the taught head, if there are alignments
    concatenate: float = 0.0  # long pairs made of neighbouring ones, as a share of the training pairs
    reverse_words: bool = False  # the data is a word list, the target the reversed word
    random_words: int = 0  # words of random letters in place of a word list
    validation_rows: int | float = 2000  # or a share below 1; drawn at random if the data has no such part
    test_rows: int = 0  # drawn at random, not used in training
    max_tokens: int = 100  # longer sentences are dropped and counted
    tokens_per_batch: int = 4096  # on either side, with padding
    pairs_per_batch: int | None = None  # upper limit of sentence pairs in a batch
    accumulate: int = 1  # batches per step, whose gradients are added
    max_steps: int = 10_000
    optimizer: Literal["adamw", "muon"] = "adamw"  # the latter for the layers' matrices
    peak_learning_rate: float = 1.5e-3
    muon_learning_rate: float = 3e-3  # peak; only for the optimizer "muon"
    warmup_steps: int = 1200
    schedule: Literal["inverse_sqrt", "cosine", "trapezoid", "step", "constant"] = "inverse_sqrt"
    decay_share: float = 0.3  # of the steps; only for the schedule "trapezoid"
    decay_every: int = 1000  # steps; only for the schedule "step"
    decay_factor: float = 0.9
    label_smoothing: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    validate_every: int = 1000
    save_every: int = 250
    best_by: Literal["bleu", "chrf", "exact_match", "loss"] = "bleu"
    patience: int | None = None  # the run stops after so many validations without improvement
    stop_at: float | None = None  # the run stops when a validation reaches this value of `best_by`
    keep_last: int = 5  # latest snapshots that are kept for averaging; each validation makes one
    keep_best: int = 5  # best snapshots that are kept
    beam_size: int = 4  # for the evaluation at the end
    seed: int = 1

    def __post_init__(self) -> None:
        self._check_ranges()
        if self.model.taught_head is not None:
            raise UserError("A run names its taught head itself; give --alignments instead of taught_head.")
        for source, weight in self.weights:
            if not 0 <= weight <= LARGEST_WEIGHT:
                raise UserError(f"The weight of {source} is {weight}; give 0 to {LARGEST_WEIGHT}.")
        SearchOptions(self.beam_size)  # refuses an invalid beam size now, not after the last step

    def _check_ranges(self) -> None:
        for least, names in AT_LEAST.items():
            for name in names:
                value = getattr(self, name)
                if value is not None and value < least:
                    raise UserError(f"{name} is {value}; give at least {least}.")
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is {getattr(self, name)}; give more than 0.")
        for name in SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} is {getattr(self, name)}; give 0 to 1.")
        for beta in self.betas:
            if not 0 <= beta < 1:
                raise UserError(f"One of betas is {beta}; give numbers from 0 to below 1.")
