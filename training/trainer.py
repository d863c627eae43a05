"""The training loop: prepares a run, trains, validates, saves and evaluates."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from threading import Event

import torch
from accelerate.utils import broadcast_object_list, gather_object
from datasets import Dataset
from tqdm import tqdm

from model.errors import UserError
from model.files import write_json
from model.network.transformer import Transformer
from model.storage.card import Card
from model.storage.checkpoint import (
    JOINT,
    Checkpoint,
    ModelInfo,
    load,
    load_tokenizers,
    save,
    save_tokenizers,
)
from model.storage.run import LATEST
from model.text.tokenizer import Tokenizer
from model.translator import Translator
from training.config import TrainConfig
from training.corpus.batching import padding_share
from training.corpus.encoding import encode_pairs, train_tokenizers, warn_of_unknown
from training.corpus.loading import Loaded, Loader
from training.corpus.mixing import Mixture
from training.corpus.splits import Corpus, read_corpus
from training.evaluation.metrics import Scores, TrainingWindow
from training.evaluation.validation import Validator
from training.hardware import keep_freed_memory, start_accelerator, stop_requests
from training.loss import SequenceLoss
from training.optimizer import make_optimizer
from training.run.card import run_card
from training.run.damage import BEST, SNAPSHOTS, reading
from training.run.directory import (
    EVALUATION,
    STATE,
    RunLog,
    check_config,
    check_output,
    check_split,
    copy_curves_and_probes,
    disk_errors_as_user_errors,
    kept_snapshots,
    read_run,
    remove_snapshots,
    write_description,
)
from training.run.history import continue_history
from training.run.probes import ProbeRecorder, readable_sentences
from training.run.resume import Progress, Snapshot, load_state, save_state, seed_step
from training.run.warm_start import copy_weights, tokenizers_of
from training.schedule import last_step, learning_rate

LOG_EVERY = 50  # steps
PLAN_EVERY = 10  # steps after which a run with a time limit plans anew how many it will have
DIVERGENCE_FACTOR = 3  # times ln V, the loss of a uniform distribution over the vocabulary


class Trainer:
    """Trains one model in one run directory; several processes share every batch."""

    def __init__(
        self,
        config: TrainConfig,
        data: Sequence[Path],
        output: Path,
        resume: bool = False,
        alignments: Path | None = None,
        start: Path | None = None,
    ) -> None:
        self.config, self.data, self.output, self.resume = config, data, output, resume
        self.alignments, self.start = alignments, start
        self.progress = Progress()
        self.last_step = float(config.max_steps)

    def prepare(self) -> None:
        """Read and encode the corpus, and build the model or load the state of the run to resume.

        Raises UserError when the run directory, the data or the launcher does not fit the settings.
        """
        config, output = self.config, self.output
        check_output(output, self.resume)
        keep_freed_memory()
        # A resumed run keeps its precision, although a new measurement may give another.
        self.accelerator = start_accelerator(read_run(output).get("precision") if self.resume else None)
        self.main = self.accelerator.is_main_process
        # The main process goes first; the others find in the cache what it has prepared.
        with self.accelerator.main_process_first(), disk_errors_as_user_errors(output):
            self._prepare_data()
        torch.manual_seed(config.seed)
        source, target = map(len, self.tokenizers)
        self.uniform_loss = math.log(target)  # nats per token
        shape = replace(config.model, source_vocabulary=source, target_vocabulary=target)
        if self.alignments is not None:
            # As in Garg et al. 2019, section 3.2, the last layer but one.
            shape = replace(shape, taught_head=(max(shape.n_decoder_layers - 2, 0), 0))
        self.model = Transformer(shape)
        if self.start is not None and not self.resume:
            known = copy_weights(self.model, self.tokenizers, self.start)
            self._print(f"Starting from {self.start}, which knows {known:,} pieces of the vocabulary")
            if self.main:
                languages = config.source_language, config.target_language
                sentences = readable_sentences(self._translator(self.checkpoint()))
                self.progress = continue_history(self.start, output, languages, sentences)
                self._print(f"The history of the run begins with {self.progress.earlier_steps:,} steps of it")
        self.optimizer = make_optimizer(self.model, config, self.accelerator.mixed_precision == "bf16")
        self.loss = self.accelerator.prepare(SequenceLoss(self.model, config.label_smoothing))
        if self.resume:
            self.progress = load_state(output / STATE, self.model, self.optimizer)
        self.recorder = ProbeRecorder(
            self._translator(self.checkpoint()),
            output,
            self.progress.history_step,
            self.progress.earlier_steps,
            self.main,
        )
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        precision, device = self.accelerator.mixed_precision, self.accelerator.device
        self._print(f"{parameters:,} parameters, mixed precision {precision}, on {device}")

    def _prepare_data(self) -> None:
        """Corpus, tokenizers and batches; a resumed run keeps its split and its tokenizers."""
        config = self.config
        corpus = read_corpus(config, self.data, self.alignments)
        if self.resume:
            for change in check_config(self.output, config):
                self._print(change)
            check_split(self.output, corpus)
        elif self.main:
            self.output.mkdir(parents=True, exist_ok=True)
            save_tokenizers(self.output, *self._new_tokenizers(corpus.train))
        with reading(self.output / JOINT):
            self.tokenizers = load_tokenizers(self.output, config.model.tied)
        self.train, kept = encode_pairs(corpus.train, self.tokenizers, config.max_tokens)
        corpus.dropped["too_long"] = len(corpus.train) - len(kept)
        mixture = Mixture.of(corpus.train.select(kept), dict(config.weights))
        encoded, kept = encode_pairs(corpus.validation, self.tokenizers, config.max_tokens)
        corpus.dropped["validation_too_long"] = len(corpus.validation) - len(kept)
        pairs = corpus.validation.select(kept)
        self.validator = Validator(self.accelerator, pairs, encoded, config.tokens_per_batch)
        for part, name in ((self.train, "training"), (encoded, "validation")):
            if not len(part):
                raise UserError(
                    f"No {name} pair is left after cleaning and the limit of {config.max_tokens} tokens; "
                    "give other data or a higher max_tokens."
                )
        self.batches = self.train.batches(
            config.tokens_per_batch, config.seed, config.pairs_per_batch, mixture.rows
        )
        state = self.accelerator
        self.loader = Loader(self.train, self.batches, state.device, state.process_index, state.num_processes)
        if not self.batches.epoch(0):
            raise UserError("The weights of the sources leave no pair in an epoch; give higher weights.")
        self._describe_data(corpus, mixture)

    def _new_tokenizers(self, train: Dataset) -> tuple[Tokenizer, Tokenizer]:
        """Those of the model that the run starts from, if it has the same languages, or new ones."""
        config = self.config
        languages = config.source_language, config.target_language
        if self.start is not None and (former := tokenizers_of(self.start, languages)):
            self._print(f"The run keeps the vocabulary of {self.start} and learns none")
            return former
        return train_tokenizers(config, train)

    def _describe_data(self, corpus: Corpus, mixture: Mixture) -> None:
        """Print what the data is; a new run also writes its description."""
        pairs = {"train": len(self.train), "validation": len(self.validator.pairs)}
        sources = mixture.counts()
        if self.main and not self.resume:
            precision = self.accelerator.mixed_precision
            write_description(
                self.output,
                self.config,
                self.data,
                corpus,
                pairs,
                precision,
                sources=sources,
                alignments=self.alignments and str(self.alignments.resolve()),
                **{"from": self.start and str(self.start.resolve())},
            )
        for name, each in sources.items() if len(sources) > 1 else ():
            self._print(f"{name}: {each['pairs']:,} pairs, weight {each['weight']:g}")
        counts = [f"{count:,} dropped as {rule}" for rule, count in corpus.dropped.items() if count]
        self._print(", ".join([*(f"{count:,} {part} pairs" for part, count in pairs.items()), *counts]))
        if corpus.left_out:
            self._print(f"Held out by their names and not read: {', '.join(corpus.left_out)}")
        for warning in warn_of_unknown(self.train, self.config):
            self._print(warning)
        epoch = self.batches.epoch(0)
        padding = padding_share(epoch, self.batches.source_lengths, self.batches.target_lengths)
        self._print(f"{len(epoch):,} batches an epoch, {padding:.1%} of their tokens padding")

    def _print(self, sentence: str) -> None:
        if self.main:
            tqdm.write(sentence)

    def run(self, minutes: float | None = None) -> Path:
        """Train until the last step, the end of patience or the time limit; returns the best model.

        Call `prepare` first. Raises UserError when the loss diverges, the disk is full or someone stops
        the run; the last good state is kept each time.
        """
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        with (
            disk_errors_as_user_errors(self.output),
            closing(RunLog(self.output, self.progress.history_step)) if self.main else nullcontext() as log,
        ):
            self._loop(deadline, log)
        self.accelerator.wait_for_everyone()  # otherwise communication threads abort at exit
        self.accelerator.end_training()
        return self.output / BEST

    def _loop(self, deadline: float, log: RunLog | None) -> None:
        config, progress = self.config, self.progress
        self.started, self.first_step = time.monotonic(), progress.step
        batches = self.loader.stream(progress.epoch, progress.batch)
        self.window = TrainingWindow(**progress.window)
        bar = tqdm(total=config.max_steps, initial=progress.step, unit="step", disable=not self.main)
        with bar, closing(batches), stop_requests() as stop:
            while not self._finished() and not self._must_stop(deadline, stop):
                self.recorder.record(progress.history_step)
                if progress.step % PLAN_EVERY == 0:
                    self.last_step = self._last_step(deadline)
                self._step(list(islice(batches, config.accumulate)), self.window)
                bar.update()
                if log and progress.step % LOG_EVERY == 0:
                    values = self.window.values()
                    speed = f"{values['tokens_per_second']:,.0f}"
                    bar.set_postfix(loss=f"{values['loss']:.3f}", tokens_s=speed)
                    log.write(progress.history_step, {f"train/{n}": v for n, v in values.items()})
                    self.window = TrainingWindow()
                if progress.step % config.validate_every == 0:
                    self.window = TrainingWindow()  # the saved state begins a new one
                    self._validate(log)
                    self.window = TrainingWindow()  # without the time of the validation
                elif progress.step % config.save_every == 0:
                    self._save()
            self.recorder.record(progress.history_step, last=True)
            if any(gather_object([stop.is_set()])):
                self._save()
                raise UserError(f"Stopped at step {progress.step}; continue with --resume.")
            if progress.validated < progress.step:
                self._validate(log)
            self._evaluate()

    def _finished(self) -> bool:
        config, progress = self.config, self.progress
        return (
            progress.step >= config.max_steps
            or (config.patience is not None and progress.worse >= config.patience)
            or (config.stop_at is not None and progress.best >= self._score(config.stop_at))
        )

    def _last_step(self, deadline: float) -> float:
        """The step that ends the run: for all processes the first one's, so that their rates are the same."""
        now, step = time.monotonic(), self.progress.step
        steps, seconds = step - self.first_step, now - self.started
        last = last_step(self.config.max_steps, step, steps, seconds, deadline - now)
        return float(broadcast_object_list([last])[0])

    def _score(self, value: float) -> float:
        """A value of `best_by` as a score: higher is better."""
        return -value if self.config.best_by == "loss" else value

    def _must_stop(self, deadline: float, stop: Event) -> bool:
        """Whether any process is out of time or was asked to stop; all processes get the same answer."""
        if time.monotonic() >= deadline or stop.is_set():
            self.accelerator.set_trigger()
        return bool(self.accelerator.check_trigger())

    def _step(self, batches: Sequence[Loaded], window: TrainingWindow) -> None:
        """One update by the mean gradient over all target tokens of the batches."""
        progress, accelerator = self.progress, self.accelerator
        started = time.monotonic()
        self.loss.train()
        seed_step(self.config.seed, progress.step, accelerator.process_index)
        rate = learning_rate(self.config, progress.step + 1, self.last_step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        tokens = sum(loaded.tokens for loaded in batches)
        terms = torch.zeros(2, device=accelerator.device)
        for number, loaded in enumerate(batches, start=1):
            # Processes exchange gradients only in the last batch's backward pass.
            with nullcontext() if number == len(batches) else accelerator.no_sync(self.loss):
                terms += self._backward(loaded, tokens)
        norm = float(accelerator.clip_grad_norm_(self.model.parameters(), self.config.clip_norm))
        loss, alignment = accelerator.reduce(terms, "mean").tolist()
        warm = progress.step >= self.config.warmup_steps
        diverged = warm and loss > DIVERGENCE_FACTOR * self.uniform_loss
        if diverged or not (math.isfinite(loss) and math.isfinite(norm)):
            raise UserError(
                f"The loss is {loss} and its gradient {norm} at step {progress.step + 1}. Start a new run "
                f"with a lower learning rate and another --output; {self.output} stays as it was last saved."
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        progress.step += 1
        progress.epoch, progress.batch, _ = batches[-1].place
        progress.tokens += tokens
        progress.seconds += time.monotonic() - started
        window.add(loss, tokens, norm, rate, None if self.alignments is None else alignment)

    def _backward(self, loaded: Loaded, tokens: int) -> torch.Tensor:
        """Gradients of this process's share of a batch; returns its losses by translation and alignment.

        Dividing by the tokens of all batches and multiplying by the number of processes makes the
        mean over the processes the gradient of the whole batch. A share of weight 0 is computed too,
        because the other processes wait for its gradients.
        """
        terms = torch.stack(self.loss(loaded.batch))
        terms = terms * (loaded.weight * self.accelerator.num_processes / tokens)
        self.accelerator.backward(terms[0] + self.config.alignment_weight * terms[1])
        found: torch.Tensor = terms.detach()
        return found

    def _validate(self, log: RunLog | None) -> None:
        """Compute the loss per token and the scores of greedy translations, log them, and save."""
        started, progress = time.monotonic(), self.progress
        hypotheses = self.validator.translate(self._translator(self.checkpoint()))
        scores = self.validator.score(hypotheses)
        loss = self.validator.loss(self.accelerator.unwrap_model(self.loss))
        values: dict[str, float | str] = {"loss": loss, **asdict(scores)}
        progress.validated = progress.step
        if log:
            spent: dict[str, float | str] = {"minutes": progress.seconds / 60, "tokens": progress.tokens}
            log.write(progress.history_step, {f"validation/{n}": v for n, v in values.items()} | spent)
            log.write_samples(progress.history_step, self.validator.samples(hypotheses))
        listed = ", ".join(f"{n} {v:.3f}" for n, v in values.items() if isinstance(v, float))
        self._print(f"step {progress.step}: {listed} in {time.monotonic() - started:.0f} s")
        value = self._score(loss if self.config.best_by == "loss" else getattr(scores, self.config.best_by))
        if progress.step % self.config.validate_every == 0 or self._finished():
            self._rank(value, scores)
        elif self.main and not progress.best_step:
            # Time was up. This validation is not ranked, so that a run with more time ranks the same steps.
            save(self.checkpoint(), self.output / BEST, self._card(scores))
        self._save()

    def _rank(self, value: float, scores: Scores) -> None:
        """Rank the model among the validated ones; keep it as the best and as a snapshot if it is."""
        config, progress = self.config, self.progress
        progress.worse += 1
        if value > progress.best:
            progress.best, progress.best_step, progress.worse = value, progress.step, 0
        snapshots = [*progress.snapshots, Snapshot(progress.step, value)]
        progress.snapshots = kept_snapshots(snapshots, config.keep_last, config.keep_best)
        if not self.main:
            return
        if progress.worse == 0:
            save(self.checkpoint(), self.output / BEST, self._card(scores))
        if snapshots[-1] in progress.snapshots:
            save(self.checkpoint(), self.output / SNAPSHOTS / snapshots[-1].name, self._card(scores))

    def _card(self, scores: Scores) -> Card:
        return run_card(self.config, self.progress.step, len(self.train), "greedy", scores)

    def _save(self) -> None:
        """Write the model directory and, once it is complete, the state to resume from."""
        if self.main:
            save(self.checkpoint(), self.output / LATEST)
            self.progress.window = self.window.sums
            save_state(self.output / STATE, self.model, self.optimizer, self.progress)
            remove_snapshots(self.output, self.progress.snapshots)

    def _evaluate(self) -> None:
        """Score the best model with beam search; write the scores and its card."""
        self.accelerator.wait_for_everyone()
        best, beam = load(self.output / BEST), self.config.beam_size
        best.model.to(self.accelerator.device)
        scores = self.validator.score(self.validator.translate(self._translator(best), beam))
        self._print(f"best model, beam {beam}: BLEU {scores.bleu:.2f} ({scores.bleu_signature})")
        if self.main:
            write_json(self.output / EVALUATION, {"beam": beam, **asdict(scores)})
            step = self.progress.best_step or self.progress.step
            card = run_card(self.config, step, len(self.train), f"beam {beam}", scores)
            save(best, self.output / BEST, card)
            copy_curves_and_probes(self.output, self.output / BEST)

    def _translator(self, checkpoint: Checkpoint) -> Translator:
        return Translator(checkpoint, max_tokens=self.config.max_tokens + 1, use_kernels=False)

    def checkpoint(self) -> Checkpoint:
        """The model in its present state."""
        config = self.config
        info = ModelInfo(config.source_language, config.target_language, config.title)
        return Checkpoint(self.model, *self.tokenizers, info)
