"""Jobs: fits that share a training, and their unfinished parts.

A job's results are written when its last network is trained. Where a network takes minutes and a job has five, each is
kept as soon as it is trained, and removed when the results of all have been written.
"""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.scores import to_probabilities
from adacsl.comparison.fits import FitKey, FitResult, measure
from adacsl.comparison.protocol import Protocol, at_ratio, mean_ratio
from adacsl.comparison.runner import FailedFit, Job, Tally, run
from adacsl.comparison.store import (
    ResultStore,
    Store,
    StoreError,
    document,
    file_name,
    inside,
    put,
    read_document,
)
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.task import Task
from adacsl.estimators.certification import certify, set_aside
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.estimators.cost_model import learn_costs
from adacsl.estimators.fit import fit_methods
from adacsl.estimators.registry import is_ensemble, needs_network
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.rows import Rows
from adacsl.fitting.settings import in_full
from adacsl.metrics.calibration import expected_calibration_error
from adacsl.neural.device import choose_device
from adacsl.storage.digests import text_digest
from adacsl.storage.documents import DamagedError
from adacsl.storage.sealed import pack, unpack
from adacsl.thresholds.constraints import InfeasibleError

ARRAY, SHAPE = "$array", "shape"


@dataclass(frozen=True)
class Parts:
    """A folder for the parts of unfinished jobs on one split of some data.

    Parameters
    ----------
    folder : Path
        Inside the folder of a run, whose data and conditions the parts depend on.
    data, seed
        Which split.
    origins : mapping
        Digest of the data and the settings of the run, by the name of the data: parts with another are not used.
    """

    folder: Path
    data: str = "data"
    seed: int = 0
    origins: Mapping[str, str] = field(default_factory=dict)

    def read(self, training: str, fold: int) -> dict[str, Any] | None:
        """Return what was kept of a network, or None where nothing usable is there."""
        try:
            body = read_document(self._folder(training) / f"{fold}.json", "part")
            return dict(_restored(body["kept"])) if body.items() >= self._place(training, fold).items() else None
        except (DamagedError, StoreError, KeyError, TypeError, ValueError):
            return None

    def write(self, training: str, fold: int, kept: Mapping[str, Any]) -> None:
        """Keep what is needed of a network: numbers, lists and arrays by name."""
        body = self._place(training, fold) | {"kept": _plain(kept)}
        put(self._folder(training) / f"{fold}.json", document("part", body), replace=True)

    def forget(self, training: str) -> None:
        """Remove all parts of a training, and folders that are empty then."""
        own = self._folder(training)
        shutil.rmtree(own, ignore_errors=True)
        with contextlib.suppress(OSError):  # other jobs use it
            own.parent.rmdir()
            self.folder.rmdir()

    def _folder(self, training: str) -> Path:
        own = self.folder / file_name(self.data) / f"seed-{int(self.seed)}_{text_digest(training)[:16]}"
        return inside(self.folder.parent, own / "part").parent

    def _place(self, training: str, fold: int) -> dict[str, Any]:
        return {"belongs_to": self.origins.get(self.data), "training": text_digest(training), "fold": fold}


def _plain(value: Any) -> Any:
    if hasattr(value, "numpy") or isinstance(value, np.ndarray):
        array = np.asarray(value)
        return {ARRAY: pack(array)} | ({} if array.ndim == 1 else {SHAPE: list(array.shape)})
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        if ARRAY in value:
            return unpack(value[ARRAY]).reshape(value.get(SHAPE, -1))
        return {key: _restored(item) for key, item in value.items()}
    return [_restored(item) for item in value] if isinstance(value, list) else value


SAMPLES_AT_ONCE = {"cpu": 400_000, "gpu": 20_000_000}
"""Samples times networks of one job: enough to train many small networks jointly, few enough to lose little when
killed."""


def plan_jobs(
    tasks: Sequence[Task],
    methods: Mapping[str, Mapping[str, CostSensitiveClassifier]],
    ratios: Mapping[str, Sequence[float]],
    seeds: Sequence[int],
    protocol: Protocol,
) -> list[Job]:
    """Return all fits of an experiment, grouped into jobs.

    Networks that train jointly are one job, estimators are one each; seeds take turns over all data.

    Parameters
    ----------
    tasks : sequence of Task
        Data of different names.
    methods : mapping from str to mapping
        By the name of the data: methods by name.
    ratios : mapping from str to sequence of float
        By the name of the data: cost ratios.
    seeds : sequence of int
        Numbers of the splits; those with a time have no more than the protocol has windows.
    protocol : Protocol
        The conditions. :func:`run_jobs` accepts jobs of several plans, each with its own protocol.

    Returns
    -------
    list of Job
        Each fit belongs to one job.

    See Also
    --------
    run_jobs : Runs them.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, Task, method
    >>> from adacsl.comparison.jobs import plan_jobs
    >>> from adacsl.comparison.protocol import Protocol
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> task = Task.from_data(X, y, CostMatrix(fp=1, fn=8), name="mine")
    >>> methods = {"mine": {"logistic": method("logistic")}}
    >>> jobs = plan_jobs([task], methods, {"mine": [8.0]}, range(2), Protocol(folds=2))
    >>> len(jobs)
    2
    """
    jobs = []
    for seed in seeds:
        for task in (task for task in tasks if task.time is None or seed < protocol.windows):
            own = methods[task.name]
            fits = [FitKey(task.name, ratio, name, seed) for name in own for ratio in ratios[task.name]]
            groups = _groups(task, fits, own, protocol)
            jobs += [Job(tuple(some), ({fit.method: own[fit.method] for fit in some}, protocol)) for some in groups]
    return jobs


