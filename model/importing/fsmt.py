"""FSMT, the Transformers of fairseq for WMT19 (Ng et al. 2019): post-norm, two vocabularies, Moses words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from torch import Tensor

from model.errors import UserError
from model.importing.family import Plan, output_bias
from model.importing.files.settings import CONFIG, TOKENIZER, Settings, settings_of, shape_of
from model.importing.files.tokenizers import (
    FSMT_VOCABULARIES,
    MERGES,
    Side,
    Sides,
    SpecialIds,
    ordered,
    read_entries,
    read_merges,
)
from model.importing.files.weights import Weights
from model.importing.weight_names import DECODER, ENCODER, axis_of, convert_layers
from model.network.config import ModelConfig, Shape
from model.network.transformer import Transformer
from model.text.moses import LANGUAGE, MosesPieces, MosesTokenizer, pairs_of, sacremoses

OUTPUT = "model.decoder.output_projection.weight"


def plan(directory: Path, values: Settings, shape: Shape) -> Plan:
    """How a checkpoint of FSMT becomes ours. Raises UserError."""
    sizes = values["src_vocab_size"], values["tgt_vocab_size"]
    # Check the sizes before anything of such a size is read.
    config = ModelConfig(sizes[0] + 1, sizes[1] + 1, **(shape | shape_of(values)))
    languages = _languages(directory)
    sacremoses()  # refuses to go on without it
    ids = SpecialIds.of(values)
    merges = pairs_of(read_merges(directory / MERGES), directory / MERGES)
    lower_case = settings_of(directory / TOKENIZER).get("do_lower_case") is True
    source, target = (
        _side(directory, name, size, ids, MosesPieces(language, merges, lower_case))
        for name, size, language in zip(FSMT_VOCABULARIES, sizes, languages, strict=True)
    )
    convert = partial(_convert, source=source, target=target, scaled=values["scale_embedding"])
    return Plan(config, Sides(source, target, languages), convert)


def _languages(directory: Path) -> tuple[str, str]:
    """The codes of source and target. Raises UserError if the files do not name them."""
    for name in (TOKENIZER, CONFIG):
        match settings_of(directory / name).get("langs"):
            case [str(source), str(target)] if LANGUAGE.fullmatch(source) and LANGUAGE.fullmatch(target):
                return source, target
    raise UserError(f'{directory / CONFIG} names no languages; write langs, such as ["en", "de"], into it.')


def _side(directory: Path, name: str, size: int, ids: SpecialIds, pieces: MosesPieces) -> Side:
    """The tokenizer of one language; the rows of its vocabulary."""
    entries = {index: entry for entry, index in read_entries(directory / name).items()}
    vocabulary, order = ordered(entries, size, ids, directory)
    return Side(MosesTokenizer(pieces, vocabulary), order)


def _convert(
    weights: Weights, model: Transformer, source: Side, target: Side, scaled: bool
) -> Iterator[tuple[str, Tensor]]:
    width = model.config.d_model
    axis, scale = axis_of(width), 1.0 if scaled else width**-0.5
    sizes = [(int(side.order.max()) + 1, width) for side in (source, target)]
    encoder, decoder = weights.take(ENCODER, sizes[0]), weights.take(DECODER, sizes[1])
    output = weights.take(OUTPUT, sizes[1]) if weights.has(OUTPUT) else decoder
    yield "source_embedding.tokens.weight", encoder[source.order][:, axis].float() * scale
    yield "target_embedding.tokens.weight", decoder[target.order][:, axis].float() * scale
    yield "output.weight", output[target.order][:, axis]
    yield "output.bias", output_bias(weights, target)
    yield from convert_layers(weights, model, axis)
    for side in ("encoder", "decoder"):  # computed, but some files hold them
        weights.take_any(f"model.{side}.embed_positions.weight")
