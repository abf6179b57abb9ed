"""Comparison of methods on every data set, cost ratio and split."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adacsl.base.arrays import number_or_nan, refuse_reordered
from adacsl.base.extras import resolve
from adacsl.comparison.baseline import baseline_facts, baseline_results, refuse_baseline_name
from adacsl.comparison.first_look import is_large, take_first_look
from adacsl.comparison.fits import FitKey, scale_fn
from adacsl.comparison.jobs import costs_of_split, plan_jobs, run_jobs, scheduled
from adacsl.comparison.memory_store import MemoryStore
from adacsl.comparison.model_card import with_checks
from adacsl.comparison.progress import Progress
from adacsl.comparison.protocol import Protocol, choose_ratios, mean_ratio, usual_splits
from adacsl.comparison.racing import FEWEST, Race, in_racing_order
from adacsl.comparison.recommendation import TOLERANCE, Prefer, check_preference, check_tolerance
from adacsl.comparison.result import Comparison, NoResultError
from adacsl.comparison.store import ResultStore, Store, StoredRun, StoredSplit, failures_frame, results_frame
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.checks import check_task
from adacsl.datasets.findings import Checks, CheckWarning, known_codes
from adacsl.datasets.overview import overview
from adacsl.datasets.segments import cut
from adacsl.datasets.task import Task
from adacsl.datasets.time import date_columns
from adacsl.estimators.certification import column_of
from adacsl.estimators.registry import choose_methods, is_ensemble, needs_network
from adacsl.execution.threads import cores
from adacsl.integrations.sklearn import row_costs
from adacsl.neural.learner import NeuralLearner
from adacsl.thresholds.constraints import Constraints, InfeasibleError

RUNNING = ("backend", "n_jobs", "address", "gpus")
"""How jobs are run."""


def compare(  # noqa: PLR0913  costs by name, as fit has them
    X: Any,  # noqa: N803  scikit-learn's name
    y: Any,
    costs: CostMatrix | None = None,
    *,
    pos_label: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    time: Any = None,
    baseline: Any = None,
    segments: Any = None,
    methods: Any = None,
    ratios: Sequence[float | str] | None = None,
    repeats: int | None = None,
    folds: int | None = None,
    name: str = "data",
    fp: Any = None,
    fn: Any = None,
    tp: Any = None,
    tn: Any = None,
    **options: Any,
) -> Comparison:
    """Compare methods by cross-validated cost and recommend one.

    Parameters
    ----------
    X : table, or uint8 images N x H x W x C
        pandas, polars, pyarrow or numpy, with text, dates and missing values.
    y : array of shape (n,)
        Labels.
    costs : CostMatrix or mapping of fp, fn, tp and tn, optional
        Class-wide, per sample, over columns of X (``fn="0.8 * amount"``) or ranges (``fn=(5, 20)``). Default: inverse
        class frequencies. More than two classes need a matrix of as many, or "balanced".
    pos_label : label, optional
        The positive class, whose errors cost ``fn``; not needed for 0/1, -1/1 and False/True. For two classes.
    groups : array of shape (n,), optional
        Samples of one group are never split across folds.
    sample_weight : array of shape (n,), optional
        Weight of each sample in training.
    time : array of shape (n,) or str, optional
        Observation times (dates, ISO text or numbers), or the column of X that holds them, which is excluded from the
        features. Then nothing is shuffled: the past trains, later samples adapt and select, the latest are tested on,
        and ``folds`` are test windows, one after another. ``gap`` and ``label_delay``: see
        :func:`~adacsl.comparison.compare_tasks`.
    baseline : array of shape (n,) or str, optional
        Current decision for each sample: labels as in y, 0 and 1, or scores from 0 to 1 (threshold 0.5); or the column
        of X that holds them, which is then excluded from the features. Shown as the method ``baseline``; the saving is
        measured against it. Default: the better of threshold 0.5 and the best constant baseline.
    segments : str, sequence of str, or mapping from str to array of shape (n,), optional
        Columns of X by which costs are also shown (:meth:`~adacsl.Comparison.by_segment`, and the report), such as a
        region; they stay features. Or values of each sample by name. Numbers are cut into five parts.
    methods : names, (name, classifier) pairs or mapping, optional
        Built-in methods by name, or classifiers of yours. Default: a few of :data:`adacsl.METHODS` that suit the data;
        "all": all that do. Both words can be combined with others: ``["default", ("mine", RandomForestClassifier())]``.
    ratios : sequence of numbers or strings like "3x", optional
        Further cost ratios fn : fp to compare at, for two classes. Default: the costs as they are.
    repeats : int, optional
        Repeats of the cross-validation: every sample is tested once in each. More repeats make intervals narrower. With
        a time there is one. Default: 2; 1 from 20,000 samples.
    folds : int, optional
        Folds of the cross-validation. Groups and duplicates stay in one fold. With a time, the number of test windows.
        Default: 5; 3 from 50,000 samples.
    name : str, default "data"
        Name of the data in tables and the report.
    fp : float, array of shape (n,) or str, optional
        Per-sample cost of a false positive, as in :meth:`CostSensitiveClassifier.fit`. Default: that of ``costs``.
    fn : float, array of shape (n,) or str, optional
        Per-sample cost of a false negative.
    tp : float, array of shape (n,) or str, optional
        Per-sample cost of a true positive.
    tn : float, array of shape (n,) or str, optional
        Per-sample cost of a true negative.
    **options : Any
        Parameters of :func:`~adacsl.comparison.compare_tasks`: ``folder``, ``backend``, ``n_jobs``, ``device``,
        ``neural``, ``racing``, ``progress``, ...

    Returns
    -------
    Comparison
        Table, recommendation, figures and report; ``fit`` fits the recommended method.

    Raises
    ------
    ValueError
        Where data, costs and settings do not fit together.

    See Also
    --------
    Comparison : The result.
    adacsl.comparison.compare_tasks : Several data sets in one run.
    adacsl.load_comparison : A result from its folder.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, compare
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> methods = ["always-positive", "logistic"]
    >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
    ...                  folds=2, n_jobs=1, progress=False)
    >>> print(result.best)
    logistic
    >>> result.table[["method", "mean"]].round(2).values.tolist()
    [['logistic', 0.14], ['always-positive', 0.78]]
    """
    given = {name: cost for name, cost in (("fp", fp), ("fn", fn), ("tp", tp), ("tn", tn)) if cost is not None}
    refuse_reordered(X, **given)
    if isinstance(costs, Mapping):
        costs, given = {**costs, **given}, {}
    costs = row_costs(given, costs) if given else costs
    task = Task.from_data(
        X, y, costs, pos_label=pos_label, groups=groups, sample_weight=sample_weight, time=time, baseline=baseline,
        segments=segments, name=name,
    )  # fmt: skip
    return compare_tasks(task, methods=methods, ratios=ratios, repeats=repeats, folds=folds, **options)


def compare_tasks(  # noqa: PLR0913  options by name
    tasks: Task | Sequence[Task],
    *,
    methods: Any = None,
    ratios: Sequence[float | str] | None = None,
    repeats: int | None = None,
    folds: int | None = None,
    neural: NeuralLearner | None = None,
    device: str = "auto",
    test: float | None = None,
    validation: float = 0.15,
    gap: Any = None,
    label_delay: Any = None,
    tolerance: float = TOLERANCE,
    prefer: Prefer = "cost",
    folder: str | Path | None = None,
    ignore: Sequence[str] = (),
    progress: bool = True,
    constraints: Mapping[str, float | None] | None = None,
    certify: float = 0.2,
    racing: bool | Literal["auto"] = "auto",
    **running: Any,
) -> Comparison:
    """Compare methods on several data sets, cost ratios and splits.

    Parameters
    ----------
    tasks : Task or sequence of Task
        Data with labels, groups and costs.
    methods : names, (name, classifier) pairs or mapping, optional
        Built-in methods by name, or classifiers of yours. Default: a few of :data:`adacsl.METHODS` that suit the data;
        "all": all that do. Both words can be combined with others: ``["default", ("mine", RandomForestClassifier())]``.
    ratios : sequence of numbers or strings like "3x", optional
        Further cost ratios fn : fp to compare at, for two classes. Default: the costs as they are.
    repeats : int, optional
        Repeats of the cross-validation: every sample is tested once in each. More repeats make intervals narrower. With
        a time there is one. Default: 2; 1 from 20,000 samples.
    folds : int, optional
        Folds of the cross-validation. Groups and duplicates stay in one fold. With a time, the number of test windows.
        Default: 5; 3 from 50,000 samples.
    neural : NeuralLearner, optional
        Settings of the neural networks of the built-in methods: ``NeuralLearner(epochs=30, views=4)``.
    device : str, default "auto"
        Device on which neural networks train.
    test : float, optional
        For tasks with a time: the share of samples in all test windows together. Default: 0.20.
    validation : float, default 0.15
        The share of all samples for adaptation and selection.
    gap : float or str, optional
        For tasks with a time: training samples within this duration before a split are excluded. A number in the unit
        of the times, or "12h", "7d", "2w", "3mo".
    label_delay : float or str, optional
        For tasks with a time: the duration after which the label of a sample is known. Samples whose label was not
        known at a split are excluded from training and adaptation.
    tolerance : float, default 0.1
        The share of the lowest cost that a method which is recommended because it is simpler may cost more.
    prefer : {"cost", "simple"}, default "cost"
        "cost": a simpler method is recommended only where its cost does not differ significantly from the lowest.
        "simple": the simplest method within the tolerance, even where it costs significantly more.
    folder : path, optional
        Folder in which every result is kept as soon as it is finished; an interrupted run resumes when started again.
        Default: in memory only.
    ignore : sequence of str, default ()
        Codes of data checks to leave out of :attr:`~adacsl.Comparison.checks` and the report, see
        :doc:`/guide/diagnose/checks`.
    progress : bool, default True
        Show a progress bar with the lowest-cost method so far.
    constraints : mapping, optional
        Methods are compared at decisions that meet these constraints, two classes: ``{"min_recall": 0.9}``, see
        :class:`~adacsl.Decision`. A method without a feasible threshold in some fold is not compared.
    certify : float, default 0.2
        The share of the training samples that certifies the constraints and trains nothing.
    racing : bool or "auto", default "auto"
        Whether methods that cost significantly more after two or more folds are not run on the others. Their rows stay
        in the table and rest on fewer folds, see :attr:`~adacsl.Comparison.stopped`. "auto": on tables of at least
        20,000 samples, with four or more folds in all.
    **running : Any
        ``backend``: "processes", processes on this machine (default), or "ray", a cluster; ``n_jobs``: the number of
        jobs at once, default one per core (those that train on a GPU share it); ``address`` of the Ray cluster;
        ``gpus`` of each job on Ray.

    Returns
    -------
    Comparison
        The results of all tasks.

    Raises
    ------
    ValueError
        Where tasks, methods and settings do not fit together.

    See Also
    --------
    adacsl.compare : One data set from arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, Task
    >>> from adacsl.comparison import compare_tasks
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y, costs = (X.sum(axis=1) > 1).astype(int), CostMatrix(fp=1, fn=8)
    >>> tasks = [Task.from_data(X, y, costs, name=name) for name in ("one", "two")]
    >>> compare_tasks(tasks, methods=["logistic"], repeats=1, folds=2, n_jobs=1,
    ...               progress=False)
    Comparison(one, two: 1 methods, 4 results)
    """
    if unknown := [name for name in running if name not in RUNNING]:
        raise TypeError(f"compare has no parameter {unknown[0]!r}; options of the execution are {', '.join(RUNNING)}")
    check_tolerance(tolerance)
    check_preference(prefer)
    _check_racing(racing)
    tasks = [tasks] if isinstance(tasks, Task) else list(tasks)
    _check_names(tasks)
    chosen = {
        task.name: choose_methods(
            methods, images=task.images, n_classes=task.costs.n_classes, row_costs=task.costs.n_instances is not None
        )
        for task in tasks
    }
    refuse_baseline_name(tasks, chosen)
    at = {task.name: choose_ratios(task.costs, ratios) for task in tasks}
    usual = usual_splits(max(len(task.y) for task in tasks))
    repeats, folds = (own if given is None else given for given, own in zip((repeats, folds), usual, strict=True))
    conditions = _conditions(tasks, repeats, folds, test, validation, neural, device, gap, label_delay)
    if limits := _checked_constraints(constraints, certify, tasks):
        conditions = replace(conditions, constraints=limits, certify=float(certify))
    every = {name: method for some in chosen.values() for name, method in some.items()}
    jobs = plan_jobs(tasks, chosen, at, range(repeats * folds), conditions)
    planned = frozenset(fit for job in jobs for fit in job.fits)
    own = set(planned)
    seeds = {task.name: conditions.numbers(task, repeats) for task in tasks}
    races = {task.name for task in tasks if _races(task, len(seeds[task.name]), racing)}
    jobs = scheduled(jobs, {task.name: len(task.y) for task in tasks}, functools.partial(_stage, seeds, races))
    for task in tasks:
        if task.time is None:  # test windows are checked with their dates
            conditions.split(task, 0)  # raises where there are too few samples, before a folder is made
    with contextlib.ExitStack() as opened, Progress(len(planned), quiet=not progress, fits=planned) as bar:
        opened.enter_context(_workers_ahead(tasks, len(jobs), every, **running))
        for task in tasks:
            bar.say(f"{_size(task, chosen[task.name], conditions, repeats)}; checking and splitting the data")
        checks = {task.name: check_task(task, ignore) for task in tasks}
        _warn_of_errors(checks)
        identity = _identity(tasks, conditions, checks, warned="time-ignored" not in known_codes(ignore))
        store: ResultStore = MemoryStore(identity)
        if folder is not None:
            store = opened.enter_context(Store.open(folder, identity))
        for task in tasks:
            store.write_segments(task.name, {column: cut(values) for column, values in task.segments.items()})
            own |= _write_splits(store, task, conditions, repeats, at[task.name])
        store.write_plan(planned)
        by_name = {task.name: _parsed(task) for task in tasks}
        take_first_look(store, by_name, chosen, at, conditions, planned, bar, running)
        race = Race(store, [fit for fit in planned if fit.data in races], _ratio_costs(by_name), planned)
        run_jobs(jobs, store, by_name, on_event=bar, race=race, **running)
        store.write_plan(planned, race.stopped)
        stored = store.load().only(own)
    stopped = tuple(race.stopped)
    expected = frozenset(fit for fit in planned if not any(each.excludes(fit) for each in stopped))
    result = _comparison(
        stored._replace(planned=expected, stopped=stopped), None if folder is None else Path(folder)
    )  # fmt: skip
    facts = with_checks(result.facts, checks)  # the folder holds those of its first run
    return replace(result, facts=facts, methods=every, neural=conditions.neural, tolerance=tolerance, prefer=prefer)


def _workers_ahead(
    tasks: Sequence[Task], jobs: int, methods: Mapping[str, Any], *, backend: str = "processes",
    n_jobs: int | None = None, **_: Any,
) -> contextlib.AbstractContextManager[None]:  # fmt: skip
    """Start worker processes, which import for seconds, while large data are checked and split."""
    if not any(map(is_large, tasks)) or backend != "processes" or (n_jobs is not None and n_jobs < 2):
        return contextlib.nullcontext()
    networks = any(needs_network(made) or is_ensemble(made) for made in methods.values())
    modules = ("adacsl.comparison.jobs", *(("adacsl.neural.loop",) if networks else ()))
    start: Callable[..., contextlib.AbstractContextManager[None]] = resolve("adacsl.execution.processes:started_ahead")
    return start(min(jobs, n_jobs or cores()), modules)


def _parsed(task: Task) -> Task:
    """Return a task whose text is parsed, once, before workers are sent the task."""
    if task.parsed is not None:
        task.parsed.parse()
    return task


def _check_racing(racing: object) -> None:
    if not (isinstance(racing, bool) or racing == "auto"):
        raise ValueError(f'racing must be True, False or "auto", got {racing!r}')


def _races(task: Task, splits: int, racing: bool | str) -> bool:
    """Return whether methods race on a task; by default on large tables."""
    return racing is True or (racing == "auto" and is_large(task) and splits >= FEWEST)


def _stage(seeds: Mapping[str, Sequence[int]], races: Collection[str], fit: FitKey) -> int:
    """Return the stage of a run that a fit belongs to: all methods on the first split, then the others.

    Where methods race, fits that a look needs come before those that it may make needless.
    """
    return in_racing_order(seeds, fit.data, fit.seed) if fit.data in races else int(fit.seed > 0)


def _ratio_costs(tasks: Mapping[str, Task]) -> Callable[[str, float, CostMatrix], CostMatrix]:
    """Return a function that scales the costs of a split to a ratio."""
    own = {name: mean_ratio(task.costs) for name, task in tasks.items()}
    return lambda data, ratio, costs: scale_fn(costs, ratio / own[data])


def _checked_constraints(given: Any, share: Any, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the constraints of a comparison as plain values; empty without any."""
    limits = Constraints.of(given)
    if limits is None:
        return {}
    if not 0.0 < number_or_nan(share) < 1.0:
        raise ValueError(f"certify must be a share of the samples between 0 and 1, got {share!r}")
    for task in tasks:
        if task.costs.n_classes > 2:
            raise ValueError(f"constraints are for two classes, {task.name} has {task.costs.n_classes}")
        if limits.segments is not None:
            column_of(task.X, limits.segments)  # raises where there is none
        for name, values in (("groups", task.groups), ("sample_weight", task.sample_weight)):
            if values is not None and limits.confidence is not None:
                raise ValueError(
                    f"constraints with confidence need independent samples that count alike: leave out {name} of "
                    f'{task.name}, or set "confidence": None'
                )
    return limits.to_dict()


