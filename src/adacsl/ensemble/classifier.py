"""The stacked ensemble: base estimators of several kinds, cross-fitted on the same folds and stacked."""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.scores import known, losses_of, to_probabilities
from adacsl.costs.instance import bayes_log_odds
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import Policy
from adacsl.ensemble.fits import Fitted, class_costs_of, cut_of, fit_task, fold_tasks, joined_folds
from adacsl.ensemble.stacking import stack_estimators
from adacsl.ensemble.time_plan import TimePlan
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.execution.executors import OutOfTimeError, Placement, Update, open_executor, run_tasks
from adacsl.execution.threads import MANY_ROWS, cores, threads_for
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.rows import Rows, leaks
from adacsl.fitting.settings import in_full, keeps_settings
from adacsl.fitting.time_splits import Timeline, possible_folds
from adacsl.learners.boosting_libraries import load_libraries
from adacsl.learners.stack import Stack, StackModel, resolved

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier

with requires("sklearn"):
    import joblib
    import pandas as pd
    from sklearn.base import BaseEstimator, clone

__all__ = ["EnsembleSettings", "fit_ensembles", "seconds_of"]


UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
RESERVE = 0.05
"""Share of the time limit kept for stacking and estimating."""
FEW_ROWS = 500
"""With fewer samples starting processes takes longer than the work."""
QUICK = 0.1
"""Strength of the stacks that only show how far a fit is, and what each base estimator is worth."""
MANY_JUDGES = 20_000
"""So many samples say what a base estimator gained the stack."""
TINY = 1e-12


def placement_of(settings: Any) -> Any:
    """Return where base estimators are fitted, and how many at once; None: as many as have room."""
    many = isinstance(settings.n_jobs, Integral) and not isinstance(settings.n_jobs, bool) and int(settings.n_jobs) > 0
    n_jobs = int(settings.n_jobs) if many else None
    return Placement(settings.backend, address=settings.address, n_jobs=n_jobs, gpus=settings.gpus)


class EnsembleSettings(BaseEstimator):
    """Settings of an ensemble; see :class:`~adacsl.EnsembleClassifier`."""

    tables_only = False
    trained_by = "adacsl.ensemble.classifier:fit_ensembles"
    averages = True  # held-out samples are scored by the average already: no second cross-fit is needed

    @keeps_settings
    def __init__(
        self,
        estimators: Any = "auto",
        *,
        time_limit: float | str | None = None,
        strength: float | str = "auto",
        neural: Any = None,
        n_jobs: int | str = "auto",
        backend: str = "processes",
        address: str | None = None,
        gpus: float = 0.0,
    ) -> None:
        """Keep the settings."""

    def check(self) -> None:
        """Refuse settings that make no sense."""
        seconds_of(self.time_limit)
        if self.strength != "auto" and not (isinstance(self.strength, Real) and float(self.strength) > 0):
            raise ValueError(f"strength must be 'auto' or a number above 0, got {self.strength!r}")
        if self.n_jobs != "auto" and not (
            isinstance(self.n_jobs, Integral) and (self.n_jobs == -1 or int(self.n_jobs) > 0)
        ):
            raise ValueError(f"n_jobs must be 'auto', -1 or a number of processes, got {self.n_jobs!r}")
        placement_of(self)
        _choose(self)

    def adapts(self, candidate: Candidate) -> bool:
        """Return whether a controller adapts the stack: never; its base estimators may be adapted."""
        return False

    def folds_for(self, cv: Any, rows: Rows) -> Any:
        """Return the number of folds: at most the samples of the rarer class (of K, of the second most frequent)."""
        if rows.line is not None and isinstance(cv, Integral) and rows.validation is None:
            return _windows_for(int(cv), rows, rows.line)
        rare = int(np.sort(np.bincount(rows.y[rows.use], minlength=2))[-2])
        if not isinstance(cv, Integral) or rows.groups is not None or rare >= cv or rare < 2:
            return cv
        which = "the rarer class has" if rows.n_classes == 2 else "all classes but one have at most"
        warnings.warn(f"{which} {rare} samples: {rare} folds instead of {cv}", stacklevel=4)
        return rare

    def workers_for(self, rows: Rows) -> int:
        """Return the number of processes for base estimators; 0: this one, or on a cluster as many as have room."""
        where = placement_of(self)
        if where.backend == "ray":
            return where.n_jobs or 0
        if where.n_jobs is not None:
            count = where.n_jobs
        elif self.n_jobs == "auto":
            # networks of images use all cores, or the one GPU, by themselves
            alone = rows.images or len(rows.use) < FEW_ROWS
            count = 1 if alone else joblib.effective_n_jobs(-1)
        else:
            count = cores() if self.n_jobs == -1 else int(self.n_jobs)
        # a process can be ended when the time is over, this one cannot
        return count if count > 1 or self.time_limit is not None else 0


