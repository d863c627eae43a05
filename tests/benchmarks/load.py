"""Load test: many people at the page, then one translation after another: `make load`.

The server is a process of its own, started as a person starts it, with the shipped models. People are
clients on 127.0.0.1 that send the requests of the viewer or call the named endpoints; a real browser
connects halfway. Each waits some seconds between two requests, as people do, and checks that an answer
belongs to its request. The command fails unless there is no error, no person typically waits more than
twice as long as the others, and memory grows by less than 2 % after the first tenth. --previous names the
commit of the previous release, which is measured in the same way first.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import tyro
from playwright.async_api import async_playwright

from tests.benchmarks.attack import NEIGHBOUR, megabytes, start_hostile_neighbour
from tests.benchmarks.lesson import lessons
from tests.benchmarks.previous import release
from tests.visitor import ROOT, Server, serving

EXAMPLES = json.loads((ROOT / "assets" / "examples.json").read_text("utf-8"))
MODEL = "de-en"
WARM_UP = 20.0  # seconds after the start: kernels may be compiled, and models loaded
ALONE = 45.0  # seconds of the people without the hostile neighbour
NUMBERS = ["Zwei", "Drei", "Vier", "Fünf", "Sechs", "Acht", "Neun", "Zehn", "Elf", "Zwölf"]
FIFTEEN_TOKENS = "{} Katzen schlafen heute auf dem warmen Dach, und der Hund spielt."
PAUSE = (5.0, 15.0)  # seconds that a person looks at an answer
# How many of a hundred actions are of each kind.
ACTIONS = {
    "translate": 50,
    "example": 10,
    "beam": 5,
    "api": 5,
    "score": 5,
    "mute": 10,
    "cell": 6,
    "transformed_norm": 3,
    "beams": 3,
    "importance": 3,
}
SUBJECTS = ["Der Hund", "Die Frau", "Mein Bruder", "Das Kind", "Ein alter Mann", "Tom"]
VERBS = ["sieht", "sucht", "kauft", "findet", "malt", "trägt", "vergisst", "zeigt uns", "verkauft"]
OBJECTS = [
    "den roten Ball",
    "ein Buch",
    "das Fahrrad",
    "einen Apfel",
    "die Schlüssel",
    "zwei Bilder",
    "den Brief",
]
PLACES = ["im Park", "am Bahnhof", "vor dem Haus", "in der Küche", "auf dem Markt", "hinter der Schule"]
TIMES = ["heute", "gestern", "am Abend", "jeden Morgen", "nach der Arbeit", "um {} Uhr", "seit {} Tagen"]


@dataclass
class Person:
    """A person with an open page, and the waits and errors of this person."""

    number: int
    client: httpx.AsyncClient
    component: int
    sees_short: bool = False  # the page asks what In short says with each translation; since 0.2
    session: str = field(default_factory=lambda: uuid.uuid4().hex)
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    actions: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.number)

    async def live(self, until: float) -> None:
        """Send requests with pauses until the time is over; the last request is finished."""
        await asyncio.sleep(self.chance.uniform(0, PAUSE[1]))
        while time.monotonic() < until:
            await self.act(*self.chance.choices(list(ACTIONS), list(ACTIONS.values())))
            await asyncio.sleep(self.chance.uniform(*PAUSE))

    async def act(self, action: str) -> None:
        """Do one action and record how long it took, or its error."""
        self.actions[action] += 1
        text = self.chance.choice(EXAMPLES[MODEL]) if action == "example" else sentence(self.chance)
        options = {"beam_size": 4 if action == "beam" else 1, "length_penalty": 1.0}
        common = {"model": MODEL, "text": text, **options}
        try:
            if action == "api":
                await self.timed(action, self.call("translate", text))
                return
            kind = action if action in {"example", "beam"} else "translate"
            record = await self.timed(kind, self.ask({**common, "do": "translate", "forced": []}))
            assert record["source_text"] == text, "the answer to another question"
            ids = [token["id"] for token in record["tokens"]["predicted"]]
            if self.sees_short:
                await self.timed("summary", self.ask({**common, "do": "summary", "ids": ids}))
            head = ["cross", self.chance.randrange(4), self.chance.randrange(8)]
            more: dict[str, dict[str, Any]] = {
                "score": {"target": "The dog sees the red ball."},
                "mute": {"ids": ids, "heads": [head]},
                "cell": {"ids": ids, "kind": "cross", "layer": 0, "head": 1, "row": 0, "column": 1},
                "transformed_norm": {"ids": ids},
                "beams": {"beam_size": 5},
                "importance": {"ids": ids},
            }
            if action in more:
                await self.timed(action, self.ask({**common, "do": action, **more[action]}))
        except Exception as error:
            self.errors.append(f"{action}: {error!r}"[:300])

    async def timed(self, what: str, work: Any) -> Any:
        """Return the result and record the wait."""
        start = time.monotonic()
        found = await work
        self.waits[what].append(time.monotonic() - start)
        return found

    async def ask(self, request: Mapping[str, Any]) -> Any:
        """Send a request as the viewer does. Raises RuntimeError with the error message of the page."""
        body = {
            "session_hash": self.session,
            "component_id": self.component,
            "fn_name": "ask",
            "data": request,
        }
        reply = await self.client.post("/gradio_api/component_server", json=body)
        reply.raise_for_status()
        answered = reply.json()
        if "error" in answered:
            raise RuntimeError(answered["error"])
        return answered["answer"]

    async def call(self, endpoint: str, *arguments: Any) -> Any:
        """Call a named endpoint as its documentation says: one request starts it, one reads its events."""
        url = f"/gradio_api/call/{endpoint}"
        started = await self.client.post(url, json={"data": [*arguments, MODEL, 1, 1.0, []]})
        started.raise_for_status()
        events = (await self.client.get(f"{url}/{started.json()['event_id']}")).text
        if "event: complete" not in events:
            raise RuntimeError(events[-200:])
        return events


def sentence(chance: random.Random) -> str:
    """A sentence of five to about fifteen words that is unlikely to be cached."""
    times = chance.choice(TIMES).format(chance.randint(2, 900))
    first = f"{chance.choice(SUBJECTS)} {chance.choice(VERBS)} {times} {chance.choice(OBJECTS)}"
    place = f" {chance.choice(PLACES)}" if chance.random() < 0.7 else ""
    second = f", und {chance.choice(SUBJECTS).lower()} {chance.choice(VERBS)} {chance.choice(OBJECTS)}"
    return f"{first}{place}{second if chance.random() < 0.4 else ''}."


def client_of(server: Server) -> httpx.AsyncClient:
    """A client without a limit of connections."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.visitor.port}", timeout=300, limits=limits)


