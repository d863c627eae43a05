"""When the kernels may be called: they compile in a thread of their own, once for each process.

What an earlier process compiled comes from a cache on disk. Until the kernels are ready, and where numba
cannot be imported, torch does the work: see `model.decoding.search`.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from model.config import ModelConfig
from model.decoding.compiled import CompiledModel
from model.decoding.search import SearchOptions
from model.network.transformer import Transformer
from model.tokenizer import EOS_ID

LOG = logging.getLogger(__name__)


class Compilation(threading.Thread):
    """Compiles every kernel once. `begin` may be called often and from everywhere."""

    def __init__(self) -> None:
        super().__init__(name="compile kernels", daemon=True)
        self._once = threading.Lock()
        self._ready = threading.Event()

    def begin(self) -> None:
        """Start unless it has started."""
        with self._once:
            if self.ident is None:
                self.start()

    def ready(self, timeout: float = 0.0) -> bool:
        """Whether the kernels can be called, after waiting for at most this many seconds."""
        if timeout > 0:
            self.begin()
            self.join(timeout)
        return self._ready.is_set()

    def run(self) -> None:
        """Compile; what fails is logged, and torch stays in use."""
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)  # the page comes first
        try:
            compile_kernels()
        except Exception:
            LOG.warning("The compiled kernels cannot be used here; torch translates instead.", exc_info=True)
        else:
            self._ready.set()


COMPILATION = Compilation()


def compile_kernels() -> None:
    """Compile all kernels by calling them, or load them from the cache."""
    from model.decoding import jit, kernel_search, kernels

    with torch.device("meta"):  # takes no random numbers
        model = Transformer(ModelConfig(8, 8, 4, 4, 2, 1, 1))
    tiny = CompiledModel(model.to_empty(device="cpu").requires_grad_(False).apply(_zero))
    for attempts_left in (2, 1, 0):  # each of the two functions may find a broken cache or a full disk
        try:
            tiny.search(tiny.encode(torch.tensor([[EOS_ID]])), SearchOptions())
            break
        except Exception:
            if not attempts_left or jit.CACHE is None:
                raise
            shutil.rmtree(jit.CACHE, ignore_errors=True)
    functions: tuple[Any, ...] = (kernels.encode, kernel_search.search)
    for function in functions:
        function.disable_compile()  # from now on an unexpected type is an error instead of a wait


def _zero(module: nn.Module) -> None:
    for parameter in module.parameters(recurse=False):
        parameter.zero_()
