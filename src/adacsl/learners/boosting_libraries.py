"""XGBoost, LightGBM and CatBoost by name, on this machine or on several workers."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.execution.executors import LOSSES, Where, crew_of, read_trainer, run_together
from adacsl.execution.threads import MANY_ROWS, cores
from adacsl.integrations.boosting import Matrix

ENGINES = ("xgboost", "lightgbm", "catboost")
LOOKED_AT = 200_000
"""So many rows tell where columns are cut into bins; every worker holds them beside its own."""


def load_engine(name: str) -> Any:
    """Return a boosting library, or say what to install."""
    if name not in ENGINES:  # a saved model names its own
        raise ValueError(f"there is no engine {str(name)[:40]!r}: {', '.join(ENGINES)} are known")
    return importlib.import_module(f"adacsl.integrations.{name}")


def on_several(settings: Any) -> bool:
    """Tell whether a booster's rows are spread over workers."""
    return (read_trainer(settings.trainer).workers or 1) > 1


def boost_anywhere(
    settings: Any, train: Matrix, validation: Matrix, look: Callable[[NDArray[Any]], object] | None, **options: Any
) -> Any:
    """Return a booster that nothing steers, trained here or on several workers; ``look`` sees the margins by round."""
    engine = load_engine(settings.chosen_engine)
    if not on_several(settings):
        return engine.boost_plainly(train, validation, look or (lambda _: None), **options)
    model = engine.from_bytes(_boost_together(settings.chosen_engine, settings.trainer, train, validation, options))
    if look is not None:
        for margins in engine.margins_by_round(model, validation):
            look(margins)
    return model


def _boost_together(name: str, trainer: Any, train: Matrix, validation: Matrix, options: dict[str, Any]) -> bytes:
    """Return the model on which all workers agree; where a machine has gone, all begin anew on those that are left."""
    engine, where = load_engine(name), read_trainer(trainer)
    workers = min(int(where.workers or 1), len(train.y))
    judged = validation if options["patience"] else None  # it tells when to stop, and nothing else
    with _place(where, workers) as (host, room):
        if room() < workers:  # those that wait for a place would be waited for by the others
            raise ValueError(f"a booster wants {workers} workers at once, but the cluster has room for {room()}")
        for _ in range(LOSSES + 1):
            tasks = [(rank, part_of(train, rank, workers)) for rank in range(workers)]
            try:
                with engine.meeting(workers, host) as place:
                    shared = (name, place, sample_of(train), judged, len(train.y), options)
                    threads = _threads(where, workers, len(train.y))
                    crew = crew_of(where, together=True)
                    return bytes(run_together(_boost_part, shared, tasks, threads=threads, open_crew=crew)[0])
            except ConnectionResetError as error:
                workers, reason = int(min(workers, room())), str(error)
    raise RuntimeError(f"the booster is not trained, it was tried {LOSSES + 1} times: {reason}")


@contextlib.contextmanager
def _place(where: Where, workers: int) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield by which address workers find this machine, and what tells how many have room."""
    if where.engine != "ray":
        yield "127.0.0.1", lambda: math.inf
        return
    from adacsl.integrations.ray import joining, room  # noqa: PLC0415  Ray only for those who ask for it

    with joining(where, workers) as host:
        yield host, lambda: room(where.gpus)


def _threads(where: Where, workers: int, rows: int) -> int:
    """Return the threads of each worker; tasks of a cluster have one core each."""
    return max(1, cores() // workers) if rows >= MANY_ROWS and where.engine != "ray" else 1


def part_of(data: Matrix, rank: int, workers: int) -> Matrix:
    """Return the rows of one worker: every so many, so that no order of the rows matters much."""
    rows = slice(rank, None, workers)
    weight = None if data.weight is None else data.weight[rows]
    return Matrix(np.ascontiguousarray(data.x[rows]), data.y[rows], weight, data.categories, data.n_classes)


def sample_of(data: Matrix) -> Matrix:
    """Return rows of which every worker makes the same bins: all, or evenly spread ones."""
    return part_of(data, 0, max(1, -(-len(data.y) // LOOKED_AT)))


def _boost_part(shared: Any, task: Any) -> bytes:
    """Train beside the other workers; all end with the same model."""
    name, place, sample, validation, n_rows, options = shared
    rank, part = task
    engine = load_engine(name)
    with _without_stdout():
        return bytes(engine.boost_part(place, rank, part, validation, like=sample, n_rows=n_rows, **options))


@contextlib.contextmanager
def _without_stdout() -> Iterator[None]:
    """Send what libraries write elsewhere, such as who listens and who has which rank: stdout is for results."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