def _windows_for(cv: int, rows: Rows, line: Timeline) -> int:
    """Return the number of time windows that have samples of two classes each; ``cv`` where no number does."""
    groups = None if rows.groups is None else rows.groups[rows.use]
    result = len(possible_folds(line.rows(rows.use), rows.y[rows.use], groups, cv)) or cv
    if result < cv:
        warnings.warn(f"{cv} windows of time lack samples of a class: {result} folds instead of {cv}", stacklevel=6)
    return result


def seconds_of(time_limit: float | str | None) -> float:
    """Return a time limit in seconds.

    Examples
    --------
    >>> seconds_of("60s"), seconds_of("1.5 min"), seconds_of(None)
    (60.0, 90.0, inf)
    """
    if time_limit is None:
        return math.inf
    result = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(s|min|m|h|)\s*", str(time_limit))
    if isinstance(time_limit, bool) or result is None or float(result[1]) <= 0:
        raise ValueError(
            f"time_limit must be seconds above 0, or a text such as '60s', '5min' or '1h', got {time_limit!r}"
        )
    return float(result[1]) * UNITS[result[2]]


def fit_ensembles(candidates: Sequence[Candidate], rows: Rows) -> Iterator[Candidate]:
    """Fit the base estimators once for candidates that differ only in costs, and stack them for each."""
    groups: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        key = [in_full(candidate.learner), candidate.seed, repr(candidate.method.cv), candidate.method.decide]
        groups.setdefault(repr(key), []).append(candidate)
    for group in groups.values():
        fits = _Fits(group, rows)
        fits.run()
        for number, candidate in enumerate(group):
            fits.stack(number, candidate)
            yield candidate


