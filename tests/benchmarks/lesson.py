"""A lesson: thirty people at one address open one link within ten seconds, three of them in Chromium."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from contextlib import ExitStack
from urllib.parse import quote

import httpx
from playwright.async_api import async_playwright

from tests.benchmarks.attack import ask, client_of, megabytes, viewer_of
from tests.nginx import behind_nginx, program
from tests.visitor import Server, serving

TEXT = "Der Lehrer zeigt heute der ganzen Klasse einen Satz."
ARRIVE_SECONDS, PICTURE_SECONDS = 10.0, 3.0
WARM_UP = 20.0


async def pupil(server: Server, number: int, people: int) -> float:
    """Open the page and ask for its picture as a browser does; return the seconds until it is there."""
    await asyncio.sleep(number / people * ARRIVE_SECONDS)
    started = time.monotonic()
    async with client_of(server) as client:
        (await client.get("/")).raise_for_status()
        answered: httpx.Response = await ask(client, await viewer_of(client), f"pupil {number}", TEXT)
        assert answered.raise_for_status().json()["answer"]["source_text"] == TEXT, answered.text
    return time.monotonic() - started


async def pupils_in_browsers(server: Server, browsers: int) -> list[float]:
    """Open the link in real browsers; return the seconds until each shows its first picture."""
    async with async_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]
        path = os.environ.get("HEADLIGHT_CHROMIUM")  # else Playwright's own
        browser = await playwright.chromium.launch(executable_path=path, args=options)

        async def one(number: int) -> float:
            await asyncio.sleep(number / browsers * ARRIVE_SECONDS)
            view = await (await browser.new_context()).new_page()
            started = time.monotonic()
            await view.goto(f"http://127.0.0.1:{server.visitor.port}/#text={quote(TEXT)}")
            await view.locator(".hl-thumbnail").first.wait_for(timeout=120_000)
            return time.monotonic() - started

        waits = await asyncio.gather(*map(one, range(browsers)))
        await browser.close()
    return waits


async def lesson(people: int = 30, through_nginx: bool = False, browsers: int = 3) -> bool:
    """Print how long they wait for the first picture; return whether all have it soon enough."""
    with ExitStack() as stack:
        server = stack.enter_context(serving(after=["--trusted-proxy", "127.0.0.1"] * through_nginx))
        await asyncio.sleep(WARM_UP)
        server = stack.enter_context(behind_nginx(server)) if through_nginx else server
        clients = (pupil(server, number, people) for number in range(people - browsers))
        seen, *waits = await asyncio.gather(
            pupils_in_browsers(server, browsers), *clients, return_exceptions=True
        )
        memory = megabytes(server)
    answered = [wait for wait in waits if isinstance(wait, float)]
    shown = seen if isinstance(seen, list) else []
    refused = people - len(answered) - len(shown)
    door = ", behind nginx" * through_nginx
    print(f"a lesson of {people} at one address{door}; refused or failed: {refused}; memory: {memory:.0f} MB")
    for who, found in (("clients", answered), ("browsers", shown)):
        if found:
            print(
                f"{who:>10}: first picture after {statistics.median(found):.2f} s, longest {max(found):.2f} s"
            )
    return not refused and max(answered + shown) < PICTURE_SECONDS


async def lessons() -> bool:
    """Lessons of thirty and of a hundred, directly and behind nginx where it is installed."""
    doors = [False, True] if program() else [False]
    return all([await lesson(people, through_nginx) for people in (30, 100) for through_nginx in doors])
