"""Where workers meet that have to know each other's address and a free port, as LightGBM's do."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

WAIT = 120.0
"""Seconds until all have to be there."""


@contextlib.contextmanager
def rendezvous(workers: int, host: str) -> Iterator[tuple[str, int]]:
    """Yield host and port where so many workers can :func:`meet` once."""
    with socket.create_server((host, 0)) as server:
        server.settimeout(WAIT)
        thread = threading.Thread(target=_introduce, args=(server, workers), daemon=True)
        thread.start()
        yield host, int(server.getsockname()[1])


def _introduce(server: socket.socket, workers: int) -> None:
    """Tell all workers where all are, once they are there; who comes alone hears nothing but that the line is closed.

    A connection that does not say what is expected is closed.
    """
    lines: dict[int, tuple[socket.socket, str]] = {}
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        while len(lines) < workers:
            line, (address, *_) = server.accept()
            stack.enter_context(line)
            line.settimeout(WAIT)
            with contextlib.suppress(ValueError):
                rank, port = (int(value) for value in json.loads(line.recv(100)))
                lines[rank] = (line, f"{address}:{port}")
        machines = [lines[rank][1] for rank in sorted(lines)]
        for line, _ in lines.values():
            line.sendall(json.dumps(machines).encode() + b"\n")


def meet(place: tuple[str, int], rank: int) -> tuple[list[str], int]:
    """Return ``host:port`` of all workers in the order of their ranks, and the port of this one."""
    with socket.create_connection(place, timeout=WAIT) as line:
        with socket.create_server((line.getsockname()[0], 0)) as free:
            port = int(free.getsockname()[1])
        line.sendall(json.dumps([rank, port]).encode())
        told = ""
        with contextlib.suppress(OSError):
            told = line.makefile().readline()
    if not told:
        raise TimeoutError(f"the workers of this booster were not all there within {WAIT:g} s")
    return json.loads(told), port


__all__ = ["meet", "rendezvous"]
