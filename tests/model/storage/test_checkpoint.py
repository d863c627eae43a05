import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from model.errors import UserError
from model.files import write_json
from model.storage import checkpoint as module
from model.storage.checkpoint import Checkpoint, ModelInfo, list_models, load, save
from tests.model.helpers import tiny_checkpoint, trained

EITHER = pytest.mark.parametrize("tied", [True, False], ids=["joint", "separate"])


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def same_weights(left: Checkpoint, right: Checkpoint) -> bool:
    pairs = zip(left.model.parameters(), right.model.parameters(), strict=True)
    return all(torch.equal(a.half(), b.half()) for a, b in pairs)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    save(tiny_checkpoint(), tmp_path / "tiny")
    return tmp_path / "tiny"


# Round trip


def test_at_most_a_hundred_prompts_are_loaded_and_each_keeps_its_space(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    prompts = [f"translate English to language {number}: " for number in range(101)]
    write_json(directory / "config.json", config | {"prompts": prompts})
    assert load(directory).info.prompts == tuple(prompts[:100])


@EITHER
def test_load_gives_back_what_was_saved_in_16_bits(tied: bool, tmp_path: Path) -> None:
    saved = tiny_checkpoint(tied, norm="pre" if tied else "post")
    save(saved, tmp_path, card={"title": "Tiny"})
    loaded = load(tmp_path)
    assert loaded.model.config == saved.model.config
    assert loaded.info == saved.info
    assert same_weights(loaded, saved)
    assert {weight.dtype for weight in load_file(tmp_path / "model.safetensors").values()} == {torch.float16}
    assert {weight.dtype for weight in loaded.model.parameters()} == {torch.float32}
    assert not any(part.training for part in loaded.model.modules())
    assert (loaded.source_tokenizer is loaded.target_tokenizer) == tied
    text = "Ein kleiner Hund"
    assert loaded.source_tokenizer.encode(text) == saved.source_tokenizer.encode(text)
    assert loaded.target_tokenizer.encode(text) == saved.target_tokenizer.encode(text)


@EITHER
def test_eight_bits_take_half_the_room_and_keep_every_weight_within_half_a_step(
    tied: bool, tmp_path: Path
) -> None:
    saved = tiny_checkpoint(tied)
    save(saved, tmp_path / "16")
    save(saved, tmp_path / "8", eight_bit=True)
    for (name, exact), weight in zip(
        saved.model.named_parameters(), load(tmp_path / "8").model.parameters(), strict=True
    ):
        if exact.ndim == 2:
            step = exact.abs().amax(1, keepdim=True) / 127
            assert ((weight - exact).abs() <= 0.501 * step + 1e-12).all(), name
        else:
            assert torch.equal(weight.half(), exact.half()), name
    matrices = sum(weight.numel() for weight in saved.model.parameters() if weight.ndim == 2)
    sizes = {bits: (tmp_path / bits / "model.safetensors").stat().st_size for bits in ("16", "8")}
    rows = sum(len(weight) for weight in saved.model.parameters() if weight.ndim == 2)
    assert sizes["8"] < sizes["16"] - matrices + 4 * rows + 100 * len(list(saved.model.parameters()))


def test_eight_bits_of_a_loaded_model_are_the_same_bytes(tmp_path: Path) -> None:
    save(tiny_checkpoint(), tmp_path / "first", eight_bit=True)
    save(load(tmp_path / "first"), tmp_path / "second", eight_bit=True)
    assert files(tmp_path / "first") == files(tmp_path / "second")


@pytest.mark.parametrize("shape", [None, (1,), (3, 1)])
def test_eight_bits_without_their_scales_are_refused(shape: tuple[int, ...] | None, tmp_path: Path) -> None:
    save(tiny_checkpoint(), tmp_path, eight_bit=True)
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith(".scales"))
    del weights[name]
    if shape:
        weights[name] = torch.ones(shape)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="has no scales"):
        load(tmp_path)


