"""Names under which the page answers, proxies that it believes, and sites that may read or show it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from model.errors import UserError
from tests.viz.loop import run
from tests.viz.server.conftest import FRIEND, NAME
from viz.server.connections import Access, ForwardedHeaders
from viz.server.lifecycle import Service
from viz.server.middleware import security_headers

FOREIGN = "https://foreign.example"
POLICY = ("content-security-policy", "x-content-type-options: nosniff", "referrer-policy: same-origin")


# Headers of every response


@pytest.fixture(scope="module")
def port(service: Service) -> Iterator[int]:
    address = service.launch()
    yield int(address.rstrip("/").rpartition(":")[2])
    service.stop()


def head_of(port: int, request: str) -> str:
    """The first line and the headers of the response to a request, in lower case."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(f"{request} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    return answer.partition(b"\r\n\r\n")[0].decode().lower()


@pytest.mark.parametrize(
    "request_",
    [
        "GET /",
        "GET /config",
        "GET /healthz",
        "GET /nothing",
        "GET http://foreign.example/",
        "OPTIONS *",
        "CONNECT foreign.example:443",
        f"OPTIONS /config HTTP/1.1\r\nOrigin: {FRIEND}\r\nAccess-Control-Request-Method: POST\r\nX:",
    ],
)
def test_every_response_has_a_policy(request_: str, port: int):
    head = head_of(port, request_)
    assert all(part in head for part in POLICY), head
    assert f"frame-ancestors 'self' {FRIEND}" in head


def test_a_space_may_be_shown_by_its_site(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPACE_ID", "user/headlight")
    policy = security_headers(Access().frames)["Content-Security-Policy"]
    assert policy.endswith("frame-ancestors 'self' https://huggingface.co")


# Other sites


@pytest.mark.parametrize("host", ["127.0.0.1:7860", NAME])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_no_foreign_origin_may_read(method: str, host: str, client: TestClient):
    asking = {"Host": host, "Access-Control-Request-Method": "POST"}
    foreign = client.request(method, "/config", headers={**asking, "Origin": FOREIGN}).headers
    assert "access-control-allow-origin" not in foreign
    assert "access-control-allow-credentials" not in foreign
    friend = client.request(method, "/config", headers={**asking, "Origin": FRIEND}).headers
    assert friend["access-control-allow-origin"] == FRIEND
    assert "access-control-allow-credentials" not in friend


@pytest.mark.parametrize(
    ("access", "message"),
    [
        *((Access([each]), "is not an origin") for each in ("school.example", "*", "https://a/", "null")),
        *((Access(hosts=[each]), "is not a host") for each in ("https://a", "a:80", "*", "a b", "")),
        *((Access(proxies=[each]), "is not an address") for each in ("*", "proxy", "10.0.0.1/8", "")),
    ],
)
def test_an_invalid_setting_is_one_sentence(access: Access, message: str):
    with pytest.raises(UserError, match=message):
        access.check()


def test_valid_settings_are_accepted():
    Access([FRIEND, "http://localhost:80"], [NAME, "10.0.0.5", "::1"], ["10.0.0.0/8", "::1"]).check()


# Names of the server


@pytest.mark.parametrize("path", ["/", "/config", "/healthz", "/nothing"])
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:80", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.hf.space", 421),
        ("192.0.2.7", 421),
        ("[::2]:7860", 421),
        ("127.0.0.1:7860", 0),
        ("LOCALHOST", 0),
        ("[::1]:7860", 0),
        (NAME, 0),
        ("testserver", 0),  # the address that the connection was made to
    ],
)
def test_the_page_answers_under_its_own_names(path: str, host: str, status: int, client: TestClient):
    answered = client.get(path, headers={"Host": host})
    assert answered.status_code == (status or (404 if path == "/nothing" else 200))
    if status:
        assert host in answered.json()["detail"]


def test_a_space_answers_under_its_name(monkeypatch: pytest.MonkeyPatch):
    scope = {"headers": [(b"host", b"user-headlight.hf.space")], "server": ("10.0.0.9", 7860)}
    assert Access().refused_host(scope)
    monkeypatch.setenv("SPACE_ID", "user/headlight")
    assert Access().refused_host(scope) is None
    assert Access().refused_host({**scope, "headers": [(b"host", b"hf.space.evil.example")]})


# Proxies


def forwarded(access: Access, peer: str, **headers: str) -> tuple[str, str, dict[str, str]]:
    """The client, the scheme and the headers that the page sees of a request."""
    seen: list[Any] = []

    async def page(scope: Any, *_: object) -> None:
        seen.append(scope)

    sent = [(f"x-forwarded-{name}".encode(), text.encode()) for name, text in headers.items()]
    scope = {"type": "http", "scheme": "http", "client": (peer, 50_000), "headers": sent}
    run(ForwardedHeaders(page, access.trusted_proxies)(scope, None, None))  # type: ignore[arg-type]
    (scope,) = seen
    named = {name.decode(): text.decode() for name, text in scope["headers"]}
    return scope["client"][0], scope["scheme"], named


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.1.2.3", "192.0.2.7"])
def test_no_client_may_invent_an_address(peer: str):
    told = {"for": "198.51.100.1", "proto": "https", "host": "evil.example"}
    assert forwarded(Access(), peer, **told) == (peer, "http", {})


def test_a_trusted_proxy_says_who_asks():
    access = Access(proxies=["127.0.0.1"])
    told = {"for": "203.0.113.9, 198.51.100.1", "proto": "https", "host": NAME}
    client, scheme, headers = forwarded(access, "127.0.0.1", **told)
    assert (client, scheme) == ("198.51.100.1", "https")  # the last address: the client wrote the first
    assert headers["x-forwarded-host"] == NAME
    assert forwarded(access, "127.0.0.2", **told) == ("127.0.0.2", "http", {})


def test_the_proxies_of_a_space_are_trusted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPACE_ID", "user/headlight")
    told = {"for": "203.0.113.9, 198.51.100.1, 10.16.3.4"}
    assert forwarded(Access(), "10.16.9.9", **told)[0] == "198.51.100.1"
