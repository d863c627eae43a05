"""Translator: text in, Translation out, with every attention weight."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import torch
from jaxtyping import Int
from torch import Tensor

from model.analysis.ablation import changed_words, importance
from model.analysis.attribution import NormWeights, norm_weights
from model.analysis.cell import Cell, explain_cell
from model.analysis.patching import HeadOutputs
from model.decoding.beam_tree import BeamTree
from model.decoding.inference import EncodedSource, Inference, greedy_start
from model.decoding.kernels.compilation import COMPILATION
from model.decoding.kernels.model import Steps
from model.decoding.options import LENGTH_PENALTY, SearchOptions, length_penalty
from model.decoding.search import Candidate
from model.errors import Sentence, TooLongError, UserError
from model.importing.exporting import Exported
from model.inputs import MAX_TOKENS, batch_tokens, batches_by_length, parse_source, source_ids, target_ids
from model.network.transformer import HeadGates
from model.notices import find_notices
from model.results import (
    AblationResult,
    Alternative,
    AttentionRecord,
    Head,
    HeadValues,
    Hypothesis,
    Source,
    Token,
    Translation,
)
from model.storage.checkpoint import Checkpoint, load
from model.storage.hub import OnHub
from model.text.tokenizer import BOS_ID, EOS_ID, UNK_ID, normalise, pad


class Translator(OnHub):
    """Translates with a model and shows what its heads do."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        name: str = "",
        max_tokens: int = MAX_TOKENS,
        directory: Path | None = None,
        use_kernels: bool = True,
    ) -> None:
        self.checkpoint = checkpoint
        self.inference = Inference(checkpoint.model, use_kernels)
        self.name = name
        self.directory = directory  # None for a model that was made in memory
        # Of a source sentence, </s> included; its translation needs learned positions too.
        learned = checkpoint.model.config.n_positions
        self.max_tokens = min(max_tokens, SearchOptions().longest_source(learned)) if learned else max_tokens
        self._tokens: dict[int, Token] = {}  # those that were shown

    @classmethod
    def load(cls, directory: str | Path) -> Translator:
        """Read a model directory. Raises UserError if it is missing, broken or too new."""
        checkpoint = load(Path(directory))
        COMPILATION.begin()
        return cls(checkpoint, Path(directory).name, directory=Path(directory))

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Translator:
        """Read a local model directory or a model of the hub (user/name); see `OnHub.from_pretrained`."""
        translator = super().from_pretrained(pretrained_model_name_or_path, **options)
        translator.name = Path(pretrained_model_name_or_path).name  # the cached directory is named by a hash
        return translator

    def _save_pretrained(self, save_directory: Path) -> None:
        self.checkpoint.save_pretrained(save_directory)

    def push_to_hub(
        self, repo_id: str, *, form: Literal["headlight", "transformers"] = "headlight", **options: Any
    ) -> str:
        """Upload the model directory, or with form="transformers" the directory that transformers loads.

        Returns the address of the commit. `options` go to `ModelHubMixin.push_to_hub`. Raises
        UserError for a model that the form cannot hold.
        """
        if form == "transformers":
            return str(Exported(self.checkpoint).push_to_hub(repo_id, **options))
        return str(super().push_to_hub(repo_id, **options))

    @property
    def device(self) -> torch.device:
        return self.inference.device

    @property
    def title(self) -> str:
        """Languages, size and scores, as the page's list of models shows them."""
        parameters = sum(parameter.numel() for parameter in self.checkpoint.model.parameters())
        scores = (f"{name} {value:.1f}" for name, value in self.checkpoint.info.scores.items())
        return " · ".join((self.checkpoint.info.title, f"{parameters / 1e6:.1f} M", *scores))

    def source(self, text: str | Source) -> Source:
        """The sentence as the model reads it, for several calls about it; a `Source` is returned as it is.

        Raises UserError if the text is empty, too long or has no character that the model knows.
        """
        return text if isinstance(text, Source) else parse_source(self.checkpoint, text, self.max_tokens)

    def translate(
        self,
        text: str | Source,
        beam_size: int = 1,
        length_penalty: float = LENGTH_PENALTY,
        gates: HeadGates | None = None,
        *,
        n_best: int = 1,
        forced: str | Sequence[int] = (),
        hidden: Sequence[int] = (),
        tree: bool = False,
    ) -> Translation:
        """Translate one sentence and record every attention weight.

        `hypotheses` has the `n_best` and all others that the search finished. The translation begins with
        `forced` (text or token ids), and is nothing else if that ends with </s> or reaches the length limit.
        Nothing reads the source tokens in the places `hidden`, as in `leave_one_out`. With `tree` the result
        has the beam tree. Raises UserError as `source` does, and if a forced token or a place is not valid.
        """
        options = SearchOptions(beam_size, length_penalty, n_best=n_best)
        source, start = self._given(text, target_ids(self.checkpoint, forced))
        beam_tree = BeamTree(self._token) if tree else None
        _check_places(hidden, len(source.tokens))
        encoded = self.inference.encode(self._batch(source), gates, hidden)
        result = self._search(source, encoded, options, gates, start, len(start), tree=beam_tree)
        nodes = tuple(beam_tree.nodes) if beam_tree else ()
        return replace(result, beam_tree=nodes, hidden=tuple(hidden))

    def score(
        self, text: str | Source, target: str | Sequence[int], gates: HeadGates | None = None
    ) -> Translation:
        """Log-probabilities and attention of a given translation, without a search.

        `target` is text, to which </s> is added, or token ids, taken as they are. Raises UserError if
        either side is empty or too long.
        """
        source, ids = self._scored(text, target)
        encoded = self.inference.encode(self._batch(source), gates)
        started = time.perf_counter()
        steps = self.inference.score(encoded, ids, gates)
        result = self._translation(source, encoded, ids, len(ids), steps, SearchOptions(), gates)
        record = 1000 * (time.perf_counter() - started)
        return replace(result, timings={"encode": encoded.milliseconds, "record": record})

    def mute(
        self,
        text: str | Source,
        heads: Iterable[Head],
        beam_size: int = 1,
        length_penalty: float = LENGTH_PENALTY,
        target: str | Sequence[int] | None = None,
        *,
        forced: str | Sequence[int] = (),
    ) -> AblationResult:
        """Translate with and without these heads, and score the original translation without them.

        The original is `target`, as `score` takes it, or else the model's own translation. Both begin with
        `forced`, as `translate` takes it. Raises UserError if the model does not have one of the heads, and
        as `translate` does.
        """
        heads = tuple(heads)
        gates = HeadGates.ablating(self.checkpoint.model.config, heads).to(self.device)
        original = self.original(text, target, SearchOptions(beam_size, length_penalty), forced)
        return self.compare(original, heads, gates, beam_size, length_penalty, forced)

    def original(
        self,
        text: str | Source,
        target: str | Sequence[int] | None,
        options: SearchOptions,
        forced: str | Sequence[int],
    ) -> Translation:
        """The translation before an ablation: `target`, as `score` takes it, or else the model's own."""
        if target is not None:
            return self.score(text, target)
        return self.translate(text, options.beam_size, options.length_penalty, forced=forced)

    def compare(
        self,
        original: Translation,
        heads: tuple[Head, ...],
        gates: HeadGates,
        beam_size: int = 1,
        length_penalty: float = LENGTH_PENALTY,
        forced: str | Sequence[int] = (),
    ) -> AblationResult:
        """Translate with these gates, which are closed for `heads`, and score the original with them."""
        options = SearchOptions(beam_size, length_penalty)
        source, start = self._given(original.source, target_ids(self.checkpoint, forced))
        n_forced = len(start)
        encoded = self.inference.encode(self._batch(source), gates)
        steps = self.inference.score(encoded, original.ids, gates)
        if beam_size == 1 and list(original.ids[:n_forced]) == start:
            limit = options.limit(len(source.tokens))
            start = list(original.ids[: greedy_start(steps, original.ids, n_forced, limit)])
        read = steps if len(start) == len(original.ids) else None
        ablated = self._search(source, encoded, options, gates, start, n_forced, read)
        words = changed_words(original.text, ablated.text)
        pairs = zip(steps.log_probabilities, original.log_probabilities, strict=True)
        differences = tuple(after - before for after, before in pairs)
        return AblationResult(heads, original, ablated, *words, differences)

    def importance(
        self,
        text: str | Source,
        target: str | Sequence[int] | None = None,
        baseline: HeadOutputs | None = None,
    ) -> HeadValues:
        """Change of the target's log-probability, in nats, when each head alone is ablated.

        The target is `target`, as `score` takes it, or else the model's own greedy translation. An ablated
        head gives nothing, or the baseline's outputs.
        """
        if target is None:
            target = self.translate(text := self.source(text)).ids
        source, ids = self._scored(text, target)
        read = torch.tensor([ids], device=self.device)
        return importance(self.inference.model, self._batch(source), read, baseline)

    def norm_weights(self, text: str | Source, target: Sequence[int]) -> NormWeights:
        """||a_ij f(x_j)|| of every head while the model reads this pair; see `model.analysis.attribution`."""
        source, read = self.pair(text, target)
        return NormWeights(*(kind.cpu() for kind in norm_weights(self.inference.model, source, read)))

    def cell(self, text: str | Source, target: Sequence[int], head: Head, row: int, column: int) -> Cell:
        """How one weight of one head is computed; rows and columns as in the record."""
        return explain_cell(self.inference.model, *self.pair(text, target), head, row, column)

    def pair(self, text: str | Source, target: Sequence[int]) -> tuple[Int[Tensor, " S"], Int[Tensor, " T"]]:
        """The ids that the encoder and the decoder read. Raises UserError as `score` does."""
        if not (ids := target_ids(self.checkpoint, target)):
            raise UserError("There is no translation to look into; give its ids.")
        return self._batch(self.source(text))[0], torch.tensor([BOS_ID, *ids[:-1]], device=self.device)

    def translate_batch(
        self, texts: Sequence[str], beam_size: int = 1, length_penalty: float = LENGTH_PENALTY
    ) -> list[str]:
        """The translated texts of many sentences, in order; "" for a sentence without a known character.

        Raises UserError with the line, counted from 1, if a sentence is too long.
        """
        results = [""] * len(texts)
        for place, found in self.translate_lines(texts, SearchOptions(beam_size, length_penalty)):
            if isinstance(found, TooLongError):
                raise TooLongError(f"Line {place + 1}: {found}")
            if not isinstance(found, UserError) and found:
                results[place] = found[0].text
        return results

    def translate_lines(
        self,
        texts: Sequence[str],
        options: SearchOptions,
        gates: HeadGates | None = None,
        exact: bool = False,
    ) -> Iterator[tuple[int, tuple[Hypothesis, ...] | UserError]]:
        """The index and hypotheses of each sentence as soon as they are found, longest sentences first.

        An empty sentence has no hypotheses. For a sentence that `translate` would refuse for another
        reason the UserError is returned instead. If `exact`, the translations equal `translate`'s;
        otherwise large batches may be computed in bfloat16, which changes some of them.
        """
        rows: dict[int, list[int]] = {}
        for place, row in enumerate(source_ids(self.checkpoint, texts, self.max_tokens)):
            if isinstance(row, UserError):
                yield place, row if normalise(texts[place]) else ()
            else:
                rows[place] = row
        beginnings: dict[tuple[int, ...], dict[int, int]] = {}  # of the translations, with lengths by place
        for place, row in rows.items():
            first = tuple(self.checkpoint.source_tokenizer.first_ids(texts[place]))
            beginnings.setdefault(first, {})[place] = len(row)
        for first, lengths in beginnings.items():
            for places in batches_by_length(lengths, batch_tokens(self.device) // options.beam_size):
                source = pad([rows[place] for place in places]).to(self.device)
                batch = self.inference.search_batch(source, options, gates, exact, first)
                for place, found in zip(places, batch, strict=True):
                    yield place, tuple(map(self._hypothesis, found))

    def _given(self, text: str | Source, ids: list[int]) -> tuple[Source, list[int]]:
        """The source, and a given target after the tokens with which every translation begins."""
        source = self.source(text)
        first = list(source.first_ids)
        return source, ids if ids[: len(first)] == first else [*first, *ids]

    def _scored(self, text: str | Source, target: str | Sequence[int]) -> tuple[Source, list[int]]:
        """The source and the ids of a whole translation, as `score` takes it. Raises UserError."""
        if not (ids := target_ids(self.checkpoint, target)):
            raise UserError(Sentence("There is no translation to score; give one."))
        source, ids = self._given(text, ids)
        return source, [*ids, EOS_ID] if isinstance(target, str) else ids

    def _batch(self, source: Source) -> Int[Tensor, "1 S"]:
        return torch.tensor([source.ids], device=self.device)

    def _record(
        self, source: Source, encoded: EncodedSource, target: Sequence[int], decoder: Tensor, cross: Tensor
    ) -> AttentionRecord:
        tokens = self.checkpoint.target_tokenizer.tokens
        encoder = cast(Tensor, encoded.encoded.weights)[0].cpu()
        read, predicted = tokens((BOS_ID, *target[:-1])), tokens(target)
        config = self.checkpoint.model.config
        return AttentionRecord(
            encoder, decoder, cross, source.tokens, read, predicted, config.taught_head, config.is_recurrent
        )

    def _search(
        self,
        source: Source,
        encoded: EncodedSource,
        options: SearchOptions,
        gates: HeadGates | None,
        start: list[int],
        n_forced: int,
        steps: Steps | None = None,
        tree: BeamTree | None = None,
    ) -> Translation:
        """The Translation that begins with `start`, of which the user gave the first `n_forced` tokens.

        Nothing is searched if the start is complete; `steps` are then its steps, if they are known already.
        """
        started = time.perf_counter()
        candidates: list[Candidate] = []
        if start[-1:] != [EOS_ID] and len(start) < options.limit(len(source.tokens)):
            candidates, steps = self.inference.search(encoded, options, gates, start, tree)
        searched = time.perf_counter()
        target = candidates[0].ids if candidates else start
        steps = steps or self.inference.score(encoded, target, gates)
        result = self._translation(source, encoded, target, n_forced, steps, options, gates)
        hypotheses = tuple(map(self._hypothesis, candidates)) or result.hypotheses
        search, record = 1000 * (searched - started), 1000 * (time.perf_counter() - searched)
        timings = {"encode": encoded.milliseconds, "search": search, "record": record}
        return replace(result, hypotheses=hypotheses, timings=timings)

    def _translation(
        self,
        source: Source,
        encoded: EncodedSource,
        target: Sequence[int],
        n_forced: int,
        steps: Steps,
        options: SearchOptions,
        gates: HeadGates | None,
    ) -> Translation:
        record = self._record(source, encoded, target, steps.self_weights, steps.cross_weights)
        total = sum(steps.log_probabilities)
        score = total / length_penalty(len(target), options.length_penalty)
        own = self._hypothesis(Candidate(tuple(target), total, score, steps.log_probabilities))
        changed = gates is not None or n_forced > len(source.first_ids)
        notices = find_notices(self.checkpoint, source, own, n_forced, changed)
        if UNK_ID in target:
            notices += (Sentence("The given translation has characters that the model reads as <unk>."),)
        info = self.checkpoint.info
        return Translation(
            source=source,
            text=own.text,
            source_language=info.source_language,
            target_language=info.target_language,
            attention=record,
            log_probabilities=steps.log_probabilities,
            alternatives=self._alternatives(steps),
            hypotheses=(own,),
            notices=notices,
            n_forced=n_forced,
            options=options,
            ablated=gates.ablated if gates else (),
        )

    def _alternatives(self, steps: Steps) -> tuple[tuple[Alternative, ...], ...]:
        rows = zip(steps.likeliest.tolist(), steps.likeliest_log_probabilities.tolist(), strict=True)
        return tuple(tuple(map(Alternative, map(self._token, ids), values)) for ids, values in rows)

    def _token(self, index: int) -> Token:
        if index not in self._tokens:
            (self._tokens[index],) = self.checkpoint.target_tokenizer.tokens([index])
        return self._tokens[index]

    def _hypothesis(self, found: Candidate) -> Hypothesis:
        text = self.checkpoint.target_tokenizer.decode(found.ids)
        return Hypothesis(text, found.score, found.log_probability, found.ids, found.log_probabilities)


def _check_places(hidden: Sequence[int], count: int) -> None:
    """Raises UserError if a place is not one of so many source tokens, or if all of them are hidden."""
    if not set(hidden) < set(range(count)):
        raise UserError(Sentence("Hide some of the {count} source tokens, not all.", count=count))