def _size(task: Task, methods: Collection[str], conditions: Protocol, repeats: int) -> str:
    """Return a description of what is compared on a data set."""
    folds = len(conditions.numbers(task, repeats))
    return (
        f"{task.name}: {len(task.y):,} {'images' if task.images else 'samples'}, {len(methods)} methods, {folds} folds"
    )


def _warn_of_errors(checks: Mapping[str, Checks]) -> None:
    for name, result in checks.items():
        for each in result:
            if each.severity == "error":
                text = f"{name}: {each.text} [{each.code}]; if the data are right, ignore=[{each.code!r}]"
                warnings.warn(text, CheckWarning, stacklevel=4)


def _conditions(
    tasks: Sequence[Task], repeats: int, folds: int, test: float | None, validation: float, neural: Any, device: str,
    gap: Any, label_delay: Any,
) -> Protocol:  # fmt: skip
    """Return the protocol of a comparison."""
    for name, number, least in (("repeats", repeats, 1), ("folds", folds, 2)):
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            raise ValueError(f"{name} must be a whole number from {least}, got {number!r}")
    timed = any(task.time is not None for task in tasks)
    if test is not None and not timed:
        raise ValueError("test is the share of the test windows of data with a time; others are tested by folds=...")
    share = 0.20 if test is None else test
    neural = NeuralLearner() if neural is None else neural
    return Protocol(share, validation, neural, device, folds if timed else 0, gap, label_delay, folds)


