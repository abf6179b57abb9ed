"""Serve until told to stop: one process, or several that share a port."""

from __future__ import annotations

import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import uvicorn

from adacsl.estimators.persistence import load
from adacsl.serving.app import SETTINGS, Bounds, make_app
from adacsl.serving.contract import Contract
from adacsl.serving.metrics import SHARED
from adacsl.workers import cores, thread_settings

LAST_SECONDS = 20
"""So long may requests that are being answered take once the server is told to stop."""
QUIET: dict[str, Any] = {"log_level": "warning", "access_log": False, "timeout_graceful_shutdown": LAST_SECONDS}


def serve(
    model: Path, host: str, port: int, *, bounds: Bounds, workers: int, device: str, listening: Callable[[int], None]
) -> None:
    """Serve a saved model until SIGTERM or Ctrl-C; requests that are being answered are answered.

    Parameters
    ----------
    model : path
        The folder that ``save`` wrote; a bad one is refused at once.
    host, port
        Where to listen; port 0 takes any free one.
    bounds : Bounds
        What one request may ask for.
    workers : int
        Processes; each has its share of the cores.
    device : str
        Where to predict.
    listening : callable
        Told the port before the first request is answered.
    """
    classifier = load(model, device=device)
    Contract.of(classifier)  # says so where it cannot be served, before anything listens
    own = _bound(host, port)
    port = own.getsockname()[1]
    listening(port)
    if workers == 1:
        app = make_app(classifier, bounds=bounds, device=device)
        with own, _stopped_politely():
            uvicorn.Server(uvicorn.Config(app, **QUIET)).run(sockets=[own])
        return
    own.close()  # the parent of the workers takes the port
    share = max(1, cores() // workers)
    said = {"model": str(model.resolve()), "rows": bounds.rows, "device": device, "threads": share}
    with tempfile.TemporaryDirectory(prefix="adacsl-metrics-") as shared, _stopped_politely():
        os.environ |= {SETTINGS: json.dumps(said), SHARED: shared, **thread_settings(share)}
        uvicorn.run("adacsl.serving.app:from_environment", factory=True, host=host, port=port, workers=workers, **QUIET)


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that has the address, or say that somebody else has it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, OverflowError) as error:
        raise ValueError(f"cannot listen at {host!r}: {error}; give an address of this machine, 127.0.0.1") from None
    own = socket.socket(found[0][0])
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind(found[0][4])
    except OSError as error:
        own.close()
        raise ValueError(
            f"cannot listen at {host} port {port}: {error.strerror}; give another port with --port, or --port 0 for any"
        ) from None
    return own


@contextmanager
def _stopped_politely() -> Iterator[None]:
    """Let a signal that has ended the server end nothing else: it is raised again when the server is done."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
