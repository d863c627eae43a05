"""The trainer of the playground computes what PyTorch does: losses, attention, gradients and Adam's steps.

The reference is float64, so that only the trainer's rounding counts. The bounds are those that the playground
promises: 1e-5 for a gradient and 1e-4 for a loss. They leave room for float32, in which a number near 1 is
rounded by 6e-8 and a sum of a few hundred such products by some 1e-6.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.tokenizer import BOS_ID, EOS_ID
from tests.viz.node import run_node

GRADIENT, LOSS, WEIGHT = 1e-5, 1e-4, 1e-5
STEPS, RATE = 50, 5e-3
KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Case:
    """A model and batches of sentences, each a source and a target."""

    config: ModelConfig
    batches: list[list[tuple[list[int], list[int]]]]
    is_causal: bool

    @property
    def packed(self) -> list[dict[str, list[int]]]:
        """The batches as the trainer reads them."""
        return [_packed(batch, self.is_causal) for batch in self.batches]


def _packed(batch: Sequence[tuple[list[int], list[int]]], is_causal: bool) -> dict[str, list[int]]:
    packed: dict[str, list[int]] = {"source": [], "read": [], "labels": [], "sources": [0], "targets": [0]}
    for source, target in batch:
        packed["source"] += [*source, EOS_ID]
        packed["labels"] += [*target, EOS_ID]
        packed["read"] += _read(target, is_causal)
        packed["sources"].append(len(packed["source"]))
        packed["targets"].append(len(packed["labels"]))
    return packed


def _read(target: list[int], is_causal: bool) -> list[int]:
    return [BOS_ID, *target] if is_causal else [*target, EOS_ID]


def make_case(
    seed: int, layers: int, *, positions: bool = True, is_causal: bool = True, batches: int = 1
) -> Case:
    """A random case; heads, width, vocabulary and lengths depend on the seed."""
    draw = random.Random(seed)
    heads = draw.choice((1, 2, 4))
    config = ModelConfig(
        source_vocabulary=(vocabulary := draw.randint(10, 45)),
        target_vocabulary=vocabulary,
        d_model=(width := draw.choice((16, 32, 64))),
        d_ff=2 * width,
        n_heads=heads,
        n_encoder_layers=layers,
        n_decoder_layers=layers,
        dropout=0.0,
        positions="sinusoidal" if positions else "none",
    )

    def word() -> list[int]:
        return [draw.randrange(4, vocabulary) for _ in range(draw.randint(1, 9))]

    pairs = [[(word(), word()) for _ in range(draw.randint(2, 4))] for _ in range(batches)]
    return Case(config, pairs, is_causal)


def reference(case: Case, seed: int) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(case.config)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and gains too, which begin alike
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.double().eval()


def loss_of(model: Transformer, batch: Sequence[tuple[list[int], list[int]]], is_causal: bool) -> Tensor:
    """The mean cross-entropy of a batch, a sentence at a time; without a mask the decoder sees its labels."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for source, target in batch:
        logits = model(torch.tensor([[*source, EOS_ID]]), torch.tensor([_read(target, is_causal)]))[0]
        total = total + F.cross_entropy(logits, torch.tensor([*target, EOS_ID]), reduction="sum")
        count += len(target) + 1
    return total / count


def ask(
    folder: Path, case: Case, model: Transformer, *, rate: float = 0.0, wasm: bool = True
) -> dict[str, Any]:
    """What the trainer answers from these weights."""
    questions = {
        "shape": case.config.to_json(),
        "weights": {name: each.flatten().tolist() for name, each in model.named_parameters()},
        "batches": case.packed,
        "isCausal": case.is_causal,
        "rate": rate,
        "wasm": wasm,
    }
    (folder / "questions.json").write_text(json.dumps(questions), "utf-8")
    run_node(folder, Path(__file__).parent, "tests/gradients.mjs")
    answer: dict[str, Any] = json.loads((folder / "answers.json").read_text("utf-8"))
    return answer


@pytest.fixture
def without_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder of the reference sees the whole target."""
    monkeypatch.setattr(
        "model.network.transformer.causal_mask",
        lambda queries, keys, device: torch.ones(queries, keys).bool(),
    )


@pytest.mark.parametrize("wasm", [True, False], ids=["wasm", "plain"])
@pytest.mark.parametrize("layers", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("positions", [True, False], ids=["positions", "none"])
@pytest.mark.parametrize("is_causal", [True, False], ids=["mask", "peeks"])
def test_gradients_are_those_of_torch(tmp_path, request, wasm, layers, positions, is_causal):
    if not is_causal:
        request.getfixturevalue("without_mask")
    seed = layers + 2 * positions + 4 * is_causal
    case = make_case(seed, layers, positions=positions, is_causal=is_causal)
    model = reference(case, seed)
    loss = loss_of(model, case.batches[0], is_causal)
    loss.backward()
    answer = ask(tmp_path, case, model, wasm=wasm)
    assert answer["loss"] == pytest.approx(loss.item(), abs=GRADIENT)
    assert answer["gradients"].keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        found = torch.tensor(answer["gradients"][name], dtype=torch.float64).view_as(parameter)
        torch.testing.assert_close(
            found, parameter.grad, rtol=0, atol=GRADIENT, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("layers", [1, 2])
def test_attention_weights_are_those_of_torch(tmp_path, layers):
    case = make_case(20 + layers, layers)
    model = reference(case, layers)
    answer = ask(tmp_path, case, model)
    for place, (source, target) in enumerate(case.batches[0]):
        with torch.no_grad():
            encoded = model.encode(torch.tensor([[*source, EOS_ID]]), explicit=True)
            decoded = model.decode(torch.tensor([_read(target, True)]), encoded, explicit=True)
        expected = (encoded.weights, decoded.self_weights, decoded.cross_weights)
        for kind, each in zip(KINDS, expected, strict=True):
            assert each is not None
            found = torch.tensor([layer[place] for layer in answer["attention"][kind]], dtype=torch.float64)
            torch.testing.assert_close(found.view_as(each[0]), each[0], rtol=0, atol=WEIGHT)


@cache
def training_of_torch() -> tuple[Case, list[float]]:
    """Batches, and the losses of one step of Adam on each."""
    case = make_case(8, 1, batches=STEPS)
    model = reference(case, 8)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-8)
    losses = []
    for batch in case.batches:
        optimiser.zero_grad()
        loss = loss_of(model, batch, is_causal=True)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return case, losses


@pytest.mark.parametrize("wasm", [True, False], ids=["wasm", "plain"])
def test_losses_of_many_steps_are_those_of_torch(tmp_path, wasm):
    case, losses = training_of_torch()
    answer = ask(tmp_path, case, reference(case, 8), rate=RATE, wasm=wasm)
    assert answer["losses"] == pytest.approx(losses, abs=LOSS)
    assert losses[-1] < losses[0]
