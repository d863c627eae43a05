"""Attacks a server of its own on 127.0.0.1 and prints what it does to others: `make attack`.

Each attack is bounded in count and time. --previous names the commit of the previous release, which is
attacked in the same way first.
"""

from __future__ import annotations

import asyncio
import json
import math
import multiprocessing
import signal
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from itertools import chain
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import gradio_client  # type: ignore[import-untyped]
import httpx
import psutil
import tyro

from tests.benchmarks import strangers
from tests.benchmarks.hostile import ON_THEIR_OWN, Figures, flood, foreign_site, missing_fields
from tests.benchmarks.previous import release
from tests.nginx import behind_nginx, program
from tests.visitor import ROOT, Server, Visitor, serving

LONG = " ".join(["Der kleine Hund läuft mit einem großen Ball durch den tiefen Schnee,"] * 8)  # 104 tokens
SHORT = "Der Hund schläft."
COMPLETE = [183] * 255
SETTLE_SECONDS = 12  # after the start: the kernels are loaded meanwhile, which takes memory
NEIGHBOUR = "127.0.0.2"  # on Linux the whole of 127.0.0.0/8 is this machine


def client_of(server: Server) -> httpx.AsyncClient:
    """Return a client that opens as many connections as it needs."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    transport = httpx.AsyncHTTPTransport(limits=limits, local_address=server.visitor.source)
    address = f"http://127.0.0.1:{server.visitor.port}"
    return httpx.AsyncClient(base_url=address, transport=transport, timeout=120)


def megabytes(server: Server) -> float:
    """Return the resident memory of the server."""
    return float(psutil.Process(server.process.pid).memory_info().rss) / 1e6


def computed(server: Server) -> float:
    """Return how many seconds the server has computed, on all cores together."""
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


async def viewer_of(client: httpx.AsyncClient) -> int:
    """Return the number of the viewer, which the viewer's requests name."""
    components = (await client.get("/config")).json()["components"]
    return next(int(each["id"]) for each in components if each["props"].get("elem_id") == "hl-viewer")


async def ask(
    client: httpx.AsyncClient,
    viewer: int,
    session: str,
    text: str,
    beam: int = 1,
    do: str = "translate",
    **more: object,
) -> Any:
    """Ask as the viewer does, for a translation unless `do` says otherwise; return the response."""
    request = {"do": do, "model": "de-en", "text": text, "beam_size": beam, "length_penalty": 1}
    data = {**request, **(more or {"forced": []})}
    envelope = {"data": data, "component_id": viewer, "session_hash": session, "fn_name": "ask"}
    return await client.post("/gradio_api/component_server", json=envelope)


async def wait_of(work: Awaitable[Any]) -> float:
    """Return how many seconds the work takes."""
    started = time.monotonic()
    await work
    return time.monotonic() - started


async def unread_results(server: Server, calls: int = 200) -> Figures:
    """D1: start large calls, and read none."""
    async with client_of(server) as client:
        before, accepted = megabytes(server), 0
        for number in range(calls):
            arguments = [f"{number} {LONG}", "de-en", 1, 1, COMPLETE]
            body = {"data": arguments, "session_hash": "one session"}
            accepted += (await client.post("/gradio_api/call/attention", json=body)).is_success
        await asyncio.sleep(3)
    return {"calls accepted": accepted, "memory before, MB": before, "memory after, MB": megabytes(server)}


async def unread_work(server: Server, calls: int = 40) -> Figures:
    """D4: start calls with the largest beam, read none, then ask a quick question."""
    async with client_of(server) as client:
        viewer, before, accepted = await viewer_of(client), computed(server), 0
        for number in range(calls):
            body = {"data": [f"{number} {LONG}", "de-en", 8]}
            accepted += (await client.post("/gradio_api/call/translate", json=body)).is_success
        wait = await wait_of(ask(client, viewer, "person", SHORT))
    return {
        "calls accepted": accepted,
        "the next quick question, s": wait,
        "computed until then, s": computed(server) - before,
    }


async def large_bodies(server: Server, connections: int = 10, persons: int = 20) -> Figures:
    """E6: bodies of 128 kB about the place in the queue, and a person at another address."""
    numbers = ",".join("1" * 65_000)
    body = f'{{"fn_name": "queue_position", "data": {{"do": "translate", "ids": [{numbers}]}}}}'
    person = client_of(Server(server.process, Visitor(server.visitor.port, source=NEIGHBOUR)))
    async with person, flood(server, "/gradio_api/component_server", body, connections) as statuses:
        begun, viewer = time.monotonic(), await viewer_of(person)
        texts = [f"Die Katze {number} schläft." for number in range(persons)]
        waits = [await wait_of(ask(person, viewer, "person", text)) for text in texts]
        seconds = time.monotonic() - begun
    return {
        "bodies a second": statuses.total() / seconds,
        "short question, median s": statistics.median(waits),
        "short question, longest s": max(waits),
    }


