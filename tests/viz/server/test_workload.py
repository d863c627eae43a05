"""What one address may have in progress: requests, and bytes that it has yet to read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from tests.viz.server.test_middleware import answer, body
from viz.server import connections
from viz.server.connections import Workload
from viz.server.middleware import RequestFilter


async def test_an_address_has_only_so_many_requests_in_progress(monkeypatch: pytest.MonkeyPatch):
    """Whatever the connections are that they come through: a proxy's visitors share its connections."""
    monkeypatch.setattr(connections, "MAX_REQUESTS", 2)
    finish = asyncio.Event()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        await finish.wait()
        await answer(scope, receive, send)

    passing = RequestFilter(wait, Workload())

    async def status(address: str) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": (address, 1)}

        async def receive() -> Any:
            return body(b"")

        await passing(scope, receive, send)
        return int(sent[0]["status"])

    addresses = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.7"]
    asked = [asyncio.create_task(status(address)) for address in addresses]
    await asyncio.wait(asked, timeout=0.01)
    finish.set()
    assert [*await asyncio.gather(*asked), await status("2001:db8::3")] == [200, 200, 429, 200, 200]


@pytest.mark.parametrize(
    ("responses", "finished"),
    [
        (["one a", "one b", "one c", "one d"], {"one c", "one d"}),
        (["person a", "hostile b", "hostile c", "hostile d"], {"person a", "hostile d"}),
        (["hostile a", "hostile b", "person c"], {"hostile b", "person c"}),
    ],
)
async def test_responses_that_nobody_reads_are_broken_off(
    responses: list[str], finished: set[str], monkeypatch: pytest.MonkeyPatch
):
    """At most `MAX_UNSENT` bytes wait to be read; the oldest ones of the address with most go first."""
    monkeypatch.setattr(connections, "MAX_UNSENT", 250)
    workload = Workload()
    done: set[str] = set()

    async def send(response: str, taken: asyncio.Event) -> None:
        with suppress(ClientDisconnect):
            async with workload.sending(response.split()[0], 100):
                await taken.wait()
            done.add(response)

    taken = asyncio.Event()
    tasks = [asyncio.create_task(send(response, taken)) for response in responses]
    await asyncio.wait(tasks, timeout=0.01)
    taken.set()
    await asyncio.gather(*tasks)
    assert done == finished
