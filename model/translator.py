"""Translator: text in, Translation out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.checkpoint import Checkpoint, load
from model.decoding import Candidate, SearchOptions, search
from model.errors import UserError
from model.record import Alternative, AttentionRecord, Hypothesis, Translation
from model.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPACE, UNK, normalise
from model.transformer import HeadGates

MAX_TOKENS = 128  # of a sentence to look at, </s> included
BATCH_TOKENS = 4096  # source tokens decoded together, hypotheses counted
N_ALTERNATIVES = 5
LANGUAGES = {"de": "German", "en": "English", "fr": "French", "it": "Italian", "word": "lower-case letters"}
# Mean log-probability per token below which a translation carries a notice. Of 200
# development sentences each, de-en marks 5 % (Tatoeba) and 10 % (captions) in German, 76 % and 97 %
# in English and 97 % (Tatoeba) in French.
UNSURE = -0.85


class Translator:
    """A model directory ready to translate."""

    def __init__(self, checkpoint: Checkpoint, name: str = "", max_tokens: int = MAX_TOKENS) -> None:
        self.checkpoint = checkpoint
        self.name = name
        self.max_tokens = max_tokens  # of a source sentence, </s> included

    @classmethod
    def load(cls, directory: str | Path) -> Translator:
        """Read a model directory. Raises UserError when it is missing, broken or too new."""
        return cls(load(Path(directory)), Path(directory).name)

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return self.checkpoint.model.output.weight.device

    @property
    def title(self) -> str:
        """Languages, size and scores, as the page's picker shows them."""
        parameters = sum(parameter.numel() for parameter in self.checkpoint.model.parameters())
        scores = (f"{name} {value:.1f}" for name, value in self.checkpoint.info.scores.items())
        return " · ".join((self.checkpoint.info.title, f"{parameters / 1e6:.1f} M", *scores))

    def translate(
        self,
        text: str,
        beam_size: int = 1,
        length_penalty: float = 1.0,
        gates: HeadGates | None = None,
    ) -> Translation:
        """Translate one sentence and record every attention weight.

        Raises UserError when the text is empty, too long or wholly unknown to the model.
        """
        ids = self._source_ids(text)
        options = SearchOptions(beam_size, length_penalty)
        started = time.perf_counter()
        source = torch.tensor([ids], device=self.device)
        candidates = search(self.checkpoint.model, source, options, gates)[0]
        searched = time.perf_counter()
        record, scores = self.record(text, candidates[0].ids, gates)
        log_probabilities, alternatives = self._steps(scores, candidates[0].ids)
        recorded = time.perf_counter()
        info = self.checkpoint.info
        return Translation(
            source_text=normalise(text),
            text=self.checkpoint.target_tokenizer.decode(candidates[0].ids),
            source_language=info.source_language,
            target_language=info.target_language,
            attention=record,
            log_probabilities=log_probabilities,
            alternatives=alternatives,
            hypotheses=tuple(self._hypothesis(candidate) for candidate in candidates),
            notices=self._notices(record, log_probabilities),
            timings={
                "search": 1000 * (searched - started),
                "record": 1000 * (recorded - searched),
            },
        )

    def translate_batch(
        self, texts: Sequence[str], beam_size: int = 1, length_penalty: float = 1.0
    ) -> list[str]:
        """Translations alone, in order, for many sentences; an empty one stays empty.

        Raises UserError that counts lines from 1 when a sentence is too long.
        """
        options = SearchOptions(beam_size, length_penalty)
        rows = self.checkpoint.source_tokenizer.encode_batch(texts)
        for line, row in enumerate(rows, start=1):
            _check_length(len(row) + 1, self.max_tokens, f"Line {line}")
        order = sorted((i for i, row in enumerate(rows) if row), key=lambda i: len(rows[i]))
        results = [""] * len(texts)
        while order:
            # The longest sentence left decides how many go together.
            count = max(1, BATCH_TOKENS // ((len(rows[order[-1]]) + 1) * beam_size))
            places, order = order[-count:], order[:-count]
            source = pad([[*rows[i], EOS_ID] for i in places]).to(self.device)
            for place, found in zip(places, search(self.checkpoint.model, source, options), strict=True):
                results[place] = self.checkpoint.target_tokenizer.decode(found[0].ids)
        return results

    @torch.inference_mode()
    def record(
        self, text: str, target: Sequence[int], gates: HeadGates | None = None
    ) -> tuple[AttentionRecord, Float[Tensor, "T V"]]:
        """All weights and next-token log-probabilities of one pass over a given target.

        `target` is what is predicted, without <s>. The explicit path in eval mode gives what
        cached decoding computed step by step.
        """
        model = self.checkpoint.model.eval()
        tokens = self.checkpoint.source_tokenizer.source_tokens(text)
        read = (BOS_ID, *target[:-1])
        source = torch.tensor([self._source_ids(text)], device=self.device)
        encoded = model.encode(source, None, gates, explicit=True)
        reading = torch.tensor([read], device=self.device)
        decoded = model.decode(reading, encoded, None, gates, explicit=True)
        record = AttentionRecord(
            encoder=cast(Tensor, encoded.weights)[0].cpu(),
            decoder=cast(Tensor, decoded.self_weights)[0].cpu(),
            cross=cast(Tensor, decoded.cross_weights)[0].cpu(),
            source=tokens,
            read=self.checkpoint.target_tokenizer.tokens(read),
            predicted=self.checkpoint.target_tokenizer.tokens(target),
        )
        return record, model.output(decoded.hidden[0]).log_softmax(-1).cpu()

    @property
    def _reads(self) -> str:
        language = self.checkpoint.info.source_language
        return LANGUAGES.get(language, language)

    def _source_ids(self, text: str) -> list[int]:
        if not normalise(text):
            raise UserError("There is nothing to translate; type a sentence.")
        _check_characters(text)
        ids = self.checkpoint.source_tokenizer.encode(text)
        pieces = self.checkpoint.source_tokenizer.pieces(ids)
        if all(piece in (UNK, SPACE) for piece in pieces):
            raise UserError(f"The model knows none of these characters; it reads {self._reads}.")
        _check_length(len(ids) + 1, self.max_tokens, "The sentence")
        return [*ids, EOS_ID]

    def _steps(
        self, scores: Float[Tensor, "T V"], target: Sequence[int]
    ) -> tuple[tuple[float, ...], tuple[tuple[Alternative, ...], ...]]:
        chosen = scores[torch.arange(len(target)), torch.tensor(target)].tolist()
        best, ids = scores.topk(min(N_ALTERNATIVES, scores.shape[-1]), dim=-1)
        rows = zip(ids.tolist(), best.tolist(), strict=True)
        return tuple(chosen), tuple(
            tuple(
                Alternative(self.checkpoint.target_tokenizer.tokens([i])[0], value)
                for i, value in zip(row, values, strict=True)
            )
            for row, values in rows
        )

    def _hypothesis(self, candidate: Candidate) -> Hypothesis:
        text = self.checkpoint.target_tokenizer.decode(candidate.ids)
        return Hypothesis(text, candidate.score, candidate.log_probability)

    def _notices(self, record: AttentionRecord, log_probabilities: Sequence[float]) -> tuple[str, ...]:
        notices = []
        unknown = [t.text for t in record.source if t.special and t.word is not None]
        if unknown:
            listed = ", ".join(f"“{text}”" for text in dict.fromkeys(unknown))
            notices.append(f"The model does not know {listed} and reads it as <unk>.")
        if sum(log_probabilities) / len(log_probabilities) < UNSURE:
            notices.append(f"The model is unsure of this translation; it reads {self._reads}.")
        if record.predicted[-1].text != "</s>":
            notices.append("The translation was cut at the length limit.")
        return tuple(notices)


def pad(rows: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
    """Rows of ids as one tensor, <pad> on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[PAD_ID] * (width - len(row))] for row in rows])


def _check_characters(text: str) -> None:
    # A bound before tokenising: nothing within the token limit is longer than this.
    if len(text) > 40 * MAX_TOKENS:
        raise UserError(
            f"The text has {len(text):,} characters; translate one sentence of at most "
            f"{MAX_TOKENS} tokens at a time."
        )


def _check_length(tokens: int, limit: int, subject: str) -> None:
    if tokens > limit:
        raise UserError(f"{subject} has {tokens} tokens; the limit is {limit}. Split it into shorter ones.")
