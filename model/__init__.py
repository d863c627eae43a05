"""The Transformer and everything that runs it."""

from model.checkpoint import list_models
from model.errors import UserError
from model.record import AttentionRecord, Translation
from model.transformer import HeadGates, Transformer
from model.translator import Translator

__all__ = [
    "AttentionRecord",
    "HeadGates",
    "Transformer",
    "Translation",
    "Translator",
    "UserError",
    "list_models",
]
