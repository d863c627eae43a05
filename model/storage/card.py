"""The card of a model: card.json holds the facts, and one template writes README.md from them.

Paragraphs, facts and the texts of sections are Markdown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from model.errors import UserError
from model.files import MAX_TEXT_BYTES, read_json, write_atomically, write_json
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer

CARD, README = "card.json", "README.md"
# How the cells of a column are written, with as many decimals as `python -m training evaluate` prints.
FORMATS = {
    "test set": "`{}`",
    "weight": "{:g}",
    "BLEU": "{:.2f}",
    "chrF": "{:.2f}",
    "WER": "{:.3f}",
    "CER": "{:.3f}",
    "exact": "{:.2f}",
    "exact match, %": "{:.2f}",
}


class ModelSize(TypedDict):
    """The size and the shape of a model, whose weights are a file of so many bytes."""

    parameters: int
    bytes: int
    encoder_layers: int
    decoder_layers: int
    width: int
    heads: int
    feed_forward: int
    norm: str
    vocabularies: list[int]


class Table(TypedDict):
    """A table; a cell is a number, a text, nothing, or a score with the number of what it is about."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    signatures: NotRequired[Mapping[str, str]]  # of the scores


class Section(TypedDict):
    """A part of a card with a heading."""

    title: str
    text: Sequence[str]


class Card(TypedDict, total=False):
    """The content of card.json; only `title` must be there."""

    front: Mapping[str, str | list[str]]  # the front matter for the Hugging Face hub
    title: str
    introduction: Sequence[str]  # paragraphs before the facts
    shape: ModelSize
    facts: Sequence[Sequence[str]]  # pairs of a name and a text
    notes: Sequence[str]  # paragraphs after the facts
    sections: Sequence[Section]
    # Each takes the place of the first paragraph that is its name in braces, for example {figures}.
    tables: dict[str, Table]
    weaknesses: dict[str, list[str]]  # where the model fails, by the code of the language; for the page alone


def read_card(directory: Path) -> Card:
    """Return the card of a model directory, {} without one. Raises UserError if it is broken or too large."""
    path = directory / CARD
    if not os.path.lexists(path):
        return {}
    card = read_json(path, MAX_TEXT_BYTES)
    try:
        (readme(card) + json.dumps(card, ensure_ascii=False)).encode("utf-8")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not the card of a model; copy it again or delete it.") from error
    return cast(Card, card)


def write_card(directory: Path, card: Card) -> None:
    """Write card.json and README.md, each atomically."""
    write_json(directory / CARD, card)
    text = readme(card)
    write_atomically(directory / README, lambda part: part.write_text(text, encoding="utf-8"))


def shape_of(model: Transformer, tokenizers: Iterable[Tokenizer], size: int) -> ModelSize:
    """Return the size and the shape of a model whose weights are a file of `size` bytes."""
    config = model.config
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "bytes": size,
        "encoder_layers": config.n_encoder_layers,
        "decoder_layers": config.n_decoder_layers,
        "width": config.d_model,
        "heads": config.n_heads,
        "feed_forward": config.d_ff,
        "norm": config.norm,
        "vocabularies": [len(each) for each in dict.fromkeys(tokenizers)],
    }


def readme(card: Card) -> str:
    """Return the card as Markdown, in the form of the Hugging Face hub."""
    tables = {f"{{{name}}}": table for name, table in card.get("tables", {}).items()}

    def paragraphs(texts: Sequence[str]) -> Iterator[str]:
        # A table is written once, so that a short file cannot become a long text.
        return (markdown_table(**tables.pop(text)) if text in tables else text for text in texts)

    facts = _shape_facts(card["shape"]) if "shape" in card else []
    facts += [(name, text) for name, text in card.get("facts", ())]
    parts = [f"# {card['title']}", *paragraphs(card.get("introduction", ()))]
    if facts:
        parts.append(markdown_table(["", ""], facts))
    parts += paragraphs(card.get("notes", ()))
    for section in card.get("sections", ()):
        parts += [f"## {section['title']}", *paragraphs(section["text"])]
    return _front_matter(card.get("front", {})) + "\n\n".join(parts) + "\n"


def markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], signatures: Mapping[str, str] | None = None
) -> str:
    """Return a table as Markdown, followed by the signatures of its scores."""
    lines: list[Sequence[str]] = [columns, ["---"] * len(columns)]
    for row in rows:  # people write a row of figures without its scores
        cells = [*row, *[None] * (len(columns) - len(row))]
        lines.append([_cell(*each) for each in zip(columns, cells, strict=True)])
    text = "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in lines)
    signed = ", ".join(f"{name} `{signature}`" for name, signature in (signatures or {}).items())
    return text.replace(" --- ", "---") + (f"\n\n{signed}" if signed else "")


def _cell(column: str, value: Any) -> str:
    """A number, text, nothing, or a score and the number of sentences or words that it is about."""
    if value is None:
        return ""
    if isinstance(value, list):
        score, count = value
        return f"{score:.1f} ({count:,})"
    return FORMATS.get(column, "{}" if isinstance(value, str) else "{:,}").format(value)


def _shape_facts(shape: ModelSize) -> list[tuple[str, str]]:
    encoder, decoder, heads = shape["encoder_layers"], shape["decoder_layers"], shape["heads"]
    sizes = " and ".join(f"{size:,}" for size in shape["vocabularies"])
    return [
        ("size", f"{shape['parameters'] / 1e6:.1f} M parameters, {shape['bytes'] / 1e6:.1f} MB"),
        (
            "shape",
            f"{encoder} encoder and {decoder} decoder layers, width {shape['width']}, {heads} heads each, "
            f"{(encoder + 2 * decoder) * heads} in all, feed-forward {shape['feed_forward']:,}, "
            f"{shape['norm']}-norm",
        ),
        (
            "tokens",
            f"{'one vocabulary' if len(shape['vocabularies']) == 1 else 'vocabularies'} of {sizes} entries",
        ),
    ]


def _front_matter(front: Mapping[str, str | list[str]]) -> str:
    lines = []
    for name, value in front.items():
        if isinstance(value, list):
            lines += [f"{name}:", *(f"  - {each}" for each in value)]
        else:
            lines.append(f"{name}: {value}")
    return "---\n" + "\n".join(lines) + "\n---\n\n" if lines else ""
