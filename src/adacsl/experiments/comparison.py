"""Compare methods under one protocol, and say which to take."""

from __future__ import annotations

import datetime
import functools
import html
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from adacsl.core.costs import CostMatrix
from adacsl.datasets.task import Task
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.deciding import mean_ratio, scale_misses
from adacsl.experiments.jobs import plan_jobs, run_work
from adacsl.experiments.parts import Parts
from adacsl.experiments.progress import Progress
from adacsl.experiments.protocol import Protocol, make_split
from adacsl.experiments.recipes import RECIPES, Recipe, choose_recipes
from adacsl.experiments.runner import run
from adacsl.experiments.statistics import Ranks, Verdict, overall, ranks, summarise, verdicts
from adacsl.experiments.store import Store, StoredSplit
from adacsl.extras import requires
from adacsl.report import frames
from adacsl.report.data import Outcome, ReportData

with requires("compare"):
    import pandas as pd

Ratio = float | str
"""A number of false alarms that one miss is worth, or a multiple of the data's own ratio, such as ``"3x"``."""


class NoResultError(RuntimeError):
    """Every cell of a comparison failed."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a comparison found: ``print(comparison.verdict)``, ``comparison.table``, ``comparison.report(path)``."""

    results: pd.DataFrame
    """One row per cell: data, ratio, method, seed, cost and what lies behind it."""
    failures: pd.DataFrame
    """One row per cell without a result, with its error."""
    facts: Mapping[str, Any]
    """What was compared: data sets and protocol."""
    cells: Mapping[Cell, CellResult] = field(repr=False)
    splits: Mapping[tuple[str, int], StoredSplit] = field(repr=False)
    folder: Path | None = None
    """Where the results lie, if they were to be kept."""
    titles: Mapping[str, str] = field(default_factory=dict, repr=False)

    # the answer

    @cached_property
    def table(self) -> pd.DataFrame:
        """Mean cost of each method with its interval and its difference to the cheapest, by data set and ratio."""
        return summarise(self.results)

    @cached_property
    def verdicts(self) -> dict[tuple[str, float], Verdict]:
        """The verdict for each data set and ratio."""
        return verdicts(self.table, simplest_first=self._simplest_first)

    @cached_property
    def ranks(self) -> Ranks:
        """Average ranks over the data sets, with the critical difference."""
        return ranks(self.results)

    @cached_property
    def overall(self) -> Verdict:
        """The verdict over all data sets."""
        return overall(self.ranks, simplest_first=self._simplest_first)

    @property
    def verdict(self) -> str:
        """The answer in plain words."""
        if len(self.verdicts) == 1:
            return str(next(iter(self.verdicts.values())))
        lines = [f"{data}, ratio {ratio:g}: {verdict}" for (data, ratio), verdict in self.verdicts.items()]
        if len({data for data, _ in self.verdicts}) > 1:
            lines.append(f"Over all data: {self.overall}")
        return "\n".join(lines)

    @property
    def best(self) -> str | None:
        """The method to take; over several data sets, the one that is recommended for all."""
        chosen = {verdict.recommended for verdict in self.verdicts.values()}
        return chosen.pop() if len(chosen) == 1 else self.overall.recommended

    @property
    def _simplest_first(self) -> list[str]:
        return list(dict.fromkeys([*RECIPES, *self.results["method"]]))

    # what is behind it

    def outcome(self, method: str, *, data: str | None = None, ratio: float | None = None) -> Outcome:
        """Return the test rows of a method with scores, decisions and prices, all seeds together."""
        data, ratio = self._view(data, ratio)
        mine = [cell for cell in sorted(self.cells) if (cell.data, cell.ratio, cell.method) == (data, ratio, method)]
        if not mine:
            raise ValueError(f"there is no result of {method!r} on {data!r} at ratio {ratio:g}")
        parts = [(self.cells[cell], self.splits[cell.data, cell.seed]) for cell in mine]
        prices = [scale_misses(split.costs, ratio / self._own_ratio(data)) for _, split in parts]
        sizes = [len(split.labels) for _, split in parts]
        thresholds = {result.threshold for result, _ in parts}
        return Outcome(
            scores=np.concatenate([result.scores for result, _ in parts]),
            labels=np.concatenate([split.labels for _, split in parts]),
            decisions=np.concatenate([result.decisions for result, _ in parts]),
            seeds=np.repeat([cell.seed for cell in mine], sizes),
            **{name: _joined([getattr(c, name) for c in prices], sizes) for name in ("fp", "fn", "tp", "tn")},
            threshold=thresholds.pop() if len(thresholds) == 1 else None,
        )

    def history(self, method: str, *, data: str | None = None, ratio: float | None = None) -> pd.DataFrame:
        """Return lambda, T_actual and costs by epoch, of all seeds."""
        data, ratio = self._view(data, ratio)
        rows = [
            {"seed": cell.seed} | step
            for cell, result in sorted(self.cells.items())
            if (cell.data, cell.ratio, cell.method) == (data, ratio, method)
            for step in result.history
        ]
        return pd.DataFrame(rows)

    def _view(self, data: str | None, ratio: float | None) -> tuple[str, float]:
        views = [v for v in self.verdicts if data in (None, v[0]) and (ratio is None or np.isclose(ratio, v[1]))]
        if not views:
            raise ValueError(f"nothing was compared on {data!r} at ratio {ratio}; there is: {list(self.verdicts)}")
        return next((v for v in views if np.isclose(v[1], self._own_ratio(v[0]), rtol=1e-5)), views[0])

    def _own_ratio(self, data: str) -> float:
        return float(self.facts["data"][data]["ratio"])

    # pictures

    def plot_costs(self, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Draw each method's cost with its interval, cheapest first."""
        from adacsl.report import figures  # noqa: PLC0415  plotly only for those who look

        view = self._view(data, ratio)
        return figures.cost_figure(_summary_for_report(self._block(view)), recommended=self._recommended(view))

    def plot_ratios(self, *, data: str | None = None) -> Any:
        """Draw the normalised cost of each method against the cost ratio."""
        from adacsl.report import figures  # noqa: PLC0415  plotly only for those who look

        name = self._view(data, None)[0]
        own = self.results[self.results["data"] == name]
        return figures.ratio_figure(frames.ratio_table(own))

    def plot_threshold(self, method: str | None = None, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Draw the cost of every threshold, the chosen and the cheapest one."""
        from adacsl.report import figures  # noqa: PLC0415  plotly only for those who look

        outcome = self.outcome(self._named(method, data, ratio), data=data, ratio=ratio)
        return figures.threshold_figure(frames.threshold_curve(outcome), frames.threshold_points(outcome))

    def plot_lambda(self, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Draw lambda and T_actual by epoch for the methods that adapt (the paper's Figure 1a)."""
        from adacsl.report import figures  # noqa: PLC0415  plotly only for those who look

        return figures.lambda_figure(frames.epoch_table(self._histories(self._view(data, ratio))))

    def plot_history(self, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Draw training and validation cost by epoch (the paper's Figure 1b)."""
        from adacsl.report import figures  # noqa: PLC0415  plotly only for those who look

        return figures.history_figure(frames.epoch_table(self._histories(self._view(data, ratio))))

    def plot_calibration(self, *methods: str, data: str | None = None, ratio: float | None = None) -> Any:
        """Draw how often what was predicted came true."""
        from adacsl.report import figures  # noqa: PLC0415  plotly only for those who look

        return figures.calibration_figure(frames.calibration_table(self._outcomes(methods, data, ratio)))

    def plot_ranks(self) -> Any:
        """Draw average ranks over the data sets with the critical difference."""
        from adacsl.report import figures  # noqa: PLC0415  plotly only for those who look

        table = self._rank_table()
        if table is None:
            raise ValueError(f"there are no ranks to draw: {self.ranks.reason or 'one data set only'}")
        return figures.rank_figure(table)

    def _named(self, method: str | None, data: str | None, ratio: float | None) -> str:
        return method or self._recommended(self._view(data, ratio))

    def _recommended(self, view: tuple[str, float]) -> str:
        verdict = self.verdicts[view]
        return str(verdict.recommended or verdict.cheapest)

    def _block(self, view: tuple[str, float]) -> pd.DataFrame:
        return self.table[(self.table["data"] == view[0]) & (self.table["ratio"] == view[1])]

    def _outcomes(self, methods: Sequence[str], data: str | None, ratio: float | None) -> dict[str, Outcome]:
        view = self._view(data, ratio)
        names = methods or [self._recommended(view)]
        return {name: self.outcome(name, data=view[0], ratio=view[1]) for name in names}

    def _histories(self, view: tuple[str, float]) -> dict[tuple[str, int], list[dict[str, Any]]]:
        return {
            (cell.method, cell.seed): result.history
            for cell, result in sorted(self.cells.items())
            if (cell.data, cell.ratio) == view and result.history
        }

    def _rank_table(self) -> pd.DataFrame | None:
        if self.results["data"].nunique() < 2:
            return None
        table = self.ranks.table.rename(columns={"average_rank": "rank"})
        return table.assign(critical_difference=self.ranks.critical_difference)

    # to show

    def report(self, path: str | Path, *, command: str = "") -> Path:
        """Write one HTML page that opens anywhere, offline; return its path.

        ``command`` is shown as what made it.
        """
        from adacsl.report.page import write_report  # noqa: PLC0415  plotly only for those who look

        return write_report(self.report_data(command=command), path)

    def report_data(self, *, command: str = "") -> ReportData:
        """Return everything the page shows."""
        views = list(self.verdicts)
        outcomes = {
            (*view, method): self.outcome(method, data=view[0], ratio=view[1])
            for view in views
            for method in self._block(view)["method"]
        }
        names = [data for data, _ in views]
        classes = {tuple(self.facts["data"][name]["classes"]) for name in names}
        return ReportData(
            title=f"Which method is cheapest on {', '.join(dict.fromkeys(names))}?",
            verdicts={view: str(verdict) for view, verdict in self.verdicts.items()},
            facts=self._facts_in_words() | ({"command": command} if command else {}),
            results=self.results,
            summary=_summary_for_report(self.table),
            ranks=self._rank_table(),
            outcomes=outcomes,
            histories={
                (cell.data, cell.ratio, cell.method, cell.seed): result.history
                for cell, result in self.cells.items()
                if result.history
            },
            classes=classes.pop() if len(classes) == 1 else ("negative", "positive"),
            recommended={view: self._recommended(view) for view in views},
            overall=str(self.overall) if len(set(names)) > 1 else "",
            titles={name: method.title for name, method in RECIPES.items()} | dict(self.titles),
        )

    def _facts_in_words(self) -> dict[str, str]:
        facts = {}
        for name, about in self.facts["data"].items():
            kind = "images" if about["images"] else "rows"
            grouped = ", split by group" if about["groups"] else ""
            facts[f"data: {name}"] = (
                f"{about['rows']:,} {kind}, {about['positives']:,} of them {about['classes'][1]!r}{grouped}. "
                f"{about['costs']}. {about['source']}".strip()
            )
        protocol = self.facts["protocol"]
        train = 1.0 - protocol["test"] - protocol["validation"]
        seeds = sorted(self.results["seed"].unique().tolist())
        facts["protocol"] = (
            f"{train:.0%} training, {protocol['validation']:.0%} validation, {protocol['test']:.0%} test; "
            f"{len(seeds)} random splits (seeds {', '.join(map(str, seeds))}), stratified"
        )
        about = next(iter(self.cells.values())).provenance
        for key in ("device", "commit"):
            if about.get(key):
                facts[key] = str(about[key])
        if about.get("versions"):
            facts["versions"] = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
        facts["made"] = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
        return facts

    def _repr_html_(self) -> str:
        """Show the verdict and the table in a notebook."""
        columns = ["data", "ratio", "method", "n", "mean", "low", "high", "normalized_cost", "savings", "standing"]
        table = self.table[columns].to_html(index=False, float_format="{:.3f}".format)
        lines = "<br>".join(html.escape(line) for line in self.verdict.splitlines())
        return f"<p><strong>{lines}</strong></p>{table}"

    def __str__(self) -> str:
        return self.verdict


def compare(
    X: Any,  # noqa: N803  scikit-learn's name
    y: Any,
    costs: CostMatrix | None = None,
    *,
    positive: Any = None,
    groups: Any = None,
    methods: Iterable[str | Recipe] | None = None,
    ratios: Sequence[Ratio] | None = None,
    seeds: int | Sequence[int] = 5,
    name: str = "data",
    **options: Any,
) -> Comparison:
    """Find out which method is cheapest on this data, and how sure that is.

    Parameters
    ----------
    X : table, or uint8 images N x H x W x C
        pandas, polars, pyarrow or numpy, with text, dates and missing values.
    y : array of shape (n,)
        Labels of two classes.
    costs : CostMatrix, optional
        Class-wide, or of each row. Default: inverse class frequencies.
    positive : label, optional
        The class ``fn`` speaks of; 0/1, -1/1 and False/True need no naming.
    groups : array of shape (n,), optional
        Rows of one group never stand on both sides of a split.
    methods : names and Recipes, optional
        Default: all of :data:`~adacsl.experiments.recipes.RECIPES` that fit the data.
    ratios : numbers or strings like "3x", optional
        Further prices of a miss to compare at. Default: the costs as they are.
    seeds : int or sequence of int, default 5
        How many (or which) random splits.
    name : str
        What to call the data.
    **options
        See :func:`compare_tasks`: ``folder``, ``engine``, ``workers``, ``device``, ``epochs``, ``progress``, ...

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = compare(X, 1 - y, CostMatrix(fp=1, fn=8), methods=["ce", "gbm-bayes"], seeds=2, workers=1,
    ...                 epochs=2, progress=False)
    >>> sorted(found.table["method"])
    ['ce', 'gbm-bayes']
    """
    task = make_task(X, y, costs, positive=positive, groups=groups, name=name)
    return compare_tasks(task, methods=methods, ratios=ratios, seeds=seeds, **options)


def make_task(
    X: Any,  # noqa: N803
    y: Any,
    costs: CostMatrix | None = None,
    *,
    positive: Any = None,
    groups: Any = None,
    name: str = "data",
) -> Task:
    """Bring data held in memory into the form of a task."""
    return Task.from_data(X, y, costs, positive=positive, groups=groups, name=name)


def compare_tasks(
    tasks: Task | Sequence[Task],
    *,
    methods: Iterable[str | Recipe] | None = None,
    ratios: Sequence[Ratio] | None = None,
    seeds: int | Sequence[int] = 5,
    folder: str | Path | None = None,
    engine: str = "joblib",
    workers: int | None = None,
    address: str | None = None,
    gpus: float = 0.0,
    progress: bool = True,
    **protocol: Any,
) -> Comparison:
    """Run every method on every task, at every ratio, with every seed.

    Parameters
    ----------
    tasks : Task or sequence of Task
        Data with labels, groups and costs.
    methods, ratios, seeds
        As in :func:`compare`.
    folder : path, optional
        Keep every result here as soon as it is there; a run that was interrupted, started again, goes on. Default: in
        memory only.
    engine : {"joblib", "ray"}
        Processes on this machine, or a Ray cluster.
    workers : int, optional
        How many jobs at once; default: one per core. Jobs that train on a GPU share it.
    address : str, optional
        Of the Ray cluster.
    gpus : float
        GPUs a job asks Ray for.
    progress : bool
        Show a bar with the cheapest method so far.
    **protocol
        Fields of :class:`~adacsl.experiments.protocol.Protocol`: ``epochs``, ``device``, ``weights``, ...
    """
    tasks = [tasks] if isinstance(tasks, Task) else list(tasks)
    _check_names(tasks)
    known = [each.name for each in fields(Protocol)]
    if unknown := sorted(set(protocol) - set(known)):
        raise TypeError(f"compare has no option {unknown[0]!r}; those of the protocol are {', '.join(known)}")
    conditions = Protocol(**protocol)
    methods = None if methods is None else [methods] if isinstance(methods, str) else list(methods)
    chosen = {task.name: choose_recipes(methods, images=task.images) for task in tasks}
    at = {task.name: choose_ratios(task.costs, ratios) for task in tasks}
    numbers = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not numbers or len(set(numbers)) != len(numbers):
        raise ValueError(f"seeds must be a number of splits from 1, or different numbers, got {seeds!r}")
    titles = {method.name: method.title for some in chosen.values() for method in some.values()}
    jobs = plan_jobs(tasks, chosen, at, numbers, conditions)
    with tempfile.TemporaryDirectory(prefix="adacsl-") as scratch:
        place = Path(folder) if folder is not None else Path(scratch) / "run"
        with Store.open(place, _identity(tasks, conditions)) as store:
            for task in tasks:
                for seed in numbers:
                    test = make_split(task, conditions, seed).test
                    store.write_split(task.name, seed, test, task.y[test], task.costs.rows(test))
            shared = {task.name: task for task in tasks}
            # on a cluster the run's folder may be out of reach
            parts = Parts(store.folder / "parts") if engine == "joblib" else None
            with Progress(sum(len(job.cells) for job in jobs), quiet=not progress) as bar:
                run(
                    jobs, functools.partial(run_work, parts=parts), store, shared=shared,
                    engine=engine, workers=workers, address=address, gpus=gpus, on_event=bar,
                )  # fmt: skip
        wanted = {cell for job in jobs for cell in job.cells}
        return _read(place, kept=folder is not None, titles=titles, only=wanted)


def load_comparison(folder: str | Path) -> Comparison:
    """Read a comparison from its folder, finished or not."""
    return _read(Path(folder), kept=True)


def choose_ratios(costs: CostMatrix, ratios: Sequence[Ratio] | None) -> list[float]:
    """Return cost ratios as numbers of six digits; ``"3x"`` is three times the costs' own.

    Examples
    --------
    >>> choose_ratios(CostMatrix(fp=1, fn=8), ["1x", "2.5x", 4])
    [8.0, 20.0, 4.0]
    """
    own = mean_ratio(costs)
    found = []
    for ratio in [own] if ratios is None else ratios:
        text = str(ratio).strip().lower()
        try:
            value = own * float(text[:-1]) if text.endswith("x") else float(text)
        except ValueError:
            value = float("nan")
        if not 0.0 < value < float("inf"):
            raise ValueError(f"a ratio is a positive number such as 8, or a multiple such as 3x; got {ratio!r}")
        found.append(float(f"{value:.6g}"))
    if not found or len(set(found)) != len(found):
        raise ValueError(f"the ratios must be different numbers, got {ratios!r}")
    return found


def _check_names(tasks: Sequence[Task]) -> None:
    names = [task.name for task in tasks]
    if not names:
        raise ValueError("there is no data to compare on")
    if len(set(names)) != len(names):
        raise ValueError(f"data sets must have different names, got {names}")


def _identity(tasks: Sequence[Task], protocol: Protocol) -> dict[str, Any]:
    about = {
        task.name: {
            "digest": task.digest,
            "rows": len(task.y),
            "positives": int(task.y.sum()),
            "classes": list(task.classes),
            "images": task.images,
            "groups": task.groups is not None,
            "ratio": mean_ratio(task.costs),
            "costs": _costs_in_words(task.costs),
            "source": task.source,
        }
        for task in tasks
    }
    return {"data": about, "protocol": protocol.identity()}


def _costs_in_words(costs: CostMatrix) -> str:
    mean = costs.averaged()
    each = "" if costs.n_instances is None else " on average, rows have costs of their own"
    right = "".join(f", {word} {price:g}" for word, price in (("a hit", mean.tp), ("a pass", mean.tn)) if price)
    return f"A miss costs {mean.fn:.6g}, a false alarm {mean.fp:.6g}{right}{each}"


def _read(
    folder: Path, *, kept: bool, titles: Mapping[str, str] | None = None, only: set[Cell] | None = None
) -> Comparison:
    store = Store.read_only(folder)
    results = store.results()
    failures = store.failures()
    if only is not None:
        # the folder may hold methods and seeds of earlier runs; this comparison is about these
        results, failures = (_only(frame, only) for frame in (results, failures))
    if results.empty:
        first = f": {failures['message'].iloc[0]}" if len(failures) else ""
        raise NoResultError(f"no method came to an end{first}")
    if len(failures):
        warnings.warn(f"{len(failures)} cells failed; the table is about the others", stacklevel=3)
    columns = (results[name].tolist() for name in Cell._fields)
    cells = {cell: store.read(cell) for cell in (Cell(*row) for row in zip(*columns, strict=True))}
    splits = {key: store.read_split(*key) for key in sorted({(cell.data, cell.seed) for cell in cells})}
    return Comparison(results, failures, store.identity, cells, splits, folder if kept else None, dict(titles or {}))


def _only(frame: pd.DataFrame, cells: set[Cell]) -> pd.DataFrame:
    keep = [Cell(*row) in cells for row in frame[list(Cell._fields)].itertuples(index=False, name=None)]
    return frame[np.asarray(keep, dtype=bool)].reset_index(drop=True)


def _summary_for_report(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename(columns={"mean": "cost"})


def _joined(prices: Sequence[Any], sizes: Sequence[int]) -> Any:
    if all(isinstance(price, float) for price in prices) and len(set(prices)) == 1:
        return prices[0]
    return np.concatenate([np.broadcast_to(price, size) for price, size in zip(prices, sizes, strict=True)])