class _Fits:
    """The base estimators of some candidates: those that are done, and why others are not."""

    def __init__(self, group: Sequence[Candidate], rows: Rows) -> None:
        self.group, self.rows, self.learner = group, rows, group[0].learner
        self.method = group[0].method
        self.time_limit = seconds_of(self.learner.time_limit) * (1.0 - RESERVE)
        self.limited = math.isfinite(self.time_limit)
        chosen = _choose(
            self.learner, rows.images, rows.n_classes, row_costs=rows.costs is not None, timed=self.limited
        )
        self.estimators = {name: made for name, made in chosen.items() if not isinstance(made, ImportError)}
        self.done: dict[str, list[Fitted]] = {}
        self.failed = {name: str(error) for name, error in chosen.items() if isinstance(error, ImportError)}
        self.folders: dict[str, Path] = {}  # where base estimators are kept until the fit is done
        self.history: list[dict[str, float]] = []
        self.parts: dict[str, dict[int, list[Fitted]]] = {}  # base estimators of which some folds are done
        self.answered: set[Any] = set()  # names of base estimators and folds whose result, or error, is there
        self.where = placement_of(self.learner)
        self.start = time.monotonic()
        self.plan = TimePlan(len(rows.use) * (1 if rows.images else np.shape(rows.x)[1]), rows.n_classes)
        self.losses: list[float] = []  # of the stack, after each base estimator
        self.started: set[str] = set()
        self.unaffordable: dict[str, str] = {}  # base estimators that are not started, and why

    def run(self) -> None:
        """Fit what the time allows; an interrupt ends it with what there is."""
        method, first = self.method, self.group[0]
        for line in leaks(self.rows):
            warnings.warn(line, stacklevel=6)
        self._read_finished()
        missing = {name: self._prepared(name) for name in self.estimators if name not in self.done}
        away = self.where.backend == "ray" and bool(missing)
        tasks: list[dict[Any, CostSensitiveClassifier]] = [{name: made} for name, made in missing.items()]
        if away and first.watch is None:
            tasks = [task for name, made in missing.items() for task in fold_tasks(name, made, self.rows)]
        workers = min(self.learner.workers_for(self.rows), len(tasks))
        shared = (self.rows, [c.costs for c in self.group], first.watch)
        if not workers and not away:
            load_libraries(self.estimators.values())
        placement = self.where if away else Placement()
        executor = open_executor(
            fit_task,
            shared,
            placement,
            n_workers=workers,
            threads=self._threads(workers),
            ahead=math.isinf(self.time_limit),
        )
        progress = _Progress(len(self.estimators), self.time_limit, self.start, shown=method.verbose)
        updates = run_tasks(
            executor, tasks, beat=progress.beat, choose=self._next, remaining=self._remaining,
            deadline=lambda: self.start + self.time_limit if self.done else math.inf,
        )  # fmt: skip
        try:
            with contextlib.closing(updates):  # an interrupt ends the workers too
                for update in updates:
                    progress.follow(update, tasks)
                    if isinstance(update.value, SystemExit) and not workers and not away:
                        raise update.value  # a worker may end, this process was asked to
                    if update.kind == "result" or (update.kind == "failed" and not update.again):
                        for name in tasks[update.number]:
                            self._take_part(name, update.value)
                        progress.show(len(self.done), self.history)
        except (KeyboardInterrupt, SystemExit) as error:
            # Lightning answers Ctrl-C by itself, and ends the program
            stopped = isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt)
            if not self.done or not stopped:
                raise
            self.failed |= {name: "interrupted" for name in self.estimators if name not in {*self.done, *self.failed}}
        finally:
            progress.end()
        # in one order, whoever was done first: sums of floats depend on it
        self.done = {name: self.done[name] for name in self.estimators if name in self.done}
        self._report_failures()

    def _threads(self, workers: int) -> int:
        """Return how many threads each worker has; tasks of a cluster have one core each."""
        many = self.rows.images or len(self.rows.use) >= MANY_ROWS
        share = cores() // max(workers, 1) if many and self.where.backend != "ray" else 1
        return threads_for("OMP_NUM_THREADS", share)  # a worker of a comparison has its share already

    def _read_finished(self) -> None:
        """Take the base estimators that an earlier fit has finished; those of a comparison have no models to keep."""
        if self.method.resume is None or self.group[0].watch is not None:
            return
        from adacsl.ensemble.checkpoint import estimator_folders, read_estimator  # noqa: PLC0415  it imports this module

        self.folders = estimator_folders(Path(self.method.resume), self.estimators, self.group, self.rows)
        for name, folder in self.folders.items():
            result = read_estimator(folder, name, self.estimators[name], self.method.device)
            if result is not None:
                self._take(name, {name: result})

    def _prepared(self, name: str) -> CostSensitiveClassifier:
        """Return an unfitted copy on the ensemble's folds."""
        given = {"cv": self.group[0].folds, "random_state": self.group[0].seed, "device": self.method.device}
        if name in self.folders and self.where.backend != "ray":  # other machines need not see the folder
            from adacsl.ensemble.checkpoint import unfinished  # noqa: PLC0415

            given["resume"] = unfinished(self.folders[name])
        made: CostSensitiveClassifier = clone(self.estimators[name])
        known = made.get_params(deep=False)
        return made.set_params(**{name: value for name, value in given.items() if name in known})

    def _next(self, waiting: Sequence[dict[Any, CostSensitiveClassifier]]) -> int | None:
        """Return the place of the task to begin: the first, or with a time limit the one with most gain per second."""
        if not self.limited:
            return 0
        from adacsl.ensemble.base_estimators import prior_of  # noqa: PLC0415  it imports the learners

        # a fold has a name of three parts, and takes its share of the time
        names = [next(iter(task)) for task in waiting]
        asked = [(name, 1.0) if isinstance(name, str) else (name[0], 1.0 / name[2]) for name in names]
        priors, shares = [prior_of(name) for name, _ in asked], [share for _, share in asked]
        left = self.start + self.time_limit - time.monotonic()
        place = self.plan.choose(priors, left if self.done else math.inf, shares)
        if place is not None:
            self.started.add(asked[place][0])
        else:
            for (name, share), prior in zip(asked, priors, strict=True):
                expected = self.plan.seconds(prior) * share
                self.unaffordable[name] = f"not started: about {expected:.2g} s expected, {max(left, 0.0):.2g} s left"
        return place

    def _remaining(self, task: dict[Any, CostSensitiveClassifier]) -> dict[Any, CostSensitiveClassifier] | None:
        """Return a task unless its result is there already."""
        return None if self.answered >= task.keys() else task

    def _take_part(self, name: Any, outcome: Any) -> None:
        """Remember what became of a base estimator, or of one of its folds: it is done when all are."""
        self.answered.add(name)
        if isinstance(name, str) or isinstance(outcome, BaseException):
            self._take(name if isinstance(name, str) else name[0], outcome)
            return
        estimator, fold, folds = name
        parts = self.parts.setdefault(estimator, {})
        parts[fold] = outcome[name]
        if len(parts) == folds:
            self._take(estimator, {estimator: joined_folds([parts[i] for i in range(folds)])})

    def _take(self, name: str, outcome: Any) -> None:
        """Remember what became of a base estimator."""
        if isinstance(outcome, OutOfTimeError) and name not in self.started:
            self.failed[name] = self.unaffordable.setdefault(name, "not started: no time was left")
            return
        if isinstance(outcome, BaseException):
            self.failed[name] = " ".join(f"{outcome}".split())[:300] or type(outcome).__name__
            return
        self.done[name] = outcome[name]
        if name in self.folders:
            from adacsl.ensemble.checkpoint import write_estimator  # noqa: PLC0415

            write_estimator(self.folders[name], name, outcome[name])
        if self.limited:
            self._observe(name)
        self._measure()

    def _observe(self, name: str) -> None:
        """Tell the plan the seconds of a finished base estimator, and what it gained the stack."""
        from adacsl.ensemble.base_estimators import prior_of  # noqa: PLC0415  it imports the learners

        columns, seen = self._columns(0)
        some = np.linspace(0, len(seen) - 1, min(len(seen), MANY_JUDGES)).astype(np.int64)
        columns, seen = columns[some], seen[some]
        labels, weight = self.rows.y[seen], self.rows.weights(seen)
        groups = None if self.rows.groups is None else self.rows.groups[seen]
        line = None if self.rows.line is None else self.rows.line.rows(seen)
        nested = stack_estimators(
            columns, labels, weight=weight, groups=groups, strength=QUICK, seed=self.group[0].seed, line=line
        )[1]
        judged = known(nested)
        if not judged.any():
            return
        losses = losses_of(nested[judged], labels[judged])
        self.losses.append(float(np.average(losses, weights=None if weight is None else weight[judged])))
        gain = 1.0 - self.losses[-1] / max(self.losses[-2], TINY) if len(self.losses) > 1 else None
        self.plan.observe(prior_of(name), self.done[name][0].seconds, gain)

    def _measure(self) -> None:
        """Note what the stack would cost by now, on samples it was not fitted on."""
        if self.method.verbose:
            _, nested, seen = self._stack(0, list(self.done), QUICK)
            cost = self._cost(0, nested, seen)
            unweighted = {"lambda": 1.0, "weight": 1.0} if self.rows.n_classes == 2 else {}
            self.history.append({"round": len(self.done) - 1, "fold": 0} | unweighted | {"val_cost": cost})

    def _report_failures(self) -> None:
        from adacsl.ensemble.base_estimators import TIMED  # noqa: PLC0415  it imports the learners

        optional = TIMED if isinstance(self.learner.estimators, str) else ()
        for name, why in self.failed.items():
            if name in optional and name in self.unaffordable and name not in self.started:
                continue  # they take part only where there is time for them
            warnings.warn(f"base estimator {name!r} is skipped: {why}", stacklevel=7)
        if not self.done:
            raise ValueError(
                "no base estimator could be fitted: " + "; ".join(f"{name}: {why}" for name, why in self.failed.items())
            )

    # stacking

    def stack(self, number: int, candidate: Candidate) -> None:
        """Stack the base estimators for one candidate."""
        names = list(self.done)
        stack, nested, seen = self._stack(number, names, self.learner.strength)
        held = candidate.hold_out(self.rows, seen)
        held.look(nested)
        candidate.held, candidate.history = [held], self.history
        # one fit serves them all
        candidate.seconds = sum(self.done[name][number].seconds for name in names) / len(self.group)
        fitted = [self.done[name][number] for name in names]
        if candidate.watch is not None:
            candidate.watched = stack.logits(np.stack([np.asarray(own.watched) for own in fitted], axis=1))
        else:
            models = [resolved(own.model) for own in fitted]
            shifts, by_rows = ([getattr(own, name) for own in fitted] for name in ("shift", "by_rows"))
            candidate.model = StackModel(stack, names, models, shifts, by_rows)
        candidate.attributes["leaderboard_"] = self._leaderboard(number, stack, seen)

    def _columns(self, number: int, names: Sequence[str] | None = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the base estimators' held-out log-odds (or K logits), and the samples that all of them held out."""
        own = [self.done[name][number].held_out for name in names or self.done]
        columns = np.stack(own, axis=1)
        seen = np.flatnonzero(known(columns))
        return columns[seen], seen

    def _stack(
        self, number: int, names: Sequence[str], strength: float | str
    ) -> tuple[Stack, NDArray[np.float64], NDArray[np.int64]]:
        """Return the stack, and the log-odds (or K logits) of samples it was not fitted on: with a time, later ones."""
        columns, seen = self._columns(number, names)
        groups = None if self.rows.groups is None else self.rows.groups[seen]
        stack, nested = stack_estimators(
            columns, self.rows.y[seen], weight=self.rows.weights(seen), groups=groups, strength=strength,
            cut=cut_of(self.group[number].class_costs), sample_costs=class_costs_of(self.group[number], seen),
            seed=self.group[0].seed, line=None if self.rows.line is None else self.rows.line.rows(seen),
        )  # fmt: skip
        judged = known(nested)
        return stack, nested[judged], seen[judged]

    def _cost(self, number: int, logits: NDArray[Any], seen: NDArray[np.int64]) -> float:
        costs: CostMatrix = self.group[number].costs.rows(seen)
        decided = logits > bayes_log_odds(costs) if logits.ndim == 1 else costs.decide(to_probabilities(logits))
        return float(costs.mean(self.rows.y[seen], decided, sample_weight=self.rows.weights(seen)))

    def _leaderboard(self, number: int, stack: Stack, seen: NDArray[np.int64]) -> pd.DataFrame:
        """Return cost, weight and training time of each base estimator; at the end those that failed, and why."""
        labels, weight = self.rows.y[seen], self.rows.weights(seen)
        names = list(self.done)
        columns = np.stack([self.done[name][number].held_out[seen] for name in names], axis=1)
        table: list[dict[str, Any]] = []
        for place, name in enumerate(names):
            others = [other for other in names if other != name]
            without = math.nan
            if others:
                without = self._cost(number, *self._stack(number, others, stack.strength or QUICK)[1:])
            table.append({
                "estimator": name, "cost": self._cost(number, columns[:, place], seen),
                "log_loss": float(np.average(losses_of(columns[:, place], labels), weights=weight)),
                "weight": float(stack.weights[place]), "without": without,
                "seconds": self.done[name][number].seconds, "left_out": "",
            })  # fmt: skip
        table.sort(key=lambda row: row["log_loss"])
        table += [{"estimator": name, "left_out": why} for name, why in self.failed.items()]
        return pd.DataFrame(table)


def _choose(
    learner: EnsembleSettings,
    images: bool = False,
    n_classes: int = 2,
    *,
    row_costs: bool = False,
    timed: bool = False,
) -> dict[str, CostSensitiveClassifier | ImportError]:
    from adacsl.ensemble.base_estimators import choose_estimators  # noqa: PLC0415  it imports the learners

    return choose_estimators(
        learner.estimators, images=images, neural=learner.neural, n_classes=n_classes, row_costs=row_costs, timed=timed
    )


class _Progress:
    """Progress of an ensemble: one updated line in a terminal, elsewhere a line per base estimator."""

    def __init__(self, total: int, time_limit: float, start: float, *, shown: bool) -> None:
        self.total, self.time_limit, self.start, self.shown = total, time_limit, start, shown
        self.running: dict[int, Iterable[Any]] = {}
        self.last: tuple[int, Sequence[dict[str, float]]] = (0, ())
        self.live = sys.stderr.isatty()

    @property
    def beat(self) -> float:
        """Seconds after which a terminal shows the time again."""
        return 1.0 if self.shown and self.live else math.inf

    def follow(self, update: Update, tasks: Sequence[Iterable[Any]]) -> None:
        """Note what is running, and show it in a terminal."""
        if update.kind == "started":
            self.running[update.number] = tasks[update.number]
        elif update.kind != "idle":
            self.running.pop(update.number, None)
        if self.live and update.kind in ("started", "idle"):
            self.show(*self.last)

    def show(self, done: int, history: Sequence[dict[str, float]]) -> None:
        """Write how many base estimators are done, the cost of the stack so far, the time, and what is running."""
        self.last = done, history
        if not self.shown:
            return
        spent = time.monotonic() - self.start
        clock = f"{spent:.0f} s" if math.isinf(self.time_limit) else f"{max(0.0, self.time_limit - spent):.0f} s left"
        cost = f", out-of-fold cost {history[-1]['val_cost']:.4g}" if history else ""
        names = sorted({name if isinstance(name, str) else name[0] for task in self.running.values() for name in task})
        running = f", running: {', '.join(names)}" if names else ""
        line = f"ensemble: {done} of {self.total} base estimators{cost}, {clock}{running}"
        if self.live:
            line = line[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r\x1b[2K{line}" if self.live else f"{line}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Leave the last line standing."""
        if self.shown and self.live:
            sys.stderr.write("\n")


class EnsembleClassifier(CostSensitiveClassifier):
    """Stacked ensemble: boosters, neural networks and a linear model, cross-fitted and combined by logistic regression.

    Every base estimator is trained on the same folds. A logistic regression of their out-of-fold log-odds weights them,
    and its probabilities are decided at the Bayes threshold of the costs, each sample's own where costs differ between
    samples. More than two classes share the weights, each class has an intercept, and the decision is the class of
    least expected cost. The epochs or rounds of base estimators are selected by **log loss**, their weights minimise
    the mean of log loss and cost-weighted log loss, and decisions minimise **cost**: selecting by cost overfits.

    Parameters
    ----------
    costs : CostMatrix, optional
        Costs of the errors, of two classes or K x K. A matrix without class names is in the order of the sorted labels.
        Costs may depend on columns of X, ``CostMatrix(fp=1, fn="0.8 * amount")``; arrays with a cost for each sample
        (two classes) are given to :meth:`fit` and :meth:`predict`. Default: the inverse class frequencies of the
        training labels (``CostMatrix.balanced(y)``).
    estimators : "auto" or list, default "auto"
        The base estimators: names (``adacsl.ensemble.base_estimators.BASE_ESTIMATORS``, or of the table of methods),
        any :class:`CostSensitiveClassifier`, any scikit-learn classifier, or pairs of a name and one of these. "auto":
        all that are installed, quickest first; more of them only where ``time_limit`` leaves room. A base estimator
        that fails is left out, with a warning.
    cv : int, splitter or None, default 5
        The folds; a class with fewer samples gets fewer. None: one split, of which ``validation`` is held out.
    time_limit : float or str, optional
        Seconds, or a text such as "60s" or "5min". The next base estimator is the one with the largest expected gain of
        the stack's out-of-fold log loss per second, and starts only if it is expected to end in time.
    strength : float or "auto", default "auto"
        Inverse strength of the penalty on unequal weights; "auto" is chosen by inner folds.
    neural : NeuralLearner, optional
        Settings of the neural networks among the base estimators, such as ``NeuralLearner(epochs=30, weights=...)`` for
        images.
    n_jobs : int or "auto", default "auto"
        Processes that fit base estimators; each has its share of the cores. "auto": one per core; for few samples, and
        for images, this process alone.
    backend : {"processes", "ray"}, default "processes"
        Where base estimators are fitted: in processes of this machine, or as tasks of a Ray cluster, one per fold where
        folds are independent. The result is the same.
    address : str, optional
        Address of the Ray cluster, ``"host:port"`` or ``"auto"``. Default: a local one for this fit.
    gpus : float, default 0.0
        GPUs that each task asks Ray for.
    decide : str, default "bayes"
        How the probabilities of the stack become decisions, see :class:`~adacsl.Decision`.
    validation : float or (X, y), default 0.2
        The samples held out without ``cv``: a share, or separate data.
    pos_label : label, optional
        The positive class. 0/1, -1/1 and False/True need none; text labels need one; of other numbers the greater one
        is used, with a warning.
    device : {"auto", "cpu", "cuda", "cuda:1", "mps"}, default "auto"
        Where neural networks train and predict; an absent GPU falls back to the CPU with a warning.
    resume : path, optional
        Folder in which finished base estimators are saved: an interrupted ``fit`` continues when it is started again
        with the same data and settings.
    random_state : int, RandomState or None, default None
        Seed of everything random; ``resume`` needs an integer.
    verbose : bool, default False
        Show the progress and the current cost.
    policy : Policy, optional
        Reject option, other actions, a capacity or other class priors, used by :meth:`predict` and :meth:`decisions`.
        Training and ``estimated_cost_`` are about the classes.
    constraints : dict, optional
        ``min_recall``, ``min_precision``, ``max_fpr`` and ``max_positive_rate`` of the decisions on new data, two
        classes: ``{"min_recall": 0.9, "confidence": 0.95}``, see :class:`~adacsl.Decision`. With a confidence
        (default 0.95) the samples must be independent: no ``sample_weight``, no ``groups``. ``"confidence": None``
        applies the constraints to out-of-fold scores, without a guarantee. ``"segments": "region"``: recall within
        each value of that column. Not with a policy.
    certify : float, default 0.2
        Share of the samples that certify the constraints and train, select and calibrate nothing; with times the
        latest. A frozen estimator as ``learner`` certifies on all samples, unless ``decide="calibrated"``.

    Attributes
    ----------
    leaderboard_ : pandas.DataFrame
        One row per ``estimator``: its held-out ``cost`` and ``log_loss``, its ``weight`` in the stack, the cost of the
        stack ``without`` it, and the ``seconds`` of training; at the end those that failed or were not started, and why
        (``left_out``).
    estimators_ : dict
        The fitted models by name; each gives ``logits(X)``.
    classes_ : array of shape (K,)
        The labels, sorted.
    pos_label_ : label or None
        The positive class; None with more than two classes.
    costs_ : CostMatrix
        The class-wide costs trained with: means, where samples have costs of their own.
    cost_spec_ : CostMatrix or None
        The cost specification, where costs depend on columns: :meth:`predict` evaluates it on its samples.
    sample_costs_ : tuple of str
        Which of ``fp``, ``fn``, ``tp`` and ``tn`` were arrays with a cost for each sample: :meth:`predict` needs them
        of the samples it is given.
    decision_ : Decision
        From scores to probabilities and decisions.
    target_threshold_ : float
        T', the threshold that scores were trained for.
    threshold_ : float
        The decision threshold: scores above it are positive; of two classes only.
    adapted_ : bool
        False: a stack has no controller.
    target_costs_ : dict
        The held-out cost of every T' tried, and of ``"plain"``, which did not adapt; with ``cv`` of single models.
    history_ : pandas.DataFrame
        One row per epoch or round, and fold: its ``target_threshold``, whether it ``adapted``, ``lambda`` and
        ``weight`` it was trained with; ``threshold`` (the cost-optimal one, T_actual) and ``val_cost`` that were
        measured after it.
    oof_scores_ : array of shape (n,)
        Scores of the samples by models that did not train on them, in the epoch or round that *other* held-out samples
        chose (``select="best"``); NaN for samples that only trained. Validation samples given apart follow behind the n
        samples.
    reference_scores_ : array of shape (m,)
        Scores of held-out samples (of at most 20,000) in the epoch or round that was kept: the reference of drift
        tests.
    estimated_cost_ : Interval
        Mean cost of the stack on samples that neither the base estimators nor the stack were fitted on; it is about the
        models of single folds. The 95 % interval is an eighth wider than a bootstrap of the samples, to account for the
        variance due to training samples.
    saving_ : Interval
        Paired saving per sample against the cheaper constant baseline.
    calibration_error_ : float
        Expected calibration error (15 quantile bins) of the held-out probabilities; with more than two classes of the
        likeliest class's.
    model_ : object
        What was fitted; gives ``logits(X)``.
    times_ : str
        Where samples had a time: until when they trained, and from when to when they adapted; else "".
    left_out_ : tuple of str
        Columns of the training table excluded from the features (the time); ``predict`` takes tables with and without
        them.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : array of shape (n_features_in_,)
        The names of the features, where they have names.

    Raises
    ------
    ValueError
        Where settings make no sense together, or X, y and costs do not fit to each other.

    See Also
    --------
    CostSensitiveClassifier : One learner instead of many.
    adacsl.ensemble.base_estimators.BASE_ESTIMATORS : The default base estimators.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from adacsl import CostMatrix, EnsembleClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> costs, estimators = CostMatrix(fp=1, fn=8), ["logistic", ("bayes", GaussianNB())]
    >>> model = EnsembleClassifier(costs, estimators=estimators, n_jobs=1, random_state=0)
    >>> model.fit(X, 1 - y).predict(X[:3]).tolist()
    [1, 1, 1]
    """

    loss = "plain"
    resample = None
    controller = None
    target_threshold = 0.5
    select = "best"

    @keeps_settings
    def __init__(  # noqa: PLR0913  settings by name
        self,
        costs: CostMatrix | None = None,
        *,
        estimators: Any = "auto",
        cv: Any = 5,
        time_limit: float | str | None = None,
        strength: float | str = "auto",
        neural: Any = None,
        n_jobs: int | str = "auto",
        backend: str = "processes",
        address: str | None = None,
        gpus: float = 0.0,
        decide: str = "bayes",
        validation: Any = 0.2,
        pos_label: Any = None,
        device: str = "auto",
        resume: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        policy: Policy | None = None,
        constraints: dict[str, float | None] | None = None,
        certify: float = 0.2,
    ) -> None:
        """Keep the settings."""

    def make_learner(self) -> Any:
        """Return the settings of the ensemble."""
        return EnsembleSettings(
            self.estimators, time_limit=self.time_limit, strength=self.strength, neural=_checked(self.neural),
            n_jobs=self.n_jobs, backend=self.backend, address=self.address, gpus=self.gpus,
        )  # fmt: skip

    @property
    def learner(self) -> Any:
        """The settings of the ensemble, under the name that every method has for what is trained."""
        return self.make_learner()

    @property
    def estimators_(self) -> dict[str, Any]:
        """The fitted models by name."""
        return dict(zip(self.model_.names, self.model_.models, strict=True))


def _checked(neural: Any) -> Any:
    if neural is None:
        return None
    with requires("train"):
        from adacsl.neural.learner import check_neural  # noqa: PLC0415  torch

    return check_neural(neural)
