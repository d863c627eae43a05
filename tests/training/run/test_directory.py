"""The run directory: its description, its checks, and curves without gaps or repeats."""

from __future__ import annotations

import importlib.metadata
import json
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from model.errors import UserError
from model.storage.training_log import METRICS
from tests.training.tiny import PARALLEL, pairs_of, parallel_files, sentences
from training.corpus.splits import read_corpus
from training.run.directory import (
    CURVES,
    RUN,
    SPLIT,
    STATE,
    RunLog,
    check_config,
    check_output,
    check_split,
    read_run,
    write_description,
)

# What decides the numbers of a run.
LIBRARIES = ("torch", "numpy", "tokenizers", "datasets", "accelerate", "safetensors", "sacrebleu", "jiwer")


def steps(output) -> list[int]:
    lines = (output / METRICS).read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["step"] for line in lines]


def test_a_run_is_never_overwritten_and_a_missing_run_is_not_resumed(tmp_path):
    check_output(tmp_path / "new", resume=False)
    with pytest.raises(UserError, match="no run to resume in .*new; start one without --resume"):
        check_output(tmp_path / "new", resume=True)
    (tmp_path / STATE).touch()
    check_output(tmp_path, resume=True)
    with pytest.raises(UserError, match="holds a run; add --resume"):
        check_output(tmp_path, resume=False)


def test_a_run_killed_before_its_first_save_may_start_again(tmp_path):
    (tmp_path / RUN).write_text("{}")
    check_output(tmp_path, resume=False)


def test_configuration_data_split_and_test_pairs_are_written_down(tmp_path, monkeypatch):
    corpus = read_corpus(PARALLEL, [parallel_files(tmp_path / "data", sentences(50))])
    output = tmp_path / "runs" / "one"
    monkeypatch.chdir(tmp_path)
    write_description(
        output, PARALLEL, [Path("data"), tmp_path / "more"], corpus, {"train": 40}, "bf16", more=1
    )
    run = read_run(output)
    assert run["config"] == json.loads(json.dumps(asdict(PARALLEL)))
    assert run["dropped"] == corpus.dropped
    assert run["data"] == [str(tmp_path / "data"), str(tmp_path / "more")]
    assert run["versions"] == {name: importlib.metadata.version(name) for name in LIBRARIES}
    assert (run["precision"], run["more"]) == ("bf16", 1)
    assert json.loads((output / SPLIT).read_text(encoding="utf-8")) == corpus.split
    written = [
        (output / f"test.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")
    ]
    assert list(zip(*written, strict=True)) == pairs_of(corpus.test)
    check_split(output, corpus)


def test_a_setting_that_may_change_is_reported_and_any_other_is_refused(tmp_path):
    corpus = read_corpus(PARALLEL, [parallel_files(tmp_path / "data")])
    write_description(tmp_path, replace(PARALLEL, patience=3), [], corpus, {}, "no")
    assert check_config(tmp_path, replace(PARALLEL, patience=3)) == []
    (change,) = check_config(tmp_path, PARALLEL)
    assert change == "patience was 3 when the run started and is None now"
    with pytest.raises(UserError, match="started with accumulate 1, but the recipe has 2"):
        check_config(tmp_path, replace(PARALLEL, accumulate=2))
    with pytest.raises(UserError, match=r"started with model\.d_ff 32, but the recipe has 48;"):
        check_config(tmp_path, replace(PARALLEL, patience=3, model=replace(PARALLEL.model, d_ff=48)))


def test_a_setting_added_since_the_run_started_is_not_compared(tmp_path):
    write_description(
        tmp_path, PARALLEL, [], read_corpus(PARALLEL, [parallel_files(tmp_path / "data")]), {}, "no"
    )
    described = read_run(tmp_path)
    del described["config"]["name"], described["config"]["model"]["rms_norm"]
    (tmp_path / RUN).write_text(json.dumps(described), encoding="utf-8")
    assert check_config(tmp_path, PARALLEL) == []


def test_another_corpus_is_refused(tmp_path):
    corpora = [read_corpus(PARALLEL, [parallel_files(tmp_path / f"{n}", sentences(n))]) for n in (50, 51)]
    write_description(tmp_path, PARALLEL, [], corpora[0], {}, "no")
    with pytest.raises(UserError, match="differs from the corpus of the run in .*; give the same data"):
        check_split(tmp_path, corpora[1])


def test_a_resumed_log_drops_what_came_after_the_last_save(tmp_path, monkeypatch):
    # Readers sort files of the same second by a counter of the process.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))
    with closing(RunLog(tmp_path, 0)) as log:
        for step in (2, 4, 6):
            log.write(step, {"train/loss": float(step)})
    with closing(RunLog(tmp_path, 4)) as log:
        assert steps(tmp_path) == [2, 4]
        log.write(6, {"train/loss": 60.0})
    assert steps(tmp_path) == [2, 4, 6]
    curves = EventAccumulator(str(tmp_path / CURVES)).Reload()
    assert [(e.step, e.value) for e in curves.Scalars("train/loss")] == [(2, 2.0), (4, 4.0), (6, 60.0)]


def test_an_incomplete_last_line_is_dropped(tmp_path):
    (tmp_path / METRICS).write_text('{"step": 2, "train/loss": 1.0}\n{"step": 4, "tra', encoding="utf-8")
    with closing(RunLog(tmp_path, 4)):
        pass
    assert steps(tmp_path) == [2]
