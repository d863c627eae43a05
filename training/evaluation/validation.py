"""Validation during a run: the loss, the translations and their scores on the validation set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from datasets import Dataset

from model.translator import Translator
from training.corpus.batching import EncodedPairs
from training.evaluation.metrics import Scores, score
from training.loss import SequenceLoss

N_SAMPLES = 5


class SampleTranslation(NamedTuple):
    """A sentence of the validation set, its reference and the model's translation."""

    source: str
    reference: str
    hypothesis: str


@dataclass(frozen=True)
class Validator:
    """Measures a model on the whole validation set; every process of a run takes a share of the pairs."""

    accelerator: Accelerator
    pairs: Dataset  # text in columns source and target
    encoded: EncodedPairs  # the same rows as ids
    tokens_per_batch: int

    def loss(self, loss: SequenceLoss) -> float:
        """Cross-entropy per target token in nats, without label smoothing."""
        loss.eval()
        accelerator = self.accelerator
        batches = self.encoded.batches(self.tokens_per_batch, seed=0).epoch(0)
        total = torch.zeros((), device=accelerator.device)
        with torch.no_grad(), accelerator.autocast():
            for rows in batches[accelerator.process_index :: accelerator.num_processes]:
                total += loss(self.encoded[rows].collate(accelerator.device)).translation
        return float(accelerator.reduce(total)) / int((self.encoded.target.lengths + 1).sum())

    def translate(self, translator: Translator, beam_size: int = 1) -> list[str]:
        """Translations of all sources, in order."""
        index, processes = self.accelerator.process_index, self.accelerator.num_processes
        sources = list(self.pairs["source"])
        places = range(index, len(sources), processes)
        share = translator.translate_batch([sources[place] for place in places], beam_size)
        found: list[tuple[int, str]] = gather_object(list(zip(places, share, strict=True)))
        return [text for _, text in sorted(found)]

    def score(self, hypotheses: Sequence[str]) -> Scores:
        """Scores of the hypotheses against the references."""
        return score(hypotheses, list(self.pairs["target"]))

    def samples(self, hypotheses: Sequence[str]) -> list[SampleTranslation]:
        """A few translations, spread evenly over the set; always of the same sentences."""
        count = len(hypotheses)
        places = sorted({i * count // N_SAMPLES for i in range(N_SAMPLES)})
        return [
            SampleTranslation(self.pairs[i]["source"], self.pairs[i]["target"], hypotheses[i]) for i in places
        ]
