"""Opens a model that somebody trained with a tutorial: weights, settings and word lists as data."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.files import MAX_JSON_BYTES, check_file, decode_lines, read_bytes, read_json
from model.importing.family import Plan
from model.importing.files.pickles import read_nested
from model.importing.files.settings import CONFIG
from model.importing.files.tokenizers import Side, Sides, SpecialIds, ordered
from model.importing.files.weights import Weights
from model.importing.layouts import EMBEDDING, LAYOUTS, Layout, spelled
from model.network.config import ModelConfig
from model.storage.checkpoint import MAX_WEIGHTS_BYTES
from model.text.ready_made import Cut, ReadyMade, ReadyMadeTokenizer
from model.text.sentencepiece import Frame
from model.text.tokenizer import BOS, SPECIALS

SUFFIXES = (".pt", ".pth", ".bin", ".chkpt", ".ckpt")
BEST = ("model.chkpt",)  # what a toolkit calls the checkpoint to use
# Where a folder has its word lists, source first.
WORD_LISTS = "source.json", "target.json"


@dataclass(frozen=True)
class Told:
    """What the user says of a model because its file does not."""

    layout: str = ""
    heads: int = 0
    source_vocabulary: Path | None = None
    target_vocabulary: Path | None = None


@dataclass(frozen=True)
class Opened:
    """A model of a layout, ready to be filled with its weights."""

    layout: Layout
    name: str  # of the layout
    plan: Plan
    weights: Weights


def find_own(path: Path) -> Path | None:
    """The file of weights: this path, or the only one in a folder; None for a folder of transformers."""
    if path.is_file():
        return path
    if not path.is_dir() or (path / CONFIG).exists():
        return None
    found = [each for each in sorted(path.iterdir()) if each.suffix in SUFFIXES]
    best = [each for each in found if each.name in BEST] or found
    if len(best) > 1:
        raise UserError(f"{path} has {len(best)} files of weights; name one, such as {best[-1]}.")
    return best[0] if best else None


def open_own(path: Path, told: Told) -> Opened:
    """Read weights and what lies beside them. Raises UserError with what is missing and an example."""
    check_file(path, MAX_WEIGHTS_BYTES)
    try:
        tensors, values = read_nested(path)
    except ValueError as error:
        raise UserError(
            f"{path} cannot be read ({quote_untrusted(str(error))}), and nothing of it was run; if it holds "
            'a whole model, save its weights alone with model = torch.load("FILE", weights_only=False); '
            'torch.save(model.state_dict(), "weights.pt").'
        ) from error
    name = told.layout or _recognise(tensors, path)
    if name not in LAYOUTS:
        raise UserError(f"There is no layout {quote_untrusted(name)}; name one of {', '.join(LAYOUTS)}.")
    layout = LAYOUTS[name]
    found = layout.rename(tensors, path)
    read = layout.read(values)
    config = _config(layout, found, read, told, path)
    sides = _sides(layout, found, told, path)
    _scale(layout, found, read.get("scale", (1.0, 1.0)))
    _arrange(found, sides)
    config = _compare(config, found, sides)
    weights = Weights(tensors, path, path.stat().st_size)
    return Opened(
        layout,
        name,
        Plan(config, sides, lambda _, model: _fit(found, dict(model.named_parameters()))),
        weights,
    )


def _recognise(tensors: Mapping[str, Tensor], path: Path) -> str:
    names = set(map(spelled, tensors))
    for name, layout in LAYOUTS.items():
        if layout.mark in names:
            return name
    raise UserError(
        f"{path} has weights of no layout that is known here ({', '.join(LAYOUTS)}); name the nearest one "
        "with --layout, such as --layout torch."
    )


def _config(
    layout: Layout, found: Mapping[str, Tensor], read: Mapping[str, Any], told: Told, path: Path
) -> ModelConfig:
    """The shape: of the weights, of the settings, and of what the user says."""

    def sizes(name: str) -> tuple[int, ...]:
        if name not in found or found[name].ndim != 2:
            raise UserError(f"{path} lacks the weight {name}; copy the whole file.")
        return tuple(found[name].shape)

    source, width = sizes("source_embedding.tokens.weight")
    target, _ = sizes("target_embedding.tokens.weight")
    layers = {
        side: 1 + max((int(m[1]) for name in found if (m := re.match(rf"{side}\.(\d+)\.", name))), default=-1)
        for side in ("encoder", "decoder")
    }
    heads = _heads(layout, read, told, path)
    norms = [f"{side}_norm.weight" in found for side in layers]
    shape = dict(layout.shape) | {
        name: each for name, each in read.items() if name not in ("n_heads", "scale")
    }
    if "norm" in shape and shape.get("decoder_norm") == shape["norm"]:
        del shape["decoder_norm"]
    if shape.get("d_key") == width // heads:
        del shape["d_key"]
    if shape.get("positions") == "learned":
        shape["n_positions"] = min(sizes(f"{side}_embedding.positions")[0] for side in ("source", "target"))
    inner, decoder_inner = (sizes(f"{side}.0.feed_forward.inner.weight")[0] for side in layers)
    config = ModelConfig(
        source,
        target,
        d_model=width,
        d_ff=inner,
        n_heads=heads,
        n_encoder_layers=layers["encoder"],
        n_decoder_layers=layers["decoder"],
        tied=False,
        output_bias=True,
        decoder_ff=0 if decoder_inner == inner else decoder_inner,
        final_norm="both" if all(norms) else "pre" if any(norms) else "none",
        **shape,
    )
    expected = [side.has_final_norm for side in (config, config.of_decoder)]
    if expected != norms:
        raise UserError(
            f"{path} has norms after its last layers that do not fit its settings; copy both again."
        )
    return config


def _heads(layout: Layout, read: Mapping[str, Any], told: Told, path: Path) -> int:
    heads = told.heads or read.get("n_heads")
    if type(heads) is not int:
        raise UserError(
            f"{path} is a model of {layout.title}, whose file does not say how many heads it has; give "
            "them, such as --heads 8."
        )
    return heads


def _sides(layout: Layout, found: Mapping[str, Tensor], told: Told, path: Path) -> Sides:
    places = [told.source_vocabulary, told.target_vocabulary]
    places = [
        given or (path.parent / name if (path.parent / name).exists() else None)
        for given, name in zip(places, WORD_LISTS, strict=True)
    ]
    if None in places:
        side = "source" if places[0] is None else "target"
        raise UserError(
            f"{path} has no word lists; save them with json.dump(vocab.get_itos(), open('{side}.json', 'w')) "
            "and give --source-vocabulary source.json --target-vocabulary target.json."
        )
    sizes = (len(found[f"{side}_embedding.tokens.weight"]) for side in ("source", "target"))
    frame = Frame(before=BOS)
    sides = [
        _side(layout, place, size, each)
        for place, size, each in zip(places, sizes, (frame, Frame()), strict=True)
        if place is not None
    ]
    source, target = sides
    return Sides(source, target)


def _side(layout: Layout, path: Path, size: int, frame: Frame) -> Side:
    """The tokenizer of one language, and the rows of its words."""
    words, cut = _words(path)
    if len(words) != size:
        raise UserError(
            f"{path} has {len(words):,} entries but the model has {size:,}; give the list of its training."
        )
    spelling = dict(zip(layout.specials, SPECIALS, strict=True))
    entries = {place: spelling.get(word, word or f"<unused {place}>") for place, word in enumerate(words)}
    ids = {word: place for place, word in entries.items()}
    if missing := [theirs for theirs, ours in spelling.items() if ours not in ids]:
        raise UserError(
            f"{path} lacks the entry {missing[0]} of a model of {layout.title}; add it in its place."
        )
    pad, _, start, end = (ids[special] for special in SPECIALS)
    vocabulary, order = ordered(entries, size, SpecialIds(pad, end, start), path)
    return Side(ReadyMadeTokenizer(ReadyMade(cut), vocabulary, frame), order)


def _words(path: Path) -> tuple[list[str], Cut]:
    """The words of a list in the order of their ids, and how a text is cut into them. Raises UserError."""
    if path.suffix != ".json":
        return list(decode_lines(io.BytesIO(read_bytes(path, MAX_JSON_BYTES)), path)), "spaces"
    match read_json(path):
        case list(words) if all(isinstance(word, str) for word in words):
            return words, "spaces"
        case {"model": {"type": "WordLevel", "vocab": dict(ids)}, "pre_tokenizer": {"type": "Whitespace"}}:
            if sorted(id_ for id_ in ids.values() if type(id_) is int) == list(range(len(ids))):
                return sorted(ids, key=ids.__getitem__), "words"
    raise UserError(f"{path} is not a list of words; write it with json.dump(vocab.get_itos(), file).")


def _scale(layout: Layout, found: dict[str, Tensor], scale: tuple[float, float]) -> None:
    """Change the weights so that Headlight's network computes what theirs does."""
    found.setdefault("output.weight", found["target_embedding.tokens.weight"])
    for name, weight in found.items():
        weight = weight.float()
        if EMBEDDING.fullmatch(name):
            weight = weight * scale[0]
        elif name == "output.weight":
            weight = weight * scale[1]
        elif layout.sample_deviation and re.search(r"norm\.(weight|bias)$", name):
            width = found["source_embedding.tokens.weight"].shape[1]
            weight = weight.expand(width)  # the first copies had one number
            if name.endswith("weight"):
                weight = weight * math.sqrt((width - 1) / width)
        found[name] = weight