def _write_splits(
    store: ResultStore, task: Task, conditions: Protocol, repeats: int, ratios: Sequence[float]
) -> set[FitKey]:
    """Keep the test samples of every split and the results of the current decisions; return the fits of these."""
    units, written = conditions.together(task).units, set()
    for seed in conditions.numbers(task, repeats):
        rest, tested = conditions.split(task, seed)
        costs = costs_of_split(task, conditions.rows(task, rest), seed)
        store.write_split(task.name, seed, StoredSplit(tested, task.y[tested], costs.rows(tested), units[tested]))
        for result in baseline_results(task, ratios, seed, tested, costs):
            store.write(result)
            written.add(result.fit)
    return written


def load_comparison(folder: str | Path, *, tolerance: float = TOLERANCE, prefer: Prefer = "cost") -> Comparison:
    """Return a comparison from its folder, finished or not.

    Parameters
    ----------
    folder : path
        The folder given to :func:`~adacsl.compare`.
    tolerance : float, default 0.1
        The share of the lowest cost that a method which is recommended because it is simpler may cost more.
    prefer : {"cost", "simple"}, default "cost"
        "simple" recommends the simplest method within the tolerance even where it costs significantly more.

    Returns
    -------
    Comparison
        The results so far.

    Raises
    ------
    adacsl.comparison.store.StoreError
        Where the folder is no run folder, or is damaged.

    See Also
    --------
    adacsl.compare : Writes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tempfile
    >>> from adacsl import CostMatrix, compare, load_comparison
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y, costs = (X.sum(axis=1) > 1).astype(int), CostMatrix(fp=1, fn=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = compare(X, y, costs, methods=["logistic"], repeats=1, folds=2,
    ...                      n_jobs=1, progress=False, folder=folder)
    ...     load_comparison(folder)
    Comparison(data: 1 methods, 2 results)
    """
    check_tolerance(tolerance)
    check_preference(prefer)
    path = Path(folder)
    return replace(_comparison(Store.read_only(path).load(), path), tolerance=tolerance, prefer=prefer)


