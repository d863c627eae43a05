"""Translator: text in, Translation out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.ablation import changed_words, importance
from model.analysis.attribution import NormWeights, norm_weights
from model.analysis.cell import Cell, explain_cell
from model.decoding.beam_tree import BeamTrees
from model.decoding.search import Candidate, SearchOptions, encode, length_penalty, search
from model.decoding.step_decoder import lay_out_for_few_rows, product_dtype
from model.errors import TooLongError, UserError
from model.inputs import MAX_TOKENS, language, source_ids, target_ids
from model.network.transformer import Encoded, HeadGates, Transformer
from model.results import (
    AblationResult,
    Alternative,
    AttentionRecord,
    BeamNode,
    Head,
    HeadValues,
    Hypothesis,
    Token,
    Translation,
)
from model.storage.checkpoint import Checkpoint, load
from model.storage.hub import OnHub
from model.tokenizer import BOS_ID, EOS_ID, UNK_ID, normalise, pad

BATCH_TOKENS = 4096  # source tokens decoded together, hypotheses counted
N_ALTERNATIVES = 5
# Mean log-probability per token below which a translation carries a notice. Of 200
# development sentences each, de-en marks 5 % (Tatoeba) and 10 % (captions) in German, 76 % and 97 %
# in English and 97 % (Tatoeba) in French.
UNSURE = -0.85


class Sentence(NamedTuple):
    """A source sentence as the encoder read it."""

    text: str
    ids: Int[Tensor, "1 S"]
    encoded: Encoded  # with its weights


def batches_by_length(lengths: Mapping[int, int], beam_size: int = 1) -> Iterator[list[int]]:
    """Places in batches of like length, the longest first, of at most BATCH_TOKENS tokens with padding."""
    order = sorted(lengths, key=lengths.__getitem__)
    while order:
        count = max(1, BATCH_TOKENS // (lengths[order[-1]] * beam_size))
        yield order[-count:]
        order = order[:-count]


class Translator(OnHub):
    """A model directory ready to translate."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        name: str = "",
        max_tokens: int = MAX_TOKENS,
        directory: Path | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.name = name
        self.directory = directory  # where the record of its training may lie too; None when made in memory
        self.max_tokens = max_tokens  # of a source sentence, </s> included

    @classmethod
    def load(cls, directory: str | Path) -> Translator:
        """Read a model directory. Raises UserError when it is missing, broken or too new."""
        checkpoint = load(Path(directory))
        lay_out_for_few_rows(checkpoint.model)
        return cls(checkpoint, Path(directory).name, directory=Path(directory))

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Translator:
        """Read a local model directory or a model of the hub, user/name: see `OnHub.from_pretrained`."""
        translator = super().from_pretrained(pretrained_model_name_or_path, **options)
        translator.name = Path(pretrained_model_name_or_path).name  # that of the hub's cache is a hash
        return translator

    def _save_pretrained(self, save_directory: Path) -> None:
        self.checkpoint.save_pretrained(save_directory)

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
        *,
        n_best: int = 1,
        prefix: str | Sequence[int] = (),
        tree: bool = False,
    ) -> Translation:
        """Translate one sentence and record every attention weight.

        The `hypotheses` are the `n_best` and whatever else the search finished on its way. The
        translation begins with `prefix`, text or token ids, and is the prefix alone when that ends
        with </s> or fills the length limit. With `tree` it holds the beam tree. Raises UserError when
        the text is empty, too long or wholly unknown to the model, or the prefix is no target.
        """
        options = SearchOptions(beam_size, length_penalty, n_best=n_best)
        given = target_ids(self.checkpoint, prefix)
        started = time.perf_counter()
        sentence = self._read(text, gates)
        encoded = time.perf_counter()
        trees = BeamTrees() if tree else None
        hypotheses: tuple[Hypothesis, ...] = ()
        if given[-1:] != [EOS_ID] and len(given) < options.limit(sentence.ids.shape[1]):
            hypotheses = self._search(sentence, options, gates, given, trees)
        searched = time.perf_counter()
        target = hypotheses[0].ids if hypotheses else given
        result = self._translation(sentence, target, len(given), gates, length_penalty)
        timings = {
            "encode": 1000 * (encoded - started),
            "search": 1000 * (searched - encoded),
            "record": 1000 * (time.perf_counter() - searched),
        }
        found = hypotheses or result.hypotheses
        return replace(result, hypotheses=found, timings=timings, beam_tree=self._beam_tree(trees))

    def score(self, text: str, target: str | Sequence[int], gates: HeadGates | None = None) -> Translation:
        """What the model makes of a given translation: its log-probabilities and attention.

        `target` is text, taken to its </s>, or token ids, taken as they are. Nothing is searched: all of
        the result's tokens are `forced`. Raises UserError when either side is empty or too long.
        """
        ids = target_ids(self.checkpoint, target)
        if isinstance(target, str) and ids:
            ids.append(EOS_ID)
        if not ids:
            raise UserError("There is no translation to score; give one.")
        started = time.perf_counter()
        sentence = self._read(text, gates)
        encoded = time.perf_counter()
        result = self._translation(sentence, ids, len(ids), gates)
        timings = {"encode": 1000 * (encoded - started), "record": 1000 * (time.perf_counter() - encoded)}
        return replace(result, timings=timings)

    def mute(
        self,
        text: str,
        heads: Iterable[Head],
        beam_size: int = 1,
        length_penalty: float = 1.0,
        target: str | Sequence[int] | None = None,
    ) -> AblationResult:
        """Translate with and without these heads, and score the former translation without them.

        `target` is what `score` takes and stands for the translation with all heads; None is the model's
        own. Raises UserError when the model lacks one of the heads, and for what `translate` refuses.
        """
        heads = tuple(heads)
        gates = HeadGates.muting(self.checkpoint.model.config, heads)
        gates = HeadGates(*(gate.to(self.device) for gate in gates))
        if target is None:
            original = self.translate(text, beam_size, length_penalty)
        else:
            original = self.score(text, target)
        muted = self.translate(text, beam_size, length_penalty, gates)
        forced = self.score(text, original.ids, gates)
        before, after = changed_words(original.text, muted.text)
        pairs = zip(forced.log_probabilities, original.log_probabilities, strict=True)
        differences = tuple(silent - whole for silent, whole in pairs)
        return AblationResult(heads, original, muted, before, after, differences)

    def importance(self, text: str, target: str | Sequence[int] | None = None) -> HeadValues:
        """Change of the target's log-probability, in nats, when each head alone is silent.

        `target` is what `score` takes; None is the model's own greedy translation.
        """
        result = self.translate(text) if target is None else self.score(text, target)
        return importance(self._model, self._source(text), torch.tensor([result.ids], device=self.device))

    def norm_weights(self, text: str, target: Sequence[int]) -> NormWeights:
        """||a_ij f(x_j)|| of every head while the model reads this pair; see `model.analysis.attribution`."""
        source, read = self._pair(text, target)
        return NormWeights(*(kind.cpu() for kind in norm_weights(self._model, source, read)))

    def cell(self, text: str, target: Sequence[int], head: Head, row: int, column: int) -> Cell:
        """How one weight of one head came about; rows and columns are those of the record."""
        return explain_cell(self._model, *self._pair(text, target), head, row, column)

    def translate_batch(
        self, texts: Sequence[str], beam_size: int = 1, length_penalty: float = 1.0
    ) -> list[str]:
        """Translations alone, in order, for many sentences; one without a known character stays empty.

        Raises UserError that counts lines from 1 when a sentence is too long.
        """
        results = [""] * len(texts)
        for place, found in self.translate_lines(texts, SearchOptions(beam_size, length_penalty)):
            if isinstance(found, TooLongError):
                raise TooLongError(f"Line {place + 1}: {found}")
            if not isinstance(found, UserError) and found:
                results[place] = found[0].text
        return results

    def translate_lines(
        self, texts: Sequence[str], options: SearchOptions, gates: HeadGates | None = None
    ) -> Iterator[tuple[int, tuple[Hypothesis, ...] | UserError]]:
        """The hypotheses of each sentence with its place, as they are found, the longest sentences first.

        An empty sentence has none. Where `translate` would raise a UserError for another reason, that
        error comes in their place.
        """
        rows: dict[int, list[int]] = {}
        for place, row in enumerate(source_ids(self.checkpoint, texts, self.max_tokens)):
            if isinstance(row, UserError):
                yield place, row if normalise(texts[place]) else ()
            else:
                rows[place] = row
        lengths = {place: len(row) for place, row in rows.items()}
        for places in batches_by_length(lengths, options.beam_size):
            source = pad([rows[place] for place in places]).to(self.device)
            dtype = product_dtype(len(places) * options.beam_size, self.device)
            batch = search(self._model, source, options, gates, dtype=dtype)
            for place, found in zip(places, batch, strict=True):
                yield place, tuple(self._hypothesis(candidate) for candidate in found)

    def record(
        self, text: str, target: Sequence[int], gates: HeadGates | None = None
    ) -> tuple[AttentionRecord, Float[Tensor, "T V"]]:
        """All weights and next-token log-probabilities of one pass over a given target.

        `target` is what is predicted, without <s>. The explicit path in eval mode gives what
        cached decoding computed step by step.
        """
        return self._record(self._read(text, gates), target, gates)

    def notices(self, source: Sequence[Token], hypothesis: Hypothesis) -> tuple[str, ...]:
        """Sentences that a person should read beside a translation that the model chose."""
        found = []
        unknown = [t.text for t in source if t.special and t.word is not None]
        if unknown:
            listed = ", ".join(f"“{text}”" for text in dict.fromkeys(unknown))
            found.append(f"The model does not know {listed} and reads it as <unk>.")
        if hypothesis.log_probability / len(hypothesis.ids) < UNSURE:
            found.append(
                f"The model is unsure of this translation; it reads {language(self.checkpoint.info)}."
            )
        if hypothesis.ids[-1] != EOS_ID:
            found.append("The translation was cut at the length limit.")
        return tuple(found)

    @property
    def _model(self) -> Transformer:
        model = self.checkpoint.model
        return model.eval() if model.training else model  # eval() walks through every module

    @torch.inference_mode()
    def _read(self, text: str, gates: HeadGates | None) -> Sentence:
        ids = self._source(text)
        return Sentence(text, ids, encode(self._model, ids, gates, explicit=True))

    def _search(
        self,
        sentence: Sentence,
        options: SearchOptions,
        gates: HeadGates | None,
        given: list[int],
        trees: BeamTrees | None,
    ) -> tuple[Hypothesis, ...]:
        prefix = torch.tensor([given], dtype=torch.long, device=self.device)
        (found,) = search(
            self._model,
            sentence.ids,
            options,
            gates,
            prefix=prefix,
            encoded=sentence.encoded,
            trees=trees,
        )
        return tuple(self._hypothesis(candidate) for candidate in found)

    @torch.inference_mode()
    def _record(
        self, sentence: Sentence, target: Sequence[int], gates: HeadGates | None
    ) -> tuple[AttentionRecord, Float[Tensor, "T V"]]:
        read = (BOS_ID, *target[:-1])
        reading = torch.tensor([read], device=self.device)
        decoded = self._model.decode(reading, sentence.encoded, None, gates, explicit=True)
        record = AttentionRecord(
            encoder=cast(Tensor, sentence.encoded.weights)[0].cpu(),
            decoder=cast(Tensor, decoded.self_weights)[0].cpu(),
            cross=cast(Tensor, decoded.cross_weights)[0].cpu(),
            source=self.checkpoint.source_tokenizer.source_tokens(sentence.text),
            read=self.checkpoint.target_tokenizer.tokens(read),
            predicted=self.checkpoint.target_tokenizer.tokens(target),
        )
        return record, self._model.output(decoded.hidden[0]).log_softmax(-1).cpu()

    def _translation(
        self,
        sentence: Sentence,
        target: Sequence[int],
        n_prefix: int,
        gates: HeadGates | None,
        alpha: float = 1.0,
    ) -> Translation:
        """One pass over the target, with everything that there is to say about it."""
        record, scores = self._record(sentence, target, gates)
        log_probabilities, alternatives = self._steps(scores, target)
        total = sum(log_probabilities)
        penalised = total / length_penalty(len(target), alpha)
        own = self._hypothesis(Candidate(tuple(target), total, penalised, log_probabilities))
        notices = self.notices(record.source, own) if n_prefix < len(target) else ()
        if UNK_ID in target:
            notices += ("The given translation has characters that the model reads as <unk>.",)
        info = self.checkpoint.info
        return Translation(
            source_text=normalise(sentence.text),
            text=own.text,
            source_language=info.source_language,
            target_language=info.target_language,
            attention=record,
            log_probabilities=log_probabilities,
            alternatives=alternatives,
            hypotheses=(own,),
            notices=notices,
            n_prefix=n_prefix,
        )

    def _steps(
        self, scores: Float[Tensor, "T V"], target: Sequence[int]
    ) -> tuple[tuple[float, ...], tuple[tuple[Alternative, ...], ...]]:
        chosen = scores[torch.arange(len(target)), torch.tensor(target)].tolist()
        best, ids = scores.topk(min(N_ALTERNATIVES, scores.shape[-1]), dim=-1)
        rows = zip(ids.tolist(), best.tolist(), strict=True)
        return tuple(chosen), tuple(
            tuple(Alternative(self._token(index), value) for index, value in zip(row, values, strict=True))
            for row, values in rows
        )

    def _token(self, index: int) -> Token:
        return self.checkpoint.target_tokenizer.tokens([index])[0]

    def _hypothesis(self, found: Candidate) -> Hypothesis:
        text = self.checkpoint.target_tokenizer.decode(found.ids)
        return Hypothesis(text, found.score, found.log_probability, found.ids, found.log_probabilities)

    def _beam_tree(self, trees: BeamTrees | None) -> tuple[BeamNode, ...]:
        if trees is None:
            return ()
        return tuple(BeamNode(**(vars(node) | {"token": self._token(node.token)})) for node in trees.nodes[0])

    def _pair(self, text: str, target: Sequence[int]) -> tuple[Int[Tensor, " S"], Int[Tensor, " T"]]:
        """What the encoder and the decoder read. Raises UserError for what `score` refuses."""
        if not (ids := target_ids(self.checkpoint, target)):
            raise UserError("There is no translation to look into; give its ids.")
        return self._source(text)[0], torch.tensor([BOS_ID, *ids[:-1]], device=self.device)

    def _source(self, text: str) -> Int[Tensor, "1 S"]:
        (row,) = source_ids(self.checkpoint, [text], self.max_tokens)
        if isinstance(row, UserError):
            raise row
        return torch.tensor([row], device=self.device)
