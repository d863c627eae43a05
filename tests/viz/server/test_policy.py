"""Which other sites may read the API or show the page in a frame: only those that are configured."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from model.errors import UserError
from viz.server.middleware import RequestFilter, Workload, check_origins

FOREIGN, FRIEND = "https://foreign.example", "https://school.example"


async def answer(*_: Any) -> None:
    """Answer nothing."""


@pytest.mark.parametrize("path", ["/", "/config", "/healthz", "/nothing"])
def test_every_response_has_a_policy(path: str, client: TestClient):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert policy.endswith(f"frame-ancestors 'self' {FRIEND}")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


def test_a_space_may_be_shown_by_its_site(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPACE_ID", "user/headlight")
    policy = RequestFilter(answer, Workload()).headers["Content-Security-Policy"]
    assert policy.endswith("frame-ancestors 'self' https://huggingface.co")


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "headlight.example"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_no_foreign_origin_may_read(method: str, host: str, client: TestClient):
    asking = {"Host": host, "Access-Control-Request-Method": "POST"}
    foreign = client.request(method, "/config", headers={**asking, "Origin": FOREIGN}).headers
    assert "access-control-allow-origin" not in foreign
    assert "access-control-allow-credentials" not in foreign
    friend = client.request(method, "/config", headers={**asking, "Origin": FRIEND}).headers
    assert friend["access-control-allow-origin"] == FRIEND
    assert "access-control-allow-credentials" not in friend


@pytest.mark.parametrize("origin", ["school.example", "*", "https://school.example/", "null", "https://a b"])
def test_an_invalid_origin_is_one_sentence(origin: str):
    with pytest.raises(UserError, match="is not an origin"):
        check_origins([origin])
