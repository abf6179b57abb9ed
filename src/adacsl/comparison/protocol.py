"""Protocol of a comparison: splits, cost ratios, settings and device, the same for every method."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.comparison.fits import scale_fn
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.duplicates import DuplicateGroups, keep_together
from adacsl.datasets.task import Task
from adacsl.datasets.time import Duration
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.estimators.registry import is_ensemble, needs_network
from adacsl.fitting.rows import Rows
from adacsl.fitting.splits import folds_of, one_split
from adacsl.fitting.time_splits import Timeline, rolling_window
from adacsl.learners.boosting_libraries import installed_library
from adacsl.neural.learner import NeuralLearner, check_neural

with requires("compare"):
    from sklearn.base import clone


def at_ratio(costs: CostMatrix, ratio: float | None, *, own: float | None = None) -> CostMatrix:
    """Return the costs with those of false negatives scaled to ``ratio`` false positives (on average).

    ``own`` is the present ratio, where it differs from that of ``costs``.

    Examples
    --------
    >>> at_ratio(CostMatrix(fp=2, fn=8), 5.0)
    CostMatrix(fp=2, fn=10)
    """
    return costs if ratio is None else scale_fn(costs, ratio / (own or mean_ratio(costs)))


def named_costs(costs: Sequence[CostMatrix], names: Sequence[str]) -> CostMatrix:
    """Return the costs of some splits of the data as one matrix with the names of the classes."""
    tables = [each.to_array() for each in costs]
    table = tables[0] if costs[0].n_instances is None else np.concatenate(tables)
    named = CostMatrix.from_array(table, rows="predicted", classes=names)
    known = [each.deciding for each in costs]
    return named if known[0] is costs[0] else named.decided_by(named_costs(known, names))


def joined_cells(costs: Sequence[CostMatrix]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the costs of two classes of some splits of the data together."""
    tn, fn, fp, tp = (
        some[0] if isinstance(some[0], float) else np.concatenate(some)
        for some in ([getattr(each, name) for each in costs] for name in ("tn", "fn", "fp", "tp"))
    )
    return (tn, fn), (fp, tp)


def mean_ratio(costs: CostMatrix) -> float:
    """Return the mean cost ratio fn : fp over the samples; 1 with more than two classes."""
    return float(costs.averaged().ratio) if costs.n_classes == 2 else 1.0


def choose_ratios(costs: CostMatrix, ratios: Sequence[float | str] | None) -> list[float]:
    """Return cost ratios as numbers of six digits; ``"3x"`` is three times the costs' own.

    More than two classes have no such ratio: their matrix is compared as it is, as ratio 1.

    Examples
    --------
    >>> choose_ratios(CostMatrix(fp=1, fn=8), ["1x", "2.5x", 4])
    [8.0, 20.0, 4.0]
    """
    own = mean_ratio(costs)
    if costs.n_classes > 2 and ratios is not None:
        raise ValueError(
            f"ratios are fn : fp of two classes; a matrix of {costs.n_classes} classes is compared as it is: omit "
            "them, and give another matrix for other costs"
        )
    result = []
    for ratio in [own] if ratios is None else ratios:
        text = str(ratio).strip().lower()
        try:
            value = own * float(text[:-1]) if text.endswith("x") else float(text)
        except ValueError:
            value = float("nan")
        if not 0.0 < value < float("inf"):
            raise ValueError(f"a ratio is a positive number such as 8, or a multiple such as 3x; got {ratio!r}")
        result.append(float(f"{value:.6g}"))
    if not result or len(set(result)) != len(result):
        raise ValueError(f"the ratios must be different numbers, got {ratios!r}")
    return result


LARGE = 20_000
"""Samples from which a comparison is large: one repeat of the folds by default, a first look, and racing."""
VERY_LARGE = 50_000
"""Samples from which there are three folds by default."""


def usual_splits(samples: int) -> tuple[int, int]:
    """Return the repeats and folds of a comparison by default.

    A further repeat tests no further sample, and every fold trains all methods again. With many samples intervals are
    narrow without.

    Examples
    --------
    >>> usual_splits(1_000), usual_splits(20_000), usual_splits(100_000)
    ((2, 5), (1, 5), (1, 3))
    """
    return (2, 5) if samples < LARGE else (1, 5) if samples < VERY_LARGE else (1, 3)