@EITHER
def test_loaded_weights_stay_tied_or_apart(tied: bool, tmp_path: Path) -> None:
    save(tiny_checkpoint(tied), tmp_path)
    model = load(tmp_path).model
    assert (model.output.weight is model.source_embedding.tokens.weight) == tied


@EITHER
def test_second_save_writes_the_same_bytes(tied: bool, tmp_path: Path) -> None:
    save(tiny_checkpoint(tied), tmp_path / "first", card={"title": "Tiny"})
    save(load(tmp_path / "first"), tmp_path / "second", card={"title": "Tiny"})
    assert files(tmp_path / "first") == files(tmp_path / "second")


@EITHER
def test_directory_holds_json_safetensors_and_the_card_alone(tied: bool, tmp_path: Path) -> None:
    save(tiny_checkpoint(tied), tmp_path, card={"title": "Tiny"})
    tokenizers = {"tokenizer.json"} if tied else {"source_tokenizer.json", "target_tokenizer.json"}
    assert set(files(tmp_path)) == {"config.json", "model.safetensors", "card.json", "README.md", *tokenizers}


def test_scores_and_languages_come_back(tmp_path: Path) -> None:
    saved = tiny_checkpoint()
    info = ModelInfo("Deutsch", "English", "Tiny", {"BLEU": 40.5})
    save(Checkpoint(saved.model, saved.source_tokenizer, saved.target_tokenizer, info), tmp_path)
    assert load(tmp_path).info == info


def test_card_of_an_earlier_save_stays(directory: Path) -> None:
    save(tiny_checkpoint(), directory, card={"title": "Tiny"})
    save(tiny_checkpoint(), directory)
    assert load(directory).card == {"title": "Tiny"}
    assert (directory / "README.md").read_text(encoding="utf-8") == "# Tiny\n"


