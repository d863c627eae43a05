"""Reads and writes probes.safetensors: attention on a few fixed sentence pairs at some training steps.

The decoder reads the target of the pair. For pair 0 (and so on) at all N steps the file has `0.encoder`
[N, L, H, S, S], `0.decoder` [N, M, H, T, T] and `0.cross` [N, M, H, T, S], which are attention weights as
8-bit codes, and `0.log_probabilities` [N, T] of the target's tokens, in nats, float32. The metadata
entry `probes` is JSON with version, steps, and the source and target of each pair. The tokens come from
the tokenizers in the same directory.

A model may have begun as one with another vocabulary or for other languages. Then `probes` has `earlier`, a
list of such parts of the training, oldest first. Each has its own steps and pairs, its tokens, title,
languages, size of vocabulary and last step of training (`last`, probed or not); the tensors of part 0
have names such as `earlier.0.0.encoder`.

A weight is `code / 255`, within 1/255 of the model's weight; the codes of a row sum to 255.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, UInt8
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from model.analysis.thresholds import THRESHOLDS
from model.errors import Sentence, UserError
from model.files import open_tensors, write_atomically
from model.results import KINDS, AttentionRecord, Token
from model.storage.checkpoint import load_tokenizers
from model.text.tokenizer import BOS, BOS_ID, EOS_ID, Tokenizer

PROBES = "probes.safetensors"
VERSION = 1
LEVELS = 255
MAX_BYTES = 64 << 20  # 12 + 12 layers of 16 heads, three pairs of 20 tokens at 40 steps take 28 MB
MAX_CHARACTERS = 1000  # of a text of an untrusted file
MAX_PARTS = 20  # of an untrusted file
TypeAndShape = tuple[str, list[int]]  # of a tensor of the file


class ProbePair(NamedTuple):
    """A sentence and the translation that the decoder reads."""

    source: str
    target: str


class Probe(NamedTuple):
    """Attention weights, as codes, and log-probabilities of one pair at one step."""

    encoder: UInt8[Tensor, "L H S S"]
    decoder: UInt8[Tensor, "M H T T"]
    cross: UInt8[Tensor, "M H T S"]
    log_probabilities: Float[Tensor, " T"]


class PairTokens(NamedTuple):
    """The tokens of a pair: the source's and the predicted ones, both with </s>."""

    source: tuple[Token, ...]
    predicted: tuple[Token, ...]

    @property
    def read(self) -> tuple[Token, ...]:
        """What the decoder reads: <s>, then every predicted token but the last."""
        return (Token(BOS, BOS, None, special=True, id=BOS_ID), *self.predicted[:-1])