def _check_names(tasks: Sequence[Task]) -> None:
    names = [task.name for task in tasks]
    if not names:
        raise ValueError("there is no data to compare on")
    if len(set(names)) != len(names):
        raise ValueError(f"data sets must have different names, got {names}")


def _identity(
    tasks: Sequence[Task], protocol: Protocol, checks: Mapping[str, Checks], *, warned: bool
) -> dict[str, Any]:
    about = {
        task.name: {
            "digest": task.digest,
            "rows": len(task.y),
            **_counted(task),
            "classes": list(task.classes),
            "images": task.images,
            "groups": task.groups is not None,
            **task.reading.facts(),
            **_copies(task, protocol),
            "ratio": mean_ratio(task.costs),
            "costs": _describe_costs(task),
            **({"ranges": {name: list(ends) for name, ends in _ranges(task).items()}} if _ranges(task) else {}),
            "source": task.source,
            **({} if task.cost_spec is None or task.cost_spec.resolved else {"cost_spec": task.cost_spec.to_dict()}),
            **baseline_facts(task),
            **_times(task, protocol, warned=warned),
            "overview": overview(task),
        }
        for task in tasks
    }
    return with_checks({"data": about, "protocol": protocol.identity()}, checks)


def _times(task: Task, protocol: Protocol, *, warned: bool) -> dict[str, Any]:
    """Return the times of every test window; warn where data with dates are split at random."""
    if task.time is not None:
        return {"windows": protocol.describe_windows(task)}
    if warned and (dated := date_columns(task.X)):
        warnings.warn(
            f"column {dated[0]!r} of {task.name} contains dates, but folds are random. If it is the observation time, "
            f"pass --time-column {dated[0]} (time={dated[0]!r} in Python)",
            stacklevel=4,
        )
    return {}


