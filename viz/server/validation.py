"""The requests: one pydantic model for each kind; the instruments' are made from their functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from model.decoding.options import PAGE_MAX_BEAM, PAGE_MAX_LENGTH_PENALTY
from model.errors import UserError
from model.inputs import MAX_TARGET_TOKENS
from model.storage.checkpoint import MAX_LABEL
from model.text.languages import join_prefix
from viz.server.fields import (
    Address,
    Heads,
    Index,
    Language,
    OwnSentences,
    Places,
    Sample,
    Step,
    Text,
    TokenIds,
    whole,
)

SENTENCES = ("text", "other", "sample", "sentences")  # fields with source sentences


class Request(BaseModel):
    """The fields of every request: model, sentence and options of the translation on screen."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    model: Text
    text: Text
    beam_size: Annotated[int, whole(1, PAGE_MAX_BEAM)]
    length_penalty: Annotated[
        float,
        Field(
            ge=0, le=PAGE_MAX_LENGTH_PENALTY, description=f"a number from 0 to {PAGE_MAX_LENGTH_PENALTY:g}"
        ),
    ]
    language_prefix: Annotated[
        str,
        Field(
            max_length=MAX_LABEL, description="a prompt, or codes of languages such as >>fra<< and a space"
        ),
    ] = ""  # stands before each sentence


class ForcedRequest(Request):
    """Asks for the translation that begins with these token ids."""

    forced: TokenIds


class TargetRequest(Request):
    """Asks about the translation with exactly these token ids."""

    ids: TokenIds


class SummaryRequest(TargetRequest):
    """Asks what mattered in a translation that begins with `forced`."""

    forced: TokenIds = []


class HiddenRequest(Request):
    """Asks for the translation without the source tokens in these places; it begins with `forced`."""

    places: Places
    forced: TokenIds = []


class OptionalTargetRequest(Request):
    """As TargetRequest; without `ids` it is about the model's own translation."""

    ids: TokenIds = []

    @property
    def target(self) -> list[int] | None:
        """The ids, or None when the request has none."""
        return self.ids if "ids" in self.model_fields_set else None


class BaselineRequest(Request):
    """Says what muted heads give: nothing, their mean over `sample`, or what they give for `other`."""

    baseline: Annotated[
        Literal["zero", "mean", "sentence"], Field(description="one of: zero, mean, sentence")
    ] = "zero"
    sample: Sample = []
    other: Text = ""


class ImportanceRequest(OptionalTargetRequest, BaselineRequest):
    """Asks what muting each head alone changes."""


class MutedRowRequest(BaselineRequest):
    """As BaselineRequest; with a `row`, only this row of the heads changes."""

    row: Annotated[int | None, whole(0, MAX_TARGET_TOKENS)] = None


class MuteRequest(OptionalTargetRequest, MutedRowRequest):
    """Asks what muting these heads changes; the translation without them begins with `forced`."""

    heads: Heads
    forced: TokenIds = []


class ScoreRequest(Request):
    """Asks for the score of a translation given as text."""

    target: Text


class ExamplesRequest(Request):
    """Asks what every head does over these sentences; `text` plays no part."""

    sentences: OwnSentences


class TrainingSentenceRequest(Request):
    """Asks about one sentence at every saved step of the training."""

    sentence: Index


class TrainingStepRequest(TrainingSentenceRequest):
    """Asks for one sentence at one saved step of the training."""

    step: Step


class PortableRequest(Request):
    """Asks for a page with the model.

    `view` is the address of the view on which it opens, `language` the code of the language that it speaks.
    """

    view: Address = ""
    language: Language = "en"


class ExportRequest(ForcedRequest, MutedRowRequest):
    """Asks for the files of a record, and for the API calls.

    These give the record or, if `heads` are named, what muting them changes.

    `shows_muted` says that the translation with `heads` muted is on screen, so that the files hold it.
    `address` is the page's, for these calls. `view` is the address of the view on which the HTML file opens,
    `language` the code of the language that the file speaks.
    """

    heads: Heads
    shows_muted: Annotated[bool, Field(description="true or false")] = False
    address: Text
    view: Address = ""
    language: Language = "en"

    @property
    def muted(self) -> Mapping[str, object]:
        """The muted heads and what they give instead, as the viewer keeps them."""
        sentence = self.other.removeprefix(self.language_prefix)
        ablation = {"baseline": self.baseline, "sentence": sentence, "row": self.row}
        return {"heads": [list(head) for head in self.heads], "ablation": ablation}


R = TypeVar("R", bound=Request)


def parse(kind: type[R], request: object) -> R:
    """Return the request as its model. Raises UserError, which names the first wrong field."""
    if not isinstance(request, dict):
        raise UserError("A request must be an object that names the model and the sentence.")
    try:
        return kind.model_validate(request)
    except ValidationError as error:
        (name, *_) = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
        wanted = kind.model_fields[str(name)].description
        raise UserError(f"“{name}” must be {wanted}.") from error


def with_prefix_in_text(request: R) -> R:
    """The request with its prefix before every sentence, as the model reads it."""

    def join(sentences: str | list[str]) -> str | list[str]:
        if isinstance(sentences, str):
            return join_prefix(request.language_prefix, sentences)
        return [join_prefix(request.language_prefix, sentence) for sentence in sentences]

    given = {name: value for name in SENTENCES if (value := getattr(request, name, None))}
    return request.model_copy(update={name: join(value) for name, value in given.items()})
