"""Whatever happens to a byte of a file of a stranger, each reader gives a value or one sentence, and soon."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model.errors import UserError
from model.importing.importer import import_model, read_checkpoint
from model.storage.checkpoint import load
from model.storage.probes import Probes
from model.storage.training_log import METRICS, TrainingLog
from model.translator import Translator
from tests.hostile.changes import change, changes
from tests.model.helpers import assert_sentence, tiny_checkpoint
from tests.model.importing.checkpoints import write_checkpoint
from tests.model.importing.test_marian_bin import small_arrays, write_folder
from tests.model.storage.test_probes import probed
from viz import payload

SECONDS = 10  # of the processor, for what takes some hundredths


def write_marian(directory: Path) -> None:
    """A checkpoint of transformers, with SentencePiece models."""
    write_checkpoint(directory)


def write_imported(directory: Path) -> None:
    """The same as a model directory, whose tokenizer has a table of replacements."""
    write_marian(directory.with_name("origin"))
    import_model(str(directory.with_name("origin")), directory)


def write_bin(directory: Path) -> None:
    """model.bin of Marian with its words."""
    write_folder(directory, small_arrays(), "vocab.abcd.yml")


def write_probes(directory: Path) -> None:
    """Attention of a training."""
    directory.mkdir()
    probed(Translator(tiny_checkpoint(True, d_model=6, d_ff=4)), directory)


def write_log(directory: Path) -> None:
    """Figures of a training."""
    directory.mkdir()
    rows = (f'{{"step": {step}, "train/loss": {5 / step}, "sample": "Hund"}}\n' for step in range(1, 40))
    (directory / METRICS).write_text("".join(rows))


def write_payload(directory: Path) -> None:
    """A translation as the page and the API send it."""
    directory.mkdir()
    translation = Translator(tiny_checkpoint(True, d_model=6, d_ff=4)).translate("Ein Hund.", 2)
    (directory / "payload.json").write_text(json.dumps(payload.encode(translation, "tiny")))


def read_payload(directory: Path) -> None:
    """Decode what is still a JSON object."""
    try:
        changed = json.loads((directory / "payload.json").read_bytes())
    except ValueError:
        return
    if isinstance(changed, dict):
        payload.decode(changed)


def translate(directory: Path) -> None:
    """Use every part of a model."""
    Translator(load(directory)).translate("Ein ﬁnaler Hund, 3 mal.")


def show_probes(directory: Path) -> None:
    """Use every probe."""
    probes = Probes.load(directory)
    for step in probes.steps:
        for sentence in range(len(probes.current.sentences)):
            probes.record(step, sentence)
            probes.log_probabilities(step, sentence)
    assert probes.begin_trained in (True, False)


READERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "checkpoint of transformers": (write_marian, lambda directory: read_checkpoint(str(directory))),
    "model.bin of Marian": (write_bin, lambda directory: read_checkpoint(str(directory))),
    "imported model": (write_imported, translate),
    "probes": (write_probes, show_probes),
    "training log": (write_log, TrainingLog.load),
    "payload": (write_payload, read_payload),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_refuses_changed_bytes_or_works(name: str, tmp_path: Path) -> None:
    write, read = READERS[name]
    write(sound := tmp_path / "sound")

    @settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        shutil.rmtree(tmp_path / "changed", ignore_errors=True)
        directory = Path(shutil.copytree(sound, tmp_path / "changed"))
        file = directory / data.draw(st.sampled_from(sorted(path.name for path in directory.iterdir())))
        change(file, data.draw(changes(file.stat().st_size)))
        started = time.process_time()
        try:
            read(directory)
        except UserError as error:
            assert_sentence(error)
        assert time.process_time() - started < SECONDS

    check()