@dataclass
class Part:
    """The probes of the steps that trained with one vocabulary for one pair of languages."""

    vocabulary: int  # entries of the target's
    sentences: tuple[ProbePair, ...]
    tokens: tuple[PairTokens, ...]  # one for each pair
    title: str = ""  # of the model then; empty for the last part, which is the model in the directory
    languages: tuple[str, str] | None = None  # likewise
    last: int | None = None  # likewise; the last step of this part, probed or not
    measured: dict[int, tuple[Probe, ...]] = field(default_factory=dict)  # by step, one for each pair

    @classmethod
    def new(cls, sentences: tuple[ProbePair, ...], source: Tokenizer, target: Tokenizer) -> Part:
        """A part without probes, with the tokens that these tokenizers make of the pairs."""
        tokens = tuple(
            PairTokens(
                source.source_tokens(pair.source), target.tokens([*target.encode(pair.target), EOS_ID])
            )
            for pair in sentences
        )
        return cls(len(target), sentences, tokens)

    @property
    def steps(self) -> list[int]:
        """Training steps after which the model was probed, in order; 0 is before the first step of all."""
        return sorted(self.measured)

    def pair(self, sentence: int) -> ProbePair:
        """A pair by its number. Raises UserError if there is no such pair."""
        if not 0 <= sentence < len(self.sentences):
            last = len(self.sentences) - 1
            raise UserError(
                Sentence(
                    "There is no sentence {sentence}; choose one of 0 to {last}.",
                    sentence=sentence,
                    last=last,
                )
            )
        return self.sentences[sentence]

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """What the file has of this part."""
        return {
            f"{prefix}{i}.{name}": torch.stack([getattr(self.measured[step][i], name) for step in self.steps])
            for i in range(len(self.sentences) if self.measured else 0)
            for name in Probe._fields
        }

    def shapes(self, prefix: str, steps: int, layers: tuple[int, int], heads: int) -> dict[str, TypeAndShape]:
        wanted: dict[str, TypeAndShape] = {}
        for i, tokens in enumerate(self.tokens if steps else ()):
            source, target = len(tokens.source), len(tokens.predicted)
            decoder = [steps, layers[1], heads, target]
            wanted |= {
                f"{prefix}{i}.encoder": ("U8", [steps, layers[0], heads, source, source]),
                f"{prefix}{i}.decoder": ("U8", [*decoder, target]),
                f"{prefix}{i}.cross": ("U8", [*decoder, source]),
                f"{prefix}{i}.log_probabilities": ("F32", [steps, target]),
            }
        return wanted