def test_list_models_names_model_directories_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        save(tiny_checkpoint(), tmp_path / name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert list_models(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert list_models(tmp_path / "missing") == []


# Errors: each is one clear sentence


def edit_config(directory: Path, change: Callable[[dict[str, dict[str, object]]], object]) -> None:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    change(config)
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")


def edit_weights(directory: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(directory / "model.safetensors")
    change(weights)
    save_file(weights, directory / "model.safetensors")


def truncate(directory: Path, share: float) -> None:
    content = (directory / "model.safetensors").read_bytes()
    (directory / "model.safetensors").write_bytes(content[: int(share * len(content))])


BIAS = "encoder.0.self_attention.project.bias"
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no directory": (shutil.rmtree, "no model directory"),
    "no config": (lambda d: (d / "config.json").unlink(), "config.json is missing"),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), "model.safetensors is missing"),
    "no tokenizer": (lambda d: (d / "tokenizer.json").unlink(), "tokenizer.json is missing"),
    "weights cut in the header": (lambda d: truncate(d, 0.01), "truncated or broken"),
    "weights cut in half": (lambda d: truncate(d, 0.5), "truncated or broken"),
    "weights cut by a byte": (lambda d: truncate(d, 0.99999), "truncated or broken"),
    "weights empty": (lambda d: truncate(d, 0), "truncated or broken"),
    "config cut": (lambda d: (d / "config.json").write_text('{"format": 1,'), "not valid JSON"),
    "config of another program": (
        lambda d: (d / "config.json").write_text('{"model_type": "marian"}'),
        "not a Headlight model's config",
    ),
    "config is a list": (lambda d: (d / "config.json").write_text("[]"), "not a Headlight model's config"),
    "newer format": (
        lambda d: edit_config(d, lambda c: c.update(format=99)),
        "format 99, newer than.*update",
    ),
    "unknown setting": (
        lambda d: edit_config(d, lambda c: c["model"].update(colour="red")),
        "Unknown model settings: 'colour'",
    ),
    "setting gone": (lambda d: edit_config(d, lambda c: c["model"].pop("target_vocabulary")), "incomplete"),
    "language gone": (lambda d: edit_config(d, lambda c: c.pop("target_language")), "no 'target_language'"),
    "other shape": (lambda d: edit_config(d, lambda c: c["model"].update(d_ff=19)), "has shape .* says"),
    "more layers": (
        lambda d: edit_config(d, lambda c: c["model"].update(n_encoder_layers=3)),
        "lacks weights",
    ),
    "fewer layers": (
        lambda d: edit_config(d, lambda c: c["model"].update(n_encoder_layers=1)),
        "has unknown weights",
    ),
    "weight gone": (lambda d: edit_weights(d, lambda w: w.pop(BIAS)), "lacks weights: it has"),
    "tokenizer of another model": (
        lambda d: trained("character").save(d / "tokenizer.json"),
        "entries but the model needs",
    ),
    "tokenizer broken": (lambda d: (d / "tokenizer.json").write_text("{"), "not valid JSON"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_told_in_one_sentence(
    damage: Callable[[Path], object], message: str, directory: Path
) -> None:
    damage(directory)
    with pytest.raises(UserError, match=message) as caught:
        load(directory)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 400
    assert sentence.endswith(".")


def test_missing_target_tokenizer_is_named(tmp_path: Path) -> None:
    save(tiny_checkpoint(tied=False), tmp_path)
    (tmp_path / "target_tokenizer.json").unlink()
    with pytest.raises(UserError, match="target_tokenizer.json is missing"):
        load(tmp_path)


# A save that does not end


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_failing_write_leaves_the_old_checkpoint(
    error: BaseException, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(directory)

    def write_half(weights: dict[str, torch.Tensor], path: Path) -> None:
        path.write_bytes(before["model.safetensors"][:1000])
        raise error

    monkeypatch.setattr(module, "save_file", write_half)
    with pytest.raises(type(error)):
        save(tiny_checkpoint(seed=1), directory)
    assert files(directory) == before
    assert same_weights(load(directory), tiny_checkpoint())


@EITHER
def test_save_killed_between_any_two_files_leaves_a_loadable_checkpoint(
    tied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tiny_checkpoint(tied), tiny_checkpoint(tied, seed=1)
    save(old, tmp_path, card={"title": "Old"})
    replace = Path.replace
    allowed = 0

    def killed(path: Path, target: Path) -> None:
        nonlocal allowed
        if not allowed:
            raise KeyboardInterrupt
        allowed -= 1
        replace(path, target)

    monkeypatch.setattr(Path, "replace", killed)
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok: None)  # a killed process tidies nothing
    n_files = len(files(tmp_path))
    for survivors in range(n_files):
        allowed = survivors
        with pytest.raises(KeyboardInterrupt):
            save(new, tmp_path, card={"title": "New"})
        assert same_weights(load(tmp_path), old)
    allowed = n_files
    save(new, tmp_path, card={"title": "New"})
    assert same_weights(load(tmp_path), new)


def test_written_files_leave_no_temporary_ones(directory: Path) -> None:
    save(tiny_checkpoint(seed=1), directory, card={"title": "New"})
    assert not [name for name in files(directory) if name.startswith(".")]


def test_a_save_clears_away_what_killed_saves_of_the_same_file_left(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as killed:
        pass
    target = tmp_path / "a[1].json"
    others = [
        f".a[1].json.{os.getppid()}.part",  # of a process that still writes
        f".b.json.{killed.pid}.part",
        f".a1.json.{killed.pid}.part",
        f".a[1].json.{killed.pid}",
        ".a[1].json.mine.part",
        ".a[1].json.part",
    ]
    for name in (*others, f".a[1].json.{killed.pid}.part", f".a[1].json.{10**30}.part"):
        (tmp_path / name).touch()
    write_json(target, 1)
    assert files(tmp_path).keys() == {target.name, *others}
