"""The Transformer and everything that runs it."""

import model.disk  # noqa: F401  # isort: skip  # before torch
from model.checkpoint import list_models
from model.errors import UserError
from model.record import AttentionRecord, Head, HeadValues, Muted, Translation
from model.transformer import HeadGates, Transformer
from model.translator import Translator

__all__ = [
    "AttentionRecord",
    "Head",
    "HeadGates",
    "HeadValues",
    "Muted",
    "Transformer",
    "Translation",
    "Translator",
    "UserError",
    "list_models",
]
