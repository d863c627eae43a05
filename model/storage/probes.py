"""Reads and writes probes.safetensors: attention on a few fixed sentence pairs at some training steps.

The decoder reads the target of the pair. For pair 0 (and so on) at all N steps the file has `0.encoder`
[N, L, H, S, S], `0.decoder` [N, M, H, T, T] and `0.cross` [N, M, H, T, S], which are attention weights as
8-bit codes, and `0.log_probabilities` [N, T] of the target's tokens, in nats, float32. The metadata
entry `probes` is JSON with version, steps, and the source and target of each pair. The tokens come from
the tokenizers in the same directory.

A weight is `code / 255`, within 1/255 of the model's weight; the codes of a row sum to 255.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, UInt8
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from model.errors import Sentence, UserError
from model.files import open_tensors, write_atomically
from model.results import KINDS, AttentionRecord
from model.storage.checkpoint import load_tokenizers
from model.tokenizer import BOS_ID, EOS_ID, Tokenizer

PROBES = "probes.safetensors"
VERSION = 1
LEVELS = 255
MAX_BYTES = 64 << 20  # 12 + 12 layers of 16 heads, three pairs of 20 tokens at 40 steps take 28 MB
MAX_CHARACTERS = 1000  # of a text of an untrusted file
TRAINED_BELOW = 0.5  # of the loss of a uniform guess, which is that of an untrained model


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


@dataclass
class Probes:
    """The pairs with their probes at every step so far."""

    sentences: tuple[ProbePair, ...]
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    measured: dict[int, tuple[Probe, ...]] = field(default_factory=dict)  # by step, one for each pair

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
                steps, sentences = _parse_header(json.loads(stream.metadata()["probes"]))
                probes = cls(sentences, source, target)
                probes._check_shapes(stream, len(steps))
                tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
                _check_values(tensors)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UserError(f"{path} cannot be used ({error}); copy it from its run again.") from error
        for place, step in enumerate(steps):
            probes.measured[step] = tuple(
                Probe(*(tensors[f"{i}.{name}"][place] for name in Probe._fields))
                for i in range(len(sentences))
            )
        return probes

    def save(self, directory: Path) -> None:
        """Write the file atomically."""
        tensors = {
            f"{i}.{name}": torch.stack([getattr(self.measured[step][i], name) for step in self.steps])
            for i in range(len(self.sentences))
            for name in Probe._fields
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
        """Training steps after which the model was probed, in order; 0 is before the first step."""
        return tuple(sorted(self.measured))

    @property
    def begin_trained(self) -> bool:
        """Whether the run began with the weights of a trained model: its heads were formed before step 0.

        Decided by the loss of the pairs at step 0. That of an untrained model is about log V nats a token,
        with a vocabulary of V.
        """
        if 0 not in self.measured:
            return False
        loss = -torch.cat([probe.log_probabilities for probe in self.measured[0]]).mean()
        return float(loss) < TRAINED_BELOW * math.log(len(self.target_tokenizer))

    def record(self, step: int, sentence: int) -> AttentionRecord:
        """Every weight of one pair at one step. Raises UserError if there is no such probe."""
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
        """The log-probability of each target token, in nats, </s> last. Raises UserError as `record` does."""
        return tuple(self._find(step, sentence).log_probabilities.tolist())

    def _find(self, step: int, sentence: int) -> Probe:
        if step not in self.measured:
            steps = ", ".join(map(str, self.steps))
            raise UserError(
                Sentence("There is no probe of step {step}; choose one of {steps}.", step=step, steps=steps)
            )
        if not 0 <= sentence < len(self.sentences):
            last = len(self.sentences) - 1
            raise UserError(
                Sentence(
                    "There is no sentence {sentence}; choose one of 0 to {last}.",
                    sentence=sentence,
                    last=last,
                )
            )
        return self.measured[step][sentence]

    def _target_ids(self, pair: ProbePair) -> list[int]:
        return [*self.target_tokenizer.encode(pair.target), EOS_ID]

    def _check_shapes(self, stream: Any, n_steps: int) -> None:
        """Raise ValueError unless the tensors have the shapes of these pairs, steps and tokenizers."""
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


def _parse_header(header: Mapping[str, Any]) -> tuple[list[int], tuple[ProbePair, ...]]:
    """Steps and pairs of the JSON header. Raises KeyError, TypeError or ValueError if it is not valid."""
    if header["version"] != VERSION:
        raise ValueError(f"it has version {header['version']}, and this program reads {VERSION}")
    steps, sentences = header["steps"], tuple(ProbePair(**each) for each in header["sentences"])
    if not steps or not sentences:
        raise ValueError("it is empty")
    if any(type(step) is not int or step < 0 for step in steps) or steps != sorted(set(steps)):
        raise ValueError("its steps are not ascending numbers")
    if any(type(text) is not str or len(text) > MAX_CHARACTERS for pair in sentences for text in pair):
        raise ValueError("its sentences are not short texts")
    return steps, sentences


def _check_values(tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless all values are possible codes or log-probabilities."""
    for name, values in tensors.items():
        if name.endswith("log_probabilities"):
            fits = values.isfinite() & (values <= 0)
        else:
            fits = values.sum(-1) == LEVELS
        if not fits.all():
            raise ValueError(f"{name} has impossible values")
