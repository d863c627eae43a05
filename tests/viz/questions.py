"""A tiny model with the record of its training, and one valid request of each kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from model.storage.checkpoint import save_tokenizers
from model.storage.probes import Part, ProbePair, Probes
from model.storage.training_log import METRICS
from model.translator import Translator
from tests.model.helpers import tiny_checkpoint
from tests.numerics import exact, translator_of
from training.run.probes import measure
from viz.payload import to_json
from viz.server.backend import Backend

TEXT = "Ein kleiner Hund läuft."
CHECKPOINT = tiny_checkpoint(seed=1)
# In float64, so that answers differ by their printed digits alone.
TRANSLATOR = translator_of(Translator(CHECKPOINT, "tiny"), exact(CHECKPOINT.model))
IDS = list(
    TRANSLATOR.score(TEXT, "A small dog runs.").ids
)  # given, since a random model would translate differently
BACKEND = Backend({"tiny": TRANSLATOR})
COMMON = {"model": "tiny", "text": TEXT, "beam_size": 1, "length_penalty": 1.0}
GOOD: dict[str, dict[str, Any]] = {
    "translate": {"forced": IDS[:2]},
    "target": {"ids": IDS},
    "score": {"target": "A dog."},
    "mute": {"ids": IDS, "heads": [["cross", 3, 1], ["encoder", 0, 2]]},
    "importance": {"ids": IDS},
    "transformed_norm": {"ids": IDS},
    "cell": {"ids": IDS, "kind": "decoder", "layer": 2, "head": 1, "row": 2, "column": 1},
    "beams": {"beam_size": 3},
    "export": {"forced": IDS[:2], "heads": [], "address": "http://127.0.0.1:7860/"},
    "portable": {"view": "#kind=cross&layer=1&head=2"},
    "lens": {"ids": IDS},
    "summary": {"ids": IDS},
    "leave_one_out": {"ids": IDS},
    "remove_word": {"places": [1, 2], "forced": []},
    "routes": {"ids": IDS, "step": 2},
    "contributions": {"ids": IDS, "step": 1, "word": IDS[1], "other": 5},
    "score_split": {"ids": IDS, "kind": "cross", "layer": 2, "head": 1, "row": 2, "column": 1},
    "writing": {"ids": IDS, "kind": "cross", "layer": 2, "head": 1, "row": 2, "column": 1},
    "removal": {"ids": IDS, "kind": "cross", "layer": 1, "head": 2, "row": 2, "step": 2},
    "links": {"ids": IDS, "head": ["cross", 3, 1], "gold": "0-0 1p1"},
    "examples": {"sentences": ["Ein kleiner Hund läuft.", "Die Tür ist heiß."]},
    "corpus": {},
    "training": {},
    "training_heads": {"sentence": 1},
    "training_step": {"step": 4, "sentence": 1},
}
OF_FILES = ("corpus", "training")  # how the requests begin that need a file of the model
PATCH = {"baseline": "sentence", "other": "Die Tür ist heiß.", "row": 1}  # for the muted heads of `mute`
PAIRS = (
    ProbePair("Ein kleiner Hund läuft.", "A small dog runs."),
    ProbePair("Die Tür ist heiß", "The door is hot"),
)


def ask(do: str, **fields: Any) -> Any:
    """The answer to the valid request with other fields, as the browser reads it."""
    reply = json.loads(to_json(BACKEND.answer({**COMMON, "do": do, **GOOD[do], **fields})))
    assert "error" not in reply, reply["error"]
    return reply["answer"]


def train(directory: Path) -> None:
    """Give the model a directory with a record of its training: two probed steps, two lines of the log."""
    checkpoint = TRANSLATOR.checkpoint
    part = Part.new(PAIRS, checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    part.measured = {step: tuple(measure(TRANSLATOR, pair) for pair in PAIRS) for step in (0, 4)}
    save_tokenizers(directory, checkpoint.source_tokenizer, checkpoint.target_tokenizer)
    Probes((part,)).save(directory)
    rows = ({"step": 0, "train/loss": 7.5}, {"step": 4, "train/loss": 6.5})
    (directory / METRICS).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    TRANSLATOR.directory = directory
