"""Answers the instruments, by requests made from `viz.instruments`, and *In short* and examples."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any, get_type_hints

from pydantic import create_model

from model import Translator
from viz.instruments import INSTRUMENTS, Values
from viz.server.handlers.registry import Work, handler
from viz.server.validation import ExamplesRequest, Request, SummaryRequest
from viz.summary import summary_values
from viz.survey import SurveyValues, survey_values

Fields = dict[str, Any]  # type and default, by name


def _own_fields(values: Values) -> Fields:
    """The fields of an instrument's request: the parameters of its function after translator and text."""
    hints = get_type_hints(values, include_extras=True)
    _, _, *own = signature(values).parameters.values()
    return {
        each.name: (hints[each.name], ... if each.default is Parameter.empty else each.default)
        for each in own
    }


def _answer(values: Values, fields: Fields) -> Work:
    return lambda translator, asked: values(
        translator, asked.text, **{name: getattr(asked, name) for name in fields}
    )


for _name, _instrument in INSTRUMENTS.items():
    _fields = _own_fields(_instrument.values)
    _request = create_model(_name, __base__=Request, **_fields)
    handler(_name, _request, cost=_instrument.cost)(_answer(_instrument.values, _fields))


@handler("summary", SummaryRequest, cost=6.0)
def summary(translator: Translator, request: SummaryRequest) -> Mapping[str, object]:
    """What the page says about the translation `ids` in short."""
    options = request.beam_size, request.length_penalty, request.forced
    return summary_values(translator, request.text, request.ids, *options)


# Its cost is the cost of the sentences. Not cached, so that nothing is kept of what a visitor pastes.
@handler("examples", ExamplesRequest, cost=0.0, is_cached=False)
def examples(translator: Translator, request: ExamplesRequest) -> SurveyValues:
    """What every head does over some of the visitor's sentences; the page asks again for the next ones."""
    return survey_values(translator, request.sentences, request.beam_size, request.length_penalty)
