from collections.abc import Iterator

import pytest
import torch

from model.decoding.kernels.compilation import COMPILATION
from model.translator import Translator
from tests.model.helpers import tiny_checkpoint


@pytest.fixture(autouse=True, scope="session")
def _kernels() -> None:
    """All tests use the kernels, so that none sees torch at first and the kernels later."""
    assert COMPILATION.ready(timeout=300.0)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """The same random numbers whichever tests ran before."""
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    yield
    torch.random.set_rng_state(state)


@pytest.fixture
def float64() -> Iterator[None]:
    """New models and numbers in float64, for tests of formulas: see `tests.numerics.EXACT`."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=[True, False], ids=["joint", "separate"])
def translator(request: pytest.FixtureRequest) -> Translator:
    """A random translator of German, with one vocabulary or with words in and characters out."""
    return Translator(tiny_checkpoint(request.param, seed=1), use_kernels=kernels_fit())


@pytest.fixture
def joint() -> Translator:
    """A random translator of German with one vocabulary."""
    return Translator(tiny_checkpoint(seed=1), use_kernels=kernels_fit())


def kernels_fit() -> bool:
    """Whether models have the type of the kernels."""
    return torch.get_default_dtype() == torch.float32
