"""probes.safetensors: what a model made of a few fixed sentence pairs at some steps of its training.

The decoder is given the pair's target. For pair 0, 1, ... and all N steps together the file holds
`0.encoder` [N, L, H, S, S], `0.decoder` [N, M, H, T, T] and `0.cross` [N, M, H, T, S], attention
weights as 8-bit codes, and `0.log_probabilities` [N, T], those of the target's tokens in nats,
float32. Its metadata entry `probes` is JSON: version, steps, and source and target of each pair. The
tokens follow from the tokenizers that lie beside it.

A weight is `code / 255` and within 1/255 of the model's; the codes of a row sum to 255.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, UInt8
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.errors import UserError
from model.files import write_atomically
from model.inputs import target_ids
from model.results import KINDS, AttentionRecord
from model.storage.checkpoint import load_tokenizers
from model.tokenizer import BOS_ID, EOS_ID, Tokenizer
from model.translator import Translator

PROBES = "probes.safetensors"
VERSION = 1
LEVELS = 255
MAX_BYTES = 64 << 20  # 12 + 12 layers of 16 heads, three pairs of 20 tokens at 40 steps take 28 MB
MAX_CHARACTERS = 1000  # of a text: what a stranger's file makes us tokenise


class Pair(NamedTuple):
    """A sentence and the translation that the decoder is given."""

    source: str
    target: str


class Measured(NamedTuple):
    """One pair at one step; weights as codes."""

    encoder: UInt8[Tensor, "L H S S"]
    decoder: UInt8[Tensor, "M H T T"]
    cross: UInt8[Tensor, "M H T S"]
    log_probabilities: Float[Tensor, " T"]


@dataclass
class Probes:
    """The pairs, and what was measured of each at every step so far."""

    sentences: tuple[Pair, ...]
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    measured: dict[int, tuple[Measured, ...]] = field(default_factory=dict)  # by step, one for each pair

    @classmethod
    def load(cls, directory: Path) -> Probes:
        """Read what `save` wrote into a directory that holds the model's tokenizers too.

        Raises UserError when the file is missing, too large, broken, of another version, or made
        with other tokenizers. Shapes are checked before a tensor is read.
        """
        path = directory / PROBES
        if not path.is_file():
            raise UserError(f"{directory} has no {PROBES}; this model's training was not probed.")
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} has more than {MAX_BYTES >> 20} MiB; probes are far smaller.")
        source, target = load_tokenizers(directory, joint=False)
        try:
            with safe_open(path, framework="pt") as stream:
                steps, sentences = _parse(json.loads(stream.metadata()["probes"]))
                probes = cls(sentences, source, target)
                probes._check_shapes(stream, len(steps))
                tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
                _check_values(tensors)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(f"{path} cannot be used ({error}); copy it from its run again.") from error
        for place, step in enumerate(steps):
            probes.measured[step] = tuple(
                Measured(*(tensors[f"{i}.{name}"][place] for name in Measured._fields))
                for i in range(len(sentences))
            )
        return probes

    def save(self, directory: Path) -> None:
        """Write the file in one step."""
        tensors = {
            f"{i}.{name}": torch.stack([getattr(self.measured[step][i], name) for step in self.steps])
            for i in range(len(self.sentences))
            for name in Measured._fields
        }
        header = {
            "version": VERSION,
            "steps": self.steps,
            "sentences": [pair._asdict() for pair in self.sentences],
        }
        metadata = {"probes": json.dumps(header, ensure_ascii=False)}
        write_atomically(directory / PROBES, lambda part: save_file(tensors, part, metadata))

    @property
    def steps(self) -> tuple[int, ...]:
        """Training steps behind which the model was probed, ascending; 0 is before the first."""
        return tuple(sorted(self.measured))

    def record(self, step: int, sentence: int) -> AttentionRecord:
        """Every weight of one pair at one step. Raises UserError when there is no such probe."""
        measured, pair = self._find(step, sentence), self.sentences[sentence]
        ids = self._target_ids(pair)
        encoder, decoder, cross = (getattr(measured, kind).float() / LEVELS for kind in KINDS)
        return AttentionRecord(
            encoder,
            decoder,
            cross,
            source=self.source_tokenizer.source_tokens(pair.source),
            read=self.target_tokenizer.tokens([BOS_ID, *ids[:-1]]),
            predicted=self.target_tokenizer.tokens(ids),
        )

    def log_probabilities(self, step: int, sentence: int) -> tuple[float, ...]:
        """Of each token of the given target, </s> last, in nats. Raises UserError as `record` does."""
        return tuple(self._find(step, sentence).log_probabilities.tolist())

    def _find(self, step: int, sentence: int) -> Measured:
        if step not in self.measured:
            steps = ", ".join(map(str, self.steps))
            raise UserError(f"There is no probe of step {step}; choose one of {steps}.")
        if not 0 <= sentence < len(self.sentences):
            raise UserError(f"There is no sentence {sentence}; choose one of 0 to {len(self.sentences) - 1}.")
        return self.measured[step][sentence]

    def _target_ids(self, pair: Pair) -> list[int]:
        return [*self.target_tokenizer.encode(pair.target), EOS_ID]

    def _check_shapes(self, stream: Any, n_steps: int) -> None:
        """Raise ValueError unless the tensors are just those of these pairs, steps and tokenizers."""
        found = {name: stream.get_slice(name) for name in stream.keys()}  # noqa: SIM118
        _, encoder_layers, heads, _, _ = found["0.encoder"].get_shape()
        _, decoder_layers, _, _, _ = found["0.cross"].get_shape()
        if not encoder_layers * decoder_layers * heads:
            raise ValueError("it has no heads")
        wanted: dict[str, tuple[str, list[int]]] = {}
        for i, pair in enumerate(self.sentences):
            source, target = len(self.source_tokenizer.encode(pair.source)) + 1, len(self._target_ids(pair))
            decoder = [n_steps, decoder_layers, heads, target]
            wanted |= {
                f"{i}.encoder": ("U8", [n_steps, encoder_layers, heads, source, source]),
                f"{i}.decoder": ("U8", [*decoder, target]),
                f"{i}.cross": ("U8", [*decoder, source]),
                f"{i}.log_probabilities": ("F32", [n_steps, target]),
            }
        if {name: (each.get_dtype(), each.get_shape()) for name, each in found.items()} != wanted:
            raise ValueError("its shapes are not those of its sentences")


def measure(translator: Translator, pair: Pair) -> Measured:
    """What the model, in eval mode, makes of a pair now. Raises UserError when it cannot read the pair."""
    ids = [*target_ids(translator.checkpoint, pair.target), EOS_ID]
    record, scores = translator.record(pair.source, ids)
    encoder, decoder, cross = (quantise(getattr(record, kind)) for kind in KINDS)
    return Measured(encoder, decoder, cross, scores[torch.arange(len(ids)), torch.tensor(ids)])


def quantise(weights: Float[Tensor, "*rows K"]) -> UInt8[Tensor, "*rows K"]:
    """Weights as codes of 255 levels: what rounding down leaves of a row goes to its largest remainders.

    So each row sums to 255 (one of zeros to 0), and a weight of 0 stays 0.
    """
    exact = weights.double() * LEVELS
    codes = exact.floor()
    remainders = exact - codes
    left = remainders.sum(-1, keepdim=True).round()
    ranks = remainders.argsort(stable=True, dim=-1, descending=True).argsort(-1)
    return (codes + (ranks < left)).to(torch.uint8)


def _parse(header: Mapping[str, Any]) -> tuple[list[int], tuple[Pair, ...]]:
    """Steps and pairs of the file's JSON. Raises KeyError, TypeError or ValueError on any other JSON."""
    if header["version"] != VERSION:
        raise ValueError(f"it has version {header['version']}, and this program reads {VERSION}")
    steps, sentences = header["steps"], tuple(Pair(**each) for each in header["sentences"])
    if not steps or not sentences:
        raise ValueError("it is empty")
    if any(type(step) is not int or step < 0 for step in steps) or steps != sorted(set(steps)):
        raise ValueError("its steps are no ascending numbers")
    if any(type(text) is not str or len(text) > MAX_CHARACTERS for pair in sentences for text in pair):
        raise ValueError("its sentences are no short texts")
    return steps, sentences


def _check_values(tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless these are codes of attention weights, and log-probabilities."""
    for name, values in tensors.items():
        if name.endswith("log_probabilities"):
            fits = values.isfinite() & (values <= 0)
        else:
            fits = values.sum(-1) == LEVELS
        if not fits.all():
            raise ValueError(f"{name} holds impossible values")