@dataclass
class Figures:
    """What one release is measured by, in seconds, and whether its limits are met."""

    picture: float  # seconds from Enter to the first picture, for 15 tokens and one visitor; a median
    crowd: float  # the wait of 95 % of the translations among many people
    translation: float  # of one translation after another; a mean
    met: bool


async def crowd(server: Server, people: int, seconds: float, sees_short: bool) -> tuple[float, bool]:
    """Simulate many people and print their waits. Returns the late wait and whether all limits are met."""
    client, viewer = client_of(server), server.visitor.viewer()
    everybody = [Person(number, client, viewer, sees_short) for number in range(people)]
    end = time.monotonic() + seconds
    lives = asyncio.gather(*(person.live(end) for person in everybody))
    await asyncio.sleep(seconds / 2)
    page, (wait,) = await in_a_browser(server, ["Sieben Katzen schlafen auf dem warmen Dach."])
    await lives
    asked = sum((person.actions for person in everybody), Counter[str]())
    errors = [error for person in everybody for error in person.errors]
    print(f"{people} people, {seconds:.0f} s, {sum(asked.values()):,} actions: {dict(asked.most_common())}")
    print(f"errors and lost answers: {len(errors)} {errors[:3]}")
    worst = fairness(everybody)
    print(f"a browser that connected halfway: page {page:.2f} s, translation {wait:.2f} s")
    print(f"resident memory: {megabytes(server):.0f} MB")
    waits = sorted(wait for person in everybody for wait in person.waits["translate"])
    return late(waits), not errors and worst <= 2