async def unread_flood(server: Server, connections: int = 8, calls: int = 16) -> Figures:
    """E2: start calls without pause and read none, while gradio_client calls from the same address."""
    address = f"http://127.0.0.1:{server.visitor.port}"

    def predict(number: int) -> bool:
        try:
            person.predict(f"Der Hund {number} schläft.", api_name="/translate")
        except BaseException:  # gradio_client cancels a call whose stream ends early
            return False
        return True

    person = await asyncio.to_thread(gradio_client.Client, address, verbose=False)
    body = json.dumps({"data": [SHORT]})
    async with flood(server, "/gradio_api/call/translate", body, connections) as statuses:
        begun = time.monotonic()
        answered = sum([await asyncio.to_thread(predict, number) for number in range(calls)])
        seconds = time.monotonic() - begun
    return {
        "unread calls a second": statuses[b"200"] / seconds,
        "unread calls a second that are refused": statuses[b"429"] / seconds,
        "calls of gradio_client, of 16 answered": answered,
        "wait for each, mean s": seconds / calls,
    }


async def crowd(server: Server, clients: int = 200, persons: int = 20, seconds: float = 30) -> Figures:
    """D5: many clients with long sentences and the largest beam, and a person with short sentences."""
    async with client_of(server) as client:
        viewer = await viewer_of(client)
        questions = (ask(client, viewer, f"{number}", f"{number} {LONG}", 8) for number in range(clients))
        crowd = [asyncio.create_task(question) for question in questions]
        try:
            await asyncio.sleep(1)
            end, waits = time.monotonic() + seconds, []
            for number in range(persons):
                waits.append(await wait_of(ask(client, viewer, "person", f"Der Hund {number} schläft.")))
                if time.monotonic() > end:
                    break
            sooner = Counter(map(fate, crowd))
            await asyncio.wait(crowd, timeout=seconds)
            later = Counter(map(fate, crowd))
        finally:
            for task in crowd:
                task.cancel()
            await asyncio.gather(*crowd, return_exceptions=True)
    return {
        "short question, median s": statistics.median(waits),
        "short question, longest s": max(waits),
        "long questions answered before the last short one": sooner["answer"],
        "long questions answered": later["answer"],
        "long questions refused with a sentence": later["error"],
        "long questions still waiting": later["waiting"],
    }


async def rush(server: Server, do: str, clients: int = 30) -> Figures:
    """E3: many clients send this costly request within a second, each for its own sentence."""
    async with client_of(server) as client:
        viewer = await viewer_of(client)
        records = []
        for number in range(100, 100 + clients):
            answered = await ask(
                client, viewer, f"{number}", f"Der Hund schläft seit {number} Tagen im Garten."
            )
            records.append(answered.json()["answer"])

        async def wait(place: int, record: dict[str, Any]) -> float:
            await asyncio.sleep(place / clients)
            ids = [token["id"] for token in record["tokens"]["predicted"]]
            asked = ask(client, viewer, f"{place}", record["source_text"], do=do, ids=ids)
            return await wait_of(asked)

        waits = await asyncio.gather(*(wait(place, record) for place, record in enumerate(records)))
    return {"wait, median s": statistics.median(waits), "wait, longest s": max(waits)}


def fate(question: asyncio.Task[Any]) -> str:
    """Return what has become of a question: waiting, answer, error (one sentence) or closed."""
    if not question.done():
        return "waiting"
    if question.exception():
        return "closed"
    return "answer" if "answer" in question.result().json() else "error"


async def stop(server: Server, clients: int = 150) -> Figures:
    """D9: SIGTERM while many long questions wait."""
    async with client_of(server) as client:
        viewer = await viewer_of(client)
        crowd = [
            asyncio.create_task(ask(client, viewer, f"{number}", f"{number} {LONG}", 8))
            for number in range(clients)
        ]
        await asyncio.sleep(1)
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        found = await asyncio.gather(*crowd, return_exceptions=True)
        await asyncio.to_thread(server.process.wait, 60)
        seconds = time.monotonic() - started
    statuses = [each.status_code if isinstance(each, httpx.Response) else 0 for each in found]
    return {
        "answered": statuses.count(200),
        "503 with a sentence": statuses.count(503),
        "500 or closed connection": len(statuses) - statuses.count(200) - statuses.count(503),
        "seconds to exit": seconds,
        "tracebacks": server.errors.count("Traceback"),
    }