def _arrange(found: dict[str, Tensor], sides: Sides) -> None:
    """Put the rows of words into our order."""
    for name, side in (
        ("source_embedding.tokens.weight", sides.source),
        ("target_embedding.tokens.weight", sides.target),
        ("output.weight", sides.target),
        ("output.bias", sides.target),
    ):
        if name in found:
            if len(found[name]) != len(side.order):
                raise UserError(f"{name} has {len(found[name]):,} rows for {len(side.order):,} words.")
            found[name] = found[name][side.order]


def _compare(config: ModelConfig, found: Mapping[str, Tensor], sides: Sides) -> ModelConfig:
    """The config with `tied` where the matrices are equal, which no flag need say."""
    source, target, output = (
        found[name]
        for name in ("source_embedding.tokens.weight", "target_embedding.tokens.weight", "output.weight")
    )
    if not torch.equal(source, target):
        return config
    return replace(config, tied=True, separate_output=not torch.equal(target, output))


def _fit(found: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """All weights of the model; biases that it lacks are zeros, and positions end with the shorter side."""
    for name, parameter in parameters.items():
        weight = found.get(name)
        if weight is None and name.endswith(".bias"):
            weight = torch.zeros_like(parameter)
        if weight is not None:
            yield name, weight[: len(parameter)] if name.endswith(".positions") else weight
