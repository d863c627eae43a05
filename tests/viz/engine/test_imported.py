"""The engine in the browser reads imported models: SentencePiece tokenizers, a code before the sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from model import Translator
from model.importing.importer import import_model
from model.text.tokenizer import EOS_ID
from tests import hostile
from tests.model.importing import checkpoints as marian
from tests.model.text.test_sentencepiece import HARD, KINDS
from tests.viz.engine.test_answers import OPTIONS, check, readable
from tests.viz.questions import COMMON


def imported(folder: Path, **settings: Any) -> Translator:
    marian.write_checkpoint(folder / "marian", **settings)
    import_model(str(folder / "marian"), folder / "tiny")
    return Translator.load(folder / "tiny")


@pytest.mark.parametrize(
    "separate",
    [
        pytest.param(False, id="one vocabulary", marks=pytest.mark.slow),
        pytest.param(True, id="two vocabularies"),
    ],
)
def test_an_imported_model_gives_the_answers_of_the_server(tmp_path, separate):
    shapes = {"share_encoder_decoder_embeddings": False, "separate": True} if separate else {}
    translators = {"tiny": imported(tmp_path, codes=(">>fra<<", ">>ita<<"), **shapes)}
    texts = [*marian.sentences(marian.GERMAN, 5, seed=1), ">>ita<< Der kleine Hund läuft."]
    requests = [
        {**COMMON, **options, "do": "translate", "forced": [], "text": text}
        for text in texts
        for options in OPTIONS
    ]
    requests += [{**COMMON, "do": "mute", "heads": [["cross", 1, 1]], "text": texts[0]}]
    if not separate:
        code = translators["tiny"].checkpoint.target_tokenizer.encode(">>fra<<")
        ids = [*code, 40, *code, 41, EOS_ID]
        requests += [{**COMMON, "do": "target", "text": texts[0], "ids": ids}]
    requests += [{**COMMON, "do": "training"}]
    requests += [
        {**COMMON, "do": do, "language_prefix": ">>ita<< ", "text": text, **fields}
        for text in (texts[0], "", " ", "\N{SNOWMAN}")
        for do, fields in [
            ("translate", {"forced": []}),
            ("beams", {}),
            ("mute", {"heads": [["cross", 1, 1]]}),
        ]
    ]
    requests += [
        {**COMMON, "do": "translate", "forced": [], "text": text} for text in (">>ita<<", ">>ita<<  ")
    ]
    check(tmp_path, translators, requests)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rule", "bytes_"), KINDS)
def test_texts_have_the_tokens_of_the_server(tmp_path, monkeypatch, kind, rule, bytes_):
    """Of every strange kind, and as the given translation, whose pieces become text again."""
    files = {language: marian.spm(language, kind, rule, bytes_=bytes_) for language in ("de", "en")}
    monkeypatch.setattr(marian, "spm", files.__getitem__)
    translators = {"tiny": imported(tmp_path)}
    texts = [*HARD, *readable(hostile.some(100)), *marian.sentences(marian.GERMAN, 20, seed=2)]
    questions = [{"do": "score", "text": text, "target": text} for text in texts]
    check(tmp_path, translators, [{**COMMON, **question} for question in questions], each=10)
