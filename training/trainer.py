"""One training run: prepare, loop, validate, save."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import tqdm

from model.checkpoint import Checkpoint, ModelInfo, load, save
from model.errors import UserError
from model.masks import padding_mask
from model.tokenizer import BOS_ID, EOS_ID, PAD_ID
from model.transformer import Transformer
from model.translator import Translator, pad
from training.batching import TokenBatches
from training.card import card
from training.config import TrainConfig
from training.data import encode, lengths_of, read_corpus, train_tokenizers
from training.loss import token_loss
from training.machine import bfloat16_pays, keep_freed_memory
from training.metrics import score
from training.run_directory import (
    BEST,
    LATEST,
    STATE,
    RunLog,
    Window,
    check_output,
    check_split,
    describe,
    precision_of,
)
from training.schedule import learning_rate
from training.state import Progress, load_state, save_state

LOG_EVERY = 50  # steps
Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """Padded ids. The decoder reads `read` and is asked for `labels`: the same, one step later."""

    source: Int[Tensor, "B S"]
    read: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]


def collate(sources: Sequence[list[int]], targets: Sequence[list[int]], device: torch.device) -> Batch:
    """Source ... </s>; read <s> ...; labels ... </s>."""
    return Batch(
        pad([[*ids, EOS_ID] for ids in sources]).to(device),
        pad([[BOS_ID, *ids] for ids in targets]).to(device),
        pad([[*ids, EOS_ID] for ids in targets]).to(device),
    )


class SequenceLoss(nn.Module):
    """Model and loss in one module, so that every gradient passes the wrapper of a parallel run."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, batch: Batch) -> Tensor:
        """Summed loss of the real target tokens, in nats."""
        source = batch.source
        mask = None if bool((source != PAD_ID).all()) else padding_mask(source, PAD_ID)
        decoded = self.model.decode(batch.read, self.model.encode(source, mask))
        real = batch.labels != PAD_ID
        smoothing = self.smoothing if self.training else 0.0
        return token_loss(decoded.hidden[real], self.model.output.weight, batch.labels[real], smoothing)