def _groups(
    task: Task, fits: Iterable[FitKey], methods: Mapping[str, CostSensitiveClassifier], protocol: Protocol
) -> Iterator[list[FitKey]]:
    """Yield the fits of each job, the most expensive first."""
    trainings: dict[str, list[FitKey]] = {}
    for fit in fits:
        trainings.setdefault(_training(methods[fit.method], fit.ratio), []).append(fit)
    networks = {key: some for key, some in trainings.items() if needs_network(methods[some[0].method])}
    device = "cpu" if choose_device(protocol.device, warn=False) == "cpu" else "gpu"
    room = max(1, SAMPLES_AT_ONCE[device] // len(task.y)) if not task.images else 1
    batch: list[FitKey] = []
    size = 0
    for some in sorted(networks.values(), key=lambda some: -_networks(methods[some[0].method])):
        count = _networks(methods[some[0].method])
        if batch and size + count > room:
            yield batch
            batch, size = [], 0
        batch, size = batch + some, size + count
    if batch:
        yield batch
    others = [some for key, some in trainings.items() if key not in networks]
    yield from sorted(others, key=lambda some: not is_ensemble(methods[some[0].method]))


def _training(method: CostSensitiveClassifier, ratio: float) -> str:
    """Return a key that is equal for fits that share one training."""
    own = [in_full(method.learner), method.resample, repr(method.loss), repr(method.cv)]
    # plain cross-entropy does not depend on the ratio
    costs = [] if method.loss == "plain" else [ratio, repr(method.controller), method.target_threshold]
    return repr(own + costs)


def _networks(method: CostSensitiveClassifier) -> int:
    return method.cv if isinstance(method.cv, int) else 1


WORK = {"constant": 0.0, "logistic": 0.05, "metacost": 10.0}
"""Time of a fit on 1,000 samples, relative to one of boosting, by learner; others: as boosting."""
OF_A_NETWORK, OF_AN_ENSEMBLE = 0.8, 10.0


def expected_work(job: Job, samples: int) -> float:
    """Return roughly how long a job takes, relative to others."""
    methods, _ = job.payload
    if count := count_networks(job):
        return OF_A_NETWORK * count * samples
    trained = {_training(methods[fit.method], fit.ratio): methods[fit.method] for fit in job.fits}
    return samples * sum(
        OF_AN_ENSEMBLE if is_ensemble(made) else WORK.get(str(made.learner), 1.0) * _networks(made)
        for made in trained.values()
    )


def scheduled(
    jobs: Iterable[Job], samples: Mapping[str, int], stage: Callable[[FitKey], int] = lambda fit: 0
) -> list[Job]:
    """Return jobs in the order in which they begin: stage by stage, in each the longest first.

    Then no core is idle while another is busy with a long job that began last.
    """
    return sorted(
        jobs, key=lambda job: (min(map(stage, job.fits)), -expected_work(job, samples[job.fits[0].data]))
    )  # fmt: skip


def count_networks(job: Job) -> int:
    """Return how many networks a job trains: fits that differ only in the decision rule share theirs.

    Parameters
    ----------
    job : Job
        Of :func:`~adacsl.comparison.jobs.plan_jobs`.

    Returns
    -------
    int
        0 where no method of the job is a network.

    See Also
    --------
    plan_jobs : The jobs of an experiment.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, Task, method
    >>> from adacsl.comparison.jobs import count_networks, plan_jobs
    >>> from adacsl.comparison.protocol import Protocol
    >>> X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 5 == 0
    >>> task = Task.from_data(X, y, CostMatrix(fp=1, fn=8), name="mine")
    >>> names = "net-bayes", "net-tuned", "adacsl-cv"
    >>> methods = {"mine": {name: method(name) for name in names}}
    >>> (job,) = plan_jobs([task], methods, {"mine": [8.0]}, [0], Protocol(folds=3))
    >>> count_networks(job)  # one for both thresholds, and five
    6
    """
    methods, _ = job.payload
    networks = [fit for fit in job.fits if needs_network(methods[fit.method])]
    return sum({_training(methods[fit.method], fit.ratio): _networks(methods[fit.method]) for fit in networks}.values())


def run_jobs(
    jobs: Iterable[Job], store: ResultStore, tasks: Mapping[str, Task], *, backend: str = "processes", **options: Any
) -> Tally:
    """Run the fits of :func:`~adacsl.comparison.jobs.plan_jobs` that a store lacks.

    Parameters
    ----------
    jobs : iterable of Job
        The plan.
    store : Store or MemoryStore
        Opened for writing.
    tasks : mapping from str to Task
        The data by name.
    backend : {"processes", "ray"}, default "processes"
        Processes on this machine, or tasks on a Ray cluster.
    **options : Any
        Parameters of :func:`~adacsl.comparison.runner.run`: ``n_jobs``, ``seconds``, ``on_event``, ...

    Returns
    -------
    Tally
        How many fits have results, failed and ran.

    See Also
    --------
    plan_jobs : The plan.

    Examples
    --------
    >>> from pathlib import Path
    >>> with Store.open(Path("run"), identity) as store:  # doctest: +SKIP
    ...     run_jobs(jobs, store, {"mine": task}, n_jobs=1)
    """
    parts = None
    if isinstance(store, Store) and backend == "processes":  # on a cluster the run's folder may be out of reach
        parts = Parts(store.folder / "parts", origins=store.origins(tasks))
    return run(jobs, functools.partial(run_work, parts=parts), store, shared=tasks, backend=backend, **options)


def run_work(
    tasks: Mapping[str, Task],
    payload: tuple[Mapping[str, CostSensitiveClassifier], Protocol],
    fits: Sequence[FitKey],
    *,
    parts: Parts | None = None,
) -> Iterator[FitResult | FailedFit]:
    """Run a job (or what is left of it): fit the methods and yield the results.

    The payload of a job holds the methods and the protocol.
    """
    if not fits:
        return
    task, seed = tasks[fits[0].data], fits[0].seed
    methods, protocol = payload
    rest, test = protocol.split(task, seed)
    rows = protocol.rows(task, rest)
    at = functools.partial(at_ratio, costs_of_split(task, rows, seed), own=mean_ratio(task.costs))
    chosen = [(protocol.prepare(methods[fit.method], seed), at(fit.ratio)) for fit in fits]
    own = None if parts is None else replace(parts, data=task.name, seed=seed)
    certifying, watch = None, test
    if protocol.constraints:
        rows, certifying = set_aside(rows, protocol.certify, seed)
        watch = np.concatenate((test, certifying))
    for number, candidate in fit_methods(chosen, rows, watch=watch, parts=own):
        method, costs = chosen[number]
        if certifying is not None:
            scores = to_probabilities(np.asarray(candidate.watched))
            candidate.watched = np.asarray(candidate.watched)[: len(test)]
            try:
                certify(method, candidate, rows, certifying, scores[len(test) :])
            except InfeasibleError as error:
                yield FailedFit(fits[number], error)
                continue
        yield _result(fits[number], method, candidate, costs.rows(test), task.y[test], len(rest))


def costs_of_split(task: Task, rows: Rows, seed: int) -> CostMatrix:
    """Return the costs of the samples of a task; costs that are predicted are learned from the training samples."""
    if task.cost_spec is None or not task.cost_spec.learns:
        return task.costs
    key = (rows.use.tobytes(), seed)
    if key not in task.learned:
        task.learned[key] = learn_costs(task.cost_spec, task.costs, rows, task.X, seed).costs
    return task.learned[key]


def _result(
    fit: FitKey,
    method: CostSensitiveClassifier,
    candidate: Candidate,
    costs: CostMatrix,
    labels: NDArray[np.int64],
    n_train: int,
) -> FitResult:
    decision = method.decision_
    # stored scores are float32, and decisions must follow from what is stored
    raw = to_probabilities(np.asarray(candidate.watched))
    scores = decision.probabilities(raw, costs=costs).astype(np.float32)
    decided = decision.of_probabilities(scores.astype(np.float64), costs=costs)
    about = {"decide": decision.decide}  # the report decides again at other costs
    if costs.n_classes == 2:
        decided = decided == 1
    metrics = measure(decided, labels, costs) | {"validation_cost": math.nan} | candidate.extra
    metrics["n_train"] = n_train
    metrics["calibration_error"] = expected_calibration_error(scores, labels)
    threshold = decision.threshold_for(costs)
    return FitResult(fit, metrics, scores, decided, threshold, candidate.history, candidate.seconds, about)
