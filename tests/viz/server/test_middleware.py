"""The request filter: which requests reach Gradio, and what is logged of them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.viz.loop import run
from viz.limits import MAX_BODY, MAX_DEPTH, MAX_TICKET_BODY, MAX_VALUES, SMALL_BODY
from viz.server import middleware
from viz.server.inbox import Inbox
from viz.server.lifecycle import Service
from viz.server.middleware import RequestFilter

SECRET = "Mein Passwort ist Erdbeere"
JSON = {"Content-Type": "application/json"}
JOIN, ASK = "/gradio_api/queue/join", "/gradio_api/component_server"


# One request, message by message

Handle = Callable[[Any, Any, Any], Awaitable[None]]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the body of the request."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message.get("body", b"")})


def ask(
    messages: Iterable[Any],
    path: str = ASK,
    handle: Handle = answer,
    method: str = "POST",
    is_stopping: bool = False,
    **headers: str,
) -> tuple[int | None, bytes]:
    """Status and body of the response to a request that arrives in these messages."""
    sent: list[Any] = []
    coming = iter(messages)

    async def receive() -> Any:
        message = next(coming, None)
        return message if message is not None else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    told = {
        "content-type": "application/json",
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), text.encode()) for name, text in told.items()],
    }
    run(RequestFilter(handle, Inbox(), is_stopping=lambda: is_stopping)(scope, receive, send))
    status = next((message["status"] for message in sent if "status" in message), None)
    return status, b"".join(message.get("body", b"") for message in sent)


def body(content: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": content, "more_body": more}


def test_a_body_arrives_as_it_was_sent():
    whole = json.dumps({"data": {"text": SECRET}}).encode()
    assert ask([body(whole[:5], more=True), body(whole[5:])]) == (200, whole)


def test_a_body_with_too_large_a_length_is_refused_unread():
    def unread() -> Iterable[Any]:
        pytest.fail("the body was read")
        yield

    status, told = ask(unread(), content_length=str(MAX_BODY + 1))
    assert status == 413
    assert b"larger than 128 KiB" in told


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[NaN]",
        b"[" * 100_000,
        b"1" * 5000,
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b"[" + b"{}," * MAX_VALUES + b"1]",
    ],
    ids=["empty", "cut", "bytes", "nan", "deep and cut", "long number", "deep", "bulky"],
)
def test_invalid_json_is_refused(content: bytes):
    status, told = ask([body(content)])
    assert status == 400
    assert len(json.loads(told)["detail"].split(". ")) == 1


async def test_large_bodies_are_parsed_one_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """Between two of them the event loop answers others."""
    order: list[str] = []
    monkeypatch.setattr(middleware, "_parse", lambda content: order.append("large" if content else "small"))
    passing = RequestFilter(answer, Inbox())

    async def one(content: bytes) -> None:
        coming = iter([body(content)])

        async def receive() -> Any:
            message = next(coming, None)
            return message if message is not None else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                order.append("answered")

        scope = {"type": "http", "method": "POST", "path": ASK}
        headers = [(b"content-type", b"application/json")]
        await passing({**scope, "headers": headers}, receive, send)

    bodies = [b"1" * (SMALL_BODY + 1)] * 3 + [b""]
    await asyncio.gather(*map(one, bodies))
    assert order[:3] == ["large", "small", "answered"]
    assert order.count("large") == 3


@pytest.mark.parametrize("name", ["queue_position", "cancel"])
def test_a_large_body_about_waiting_work_is_refused_before_it_is_parsed(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    def sized(size: int, name: str) -> bytes:
        rest = {"fn_name": name, "session_hash": "a", "component_id": 1, "data": ""}
        return json.dumps(rest | {"data": "x" * (size - len(json.dumps(rest)))}).encode()

    assert ask([body(sized(MAX_TICKET_BODY, name))], ASK)[0] == 200
    typed = f'"fn_name": "{name}"'  # in a text it is part of the text
    assert ask([body(json.dumps({"fn_name": "ask", "data": typed * 100}).encode())], ASK)[0] == 200
    monkeypatch.setattr(middleware, "_parse", lambda _: pytest.fail("it is parsed"))
    assert ask([body(sized(MAX_TICKET_BODY + 1, name))], ASK)[0] == 413


def test_json_of_the_largest_depth_is_accepted():
    content = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert ask([body(content)]) == (200, content)


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "text/plain", ""])
def test_another_content_type_is_refused(kind: str):
    assert ask([body(b"{}")], content_type=kind)[0] == 415


def test_a_stopping_server_refuses_work_but_returns_results():
    assert ask([body(b"{}")], is_stopping=True)[0] == 503
    assert ask([body(b"")], "/gradio_api/queue/data", method="GET", is_stopping=True)[0] == 200


# The log


def test_a_question_is_one_line_that_names_its_kind(lines: Any):
    request = {"data": {"do": "mute", "text": SECRET}, "fn_name": SECRET, "session_hash": SECRET}
    ask([body(json.dumps(request).encode())])
    (line,) = lines()
    told = {"method": "POST", "path": ASK, "status": 200, "kind": "mute"}
    assert told.items() <= line.items()
    assert line.keys() - told.keys() == {"time", "level", "logger", "message", "ms"}
    assert line["ms"] >= 0


@pytest.mark.parametrize("path", [f"/{SECRET}", f"/gradio_api/call/{SECRET}", f"/gradio_api/call/a/{SECRET}"])
@pytest.mark.parametrize("method", ["GET", "POST", "ERDBEERE"])
def test_no_word_of_a_client_is_logged(method: str, path: str, lines: Any):
    ask([body(json.dumps({"data": {"do": SECRET}}).encode())], path, method=method)
    (line,) = lines()
    assert "Erdbeere".lower() not in json.dumps(line).lower()


def test_looking_at_the_page_or_at_the_queue_position_is_not_logged(lines: Any):
    look = json.dumps({"fn_name": "queue_position"}).encode()
    ask([body(b"")], "/", method="GET")
    ask([body(b"")], "/healthz", method="GET")
    ask([body(look)])
    assert lines() == []
    ask([body(look)], "/gradio_api/call/translate")
    assert len(lines()) == 1


@pytest.mark.parametrize(("mistake", "status"), [(KeyError, 400), (TypeError, 400), (OSError, 500)])
def test_a_failure_is_one_sentence_and_one_line(mistake: type[Exception], status: int, lines: Any):
    async def fail(*_: Any) -> None:
        raise mistake(SECRET)

    answered, told = ask([body(b"{}")], handle=fail)
    assert answered == status
    assert SECRET.encode() not in told
    (line,) = lines()
    assert (line["error"], line["status"], line["level"]) == (mistake.__name__, status, "ERROR")
    assert "in fail" in line["at"][-1]


def test_a_disconnection_before_the_end_is_one_line(lines: Any):
    async def broken_off(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})

    ask([], "/gradio_api/queue/data", broken_off, "GET")
    assert [line["status"] for line in lines()] == [middleware.CLIENT_GONE]


def test_a_stream_that_ends_after_a_disconnection_is_not_a_success(lines: Any):
    async def looks_and_ends(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b""})

    ask([{"type": "http.disconnect"}], "/gradio_api/queue/data", looks_and_ends, "GET")
    assert [line["status"] for line in lines()] == [middleware.CLIENT_GONE]


def test_a_request_of_the_viewer_is_cancelled_when_its_client_disconnects(lines: Any):
    ended = []

    async def never(*_: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    assert ask([body(b"{}"), {"type": "http.disconnect"}], handle=never) == (None, b"")
    assert ended
    assert [line["status"] for line in lines()] == [middleware.CLIENT_GONE]


def test_a_disconnection_while_sending_is_not_an_error(lines: Any):
    assert ask([body(b"{", more=True), {"type": "http.disconnect"}]) == (None, b"")
    assert [(line["status"], line["level"]) for line in lines()] == [(middleware.CLIENT_GONE, "INFO")]


# With Gradio


def test_the_stream_of_an_unknown_session_is_no_error_of_ours(client: TestClient, lines: Any):
    assert client.get("/gradio_api/queue/data?session_hash=nobody").status_code == 404
    assert [line["level"] for line in lines()] == ["INFO"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/gradio_api/upload"),
        ("GET", "/gradio_api/upload_progress?upload_id=a"),
        ("GET", "/gradio_api/proxy=https://a.hf.space/"),
        ("GET", "/gradio_api/file=/etc/passwd"),
        ("GET", "/gradio_api/file=https://example.org/"),
        ("GET", "/gradio_api/file=HTTP://example.org/"),
        ("GET", "/gradio_api/file/https://example.org/"),
        ("GET", "/gradio_api/deep_link?session_hash=a"),
        ("POST", "/gradio_api/process_recording"),
        ("POST", "/gradio_api/stream/a"),
        ("POST", "/gradio_api/run/translate"),  # would bypass the queue
        ("POST", "/gradio_api/api/translate"),
        ("POST", "/gradio_api/vibe-edit"),
        ("POST", "/gradio_api/run-history/connect"),
        ("POST", "/login"),
        ("GET", "/gradio_api/heartbeat/a"),  # a stream that would never end
        ("GET", "/gradio_api/queue/status"),  # of Gradio's own queue, which has no work
        ("POST", "/gradio_api/cancel"),
        ("POST", "/gradio_api/reset"),
        ("GET", "/monitoring"),
        ("GET", "/monitoring/summary"),
        ("PUT", "/"),
        ("DELETE", "/gradio_api/queue/join"),
    ],
)
def test_a_route_that_the_page_does_not_need_returns_404(method: str, path: str, client: TestClient):
    answered = client.request(method, path, json={} if method == "POST" else None)
    assert answered.status_code == 404
    assert answered.json() == {"detail": "There is nothing here; the page is at /."}


def test_every_listed_route_exists(client: TestClient):
    """Else a new version of Gradio has moved a route, and the list of routes is out of date."""
    page = client.app.routes[0].app  # mounted at /
    routers = [page, *(each.original_router for each in page.routes if not hasattr(each, "path"))]
    routes = [route for router in routers for route in router.routes if hasattr(route, "methods")]
    known = {f"{method} {route.path}" for route in routes for method in route.methods or ()}
    known = {re.sub(r"{\w+}", "*", re.sub(r"{\w+:path}", "**", each)) for each in known}
    assert {*middleware.PAGE_ROUTES, *middleware.WORK_ROUTES} <= known


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        (JOIN, {"data": [], "fn_index": 999, "session_hash": "a"}),
        (JOIN, {"data": [], "fn_index": None, "session_hash": "a"}),
        (JOIN, []),
        ("/gradio_api/call/nothing", {"data": []}),
        ("/gradio_api/call/v2/nothing", {"data": []}),
        ("/gradio_api/call/v2/translate", {"x": 1}),
        (ASK, {"data": {}, "component_id": 1, "session_hash": "a", "fn_name": "nothing"}),
        (ASK, {"data": {}, "component_id": 1, "session_hash": [], "fn_name": 1}),
        (ASK, {"data": {}, "component_id": 1, "session_hash": "a", "fn_name": []}),
        (ASK, {}),
        (ASK, []),
    ],
)
def test_unknown_functions_are_bad_requests(path: str, request_: object, client: TestClient):
    assert 400 <= client.post(path, json=request_).status_code < 500


def test_the_health_endpoint_reports_the_status(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
):
    well = client.get("/healthz")
    assert well.status_code == 200
    assert well.json()["status"] == "ok"
    assert well.json()["models"] == ["tiny"]
    assert well.json()["seconds"] >= 0
    assert (well.json()["running"], well.json()["waiting"]) == (0, 0)
    monkeypatch.setattr(service.scheduler, "is_stopping", True)
    leaving = client.get("/healthz")
    assert (leaving.status_code, leaving.json()["status"]) == (503, "stopping")


def test_the_health_endpoint_reports_stuck_workers(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(service.scheduler.quick_queue.running, "a FIFO", -1e9)
    stuck = client.get("/healthz")
    assert (stuck.status_code, stuck.json()["status"]) == (503, "stuck")
