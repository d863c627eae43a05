"""The saved state: it loads completely, and a failed write keeps the previous one."""

from __future__ import annotations

import dataclasses
import errno
from pathlib import Path

import pytest
import torch

import model.storage.checkpoint
import training.run.resume
from model.errors import UserError
from model.network.transformer import Transformer
from model.storage.checkpoint import Checkpoint, ModelInfo, load, save
from model.text.tokenizer import Tokenizer
from tests.training.tiny import SHAPE, collate
from training.loss import SequenceLoss
from training.run.resume import Progress, Snapshot, load_state, save_state, seed_step

PROGRESS = Progress(
    step=7, epoch=2, batch=3, best=41.5, seconds=12.25, snapshots=[Snapshot(5, 41.5), Snapshot(7, 30.0)]
)
TOKENIZER = Tokenizer.train(["abc"], "character")
CPU = torch.device("cpu")


def trained(seed: int, steps: int = 2) -> tuple[Transformer, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    size = len(TOKENIZER)
    config = dataclasses.replace(SHAPE, source_vocabulary=size, target_vocabulary=size)
    net = Transformer(config)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(steps):
        train_once(net, optimizer)
    return net, optimizer


def train_once(net: Transformer, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    SequenceLoss(net, 0.1).train()(collate([[4, 5, 6]], [[6, 5, 4]], CPU)).translation.backward()
    optimizer.step()


def weights(net: Transformer) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in net.parameters()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(a.equal(b) for a, b in zip(one, other, strict=True))


def fails_midway(tensors, path, *rest) -> None:
    Path(path).write_bytes(b"half a file")
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("steps", [0, 2])
def test_training_continues_from_a_loaded_state_as_if_it_had_not_stopped(tmp_path, steps):
    net, optimizer = trained(1, steps)
    save_state(tmp_path / "state", net, optimizer, PROGRESS)
    other, other_optimizer = trained(2)
    assert load_state(tmp_path / "state", other, other_optimizer) == PROGRESS
    for one, two in zip(net.parameters(), other.parameters(), strict=True):
        before, after = optimizer.state[one], other_optimizer.state[two]
        assert before.keys() == after.keys() >= ({"exp_avg", "exp_avg_sq", "step"} if steps else set())
        assert all(before[key].equal(after[key]) for key in before)
    for each in ((net, optimizer), (other, other_optimizer)):
        seed_step(1, PROGRESS.step, 0)
        train_once(*each)
    assert same(weights(net), weights(other))


def test_saving_does_not_change_training(tmp_path):
    runs = []
    for saves in (False, True):
        net, optimizer = trained(1)
        if saves:
            save_state(tmp_path / "state", net, optimizer, PROGRESS)
        train_once(net, optimizer)
        runs.append(weights(net))
    assert same(*runs)


def test_a_full_disk_keeps_the_previous_state(tmp_path, monkeypatch):
    net, optimizer = trained(1)
    save_state(tmp_path / "state", net, optimizer, PROGRESS)
    before = weights(net)
    train_once(net, optimizer)
    monkeypatch.setattr(training.run.resume, "save_file", fails_midway)
    with pytest.raises(OSError, match="No space left"):
        save_state(tmp_path / "state", net, optimizer, Progress(step=8))
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
    other, other_optimizer = trained(2)
    assert load_state(tmp_path / "state", other, other_optimizer) == PROGRESS
    assert same(weights(other), before)


def test_a_full_disk_keeps_the_previous_model_directory(tmp_path, monkeypatch):
    net, optimizer = trained(1)
    checkpoint = Checkpoint(net, TOKENIZER, TOKENIZER, ModelInfo("a", "b", "A → B"))
    save(checkpoint, tmp_path)
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    train_once(net, optimizer)
    monkeypatch.setattr(model.storage.checkpoint, "save_file", fails_midway)
    with pytest.raises(OSError, match="No space left"):
        save(checkpoint, tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == files
    load(tmp_path)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        *((share, "is broken .* start the run again") for share in (0.0, 0.01, 0.5, 0.99)),
        *((place, "its bytes have changed") for place in (-1, -500, -5000)),
    ],
)
def test_a_state_cut_short_or_with_a_flipped_bit_is_refused_with_a_sentence(tmp_path, place, message):
    net, optimizer = trained(1)
    save_state(tmp_path / "state", net, optimizer, PROGRESS)
    damaged = bytearray((tmp_path / "state").read_bytes())
    if place < 0:
        damaged[place] ^= 64
    else:
        del damaged[int(place * len(damaged)) :]
    (tmp_path / "state").write_bytes(damaged)
    with pytest.raises(UserError, match=message):
        load_state(tmp_path / "state", net, optimizer)


def test_a_state_of_another_model_is_refused(tmp_path):
    net, optimizer = trained(1)
    save_state(tmp_path / "state", net, optimizer, PROGRESS)
    wide = Transformer(dataclasses.replace(net.config, d_ff=64))
    with pytest.raises(UserError, match="shape"):
        load_state(tmp_path / "state", wide, torch.optim.AdamW(wide.parameters()))


def test_random_numbers_depend_only_on_seed_step_and_process():
    def draw(*key: int) -> torch.Tensor:
        seed_step(*key)
        return torch.rand(8)

    assert draw(1, 2, 3).equal(draw(1, 2, 3))
    keys = [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (2, 1, 3)]
    assert len({tuple(draw(*key).tolist()) for key in keys}) == len(keys)