def late(waits: list[float]) -> float:
    """The longest of the shortest 95 % of sorted waits."""
    return waits[int(0.95 * (len(waits) - 1))]


def fairness(people: list[Person]) -> float:
    """Print the waits for each kind of request; return the wait of the person who waited longest.

    Each wait is divided by the median wait of all people for the same kind of request.
    """
    usual: dict[str, float] = {}
    print(f"{'wait, s':>12}{'number':>8}{'median':>9}{'95 %':>9}{'longest':>9}")
    for what in sorted({what for person in people for what in person.waits}):
        waits = sorted(wait for person in people for wait in person.waits.get(what, []))
        usual[what] = statistics.median(waits)
        print(f"{what:>12}{len(waits):8,}{usual[what]:9.3f}{late(waits):9.3f}{waits[-1]:9.3f}")
    served = [
        statistics.median(wait / usual[what] for what, waits in person.waits.items() for wait in waits)
        for person in people
        if person.waits
    ]
    worst = max(served) / statistics.median(served)
    print(
        f"the person who waited longest: {worst:.2f} x as long as the others for the same kinds of requests"
    )
    return worst


async def in_a_browser(server: Server, sentences: list[str]) -> tuple[float, list[float]]:
    """Seconds that a person in a real browser waits for the page, and then for each translation."""
    path = os.environ.get("HEADLIGHT_CHROMIUM")  # else Playwright's own
    waits = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        view = await browser.new_page()
        start = time.monotonic()
        await view.goto(f"http://127.0.0.1:{server.visitor.port}")
        await view.locator(".hl-thumbnail").first.wait_for(timeout=120_000)
        loaded = time.monotonic() - start
        for sentence in sentences:
            before = await view.locator(".hl-translation").inner_text()
            await view.get_by_label("Sentence").fill(sentence)
            start = time.monotonic()
            await view.get_by_label("Sentence").press("Enter")
            changed = f"document.querySelector('.hl-translation').innerText !== {json.dumps(before)}"
            await view.wait_for_function(changed, timeout=120_000)
            waits.append(time.monotonic() - start)
        await browser.close()
    return loaded, waits


