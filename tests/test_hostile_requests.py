"""Hostile HTTP requests to a real server with a real model: an answer or an error message, never a 500."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import app
from model.results import KINDS
from tests import hostile
from tests.hostile.models import serving_them
from tests.viz.questions import COMMON, GOOD, IDS, TEXT

ROOT = Path(app.__file__).parent
BATCH = 10  # calls between two valid ones
NAMED: dict[str, dict[str, Any]] = {
    "translate": {**COMMON, "forced": IDS[:2]},
    "attention": {**COMMON, "forced": []},
    "score": {"text": TEXT, "target": "A dog.", "model": "tiny"},
    "mute": {"text": TEXT, "heads": [["cross", 0, 1]], "model": "tiny", "beam_size": 1, "length_penalty": 1},
}
NUMBERS = [-1, 0, 1.5, 2**31, 2**63, -(2**64), 10**400, 1e308, float("nan"), float("inf"), -0.0]
# Addresses that a browser opens; {} is replaced by a hostile text.
PATHS = [
    "/?{}={}",
    "/gradio_api/info?{}={}",
    "/config?__theme={}",
    "/theme.css?{}",
    "/assets/{}",
    "/static/{}",
]
LONGEST_PATH = 1000  # characters; servers limit the length of an address
OURS = tuple(str(ROOT / name) for name in ("app.py", "model/", "viz/"))

# A canary inside a tag or a script of its own, and not inside quoted JSON.
LIVE = re.compile(
    rf"<[a-z/!][^>]{{0,80}}{hostile.CANARY}|<script[^>]*>[^<]{{0,20}}{hostile.CANARY}", re.IGNORECASE
)

sessions = itertools.count()


class Client:
    def __init__(self, port: int) -> None:
        # A new connection for each call, because the filter closes the connection of a refused request.
        unkept = httpx.Limits(max_keepalive_connections=0)
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=unkept)
        config = self.client.get("/config").json()
        (self.viewer,) = (
            component["id"]
            for component in config["components"]
            if component["props"].get("elem_id") == "hl-viewer"
        )
        self.callbacks = {
            function["id"]: len(function["inputs"])
            for function in config["dependencies"]
            if function["backend_fn"]
        }

    def post(self, path: str, body: Any) -> httpx.Response:
        # json.dumps writes NaN and half a surrogate pair, which httpx refuses to send.
        headers = {"Content-Type": "application/json"}
        return self.client.post(f"/gradio_api/{path}", content=json.dumps(body), headers=headers)

    def call(self, name: str, data: list[Any]) -> list[httpx.Response]:
        """Call a named endpoint; return its responses."""
        started = self.post(f"call/{name}", {"data": data})
        if started.status_code != 200:
            return [started]
        return [started, self.client.get(f"/gradio_api/call/{name}/{started.json()['event_id']}")]

    def ask(self, request: Any, **envelope: Any) -> list[httpx.Response]:
        """Send a request of the viewer."""
        common = {"session_hash": "hostile", "component_id": self.viewer, "fn_name": "ask"}
        return [self.post("component_server", {**common, "data": request, **envelope})]

    def join(self, function: int, data: list[Any], **envelope: Any) -> list[httpx.Response]:
        """Queue a callback of the page, and read its events to the end."""
        session = f"hostile{next(sessions)}"
        request = {"fn_index": function, "data": data, "session_hash": session, "event_data": None}
        started = self.post("queue/join", {**request, **envelope})
        if started.status_code != 200 or envelope.get("session_hash", session) != session:
            return [started]
        return [started, self.client.get("/gradio_api/queue/data", params={"session_hash": session})]

    def open(self, path: str) -> list[httpx.Response]:
        return [self.client.get(path)]


Send = Callable[[Client], list[httpx.Response]]

texts = st.sampled_from(hostile.STRINGS)
values = st.recursive(
    texts
    | st.sampled_from(NUMBERS)
    | st.integers(-3, 300)
    | st.booleans()
    | st.none()
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
heads = st.lists(
    st.tuples(st.sampled_from(KINDS) | texts, st.integers(-1, 9) | values, st.integers(-1, 9) | values).map(
        list
    )
)
ids = st.lists(st.integers(0, 170) | st.sampled_from([3, 10**400]), max_size=300)


@st.composite
def spoiled(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    """A valid request with up to two fields replaced, sometimes with a missing or an additional one."""
    request = dict(good)
    for name in draw(st.sets(st.sampled_from(sorted(good)), max_size=2)):
        shapes = {"heads": heads, "ids": ids, "forced": ids, "text": texts, "target": texts}
        request[name] = draw(shapes.get(name, values) | values)
    if draw(st.integers(0, 5)) == 0:
        del request[draw(st.sampled_from(sorted(request)))]
    if draw(st.integers(0, 5)) == 0:
        request[draw(texts)] = draw(values)
    return request


@st.composite
def named_calls(draw: st.DrawFn) -> Send:
    name = draw(st.sampled_from(sorted(NAMED)))
    data = list(draw(spoiled(NAMED[name])).values())
    return lambda client: client.call(name, data)


@st.composite
def questions(draw: st.DrawFn) -> Send:
    do = draw(st.sampled_from(sorted(GOOD)))
    request = draw(spoiled({**COMMON, "do": do, **GOOD[do]}) | values)
    return lambda client: client.ask(request)


@st.composite
def callbacks(draw: st.DrawFn) -> Send:
    place = draw(st.integers(0, 99))
    screen = {
        **COMMON,
        "ids": IDS,
        "forced": [],
        "heads": [],
        "address": "http://127.0.0.1/",
        "theme": "light",
    }
    data = draw(st.lists(values, max_size=5) | st.tuples(spoiled(screen)).map(list))

    def send(client: Client) -> list[httpx.Response]:
        function = sorted(client.callbacks)[place % len(client.callbacks)]
        return client.join(function, data)

    return send


@st.composite
def envelopes(draw: st.DrawFn) -> Send:
    """A question in a frame that is none of Gradio's protocol."""
    names = st.sampled_from(["session_hash", "fn_name", "extra"])
    frame = draw(st.dictionaries(names, values, min_size=1, max_size=2))
    return lambda client: client.ask(COMMON, **frame)


