"""Writes the page that needs no server: the document, the engine and the models' files."""

from __future__ import annotations

from typing import Any

from model import Translator
from model.inputs import language


def identity_of(translator: Translator) -> dict[str, Any]:
    """Return what the page says about a model, and its name in requests."""
    info = translator.checkpoint.info
    return {
        "name": translator.name,
        "title": translator.title,
        "source": info.source_language,
        "target": info.target_language,
        "language": language(info),  # that the model reads
    }
