"""What an imported model says about itself: languages, origin, licence, and its card."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from model.network.config import ModelConfig
from model.storage.card import Card
from model.storage.checkpoint import MAX_LABEL, ModelInfo
from model.text.languages import language_names

LANGUAGE = re.compile(r"[A-Za-z][\w+-]{1,79}")
NAMED = re.compile(r"opus(?:-tatoeba)?-mt(?:-tc-(?:big|base|bible-big|bible))?-([\w+]+)-([\w+]+)$")
LICENCE = re.compile(r"^license:\s*[\"']?([\w.+-]{1,40})", re.MULTILINE)
# In their cards: a model trained with guided alignment (Garg et al. 2019), as most of OPUS-MT are.
GUIDED_ALIGNMENT = "transformer-align"

UNKNOWN = "unknown"  # a licence that is not stated
MARKUP = frozenset("&<>\"'`*_[]()|\\#!~$")

OPUS_MT = (
    "OPUS-MT, made by the Language Technology Research Group at the University of Helsinki from the data of "
    "[OPUS](https://opus.nlpl.eu); please cite J. Tiedemann and S. Thottingal, OPUS-MT: Building open "
    "translation services for the World, EAMT 2020"
)


def model_info(origin: str, tokenizer: Mapping[str, Any], codes: Sequence[str]) -> ModelInfo:
    """Languages of a checkpoint, from its tokenizer's settings or else its name."""
    name = origin.rsplit("/", 1)[-1]
    match = NAMED.search(name)
    languages = []
    for side, place in (("source", 1), ("target", 2)):
        given = tokenizer.get(f"{side}_lang")
        if isinstance(given, str) and LANGUAGE.fullmatch(given) and not given.startswith("opus"):
            languages.append(given)
        else:
            languages.append(match.group(place) if match else side)
    source, target = languages
    pair = f"{language_names(source)} → {language_names(target)}"
    title = f"{pair} ({name})"
    return ModelInfo(
        source,
        target,
        _label(title if len(title) <= MAX_LABEL else pair),
        origin=_label(origin),
        target_languages=tuple(codes),
    )


def import_card(
    info: ModelInfo,
    family: str,
    title: str,
    readme: str,
    config: ModelConfig,
    notes: Sequence[str],
    not_stated: str = "not stated in the checkpoint; ask its origin",
) -> Card:
    """The card, which says where the model comes from. Nothing of the origin's own text is copied.

    `not_stated` is what it says of the licence if the checkpoint says nothing.

    Names of folders and languages are a stranger's text, so they are written as text and never as HTML or
    Markdown.
    """
    found = LICENCE.search(readme)
    licence = found.group(1) if found else UNKNOWN
    on_hub = "/" in info.origin
    where = (
        f"[{info.origin}](https://huggingface.co/{info.origin})"
        if on_hub
        else f"the folder {_plain(info.origin)}"
    )
    targets = ", ".join(map(_plain, info.target_languages))
    languages = f"{language_names(info.source_language)} to {language_names(info.target_language)}"
    facts = [
        ("origin", where),
        ("licence", f"{licence}, as its origin says" if found else not_stated),
        *([("attribution", OPUS_MT)] if "Helsinki" in info.origin or "Helsinki" in readme else []),
        ("languages", _plain(languages)),
        *([("target codes", f"begin each sentence with one of: {targets}")] if targets else []),
        ("shape", _shape(config)),
        ("tokens", f"{config.source_vocabulary:,} source and {config.target_vocabulary:,} target entries"),
    ]
    if config.taught_head is not None:
        layer, head = config.taught_head
        facts.append(("taught to align", f"cross-attention, head {head + 1} of decoder layer {layer + 1}"))
    facts += [("settings", _plain(note)) for note in notes]
    return {
        "front": _front_matter(info, family, licence),
        "title": _plain(info.title),
        "introduction": [
            f"Imported by Headlight from a {title} checkpoint. **Headlight's project did not "
            "train this model** and has not measured how good it is. Names, order and storage of the weights "
            "were changed, nothing else."
        ],
        "facts": facts,
    }


def _shape(config: ModelConfig) -> str:
    memory = ", a running memory in place of the decoder's self-attention" if config.is_recurrent else ""
    return (
        f"{config.n_encoder_layers} encoder and {config.n_decoder_layers} decoder layers, width "
        f"{config.d_model:,}, {config.n_heads} heads each, feed-forward {config.d_ff:,} with "
        f"{config.activation}, {config.norm}-norm{memory}"
    )


def _front_matter(info: ModelInfo, family: str, licence: str) -> dict[str, str | list[str]]:
    return {
        "license": "other" if licence == UNKNOWN else licence,
        "pipeline_tag": "translation",
        "library_name": "headlight",
        **({"base_model": info.origin} if "/" in info.origin else {}),
        "tags": ["headlight", family, "imported"],
    }


def _plain(text: str) -> str:
    """Text that neither Markdown nor HTML takes for anything else."""
    return "".join(f"&#{ord(one)};" if one in MARKUP else one for one in text)


def taught_head(readme: str, decoder_layers: int) -> tuple[int, int] | None:
    """Layer and head that were taught to align: by Marian's default the first of the last decoder layer."""
    return (decoder_layers - 1, 0) if GUIDED_ALIGNMENT in readme else None


def _label(text: str) -> str:
    visible = "".join(character if character.isprintable() else " " for character in text).strip()
    return (visible if len(visible) <= MAX_LABEL else f"{visible[: MAX_LABEL - 1]}…") or "imported"
