"""Requests about models that a stranger made to stop the server."""

from __future__ import annotations

import logging

import pytest
import torch

from model.decoding.kernels.compilation import COMPILATION
from model.errors import NOT_FINITE
from model.translator import Translator
from tests.hostile.tokenizers import LETTER, slow_checkpoint
from tests.model.helpers import tiny_checkpoint
from tests.viz.questions import COMMON, GOOD, OF_FILES
from viz.payload import to_json
from viz.server.backend import Backend
from viz.server.handlers import CHEAPEST


@pytest.fixture(scope="module")
def backend() -> Backend:
    return Backend({"slow": Translator(slow_checkpoint(), "slow")})


def test_a_text_that_the_tokenizer_makes_too_long_is_refused_and_counted(backend: Backend):
    request = {**COMMON, "do": "translate", "model": "slow", "text": LETTER * 5000, "forced": []}
    assert "makes this text too long" in backend.answer(request)["error"]
    assert backend.estimate_seconds(request) > CHEAPEST


@pytest.mark.parametrize("use_kernels", [False, True])
@pytest.mark.parametrize("part", ["", "tokens", "encoder.0.self_attention.project"])
def test_weights_that_are_too_large_are_one_sentence(
    part: str, use_kernels: bool, caplog: pytest.LogCaptureFixture
):
    checkpoint = tiny_checkpoint(seed=1)
    with torch.no_grad():
        for name, parameter in checkpoint.model.named_parameters():
            if part in name:
                parameter.copy_(parameter.sign() * 3e38)
    assert not use_kernels or COMPILATION.ready(timeout=300)
    backend = Backend({"large": Translator(checkpoint, "large", use_kernels=use_kernels)})
    asked = {do: fields for do, fields in GOOD.items() if not do.startswith(OF_FILES)}
    refused = set()
    with caplog.at_level(logging.WARNING):
        for do, fields in asked.items():
            reply = backend.answer({**COMMON, "do": do, **fields, "model": "large"})
            try:
                to_json(reply)
            except ValueError:  # which the scheduler answers in the same sentence
                reply = {"error": NOT_FINITE}
            assert reply.get("error", NOT_FINITE) == NOT_FINITE, do
            if "error" in reply:
                refused.add(do)
    assert asked.keys() - refused <= {"routes", "examples"}
    assert not caplog.records
