"""``adacsl serve``: a model behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from adacsl.cli.console import PLAIN, Answer, Screen
from adacsl.cli.options import MOST_WORKERS, within


def serve(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, within(0, 65_535)] = 8000,
    batch_limit: Annotated[int, within(1)] = 10_000,
    workers: Annotated[int, within(1, MOST_WORKERS)] = 1,
    device: str = "auto",
    screen: Screen = PLAIN,
) -> Answer:
    """Serve a model: rows in, decisions out, over HTTP.

    POST /predict takes rows as JSON or as an Arrow stream and answers decision, probability and expected cost as the
    model was trained to, with its policy and the prices of the rows. /docs describes it, /model says what is served;
    /health, /ready and /metrics are for those who run it. Whoever reaches the port may ask: there are no passwords and
    no encryption, which belong to a proxy in front. Ctrl-C or SIGTERM ends it when what is being answered is answered.

    Parameters
    ----------
    model
        Folder that `adacsl train` or `save` wrote.
    host
        Address to listen at; 0.0.0.0: all of this machine, also from outside.
    port
        Port; 0: any that is free.
    batch_limit
        How many rows one request may have.
    workers
        Processes that answer; each holds the model.
    device
        Where to predict: auto, cpu, cuda, cuda:1 or mps.

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
        screen.note(f"serving {model} at {where[0]} (how to ask: {where[0]}/docs); Ctrl-C stops it")

    run(model, host, port, limits=RequestLimits(rows=batch_limit), workers=workers, device=device, listening=listening)
    return Answer({"model": model, "address": where[0]}, (f"stopped serving {model}",))
