"""Stop signals, the wait between processes, and the threads of tokenizers."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest
import torch
from accelerate.state import AcceleratorState

from training.hardware import start_accelerator, stop_requests

REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedError(Exception):
    """Raised by Ctrl-C and SIGTERM here, so that they do not end the tests."""


@pytest.fixture
def own_handlers():
    """Handlers that a run finds and must restore."""

    def end(number, frame):
        raise EndedError

    before = {number: signal.signal(number, end) for number in REQUESTS}
    yield end
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("second", REQUESTS)
@pytest.mark.parametrize("first", REQUESTS)
def test_the_first_request_is_noted_and_the_second_ends_at_once(own_handlers, first, second):
    with stop_requests() as stop:
        assert not stop.is_set()
        signal.raise_signal(first)
        assert stop.is_set()
        with pytest.raises(EndedError):
            signal.raise_signal(second)


def test_the_handlers_are_restored_after_a_run(own_handlers):
    with stop_requests():
        pass
    assert [signal.getsignal(number) for number in REQUESTS] == [own_handlers] * len(REQUESTS)


class MetError(Exception):
    """The processes have connected."""


def test_processes_wait_for_hours_while_one_prepares_the_corpus(monkeypatch):
    found = {}

    def meet(**options):
        found.update(options)
        raise MetError

    place = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    for name, value in (place | {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.distributed, "init_process_group", meet)
    AcceleratorState._reset_state(reset_partial_state=True)
    with pytest.raises(MetError):
        start_accelerator("no")
    AcceleratorState._reset_state(reset_partial_state=True)
    assert found["timeout"] >= timedelta(hours=6)