@dataclass
class Probes:
    """The parts of a training, oldest first; the last has the vocabulary of the model in the directory."""

    parts: tuple[Part, ...]

    @classmethod
    def load(cls, directory: Path) -> Probes:
        """Read the file that `save` wrote, from a directory that also has the model's tokenizers.

        Raises UserError if the file is missing, too large, broken, of another version, or made
        with other tokenizers. Shapes are checked before a tensor is read.
        """
        path = directory / PROBES
        if not path.exists():
            raise UserError(f"{directory} has no {PROBES}; this model's training was not probed.")
        source, target = load_tokenizers(directory, joint=False)
        try:
            with open_tensors(path, MAX_BYTES) as stream:
                header = json.loads(stream.metadata()["probes"])
                steps = _steps(header)
                probes = cls((*_earlier(header), Part.new(_sentences(header), source, target)))
                probes._check_shapes(stream, steps)
                tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
                _check_values(tensors)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(f"{path} cannot be used ({error}); copy it from its run again.") from error
        for (prefix, part), steps_of_part in zip(probes._named_parts(), steps, strict=True):
            for place, step in enumerate(steps_of_part):
                part.measured[step] = tuple(
                    Probe(*(tensors[f"{prefix}{i}.{name}"][place] for name in Probe._fields))
                    for i in range(len(part.sentences))
                )
        return probes

    def save(self, directory: Path) -> None:
        tensors: dict[str, Tensor] = {}
        for prefix, part in self._named_parts():
            tensors |= part.tensors(prefix)
        *earlier, last = self.parts
        header = {"version": VERSION, **_pairs_and_steps(last)}
        if earlier:
            header["earlier"] = [_header_of(part) for part in earlier]
        metadata = {"probes": json.dumps(header, ensure_ascii=False)}
        write_atomically(directory / PROBES, lambda path: save_file(tensors, path, metadata))

    @property
    def current(self) -> Part:
        """The part that a training goes on with."""
        return self.parts[-1]

    @property
    def steps(self) -> tuple[int, ...]:
        """Training steps after which the model was probed, in order; 0 is before the first step."""
        return tuple(step for part in self.parts for step in part.steps)

    @property
    def begin_trained(self) -> bool:
        """Whether the record begins with the weights of a trained model: its heads were formed before step 0.

        Decided by the loss of the pairs at step 0. That of an untrained model is about log V nats a token,
        with a vocabulary of V.
        """
        first = self.parts[0]
        if 0 not in first.measured:
            return False
        loss = -torch.cat([probe.log_probabilities for probe in first.measured[0]]).mean()
        return float(loss) < THRESHOLDS["trained"] * math.log(first.vocabulary)

    def part(self, step: int) -> Part:
        """The part of the training that a step belongs to. Raises UserError if there is no such probe."""
        for part in self.parts:
            if step in part.measured:
                return part
        steps = ", ".join(map(str, self.steps))
        raise UserError(
            Sentence("There is no probe of step {step}; choose one of {steps}.", step=step, steps=steps)
        )

    def record(self, step: int, sentence: int) -> AttentionRecord:
        """Every weight of one pair at one step. Raises UserError if there is no such probe."""
        part = self.part(step)
        part.pair(sentence)
        measured, tokens = part.measured[step][sentence], part.tokens[sentence]
        encoder, decoder, cross = (getattr(measured, kind).float() / LEVELS for kind in KINDS)
        return AttentionRecord(
            encoder, decoder, cross, source=tokens.source, read=tokens.read, predicted=tokens.predicted
        )

    def log_probabilities(self, step: int, sentence: int) -> tuple[float, ...]:
        """The log-probability of each target token, in nats, </s> last. Raises UserError as `record` does."""
        part = self.part(step)
        part.pair(sentence)
        return tuple(part.measured[step][sentence].log_probabilities.tolist())

    def begin_part(self, title: str, languages: tuple[str, str], step: int, part: Part) -> None:
        """Go on with another part; the last one was a model of this title and ended after this step."""
        self.current.title, self.current.languages, self.current.last = title, languages, step
        self.parts = (*self.parts, part)

    def keep(self, chosen: Callable[[int], bool]) -> None:
        """Drop the probes of the steps that are not chosen, and earlier parts without a probe."""
        for part in self.parts:
            part.measured = {step: each for step, each in part.measured.items() if chosen(step)}
        self.parts = (*(part for part in self.parts[:-1] if part.measured), self.current)

    @property
    def can_go_on(self) -> bool:
        """Whether a further run can add its own probes and the file can still be read."""
        size = sum(t.nbytes for prefix, part in self._named_parts() for t in part.tensors(prefix).values())
        return size <= MAX_BYTES // 2 and len(self.parts) <= MAX_PARTS

    def _named_parts(self) -> list[tuple[str, Part]]:
        """The parts with the beginning of the names of their tensors."""
        prefixes = [*(f"earlier.{place}." for place in range(len(self.parts) - 1)), ""]
        return list(zip(prefixes, self.parts, strict=True))

    def _check_shapes(self, stream: Any, steps: list[list[int]]) -> None:
        """Raise ValueError unless the tensors have the shapes of these pairs, steps and tokens."""
        found = {name: stream.get_slice(name) for name in stream.keys()}  # noqa: SIM118
        first = "0." if steps[-1] else "earlier.0.0."
        _, encoder_layers, heads, _, _ = found[f"{first}encoder"].get_shape()
        _, decoder_layers, _, _, _ = found[f"{first}cross"].get_shape()
        if not encoder_layers * decoder_layers * heads:
            raise ValueError("it has no heads")
        wanted: dict[str, TypeAndShape] = {}
        for (prefix, part), its_steps in zip(self._named_parts(), steps, strict=True):
            wanted |= part.shapes(prefix, len(its_steps), (encoder_layers, decoder_layers), heads)
        if {name: (each.get_dtype(), each.get_shape()) for name, each in found.items()} != wanted:
            raise ValueError("its shapes do not fit its sentences")


def weights_to_codes(weights: Float[Tensor, "*rows K"]) -> UInt8[Tensor, "*rows K"]:
    """Weights as 8-bit codes; each row sums to 255 (a row of zeros to 0), and a weight of 0 stays 0.

    All are rounded down; the codes with the largest remainders are then raised by 1 to reach the sum.
    """
    exact = weights.double() * LEVELS
    codes = exact.floor()
    remainders = exact - codes
    left = remainders.sum(-1, keepdim=True).round()
    ranks = remainders.argsort(stable=True, dim=-1, descending=True).argsort(-1)
    return (codes + (ranks < left)).to(torch.uint8)


