"""The mean of snapshots and models, and publishing in 8 bits with the curves, the probes and the card."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model.errors import UserError
from model.storage.card import read_card, write_card
from model.storage.checkpoint import WEIGHTS, load, save
from model.storage.probes import PROBES
from model.storage.training_log import METRICS
from model.translator import Translator
from tests.model.helpers import tiny_checkpoint
from tests.training.tiny import REVERSE, state_of
from training.run.average import average_models, publish
from training.run.damage import BEST


@pytest.fixture
def finished(reference):
    return reference(replace(REVERSE, validate_every=3, keep_last=3))


def assert_rounded_to_16_bits(found, wanted):
    """Rounded once to a float16 of 11 bits, after a mean in float32; the smallest step is 2^-24."""
    assert ((found - wanted).abs() <= 1.001 * 2**-11 * wanted.abs() + 2**-25).all()


@pytest.mark.parametrize("choice", [{"last": 3, "best": 0}, {"last": 0, "best": 2}], ids=["last", "best"])
def test_each_weight_is_the_mean_of_the_chosen_snapshots(finished, tmp_path, choice):
    every = state_of(finished)[1]["snapshots"]
    if choice["last"]:
        wanted = every[-3:]
    else:
        wanted = sorted(sorted(every, key=lambda each: -each["score"])[:2], key=lambda each: each["step"])
    found = average_models([finished], **choice, output=tmp_path / "mean")
    names = [f"{finished.name} at step {each['step']:,} ({each['score']:.2f})" for each in wanted]
    assert [each.name for each in found] == names
    models = [load(each.directory).model for each in found]
    mean = dict(load(tmp_path / "mean").model.named_parameters())
    for name, parameter in mean.items():
        stacked = torch.stack([dict(model.named_parameters())[name] for model in models])
        assert_rounded_to_16_bits(parameter, stacked.mean(0))
        assert not stacked[0].equal(stacked[1])
    assert Translator.load(tmp_path / "mean").translate("abc").ids


def test_the_mean_of_one_snapshot_is_that_snapshot(finished, tmp_path):
    (only,) = average_models([finished], 1, 0, tmp_path / "mean")
    one, other = load(tmp_path / "mean").model, load(only.directory).model
    assert all(a.equal(b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_the_mean_of_two_runs_is_that_of_their_snapshots(finished, reference, tmp_path):
    dropout = replace(REVERSE.model, dropout=0.3)
    other = reference(replace(REVERSE, peak_learning_rate=2e-2, model=dropout))
    found = average_models([finished, other], 1, 0, tmp_path / "mean")
    models = [load(each.directory).model for each in found]
    for name, parameter in load(tmp_path / "mean").model.named_parameters():
        one, two = (dict(model.named_parameters())[name] for model in models)
        assert_rounded_to_16_bits(parameter, (one + two) / 2)
    assert (tmp_path / "mean" / METRICS).read_bytes() == (other / METRICS).read_bytes()


def test_a_model_counts_once_beside_the_snapshots_of_a_run(finished, tmp_path):
    former = tmp_path / "former"
    publish(finished / BEST, former)
    found = average_models([former, finished], 2, 0, tmp_path / "mean")
    assert found[0] == (former, "former")
    models = [dict(load(each.directory).model.named_parameters()) for each in found]
    assert len(models) == 3
    for name, parameter in load(tmp_path / "mean").model.named_parameters():
        assert_rounded_to_16_bits(parameter, torch.stack([model[name] for model in models]).mean(0))
    assert str(tmp_path) not in load(tmp_path / "mean").card


NETWORK = {"model": replace(REVERSE.model, n_heads=1)}
VOCABULARY = {"tokenizer": "word"}


@pytest.mark.parametrize(
    ("change", "reason"), [(NETWORK, "different networks"), (VOCABULARY, "different vocabularies")]
)
def test_runs_that_do_not_fit_together_are_refused(finished, reference, tmp_path, change, reason):
    other = reference(replace(REVERSE, **change))
    with pytest.raises(UserError, match=reason):
        average_models([finished, other], 1, 0, tmp_path / "mean")


@pytest.mark.parametrize(("last", "best"), [(0, 0), (2, 2), (-1, 0)])
def test_one_number_must_be_given(finished, tmp_path, last, best):
    with pytest.raises(UserError, match="either --last N or --best N"):
        average_models([finished], last, best, tmp_path / "mean")


def test_a_missing_run_or_snapshot_is_reported(finished, tmp_path):
    with pytest.raises(UserError, match="neither a run nor a model in"):
        average_models([tmp_path], 2, 0, tmp_path / "mean")
    with pytest.raises(UserError, match="keeps its last 3 and its best 5"):
        average_models([finished], 50, 0, tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


# Publishing


def test_published_weights_are_nearly_the_same_and_smaller(tmp_path):
    model, output = tmp_path / "model", tmp_path / "shared"
    save(tiny_checkpoint(seed=1, d_model=48, d_ff=96), model, {"title": "A card of the run"})
    publish(model, output)
    before, after = load(model), load(output)
    for one, other in zip(before.model.parameters(), after.model.parameters(), strict=True):
        # Matrices in steps of a 127th of the row's largest number, vectors in 16 bits.
        allowed = 0.501 / 127 * one.abs().amax(-1, keepdim=True)
        assert ((one - other).abs() <= allowed).all()
    assert (output / WEIGHTS).stat().st_size < 0.75 * (model / WEIGHTS).stat().st_size
    assert after.card == {"title": "A card of the run"}


def test_curves_and_probes_are_copied_and_an_existing_card_stays(tmp_path):
    model, output = tmp_path / "model", tmp_path / "shared"
    save(tiny_checkpoint(seed=1), model, {"title": "A card of the run"})
    (model / METRICS).write_text('{"step": 1}\n')
    (model / PROBES).write_bytes(b"probes")
    output.mkdir()
    write_card(output, {"title": "By hand"})
    publish(model, output)
    assert read_card(output) == {"title": "By hand"}
    assert (output / METRICS).read_text() == '{"step": 1}\n'
    assert (output / PROBES).read_bytes() == b"probes"


def test_probes_of_another_training_are_removed(tmp_path):
    model, output = tmp_path / "model", tmp_path / "shared"
    save(tiny_checkpoint(seed=1), model, {"title": "A card of the run"})
    output.mkdir()
    (output / PROBES).write_bytes(b"another model's")
    publish(model, output)
    assert not (output / PROBES).exists()
