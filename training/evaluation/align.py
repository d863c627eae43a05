"""Word alignment of a parallel corpus by one cross-attention head, and its error rate.

Axis letters: M decoder layers, H heads, T target tokens, S source tokens, W target words, U source
words. In a list of tensors, _T and _S differ from pair to pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
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
from model.errors import UserError
from model.files import read_lines
from model.inputs import MAX_TOKENS, batches_by_length
from model.network.config import ModelConfig
from model.network.masks import padding_mask
from model.network.transformer import Transformer
from model.storage.checkpoint import Checkpoint
from model.text.languages import TARGET_CODE, join_code
from model.text.tokenizer import BOS, BOS_ID, EOS_ID, PAD_ID, Tokenizer, normalise, pad
from model.translator import Translator
from training.evaluation.evaluate import read_pairs


class AlignmentHead(NamedTuple):
    """A cross-attention head, and which of its rows is read for a target token."""

    layer: int  # of the decoder, counted from 0
    head: int  # counted from 0
    shifted: bool  # the row whose input is the token (Chen et al. 2020), not the row that predicts it


class TokenisedLine(NamedTuple):
    """One side of a pair as the model reads it, and for each token the word that it comes from."""

    ids: list[int]
    words: list[int | None]  # None for </s>, <s> and codes of languages


class AlignedWords(NamedTuple):
    """The words of a pair that one head, or each of all heads, aligns; NO_WORD where there is none."""

    sources: Int[Tensor, "*L W"]  # the source word of each target word
    targets: Int[Tensor, "*L U"]  # the target word of each source word

    def of(self, head: AlignmentHead) -> AlignedWords:
        """The words of one head, of the words of all heads [2, M, H, word], unshifted and shifted."""
        place = int(head.shifted), head.layer, head.head
        return AlignedWords(self.sources[place], self.targets[place])

    def forward(self) -> frozenset[Link]:
        """One link for each target word."""
        return links(self.sources.tolist())

    def backward(self) -> frozenset[Link]:
        """One link for each source word."""
        return frozenset((source, target) for target, source in links(self.targets.tolist()))

    def links(self, symmetrise: bool) -> frozenset[Link]:
        """One link for each target word; with `symmetrise`, `grow_diag` of both directions."""
        return grow_diag(self.forward(), self.backward()) if symmetrise else self.forward()


@dataclass(frozen=True)
class CorpusAlignment:
    """The result of `align_files`."""

    head: AlignmentHead
    lines: list[str]  # Pharaoh form; empty for a pair that was skipped
    skipped: int  # pairs too long for the model
    taught: bool  # the head was taught to align
    error_rates: dict[str, float]  # from 0 to 1 on all, odd and even lines; empty without gold


def align_files(
    translator: Translator,
    source: Path,
    target: Path,
    gold: Path | None = None,
    head: AlignmentHead | None = None,
    symmetrise: bool = False,
    code: str = "",
) -> CorpusAlignment:
    """Align two files by one head: the given one, the taught one, or the best one on odd gold lines.

    Words are what spaces separate. Each target word is linked to the source word to which the head gives
    most weight. With `symmetrise` each source word chooses a target word too, and `grow_diag` joins both
    choices. A head chosen on the odd lines (1, 3, ...) is tested on the even lines. A pair that is too long
    for the model has no links. `code` names the target language of a model that has several. Raises
    UserError when the files have different numbers of lines, a gold link is malformed or outside its
    sentence, or the model has no such head.
    """
    sources, targets = read_pairs(source, target)
    references = None if gold is None else read_gold(gold, sources, targets)
    config = translator.checkpoint.model.config
    head = head or taught_head(translator.checkpoint)
    if head is not None:
        _check_head(head, config)
    elif references is None or len(references) < 2:
        raise UserError("Give a layer and a head, or at least two lines of gold links to choose a head by.")
    aligned = align_pairs(translator, sources, targets, head, code)
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
    taught = config.taught_head == (chosen.layer, chosen.head)
    return CorpusAlignment(chosen, [format_pharaoh(pair) for pair in found], skipped, taught, rates)


def read_gold(path: Path, sources: Sequence[str], targets: Sequence[str]) -> list[GoldAlignment]:
    """The gold links of each pair. Raises UserError with the line number of an impossible link."""
    lines = list(read_lines(path))
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


def taught_head(checkpoint: Checkpoint) -> AlignmentHead | None:
    """The head that was taught to align, and the row that it aligns.

    Here a head is taught in the row that reads a word (`training.loss.alignment_loss`). Marian's guided
    alignment, with which imported models were trained, teaches the row that predicts it.
    """
    taught = checkpoint.model.config.taught_head
    return None if taught is None else AlignmentHead(*taught, shifted=not checkpoint.info.origin)


def all_heads(config: ModelConfig) -> list[AlignmentHead]:
    """Every cross-attention head, unshifted first, then shifted."""
    places = product((False, True), range(config.n_decoder_layers), range(config.n_heads))
    return [AlignmentHead(layer, head, shifted) for shifted, layer, head in places]


def best_head(
    heads: Iterable[AlignmentHead],
    aligned: Sequence[AlignedWords | None],
    references: Sequence[GoldAlignment],
    symmetrise: bool = False,
) -> AlignmentHead:
    """The head with the least alignment error on lines 1, 3, 5, ...; the first of equals."""
    return min(heads, key=lambda head: error_rate(head, aligned[::2], references[::2], symmetrise))


def error_rate(
    head: AlignmentHead,
    aligned: Sequence[AlignedWords | None],
    references: Sequence[GoldAlignment],
    symmetrise: bool = False,
) -> float:
    """Alignment error rate of one head; `aligned` holds the words of all heads."""
    found = (words.of(head).links(symmetrise) if words else frozenset() for words in aligned)
    return alignment_error_rate(found, references)


def align_pairs(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    head: AlignmentHead | None = None,
    code: str = "",
) -> list[AlignedWords | None]:
    """The words that one head aligns, [word], or all heads, unshifted and shifted, [2, M, H, word].

    The model reads the given targets (teacher forcing). A pair too long for it gives None.
    """
    checkpoint = translator.checkpoint
    pairs = [
        read_pair(checkpoint, source, target, code) for source, target in zip(sources, targets, strict=True)
    ]
    lengths = {place: max(len(source.ids), len(target.ids)) for place, (source, target) in enumerate(pairs)}
    aligned: list[AlignedWords | None] = [None] * len(pairs)
    for places in batches_by_length({place: n for place, n in lengths.items() if n <= MAX_TOKENS}):
        weights = cross_weights(checkpoint.model, [pairs[place] for place in places])
        for place, cross in zip(places, weights, strict=True):
            aligned[place] = aligned_words(cross, *pairs[place], head)
    return aligned


def read_pair(
    checkpoint: Checkpoint, source: str, target: str, code: str = ""
) -> tuple[TokenisedLine, TokenisedLine]:
    """Source and target with all that the model reads around them, as `Translator.score` reads them."""
    tokenizer = checkpoint.source_tokenizer
    first = tokenizer.first_ids(join_code(code, source))
    ids, words = read_words(checkpoint.target_tokenizer, target)
    read = TokenisedLine([*first, *ids], [*[None] * len(first), *words])
    return read_words(tokenizer, source, code, tokenizer.ending), read


def read_words(
    tokenizer: Tokenizer, line: str, code: str = "", ending: Sequence[int] = (EOS_ID,)
) -> TokenisedLine:
    """Tokenise a line, and find the space-separated word that each token comes from.

    The tokenizer's own words differ: it splits "don't" and "1,5" at their marks. So the word of a token is
    found through its characters. Codes of languages, <s> and the ids of the ending belong to no word.
    """
    text, owners = "", []
    for index, word in enumerate(_words(line)):
        # Normalised word by word, so that words keep their numbers even if one becomes empty.
        if word := normalise(word):
            word = f" {word}" if text else word
            text += word
            owners += [index] * len(word)  # a token may begin with the space before its word
    whole = join_code(code, text)
    ids, spans = tokenizer.encode_spans(whole)
    before = len(whole) - len(text)  # of the code and its space, with which the first word may begin
    words = [
        None if piece == BOS or TARGET_CODE.fullmatch(piece) else owners[max(start - before, 0)]
        for piece, (start, _) in zip(tokenizer.pieces(ids), spans, strict=True)
    ]
    return TokenisedLine([*ids, *ending], [*words, *[None] * len(ending)])


@torch.inference_mode()
def cross_weights(
    model: Transformer, pairs: Sequence[tuple[TokenisedLine, TokenisedLine]]
) -> list[Float[Tensor, "M H _T _S"]]:
    """Every cross-attention weight of each pair while the model reads its target; without padding."""
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


def aligned_words(
    cross: Float[Tensor, "M H T S"],
    source: TokenisedLine,
    target: TokenisedLine,
    head: AlignmentHead | None = None,
) -> AlignedWords:
    """The words that one head aligns, [word], or all heads, unshifted and shifted, [2, M, H, word]."""
    # Row t predicts target token t and reads token t - 1; row 0 reads <s>.
    unshifted, shifted = target.words, [None, *target.words[:-1]]
    if head is not None:
        return _both_sides(cross[head.layer, head.head], shifted if head.shifted else unshifted, source.words)
    both = [_both_sides(cross, rows, source.words) for rows in (unshifted, shifted)]
    return AlignedWords(*map(torch.stack, zip(*both, strict=True)))


def _both_sides(
    weights: Float[Tensor, "*L T S"], rows: list[int | None], keys: list[int | None]
) -> AlignedWords:
    return AlignedWords(strongest_words(weights, rows, keys), strongest_words(weights.mT, keys, rows))


def _words(line: str) -> list[str]:
    return [word for word in line.split(" ") if word]


def _check_head(head: AlignmentHead, config: ModelConfig) -> None:
    if not (0 <= head.layer < config.n_decoder_layers and 0 <= head.head < config.n_heads):
        raise UserError(
            f"There is no layer {head.layer + 1} with a head {head.head + 1}; the decoder has "
            f"{config.n_decoder_layers} layers of {config.n_heads} heads."
        )
