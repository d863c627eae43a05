"""In short agrees with the instruments that its sentences open: 200 sentences, all shipped models."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from model import Translator
from model.analysis.thresholds import THRESHOLDS
from tests.viz.engine.engine import identity_for_node
from tests.viz.node import run_node
from viz.payload import to_json
from viz.server.backend import Backend
from viz.static.settings import settings

ROOT = Path(__file__).parents[3]
ASSETS = ROOT / "assets"
EVERYDAY = json.loads((ASSETS / "everyday.json").read_text("utf-8"))
COUNT, PART = 50, 10  # sentences of each model, in all and in one test
OWN = {
    "de-en": [
        "Frau Müller hat in München drei Brötchen gekauft.",
        "Angela Merkel wurde 1954 in Hamburg geboren.",
        "asdf qwer zxcv 123 !!!",
        "Donaudampfschifffahrtsgesellschaftskapitän",
        "Ja.",
        "Die Frau, die neben dem Mann sitzt, der die Zeitung liest, ist meine Tante.",
        "der der der die die das",
        "Sch☃ee 😀",
        "„Nein“, sagte er.",
        "Kommst du?",
    ],
    "en-fr": [
        "I didn't know that she was coming tomorrow.",
        "The ticket costs 299 euros and includes breakfast.",
        "My brother's girlfriend works in Birmingham.",
        "Lorem ipsum dolor sit amet.",
        "No.",
        "the the the the",
        "What time is it?",
        "xyzzy",
        "He said: “Don't!”",
        "Zinedine Zidane scored two goals.",
    ],
    "en-it": [
        "We didn't buy anything because everything was too expensive.",
        "I can't find my keys anywhere.",
        "Professor Smith will talk about quantum mechanics.",
        "xyzzy",
        "I love you.",
        "12345",
        "The red car and the blue bicycle belong to the man next door.",
        "!",
        "a a a b b",
        "She's a doctor; he isn't.",
    ],
}
LOST, LINKED, UNSURE = (THRESHOLDS[name] for name in ("lost", "linked", "unsure"))
ROUNDED = 1e-5  # nats: both answers are rounded to six digits, and their parts are added


def sentences(model: str) -> list[str]:
    if model == "reverse":
        draw = random.Random(1)
        return ["".join(draw.choices("abcdefghilmnoprstu", k=draw.randint(1, 12))) for _ in range(COUNT)]
    return [*EVERYDAY[model], *OWN[model]][-COUNT:]


class Answers:
    """A record and what the instruments answer about it."""

    def __init__(self, record: Any, without: Any, lens: Any, mutes: list[Any]) -> None:
        self.without, self.mutes = without, mutes
        worth = lens["measured"] and {way: sum(values) for way, values in lens["measured"]["decoder"].items()}
        self.lens = lens | lens["jacobian"] if worth and worth["jacobian"] > worth["direct"] else lens
        self.chances, self.alternatives = record["log_probabilities"], record["alternatives"]
        self.tokens, self.missing = record["tokens"], record["missing"]
        self.is_of_letters = all(
            token["special"] or len(token["text"].strip()) <= 1
            for side in ("source", "predicted")
            for token in self.tokens[side]
        )
        self.source, self.target = self._words("source"), self._words("predicted")

    def _words(self, side: str) -> list[list[int]]:
        """The places of each word; a model of letters has letters."""
        words: dict[int, list[int]] = {}
        for place, token in enumerate(self.tokens[side]):
            if token["word"] is not None:
                words.setdefault(place if self.is_of_letters else token["word"], []).append(place)
        text = lambda places: "".join(self.tokens[side][place]["text"] for place in places)  # noqa: E731
        return [places for places in words.values() if any(letter.isalnum() for letter in text(places))]

    def loss(self, places: list[int], steps: list[int]) -> float:
        row = self.without["losses"][self.without["groups"].index(places)]
        return sum(row[step] for step in steps)

    def losses(self, places: list[int]) -> list[float]:
        return [self.loss(places, steps) for steps in self.target]

    def origin(self, steps: list[int]) -> list[int]:
        """The source word without which a word of the translation loses most."""
        return max(self.source, key=lambda places: self.loss(places, steps))

    def losses_of_own(self, places: list[int]) -> list[float]:
        """What the words that come from this source word lose without it."""
        return [self.loss(places, steps) for steps in self.target if self.origin(steps) == places]


def check_steps(fact: Any, found: Answers) -> None:
    chances = {step: math.exp(found.chances[step]) for word in found.target for step in word}
    unsure = [step for step, chance in chances.items() if chance < UNSURE]
    named = [one["step"] for one in fact["steps"]]
    assert named == sorted(unsure or chances, key=lambda step: chances[step])[: len(named)]
    assert fact.get("count", 0) == len(unsure)
    for one in fact["steps"]:
        assert one["chance"] == pytest.approx(chances[one["step"]])
        taken = found.tokens["predicted"][one["step"]]["id"]
        others = [each for each in found.alternatives[one["step"]] if each["id"] != taken]
        rival = one["rival"] and {name: value for name, value in one["rival"].items() if name != "whole"}
        assert rival is None or rival in others
        if whole := (one["rival"] or {}).get("whole"):
            assert rival["text"].strip() in whole["text"]
            assert whole["pieces"] >= 1


def check_warning(fact: Any, found: Answers) -> None:
    places = fact["word"]["places"]
    assert places in found.source
    assert len(places) == len(fact["pieces"]) > 1
    if fact["name"] == "doubted":
        assert found.loss(places, fact["made"]["places"]) >= LINKED
        assert math.exp(sum(found.chances[step] for step in fact["made"]["places"])) < UNSURE


def check_depends(fact: Any, found: Answers) -> None:
    steps, places = fact["word"]["places"], fact["from"]["places"]
    loss = found.loss(places, steps)
    assert math.log(fact["factor"]) == pytest.approx(loss, abs=ROUNDED)
    assert all(found.loss(other, steps) <= loss + ROUNDED for other in found.source)
    instead = found.without["likeliest"][found.without["groups"].index(places)][steps[0]]
    same = instead == found.tokens["predicted"][steps[0]]["id"]
    assert fact["other"] is None if same else fact["other"]["id"] == instead


def check_spare(fact: Any, found: Answers) -> None:
    named = [word["places"] for word in fact.get("words", [])]
    for places in found.source:
        most = max(found.losses(places))
        assert most < LOST + ROUNDED if places in named else most >= LOST - ROUNDED


def check_moved(fact: Any, found: Answers) -> None:
    places, steps = fact["source"]["places"], fact["word"]["places"]
    assert places in found.source
    assert steps in found.target
    loss = found.loss(places, steps)
    assert loss >= LINKED - ROUNDED
    assert all(found.loss(other, steps) <= loss + ROUNDED for other in found.source)
    assert all(other <= loss + ROUNDED for other in found.losses_of_own(places))


def check_in_order(_: Any, found: Answers) -> None:
    """Of the words that clearly come from one source word, none passed another."""
    pairs = []
    for to, steps in enumerate(found.target):
        origin = found.origin(steps)
        loss = found.loss(origin, steps)
        if loss >= LINKED + ROUNDED and loss >= max(found.losses_of_own(origin)):
            pairs.append((found.source.index(origin), to))
    assert pairs == sorted(pairs)
    assert len(pairs) >= 2


def check_heads(fact: Any, found: Answers) -> None:
    for one, mute in zip(fact["heads"], found.mutes, strict=True):
        digit = 0.1 if one["factor"] < 10 else 1 + one["factor"] / 1000  # more than 1000 is printed as that
        assert math.exp(-sum(mute["differences"])) == pytest.approx(one["factor"], abs=digit / 2)
        assert one["text"] == mute["text"]


def check_late(fact: Any, found: Answers) -> None:
    leads = found.lens["leads_from"]
    steps = [step for word in found.target for step in word]
    assert [one["step"] for one in fact["words"]] == [step for step in steps if leads[step] == fact["layer"]]
    assert fact["layer"] == max(leads[step] for step in steps)
    for one in fact["words"]:
        leader = found.lens["words"][fact["layer"] - 1][one["step"]][0]
        if one["other"] is None:
            assert found.lens["tokens"][str(leader)]["special"]
        else:
            assert one["other"]["id"] == leader


def check_missing(fact: Any, found: Answers) -> None:
    assert fact["count"] == len(found.missing) >= len(fact["words"]) > 0
    for word, index in zip(fact["words"], found.missing, strict=False):
        assert word["places"] in found.source
        assert {found.tokens["source"][place]["word"] for place in word["places"]} == {index}


CHECKS = {
    "missing": check_missing,
    "sure": check_steps,
    "unsure": check_steps,
    "spelled": check_warning,
    "doubted": check_warning,
    "depends": check_depends,
    "spare": check_spare,
    "moved": check_moved,
    "in order": check_in_order,
    "heads": check_heads,
    "late": check_late,
    "no head": lambda *_: None,  # the head map shows the same table
}


def facts_in_node(folder: Path, translator: Translator, asked: list[Mapping[str, Any]]) -> list[Any]:
    models = {translator.name: identity_for_node(translator)}
    questions = {"models": models, "settings": settings(), "sentences": asked}
    (folder / "questions.json").write_text(to_json(questions), "utf-8")
    run_node(folder, Path(__file__).parent, "tests/summary.mjs")
    return list(json.loads((folder / "facts.json").read_text("utf-8")))


class Server:
    def __init__(self, backend: Backend, task: dict[str, Any]) -> None:
        self.backend, self.task = backend, task
        self.record = self.ask("translate", forced=[])
        del self.record["attention"]
        self.ids = [token["id"] for token in self.record["tokens"]["predicted"]]
        self.short = self.ask("summary", ids=self.ids)

    def ask(self, name: str, **fields: Any) -> Any:
        return json.loads(to_json(self.backend.answer({**self.task, "do": name, **fields})))["answer"]

    def answers(self, facts: list[Any]) -> Answers:
        heads = [one["head"] for fact in facts for one in fact.get("heads", [])]
        mutes = [self.ask("mute", ids=self.ids, heads=[head]) for head in heads]
        return Answers(
            self.record, self.ask("leave_one_out", ids=self.ids), self.ask("lens", ids=self.ids), mutes
        )


def compared(model: str, part: slice, folder: Path) -> Iterator[tuple[str, list[Any], Answers]]:
    """The facts of each sentence, with and without a server, with the instruments' answers."""
    translator = Translator.load(ASSETS / "models" / model)
    backend = Backend({model: translator})
    tasks = [
        {"model": model, "text": text, "beam_size": 1 + 3 * (place % 2), "length_penalty": 1.0}
        for place, text in enumerate(sentences(model)[part])
    ]
    servers = [Server(backend, task) for task in tasks]
    asked = [{"task": one.task, "record": one.record, "summary": one.short} for one in servers]
    for one, found in zip(servers, facts_in_node(folder, translator, asked), strict=True):
        yield f"server: {one.task['text']}", found["server"], one.answers(found["server"])
        engine = found["engine"]
        answers = Answers(*(engine[name] for name in ("record", "leave_one_out", "lens", "mutes")))
        yield f"engine: {one.task['text']}", engine["facts"], answers


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNT, PART))
@pytest.mark.parametrize("model", [*OWN, "reverse"])
def test_each_sentence_agrees_with_the_instrument_that_it_opens(
    model: str, first: int, tmp_path: Path
) -> None:
    """200 sentences of the four models, some of them garbage; minutes."""
    wrong, names = [], set()
    for where, facts, answers in compared(model, slice(first, first + PART), tmp_path):
        for fact in facts:
            names.add(fact["name"])
            try:
                CHECKS[fact["name"]](fact, answers)
            except AssertionError as error:
                wrong.append(f"{where}: {fact['name']}: {error}")
    assert wrong == []
    assert "depends" in names
