"""`python -m training`: what each command does, prints and refuses."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from threading import Timer

import pytest

from model.errors import UserError
from model.inputs import MAX_TOKENS
from model.storage.card import README
from model.storage.checkpoint import load, save
from model.storage.run import lock_of
from model.translator import Translator
from tests.model.helpers import SENTENCES, tiny_checkpoint
from tests.training.tiny import logged, parallel_files, sentences, state_of, word_list, write_lines
from training.evaluation.metrics import name_recall, score
from training.recipes import RECIPES
from training.run.average import average_models
from training.run.damage import BEST
from training.run.directory import LOCK_PAUSE, RUN, STATE, locked

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "training.md"
WORDS = "reverse-words-small"
TINY = {
    "model.d-model": 16,
    "model.d-ff": 16,
    "model.n-heads": 2,
    "validation-rows": 10,
    "test-rows": 5,
    "max-steps": 8,
    "validate-every": 3,
}


def options(settings: dict[str, object]) -> list[str]:
    """Settings of a recipe as the command line takes them."""
    return [word for name, value in settings.items() for word in (f"--config.{name}", str(value))]


def described(output: Path) -> dict:
    return json.loads((output / RUN).read_text(encoding="utf-8"))


# train


def test_train_runs_the_recipe_on_all_data_with_the_settings_given(command, tmp_path):
    folders = [word_list(tmp_path / "a"), word_list(tmp_path / "b", ["another", "word"])]
    output = tmp_path / "run"
    printed, _ = command("train", WORDS, "--data", *folders, "--output", output, *options(TINY))
    assert f"The best model is {output / BEST}." in printed
    Translator.load(output / BEST).translate("ab")
    wanted = json.loads(json.dumps(asdict(RECIPES[WORDS])))
    wanted["model"] |= {"d_model": 16, "d_ff": 16, "n_heads": 2}
    wanted |= {"validation_rows": 10, "test_rows": 5, "max_steps": 8, "validate_every": 3}
    assert described(output)["config"] == wanted
    assert described(output)["data"] == list(map(str, folders))
    assert sum(described(output)["pairs"].values()) == 80 + 2 - 5
    assert logged(output, "validation/loss") == [3, 6, 8]


def test_train_names_the_new_name_of_a_recipe(command):
    with pytest.raises(SystemExit, match="tatoeba-de-en is now called everyday-de-en"):
        command("train", "tatoeba-de-en", "--data", "anywhere")


def test_train_resumes_only_with_the_settings_it_started_with(command, tmp_path, data):
    output = tmp_path / "run"
    words = ["train", WORDS, "--data", data, "--output", output, *options(TINY)]
    with pytest.raises(SystemExit, match="no run to resume"):
        command(*words, "--resume")
    command(*words, *options({"accumulate": 2, "patience": 9}))
    with pytest.raises(SystemExit, match="started with accumulate 2, but the recipe has 1"):
        command(*words, "--resume")
    more = options({"accumulate": 2, "max-steps": 10})
    printed, _ = command(*words, *more, "--resume")
    assert state_of(output)[1]["step"] == 10
    assert "max_steps was 8 when the run started and is 10 now" in printed
    assert "patience was 9 when the run started and is None now" in printed
    state = (output / STATE).read_bytes()
    with pytest.raises(SystemExit, match="holds a run; add --resume"):
        command(*words, *more)
    assert (output / STATE).read_bytes() == state


def test_train_writes_to_a_folder_named_after_the_recipe_and_stops_in_time(
    command, tmp_path, data, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    endless = options(TINY | {"max-steps": 3000, "validate-every": 3000, "save-every": 3000})
    command("train", WORDS, "--data", data, "--minutes", 0.002, *endless)
    output = tmp_path / "runs" / WORDS
    assert 0 < state_of(output)[1]["step"] < 3000
    Translator.load(output / BEST)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--minutes", 0], "--minutes is 0.0; give more than 0"),
        (["--config.accumulate", 0], "accumulate is 0; give at least 1"),
        (["--config.patience", 0], "patience is 0; give at least 1"),
        (["--config.test-rows", -5], "test_rows is -5; give at least 0"),
        (["--config.peak-learning-rate", 0], "peak_learning_rate is 0.0; give more than 0"),
        (["--config.label-smoothing", 1.5], "label_smoothing is 1.5; give 0 to 1"),
        (["--config.betas", 0.9, 1], "One of betas is 1.0"),
        (["--config.beam-size", 0], "The beam size is 0"),
        (["--config.model.d-model", 7], "d_model 7 must be a multiple"),
        (["--data", "nowhere"], "word list"),
    ],
)
def test_train_ends_in_one_sentence_on_a_mistake(command, tmp_path, words, message):
    with pytest.raises(SystemExit, match=message):
        command("train", WORDS, "--output", tmp_path / "run", *words)
    assert not (tmp_path / "run").exists()


def test_an_unknown_recipe_lists_all_recipes(command, capsys):
    with pytest.raises(SystemExit):
        command("train", "klingon")
    message = capsys.readouterr().err
    assert all(name in message for name in RECIPES)


def test_docs_show_settings_that_a_recipe_takes(command, tmp_path):
    (line,) = re.findall(r"^python -m (training train .* --config\..*)$", GUIDE.read_text("utf-8"), re.M)
    data = parallel_files(tmp_path / "data", sentences(40))
    places = {"DIR": data, "runs/patient": tmp_path / "run"}
    words = [places.get(word, word) for word in shlex.split(line)][1:]
    settings = [place for place, word in enumerate(words) if str(word).startswith("--config.")]
    command(*words, *options(TINY))
    config = described(tmp_path / "run")["config"]
    assert len(settings) == 2
    for place in settings:
        name = words[place].removeprefix("--config.").replace("-", "_")
        assert config[name] == int(words[place + 1]) != getattr(RECIPES[words[1]], name)


# evaluate


@pytest.fixture
def translator(tmp_path) -> Translator:
    save(tiny_checkpoint(seed=1), tmp_path / "model")
    return Translator.load(tmp_path / "model")


@pytest.fixture
def test_set(tmp_path, translator):
    """Sentences whose references are their greedy translations, except the last one."""
    sources = list(SENTENCES)
    references = [*translator.translate_batch(sources)[:-1], "something else"]
    for name, lines in (("de", sources), ("en", references)):
        write_lines(tmp_path / f"test.{name}", lines)
    return tmp_path / "test.de", tmp_path / "test.en"


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def evaluated(command, tmp_path, test_set, *words: str | int) -> tuple[dict, str]:
    source, reference = test_set
    printed, errors = command(
        "evaluate", tmp_path / "model", "--source", source, "--reference", reference, "--json", *words
    )
    return json.loads(printed), errors


@pytest.mark.parametrize("beam", [1, 4])
def test_evaluate_scores_the_whole_file_with_the_beam_given(command, tmp_path, translator, test_set, beam):
    sources, references = map(lines_of, test_set)
    scores = score(translator.translate_batch(sources, beam), references)
    found, errors = evaluated(command, tmp_path, test_set, *(["--beam", beam] if beam > 1 else []))
    # Every sentence of this set has at most ten words.
    lengths = {"1-10": {"sentences": len(sources), "bleu": scores.bleu}}
    assert found == {
        "beam": beam,
        **asdict(scores),
        "too_long": 0,
        "unreadable": 0,
        "by_length": lengths,
        "names": name_recall(translator.translate_batch(sources, beam), references)._asdict(),
    }
    assert errors == ""
    share = 100 * (len(sources) - 1) / len(sources)
    assert (scores.exact_match == pytest.approx(share)) is (beam == 1)


def test_evaluate_prints_every_score_with_its_signature(command, tmp_path, translator, test_set):
    sources, references = map(lines_of, test_set)
    scores = score(translator.translate_batch(sources, 3), references)
    words = ["--source", test_set[0], "--reference", test_set[1], "--beam", 3]
    printed = command("evaluate", tmp_path / "model", *words)[0].splitlines()
    numbers = [float(line.split()[1]) for line in printed]
    kept = name_recall(translator.translate_batch(sources, 3), references)
    wanted = [scores.bleu, scores.chrf, scores.wer, scores.cer, scores.exact_match]
    wanted += [100 * kept.found / kept.names, scores.bleu]
    assert numbers == pytest.approx(wanted, abs=0.006)
    assert scores.bleu_signature in printed[0]
    assert scores.chrf_signature in printed[1]


def test_evaluate_scores_refused_sentences_as_empty_and_counts_them(command, tmp_path, translator, test_set):
    sources, references = map(lines_of, test_set)
    whole = translator.translate_batch(sources)
    write_lines(test_set[0], ["Hund " * MAX_TOKENS, *sources[1:-2], "日本", sources[-1]])
    found, errors = evaluated(command, tmp_path, test_set)
    scores = score(["", *whole[1:-2], "", whole[-1]], references)
    assert found.pop("by_length")["1-10"]["sentences"] == len(sources) - 1  # without the longest
    found.pop("names")
    assert found == {"beam": 1, **asdict(scores), "too_long": 1, "unreadable": 1}
    assert errors.count("\n") == 1
    assert f"2 of {len(sources)} sentences count as empty translations" in errors
    assert f"1 of more than {MAX_TOKENS} tokens, 1 without a known character" in errors


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_text("\n \n" * 4, encoding="utf-8"), "{} holds no text; give one sentence"),
        (lambda path: path.write_text("x\n", encoding="utf-8"), "has 8 lines|has 1 lines"),
        (lambda path: path.write_bytes(b"Gr\xfc\xdfe\n" * 8), "{} is not UTF-8; convert it first"),
        (lambda path: path.unlink(), "no file {}; check the path"),
        (lambda path: (path.unlink(), path.mkdir()), r"{} cannot be read \(.*\); give a text file"),
    ],
    ids=["empty", "shorter", "latin-1", "missing", "folder"],
)
def test_evaluate_ends_in_one_sentence_on_invalid_files(command, tmp_path, test_set, spoil, message, side):
    spoil(test_set[side])
    with pytest.raises(SystemExit, match=message.format(test_set[side])):
        evaluated(command, tmp_path, test_set)


def test_evaluate_reads_files_with_a_byte_order_mark(command, tmp_path, test_set):
    plain = evaluated(command, tmp_path, test_set)
    for path in test_set:
        path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert evaluated(command, tmp_path, test_set) == plain


def test_evaluate_refuses_two_empty_files(command, tmp_path, test_set):
    for path in test_set:
        path.write_bytes(b"")
    with pytest.raises(SystemExit, match="holds no text"):
        evaluated(command, tmp_path, test_set)


# average


@pytest.mark.parametrize("choice", [pytest.param("last", marks=pytest.mark.slow), "best"])
def test_average_writes_the_mean_and_names_its_snapshots(command, tmp_path, data, choice):
    output = tmp_path / "run"
    command("train", WORDS, "--data", data, "--output", output, *options(TINY))
    numbers = {"last": 0, "best": 0} | {choice: 2}
    sources = average_models([output], **numbers, output=tmp_path / "wanted")
    for place in ([], ["--output", tmp_path / "mean"]):
        printed, _ = command("average", output, f"--{choice}", 2, *place)
        written = place[-1] if place else output / "averaged"
        assert printed == f"{written} is the mean of {', '.join(each.name for each in sources)}.\n"
        mean, wanted = load(written).model, load(tmp_path / "wanted").model
        for one, other in zip(mean.parameters(), wanted.parameters(), strict=True):
            assert one.equal(other)
        assert "mean of the weights" in (written / README).read_text(encoding="utf-8")


def test_the_average_of_two_runs_is_written_into_the_last_one(command, tmp_path, data):
    runs = [tmp_path / "first", tmp_path / "second"]
    for output, steps in zip(runs, ("2", "4"), strict=True):
        command(
            "train", WORDS, "--data", data, "--output", output, *options(TINY), "--config.max-steps", steps
        )
    printed, _ = command("average", *runs, "--last", 1)
    assert printed.startswith(f"{runs[1] / 'averaged'} is the mean of first at step 2 (")
    assert load(runs[1] / "averaged").model.config == load(runs[0] / "latest").model.config


def test_average_ends_in_one_sentence_where_there_is_nothing_to_average(command, tmp_path):
    with pytest.raises(SystemExit, match="neither a run nor a model in"):
        command("average", tmp_path, "--last", 2)
    with pytest.raises(SystemExit, match="at least one directory"):
        command("average", "--last", 2)
    with pytest.raises(SystemExit, match="--last and --best choose snapshots of a run"):
        command("average", ROOT / "assets" / "models" / "reverse", "--last", 2)


def test_a_second_training_into_the_same_folder_is_refused(tmp_path, command):
    run = tmp_path / "run"
    with (
        locked(run),
        pytest.raises(SystemExit, match=rf"Process {os.getpid()} trains into .*run; stop it or give"),
    ):
        command("train", WORDS, "--output", run)
    assert not run.exists()
    with locked(run):
        pass


def test_a_link_to_a_run_has_the_lock_of_the_run(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(tmp_path / "run")
    with locked(tmp_path / "run"), pytest.raises(UserError, match="trains into"), locked(link):
        pass


def test_a_page_that_looks_for_a_moment_does_not_stop_a_training(tmp_path):
    run = tmp_path / "run"
    with lock_of(run).open("a") as page:
        fcntl.flock(page, fcntl.LOCK_SH)
        Timer(LOCK_PAUSE, page.close).start()
        with locked(run):
            pass