async def hostile_neighbour(server: Server, seconds: float) -> None:
    """D1, D3, D4 and D5 at once, again and again until the time is over."""
    sockets: list[socket.socket] = []
    server_at, source = ("127.0.0.1", server.visitor.port), (server.visitor.source, 0)

    async def again(attack: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await attack()
            except (httpx.HTTPError, OSError):
                await asyncio.sleep(1)  # it was refused

    async def open_sockets() -> None:
        sockets.extend(socket.create_connection(server_at, None, source) for _ in range(40))
        await asyncio.sleep(5)
        while len(sockets) > 300:
            sockets.pop(0).close()

    attacks: list[Callable[[], Awaitable[object]]] = [
        open_sockets,
        lambda: unread_results(server, 40),
        lambda: unread_work(server, 20),
        lambda: crowd(server, 200, 1, 10),
    ]
    tasks = [asyncio.create_task(again(attack)) for attack in attacks]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for each in sockets:
        each.close()


def start_hostile_neighbour(server: Server, seconds: float) -> BaseProcess:
    """Start the neighbour in a process of its own, so that it does not slow the others' clients down.

    It has one address, as one client has, and the people have another one.
    """
    arguments = server.visitor.port, server.process.pid, seconds
    process = multiprocessing.get_context("spawn").Process(target=_be_hostile, args=arguments, daemon=True)
    process.start()
    return process


def _be_hostile(port: int, process: int, seconds: float) -> None:
    asyncio.run(hostile_neighbour(Server(psutil.Process(process), Visitor(port, source=NEIGHBOUR)), seconds))


ATTACKS: dict[str, Callable[[Server], Awaitable[Figures]]] = {
    "D1 results that nobody reads": unread_results,
    "D4 work for clients that are gone": unread_work,
    "E2 unread calls without pause": unread_flood,
    "E6 bodies of 128 kB": large_bodies,
    "D5 a crowd with long questions": crowd,
    "E3 thirty head maps at once": lambda server: rush(server, "importance"),
    "E3 thirty times In short at once": lambda server: rush(server, "summary"),
    "D11 a call without its fields": missing_fields,
    "D12, E5 a foreign site": foreign_site,
    "D9 stopped while questions wait": stop,
}


def attacked(root: Path = ROOT) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of every attack on the release in this folder."""
    with serving(root=root) as server:
        time.sleep(SETTLE_SECONDS)
        for name, attack in ATTACKS.items():
            yield name, asyncio.run(attack(server))  # type: ignore[arg-type]


def strangers_attack(through_nginx: bool) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of what strangers send, directly or through nginx."""
    with ExitStack() as stack:
        server = stack.enter_context(serving(after=["--trusted-proxy", "127.0.0.1"] * through_nginx))
        time.sleep(SETTLE_SECONDS)
        server = stack.enter_context(behind_nginx(server)) if through_nginx else server
        for name, each in strangers.ATTACKS.items():
            yield f"{name}{', behind nginx' * through_nginx}", asyncio.run(each(server))  # type: ignore[arg-type]


def main(previous: str = "", only_strangers: bool = False) -> None:
    """Run every attack and print its figures; exit with 1 when a limit is missed.

    Args:
        previous: Commit of the previous release, which is attacked first.
        only_strangers: Leave out all but what strangers send.
    """
    before: dict[str, Figures] = {}
    with ExitStack() as stack:
        if previous and (folder := stack.enter_context(release(previous))) is not None:
            before = dict(attacked(folder))
    own = ((name, attack()) for name, attack in ON_THEIR_OWN.items())
    doors = [False] if program() is None else [False, True]
    if program() is None:
        print("nginx is not installed, so nothing is attacked behind it.", flush=True)
    sent = chain.from_iterable(map(strangers_attack, doors))
    missed = False
    for name, figures in chain(sent) if only_strangers else chain(own, attacked(), sent):
        then = before.get(name, {})
        print(f"{name:50}" + f"{'before':>10}{'now':>10}" * bool(then))
        for what, value in figures.items():
            is_over = value > strangers.LIMITS.get(what, math.inf)
            missed |= is_over
            earlier = f"{then[what]:10.1f}" if then else ""
            print(f"  {what:48}{earlier}{value:10.1f}{'  too much' * is_over}", flush=True)
    if missed:
        sys.exit("A limit was missed.")


if __name__ == "__main__":
    tyro.cli(main)
