"""Word alignments of a parallel corpus from one cross-attention head, and their error rate.

Axis letters: M decoder layers, H heads, T target tokens, S source tokens, W target words, U source
words; those of a list that differ from pair to pair are written _T, _S.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.analysis.alignment import (
    GoldAlignment,
    Link,
    alignment_error_rate,
    format_pharaoh,
    grow_diag,
    links,
    parse_gold,
    strongest_words,
)
from model.config import ModelConfig
from model.errors import UserError
from model.inputs import MAX_TOKENS, batches_by_length
from model.network.masks import padding_mask
from model.network.transformer import Transformer
from model.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer, normalise, pad
from model.translator import Translator
from training.evaluation.evaluate import read_pairs, read_sentences


class Head(NamedTuple):
    """A cross-attention head and which of its rows speaks for a target token."""

    layer: int  # of the decoder, counted from 0
    head: int  # counted from 0
    shifted: bool  # the row that reads the token (Chen et al. 2020), not the one that predicts it


class Sentence(NamedTuple):
    """One side of a pair: its tokens with </s>, and the word of the line that each was cut from."""

    ids: list[int]
    words: list[int | None]  # None for </s>


class Strongest(NamedTuple):
    """The words of a pair that one head, or each of all heads, aligns; NO_WORD where there is none."""

    sources: Int[Tensor, "*L W"]  # the source word of each target word
    targets: Int[Tensor, "*L U"]  # the target word of each source word

    def of(self, head: Head) -> Strongest:
        """Those of one head where all are there, [2, M, H, word], unshifted and shifted."""
        place = int(head.shifted), head.layer, head.head
        return Strongest(self.sources[place], self.targets[place])

    def forward(self) -> frozenset[Link]:
        """One link for each target word."""
        return links(self.sources.tolist())

    def backward(self) -> frozenset[Link]:
        """One link for each source word."""
        return frozenset((source, target) for target, source in links(self.targets.tolist()))

    def links(self, symmetrise: bool) -> frozenset[Link]:
        """One for each target word, or those that `grow_diag` makes of both sides'."""
        return grow_diag(self.forward(), self.backward()) if symmetrise else self.forward()


@dataclass(frozen=True)
class CorpusAlignment:
    """What `align_files` found."""

    head: Head
    lines: list[str]  # Pharaoh form; empty for a pair that was skipped
    skipped: int  # pairs too long for the model
    error_rates: dict[str, float]  # from 0 to 1 on all, odd and even lines; empty without gold


def align_files(
    translator: Translator,
    source: Path,
    target: Path,
    gold: Path | None = None,
    head: Head | None = None,
    symmetrise: bool = False,
) -> CorpusAlignment:
    """Align two files by one head: the given one, or the one with the least error on odd gold lines.

    Lines are words separated by spaces, and those are the words that get linked. Each target word
    gets the source word that the head gives it most weight; with `symmetrise` each source word
    chooses too, and `grow_diag` joins both. Of a head chosen on the odd lines (1, 3, ...), the even
    lines tell the error on sentences it was not chosen by.
    A pair too long for the model counts as one without links. Raises UserError when the files do
    not pair up, a gold link is malformed or leaves its sentence, or the model has no such head.
    """
    sources, targets = read_pairs(source, target)
    references = None if gold is None else read_gold(gold, sources, targets)
    config = translator.checkpoint.model.config
    if head is not None:
        _check_head(head, config)
    elif references is None or len(references) < 2:
        raise UserError("Name a layer and a head, or give at least two lines of gold links to choose by.")
    aligned = align_pairs(translator, sources, targets, head)
    chosen = head
    if chosen is None:
        chosen = best_head(all_heads(config), aligned, cast(list[GoldAlignment], references), symmetrise)
        aligned = [words.of(chosen) if words else None for words in aligned]
    found = [words.links(symmetrise) if words else frozenset() for words in aligned]
    parts = {"all": slice(None)}
    if head is None:
        parts |= {"odd": slice(0, None, 2), "even": slice(1, None, 2)}
    rates = {}
    if references is not None:
        rates = {name: alignment_error_rate(found[part], references[part]) for name, part in parts.items()}
    skipped = sum(words is None for words in aligned)
    return CorpusAlignment(chosen, [format_pharaoh(pair) for pair in found], skipped, rates)


def read_gold(path: Path, sources: Sequence[str], targets: Sequence[str]) -> list[GoldAlignment]:
    """The gold links of each pair. Raises UserError, with its line, for one that cannot be of its pair."""
    lines = read_sentences(path)
    if len(lines) != len(sources):
        raise UserError(
            f"{path} has {len(lines):,} lines for {len(sources):,} pairs; give one line for each."
        )
    references = []
    for number, (line, source, target) in enumerate(zip(lines, sources, targets, strict=True), start=1):
        try:
            reference = parse_gold(line)
        except UserError as error:
            raise UserError(f"Line {number} of {path}: {error}") from error
        lengths = len(_words(source)), len(_words(target))
        for link in reference.possible:
            if link[0] >= lengths[0] or link[1] >= lengths[1]:
                raise UserError(
                    f"Line {number} of {path} links words {link[0] + 1} and {link[1] + 1} of sentences of "
                    f"{lengths[0]} and {lengths[1]} words; the source's word comes first."
                )
        references.append(reference)
    return references


