"""Worker processes end when their parent ends: nobody would hear of their results.

It imports next to nothing, as a worker has to look after its parent before it imports what takes seconds.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

HEARTBEAT = 0.1
"""Seconds between two looks of a worker whether its parent still lives."""

received: list[Any] = []
"""What the parent gave this worker at its start, for all it will do."""


def begin(parent: int, *given: Any) -> None:
    """Let a worker leave Ctrl-C to its parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    received[:] = given


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(HEARTBEAT)
    os._exit(1)
