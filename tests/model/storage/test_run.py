"""Runs among the models of a folder, and whether they go on."""

from __future__ import annotations

import pytest

from model.storage.run import LATEST, RUN, goes_on, history_directory, models_and_runs
from training.run.directory import locked


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "small"
    (folder / LATEST).mkdir(parents=True)
    (folder / RUN).write_text("{}")
    return folder


def test_a_run_is_in_the_list_with_its_latest_model(run):
    other = run.parent / "model"
    other.mkdir()
    (other / "config.json").write_text("{}")
    assert models_and_runs(run.parent) == {"model": other, "small": run / LATEST}


def test_a_run_without_a_model_yet_is_not_in_the_list(run):
    (run / LATEST).rmdir()
    assert models_and_runs(run.parent) == {}


def test_the_record_of_a_latest_model_is_that_of_its_run(run, tmp_path):
    assert history_directory(run / LATEST) == run
    alone = tmp_path / "elsewhere" / LATEST
    assert history_directory(alone) == alone
    assert history_directory(run / "best") == run / "best"


def test_a_run_goes_on_while_a_process_trains_into_it(run):
    assert not goes_on(run)
    with locked(run):
        assert goes_on(run)
    assert not goes_on(run)
