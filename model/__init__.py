"""The Transformer and everything that runs it; imports no other package of the project."""

import model.storage.tempdir  # noqa: F401  # isort: skip  # before torch is imported
from model.errors import UserError
from model.network.transformer import HeadGates, Transformer
from model.results import AblationResult, AttentionRecord, Head, HeadValues, Translation
from model.storage.checkpoint import list_models
from model.translator import Translator

__version__ = "0.2.0"
__all__ = [
    "AblationResult",
    "AttentionRecord",
    "Head",
    "HeadGates",
    "HeadValues",
    "Transformer",
    "Translation",
    "Translator",
    "UserError",
    "list_models",
]
