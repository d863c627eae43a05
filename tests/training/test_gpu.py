"""Training on a GPU equals training on a CPU. Machines without a GPU skip these tests."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from accelerate.state import AcceleratorState

from model.storage.checkpoint import load
from model.storage.run import LATEST
from model.translator import Translator
from tests.numerics import assert_exact, assert_float32
from tests.training.test_loss import LINKS, SOURCES, TARGETS, taught_loss
from tests.training.tiny import REVERSE, collate, prepared, run, state_of
from training.loss import SequenceLoss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_losses_and_gradients_are_those_of_a_cpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("training.loss.compiled_kernels", lambda _: None)  # they know no float64

    def on(device: torch.device, loss: SequenceLoss) -> list[torch.Tensor]:
        terms = loss.to(device)(collate(SOURCES, TARGETS, device, LINKS))
        (terms.translation + terms.alignment).backward()
        gradients = [parameter.grad for parameter in loss.parameters()]
        return [each.detach().cpu() for each in (*terms, *gradients)]

    loss = taught_loss()
    assert_float32(on(GPU, copy.deepcopy(loss)), lambda other: on(CPU, other), loss)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_run_is_trained_resumed_and_read_on_a_cpu(tmp_path, data, monkeypatch, optimizer, precision):
    monkeypatch.setattr("training.hardware.bfloat16_pays", lambda: precision == "bf16")
    monkeypatch.setattr(AcceleratorState, "_shared_state", {})  # another precision than the last test's
    config = replace(REVERSE, optimizer=optimizer)
    run(replace(config, max_steps=7), data, tmp_path / "run")
    trainer = prepared(config, data, tmp_path / "run", resume=True)
    assert trainer.accelerator.device.type == "cuda"
    trainer.run()
    assert state_of(tmp_path / "run")[1]["step"] == config.max_steps
    assert Translator.load(tmp_path / "run" / LATEST).translate("abc").ids


def test_a_model_translates_as_on_a_cpu(tmp_path, data):
    run(REVERSE, data, tmp_path / "run")
    found = []
    for device in (CPU, GPU):
        checkpoint = load(tmp_path / "run" / LATEST)
        checkpoint.model.double().to(device)
        found.append(Translator(checkpoint, use_kernels=False).score("abc", "cba"))
    assert_exact(found[1].log_probabilities, found[0].log_probabilities)
    for kind in ("encoder", "decoder", "cross"):
        assert_exact(*(getattr(each.attention, kind) for each in found))
