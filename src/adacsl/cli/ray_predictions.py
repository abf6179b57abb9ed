"""Predictions of part files on a Ray cluster."""

from __future__ import annotations

import json
import logging
import os
import socket
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from adacsl.base.extras import requires
from adacsl.cli.console import one_line
from adacsl.comparison.ray_executor import joined
from adacsl.estimators.partitioned_predict import Plan, Report, Unit, load_for, predict_unit
from adacsl.storage.documents import decode, encode

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostClassifier

with requires("ray"):
    import ray
    import ray.data
    import ray.exceptions


WORKERS = 1000
"""At most, where nobody says how many: Ray starts as many as there is room for."""
TRIES = 3
"""So often a part may take its worker along before it is given up."""


class _Tries:
    """How often each part was begun: lives in a process that outlasts the workers."""

    def __init__(self) -> None:
        self._begun: Counter[str] = Counter()

    def begin(self, name: str) -> int:
        self._begun[name] += 1
        return self._begun[name]


class _Worker:
    """Holds the model, and predicts part after part."""

    def __init__(self, plan: Plan, units: Sequence[Unit], tries: Any, gpus: float) -> None:
        if not gpus:  # new versions of Ray show all GPUs to a worker that asked for none
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        self._plan, self._units, self._tries = plan, units, tries
        self._classifier: CostClassifier | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        report = self._report(self._units[int(batch["unit"][0])])
        return {"report": [json.dumps(encode(report._asdict(), report.name))]}

    def _report(self, unit: Unit) -> Report:
        begun = ray.get(self._tries.begin.remote(unit.name))
        if begun > TRIES:
            return Report(unit.name, failed=f"{unit.part.path}: its worker died {TRIES} times (out of memory?)")
        try:
            self._classifier = self._classifier or load_for(self._plan, socket.gethostname())
        except (OSError, ImportError) as error:
            return Report(unit.name, failed=one_line(error), hopeless=True)
        return predict_unit(self._classifier, self._plan, unit)


def predict_there(
    plan: Plan, units: Sequence[Unit], *, address: str, workers: int | None, gpus: float
) -> Generator[Report]:
    """Predict parts on a cluster; yield what became of each, as it comes.

    Ray's own retries stay on: a part whose machine goes away is begun again elsewhere, and one that was finished before
    the worker could say so is recognised by its file.
    """
    with joined(address, workers=workers, gpus=gpus):
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars, context.max_errored_blocks = False, -1
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        tries = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Tries).remote()
        missing = {unit.name: number for number, unit in enumerate(units)}
        numbers = [{"unit": number} for number in missing.values()]
        told = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
            _Worker, fn_constructor_args=(plan, units, tries, gpus), batch_size=1, num_cpus=1, num_gpus=gpus or None,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(len(numbers), workers or WORKERS)),
        )  # fmt: skip
        for report in _reports(told):
            if missing.pop(report.name, None) is not None:
                yield report
    for number in missing.values():
        yield Report(units[number].name, failed=f"{units[number].part.path}: its worker was lost")


def _reports(told: Any) -> Iterator[Report]:
    try:
        yield from (Report(**decode(json.loads(row["report"]))) for row in told.iter_rows())
    except ray.exceptions.RayError as error:
        raise OSError(f"Ray gave up: {one_line(error)[:300]}") from error