def _copies(task: Task, protocol: Protocol) -> dict[str, int]:
    """Return the number of duplicates, and of those that do not stay in one fold."""
    result = protocol.together(task)
    return {name: n for name, n in (("copies", result.copies), ("copies_apart", result.apart)) if n}


def _counted(task: Task) -> dict[str, Any]:
    if task.costs.n_classes == 2:
        return {"positives": int(task.y.sum())}
    return {"counts": np.bincount(task.y, minlength=task.costs.n_classes).tolist()}


def _ranges(task: Task) -> dict[str, tuple[float, float]]:
    """Return the costs that were given as ranges."""
    return (task.cost_spec or task.costs).ranges


def _describe_costs(task: Task) -> str:
    costs = task.costs
    mean = costs.averaged()
    each = "" if costs.n_instances is None else " on average, with per-sample costs"
    if task.cost_spec is not None and task.cost_spec.learns:
        each += ", predicted for each sample"
    if costs.n_classes > 2:
        unit_costs = mean.reduced().to_array()
        unit_costs = unit_costs[~np.eye(len(unit_costs), dtype=bool)]
        return f"An error costs {unit_costs.min():.6g} to {unit_costs.max():.6g} by its kind{each}"
    ranges = {name: f" ({low:g} to {high:g})" for name, (low, high) in _ranges(task).items()}
    named = (
        ("a false negative costs", "fn"),
        ("a false positive", "fp"),
        ("a true positive", "tp"),
        ("a true negative", "tn"),
    )
    unit_costs = [
        f"{word} {getattr(mean, name):.6g}{ranges.get(name, '')}"
        for word, name in named
        if name in ("fn", "fp", *ranges) or getattr(mean, name)
    ]
    text = ", ".join(unit_costs)
    return f"{text[0].upper()}{text[1:]}{each}"


def _comparison(stored: StoredRun, folder: Path | None) -> Comparison:
    """Return the results of a run; a warning names the fits that failed."""
    infeasible = {fit[:3] for fit, failure in stored.failures.items() if failure.type == InfeasibleError.__name__}
    kept = {fit: result for fit, result in stored.results.items() if fit[:3] not in infeasible}
    stored = stored._replace(results=kept)
    results, failures = results_frame(stored.results.values()), failures_frame(stored.failures)
    if results.empty:
        if len(failures) and (failures["type"] == InfeasibleError.__name__).all():
            # what is attainable says more than which constraint a constant baseline violates
            why = max(failures["message"], key=lambda message: not message.startswith("predicting"))
            raise NoResultError(f"no method meets the constraints: {why}")
        first = f": {failures['message'].iloc[0]}" if len(failures) else ""
        raise NoResultError(f"every fit failed{first}")
    result = Comparison(
        results, failures, stored.identity, stored.results, stored.splits, folder, segments=stored.segments,
        planned=stored.planned, stopped=stored.stopped,
    )  # fmt: skip
    if failed := [str(each) for each in result.missing if each.failed]:
        warnings.warn(f"{'; '.join(failed)}: the table contains the other fits only", stacklevel=3)
    return result
