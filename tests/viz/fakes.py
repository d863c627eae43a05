"""A translator without a model: random softmax weights of any size, for tests of the page."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import torch

from model.analysis.ablation import changed_words
from model.analysis.attribution import NormWeights
from model.analysis.cell import Cell
from model.decoding.beam_tree import IN_BEAM
from model.decoding.options import SearchOptions
from model.errors import UserError
from model.results import (
    AblationResult,
    Alternative,
    AttentionRecord,
    BeamNode,
    Head,
    HeadValues,
    Hypothesis,
    Source,
    Token,
    Translation,
)
from model.storage.checkpoint import ModelInfo
from model.text.tokenizer import BOS_ID, EOS_ID
from model.translator import Translator

START = Token("<s>", "<s>", None, True, BOS_ID)
END = Token("</s>", "</s>", None, True, EOS_ID)
LONGEST = 128


def random_translation(
    source: list[str], target: list[str], layers: int = 4, heads: int = 8, seed: int = 0, sharp: float = 2.0
) -> Translation:
    """Return a translation whose weights are random softmax rows, larger `sharp` for more pointed ones."""
    torch.manual_seed(seed)
    source_tokens = _tokens(source)
    predicted = _tokens(target)
    read = (START, *predicted[:-1])
    steps, length = len(predicted), len(source_tokens)
    future = torch.ones(steps, steps).triu(1).bool()
    diagonal = torch.eye(steps, length) * 2 * sharp
    scores = torch.randn(layers, heads, steps, length) * sharp + diagonal
    own = (torch.randn(layers, heads, steps, steps) * sharp).masked_fill(future, -torch.inf)
    record = AttentionRecord(
        encoder=(torch.randn(layers, heads, length, length) * sharp).softmax(-1),
        decoder=own.softmax(-1),
        cross=scores.softmax(-1),
        source=source_tokens,
        read=read,
        predicted=predicted,
    )
    chances = (torch.randn(steps, 5) * 2).softmax(-1).sort(-1, descending=True).values.log()
    words = [Token(f"▁{word}", word, 0, False, _id(word)) for word in ("perhaps", "or", "else", "never")]
    alternatives = tuple(
        tuple(Alternative(token, float(chance)) for token, chance in zip((taken, *words), row, strict=True))
        for taken, row in zip(predicted, chances, strict=True)
    )
    text = " ".join(target)
    chosen = tuple(float(row[0]) for row in chances)
    total = sum(chosen)
    ids = tuple(token.id for token in predicted)
    other = (*ids[:-1], _id("indeed"), END.id)
    return Translation(
        source=Source(" ".join(source), record.source),
        text=text,
        source_language="German",
        target_language="English",
        attention=record,
        log_probabilities=chosen,
        alternatives=alternatives,
        hypotheses=(
            Hypothesis(text, total / steps, total, ids, chosen),
            Hypothesis(f"{text} indeed", total / steps - 0.3, total - 2, other, (*chosen, -2.0)),
        ),
        timings={"encode": 4.0, "decode": 31.0},
    )


class FakeTranslator(Translator):
    """Translates a sentence to its own words in reversed case; muting a head changes the first word."""

    title = ""
    device = torch.device("cpu")

    def __init__(
        self,
        name: str,
        title: str,
        layers: int = 4,
        heads: int = 8,
        language: str = "de",
        info: ModelInfo | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.directory = None
        config = SimpleNamespace(
            n_parameters=9_400_000,
            n_encoder_layers=layers,
            n_decoder_layers=layers,
            n_heads=heads,
            total_heads=3 * layers * heads,
            total_queries=48 * layers * heads,
            d_head=16,
        )
        about = info or ModelInfo(language, "en", title.partition(" · ")[0])
        self.checkpoint = SimpleNamespace(
            card={},
            info=about,
            model=SimpleNamespace(config=config),
            source_tokenizer=SimpleNamespace(encode=str.split),
        )
        self.layers = layers
        self.heads = heads

    def translate(
        self,
        text: str,
        beam_size: int = 1,
        length_penalty: float = 1.0,
        gates=None,
        *,
        n_best=1,
        forced=(),
        tree=False,
    ) -> Translation:
        own = [word.swapcase() for word in self._words(text)]
        given = [WORDS[index] for index in forced if index != END.id]
        target = given if END.id in forced else given + own[len(given) :]
        result = self._translation(text, target)
        nodes = tuple(
            BeamNode(step, token, step - 1 if step else None, -float(step), -float(step), "kept", IN_BEAM)
            for step, token in enumerate(result.attention.predicted)
        )
        options = SearchOptions(beam_size, length_penalty)
        return replace(result, n_forced=len(forced), options=options, beam_tree=nodes if tree else ())

    def score(self, text: str, target: str | Sequence[int], gates=None) -> Translation:
        given = target.split() if isinstance(target, str) else [WORDS[i] for i in target if i != END.id]
        result = self._translation(text, given)
        return replace(result, n_forced=len(result.ids))

    def compare(self, original, heads, gates, beam_size=1, length_penalty=1.0, forced=()) -> AblationResult:
        text = original.source_text
        given = [WORDS[index] for index in forced if index != END.id]
        first = [] if given else ["silent"]
        silent = self._translation(text, [*given, *first, *original.text.split()[len(given) + len(first) :]])
        options = SearchOptions(beam_size, length_penalty)
        silent = replace(silent, n_forced=len(forced), options=options)
        before, after = changed_words(original.text, silent.text)
        differences = tuple(-0.5 * len(heads) for _ in original.ids)
        return AblationResult(heads, original, silent, before, after, differences)

    def importance(self, text: str, target=None, baseline=None) -> HeadValues:
        size = torch.arange(float(self.layers * self.heads)).view(self.layers, self.heads)
        return HeadValues(-size / 10, size / 20, -size / 40)

    def norm_weights(self, text: str, target: Sequence[int]) -> NormWeights:
        record = self.score(text, target).attention
        return NormWeights(2 * record.encoder, 3 * record.decoder, 4 * record.cross)

    def cell(self, text: str, target: Sequence[int], head: Head, row: int, column: int) -> Cell:
        """A query of ones and keys that make the record's weights."""
        record = self.score(text, target).attention
        weights = getattr(record, head.kind)[head.layer, head.head, row]
        scores, width = weights.clamp(min=1e-30).log(), 16
        key = torch.full((width,), float(scores[column]) / width**0.5)
        return Cell(
            query=torch.ones(width),
            key=key,
            products=key,
            scale=width**-0.5,
            bias=0.0,
            score=float(scores[column]),
            scores=scores,
            allowed=weights > 0,
            weights=weights,
            norms=2 * weights,
        )

    def _words(self, text: str) -> list[str]:
        words = re.findall(r"<[^>]*>|[^\s.,!?]+|[.,!?]", text)
        if not words:
            raise UserError("There is nothing to translate; type a sentence.")
        if len(words) + 1 > LONGEST:
            raise UserError(f"The sentence has {len(words) + 1} tokens; at most {LONGEST} fit. Shorten it.")
        if text == "crash":
            raise RuntimeError("a secret of the server")
        return words

    def _translation(self, text: str, target: list[str]) -> Translation:
        found = random_translation(self._words(text), target, self.layers, self.heads, seed=len(text))
        return replace(found, source=replace(found.source, text=text))


