"""Refuses models that the engine in the browser cannot run, by a list of the settings that it knows."""

from __future__ import annotations

from collections.abc import Iterator

from model import Translator
from model.errors import Sentence, UserError, quote_untrusted
from model.text.sentencepiece import NO_FRAME, SentencePieceTokenizer
from model.text.tokenizer import Tokenizer

# Settings of the network that viz/viewer/engine reads, with the values that it knows; None: every value.
KNOWN = {
    "source_vocabulary": None,
    "target_vocabulary": None,
    "d_model": None,
    "d_ff": None,
    "n_heads": None,
    "n_encoder_layers": None,
    "n_decoder_layers": None,
    "dropout": None,
    "norm": ("pre", "post"),
    "tied": None,
    "separate_output": None,
    "activation": ("relu", "silu", "gelu", "gelu_new"),
    "positions": ("sinusoidal", "none"),
    "output_bias": None,
    "taught_head": None,
}


def check_supported(translator: Translator) -> None:
    """Raise UserError, which names what the engine lacks, unless it can run this model."""
    if missing := next(_missing(translator), None):
        raise UserError(
            Sentence(
                "{model} runs only with a server, because the page without one lacks {part}; choose another "
                "model, or export one translation as a page.",
                model=quote_untrusted(translator.name),
                part=missing,
            )
        )


def _missing(translator: Translator) -> Iterator[str]:
    for name, value in translator.checkpoint.model.config.to_json().items():
        known = KNOWN.get(name, ())
        if known is not None and value not in known:
            yield f"{name}: {value}"
    checkpoint = translator.checkpoint
    for tokenizer in (checkpoint.source_tokenizer, checkpoint.target_tokenizer):
        # Not tokenizers of a subclass, which cut texts in another way.
        if type(tokenizer) not in (Tokenizer, SentencePieceTokenizer):
            yield type(tokenizer).__name__
        elif isinstance(tokenizer, SentencePieceTokenizer) and tokenizer.frame != NO_FRAME:
            yield "tokens around a sentence"