def _header_of(part: Part) -> dict[str, object]:
    """The entry of an earlier part in the header."""
    tokens = [
        {name: [asdict(token) for token in getattr(pair, name)] for name in PairTokens._fields}
        for pair in part.tokens
    ]
    named = {"title": part.title, "languages": part.languages, "last": part.last}
    return {**_pairs_and_steps(part), **named, "vocabulary": part.vocabulary, "tokens": tokens}


def _pairs_and_steps(part: Part) -> dict[str, object]:
    return {"steps": part.steps, "sentences": [pair._asdict() for pair in part.sentences]}


def _sentences(header: Mapping[str, Any]) -> tuple[ProbePair, ...]:
    """The pairs of the header or of an earlier part. Raises KeyError, TypeError or ValueError."""
    sentences = tuple(ProbePair(**each) for each in header["sentences"])
    _check_texts([text for pair in sentences for text in pair])
    return sentences


def _steps(header: Mapping[str, Any]) -> list[list[int]]:
    """The steps of each part, oldest part first. Raises KeyError, TypeError or ValueError."""
    if header["version"] != VERSION:
        raise ValueError(f"it has version {header['version']}, and this program reads {VERSION}")
    parts = [*header.get("earlier", []), header]
    found = [each["steps"] for each in parts]
    steps = [step for each in found for step in each]
    full = parts[:-1] or parts  # the last of several parts may have no probe yet
    if not all(each["steps"] and each["sentences"] for each in full):
        raise ValueError("it is empty")
    for each, following in pairwise(parts):
        if not each["steps"][-1] <= each["last"] < min(following["steps"], default=math.inf):
            raise ValueError("its parts overlap")
    if any(type(step) is not int or step < 0 for step in steps) or steps != sorted(set(steps)):
        raise ValueError("its steps are not ascending numbers")
    return found


def _earlier(header: Mapping[str, Any]) -> tuple[Part, ...]:
    """The earlier parts, without their probes. Raises KeyError, TypeError or ValueError."""
    entries = header.get("earlier", [])
    if len(entries) > MAX_PARTS:
        raise ValueError(f"it has more than {MAX_PARTS} parts")
    return tuple(_earlier_part(each) for each in entries)


def _earlier_part(entry: Mapping[str, Any]) -> Part:
    source, target = entry["languages"]
    _check_texts([entry["title"], source, target])
    if any(type(entry[name]) is not int or entry[name] < 1 for name in ("last", "vocabulary")):
        raise ValueError("its last step and its vocabulary are not positive numbers")
    sentences = _sentences(entry)
    tokens = tuple(
        PairTokens(*(tuple(_token(each) for each in pair[name]) for name in PairTokens._fields))
        for pair in entry["tokens"]
    )
    if len(tokens) != len(sentences):
        raise ValueError("its tokens do not fit its sentences")
    return Part(entry["vocabulary"], sentences, tokens, entry["title"], (source, target), entry["last"])


def _token(entry: Mapping[str, Any]) -> Token:
    token = Token(**entry)
    _check_texts([token.piece, token.text])
    if type(token.special) is not bool or not {type(token.word), type(token.id)} <= {int, type(None)}:
        raise ValueError("its tokens are not valid")
    return token


def _check_texts(texts: Iterable[object]) -> None:
    if any(type(text) is not str or len(text) > MAX_CHARACTERS for text in texts):
        raise ValueError("its sentences are not short texts")


def _check_values(tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless all values are possible codes or log-probabilities."""
    for name, values in tensors.items():
        if name.endswith("log_probabilities"):
            fits = values.isfinite() & (values <= 0)
        else:
            fits = values.sum(-1) == LEVELS
        if not fits.all():
            raise ValueError(f"{name} has impossible values")
