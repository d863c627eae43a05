import threading
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch

from model import Translator
from model.decoding.threads import map_in_threads


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_keep_their_order_and_torch_uses_one_thread_in_each(two_threads: None) -> None:
    second_done = threading.Event()

    def work(part: int) -> tuple[int, int, int]:
        if part == 0:
            assert second_done.wait(60)  # so the first part ends after the second
        second_done.set()
        return part, torch.get_num_threads(), threading.get_ident()

    parts, threads, workers = zip(*map_in_threads(work, range(5)), strict=True)
    assert parts == (0, 1, 2, 3, 4)
    assert set(threads) == {1}
    assert len(set(workers)) == 2


def test_torch_keeps_its_threads_here_and_in_threads_that_begin_later(two_threads: None) -> None:
    map_in_threads(abs, [1, 2])
    found = [torch.get_num_threads()]
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert found == [2, 2]


def test_error_of_a_part_is_raised(two_threads: None) -> None:
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda part: 1 / part, [1, 0, 2])


@pytest.mark.parametrize("bfloat16", [True, False])
def test_translations_do_not_depend_on_the_number_of_parts(
    joint: Translator, two_threads: None, bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.decoding.step_decoder._bfloat16_pays", lambda: bfloat16)
    lines = ["Ein Hund läuft.", "Öffne die Tür!", "Wie geht's?", "Hund", "Schnee", "Ein kleiner Hund"] * 4
    whole = joint.translate_batch(lines)
    sizes = []

    def watched(function: Callable[[object], object], parts: Sequence[object]) -> list[object]:
        sizes.append(len(parts))
        return map_in_threads(function, parts)

    monkeypatch.setattr("model.decoding.inference.PART_ROWS", 1)
    for module in ("inference", "kernels.model"):
        monkeypatch.setattr(f"model.decoding.{module}.map_in_threads", watched)
    assert joint.translate_batch(lines) == whole
    assert sizes == [2]
