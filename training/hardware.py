"""bfloat16 detection, memory settings, worker processes and stop signals."""

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
from threading import Event
from types import FrameType
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import broadcast_object_list
from tqdm import tqdm

from model.errors import UserError

# The other processes wait while the first one prepares the corpus. The default limit, ten minutes
# on GPUs, would end them before millions of pairs are tokenised for the first time.
LONGEST_WAIT = timedelta(hours=12)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
ROWS_PER_PROCESS = 100_000  # fewer rows take less time than starting another process
MADV_DONTNEED = 4  # of Linux's mman-common.h


def keep_freed_memory() -> None:
    """Make glibc keep freed memory, so that the next step reuses it.

    Returning hundreds of megabytes to the system after each step took a sixth of the time on two cores.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def forget_mapped_pages() -> None:
    """Release the pages of memory-mapped data sets; they are mapped again when they are read again.

    They are clean copies of the disk, which the kernel drops when memory is short. Until then they
    count as memory of this process: gigabytes for millions of pairs.
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

    # Small, because a processor without bfloat16 takes 6 s for a product of 1024 x 1024.
    a = torch.ones(256, 256)

    def seconds(dtype: torch.dtype) -> float:
        b = a.to(dtype)
        started = time.perf_counter()
        b @ b
        return time.perf_counter() - started

    bfloat16, float32 = (min(seconds(dtype) for _ in range(5)) for dtype in (torch.bfloat16, torch.float32))
    return bfloat16 < float32


def start_accelerator(precision: str | None) -> Accelerator:
    """The accelerator of this process, in `precision` or else in bfloat16 where that is faster.

    The first process measures for all, because two measurements may disagree. Raises UserError
    when the launcher was asked for several processes and started only one.
    """
    cpu = not torch.accelerator.is_available()
    # cuDNN's attention prepares itself anew for every shape of a batch: 250 ms, where the step takes 35.
    torch.backends.cuda.enable_cudnn_sdp(False)
    # The processes connect here, so the limit is set here and not in Accelerator.
    state = PartialState(cpu=cpu, timeout=LONGEST_WAIT)
    # Without GPUs accelerate's launcher sets the address for several processes but starts one.
    if "MASTER_ADDR" in os.environ and "WORLD_SIZE" not in os.environ and state.num_processes == 1:
        raise UserError(
            "accelerate starts only one process on a machine without GPUs unless --multi_gpu is given: "
            "write accelerate launch --multi_gpu --num_processes N -m training train ..."
        )
    choice = [precision or ("bf16" if bfloat16_pays() else "no")]
    broadcast_object_list(choice)
    return Accelerator(mixed_precision=choice[0], cpu=cpu)


@contextmanager
def stop_requests() -> Iterator[Event]:
    """An event that is set when someone asks the process to end with Ctrl-C or SIGTERM.

    The first request only sets the event, so that the step in progress is finished and saved. The
    second one ends the process as usual.
    """
    requested = Event()
    handlers: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        requested.set()
        restore()
        tqdm.write("Stopping after this step or validation; ask again to stop at once.")

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if number := getattr(signal, name, None):  # Windows has no SIGHUP, which the end of a terminal sends
            handlers[number] = signal.signal(number, note)
    try:
        yield requested
    finally:
        restore()


def worker_processes(rows: int) -> int | None:
    """The number of processes for a pass over `rows` rows; None means this process alone."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = min(cores, rows // ROWS_PER_PROCESS)
    return processes if processes > 1 else None
