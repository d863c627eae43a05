"""The fields of requests: the type and the bounds of each kind of value.

Types are strict: a bool or a string never counts as a number. The model itself checks whether a head or a
token exists.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from model.errors import Sentence, UserError
from model.inputs import CHARACTERS_PER_TOKEN, MAX_TARGET_TOKENS, MAX_TOKENS, too_many_characters
from model.instruments import MAX_SAMPLE
from model.network.config import LARGEST
from model.results import KINDS, Head, Kind
from viz.limits import MAX_ADDRESS, MAX_HEADS, MAX_LIST_CHARACTERS, MAX_SENTENCES

MAX_CHARACTERS = CHARACTERS_PER_TOKEN * MAX_TOKENS  # no model reads more
MAX_STEP = 1_000_000_000


def _check_length(text: str) -> str:
    # Not Field(max_length=...), which refuses half a surrogate pair with a misleading message. A UserError
    # passes through pydantic as it is, so the page can say it in its language.
    if problem := too_many_characters(text, MAX_TOKENS):
        raise problem
    return text


def _without_repeats(heads: list[Head]) -> list[Head]:
    return list(dict.fromkeys(heads))


def _check_total(sentences: list[str]) -> list[str]:
    length = sum(map(len, sentences))
    if length > MAX_LIST_CHARACTERS:
        raise UserError(
            Sentence(
                "All sentences must have at most {most:,} characters in all; these have {length:,}. "
                "Shorten them.",
                length=length,
                most=MAX_LIST_CHARACTERS,
            )
        )
    return sentences


# A description completes the error message: “name” must be ...
def whole(low: int, high: int) -> Any:
    """A whole number from `low` to `high`."""
    return Field(ge=low, le=high, description=f"a whole number from {low} to {high:,}")


def _list(length: int, what: str) -> Any:
    return Field(max_length=length, description=f"a list of at most {length} {what}")


def _sentences(length: int) -> Any:
    return _list(length, f"sentences of {MAX_LIST_CHARACTERS:,} characters in all")


HEADS = f'heads, each [kind, layer, head] as in ["{KINDS[-1]}", 0, 3], layers and heads counted from 0'

Text = Annotated[
    str,
    AfterValidator(_check_length),
    Field(description=f"text of at most {MAX_CHARACTERS:,} characters"),
]
Address = Annotated[
    str, Field(max_length=MAX_ADDRESS, description=f"text of at most {MAX_ADDRESS:,} characters")
]
Language = Annotated[str, Field(max_length=8, description="the code of a language, such as de")]
Sentences = Annotated[list[Text], AfterValidator(_check_total)]
Index = Annotated[int, whole(0, MAX_TARGET_TOKENS)]
TokenIds = Annotated[list[int], _list(MAX_TARGET_TOKENS, "token ids")]
Places = Annotated[list[Index], _list(MAX_TOKENS, "places of source tokens")]
Heads = Annotated[list[Head], _list(MAX_HEADS, HEADS), AfterValidator(_without_repeats)]
KindName = Annotated[Kind, Field(description=f"one of: {', '.join(KINDS)}")]
WordId = Annotated[int, whole(0, LARGEST["target_vocabulary"])]
Step = Annotated[int, whole(0, MAX_STEP)]
Sample = Annotated[Sentences, _sentences(MAX_SAMPLE)]
OwnSentences = Annotated[Sentences, _sentences(MAX_SENTENCES)]
OptionalIndex = Annotated[Index | None, Field(description="the index of a head")]
OptionalWordId = Annotated[WordId | None, Field(description="the id of a word")]
OptionalCrossHead = Annotated[
    Head | None, Field(description=f'a head of cross-attention such as ["{KINDS[-1]}", 0, 3]')
]
