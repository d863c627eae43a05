"""Whole training runs: what they write, keep and refuse."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from model.errors import UserError
from model.network.masks import padding_mask
from model.storage.card import README
from model.storage.checkpoint import WEIGHTS, load, load_tokenizers
from model.storage.run import LATEST
from model.text.tokenizer import PAD_ID
from model.translator import Translator
from tests.training.tiny import (
    PARALLEL,
    REVERSE,
    SHAPE,
    assert_same_run,
    logged,
    metrics,
    parallel_files,
    prepared,
    run,
    sentences,
    state_of,
    word_list,
    write_lines,
)
from training.config import TrainConfig
from training.corpus.loading import Place
from training.corpus.splits import read_corpus
from training.evaluation.metrics import TrainingWindow, score
from training.run.damage import BEST, SNAPSHOTS
from training.run.directory import CURVES, EVALUATION, RUN, SAMPLES, SPLIT, STATE, read_run
from training.schedule import learning_rate
from training.trainer import Trainer

# A whole run


@pytest.mark.parametrize("kind", ["words", "parallel"])
def test_a_run_writes_models_state_split_and_curves(tmp_path, kind):
    config, data = (
        (REVERSE, word_list(tmp_path / "data"))
        if kind == "words"
        else (PARALLEL, parallel_files(tmp_path / "data"))
    )
    output = tmp_path / "runs" / "one"
    assert run(config, data, output) == output / BEST
    for name in (BEST, LATEST):
        assert Translator.load(output / name).translate("ab" if kind == "words" else "eins zwei").ids
    assert json.loads((output / RUN).read_text(encoding="utf-8"))["config"]["seed"] == config.seed
    assert len(json.loads((output / SPLIT).read_text(encoding="utf-8"))["test"]) == config.test_rows
    assert logged(output, "validation/bleu") == [5, 10, 12]
    curves = EventAccumulator(str(output / CURVES)).Reload()
    assert [event.step for event in curves.Scalars("validation/loss")] == [5, 10, 12]


def test_latest_holds_the_weights_of_the_saved_state_and_the_run_its_tokenizers(reference):
    finished = reference(REVERSE)
    tensors, progress = state_of(finished)
    assert progress["step"] == REVERSE.max_steps
    for name, parameter in load(finished / LATEST).model.named_parameters():
        assert parameter.half().equal(tensors[f"model.{name}"].half())
    of_best = Translator.load(finished / BEST).checkpoint.source_tokenizer
    assert load_tokenizers(finished, joint=True)[0].encode("abcd") == of_best.encode("abcd")


def scripted(monkeypatch: pytest.MonkeyPatch, values: Sequence[float]) -> None:
    """Let each validation find the next of these shares of exact matches."""
    following = iter(values)
    any_scores = score(["a b c d"], ["a b c d"])
    monkeypatch.setattr(
        "training.evaluation.validation.score", lambda *_: replace(any_scores, exact_match=next(following))
    )


def test_best_holds_the_weights_of_the_best_validation(tmp_path, data):
    with pytest.MonkeyPatch.context() as patch:
        scripted(patch, [20.0, 30.0, 10.0, 77.0])  # the last one is for the evaluation at the end
        run(REVERSE, data, tmp_path / "whole")
    run(replace(REVERSE, max_steps=10), data, tmp_path / "ten")
    best, ten = load(tmp_path / "whole" / BEST), load(tmp_path / "ten" / LATEST)
    for one, other in zip(best.model.parameters(), ten.model.parameters(), strict=True):
        assert one.equal(other)
    progress = state_of(tmp_path / "whole")[1]
    assert (progress["best"], progress["best_step"]) == (30, 10)


def test_the_lowest_loss_is_the_best_if_the_run_ranks_by_loss_and_a_low_one_ends_it(tmp_path, data):
    config = replace(REVERSE, best_by="loss")
    run(config, data, tmp_path / "run")
    losses = {e["step"]: e["validation/loss"] for e in metrics(tmp_path / "run")}
    assert state_of(tmp_path / "run")[1]["best_step"] == min(losses, key=losses.get)
    run(replace(config, stop_at=1e9), data, tmp_path / "short")
    assert state_of(tmp_path / "short")[1]["step"] == config.validate_every < config.max_steps


def test_weights_that_leave_no_pair_are_refused(tmp_path, data):
    run(REVERSE, data, tmp_path / "run")
    sources = read_run(tmp_path / "run")["sources"]
    unread = tuple((source, 1e-6) for source in sources)
    with pytest.raises(UserError, match="leave no pair in an epoch"):
        prepared(replace(REVERSE, weights=unread), data, tmp_path / "other")


def test_patience_ends_a_run_that_no_longer_improves(tmp_path, data, monkeypatch):
    scripted(monkeypatch, [20.0, 30.0, 30.0, 25.0, 99.0, 99.0])
    config = replace(REVERSE, max_steps=100, validate_every=2, patience=2)
    for resume in (False, True):  # a resumed run does not continue either
        run(config, data, tmp_path / "run", resume)
        progress = state_of(tmp_path / "run")[1]
        assert (progress["step"], progress["best_step"], progress["worse"]) == (8, 4, 2)


def test_a_score_ends_a_run_that_reaches_it(tmp_path, data, monkeypatch):
    scripted(monkeypatch, [20.0, 30.0, 99.0, 99.0])
    config = replace(REVERSE, max_steps=100, validate_every=2, stop_at=30.0)
    trainer = prepared(config, data, tmp_path / "run")
    read = sum(int(trainer.batches.target_lengths[rows].sum()) for rows in trainer.batches.epoch(0)[:4])
    trainer.run()
    assert (trainer.progress.step, trainer.progress.tokens) == (4, read)
    assert [entry["tokens"] for entry in metrics(tmp_path / "run") if "tokens" in entry][-1] == read


def test_snapshots_of_the_last_and_the_best_validations_are_kept(tmp_path, data, monkeypatch):
    scripted(monkeypatch, [50.0, 20.0, 40.0, 30.0, 10.0, 0.0, 0.0])
    run(replace(REVERSE, validate_every=2, keep_last=2, keep_best=2), data, tmp_path / "run")
    names = sorted(path.name for path in (tmp_path / "run" / SNAPSHOTS).iterdir())
    assert names == [f"step-{step:08d}" for step in (2, 6, 10, 12)]
    for name in names:
        load(tmp_path / "run" / SNAPSHOTS / name)


def test_a_run_ends_with_a_beam_evaluation_of_its_best_model(tmp_path, data):
    best = run(replace(REVERSE, beam_size=3), data, tmp_path / "run")
    found = json.loads((tmp_path / "run" / EVALUATION).read_text(encoding="utf-8"))
    split = json.loads((tmp_path / "run" / SPLIT).read_text(encoding="utf-8"))
    pairs = read_corpus(REVERSE, [data]).validation
    assert len(pairs) == len(split["validation"])
    wanted = score(Translator.load(best).translate_batch(list(pairs["source"]), 3), list(pairs["target"]))
    assert found == {"beam": 3, **asdict(wanted)}
    card = (best / README).read_text(encoding="utf-8")
    assert f"validation, beam 3 | {wanted.bleu:.2f}" in card
    assert wanted.bleu_signature in card


def test_validation_logs_every_score_with_its_signature_and_samples(reference):
    finished = reference(REVERSE)
    line = metrics(finished)[-1]
    for name in ("loss", "bleu", "chrf", "wer", "cer", "exact_match"):
        assert isinstance(line[f"validation/{name}"], float)
    assert "tok:13a" in line["validation/bleu_signature"]
    samples = [json.loads(row) for row in (finished / SAMPLES).read_text("utf-8").splitlines()]
    assert [row["step"] for row in samples] == [step for step in (5, 10, 12) for _ in range(5)]
    assert all(row["reference"] == row["source"][::-1] for row in samples)
    latest = Translator.load(finished / LATEST)
    assert samples[-1]["hypothesis"] == latest.translate_batch([samples[-1]["source"]])[0]


def test_accumulated_batches_make_the_step_of_one_batch_that_holds_them_all(tmp_path, data):
    config = replace(REVERSE, model=replace(SHAPE, dropout=0.0), tokens_per_batch=10**6)
    trainer = prepared(config, data, tmp_path / "run")
    rows = trainer.batches.epoch(0)[0]
    start = copy.deepcopy(trainer.model.state_dict())
    results = []
    for batches in ([rows], [rows[:3], rows[3:40], rows[40:]]):
        trainer.model.load_state_dict(start)
        trainer.optimizer.state.clear()
        window = TrainingWindow()
        trainer._step([trainer.loader.load(Place(0, 1, rows)) for rows in batches], window)
        results.append((window.values()["loss"], window.values()["gradient_norm"]))
    assert results[0] == pytest.approx(results[1], rel=1e-5)


def test_training_learns(tmp_path, data):
    config = replace(REVERSE, max_steps=150, validate_every=75, tokens_per_batch=128)
    run(config, data, tmp_path / "run")
    first, *_, last = [entry["validation/loss"] for entry in metrics(tmp_path / "run") if "minutes" in entry]
    losses = [entry["train/loss"] for entry in metrics(tmp_path / "run") if "train/loss" in entry]
    assert len(losses) == 3
    assert losses == sorted(losses, reverse=True)
    assert last < first


def test_validation_and_saving_change_nothing_in_training(tmp_path, data):
    run(replace(REVERSE, validate_every=1, save_every=1), data, tmp_path / "often")
    run(replace(REVERSE, validate_every=100, save_every=100), data, tmp_path / "seldom")
    assert_same_run(tmp_path / "often", tmp_path / "seldom")


def test_too_long_sentences_are_counted_and_never_stop_a_run(tmp_path):
    long = " ".join(["eins"] * 300)
    wide = ("eins", long)
    data = parallel_files(tmp_path, [*sentences(40), (long, long), (long, f"{long} one"), wide])
    parallel_files(data, [*sentences(5), (long, "one"), wide], "dev")
    config = replace(PARALLEL, test_rows=0, max_steps=2)
    trainer = prepared(config, data, tmp_path / "run")
    trainer.run()
    described = json.loads((tmp_path / "run" / RUN).read_text(encoding="utf-8"))
    dropped = {rule: count for rule, count in described["dropped"].items() if count}
    assert dropped == {"too_long": 1, "copy": 1, "length_ratio": 1, "validation_too_long": 2}
    assert described["pairs"] == {"train": 40, "validation": 5}


@pytest.mark.parametrize("part", ["training", "validation"])
def test_a_corpus_with_no_pair_left_is_refused(tmp_path, part):
    long = [(" ".join(["eins"] * 30), " ".join(["one"] * 30))]
    data = parallel_files(tmp_path, long if part == "training" else sentences(9))
    parallel_files(data, long if part == "validation" else sentences(9), "dev")
    with pytest.raises(UserError, match=f"No {part} pair is left"):
        prepared(replace(PARALLEL, test_rows=0), data, tmp_path / "run")


# What goes wrong


def test_a_loss_of_nan_stops_the_run_and_keeps_the_last_good_state(tmp_path, data):
    output = tmp_path / "run"
    run(replace(REVERSE, max_steps=4), data, output)
    kept = {name: (output / name).read_bytes() for name in (STATE, f"{LATEST}/{WEIGHTS}")}
    trainer = prepared(replace(REVERSE, save_every=1), data, output, resume=True)
    trainer.recorder.record = lambda *args, **options: None  # a probe of these weights is refused, too
    with torch.no_grad():
        trainer.model.output.weight.fill_(torch.nan)
    with pytest.raises(
        UserError, match="loss is nan .* at step 5. Start a new run with a lower learning rate"
    ):
        trainer.run()
    assert {name: (output / name).read_bytes() for name in kept} == kept


def test_an_infinite_gradient_stops_the_run_before_it_changes_the_weights(tmp_path, data):
    trainer = prepared(REVERSE, data, tmp_path / "run")
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.model.output.weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(UserError, match="at step 1"):
        trainer.run()
    assert all(one.equal(two) for one, two in zip(before, trainer.model.parameters(), strict=True))


def test_a_diverging_loss_stops_the_run(tmp_path, data):
    with pytest.raises(UserError, match="Start a new run with a lower learning rate"):
        run(replace(REVERSE, peak_learning_rate=300.0, max_steps=100), data, tmp_path / "run")


def test_the_trainer_applies_its_configuration(tmp_path, data):
    config = replace(
        REVERSE,
        accumulate=2,
        betas=(0.7, 0.8),
        epsilon=1e-5,
        weight_decay=0.3,
        label_smoothing=0.25,
        pairs_per_batch=7,
        max_steps=50,
    )
    trainer = prepared(config, data, tmp_path / "run")
    assert trainer.loss.smoothing == 0.25
    assert max(len(batch) for batch in trainer.batches.epoch(0)) == 7
    trainer.run()
    settings = trainer.optimizer.param_groups[0]
    assert (settings["betas"], settings["eps"], settings["weight_decay"]) == ((0.7, 0.8), 1e-5, 0.3)
    (rate,) = [
        line["train/learning_rate"] for line in metrics(tmp_path / "run") if "train/learning_rate" in line
    ]
    assert rate == settings["lr"] == learning_rate(config, 50) < config.peak_learning_rate
    batches = len(trainer.batches.epoch(0))
    assert trainer.progress.epoch * batches + trainer.progress.batch == 100


def test_the_validation_loss_is_plain_cross_entropy_over_all_tokens(tmp_path, data):
    trainer = prepared(REVERSE, data, tmp_path / "run")
    found = trainer.validator.loss(trainer.loss)
    batch = trainer.validator.encoded.collate(torch.device("cpu"))
    logits = trainer.model.eval()(batch.source, batch.read, padding_mask(batch.source, PAD_ID))
    wanted = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD_ID)
    assert found == pytest.approx(float(wanted.detach()), rel=1e-5)


# The taught head


def linked_data(folder: Path) -> tuple[Path, Path]:
    """Pairs of three words each, whose words have the same order, and their links."""
    lines = ["0-0 1-1 2-2"] * 40
    write_lines(folder / "links", lines)
    return parallel_files(folder / "data", sentences(40)), folder / "links"


TAUGHT = replace(
    PARALLEL,
    model=replace(PARALLEL.model, n_decoder_layers=2, d_model=32, dropout=0.0),
    alignment_weight=1.0,
    concatenate=0.1,
    max_steps=200,
    validate_every=100,
)


def taught_run(config: TrainConfig, folder: Path, output: Path, resume: bool = False) -> Trainer:
    data, links = linked_data(folder)
    trainer = Trainer(config, [data], output, resume, links)
    trainer.prepare()
    trainer.run()
    return trainer


def test_the_taught_head_learns_its_links_and_is_named_in_the_config(tmp_path):
    trainer = taught_run(TAUGHT, tmp_path, tmp_path / "run")
    losses = [line["train/alignment_loss"] for line in metrics(tmp_path / "run") if "train/loss" in line]
    assert losses[-1] < 0.5 * losses[0]
    translator = Translator.load(tmp_path / "run" / BEST)
    assert translator.checkpoint.model.config.taught_head == (0, 0)
    assert trainer.model.config.taught_head == (0, 0)
    described = read_run(tmp_path / "run")
    assert described["alignments"] == str(tmp_path / "links")
    weights = translator.score("eins zwei drei", "one two three").attention.cross[0, 0]
    assert weights[1:].argmax(-1).tolist() == [0, 1, 2]


def test_a_run_without_alignments_is_untaught(tmp_path, data):
    trainer = prepared(REVERSE, data, tmp_path / "run")
    assert trainer.model.config.taught_head is None
    trainer._step([trainer.loader.load(next(trainer.loader.places(0, 0)))], window := TrainingWindow())
    assert "alignment_loss" not in window.values()


@pytest.mark.slow
def test_a_weight_of_0_trains_the_model_of_a_run_without_alignments(tmp_path):
    config = replace(TAUGHT, alignment_weight=0.0, max_steps=5)
    taught_run(config, tmp_path, tmp_path / "taught")
    run(config, tmp_path / "data", tmp_path / "plain")
    assert_same_run(tmp_path / "taught", tmp_path / "plain")


def test_a_taught_run_resumes_to_the_same_end_but_not_without_its_links(tmp_path):
    config = replace(TAUGHT, max_steps=12)
    taught_run(config, tmp_path, tmp_path / "whole")
    half = replace(config, max_steps=7)
    taught_run(half, tmp_path, tmp_path / "halves")
    taught_run(config, tmp_path, tmp_path / "halves", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "halves")
    with pytest.raises(UserError, match="differs from the corpus"):
        prepared(config, tmp_path / "data", tmp_path / "halves", resume=True)