@st.composite
def visits(draw: st.DrawFn) -> Send:
    path, text = draw(st.sampled_from(PATHS)), draw(texts)[:LONGEST_PATH]
    part = quote(text.encode("utf-8", "replace"), safe="")  # half a surrogate pair has no place in an address
    return lambda client: client.open(path.replace("{}", part))


requests = named_calls() | questions() | callbacks() | envelopes() | visits()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client; at the end the server's log must have no word that was sent and no error in our code."""
    with serving_them(tmp_path_factory.mktemp("models")) as server:
        yield Client(server.visitor.port)
        assert server.end() == 0
    assert not [line for line in server.log() if hostile.CANARY in str(line) and "left out" not in str(line)]
    assert not [line for line in server.log() if any(map(is_ours, line.get("at", [])))]


def is_ours(frame: str) -> bool:
    """Whether a line of a traceback is our code, other than the filter that all requests pass."""
    return any(f'File "{place}' in frame for place in OURS) and "viz/server/middleware.py" not in frame


def assert_harmless(response: httpx.Response) -> None:
    assert response.status_code < 500, response.request.url
    assert "Traceback" not in response.text
    if response.headers.get("content-type", "").startswith("text/html"):
        assert not LIVE.search(response.text)


def assert_answers(client: Client) -> None:
    (answer,) = client.ask({**COMMON, "do": "target", **GOOD["target"]})
    assert answer.json()["answer"]["source_text"] == TEXT


@pytest.mark.parametrize("calls", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_whatever_is_sent_the_answer_is_an_answer_or_a_sentence(client: Client, calls: int) -> None:
    sent = itertools.count(1)

    @settings(max_examples=calls, deadline=None, suppress_health_check=list(HealthCheck))
    @given(requests)
    def judge(send: Send) -> None:
        for response in send(client):
            assert_harmless(response)
        if next(sent) % BATCH == 0:
            assert_answers(client)

    judge()


# Gradio alone would respond to these with a 500 or with an incomplete response.
REFUSED: dict[str, Send] = {
    "an unknown endpoint": lambda client: client.call("nothing", ["Hund"]),
    "an unknown function of the viewer": lambda client: client.ask(COMMON, fn_name="nothing"),
    "an unknown function": lambda client: client.join(9_999, []),
    "a negative function": lambda client: client.join(-1, []),
    "NaN as a text": lambda client: client.join(1, [], trigger_id=[float("nan")]),
    "an unknown event": lambda client: client.open("/gradio_api/call/translate/nothing"),
    "a file name that is too long": lambda client: client.open(f"/static/{'a' * 300}"),
    "a hidden route with a wrong field": lambda client: [
        client.post("run/translate", {"data": ["Hund", "none"]})
    ],
}


@pytest.mark.parametrize("send", REFUSED.values(), ids=REFUSED)
def test_requests_for_unknown_things_are_refused(client: Client, send: Send) -> None:
    *_, last = answers = send(client)
    for response in answers:
        assert_harmless(response)
    assert 400 <= last.status_code < 500 or last.text.startswith("event: error")
    assert_answers(client)


def test_the_texts_are_many_and_of_every_kind() -> None:
    assert len(hostile.STRINGS) >= 300
    assert all(len(texts) >= 5 for texts in hostile.CATEGORIES.values())
