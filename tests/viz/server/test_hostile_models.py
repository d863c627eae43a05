"""Requests about models that a stranger made to stop the server."""

from __future__ import annotations

import pytest

from model.translator import Translator
from tests.hostile.tokenizers import LETTER, slow_checkpoint
from tests.viz.questions import COMMON
from viz.server.backend import Backend
from viz.server.handlers import CHEAPEST


@pytest.fixture(scope="module")
def backend() -> Backend:
    return Backend({"slow": Translator(slow_checkpoint(), "slow")})


def test_a_text_that_the_tokenizer_makes_too_long_is_refused_and_counted(backend: Backend):
    request = {**COMMON, "do": "translate", "model": "slow", "text": LETTER * 5000, "prefix": []}
    assert "makes this text too long" in backend.answer(request)["error"]
    assert backend.estimate_seconds(request) > CHEAPEST
