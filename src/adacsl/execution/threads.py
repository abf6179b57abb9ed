"""How many threads numerical libraries use."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import ClassVar

from adacsl.base.extras import requires

with requires("sklearn"):
    import joblib
    from threadpoolctl import ThreadpoolController


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
MANY_ROWS = 20_000
"""With fewer rows of a table a second thread waits longer than it works."""

HOME = os.getpid()
"""The process that has loaded this; what it forks has the same number here, and another one in truth."""


def cores() -> int:
    """Return how many cores this process may use."""
    return int(joblib.cpu_count())


def threads_in_use() -> int:
    """Return how many threads libraries may use now; for those that look at the number of cores only."""
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads  # noqa: PLC0415  not for reading results

    return int(_openmp_effective_n_threads())


def threads_for(name: str, share: int) -> int:
    """Return how many threads a worker may have: its share of the cores, or fewer if the environment limits them."""
    asked = os.environ.get(name, "")
    return max(1, min(share, int(asked)) if asked.isdigit() else share)


def thread_settings(share: int) -> dict[str, str]:
    """Return the environment of a worker with its share of the cores: none is used twice."""
    return {name: str(threads_for(name, share)) for name in THREAD_VARIABLES}


ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**27)}
"""Settings of glibc by which a process keeps up to 128 MB of freed memory for the next array. By default it returns
each array of a training to the kernel at once, which then clears the same pages again: up to a fifth of the time."""


def memory_settings() -> dict[str, str]:
    """Return the environment of a worker that trains; what the user has set stays."""
    return {name: os.environ.get(name, usual) for name, usual in ALLOCATION.items()}


class _Limit:
    """The limit of one thread of this process, and what it found before."""

    held: ClassVar[list[_Limit]] = []
    lock = threading.Lock()

    def __init__(self, threads: int) -> None:
        self.torch = sys.modules.get("torch")
        self.before = 0 if self.torch is None else self.torch.get_num_threads()
        libraries = ThreadpoolController()
        self.own = libraries.select(user_api="openmp").limit(limits=threads)  # of the thread that asks
        self.everybodys = libraries.select(user_api="blas").limit(limits=threads)
        if self.torch is not None:
            self.torch.set_num_threads(threads)

    def end(self) -> None:
        """Restore what was there; where others began meanwhile, the next of them does so when it ends."""
        following = _Limit.held[_Limit.held.index(self) + 1 :]
        _Limit.held.remove(self)
        self.own.restore_original_limits()
        if self.torch is not None:
            self.torch.set_num_threads(self.before)
        if following:
            following[0].everybodys, following[0].before = self.everybodys, self.before or following[0].before
        else:
            self.everybodys.restore_original_limits()


@contextlib.contextmanager
def limited(threads: int) -> Iterator[None]:
    """Let the libraries of this process use so many threads, for a while.

    Several threads on little data wait for each other longer than they work, on a busy machine very much longer.
    """
    with _Limit.lock:
        limit = _Limit(threads)
        _Limit.held.append(limit)
    try:
        yield
    finally:
        with _Limit.lock:
            limit.end()


def limited_for(rows: int) -> contextlib.AbstractContextManager[None]:
    """Let a fit on so many rows of a table use the threads that are worth it: one where there are few rows.

    With many rows nothing changes: the libraries' own settings, and the share of a worker, are what counts.
    """
    return limited(1) if rows < MANY_ROWS or os.getpid() != HOME else contextlib.nullcontext()


@contextlib.contextmanager
def one_thread_if_forked() -> Iterator[None]:
    """Let a process that was forked use one thread: OpenMP's stayed behind, and it would wait for them for ever."""
    with limited(1) if os.getpid() != HOME else contextlib.nullcontext():
        yield
