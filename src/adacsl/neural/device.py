"""The device that networks train and predict on, and the process-wide random numbers of torch."""

from __future__ import annotations

import contextlib
import inspect
import threading
import warnings
from collections.abc import Iterator

import torch


def choose_device(device: str, *, warn: bool = True) -> str:
    """Return the device to use; one that is absent falls back to the CPU, with a warning.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:1", "mps"}
        The requested device.
    warn : bool, default True
        Whether to warn.

    Returns
    -------
    str
        'cpu', 'cuda', 'cuda:1' or 'mps'.

    Examples
    --------
    >>> from adacsl.neural.device import choose_device
    >>> choose_device("cpu")
    'cpu'
    """
    count, mps = torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.backends.mps.is_available()
    if device == "auto":
        return "cuda" if count else "mps" if mps else "cpu"
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda", "mps") or not (number.isdigit() or number == ""):
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps', got {device!r}")
    if kind == "cpu" or (kind == "mps" and mps) or (kind == "cuda" and int(number or 0) < count):
        return "cpu" if kind == "cpu" else device
    if warn:
        there = "no such device" if count else "no GPU"
        warnings.warn(
            f"device {device!r} was asked for, but {there} is available: using the CPU", stacklevel=_users_level()
        )
    return "cpu"


def _users_level() -> int:
    """Return how many frames above the caller the user's code is."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("adacsl."):
        level, frame = level + 1, frame.f_back
    return level


_MAKING_NETWORKS = threading.RLock()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Let one thread at a time make or train networks: random numbers and loggers belong to the process.

    The caller's random numbers are left alone.
    """
    with _MAKING_NETWORKS, torch.random.fork_rng(devices=_cuda_devices()):
        yield


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
