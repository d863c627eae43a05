"""Opens a model that somebody trained with a tutorial or a toolkit: weights, settings and words as data."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.errors import UserError, quote_untrusted
from model.files import (
    MAX_JSON_BYTES,
    begins_with,
    check_file,
    decode_lines,
    open_tensors,
    read_bytes,
    read_json,
    read_yaml,
)
from model.importing.family import NEVER_LOGIT, Plan
from model.importing.files.marian_bin import VERSION, read_marian_bin
from model.importing.files.npz import read_npz
from model.importing.files.pickles import Stored, read_nested
from model.importing.files.settings import CONFIG
from model.importing.files.spm import read_spm
from model.importing.files.tokenizers import Side, Sides, SpecialIds, ordered
from model.importing.files.weights import Weights
from model.importing.layouts import LAYOUTS, Layout, spelled
from model.importing.toolkits import Said, Words
from model.importing.weight_names import axis_of
from model.network.config import CHOICES, ModelConfig
from model.storage.checkpoint import MAX_WEIGHTS_BYTES
from model.text.ready_made import ReadyMade, ReadyMadeTokenizer
from model.text.sentencepiece import Frame, SentencePiece, SentencePieceTokenizer
from model.text.tokenizer import BOS, BOS_ID, EOS, PAD, PAD_ID, SPECIALS, UNK, UNK_ID

PICKLES, NPZ, BIN, SAFETENSORS = (".pt", ".pth", ".chkpt", ".ckpt"), ".npz", ".bin", ".safetensors"
STARTS = b"PK\3\4", b"\x80", VERSION  # of a .bin of weights; beside it lie others, such as lists of words
SPM = ".spm", ".model"
# What a toolkit calls the checkpoint to use.
BEST = ("model.chkpt", "best.ckpt", "checkpoint_best.pt", "model.npz", "model.00.safetensors")
OF_EOLE = {"vocab.json", "model.00.safetensors"}  # beside config.json
# Where a folder of a tutorial has its word lists, source first.
WORD_LISTS = "source.json", "target.json"
EMBEDDINGS = "source_embedding.tokens.weight", "target_embedding.tokens.weight"
OUTPUT, OUTPUT_BIAS = "output.weight", "output.bias"
# Which side of a matrix, or what vector, has the dimensions of the stream.
READS = re.compile(r".*\.(project|inner)\.weight|output\.weight|.*_embedding\.(tokens\.weight|positions)")
WRITES = re.compile(r".*(attention\.output|outer|norm)\.(weight|bias)")


@dataclass(frozen=True)
class Told:
    """What the user says of a model because its file does not."""

    layout: str = ""
    heads: int = 0
    source_vocabulary: Path | None = None
    target_vocabulary: Path | None = None
    sentences: Sequence[str] = ()  # by which the number of heads is found, or a given one checked


@dataclass(frozen=True)
class Opened:
    """A model of a layout, ready to be filled with its weights."""

    layout: Layout
    name: str  # of the layout
    plan: Plan
    weights: Weights
    heads: int  # that the settings or the user name, 0 if neither does


def find_own(path: Path) -> Path | None:
    """The file of weights: this path, or the one in a folder to use; None for a folder of transformers."""
    if path.is_file():
        return path
    if not path.is_dir():
        return None
    names = {each.name for each in path.iterdir()}
    if CONFIG in names and not names.issuperset(OF_EOLE):
        return None
    found = [each for each in sorted(path.iterdir()) if each.suffix in (*PICKLES, NPZ) or each.name in BEST]
    binary = [each for each in sorted(path.iterdir()) if each.suffix == BIN]
    found += [each for each in binary if begins_with(each, *STARTS)] or binary
    best = [each for each in found if each.name in BEST] or found
    if len(best) > 1:
        raise UserError(f"{path} has {len(best)} files of weights; name one, such as {best[-1]}.")
    return best[0] if best else None


def open_own(path: Path, told: Told) -> Opened:
    """Read weights and what lies beside them. Raises UserError with what is missing and an example."""
    check_file(path, MAX_WEIGHTS_BYTES)
    tensors, values = _read(path)
    name = told.layout or _recognise(tensors, path)
    if name not in LAYOUTS:
        raise UserError(f"There is no layout {quote_untrusted(name)}; name one of {', '.join(LAYOUTS)}.")
    layout = LAYOUTS[name]
    found = layout.rename(tensors, path)
    said = layout.parse(values, path.parent)
    config = _config(layout, found, said, told, path)
    sides = _sides(layout, found, said, told, path)
    _scale(layout, found, said)
    _arrange(found, sides, config, layout)
    config = _complete(config, found)
    weights = Weights(tensors, path, path.stat().st_size)
    return Opened(
        layout,
        name,
        Plan(config, sides, lambda _, model: _fit(found, dict(model.named_parameters()))),
        weights,
        told.heads or said.heads,
    )


def _read(path: Path) -> Stored:
    """The weights of a file and the plain values beside them."""
    if path.suffix == NPZ:
        return read_npz(path)
    if path.suffix == BIN and begins_with(path, VERSION):
        return read_marian_bin(path)
    if path.suffix == SAFETENSORS:
        with open_tensors(path, MAX_WEIGHTS_BYTES) as stored:
            return Stored({name: stored.get_tensor(name) for name in stored.keys()}, {})  # noqa: SIM118
    try:
        return read_nested(path)
    except ValueError as error:
        raise UserError(
            f"{path} cannot be read ({quote_untrusted(str(error))}), and nothing of it was run; if it holds "
            'a whole model, save its weights alone with model = torch.load("FILE", weights_only=False); '
            'torch.save(model.state_dict(), "weights.pt").'
        ) from error


def _recognise(tensors: Mapping[str, Tensor], path: Path) -> str:
    names = set(map(spelled, tensors))
    for name, layout in LAYOUTS.items():
        if layout.mark in names:
            return name
    raise UserError(
        f"{path} has weights of no layout that is known here ({', '.join(LAYOUTS)}); name the nearest one "
        "with --layout, such as --layout torch."
    )


def _config(layout: Layout, found: dict[str, Tensor], said: Said, told: Told, path: Path) -> ModelConfig:
    """The shape: of the weights, of the settings, and of what the user says."""

    def sizes(name: str) -> tuple[int, ...]:
        if name not in found or found[name].ndim != 2:
            raise UserError(f"{path} lacks the weight {name}; copy the whole file.")
        return tuple(found[name].shape)

    found.setdefault(EMBEDDINGS[1], found.get(EMBEDDINGS[0], torch.zeros(0)))  # one for both
    (source, width), (target, _) = map(sizes, EMBEDDINGS)
    layers = {
        side: 1 + max((int(m[1]) for name in found if (m := re.match(rf"{side}\.(\d+)\.", name))), default=-1)
        for side in ("encoder", "decoder")
    }
    heads = told.heads or said.heads or (1 if told.sentences else 0)
    if not heads:
        raise UserError(
            f"{path} is a model of {layout.title}, whose file does not say how many heads it has; give "
            "them, such as --heads 8, or --sentences FILE with some that it can translate, to find them."
        )
    norms = [f"{side}_norm.weight" in found for side in layers]
    shape = layout.shape | said.shape
    if shape.get("decoder_norm") == shape["norm"]:
        del shape["decoder_norm"]
    if shape.get("positions") == "learned":
        positions = [f"{side}_embedding.positions" for side in ("source", "target")]
        for name in positions:
            sizes(name)
            found[name] = found[name][said.spare_positions :]
        shape["n_positions"] = min(len(found[name]) for name in positions)
    inner, decoder_inner = (sizes(f"{side}.0.feed_forward.inner.weight")[0] for side in layers)
    shape |= {
        "d_model": width,
        "d_ff": inner,
        "n_heads": heads,
        "n_encoder_layers": layers["encoder"],
        "n_decoder_layers": layers["decoder"],
        "tied": False,
        "output_bias": True,
        "decoder_ff": 0 if decoder_inner == inner else decoder_inner,
    }
    config = ModelConfig(source, target, **shape)
    for final in CHOICES["final_norm"]:
        config = replace(config, final_norm=final)
        if norms == [side.has_final_norm for side in (config, config.of_decoder)]:
            return config
    raise UserError(f"{path} has norms after its last layers that do not fit its settings; copy both again.")


def _sides(layout: Layout, found: Mapping[str, Tensor], said: Said, told: Told, path: Path) -> Sides:
    given = told.source_vocabulary, told.target_vocabulary
    words = said.words
    if words is None and all((path.parent / name).exists() for name in WORD_LISTS):
        words = path.parent / WORD_LISTS[0], path.parent / WORD_LISTS[1]
    if words is None and None in given:
        raise UserError(f"{path} has no word lists beside it; {said.asks_for_words}.")
    sizes = [len(found[name]) for name in EMBEDDINGS]
    frames = Frame(before=BOS if layout.framed else "", without="" if said.has_end else EOS), Frame()
    source, target = (
        _side(layout, said, words[place] if words else None, given[place], sizes[place], frames[place], path)
        for place in range(2)
    )
    return Sides(source, target, said.languages)


def _side(
    layout: Layout, said: Said, words: Words | None, given: Path | None, size: int, frame: Frame, path: Path
) -> Side:
    """The tokenizer of one language, and the rows of its words.

    What the user gives is a list of words, or the SentencePiece model that cuts a text into them.
    """
    rules: ReadyMade | SentencePiece = ReadyMade()
    if given is not None and (given.suffix not in SPM or words is None):
        words = given
    if isinstance(words, Path):
        path = words
        entries, rules = _words(words, layout)
    else:
        entries = list(words or ())
    if given is not None and given.suffix in SPM:
        rules = read_spm(given).segmenter
    if layout.starts_with_zeros:
        entries, size = [*entries, PAD, BOS], size + 2
    if len(entries) != size:
        raise UserError(
            f"{path} has {len(entries):,} entries but the model has {size:,}; give the list of its training."
        )
    spelling = dict(zip(said.specials or layout.specials, SPECIALS, strict=True))
    named = {place: spelling.get(word, word or f"<unused {place}>") for place, word in enumerate(entries)}
    ids = {word: place for place, word in named.items()}
    if missing := [theirs for theirs, ours in spelling.items() if ours not in ids]:
        raise UserError(
            f"{path} lacks the entry {missing[0]} of a model of {layout.title}; add it in its place."
        )
    start = spelling.get(said.start, said.start) if said.start else BOS
    if start not in ids:
        raise UserError(f"{path} lacks the entry {quote_untrusted(said.start)}; copy it again.")
    vocabulary, order = ordered(named, size, SpecialIds(ids[PAD], ids[EOS], ids[start]), path)
    if isinstance(rules, ReadyMade):
        return Side(ReadyMadeTokenizer(rules, vocabulary, frame), order)
    return Side(SentencePieceTokenizer(rules, vocabulary, frame), order)


def _words(path: Path, layout: Layout) -> tuple[list[str], ReadyMade | SentencePiece]:
    """The words of a list in the order of their ids, and what cuts a text into them. Raises UserError."""
    if path.suffix in SPM:
        found = read_spm(path)
        return list(found.pieces), found.segmenter
    if path.suffix in (".yml", ".yaml"):
        return _in_order(read_yaml(path, MAX_JSON_BYTES), path), ReadyMade()
    if path.suffix != ".json":
        lines = list(decode_lines(io.BytesIO(read_bytes(path, MAX_JSON_BYTES)), path))
        if layout.counts_words:
            lines = [BOS, PAD, EOS, UNK, *(line.rpartition(" ")[0] for line in lines)]
        return lines, ReadyMade()
    match read_json(path):
        case list(words) if all(isinstance(word, str) for word in words):
            return words, ReadyMade()
        case {"model": {"type": "WordLevel", "vocab": dict(ids)}, "pre_tokenizer": {"type": "Whitespace"}}:
            return _in_order(ids, path), ReadyMade("words")
    raise UserError(f"{path} is not a list of words; write it with json.dump(vocab.get_itos(), file).")


def _in_order(ids: Mapping[str, Any], path: Path) -> list[str]:
    if sorted(each for each in ids.values() if type(each) is int) != list(range(len(ids))):
        raise UserError(f"{path} leaves out ids; copy it again.")
    return sorted(ids, key=ids.__getitem__)


def _scale(layout: Layout, found: dict[str, Tensor], said: Said) -> None:
    """Change the weights so that Headlight's network computes what theirs does."""
    found.setdefault(OUTPUT, found[EMBEDDINGS[1]])
    scales = dict(zip((*EMBEDDINGS, OUTPUT), said.scales, strict=True))
    width = found[EMBEDDINGS[0]].shape[1]
    for name, weight in found.items():
        weight = weight.float()
        if name in scales:
            weight = weight * scales[name]
        elif layout.sample_deviation and re.search(r"norm\.(weight|bias)$", name):
            weight = weight.expand(width)  # the first copies had one number
            if name.endswith("weight"):
                weight = weight * math.sqrt((width - 1) / width)
        found[name] = weight


