"""Publishing: the same model in half the size, with its record and the card that people wrote."""

from __future__ import annotations

from model.storage.checkpoint import CARD, WEIGHTS, load, save
from model.storage.probes import PROBES
from model.storage.training_log import METRICS
from tests.model.helpers import tiny_checkpoint
from training.run.publish import publish


def test_weights_are_nearly_the_same_in_less_room(tmp_path):
    model, output = tmp_path / "model", tmp_path / "shared"
    save(tiny_checkpoint(seed=1, d_model=48, d_ff=96), model, "A card of the run.")
    publish(model, output)
    before, after = load(model), load(output)
    for one, other in zip(before.model.parameters(), after.model.parameters(), strict=True):
        largest = one.abs().amax(-1, keepdim=True)
        assert ((one - other).abs() <= largest / 253 + 1e-6).all()
    assert (output / WEIGHTS).stat().st_size < 0.75 * (model / WEIGHTS).stat().st_size
    assert after.card == "A card of the run."


def test_the_record_comes_along_and_a_card_that_is_there_stays(tmp_path):
    model, output = tmp_path / "model", tmp_path / "shared"
    save(tiny_checkpoint(seed=1), model, "A card of the run.")
    (model / METRICS).write_text('{"step": 1}\n')
    (model / PROBES).write_bytes(b"probes")
    output.mkdir()
    (output / CARD).write_text("By hand.")
    publish(model, output)
    assert (output / CARD).read_text() == "By hand."
    assert (output / METRICS).read_text() == '{"step": 1}\n'
    assert (output / PROBES).read_bytes() == b"probes"


def test_no_record_of_another_training_stays(tmp_path):
    model, output = tmp_path / "model", tmp_path / "shared"
    save(tiny_checkpoint(seed=1), model, "A card of the run.")
    output.mkdir()
    (output / PROBES).write_bytes(b"another model's")
    publish(model, output)
    assert not (output / PROBES).exists()
