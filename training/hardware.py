"""What the machine at hand is good at, and how it asks a run to end."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType, TracebackType

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list
from datasets.exceptions import DatasetGenerationError
from safetensors import SafetensorError
from tqdm import tqdm

from model.errors import UserError

# The other processes wait while the first one prepares the corpus: the usual limit, ten minutes
# on GPUs, would end them before millions of pairs are tokenised for the first time.
LONGEST_WAIT = timedelta(hours=12)
TOKENIZER_THREADS = "TOKENIZERS_PARALLELISM"  # the variable that tokenizers obey
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
ROWS_PER_PROCESS = 100_000  # fewer are done before another process has started
MADV_DONTNEED = 4  # of Linux's mman-common.h


def keep_freed_memory() -> None:
    """Let glibc keep the memory that a step frees for the next step.

    Returning and faulting in hundreds of megabytes a step took a sixth of the time on two cores.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def forget_mapped_pages() -> None:
    """Give back what was read of memory-mapped data sets; reading again maps it again.

    The pages are clean copies of the disk, which the kernel takes back when memory is short, but
    until then they count as this process's own: with millions of pairs, gigabytes.
    """
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return
    libc = ctypes.CDLL(None)
    for line in maps.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.endswith(".arrow"):
            start, end = (int(place, 16) for place in line.partition(" ")[0].split("-"))
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), MADV_DONTNEED)


def bfloat16_pays() -> bool:
    """Whether this machine multiplies bfloat16 matrices faster than float32 ones."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())

    def seconds(dtype: torch.dtype) -> float:
        a = torch.ones(1024, 1024, dtype=dtype)
        a @ a
        started = time.perf_counter()
        for _ in range(3):
            a @ a
        return time.perf_counter() - started

    return seconds(torch.bfloat16) < seconds(torch.float32)


def start_accelerator(precision: str | None) -> Accelerator:
    """Several processes as the launcher says, bfloat16 where it pays unless `precision` is given.

    The first process measures for all, since two measurements may disagree. Raises UserError
    when the launcher was asked for several processes and started one.
    """
    cpu = not torch.accelerator.is_available()
    # The processes meet here, so that the limit belongs here; Accelerator takes them as they are.
    state = PartialState(cpu=cpu, timeout=LONGEST_WAIT)
    # Without GPUs accelerate's launcher sets an address for several processes and starts one.
    if "MASTER_ADDR" in os.environ and "WORLD_SIZE" not in os.environ and state.num_processes == 1:
        raise UserError(
            "accelerate starts only one process on a machine without GPUs unless --multi_gpu is given: "
            "write accelerate launch --multi_gpu --num_processes N -m training train ..."
        )
    choice = [precision or ("bf16" if bfloat16_pays() else "no")]
    broadcast_object_list(choice)
    return Accelerator(mixed_precision=choice[0], cpu=cpu)


@contextmanager
def single_threaded_tokenizers() -> Iterator[None]:
    """Let tokenizers in processes that are forked here use one thread each.

    The processes share the work already, and threads inside each would deadlock after the fork.
    """
    before = os.environ.get(TOKENIZER_THREADS)
    os.environ[TOKENIZER_THREADS] = "false"
    try:
        yield
    finally:
        del os.environ[TOKENIZER_THREADS]
        if before is not None:
            os.environ[TOKENIZER_THREADS] = before


@contextmanager
def disk_errors_as_user_errors(output: Path) -> Iterator[None]:
    """A full disk or a folder that may not be written to, as a sentence for the user."""
    try:
        yield
    except (OSError, SafetensorError, DatasetGenerationError) as error:
        raise UserError(
            f"A file could not be read or written ({error.__cause__ or error}); see that the data may "
            f"be read and that {output} and the cache of data sets have room and may be written to. "
            "What the run saved before, if it did, is whole: --resume goes on from there."
        ) from error


class StopSignal:
    """Whether someone has asked the process to end: Ctrl-C or SIGTERM.

    The first one is only noted, so that a step in progress is finished and saved; the second
    one ends the process as usual.
    """

    def __init__(self) -> None:
        self.received = False

    def __enter__(self) -> StopSignal:
        self.previous = {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        self._restore()
        tqdm.write("Stopping after this step or validation; once more stops at once.")

    def _restore(self) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)


def worker_processes(rows: int) -> int | None:
    """Processes that share a pass over so many rows; None means this process alone."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = min(cores, rows // ROWS_PER_PROCESS)
    return processes if processes > 1 else None