MEASURED = 100  # heads: more take too long to be measured without being asked


def fake_summary(translator: FakeTranslator, text: str, ids: Sequence[int]) -> dict[str, Any]:
    """What mattered, made up: each word needs the source word at its own place, and three heads matter."""
    record = translator.score(text, ids).attention
    steps, places = len(record.predicted), len(record.source)
    importance, heads = None, []
    if 3 * translator.layers * translator.heads <= MEASURED:
        found = FakeTranslator.importance(translator, text)
        importance = {kind: getattr(found, kind).tolist() for kind in ("encoder", "decoder", "cross")}
        last = translator.layers - 1
        heads = [["encoder", last, translator.heads - 1 - each] for each in range(min(3, translator.heads))]
    known = {token.id: asdict(token) for token in record.predicted}
    return {
        "leave_one_out": {
            "groups": [[place] for place in range(places)],
            "losses": [[5.0 * (step == place) for step in range(steps)] for place in range(places)],
            "likeliest": [[END.id] * steps for _ in range(places)],
            "tokens": {END.id: asdict(END)},
        },
        "lens": {
            "words": [[[token.id] for token in record.predicted]] * translator.layers,
            "log_probabilities": [[[0.0]] * steps] * translator.layers,
            "chosen": [[0.0] * steps] * translator.layers,
            "leads_from": [0] * steps,
            "jacobian": None,
            "measured": None,
            "encoder": [[1.0] * len(record.source)] * translator.layers,
            "tokens": known,
        },
        "importance": importance,
        "heads": [{"head": head, "text": text.swapcase()} for head in heads],
        "rivals": [],
    }


def _tokens(words: list[str]) -> tuple[Token, ...]:
    return (*(Token(f"▁{word}", word, index, False, _id(word)) for index, word in enumerate(words)), END)


WORDS: dict[int, str] = {}  # all words so far, by id


def _id(word: str) -> int:
    """An id in a vocabulary of 8,000 after the special tokens, the same for the same word."""
    index = 4 + zlib.crc32(word.encode()) % 7996
    WORDS[index] = word
    return index
