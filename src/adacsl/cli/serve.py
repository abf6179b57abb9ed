"""``adacsl serve``: a saved model as an HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from adacsl.cli.console import PLAIN, Answer, Screen
from adacsl.cli.custom_methods import own_module
from adacsl.cli.options import (
    MOST_WORKERS,
    Device,
    Module,
    within,
)


def serve(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, within(0, 65_535)] = 8000,
    batch_limit: Annotated[int, within(1)] = 10_000,
    workers: Annotated[int, within(1, MOST_WORKERS)] = 1,
    device: Device = "auto",
    module: Module = None,
    screen: Screen = PLAIN,
) -> Answer:
    """Serve a saved model over HTTP.

    POST /predict takes rows as JSON or as an Arrow stream and answers decision, probability and expected cost as the
    model was trained to, with its policy and the costs of the rows. /docs describes it, /model says what is served;
    /health, /ready and /metrics are for operations. There is no authentication and no encryption: put a proxy in front.
    Ctrl-C or SIGTERM ends the server once open requests are answered.

    Parameters
    ----------
    model
        Folder of a saved model (`adacsl train --out`).
    host
        Address to listen on; 0.0.0.0: all interfaces of this machine, also from outside.
    port
        Port; 0: any free one.
    batch_limit
        Largest number of rows of one request.
    workers
        Number of server processes; each holds the model.
    device
        Device: auto, cpu, cuda, cuda:1 or mps.
    module
        Factory of the model's network, where that is one of your own, module:factory: a function of a module in the
        working directory or an installed one.

    Examples
    --------
    adacsl serve model/
    adacsl serve model/ --host 0.0.0.0 --port 8080 --workers 4 --batch-limit 1000
    """
    from adacsl.serving.app import RequestLimits  # noqa: PLC0415  torch, FastAPI
    from adacsl.serving.server import serve as run  # noqa: PLC0415

    where = []

    def listening(port: int) -> None:
        where.append(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        screen.note(f"serving {model} at {where[0]} (API: {where[0]}/docs); Ctrl-C stops it")

    run(
        model,
        host,
        port,
        limits=RequestLimits(rows=batch_limit),
        workers=workers,
        device=device,
        listening=listening,
        module=own_module(module),
    )
    return Answer({"model": model, "address": where[0]}, (f"stopped serving {model}",))