@dataclass(frozen=True)
class Protocol:
    """The protocol of a comparison: how every method is trained and tested.

    Parameters
    ----------
    test : float, default 0.2
        Share of the test samples; with folds, of data with a time.
    validation : float, default 0.15
        Share of the samples for adaptation and selection; the rest trains. 65 / 15 / 20 as in the paper.
    neural : NeuralLearner, optional
        Settings of the neural networks: ``NeuralLearner(epochs=30, views=4)``.
    device : str, default "auto"
        Device on which neural networks train.
    windows : int, default 0
        Number of test windows of data with a time, the latest first; the samples before a window train its models. All
        windows together are the ``test`` share.
    gap : float or str, optional
        Duration before a split whose samples are excluded.
    label_delay : float or str, optional
        Duration after which the label of a sample is known.
    folds : int, default 0
        Number of folds; every sample is tested once in each repeat. 0: random splits, as in the paper.
    constraints : mapping, optional
        Constraints that the decisions of all methods meet.
    certify : float, default 0.2
        The share of the training samples that certifies them.

    Examples
    --------
    >>> from adacsl.comparison.protocol import Protocol
    >>> Protocol(folds=5).validation
    0.15
    """

    test: float = 0.20
    validation: float = 0.15
    neural: NeuralLearner = field(default_factory=NeuralLearner)
    device: str = "auto"
    windows: int = 0
    gap: Any = None
    label_delay: Any = None
    folds: int = 0
    constraints: Mapping[str, Any] = field(default_factory=dict)
    certify: float = 0.2

    def __post_init__(self) -> None:
        check_neural(self.neural).check()
        for name in ("gap", "label_delay"):
            object.__setattr__(self, name, Duration.read(getattr(self, name), name))
        if not self.windows and self.folds and not 0.0 < self.validation < 1.0 - 1.0 / self.folds:
            most = f"{100 - 100 / self.folds:.0f} %"
            raise ValueError(
                f"validation is a share of all samples, above 0 and below the {most} that are not tested on, "
                f"got {self.validation!r}"
            )
        if (self.gap.amount or self.label_delay.amount) and not self.windows:
            raise ValueError(
                "gap and label_delay are for data with a time: give the observation times, time=... (--time-column)"
            )

    def identity(self) -> dict[str, Any]:
        """Return the settings that results depend on; a subclass adds its own.

        Returns
        -------
        dict
            JSON values: everything but the device, and the installed boosting library. Part of the identity of a run
            (:class:`~adacsl.comparison.store.Store`).
        """
        neural = {name: _plain(value) for name, value in sorted(self.neural.changed().items())}
        boosting = installed_library() or "scikit-learn"
        about = {"test": self.test, "validation": self.validation, "neural": neural, "boosting": boosting}
        about |= {"folds": self.folds} if self.folds else {}
        time = {"windows": self.windows, "gap": str(self.gap), "label_delay": str(self.label_delay)}
        limits = {"constraints": dict(self.constraints), "certify": self.certify} if self.constraints else {}
        return about | ({"time": time} if self.windows else {}) | limits

    def numbers(self, task: Task, repeats: int) -> range:
        """Return the numbers of all splits: repeat after repeat of the folds, or the test windows."""
        return range(self.windows if task.time is not None else repeats * self.folds)

    def split(self, task: Task, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return training and test samples of a split: a fold, a test window, or (0 folds) at random.

        Parameters
        ----------
        task : Task
            The data.
        seed : int
            Number of the split.

        Returns
        -------
        tuple of arrays
            Positions of the training and of the test samples.
        """
        if task.time is not None:
            line = Timeline.of(task.time, self.gap, self.label_delay)
            return rolling_window(line, task.y, task.groups, self.test, seed, self.windows)
        if not self.folds:
            return split_rows(task, self.test, seed)
        repeat, fold = divmod(seed, self.folds)
        key = ("folds", self.folds, repeat)
        if key not in task.worked_out:
            task.worked_out[key] = folds_of(task.y, self.units(task), self.folds, repeat).astype(np.int16)
        tested = task.worked_out[key] == fold
        return np.flatnonzero(~tested), np.flatnonzero(tested)

    def together(self, task: Task) -> DuplicateGroups:
        """Return which samples stay together in all folds: groups and duplicates."""
        key = ("together", self.folds)
        if key not in task.worked_out:
            largest = len(task.y) / self.folds
            task.worked_out[key] = keep_together(task.X, task.y, task.groups, task.time, largest)
        result: DuplicateGroups = task.worked_out[key]
        return result

    def units(self, task: Task) -> NDArray[Any] | None:
        """Return the units that splits keep together; None where every sample is one. Duplicates share their time.

        The paper's splits ignore duplicates.
        """
        if not self.folds or task.time is not None:
            return task.groups
        units = self.together(task).units
        return None if np.array_equal(units, np.arange(len(units))) else units

    def rows(self, task: Task, use: NDArray[np.int64]) -> Rows:
        """Return the training samples of a task, as every method gets them."""
        return Rows.of_task(task, use, groups=self.units(task), gap=self.gap, label_delay=self.label_delay)

    def describe_windows(self, task: Task) -> list[str]:
        """Return the times of training, adaptation and test of each test window; [] without a time."""
        result = []
        for seed in range(self.windows) if task.time is not None else ():
            try:
                rest, test = self.split(task, seed)
                rows = self.rows(task, rest)
                result.append(rows.describe_times(rows.folds(None, self.inner_validation, seed), test))
            except ValueError as error:
                raise ValueError(f"test window {seed} of {task.name}: {error}") from None
        return result

    @property
    def inner_validation(self) -> float:
        """The validation share of the samples that are not tested on."""
        tested = 1.0 / self.folds if self.folds and not self.windows else self.test
        return self.validation / (1.0 - tested)

    def prepare(self, method: CostSensitiveClassifier, seed: int) -> CostSensitiveClassifier:
        """Return a fresh copy of a method under these conditions."""
        fresh: CostSensitiveClassifier = clone(method)
        fresh.set_params(random_state=seed, validation=self.inner_validation, device=self.device)
        if self.constraints:
            fresh.set_params(constraints=dict(self.constraints), certify=self.certify)
        if needs_network(fresh) and fresh.learner == "net":
            fresh.set_params(learner=copy.copy(self.neural))
        if is_ensemble(fresh):
            # the jobs of a comparison share the cores already
            fresh = set_ensemble(fresh, self.neural, n_jobs=1, backend="processes", address=None, gpus=0.0)
        fresh.check_settings()
        return fresh


def set_ensemble(method: CostSensitiveClassifier, neural: NeuralLearner, **settings: Any) -> CostSensitiveClassifier:
    """Return an ensemble with settings, and with those of networks unless it has some of its own."""
    inside = "learner__" if "learner" in method.get_params(deep=False) else ""
    if neural.changed() and method.learner.neural is None:
        settings["neural"] = copy.copy(neural)
    return method.set_params(**{f"{inside}{name}": value for name, value in settings.items()})


def compared_neural(given: NeuralLearner | None, settings: Mapping[str, Any]) -> NeuralLearner:
    """Return the neural learner of a comparison, as it was given, or from the settings in its folder."""
    if given is not None:
        kept: NeuralLearner = copy.copy(given)
        return kept
    for name in (name for name, value in settings.items() if isinstance(value, dict)):
        raise ValueError(
            f"its networks had {name}={settings[name]['code']!r}, which is code, and code is not saved: "
            f"fit a method with  learner=NeuralLearner({name}=...)  yourself, or compare again"
        )
    read: NeuralLearner = NeuralLearner(**settings)
    return read


def _plain(value: Any) -> Any:
    """Return a setting as it is, or, of code, a name that does not change between runs of a program."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return {"code": getattr(value, "__qualname__", None) or repr(value)}


def describe_protocol(protocol: Mapping[str, Any], seeds: list[int]) -> str:
    """Return the identity of a protocol as readable text."""
    folds, time = protocol.get("folds", 0), protocol.get("time")
    tested = 1.0 / folds if folds and not time else protocol["test"]
    shares = {"validation": protocol["validation"], "test": tested}
    shares = {"training": 1.0 - sum(shares.values())} | shares
    words = ", ".join(f"{100 * share:.0f} % {name}" for name, share in shares.items())
    listed = ", ".join(map(str, seeds))
    if not time and folds:
        repeats = max(seeds) // folds + 1
        times = "once" if repeats == 1 else "once in each repeat"
        return (
            f"{words}; {repeats} {'repeat' if repeats == 1 else 'repeats'} of {folds} folds, stratified: "
            f"every sample is tested {times}"
        )
    if not time:
        return f"{words}; {len(seeds)} random splits (seeds {listed}), stratified"
    limits = ", ".join(f"{name} {time[name]}" for name in ("gap", "label_delay") if time[name] != "0")
    return (
        f"{words}; not shuffled: {time['windows']} test windows in order of time, the latest is number 0 (here: "
        f"{listed}); each is tested with models of earlier samples" + (f" ({limits})" if limits else "")
    )


def split_rows(task: Task, test: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training and test samples of a random split, stratified; groups are not split."""
    rest, tested = one_split(task.y, task.groups, test, seed)[0]
    return np.sort(rest), np.sort(tested)
