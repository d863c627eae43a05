"""Warnings about a translation, in one sentence each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from model.analysis.thresholds import THRESHOLDS
from model.errors import Sentence
from model.results import Hypothesis, Source, Token
from model.storage.checkpoint import Checkpoint, ModelInfo
from model.text.languages import language_names
from model.text.multilingual import MultilingualTokenizer
from model.text.tokenizer import EOS_ID

WORD = re.compile(r"[^\W\d_]{2,}")  # of two letters or more


def language(info: ModelInfo) -> str:
    """The name of the language that the model reads, or the names of all."""
    return language_names(info.source_language)


def source_notices(checkpoint: Checkpoint, source: Sequence[Token]) -> tuple[str, ...]:
    """Unknown characters of a sentence."""
    unknown = [token.text for token in source if token.special and token.word is not None]
    if not unknown:
        return ()
    listed = ", ".join(f"“{text}”" for text in dict.fromkeys(unknown))
    found = [Sentence("The model does not know {words} and reads it as <unk>.", words=listed)]
    if any(text != text.lower() for text in unknown) and _knows_no_capitals(checkpoint):
        found.append(Sentence("The model knows lower-case letters only."))
    return tuple(found)


def find_notices(
    checkpoint: Checkpoint, source: Source, hypothesis: Hypothesis, n_forced: int = 0, changed: bool = False
) -> tuple[str, ...]:
    """Notices of the source, a missing code of the target language, a copy, low probability, a cut.

    The first `n_forced` tokens were given: the probability is about the others. Without others there is a
    notice if the model finds the given translation hardly likely. With words forced or heads muted
    (`changed`), a low one says nothing about the language.
    """
    chosen = hypothesis.log_probabilities[n_forced:]
    if not chosen:
        return _given_notices(hypothesis)
    found = list(source.notices)
    if (code := _missing_code(checkpoint, source.tokens, hypothesis)) is not None:
        found.append(
            Sentence("Begin the sentence with the code of a target language, such as {code}.", code=code)
        )
    reads = Sentence(language(checkpoint.info))
    if not changed and is_copied(source.sentence, hypothesis.text):
        found.append(
            Sentence(
                "Many words of the sentence stand unchanged in the translation; the model reads {language}.",
                language=reads,
            )
        )
    elif sum(chosen) / len(chosen) < THRESHOLDS["unsure_translation"]:
        found.append(
            Sentence("After your change, the model is unsure of this translation.")
            if changed
            else Sentence("The model is unsure of this translation; it reads {language}.", language=reads)
        )
    if hypothesis.ids[-1] != EOS_ID:
        found.append(Sentence("The translation was cut at the length limit."))
    return tuple(found)


def is_copied(sentence: str, translation: str) -> bool:
    """Whether so many words stand in the translation as they are that it is hardly one."""
    words, kept = (WORD.findall(text.lower()) for text in (sentence, translation))
    repeated = sum(word in kept for word in words)
    return len(words) >= THRESHOLDS["copied_words"] and repeated >= THRESHOLDS["copied"] * len(words)


def _given_notices(hypothesis: Hypothesis) -> tuple[str, ...]:
    """What is said of a translation that was given as a whole."""
    values = hypothesis.log_probabilities
    if not values or sum(values) / len(values) >= THRESHOLDS["unrelated"]:
        return ()
    return (Sentence("The given translation hardly belongs to this sentence, as the model sees it."),)


def _knows_no_capitals(checkpoint: Checkpoint) -> bool:
    tokenizer = checkpoint.source_tokenizer
    return all(piece == piece.lower() for piece in tokenizer.pieces(range(len(tokenizer))))


def _missing_code(checkpoint: Checkpoint, source: Sequence[Token], hypothesis: Hypothesis) -> str | None:
    """The first code of a model with several target languages, if the sentence names none of them."""
    codes = checkpoint.info.target_languages
    many = isinstance(checkpoint.source_tokenizer, MultilingualTokenizer)
    first = checkpoint.target_tokenizer.tokens(hypothesis.ids[:1])[0] if many else source[0]
    return codes[0] if codes and first.piece not in codes else None
