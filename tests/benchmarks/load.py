"""Load test: many people at the page, then one translation after another: `make load`.

The server is a process of its own, started as a person starts it, with the shipped models. People are
clients on 127.0.0.1 that send the requests of the viewer or call the named endpoints; a real browser
connects halfway. Each waits some seconds between two requests, as people do, and checks that an answer
belongs to its request. The command fails unless there is no error, no person typically waits more than
twice as long as the others, and memory grows by less than 2 % after the first tenth.
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
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil
import tyro
from playwright.async_api import async_playwright

from tests.benchmarks.attack import hostile_neighbour
from tests.visitor import ROOT, Server, serving

EXAMPLES = json.loads((ROOT / "assets" / "examples.json").read_text("utf-8"))
MODEL = "de-en"
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
    "values": 3,
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
            record = await self.timed(kind, self.ask({**common, "do": "translate", "prefix": []}))
            assert record["source_text"] == text, "the answer to another question"
            ids = [token["id"] for token in record["tokens"]["predicted"]]
            head = ["cross", self.chance.randrange(4), self.chance.randrange(8)]
            more: dict[str, dict[str, Any]] = {
                "score": {"target": "The dog sees the red ball."},
                "mute": {"ids": ids, "heads": [head]},
                "cell": {"ids": ids, "kind": "cross", "layer": 0, "head": 1, "row": 0, "column": 1},
                "values": {"ids": ids, "mode": self.chance.choice(["norm", "rollout"])},
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


def viewer_of(server: Server) -> int:
    """The viewer's number in the page."""
    parts = server.visitor.ask("/config")[1]["components"]
    return next(int(part["id"]) for part in parts if part["props"].get("elem_id") == "hl-viewer")


def memory_of(server: Server) -> float:
    """Resident megabytes."""
    return float(psutil.Process(server.process.pid).memory_info().rss) / 1e6


async def crowd(server: Server, people: int, seconds: float) -> bool:
    """Simulate many people and print their waits. Returns whether all limits are met."""
    client, viewer = client_of(server), viewer_of(server)
    everybody = [Person(number, client, viewer) for number in range(people)]
    end = time.monotonic() + seconds
    lives = asyncio.gather(*(person.live(end) for person in everybody))
    await asyncio.sleep(seconds / 2)
    seen = await in_a_browser(f"http://127.0.0.1:{server.visitor.port}")
    await lives
    asked = sum((person.actions for person in everybody), Counter[str]())
    errors = [error for person in everybody for error in person.errors]
    print(f"{people} people, {seconds:.0f} s, {sum(asked.values()):,} actions: {dict(asked.most_common())}")
    print(f"errors and lost answers: {len(errors)} {errors[:3]}")
    worst = fairness(everybody)
    print(f"a browser that connected halfway: page {seen[0]:.2f} s, translation {seen[1]:.2f} s")
    print(f"resident memory: {memory_of(server):.0f} MB")
    return not errors and worst <= 2


def fairness(people: list[Person]) -> float:
    """Print the waits for each kind of request; return the wait of the person who waited longest.

    Each wait is divided by the median wait of all people for the same kind of request.
    """
    usual: dict[str, float] = {}
    print(f"{'wait, s':>12}{'number':>8}{'median':>9}{'95 %':>9}{'longest':>9}")
    for what in sorted({what for person in people for what in person.waits}):
        waits = sorted(wait for person in people for wait in person.waits.get(what, []))
        usual[what] = statistics.median(waits)
        late = waits[int(0.95 * (len(waits) - 1))]
        print(f"{what:>12}{len(waits):8,}{usual[what]:9.3f}{late:9.3f}{waits[-1]:9.3f}")
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


