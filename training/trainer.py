"""One training run: prepare, loop, validate, save."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.metadata
import json
import math
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

from model.checkpoint import Checkpoint, ModelInfo, save, write_atomically, write_json
from model.errors import UserError
from model.masks import padding_mask
from model.tokenizer import BOS_ID, EOS_ID, PAD_ID
from model.transformer import Transformer
from model.translator import Translator, pad
from training.batching import TokenBatches
from training.config import TrainConfig
from training.data import Corpus, encode, lengths_of, read_corpus, train_tokenizers, write_split
from training.loss import token_loss
from training.metrics import score
from training.schedule import learning_rate
from training.state import Progress, load_state, save_state

STATE, LATEST, BEST = "training_state.safetensors", "latest", "best"
RUN, SPLIT, METRICS = "run.json", "split.json", "metrics.jsonl"
PACKAGES = ("torch", "tokenizers", "datasets", "accelerate", "safetensors", "sacrebleu")
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """Padded ids. The decoder reads `read` and is asked for `labels`: the same, one step later."""

    source: Int[Tensor, "B S"]
    read: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]


def collate(
    sources: Sequence[list[int]], targets: Sequence[list[int]], device: torch.device
) -> Batch:
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
        return token_loss(
            decoded.hidden[real], self.model.output.weight, batch.labels[real], smoothing
        )


def keep_freed_memory() -> None:
    """Let glibc keep the memory that a step frees for the next step.

    Returning and faulting in hundreds of megabytes a step took a sixth of the time on two cores.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def bfloat16_pays() -> bool:
    """Whether this machine multiplies bfloat16 matrices faster than float32 ones."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported()

    def seconds(dtype: torch.dtype) -> float:
        a = torch.ones(1024, 1024, dtype=dtype)
        a @ a
        started = time.perf_counter()
        for _ in range(3):
            a @ a
        return time.perf_counter() - started

    return seconds(torch.bfloat16) < seconds(torch.float32)


class Trainer:
    """One model in one run directory.

    The directory holds run.json (configuration and versions), split.json, metrics.jsonl, curves
    for TensorBoard, the model directories `best` and `latest`, and the state to resume from.
    """

    def __init__(
        self, config: TrainConfig, data: Sequence[Path], output: Path, resume: bool = False
    ) -> None:
        self.config, self.output = config, output
        check_output(output, resume)
        keep_freed_memory()
        precision = "bf16" if bfloat16_pays() else "no"
        self.accelerator = Accelerator(mixed_precision=precision)
        set_seed(config.seed)
        corpus = read_corpus(config, data)
        if resume:
            check_split(output, corpus)
        self.tokenizers = train_tokenizers(config, corpus.train)
        self.train, too_long = encode(corpus.train, self.tokenizers, config.max_tokens)
        self.validation, too_long_to_validate = encode(
            corpus.validation, self.tokenizers, config.max_tokens
        )
        source, target = map(len, self.tokenizers)
        self.model = Transformer(
            dataclasses.replace(config.model, source_vocabulary=source, target_vocabulary=target)
        )
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            betas=config.betas,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.loss, self.optimizer = self.accelerator.prepare(
            SequenceLoss(self.model, config.label_smoothing), self.optimizer
        )
        self.progress = Progress()
        if resume:
            self.progress = load_state(output / STATE, self.model, self.optimizer.optimizer)
            keep_metrics(output / METRICS, self.progress.step)
        elif self.accelerator.is_main_process:
            self._describe_run(corpus, {"too_long": too_long}, too_long_to_validate)
        self.pairs = corpus.validation

    def run(self, minutes: float | None = None) -> Path:
        """Train until the last step or the end of the wall-clock budget; returns the best model.

        Raises UserError when the loss is no longer a number; the last good state is kept.
        """
        config, progress = self.config, self.progress
        deadline = None if minutes is None else time.monotonic() + 60 * minutes
        writer = SummaryWriter(str(self.output / "tensorboard"), purge_step=progress.step + 1)
        bar = tqdm(
            total=config.max_steps,
            initial=progress.step,
            unit="step",
            disable=not self.accelerator.is_main_process,
        )
        with writer, bar:
            window = Window()
            for rows in self._batches():
                if progress.step >= config.max_steps or past(deadline):
                    break
                loss = self._step(rows)
                bar.update()
                window.add(loss, int(self.target_lengths[rows].sum()))
                if progress.step % 50 == 0:
                    self._log_window(writer, bar, window)
                    window = Window()
                if progress.step % config.validate_every == 0:
                    self._validate(writer)
                if progress.step % config.save_every == 0:
                    self._save()
            if progress.step % config.validate_every:
                self._validate(writer)
            self._save()
        return self.output / BEST

    def _batches(self) -> Iterator[Rows]:
        """Rows of the batches from the saved position on, epoch after epoch without end."""
        source, target = lengths_of(self.train)
        self.target_lengths = target + 1
        batches = TokenBatches(source + 1, target + 1, self.config.tokens_per_batch, self.config.seed)
        while True:
            for rows in batches.epoch(self.progress.epoch)[self.progress.batch :]:
                yield rows
                self.progress.batch += 1
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
        accelerator.clip_grad_norm_(self.model.parameters(), config.clip_norm)
        value = float(accelerator.reduce(loss.detach(), "mean"))
        if not math.isfinite(value):
            raise UserError(
                f"The loss is {value} at step {progress.step + 1}; the state of the last save is "
                f"kept in {self.output}. Lower the learning rate and start again."
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        progress.step += 1
        progress.seconds += time.monotonic() - started
        return value

    def _log_window(self, writer: SummaryWriter, bar: tqdm[Any], window: Window) -> None:
        step, speed = self.progress.step, window.speed()
        bar.set_postfix(loss=f"{window.mean():.3f}", tokens_s=f"{speed:,.0f}")
        writer.add_scalar("train/loss", window.mean(), step)
        writer.add_scalar("train/tokens_per_second", speed, step)
        self._append({"step": step, "loss": window.mean(), "tokens_per_second": speed})

    def _validate(self, writer: SummaryWriter) -> None:
        """Loss per token and greedy translation scores over the whole validation set."""
        if not self.accelerator.is_main_process:
            return
        started = time.monotonic()
        self.model.eval()
        state = torch.get_rng_state()
        scores = score(
            Translator(self.checkpoint()).translate_batch(list(self.pairs["source"])),
            list(self.pairs["target"]),
        )
        torch.set_rng_state(state)
        values = {
            "loss": self._validation_loss(),
            "bleu": scores.bleu,
            "chrf": scores.chrf,
            "exact_match": scores.exact_match,
        }
        for name, value in values.items():
            writer.add_scalar(f"validation/{name}", value, self.progress.step)
        entry = {f"validation_{name}": value for name, value in values.items()}
        self._append({"step": self.progress.step, **entry, "minutes": self.progress.seconds / 60})
        tqdm.write(
            f"step {self.progress.step}: validation "
            + ", ".join(f"{name} {value:.3f}" for name, value in values.items())
            + f" in {time.monotonic() - started:.0f} s"
        )
        if values[self.config.best_by] > self.progress.best:
            self.progress.best = values[self.config.best_by]
            save(self.checkpoint(), self.output / BEST)

    @torch.no_grad()
    def _validation_loss(self) -> float:
        self.loss.eval()
        source, target = lengths_of(self.validation)
        batches = TokenBatches(source + 1, target + 1, self.config.tokens_per_batch, 0).epoch(0)
        total = 0.0
        for rows in batches:
            pairs = self.validation[rows]
            total += float(
                self.loss(collate(pairs["source"], pairs["target"], self.accelerator.device))
            )
        return total / int((target + 1).sum())

    def _save(self) -> None:
        """The state to resume from and a model directory of the same weights."""
        if self.accelerator.is_main_process:
            save_state(self.output / STATE, self.model, self.optimizer.optimizer, self.progress)
            save(self.checkpoint(), self.output / LATEST)

    def checkpoint(self) -> Checkpoint:
        """The model as it stands."""
        config = self.config
        title = f"{config.source_language} → {config.target_language}"
        info = ModelInfo(config.source_language, config.target_language, title)
        return Checkpoint(self.model, *self.tokenizers, info)

    def _describe_run(
        self, corpus: Corpus, dropped: dict[str, int], too_long_to_validate: int
    ) -> None:
        self.output.mkdir(parents=True, exist_ok=True)
        write_json(self.output / RUN, {
            "config": self.config.to_json(),
            "pairs": {"train": len(self.train), "validation": len(self.validation)},
            "dropped": corpus.dropped | dropped,
            "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        })
        write_split(self.output, corpus, self.config)
        counts = ", ".join(f"{rule} {n:,}" for rule, n in (corpus.dropped | dropped).items())
        parameters = sum(p.numel() for p in self.model.parameters())
        tqdm.write(
            f"{len(self.train):,} training pairs (dropped: {counts}); "
            f"{len(self.validation):,} validation pairs; {parameters:,} parameters; "
            f"{self.accelerator.mixed_precision} on {self.accelerator.device}"
        )

    def _append(self, entry: dict[str, float]) -> None:
        if self.accelerator.is_main_process:
            with (self.output / METRICS).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry) + "\n")


class Window:
    """Mean loss and speed since the last line of the log."""

    def __init__(self) -> None:
        self.started, self.tokens, self.loss = time.monotonic(), 0, 0.0

    def add(self, loss: float, tokens: int) -> None:
        """Count one step."""
        self.loss += loss * tokens
        self.tokens += tokens

    def mean(self) -> float:
        """Loss per target token in nats."""
        return self.loss / max(self.tokens, 1)

    def speed(self) -> float:
        """Target tokens per second."""
        return self.tokens / max(time.monotonic() - self.started, 1e-9)


def past(deadline: float | None) -> bool:
    """Whether the wall-clock budget is used up."""
    return deadline is not None and time.monotonic() > deadline


def check_output(output: Path, resume: bool) -> None:
    """Refuse to overwrite a run, or to resume where there is none."""
    exists = (output / STATE).is_file()
    if resume and not exists:
        raise UserError(f"There is no run to resume in {output}; leave --resume out to start one.")
    if exists and not resume:
        raise UserError(f"{output} holds a run; add --resume to go on or give another --output.")


def check_split(output: Path, corpus: Corpus) -> None:
    """Refuse to resume on other data than the run began with."""
    if json.loads((output / SPLIT).read_text(encoding="utf-8")) != corpus.split:
        raise UserError(f"The corpus differs from the one that {output} began with; give that one.")


def keep_metrics(path: Path, last_step: int) -> None:
    """Drop what a killed run logged after its last save; the resumed one logs it again."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    kept = "".join(f"{line}\n" for line in lines if json.loads(line)["step"] <= last_step)
    write_atomically(path, lambda part: part.write_text(kept, encoding="utf-8"))