async def marathon(server: Server, translations: int) -> tuple[float, bool]:
    """Translate one sentence after the other; print how memory grows.

    Returns the seconds of each and whether memory grows by less than 2 %.
    """
    client, viewer = client_of(server), server.visitor.viewer()
    errors: list[str] = []
    settled = max(translations // 10, 1)
    memory: dict[int, float] = {}
    start = time.monotonic()
    for number in range(1, translations + 1):
        person = Person(-number, client, viewer)  # a person that the server has not seen
        await person.act("translate")
        errors += person.errors
        if number in {settled, translations} or number % settled == 0:
            memory[number] = megabytes(server)
    seconds = time.monotonic() - start
    growth = memory[translations] / memory[settled] - 1
    print(f"{translations:,} translations one after the other: {seconds / translations * 1e3:.1f} ms each")
    print("resident memory: " + ", ".join(f"{number:,}: {size:.0f} MB" for number, size in memory.items()))
    print(f"growth after the first {settled:,}: {growth:.2%}; errors: {len(errors)} {errors[:3]}")
    return seconds / translations, growth < 0.02 and not errors


async def beside_a_hostile_neighbour(server: Server, people: int, seconds: float) -> bool:
    """Simulate people beside a hostile client; print what they notice. Returns whether all limits are met.

    The people come a while earlier and stay a minute longer than the neighbour, so that the server's memory
    before and after is that with the same people.
    """
    client, viewer = client_of(server), server.visitor.viewer()
    end = time.monotonic() + ALONE + seconds + 60
    everybody = [Person(-(10**6) - number, client, viewer, sees_short=True) for number in range(people)]
    lives = asyncio.gather(*(person.live(end) for person in everybody))
    await asyncio.sleep(ALONE)
    before, most = megabytes(server), 0.0
    for person in everybody:
        person.waits.clear()
    neighbour = start_hostile_neighbour(server, seconds)
    while neighbour.is_alive():
        most = max(most, megabytes(server))
        await asyncio.sleep(1)
    waits = sorted(wait for person in everybody for each in person.waits.values() for wait in each)
    median, most_wait = statistics.median(waits), late(waits)
    print(f"{people} people beside a hostile client at {NEIGHBOUR}, {seconds:.0f} s, {len(waits):,} answers")
    fairness(everybody)
    print(f"wait: median {median:.2f} s, 95 % {most_wait:.2f} s")
    await lives
    after = megabytes(server)
    errors = [error for person in everybody for error in person.errors]
    print(f"errors and lost answers: {len(errors)} {errors[:3]}")
    print(f"memory: {before:.0f} MB before, at most {most:.0f} MB, {after:.0f} MB a minute later")
    return not errors and median < 0.5 and most_wait < 2 and most < 1200 and after < 1.1 * before


async def measure(people: int, seconds: float, translations: int, root: Path = ROOT) -> Figures:
    """All, one after the other, on one server of the release in this folder."""
    with serving(root=root) as server:
        await asyncio.sleep(WARM_UP)
        _, pictures = await in_a_browser(server, [FIFTEEN_TOKENS.format(number) for number in NUMBERS])
        picture = statistics.median(pictures)
        print(f"from Enter to the first picture, 15 tokens: {1000 * picture:.0f} ms")
        waited, served = await crowd(server, people, seconds, sees_short=root == ROOT)
        each, steady = await marathon(server, translations)
        return Figures(picture, waited, each, served and steady)


async def measure_fairness(people: int, seconds: float) -> bool:
    """A second server with a client that attacks it."""
    with serving() as server:
        await asyncio.sleep(WARM_UP)
        return await beside_a_hostile_neighbour(server, people, seconds)


def main(
    people: int = 100,
    minutes: float = 5,
    translations: int = 10_000,
    hostile_minutes: float = 3,
    previous: str = "",
    lesson: bool = False,
) -> None:
    """Print the waits of many people and the growth of memory; exit with 1 when a limit is missed.

    Args:
        people: Number of people at the same time.
        minutes: Duration of their visit.
        translations: Number of translations after that, one after another.
        hostile_minutes: Duration of a second visit, beside a client that attacks; 0 leaves it out.
        previous: Commit of the previous release, which is measured first.
        lesson: Measure only lessons of thirty and a hundred, who open one link within ten seconds.
    """
    if lesson:
        sys.exit(None if asyncio.run(lessons()) else "A limit was missed.")
    before = None
    with ExitStack() as stack:
        if previous and (folder := stack.enter_context(release(previous))) is not None:
            print("Previous release")
            before = asyncio.run(measure(people, 60 * minutes, translations, folder))
            print("\nThis release")
    figures = asyncio.run(measure(people, 60 * minutes, translations))
    fair = not hostile_minutes or asyncio.run(measure_fairness(people, 60 * hostile_minutes))
    if before is not None:
        for name in ("picture", "crowd", "translation"):
            now, then = getattr(figures, name), getattr(before, name)
            print(f"{name:>12}: {now:.3f} s, previous release {then:.3f} s, {now / then:.2f} x")
    if not (figures.met and fair):
        sys.exit("A limit was missed.")
    print("All limits are met.")


if __name__ == "__main__":
    tyro.cli(main)
