"""Hugging Face's MarianMTModel in our shape and its Seq2SeqTrainer, for comparison."""

from __future__ import annotations

import itertools
import random
import tempfile
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import (
    MarianConfig,
    MarianMTModel,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
)

from model.network.config import ModelConfig
from model.text.tokenizer import BOS_ID, EOS_ID, PAD_ID, pad
from tests.benchmarks.pairs import Pairs
from tests.benchmarks.race import Race, Work

SENTENCES = 64  # a batch
IGNORED = -100  # the label of padding


def marian(config: ModelConfig, attention: str = "sdpa") -> Any:
    """A MarianMTModel with the shape of `config`; its norms follow the sub-layers, as always."""
    d, d_ff, heads = config.d_model, config.d_ff, config.n_heads
    shape = MarianConfig(
        vocab_size=config.source_vocabulary,
        d_model=d,
        encoder_layers=config.n_encoder_layers,
        decoder_layers=config.n_decoder_layers,
        encoder_ffn_dim=d_ff,
        decoder_ffn_dim=d_ff,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        activation_function="relu",
        dropout=config.dropout,
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=BOS_ID,
        forced_eos_token_id=None,
        attn_implementation=attention,
    )
    return MarianMTModel(shape)


def collate(features: list[dict[str, Any]]) -> dict[str, Tensor]:
    """A batch padded to its longest sentence; as much as DataCollatorForSeq2Seq does, and faster."""
    source = pad([feature["input_ids"] for feature in features])
    labels = pad([feature["labels"] for feature in features])
    return {
        "input_ids": source,
        "attention_mask": (source != PAD_ID).long(),
        "decoder_input_ids": pad([[BOS_ID, *feature["labels"][:-1]] for feature in features]),
        "labels": labels.masked_fill(labels == PAD_ID, IGNORED),
        "rows": torch.tensor([feature["row"] for feature in features]),
    }


class Turns(TrainerCallback):
    """Reports each step to a race; the time between two steps belongs to the later one."""

    def __init__(self, race: Race) -> None:
        self.race = race
        self.work: Work | None = None  # of the step that the trainer is at

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The first step is about to start."""
        self.race.begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """One update is done."""
        assert self.work is not None
        control.should_training_stop = not self.race.after_step(self.work)


class MarianTrainer(Seq2SeqTrainer):
    """Seq2SeqTrainer whose callback learns which rows a step trains on."""

    def __init__(self, turns: Turns, pairs: Pairs, **settings: Any) -> None:
        super().__init__(**settings, callbacks=[turns])
        self.turns, self.pairs = turns, pairs

    def _get_train_sampler(self, *arguments: Any) -> Any:
        """The usual batches of like length, but a sample of all lengths early in the epoch.

        The trainer's own order starts with the longest batches.
        """
        rows = list(super()._get_train_sampler(*arguments))
        starts = range(0, len(rows) - SENTENCES + 1, SENTENCES)
        batches = [rows[start : start + SENTENCES] for start in starts]
        random.Random(0).shuffle(batches)
        return list(itertools.chain.from_iterable(batches))

    def training_step(self, model: Any, inputs: Any, *arguments: Any) -> Any:
        """Forward and backward."""
        self.turns.work = self.pairs.work(inputs.pop("rows").tolist())
        return super().training_step(model, inputs, *arguments)


def run_marian(race: Race, pairs: Pairs, smoothing: float, bfloat16: bool) -> None:
    """Train until the race is over."""
    with tempfile.TemporaryDirectory() as output:
        settings = Seq2SeqTrainingArguments(
            output_dir=output,
            use_cpu=True,
            bf16=bfloat16,
            per_device_train_batch_size=SENTENCES,
            train_sampling_strategy="group_by_length",
            remove_unused_columns=False,
            label_smoothing_factor=smoothing,
            max_steps=10**6,
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = MarianTrainer(
            Turns(race),
            pairs,
            model=marian(pairs.model),
            args=settings,
            train_dataset=rows_of(pairs),
            data_collator=collate,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


def rows_of(pairs: Pairs) -> Dataset:
    """The pairs as the trainer reads them: ids that end in </s>, and the length to group by."""
    sources = [[*ids, EOS_ID] for ids in pairs.sources]
    targets = [[*ids, EOS_ID] for ids in pairs.targets]
    lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
    columns = {"input_ids": sources, "labels": targets, "length": lengths, "row": range(len(sources))}
    return Dataset.from_dict(columns)
