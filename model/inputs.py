"""Checks sentences and given translations, turns them into ids and groups them into batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from model.decoding.options import SearchOptions
from model.errors import Sentence, TooLongError, UserError, quote_untrusted
from model.notices import language, source_notices
from model.results import Source
from model.storage.checkpoint import Checkpoint, ModelInfo
from model.text.languages import TARGET_CODE, codes_of
from model.text.multilingual import MultilingualTokenizer
from model.text.scripts import INVISIBLE
from model.text.tokenizer import BOS, BOS_ID, EOS_ID, PAD_ID, SPACE, UNK, normalise

MAX_TOKENS = 128  # of a source sentence, </s> included
MAX_TARGET_TOKENS = SearchOptions().limit(MAX_TOKENS)  # of a given target
CHARACTERS_PER_TOKEN = 40  # limits a text before it is tokenised; no text within the token limit is longer
BATCH_TOKENS, GPU_BATCH_TOKENS = 4096, 65_536
DROPPED = Sentence("Invisible characters, such as soft hyphens, were left out of the sentence.")
NOTHING = Sentence("There is nothing to translate; type a sentence.")


def target_code(info: ModelInfo, wanted: str | None) -> str:
    """The code, such as >>fra<<, of the target language that is named by it, by fra or by fr.

    Empty for a model of one target language. Raises UserError if the model does not have the language, or has
    several and none is named.
    """
    known = info.target_languages
    if not known and wanted is None:
        return ""
    named = codes_of((wanted or "").strip("<>"))
    found = next((f">>{name}<<" for name in named if f">>{name}<<" in known), None)
    if found is not None:
        return found
    if not known:
        raise UserError(f"{info.title} translates into one language; leave out the target language.")
    some = ", ".join(code.strip("<>") for code in known[:5])
    lacks = f"has no language {quote_untrusted(wanted)}, but" if wanted else "translates into"
    raise UserError(f"{info.title} {lacks} {len(known)} languages; name one, such as {some}.")


def parse_source(checkpoint: Checkpoint, text: str, max_tokens: int = MAX_TOKENS) -> Source:
    """The sentence as the model reads it. Raises UserError if it is empty, too long or unknown."""
    tokenizer = checkpoint.source_tokenizer
    if problem := _problem_of_text(text, max_tokens):
        raise problem
    notices = [DROPPED] if INVISIBLE.search(text) else []
    text = INVISIBLE.sub("", text)
    if (code := _unknown_code(checkpoint, text)) is not None:
        notices.append(Sentence("The model has no language {code} and reads the code as text.", code=code))
    tokens = tokenizer.source_tokens(text)
    pieces = [token.piece for token in tokens[: len(tokens) - len(tokenizer.ending)]]
    if problem := _problem_of_pieces(checkpoint, pieces, max_tokens):
        raise problem
    written = normalise(text)
    return Source(
        written,
        tokens,
        language_prefix(checkpoint, written),
        tuple(tokenizer.first_ids(text)),
        (*source_notices(checkpoint, tokens), *notices),
    )


def _unknown_code(checkpoint: Checkpoint, text: str) -> str | None:
    """A code at the beginning of a text that a model of several languages does not have."""
    if not checkpoint.info.target_languages:
        return None
    code = TARGET_CODE.match(text[len(language_prefix(checkpoint, text)) :].lstrip())
    return None if code is None or code.group() in checkpoint.info.target_languages else code.group()


def language_prefix(checkpoint: Checkpoint, text: str) -> str:
    """What stands before the sentence in a text, with the space after it: a prompt or codes of languages.

    A model of many languages reads at most two codes, others one. What the model does not know is text.
    """
    info = checkpoint.info
    if prompt := max(filter(text.startswith, info.prompts), key=len, default=""):
        return prompt
    rest = text
    for _ in range(2 if isinstance(checkpoint.source_tokenizer, MultilingualTokenizer) else 1):
        code = TARGET_CODE.match(rest)
        if code is None or code.group() not in info.target_languages:
            break
        rest = rest[code.end() :].lstrip()
    return text[: len(text) - len(rest)]


def source_ids(checkpoint: Checkpoint, texts: Sequence[str], max_tokens: int) -> list[list[int] | UserError]:
    """The ids of each sentence with its </s>, or the reason why it cannot be translated."""
    problems = [_problem_of_text(text, max_tokens) for text in texts]
    readable = [
        "" if problem else INVISIBLE.sub("", text) for text, problem in zip(texts, problems, strict=True)
    ]
    tokenizer = checkpoint.source_tokenizer
    rows = tokenizer.encode_batch(readable)
    return [
        problem
        or _problem_of_pieces(checkpoint, tokenizer.pieces(row), max_tokens)
        or [*row, *tokenizer.ending]
        for row, problem in zip(rows, problems, strict=True)
    ]


def target_ids(checkpoint: Checkpoint, target: str | Sequence[int]) -> list[int]:
    """A given target as ids. Raises UserError if no translation can have them."""
    tokenizer = checkpoint.target_tokenizer
    if isinstance(target, str):
        if problem := too_many_characters(target, MAX_TOKENS):
            raise problem
        ids = tokenizer.encode(INVISIBLE.sub("", target))
    else:
        ids = list(target)
    for index in ids:
        if not 0 <= index < len(tokenizer) or index in (PAD_ID, BOS_ID):
            raise UserError(
                Sentence(
                    "A translation cannot contain token {token}; give ids of the vocabulary.",
                    token=quote_untrusted(index),
                )
            )
    if EOS_ID in ids[:-1]:
        raise UserError(Sentence("The given translation continues after its </s>; end it there."))
    if len(ids) > MAX_TARGET_TOKENS:
        raise TooLongError(
            Sentence(
                "The given translation has {tokens} tokens; the limit is {limit}. "
                "Split it into shorter ones.",
                tokens=len(ids),
                limit=MAX_TARGET_TOKENS,
            )
        )
    return ids


def batch_tokens(device: torch.device) -> int:
    """How many tokens of one side a batch has at most: a GPU needs many rows to be busy."""
    return BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS


def batches_by_length(lengths: Mapping[int, int], max_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """The keys of `lengths` in batches of similar lengths, the longest first.

    A batch has at most `max_tokens` tokens, padding included, or a single sentence.
    """
    order = sorted(lengths, key=lengths.__getitem__)
    while order:
        size = max(1, max_tokens // lengths[order[-1]])
        yield order[-size:]
        del order[-size:]


def _problem_of_text(text: str, max_tokens: int) -> UserError | None:
    if not normalise(text):
        return UserError(NOTHING)
    return too_many_characters(text, max_tokens)


def _problem_of_pieces(checkpoint: Checkpoint, pieces: Sequence[str], max_tokens: int) -> UserError | None:
    text = [each for each in pieces if each != BOS and not TARGET_CODE.fullmatch(each)]
    if pieces and not text:
        return UserError(NOTHING)
    if all(piece in (UNK, SPACE) for piece in text):
        reads = Sentence(language(checkpoint.info))
        return UserError(
            Sentence("The model knows none of these characters; it reads {language}.", language=reads)
        )
    if len(pieces) >= max_tokens:
        return TooLongError(
            Sentence(
                "The sentence has {tokens} tokens; the limit is {limit}. Split it into shorter ones.",
                tokens=len(pieces) + 1,
                limit=max_tokens,
            )
        )
    return None


def too_many_characters(text: str, max_tokens: int) -> TooLongError | None:
    """The error for a text that is too long to be tokenised, None for others."""
    most = CHARACTERS_PER_TOKEN * max_tokens
    if len(text) <= most:
        return None
    return TooLongError(
        Sentence(
            "The text has {length:,} characters; the limit is {most:,}. Translate one sentence of at most "
            "{tokens} tokens at a time.",
            length=len(text),
            most=most,
            tokens=max_tokens,
        )
    )
