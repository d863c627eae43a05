"""Probes: what comes back is what the model computed, and no file of a stranger does harm."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import model.files
import model.storage.probes
from model.errors import UserError
from model.results import KINDS
from model.storage.checkpoint import save_tokenizers
from model.storage.probes import LEVELS, PROBES, Part, ProbePair, Probes, weights_to_codes
from model.text.tokenizer import EOS_ID
from model.translator import Translator
from tests.model.helpers import read_target, tiny_checkpoint
from tests.numerics import UNIT, assert_float32, scores
from training.run.probes import measure

MODELS = Path(__file__).parents[3] / "assets" / "models"
PAIRS = (
    ProbePair("Ein kleiner Hund läuft.", "A small dog runs."),
    ProbePair("Die Tür ist heiß", "The door is hot, very hot"),
)


def probed(translator: Translator, directory: Path, steps: tuple[int, ...] = (0, 3)) -> Probes:
    """Probes of a model that is another one at each step, and their file."""
    translator.inference.use_kernels = False  # as in a training
    checkpoint = translator.checkpoint
    probes = Probes((Part.new(PAIRS, checkpoint.source_tokenizer, checkpoint.target_tokenizer),))
    for step in steps:
        with torch.no_grad():
            for parameter in checkpoint.model.parameters():
                parameter.mul_(1 + step / 10)
        probes.current.measured[step] = tuple(measure(translator, pair) for pair in PAIRS)
    save_tokenizers(directory, checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    probes.save(directory)
    return probes


def begun(translator: Translator, directory: Path) -> Probes:
    """Probes of a model that began with the vocabulary of `translator`, for other languages."""
    probes = probed(translator, directory)
    later = probed(Translator(tiny_checkpoint(seed=3)), directory, steps=(9,))
    probes.begin_part("German → French", ("de", "fr"), 5, later.current)
    probes.save(directory)
    return probes


@pytest.fixture
def directory(joint: Translator, tmp_path: Path) -> Path:
    """A directory with probes."""
    probed(joint, tmp_path)
    return tmp_path


@pytest.mark.parametrize(("share", "begins"), [(0.9, False), (0.51, False), (0.49, True), (0.1, True)])
def test_a_run_that_begins_with_a_trained_model_is_known_by_its_first_loss(
    joint: Translator, tmp_path: Path, share: float, begins: bool
) -> None:
    probes = probed(joint, tmp_path)
    measured = probes.current.measured
    loss = share * math.log(len(joint.checkpoint.target_tokenizer))
    for step, factor in ((0, 1.0), (3, 0.0)):
        measured[step] = tuple(
            one._replace(log_probabilities=torch.full_like(one.log_probabilities, -factor * loss))
            for one in measured[step]
        )
    probes.save(tmp_path)
    assert Probes.load(tmp_path).begin_trained is begins
    del measured[0]
    assert not probes.begin_trained


@pytest.mark.parametrize("name", ["de-en", "en-fr", "en-it", "reverse"])
def test_the_record_of_a_shipped_model_begins_with_random_weights(name: str) -> None:
    probes = Probes.load(MODELS / name)
    assert probes.steps[0] == 0
    assert not probes.begin_trained


# What is stored is what the model computed


def test_records_are_the_models_weights_within_a_level_and_their_rows_sum_to_1(
    translator: Translator, tmp_path: Path
) -> None:
    probed(translator, tmp_path)  # the model stays as it was at the last step
    found = Probes.load(tmp_path)
    assert (found.steps, found.current.sentences) == ((0, 3), PAIRS)
    for place, pair in enumerate(PAIRS):
        ids = [*translator.checkpoint.target_tokenizer.encode(pair.target), EOS_ID]
        wanted, scores = read_target(translator, pair.source, ids)
        record, earlier = found.record(3, place), found.record(0, place)
        for kind in KINDS:
            weights, own = getattr(record, kind), getattr(wanted, kind)
            assert weights.dtype == torch.float32
            assert (weights - own).abs().max() < 1 / LEVELS
            # The codes sum to LEVELS; each quotient and each addition rounds once.
            apart = (weights.sum(-1) - 1).abs().max()
            assert apart <= 2 * weights.shape[-1] * UNIT
            assert (weights[own == 0] == 0).all()
            assert not weights.equal(getattr(earlier, kind))
        assert (record.source, record.read, record.predicted) == (
            wanted.source,
            wanted.read,
            wanted.predicted,
        )
        chosen = scores[torch.arange(len(ids)), torch.tensor(ids)].tolist()
        assert found.log_probabilities(3, place) == tuple(chosen)
        assert found.log_probabilities(0, place) != tuple(chosen)


def test_an_earlier_part_keeps_its_tokens_and_weights(joint: Translator, tmp_path: Path) -> None:
    before = probed(joint, tmp_path)
    begun(joint, tmp_path)
    found = Probes.load(tmp_path)
    assert found.steps == (0, 3, 9)
    assert [(part.title, part.languages) for part in found.parts] == [
        ("German → French", ("de", "fr")),
        ("", None),
    ]
    assert found.parts[0].last == 5
    for place in range(len(PAIRS)):
        for step in (0, 3):
            wanted, record = before.record(step, place), found.record(step, place)
            assert (record.source, record.read, record.predicted) == (
                wanted.source,
                wanted.read,
                wanted.predicted,
            )
            for kind in KINDS:
                assert getattr(record, kind).shape == getattr(wanted, kind).shape
        assert found.record(9, place).predicted
    found.keep(lambda step: step > 3)
    assert (found.steps, len(found.parts)) == ((9,), 1)


def test_a_score_of_the_pair_says_the_same(joint: Translator, tmp_path: Path) -> None:
    probed(joint, tmp_path)
    scored = joint.score(*PAIRS[0])
    wanted = scores(joint, PAIRS[0].source, scored.ids)
    for found in (scored.log_probabilities, Probes.load(tmp_path).log_probabilities(3, 0)):
        assert_float32(found, wanted, joint.checkpoint.model)


@given(
    st.lists(st.lists(st.floats(0, 50), min_size=7, max_size=7), min_size=1, max_size=5), st.integers(0, 6)
)
def test_codes_of_any_row_sum_to_their_levels(scores: list[list[float]], forbidden: int) -> None:
    masked = torch.tensor(scores)
    masked[:, :forbidden] = -torch.inf
    weights = masked.softmax(-1)
    codes = weights_to_codes(weights)
    assert codes.sum(-1).tolist() == [LEVELS] * len(scores)
    assert (codes.double() / LEVELS - weights).abs().max() < 1 / LEVELS
    assert not codes[:, :forbidden].any()


def test_a_row_that_may_look_nowhere_stays_zero() -> None:
    assert not weights_to_codes(torch.zeros(2, 5)).any()


def test_a_second_save_writes_the_same_bytes(directory: Path) -> None:
    before = (directory / PROBES).read_bytes()
    Probes.load(directory).save(directory)
    assert (directory / PROBES).read_bytes() == before


def test_a_failed_save_leaves_the_file_whole(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, names = (directory / PROBES).read_bytes(), sorted(directory.iterdir())
    probes = Probes.load(directory)

    def full(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half a file")
        raise OSError("No space left on device")

    monkeypatch.setattr(model.storage.probes, "save_file", full)
    with pytest.raises(OSError, match="No space"):
        probes.save(directory)
    assert (directory / PROBES).read_bytes() == before
    assert sorted(directory.iterdir()) == names


@pytest.mark.parametrize(
    ("place", "sentence"),
    [((1, 0), "no probe of step 1; choose one of 0, 3\\."), ((0, 2), "no sentence 2; .* 0 to 1")],
)
def test_what_was_not_probed_is_said(directory: Path, place: tuple[int, int], sentence: str) -> None:
    probes = Probes.load(directory)
    with pytest.raises(UserError, match=sentence):
        probes.record(*place)
    with pytest.raises(UserError, match=sentence):
        probes.log_probabilities(*place)


# Files that are none of ours


Change = Callable[[dict[str, Tensor], dict[str, Any]], object]


def rewrite(directory: Path, change: Change) -> None:
    """Change the file's tensors and header in place."""
    path = directory / PROBES
    with safe_open(path, framework="pt") as stream:
        header = json.loads(stream.metadata()["probes"])
    tensors = load_file(path)
    change(tensors, header)
    save_file(tensors, path, {"probes": json.dumps(header)})


