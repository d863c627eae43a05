"""Compiles the kernels once, in a child process, and loads them from the cache that it writes.

Until they are loaded, and where numba cannot be imported, torch does the work: see
`model.decoding.inference`. A thread that compiles would slow the page's threads and delay the program's end.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import torch
from filelock import FileLock
from torch import nn

from model.decoding.kernels.model import CompiledModel
from model.decoding.options import SearchOptions
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.tokenizer import EOS_ID

LOG = logging.getLogger(__name__)

HERE = Path(__file__).parent
# Every file whose change makes the cache invalid.
NAMES = ("compilation", "instructions", "jit", "layers", "network", "packed", "products", "search")
SOURCES = [HERE / f"{name}.py" for name in NAMES]
COMPLETE = "complete"  # a file that is there when all kernels are
LOCK_SECONDS = 60.0  # to wait for another process that compiles


class Compilation(threading.Thread):
    """Makes the kernels ready. `begin` may be called often and by any thread."""

    def __init__(self) -> None:
        super().__init__(name="load kernels", daemon=True)
        self._once = threading.Lock()
        self._ready = threading.Event()
        self._ended = False
        self._child: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start unless it has started."""
        with self._once:
            if self.ident is None:
                atexit.register(self._end)
                self.start()

    def ready(self, timeout: float = 0.0) -> bool:
        """Whether the kernels can be called, after waiting for at most this many seconds."""
        if timeout > 0:
            self.begin()
            self.join(timeout)
        return self._ready.is_set()

    def run(self) -> None:
        """Compile and load. A failure is logged, and torch stays in use."""
        try:
            cache = cache_directory(SOURCES)
            if cache is not None and not (cache / COMPLETE).exists():
                self._compile_in_a_child()
            if not self._ended:
                load_kernels(cache)
                self._ready.set()
        except Exception:
            LOG.warning("The compiled kernels cannot be used here; torch translates instead.", exc_info=True)

    def _compile_in_a_child(self) -> None:
        command = [sys.executable, "-m", "model.decoding.kernels.compilation"]
        with self._once:
            if self._ended:
                return
            out = subprocess.DEVNULL
            self._child = subprocess.Popen(command, cwd=HERE.parents[1], stdout=out, stderr=out)  # noqa: S603
        self._child.wait()  # if it fails, this process compiles, and logs the failure

    def _end(self) -> None:
        """Let the program end: at the end of Python no thread may be inside the compiler."""
        with self._once:
            self._ended = True
            if self._child is not None:
                self._child.kill()
        self.join()


COMPILATION = Compilation()


def load_kernels(cache: Path | None) -> None:
    """Load all kernels from the cache by calling them; compile those that it lacks."""
    set_up_numba(cache)
    from model.decoding.kernels import network, search

    functions: tuple[Any, ...] = (network.encode, search.search, search.score)
    with torch.device("meta"):  # takes no random numbers
        model = Transformer(ModelConfig(8, 8, 4, 4, 2, 1, 1))
    tiny = CompiledModel(model.to_empty(device="cpu").requires_grad_(False).apply(_zero))
    for attempts_left in reversed(range(len(functions) + 1)):  # each may find a broken cache
        try:
            encoded = tiny.encode(torch.tensor([[EOS_ID]]))
            (found,) = tiny.search(encoded, SearchOptions())
            tiny.score(encoded, torch.tensor([found.candidates[0].ids]))
            break
        except Exception:
            if not attempts_left or cache is None:
                raise
            for file in cache.rglob("*.nb?"):
                file.unlink(missing_ok=True)
    for function in functions:
        function.disable_compile()  # from now on an unexpected type is an error instead of a wait


def set_up_numba(cache: Path | None) -> None:
    """Say where numba keeps what it compiles and for which processor, before it compiles anything."""
    import numba

    settings: Any = numba.config
    settings.CACHE_DIR = str(cache or "")
    settings.CPU_FEATURES = _processor_features()


def _processor_features() -> str:
    """What numba may use of this processor; NUMBA_CPU_NAME and NUMBA_CPU_FEATURES may say it.

    On Intel's processors LLVM uses vectors of 256 bits, because older ones slow down for 512. With 512 bits a
    sentence takes a fifth less time.
    """
    import numba
    from numba.core.codegen import get_host_cpu_features

    told: str | None = cast(Any, numba.config).CPU_FEATURES
    if told is not None:
        return told
    features: str = get_host_cpu_features()
    return features + ",-prefer-256-bit" if "+avx512f" in features else features


def cache_directory(sources: Sequence[Path]) -> Path | None:
    """Where compiled code is kept: a folder for these sources and this processor, None if none is writable.

    numba alone would not notice a change in another file than the file of the function it is asked for.
    """
    import llvmlite
    import llvmlite.binding as llvm

    state = [source.read_bytes() for source in sources]
    processor = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    state.append(f"{llvmlite.__version__} {processor} {_processor_features()}".encode())
    name = "kernels-" + hashlib.sha256(b"".join(state)).hexdigest()[:16]
    for parent in (
        os.environ.get("NUMBA_CACHE_DIR"),
        sources[0].parent / "__pycache__",
        Path("~/.cache/headlight"),
    ):
        with suppress(OSError, RuntimeError):  # not writable, no home
            directory = Path(parent or "").expanduser() / name
            if parent and not directory.is_symlink():
                directory.mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=directory).close()
                return directory
    return None


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Let processes that start together compile one after the other, so that only the first has work."""
    with ExitStack() as stack:
        with suppress(OSError, NotImplementedError):  # waited long enough, or the disk has no locks
            stack.enter_context(FileLock(cache / "lock", timeout=LOCK_SECONDS))
        yield


def _zero(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        parameter.zero_()


def main() -> None:
    """Compile into the cache."""
    with suppress(OSError, AttributeError):
        os.nice(10)  # the page comes first
    if (cache := cache_directory(SOURCES)) is not None:
        with _alone(cache):
            if not (cache / COMPLETE).exists():
                load_kernels(cache)
                (cache / COMPLETE).touch()


if __name__ == "__main__":
    main()
