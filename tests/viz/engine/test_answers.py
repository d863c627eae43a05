"""The engine in the browser answers every request as the server does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from model import Translator
from model.analysis.corpus import save_heads
from model.instruments import make_lens, measure_translations, translate_corpus
from model.results import KINDS
from model.storage.checkpoint import WEIGHTS, Checkpoint, save
from model.storage.probes import Probes
from tests import hostile
from tests.model.helpers import SENTENCES, tiny_checkpoint
from tests.viz.engine.engine import Reference, ask_engine, ask_server
from tests.viz.questions import COMMON, GOOD, IDS, OF_FILES, PATCH, TEXT, train
from viz.server.fields import MAX_CHARACTERS
from viz.server.handlers import HANDLERS

ELSEWHERE = (*OF_FILES, "export", "portable")  # how the requests begin that other tests ask
OPTIONS = [{"beam_size": 1, "length_penalty": 1.0}, {"beam_size": 4, "length_penalty": 0.6}]


def stored(folder: Path, checkpoint: Checkpoint, *, bits: int) -> Translator:
    """The model after it was written with weights in so many bits."""
    save(checkpoint, folder, eight_bit=bits == 8)
    if bits == 32:
        save_file(
            {name: each.detach().clone() for name, each in checkpoint.model.named_parameters()},
            folder / WEIGHTS,
        )
    return Translator.load(folder)


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Translator]:
    """Small models that differ in everything that a file may say."""
    folder = tmp_path_factory.mktemp("models")
    joint, sided = (
        tiny_checkpoint(seed=1, taught_head=(3, 1)),
        tiny_checkpoint(tied=False, seed=2, norm="post", activation="gelu"),
    )
    return {
        "int8": stored(folder / "int8", joint, bits=8),
        "float16": stored(folder / "float16", joint, bits=16),
        "float32": stored(folder / "float32", joint, bits=32),
        "sided": stored(folder / "sided", sided, bits=8),
        "separate": stored(folder / "separate", tiny_checkpoint(seed=3, separate_output=True), bits=8),
    }


def check(
    folder: Path,
    translators: dict[str, Translator],
    requests: list[Any],
    wasm: Sequence[bool] = (True,),
    each: int = 1,
) -> None:
    """Engine and server give the exact answers but for rounding, to every request that `each` counts.

    The engine answers once for each of `wasm`: with WebAssembly, or in JavaScript alone.

    The exact answers take long. The answers to the other requests are first compared with each other, by the
    bounds of those that `each` counts. Where they differ by more, both are compared with the exact answer.
    """
    reference = Reference(translators, requests[::each])
    engines = (ask_engine(folder, translators, requests, each) for each in wasm)
    answers = [ask_server(translators, requests), *engines]
    wrong = {}
    for request, *sides in zip(requests, *answers, strict=True):
        found = reference.wrong(request, *sides)
        if found and not reference.knows(request):
            own = {name: one for name, one in translators.items() if name == request["model"]}
            found = Reference(own, [request]).wrong(request, *sides)
        if found:
            wrong[f"{request['do']} {request['model']} {request['text']!r}"] = found
    assert not wrong, list(wrong.items())[:5]


def readable(texts: list[str]) -> list[str]:
    """Without those that the server refuses before a model sees them."""
    return [text for text in texts if len(text) <= MAX_CHARACTERS]


def test_every_request_of_the_server_is_asked_here():
    assert set(GOOD) == set(HANDLERS)


def test_every_request_gets_the_answer_of_the_server(tmp_path, translators):
    requests = [
        {**COMMON, **options, "do": do, **fields, "model": name}
        for name, options in [("int8", OPTIONS[0]), ("separate", OPTIONS[1])]
        for do, fields in GOOD.items()
        if not do.startswith(ELSEWHERE)
    ]
    # The weights of these are read in another way; what is computed with them is the same.
    translations = [request for request in requests if request["do"] == "translate"]
    requests += [{**each, "model": name} for name in ("float16", "float32") for each in translations]
    check(tmp_path, translators, requests, wasm=(True, False))


def test_instruments_answer_for_post_norm_and_every_kind_of_head(tmp_path, translators):
    """With a smooth activation, in every layer, and in the row and at the step that is last."""
    ids = list(translators["sided"].score(TEXT, "A small dog runs.").ids)
    last = len(ids) - 1
    cells = [
        {"do": do, "kind": kind, "layer": layer, "head": 1, "row": 3, "column": 2}
        for do in ("score_split", "writing")
        for kind in KINDS
        for layer in (0, 1)
    ]
    removals = [
        {"do": "removal", "kind": kind, "layer": layer, "row": row, "step": step, **head}
        for kind, layer, row, step, head in [
            ("encoder", 1, 3, last, {}),
            ("encoder", 0, 0, 1, {"head": 2}),
            ("decoder", 1, 2, last, {"head": 0}),
            ("decoder", 2, last, last, {}),
            ("cross", 0, 3, 2, {}),
        ]
    ]
    words = [{"do": "contributions", "step": step, "word": ids[step]} for step in (0, last)]
    words += [{"do": "contributions", "step": 2, "word": 5, "other": 7}]
    links = [{"do": "links"}, {"do": "links", "head": ["cross", 0, 2], "gold": "0-0 2p1 1-3"}]
    links += [{"do": "links", "gold": gold} for gold in ("0-0 x", "0-9")]
    links += [{"do": "links", "head": ["decoder", 0, 2]}]
    asked = [*cells, *removals, *words, *links]
    check(tmp_path, translators, [{**COMMON, "model": "sided", "ids": ids, **each} for each in asked])


def test_muted_heads_give_what_the_baseline_says(tmp_path, translators):
    other = {"baseline": "sentence", "other": "Die Tür."}  # shorter
    mean = {"baseline": "mean", "sample": [TEXT, "", "Die Tür ist heiß."]}
    heads = [["cross", 1, 1], ["decoder", 0, 2], ["encoder", 1, 0]]
    ofrow = {"heads": heads[:2], "row": 2}
    questions = [{"do": "mute", "heads": heads, **given} for given in (other, mean)]
    questions += [{"do": "mute", **ofrow, **given} for given in ({}, other, mean)]
    questions += [{"do": "mute", "heads": heads[2:], "row": row, **PATCH} for row in (1, 99)]
    questions += [{"do": "mute", "heads": heads, "row": 1}, {"do": "mute", **ofrow, **other, "row": 6}]
    questions += [{"do": "mute", "heads": heads, "baseline": "mean", "sample": [" "]}]
    questions += [{"do": "importance", **given} for given in (other, mean)]
    check(tmp_path, translators, [{**COMMON, "model": "int8", "ids": IDS, **each} for each in questions])


def test_sentences_are_surveyed_together(tmp_path, translators):
    sentences = [*SENTENCES, "", "漢字", SENTENCES[0]]
    question = {**COMMON, "do": "examples", "model": "int8", "sentences": sentences}
    check(tmp_path, translators, [question, {**question, "sentences": [" "]}])


@pytest.mark.numeric
def test_every_head_can_be_muted_and_every_kind_of_cell_explained(tmp_path, translators):
    config = translators["int8"].checkpoint.model.config
    layers = {
        kind: config.n_encoder_layers if kind == "encoder" else config.n_decoder_layers for kind in KINDS
    }
    heads = [(kind, layer, 1) for kind in KINDS for layer in range(layers[kind])]
    muted = [{"do": "mute", "heads": [list(head)], "ids": IDS} for head in heads]
    forced = [{**each, "forced": IDS[:2]} for each in muted[::5]]
    cells = [
        {"do": "cell", "ids": IDS, "kind": kind, "layer": layer, "head": 1, "row": 3, "column": 2}
        for kind, layer, _ in heads
    ]
    routes = [{"do": "routes", "ids": IDS, "step": step} for step in (0, len(IDS) - 1, len(IDS))]
    own = [{"do": "importance"}, {"do": "mute", "heads": [["cross", 1, 1]]}]  # of the model's own translation
    questions = [*muted, *forced, *cells, *routes, *own]
    check(tmp_path, translators, [{**COMMON, **question, "model": "int8"} for question in questions])


@pytest.mark.parametrize("of_each", [2, pytest.param(1000, marks=pytest.mark.slow)])
def test_texts_in_and_out_are_those_of_the_server(tmp_path, translators, of_each):
    """Words in and characters out, and letters and merges, over texts of every strange kind."""
    texts = [*SENTENCES, *readable(hostile.some(of_each)), "x " * 5000, ""]
    requests = [
        {**COMMON, "do": "score", "model": model, "text": source, "target": target}
        for model in ("int8", "sided")
        for text in texts
        for source, target in ([(text, text)] if of_each == 2 else [(text, "A dog."), (TEXT, text)])
    ]
    check(tmp_path, translators, requests, each=10)


@pytest.mark.slow
def test_the_longest_sentence_is_translated_and_the_next_one_refused(tmp_path, translators):
    length = len(translators["sided"].checkpoint.source_tokenizer.encode("Hund " * 127))
    assert length == 127
    # Greedy: among the hypotheses of so long a text of one word are equals, whose order rounding decides.
    requests = [
        {**COMMON, **OPTIONS[0], "do": "translate", "forced": [], "model": "sided", "text": "Hund " * words}
        for words in (127, 128)
    ]
    check(tmp_path, translators, requests, each=len(requests))


def test_the_training_is_the_same_from_its_files(tmp_path):
    directory = tmp_path / "tiny"
    save(tiny_checkpoint(seed=1), directory)
    train(directory)
    translator = Translator.load(directory)
    step = {"do": "training_step", "step": 4}
    questions = [{"do": "training"}, *({**step, "sentence": sentence} for sentence in (0, 1, 2))]
    questions += [{**step, "step": 3, "sentence": 0}]  # neither this step nor the sentence above is there
    questions += [{"do": "training_heads", "sentence": sentence} for sentence in (0, 1)]
    requests = [{**COMMON, **question} for question in questions]
    check(tmp_path, {"tiny": translator}, requests)
    probes = Probes.load(directory)
    latin, english = ("Deutsch → Latein", ("de", "la")), ("Deutsch → Englisch", ("de", "en"))
    for title, languages in (latin, latin, english):
        measured = {at + 10: each for at, each in probes.current.measured.items()}
        part = replace(probes.current, measured=measured)
        probes.begin_part(title, languages, probes.steps[-1] + 3, part)
    probes.save(directory)
    steps = [{**step, "step": at, "sentence": 1} for at in probes.steps]
    check(
        tmp_path,
        {"tiny": translator},
        [*requests[:1], *requests[-2:], *({**COMMON, **each} for each in steps)],
    )
    (directory / "metrics.jsonl").write_text('{"step": 1, "train/loss": 2.0}\nbroken\n')
    check(tmp_path, {"tiny": translator}, requests)
    for name in ("metrics.jsonl", "probes.safetensors"):
        (directory / name).unlink()
        check(tmp_path, {"tiny": translator}, requests[:1])


def test_what_the_heads_do_over_a_corpus_is_the_same_from_its_file(tmp_path):
    directory = tmp_path / "tiny"
    save(tiny_checkpoint(seed=1), directory)
    translator, request = Translator.load(directory), {**COMMON, "do": "corpus"}
    check(tmp_path, {"tiny": translator}, [request])  # both say that nobody has measured it
    translations = translate_corpus(translator, SENTENCES[:4])
    save_heads(measure_translations(translations), directory)
    make_lens(translator, translations, directory)
    lens = [{**COMMON, **GOOD[do], "do": do} for do in ("lens", "summary")]
    check(tmp_path, {"tiny": translator}, [request, *lens])