class Trainer:
    """Trains one model in one run directory."""

    def __init__(self, config: TrainConfig, data: Sequence[Path], output: Path, resume: bool = False) -> None:
        self.config, self.output = config, output
        check_output(output, resume)
        keep_freed_memory()
        precision = precision_of(output) if resume else None
        self.accelerator = Accelerator(mixed_precision=precision or ("bf16" if bfloat16_pays() else "no"))
        set_seed(config.seed)
        self._read(data, resume)
        source, target = map(len, self.tokenizers)
        self.model = Transformer(replace(config.model, source_vocabulary=source, target_vocabulary=target))
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), betas=config.betas, weight_decay=config.weight_decay, fused=True
        )
        self.loss = self.accelerator.prepare(SequenceLoss(self.model, config.label_smoothing))
        self.progress = load_state(output / STATE, self.model, self.optimizer) if resume else Progress()
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        if self.accelerator.is_main_process:
            precision, device = self.accelerator.mixed_precision, self.accelerator.device
            tqdm.write(f"{parameters:,} parameters, mixed precision {precision}, on {device}")

    def _read(self, data: Sequence[Path], resume: bool) -> None:
        """Corpus, tokenizers and batches; a resumed run keeps its split and its tokenizers."""
        config = self.config
        corpus = read_corpus(config, data)
        if resume:
            check_split(self.output, corpus)
            saved = load(self.output / LATEST)
            self.tokenizers = saved.source_tokenizer, saved.target_tokenizer
        else:
            self.tokenizers = train_tokenizers(config, corpus.train)
        self.train, kept = encode(corpus.train, self.tokenizers, config.max_tokens)
        corpus.dropped["too_long"] = len(corpus.train) - len(kept)
        self.validation, kept = encode(corpus.validation, self.tokenizers, config.max_tokens)
        self.pairs = corpus.validation.select(kept)
        for part, name in ((self.train, "training"), (self.validation, "validation")):
            if not len(part):
                raise UserError(
                    f"No {name} pair is left after cleaning and the limit of {config.max_tokens} tokens."
                )
        source, target = lengths_of(self.train)
        self.target_lengths = target + 1
        self.batches = TokenBatches(source + 1, target + 1, config.tokens_per_batch, config.seed)
        if self.accelerator.is_main_process and not resume:
            pairs = {"train": len(self.train), "validation": len(self.validation)}
            describe(self.output, config, corpus, pairs, self.accelerator.mixed_precision)
            dropped = ", ".join(f"{rule} {count:,}" for rule, count in corpus.dropped.items())
            tqdm.write(f"{pairs['train']:,} training pairs (dropped: {dropped})")
            tqdm.write(f"{pairs['validation']:,} validation pairs")

    def run(self, minutes: float | None = None) -> Path:
        """Train until the last step or the end of the wall-clock budget; returns the best model.

        Raises UserError when the loss is no longer a number; the last good state is kept.
        """
        config, progress = self.config, self.progress
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        batches, window = self._batches(), Window()
        main = self.accelerator.is_main_process
        bar = tqdm(total=config.max_steps, initial=progress.step, unit="step", disable=not main)
        with bar, RunLog(self.output, progress.step) if main else nullcontext() as log:
            while progress.step < config.max_steps and time.monotonic() < deadline:
                rows = next(batches)
                window.add(self._step(rows), int(self.target_lengths[rows].sum()))
                bar.update()
                if log and progress.step % LOG_EVERY == 0:
                    bar.set_postfix(loss=f"{window.mean():.3f}", tokens_s=f"{window.speed():,.0f}")
                    log.write(
                        progress.step,
                        {"train/loss": window.mean(), "train/tokens_per_second": window.speed()},
                    )
                    window = Window()
                if log and progress.step % config.validate_every == 0:
                    self._validate(log)
                if log and progress.step % config.save_every == 0:
                    self._save()
            if log:
                if progress.validated < progress.step:
                    self._validate(log)
                self._save()
        return self.output / BEST

    def _batches(self) -> Iterator[Rows]:
        """Rows of the batches from the saved position on, epoch after epoch without end."""
        while True:
            for rows in self.batches.epoch(self.progress.epoch)[self.progress.batch :]:
                self.progress.batch += 1
                yield rows
            self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0

    def _step(self, rows: Rows) -> float:
        """One update; returns the loss per target token in nats."""
        config, progress, accelerator = self.config, self.progress, self.accelerator
        started = time.monotonic()
        self.loss.train()
        rate = learning_rate(
            progress.step + 1,
            peak=config.peak_learning_rate,
            warmup_steps=config.warmup_steps,
            max_steps=config.max_steps,
            schedule=config.schedule,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # Each process takes its share of the rows; dividing by the whole batch's tokens and
        # multiplying by the processes makes their average the gradient of the whole batch.
        share = self.train[rows[accelerator.process_index :: accelerator.num_processes]]
        batch = collate(share["source"], share["target"], accelerator.device)
        tokens = int(self.target_lengths[rows].sum())
        loss = self.loss(batch) * (accelerator.num_processes / tokens)
        accelerator.backward(loss)
        norm = float(accelerator.clip_grad_norm_(self.model.parameters(), config.clip_norm))
        value = float(accelerator.reduce(loss.detach(), "mean"))
        if not (math.isfinite(value) and math.isfinite(norm)):
            raise UserError(
                f"The loss is {value} and its gradient {norm} at step {progress.step + 1}; the state of "
                f"the last save is kept in {self.output}. Lower the learning rate and start again."
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        progress.step += 1
        progress.seconds += time.monotonic() - started
        return value

    def _validate(self, log: RunLog) -> None:
        """Loss per token and greedy translation scores over the whole validation set."""
        started = time.monotonic()
        self.model.eval()
        hypotheses = Translator(self.checkpoint()).translate_batch(list(self.pairs["source"]))
        scores = score(hypotheses, list(self.pairs["target"]))
        values = {
            "loss": self._validation_loss(),
            "bleu": scores.bleu,
            "chrf": scores.chrf,
            "exact_match": scores.exact_match,
        }
        named = {f"validation/{name}": value for name, value in values.items()}
        log.write(self.progress.step, named | {"minutes": self.progress.seconds / 60})
        self.progress.validated = self.progress.step
        listed = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        seconds = time.monotonic() - started
        tqdm.write(f"step {self.progress.step}: validation {listed} in {seconds:.0f} s")
        if values[self.config.best_by] > self.progress.best:
            self.progress.best = values[self.config.best_by]
            text = card(self.config, self.progress.step, len(self.train), values)
            save(self.checkpoint(), self.output / BEST, text)

    @torch.no_grad()
    def _validation_loss(self) -> float:
        # Without the wrapper of a parallel run, which would wait for the other processes.
        loss = self.accelerator.unwrap_model(self.loss).eval()
        source, target = lengths_of(self.validation)
        batches = TokenBatches(source + 1, target + 1, self.config.tokens_per_batch, 0).epoch(0)
        total = 0.0
        for rows in batches:
            pairs = self.validation[rows]
            total += float(loss(collate(pairs["source"], pairs["target"], self.accelerator.device)))
        return total / int((target + 1).sum())

    def _save(self) -> None:
        """A model directory and, once that is whole, the state to resume from."""
        save(self.checkpoint(), self.output / LATEST)
        save_state(self.output / STATE, self.model, self.optimizer, self.progress)

    def checkpoint(self) -> Checkpoint:
        """The model as it stands."""
        config = self.config
        info = ModelInfo(config.source_language, config.target_language, config.title)
        return Checkpoint(self.model, *self.tokenizers, info)