def all_heads(config: ModelConfig) -> list[Head]:
    """Every cross-attention head, unshifted first, then shifted."""
    axes = range(config.n_decoder_layers), range(config.n_heads)
    return [Head(layer, head, shifted) for shifted in (False, True) for layer in axes[0] for head in axes[1]]


def best_head(
    heads: Iterable[Head],
    aligned: Sequence[Strongest | None],
    references: Sequence[GoldAlignment],
    symmetrise: bool = False,
) -> Head:
    """The one of these with the least alignment error on lines 1, 3, 5, ...; the first of equals."""

    def error_rate(head: Head) -> float:
        found = (words.of(head).links(symmetrise) if words else frozenset() for words in aligned[::2])
        return alignment_error_rate(found, references[::2])

    return min(heads, key=error_rate)


def align_pairs(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], head: Head | None = None
) -> list[Strongest | None]:
    """The words that one head aligns, [word], or each of all, unshifted and shifted, [2, M, H, word].

    The model reads the given targets (teacher forcing). None stands for a pair too long for it.
    """
    checkpoint = translator.checkpoint
    pairs = [
        (
            read_words(checkpoint.source_tokenizer, source),
            read_words(checkpoint.target_tokenizer, target),
        )
        for source, target in zip(sources, targets, strict=True)
    ]
    lengths = {i: max(len(source.ids), len(target.ids)) for i, (source, target) in enumerate(pairs)}
    aligned: list[Strongest | None] = [None] * len(pairs)
    for places in batches_by_length({i: length for i, length in lengths.items() if length <= MAX_TOKENS}):
        weights = cross_weights(checkpoint.model, [pairs[place] for place in places])
        for place, cross in zip(places, weights, strict=True):
            aligned[place] = strongest(cross, *pairs[place], head)
    return aligned


def read_words(tokenizer: Tokenizer, line: str) -> Sentence:
    """Cut a line into tokens that remember which of its space-separated words they came from.

    The tokenizer's own words differ: it cuts "don't" and "1,5" at their marks. So each token asks
    the character that it was cut from.
    """
    text, owners = "", []
    for index, word in enumerate(_words(line)):
        # Normalised word by word: what is left of a word keeps its number, even if it is nothing.
        if word := normalise(word):
            word = f" {word}" if text else word
            text += word
            owners += [index] * len(word)  # a token may begin with the space before its word
    ids, spans = tokenizer.encode_spans(text)
    words = [owners[start] for start, _ in spans]
    return Sentence([*ids, EOS_ID], [*words, None])


@torch.inference_mode()
def cross_weights(
    model: Transformer, pairs: Sequence[tuple[Sentence, Sentence]]
) -> list[Float[Tensor, "M H _T _S"]]:
    """Every cross-attention weight of each pair, the model reading the given target; no padding."""
    device = model.output.weight.device
    source = pad([source.ids for source, _ in pairs]).to(device)
    read = pad([[BOS_ID, *target.ids[:-1]] for _, target in pairs]).to(device)
    model.eval()
    encoded = model.encode(source, padding_mask(source, PAD_ID))
    weights = cast(Tensor, model.decode(read, encoded, explicit=True).cross_weights).cpu()
    return [
        cross[:, :, : len(target.ids), : len(source.ids)]
        for cross, (source, target) in zip(weights, pairs, strict=True)
    ]


def strongest(
    cross: Float[Tensor, "M H T S"], source: Sentence, target: Sentence, head: Head | None = None
) -> Strongest:
    """The words that one head aligns, [word], or each of all, unshifted and shifted, [2, M, H, word]."""
    # Row t predicts target token t and reads the one before it, <s> to begin with.
    unshifted, shifted = target.words, [None, *target.words[:-1]]
    if head is not None:
        return _strongest(cross[head.layer, head.head], shifted if head.shifted else unshifted, source.words)
    both = [_strongest(cross, rows, source.words) for rows in (unshifted, shifted)]
    return Strongest(*map(torch.stack, zip(*both, strict=True)))


def _strongest(weights: Float[Tensor, "*L T S"], rows: list[int | None], keys: list[int | None]) -> Strongest:
    return Strongest(strongest_words(weights, rows, keys), strongest_words(weights.mT, keys, rows))


def _words(line: str) -> list[str]:
    return [word for word in line.split(" ") if word]


def _check_head(head: Head, config: ModelConfig) -> None:
    if not (0 <= head.layer < config.n_decoder_layers and 0 <= head.head < config.n_heads):
        raise UserError(
            f"There is no layer {head.layer + 1} with a head {head.head + 1}; the decoder has "
            f"{config.n_decoder_layers} layers of {config.n_heads} heads."
        )
