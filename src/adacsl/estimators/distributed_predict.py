"""Prediction of the parts of a folder by several workers: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from adacsl.estimators.partitioned_predict import Plan, Report, Unit, load_for, message_of, predict_unit
from adacsl.execution.executors import Placement, WorkerDiedError, open_executor, run_tasks

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier


def predict_on(plan: Plan, units: Sequence[Unit], *, placement: Placement) -> Generator[Report]:
    """Predict parts on several workers; yield the report of each as it finishes.

    A part whose worker or machine is lost is predicted again elsewhere; one that was finished before the worker could
    report it is recognised by its file.
    """
    n_workers = placement.n_jobs if placement.backend == "processes" else None
    # Ray and its C++ parts print that workers and machines died, and stdout belongs to the results
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        with _without_stderr(nowhere.fileno()):
            executor = open_executor(predict_part, plan, placement, n_workers=n_workers)
        with contextlib.closing(run_tasks(executor, units)) as updates:
            for kind, number, value, again in updates:
                if kind == "result":
                    yield value
                elif kind == "failed" and not again:
                    died = "its worker died again and again (out of memory?)"
                    reason = died if isinstance(value, WorkerDiedError) else message_of(value)
                    yield Report(units[number].name, failed=f"{units[number].part.path}: {reason}")


def predict_part(plan: Plan, unit: Unit) -> Iterator[Report]:
    """Predict a part in a worker; the model is loaded once for all of the worker's parts."""
    try:
        classifier = _model(plan)
    except (OSError, ImportError) as error:
        yield Report(unit.name, failed=message_of(error), hopeless=True)
    else:
        yield predict_unit(classifier, plan, unit)


_MODELS: dict[tuple[Path, str, str], CostSensitiveClassifier] = {}
"""The model that this worker has loaded, by the folder of predictions, the digest of its manifest, and the device."""


def _model(plan: Plan) -> CostSensitiveClassifier:
    key = plan.out, plan.identity, plan.device
    if key not in _MODELS:
        _MODELS.clear()
        _MODELS[key] = load_for(plan, socket.gethostname())
    return _MODELS[key]


@contextlib.contextmanager
def _without_stderr(nowhere: int) -> Iterator[None]:
    """Redirect what C++ code writes to stderr: Ray logs even with logging switched off."""
    kept = os.dup(2)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
