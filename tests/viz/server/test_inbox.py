"""What an address may have waiting: requests, calls and answers, in bytes."""

from __future__ import annotations

import pytest
from starlette.exceptions import HTTPException

from viz.server import inbox
from viz.server.inbox import Inbox


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Inbox:
    monkeypatch.setattr(inbox, "MAX_OF_ADDRESS", 100)
    monkeypatch.setattr(inbox, "MAX_IN_ALL", 150)
    return Inbox()


def test_an_address_has_its_own_room(box: Inbox):
    box.count("hostile", 0, 90)
    with pytest.raises(HTTPException, match="429"):
        box.count("hostile", 0, 20)
    box.count("person", 0, 20)
    box.count("hostile", 90, 100)  # in place of the first
    with pytest.raises(HTTPException):
        box.count("person", 0, 40)
    assert box.sizes == {"hostile": 100, "person": 20}
    box.count("hostile", 100, 0)
    box.count("person", 0, 40)
    assert box.sizes == {"person": 60}


def test_an_address_may_always_have_one_thing(box: Inbox):
    """So nobody is locked out, and the largest answer can be sent."""
    box.count("hostile", 0, 150)
    box.count("person", 0, 20)
    box.count("person", 20, 60)  # the answer in place of the request
    with pytest.raises(HTTPException):
        box.count("person", 0, 1)