def _arrange(found: dict[str, Tensor], sides: Sides, config: ModelConfig, layout: Layout) -> None:
    """Put the rows of words and the dimensions of the stream into our order."""
    found.setdefault(OUTPUT_BIAS, torch.zeros(len(found[OUTPUT])))
    for name, side in (
        (EMBEDDINGS[0], sides.source),
        (EMBEDDINGS[1], sides.target),
        (OUTPUT, sides.target),
        (OUTPUT_BIAS, sides.target),
    ):
        weight = found[name]
        if layout.starts_with_zeros:
            weight = torch.cat([weight, weight.new_zeros(2, *weight.shape[1:])])
        if len(weight) != int(side.order.max()) + 1:
            raise UserError(f"{name} has {len(weight):,} rows for {len(side.order):,} words.")
        found[name] = weight[side.order]
    order = sides.target.order
    if (order == order[BOS_ID]).sum() > 1:  # it is a copy
        found[OUTPUT_BIAS][BOS_ID] = NEVER_LOGIT
    if layout.starts_with_zeros:
        found[OUTPUT_BIAS][[PAD_ID, UNK_ID, BOS_ID]] = NEVER_LOGIT
    if config.positions not in ("fairseq", "marian"):
        return
    axis = axis_of(config.d_model)
    for name, weight in found.items():
        if READS.fullmatch(name):
            found[name] = weight[:, axis]
        elif WRITES.fullmatch(name):
            found[name] = weight[axis]


def _complete(config: ModelConfig, found: Mapping[str, Tensor]) -> ModelConfig:
    """The config with the sizes in our order, and `tied` where matrices are equal, which no flag need say."""
    source, target = (found[name] for name in EMBEDDINGS)
    config = replace(config, source_vocabulary=len(source), target_vocabulary=len(target))
    if not torch.equal(source, target):
        return config
    return replace(config, tied=True, separate_output=not torch.equal(target, found[OUTPUT]))


def _fit(found: Mapping[str, Tensor], parameters: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """All weights of the model; biases that it lacks are zeros, and positions end with the shorter side."""
    for name, parameter in parameters.items():
        weight = found.get(name)
        if weight is None and name.endswith(".bias"):
            weight = torch.zeros_like(parameter)
        if weight is not None:
            yield name, weight[: len(parameter)] if name.endswith(".positions") else weight