def put(name: str, change: Callable[[Tensor], Tensor]) -> Change:
    """A change of one tensor."""
    return lambda tensors, _: tensors.update({name: change(tensors[name]).contiguous()})


CHANGES: dict[str, Change] = {
    "version": lambda _, header: header.update(version=2),
    "no steps": lambda _, header: header.pop("steps"),
    "steps missing": lambda _, header: header.update(steps=[0]),
    "steps too many": lambda _, header: header.update(steps=[0, 3, 4]),
    "steps descending": lambda _, header: header.update(steps=[3, 0]),
    "steps twice": lambda _, header: header.update(steps=[3, 3]),
    "steps no numbers": lambda _, header: header.update(steps=["0", "3"]),
    "steps true and false": lambda _, header: header.update(steps=[False, True]),
    "steps negative": lambda _, header: header.update(steps=[-1, 3]),
    "steps not a list": lambda _, header: header.update(steps=2),
    "empty": lambda _, header: header.update(steps=[], sentences=[]),
    "sentences no pairs": lambda _, header: header.update(sentences=["a", "b"]),
    "sentences no texts": lambda _, header: header["sentences"][0].update(source=1),
    "another sentence": lambda _, header: header["sentences"][0].update(source="Hund"),
    "endless sentence": lambda _, header: header["sentences"][0].update(source="Hund " * 1000),
    "one sentence less": lambda _, header: header["sentences"].pop(),
    "unknown entry": lambda _, header: header["sentences"][0].update(more="text"),
    "tensor missing": lambda tensors, _: tensors.pop("1.cross"),
    "tensor too many": lambda tensors, _: tensors.update({"2.cross": tensors["1.cross"].clone()}),
    "first tensor missing": lambda tensors, _: tensors.pop("0.encoder"),
    "other type": put("0.cross", Tensor.float),
    "other rank": put("0.cross", Tensor.flatten),
    "one layer less": put("1.decoder", lambda each: each[:, 1:]),
    "one head less": put("0.encoder", lambda each: each[:, :, 1:]),
    "axes swapped": put("0.cross", lambda each: each.transpose(-1, -2)),
    "no heads": lambda tensors, _: tensors.update(
        {n: t[:, :, :0].contiguous() for n, t in tensors.items() if t.ndim == 5}
    ),
    "rows of no attention": put("1.encoder", lambda each: each // 2),
    "log-probability above 0": put("1.log_probabilities", lambda each: -each),
    "log-probability of no number": put("1.log_probabilities", lambda each: each * torch.nan),
    "log-probability endless": put("1.log_probabilities", lambda each: each * torch.inf),
}


def part(**values: object) -> Change:
    """A change of the earlier part."""
    return lambda _, header: header["earlier"][0].update(values)


PART_CHANGES: dict[str, Change] = {
    "no list": lambda _, header: header.update(earlier=7),
    "too many": lambda _, header: header.update(earlier=header["earlier"] * 21),
    "without steps": part(steps=[]),
    "steps after the next part": part(steps=[0, 30]),
    "last step before a probe": part(last=2),
    "last step in the next part": part(last=9),
    "last step no number": part(last="5"),
    "steps missing": part(steps=[0]),
    "no languages": part(languages=[]),
    "languages no texts": part(languages=[1, 2]),
    "title no text": part(title=None),
    "vocabulary no number": part(vocabulary="many"),
    "vocabulary empty": part(vocabulary=0),
    "no tokens": part(tokens=[]),
    "tokens cut": lambda _, header: header["earlier"][0]["tokens"][0]["source"].pop(),
    "token no text": lambda _, header: header["earlier"][0]["tokens"][0]["source"][0].update(text=1),
    "token special": lambda _, header: header["earlier"][0]["tokens"][0]["source"][0].update(special=1),
    "token word": lambda _, header: header["earlier"][0]["tokens"][0]["source"][0].update(word="1"),
    "unknown entry": lambda _, header: header["earlier"][0]["tokens"][0]["source"][0].update(more=1),
    "tensor missing": lambda tensors, _: tensors.pop("earlier.0.1.cross"),
    "no part": lambda _, header: header.pop("earlier"),
}


@pytest.mark.parametrize("change", PART_CHANGES.values(), ids=PART_CHANGES)
def test_a_changed_earlier_part_is_refused(joint: Translator, tmp_path: Path, change: Change) -> None:
    begun(joint, tmp_path)
    rewrite(tmp_path, change)
    with pytest.raises(UserError, match="cannot be used .*; copy it from its run again"):
        Probes.load(tmp_path)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_file_is_refused_in_a_sentence(directory: Path, change: Change) -> None:
    rewrite(directory, lambda *_: None)
    Probes.load(directory)  # what follows is refused for the change alone
    rewrite(directory, change)
    with pytest.raises(UserError, match="cannot be used .*; copy it from its run again"):
        Probes.load(directory)


@pytest.mark.parametrize(
    "metadata", [None, {"other": "{}"}, {"probes": "{"}, {"probes": "[]"}, {"probes": "[" * 10**5}]
)
def test_a_file_without_our_header_is_refused(directory: Path, metadata: dict[str, str] | None) -> None:
    save_file(load_file(directory / PROBES), directory / PROBES, metadata)
    with pytest.raises(UserError, match="cannot be used"):
        Probes.load(directory)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_file_cut_short_is_refused(directory: Path, share: float) -> None:
    whole = (directory / PROBES).read_bytes()
    (directory / PROBES).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UserError, match="cannot be used|truncated or broken"):
        Probes.load(directory)


def test_a_file_beyond_all_measure_is_refused_unread(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (directory / PROBES).open("ab") as stream:
        stream.truncate(65 << 20)  # sparse
    monkeypatch.delattr(model.files, "safe_open")
    with pytest.raises(UserError, match="at most 67,108,864 are read"):
        Probes.load(directory)


def test_shapes_are_refused_before_a_tensor_is_read(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(directory, CHANGES["one layer less"])
    monkeypatch.setattr(model.storage.probes, "_check_values", lambda _: pytest.fail("tensors were read"))
    with pytest.raises(UserError, match="its shapes do not fit its sentences"):
        Probes.load(directory)


def test_other_tokenizers_are_refused(directory: Path) -> None:
    checkpoint = tiny_checkpoint(tied=False)
    save_tokenizers(directory, checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    with pytest.raises(UserError, match="its shapes do not fit its sentences"):
        Probes.load(directory)


def test_a_model_without_probes_is_told_apart_from_a_broken_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no probes.safetensors; this model's training was not probed"):
        Probes.load(tmp_path)
