"""What a person gives, sentences and targets, as ids or as one sentence that refuses it."""

from __future__ import annotations

from collections.abc import Sequence

from model.decoding.search import SearchOptions
from model.errors import TooLongError, UserError, quote_untrusted
from model.storage.checkpoint import Checkpoint, ModelInfo
from model.tokenizer import BOS_ID, EOS_ID, PAD_ID, SPACE, UNK, normalise

MAX_TOKENS = 128  # of a sentence to look at, </s> included
MAX_TARGET_TOKENS = SearchOptions().limit(MAX_TOKENS)  # of a given target
CHARACTERS_PER_TOKEN = 40  # a bound before tokenising: nothing within the token limit is longer
LANGUAGES = {"de": "German", "en": "English", "fr": "French", "it": "Italian", "word": "lower-case letters"}


def language(info: ModelInfo) -> str:
    """What the model reads, in words."""
    return LANGUAGES.get(info.source_language, info.source_language)


def source_ids(checkpoint: Checkpoint, texts: Sequence[str], max_tokens: int) -> list[list[int] | UserError]:
    """The ids of each sentence with its </s>, or what keeps it from being translated."""
    problems = [_problem_of_text(text, max_tokens) for text in texts]
    readable = ["" if problem else text for text, problem in zip(texts, problems, strict=True)]
    rows = checkpoint.source_tokenizer.encode_batch(readable)
    return [
        problem or _problem_of_ids(checkpoint, row, max_tokens) or [*row, EOS_ID]
        for row, problem in zip(rows, problems, strict=True)
    ]


def target_ids(checkpoint: Checkpoint, target: str | Sequence[int]) -> list[int]:
    """A given target as ids. Raises UserError for what no translation can hold."""
    tokenizer = checkpoint.target_tokenizer
    if isinstance(target, str):
        if problem := _too_many_characters(target, MAX_TOKENS):
            raise problem
        ids = tokenizer.encode(target)
    else:
        ids = list(target)
    for index in ids:
        if not 0 <= index < len(tokenizer) or index in (PAD_ID, BOS_ID):
            raise UserError(
                f"A translation cannot hold the token {quote_untrusted(index)}; give ids of the vocabulary."
            )
    if EOS_ID in ids[:-1]:
        raise UserError("The given translation goes on behind its </s>; end it there.")
    if len(ids) > MAX_TARGET_TOKENS:
        raise _too_long("given translation", len(ids), MAX_TARGET_TOKENS)
    return ids


def _problem_of_text(text: str, max_tokens: int) -> UserError | None:
    if not normalise(text):
        return UserError("There is nothing to translate; type a sentence.")
    return _too_many_characters(text, max_tokens)


def _problem_of_ids(checkpoint: Checkpoint, ids: Sequence[int], max_tokens: int) -> UserError | None:
    pieces = checkpoint.source_tokenizer.pieces(ids)
    if all(piece in (UNK, SPACE) for piece in pieces):
        reads = language(checkpoint.info)
        return UserError(f"The model knows none of these characters; it reads {reads}.")
    if len(ids) >= max_tokens:
        return _too_long("sentence", len(ids) + 1, max_tokens)
    return None


def _too_many_characters(text: str, max_tokens: int) -> UserError | None:
    most = CHARACTERS_PER_TOKEN * max_tokens
    if len(text) <= most:
        return None
    return TooLongError(
        f"The text has {len(text):,} characters; the limit is {most:,}. Translate one sentence of at most "
        f"{max_tokens} tokens at a time."
    )


def _too_long(subject: str, tokens: int, limit: int) -> TooLongError:
    return TooLongError(
        f"The {subject} has {tokens} tokens; the limit is {limit}. Split it into shorter ones."
    )