async def in_a_browser(address: str) -> tuple[float, float]:
    """Seconds that a person in a real browser waits for the page, and then for a translation."""
    path = os.environ.get("HEADLIGHT_CHROMIUM")  # else Playwright's own
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        view = await browser.new_page()
        start = time.monotonic()
        await view.goto(address)
        await view.locator(".hl-thumbnail").first.wait_for(timeout=120_000)
        loaded = time.monotonic()
        before = await view.locator(".hl-translation").inner_text()
        await view.get_by_label("Sentence").fill("Sieben Katzen schlafen auf dem warmen Dach.")
        await view.get_by_label("Sentence").press("Enter")
        changed = f"document.querySelector('.hl-translation').innerText !== {json.dumps(before)}"
        await view.wait_for_function(changed, timeout=120_000)
        end = time.monotonic()
        await browser.close()
    return loaded - start, end - loaded


async def marathon(server: Server, translations: int) -> bool:
    """Translate one sentence after the other; print how memory grows. Returns whether it stays within 2 %."""
    client, viewer = client_of(server), viewer_of(server)
    errors: list[str] = []
    settled = translations // 10
    memory: dict[int, float] = {}
    start = time.monotonic()
    for number in range(1, translations + 1):
        person = Person(-number, client, viewer)  # a person that the server has not seen
        await person.act("translate")
        errors += person.errors
        if number in {settled, translations} or number % max(translations // 10, 1) == 0:
            memory[number] = memory_of(server)
    seconds = time.monotonic() - start
    growth = memory[translations] / memory[settled] - 1
    print(f"{translations:,} translations one after the other: {seconds / translations * 1e3:.1f} ms each")
    print("resident memory: " + ", ".join(f"{number:,}: {size:.0f} MB" for number, size in memory.items()))
    print(f"growth after the first {settled:,}: {growth:.2%}; errors: {len(errors)} {errors[:3]}")
    return growth < 0.02 and not errors


async def beside_a_hostile_neighbour(server: Server, people: int, seconds: float) -> bool:
    """Simulate people beside a hostile client; print what they notice. Returns whether all limits are met."""
    client, viewer = client_of(server), viewer_of(server)
    everybody = [Person(-(10**6) - number, client, viewer) for number in range(people)]
    before, most = memory_of(server), 0.0
    end = time.monotonic() + seconds
    lives = asyncio.gather(*(person.live(end) for person in everybody))
    attacking = asyncio.create_task(hostile_neighbour(server, seconds))
    while time.monotonic() < end:
        most = max(most, memory_of(server))
        await asyncio.sleep(1)
    await asyncio.gather(lives, attacking)
    await asyncio.sleep(60)
    after = memory_of(server)
    waits = sorted(wait for person in everybody for each in person.waits.values() for wait in each)
    median, late = statistics.median(waits), waits[int(0.95 * (len(waits) - 1))]
    errors = [error for person in everybody for error in person.errors]
    print(f"{people} people beside a hostile neighbour, {seconds:.0f} s, {len(waits):,} answers")
    fairness(everybody)
    print(f"errors and lost answers: {len(errors)} {errors[:3]}")
    print(f"wait: median {median:.2f} s, 95 % {late:.2f} s")
    print(f"memory: {before:.0f} MB before, at most {most:.0f} MB, {after:.0f} MB a minute later")
    return not errors and median < 0.5 and late < 2 and most < 1200 and after < 1.1 * before


async def measure(people: int, seconds: float, translations: int, hostile_seconds: float) -> bool:
    """All, one after the other, on the same server."""
    with serving() as server:
        served = await crowd(server, people, seconds) if seconds else True
        if hostile_seconds:
            served = await beside_a_hostile_neighbour(server, people, hostile_seconds) and served
        return (await marathon(server, translations) if translations else True) and served


def main(
    people: int = 100, minutes: float = 5, translations: int = 10_000, hostile_minutes: float = 3
) -> None:
    """Print the waits of many people and the growth of memory; exit with 1 when a limit is missed.

    Args:
        people: Number of people at the same time.
        minutes: Duration of their visit.
        translations: Number of translations after that, one after another.
        hostile_minutes: Duration of a second visit, beside a client that attacks.

    A duration or number of 0 leaves that part out.
    """
    if not asyncio.run(measure(people, 60 * minutes, translations, 60 * hostile_minutes)):
        sys.exit("A limit was missed.")
    print("All limits are met.")


if __name__ == "__main__":
    tyro.cli(main)
