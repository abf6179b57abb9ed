"""What follows a comparison: the method to take, fitted on all rows and saved, or the command that does it."""

from __future__ import annotations

import hashlib
import math
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from adacsl.base.extras import requires
from adacsl.cli.check import load_checked
from adacsl.cli.console import PLAIN, Answer, Screen, listing, one_line, stoppable
from adacsl.cli.custom_methods import own_method
from adacsl.cli.model_folder import check_model_folder
from adacsl.cli.options import (
    ALIKE,
    ALL,
    ANY,
    FREE,
    MOST_EPOCHS,
    MOST_WORKERS,
    NEVER,
    USUAL,
    Checking,
    Judging,
    Prices,
    Showing,
    Source,
    Times,
    as_words,
    hidden_text,
    interval_text,
    net_settings,
    split_words,
    within,
)
from adacsl.storage.atomic import check_folder

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison
    from adacsl.datasets.task import Task


@dataclass(frozen=True)
class Training:
    """What `adacsl train` is to be told, but for the folder of the model."""

    data: str | None
    source: Source = ANY
    prices: Prices = FREE
    times: Times = NEVER
    checking: Checking = ALL
    method: str = ""
    nets: Mapping[str, Any] = field(default_factory=dict)
    """What was said about nets, by the name of the option."""

    def command(self, out: str = "model/") -> str:
        """Return the command to type."""
        said = [word for part in (self.source, self.times, self.prices, self.checking) for word in as_words(part)]
        for name, value in self.nets.items():
            said += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return shlex.join(["adacsl", "train", *self._data, *said, "--method", self.method, "--out", out])

    def run(self, out: Path, screen: Screen) -> Answer:
        """Fit the method on all rows and save it."""
        from adacsl.cli.train import train  # noqa: PLC0415  as slow as the command itself

        silent = replace(screen, quiet=True)  # the comparison has said all there is to note
        about = {"source": self.source, "prices": self.prices, "times": self.times, "checking": self.checking}
        return train(self.data, out=out, method=self.method, screen=silent, **about, **self.nets)  # type: ignore[arg-type]

    def predicting(self, model: Path) -> str:
        """Return the command that decides about rows with the saved model."""
        where = [] if self.source.folder is None else ["--folder", str(self.source.folder)]
        where += as_words(self.source.files)
        return shlex.join(["adacsl", "predict", str(model), *self._data, *where, "--out", "decisions.csv"])

    @property
    def _data(self) -> list[str]:
        return [] if self.data is None else [self.data]


def training_of(found: Comparison, task: Task, said: Training, origins: Mapping[str, str]) -> Training | None:
    """Return how to train the method to take on all rows; None where it cannot be said on the command line.

    ``said`` is what was said about the data and about nets, ``origins`` are the words of methods of one's own.
    """
    from adacsl.comparison.fits import scale_misses  # noqa: PLC0415  torch
    from adacsl.comparison.protocol import mean_ratio  # noqa: PLC0415
    from adacsl.estimators.registry import METHODS, is_ensemble, method, needs_net  # noqa: PLC0415  scikit-learn

    own = mean_ratio(task.costs)
    recommendations = {
        ratio: recommendation for (name, ratio), recommendation in found.recommendations.items() if name == task.name
    }
    ratio = next((r for r in recommendations if math.isclose(r, own, rel_tol=1e-5)), next(iter(recommendations), own))
    recommendation = recommendations.get(ratio)
    name = None if recommendation is None else recommendation.recommended
    costs = scale_misses(task.costs, ratio / own)
    if name is None or name not in {*METHODS, *origins} or (costs is not task.costs and costs.n_instances is not None):
        return None  # prices of each row, made dearer
    if costs is not task.costs:
        said = replace(said, prices=Prices(costs.fn, costs.fp, costs.tp or None, costs.tn or None))
    made = found.methods[name] if name in origins else method(name)
    nets = said.nets if needs_net(made) or is_ensemble(made) else {}
    return replace(said, method=origins.get(name, name), nets=nets)


DEFAULT_DATA = "german-credit"
NAMED = 5
"""So many failed fits are named, the others counted."""


def compare(  # noqa: PLR0913  one argument for each option
    *data: Annotated[str, Parameter(help="Table (CSV, Excel, ...), folder of pictures, or names (adacsl data)")],
    source: Source = ANY,
    prices: Prices = FREE,
    times: Times = NEVER,
    methods: tuple[str, ...] = (),
    everything: Annotated[bool, Parameter(name="--all")] = False,
    method: tuple[str, ...] = (),
    ratios: tuple[str, ...] = (),
    judging: Judging = USUAL,
    checking: Checking = ALL,
    showing: Showing = ALIKE,
    segment: tuple[str, ...] = (),
    out: Path | None = None,
    save: Path | None = None,
    backend: Literal["processes", "ray"] = "processes",
    address: str | None = None,
    n_jobs: Annotated[int | None, within(1, MOST_WORKERS)] = None,
    gpus: Annotated[float, within(0, MOST_WORKERS)] = 0.0,
    device: str = "auto",
    epochs: Annotated[int | None, within(1, MOST_EPOCHS)] = None,
    weights: Path | None = None,
    rotate: bool = False,
    screen: Screen = PLAIN,
) -> Answer:
    """Find out which method is cheapest on your data, and how sure that is.

    Runs cost-sensitive methods on the same folds and ends with a table, a recommendation and an HTML report: what to
    use, what it costs, what it saves against today's practice, and how sure that is. Every result is kept as soon as it
    is there: the same command, started again, runs only what is missing.

    Parameters
    ----------
    data
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of pictures per class, .npz archive, or names of
        built-in data sets (`adacsl data`); or --sql. Default: german-credit, which comes with adacsl.
    methods
        Names with commas between them; default: the usual ones, few that differ.
    everything
        Run all methods that fit the data. Each more costs power: a difference has to be larger to be told.
    method
        A scikit-learn classifier of your own beside them, module:factory: a function of a module in the working
        directory that returns it. May be given several times.
    ratios
        Prices of a miss in false alarms to compare at, such as 4,8,16, or multiples of the data's own, such as 1x,3x.
        For two classes: a matrix of more is compared as it is.
    segment
        Columns that costs are also shown by, such as region, with commas between them: numbers in five parts. They stay
        features unless they are in --drop.
    out
        Folder for results and report; default: runs/NAME, one for each data and costs.
    save
        Fit the recommended method on all rows and save it in this folder, as `adacsl train` does. Data with an error
        (`adacsl check`) are refused then, exit code 2, unless --ignore names its code.
    backend
        processes: on this machine. ray: a cluster.
    address
        Of the Ray cluster.
    n_jobs
        How many jobs at once; default: one per core.
    gpus
        GPUs that a job asks Ray for, such as 0.25.
    device
        Where nets train: auto, cpu, cuda, cuda:1 or mps.
    epochs
        How often nets go through the rows; default: by the number of rows.
    weights
        Local weights (.safetensors, .pth) of the picture net's backbone.
    rotate
        Turn training pictures by quarter turns too: for those that have no up and down.

    Examples
    --------
    adacsl compare --save model
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --out runs/loans
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --baseline-column refused --repeats 5
    adacsl compare loans.csv --target default --pos-label yes --fn 900 --fp 100 --unit EUR --volume 50000 --people loans
    adacsl compare cards.parquet --target fraud --fn amount --fp 5 --methods net-bayes,gbm-bayes,adacsl-cv
    adacsl compare photos/ --pos-label melanoma --fn 8 --fp 1 --ratios 4,8,16 --backend ray --gpus 0.25
    adacsl compare flowers.csv --target kind --costs matrix.csv
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --segment region,age --unit EUR
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --all
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --method mine:forest --method mine:svm
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --time-column applied --gap 7d --label-delay
    90d
    """
    if address is not None and backend != "ray":
        raise ValueError("--address is for --backend ray")
    net = net_settings(epochs, weights, rotate=rotate)
    own = {word: own_method(word) for word in method}
    chosen = [*(split_words(methods) or ["all" if everything else "default"]), *own.values()]
    names: tuple[str | None, ...] = data or (DEFAULT_DATA if source.files.sql is None else None,)
    with screen.doing(f"reading and checking {', '.join(name or 'the rows of --sql' for name in names)}"):
        if backend == "processes":
            from adacsl.neural.device import choose_device  # noqa: PLC0415  torch

            choose_device(device)  # says so where it is absent
        if save is not None:
            if len(names) > 1:
                raise ValueError(
                    f"--save keeps one model, and there are {len(names)} data sets: give one, or leave it out"
                )
            check_model_folder(save, option="--save")
        today = judging.baseline_column
        apart = {"time_column": times.time_column, "baseline_column": today, "segments": split_words(segment)}
        loaded = [load_checked(source, name, prices, checking, refuse=save is not None, **apart) for name in names]
        tasks = [task for task, _ in loaded]
        for line in filter(None, map(hidden_text, tasks)):
            screen.note(line)
        folder = _default_folder(tasks) if out is None else out
        check_folder(folder, "give a folder for the results, --out runs/NAME")
        with requires("compare"):
            from adacsl.comparison.compare import compare_tasks  # noqa: PLC0415  torch
            from adacsl.comparison.importance import drivers  # noqa: PLC0415
        for task in tasks:
            _check_words(task, chosen, split_words(ratios) or None)
            times.check(task.time)
    for task, checks in loaded:
        screen.found(checks, task.name if len(names) > 1 else "")
    with stoppable(f"what is finished is kept in {folder}; the same command goes on from there"), _said_already():
        found = compare_tasks(
            tasks, methods=chosen, ratios=split_words(ratios) or None, repeats=judging.repeats,
            folds=judging.folds, tolerance=judging.tolerance, prefer=judging.prefer, folder=folder, backend=backend,
            n_jobs=n_jobs, address=address, gpus=gpus, progress=not screen.quiet, device=device, net=net,
            gap=times.gap, label_delay=times.label_delay, ignore=checking.codes,
        )  # fmt: skip
        words = {name: word for word, (name, _) in own.items()}
        nets = _asked(epochs=epochs, weights=weights, device=device, rotate=rotate)
        if today:
            source = replace(source, drop=(*source.drop, today))  # it is no feature
        said = [Training(name, source, prices, times, checking, nets=nets) for name in names]
        trainings = [training_of(found, task, about, words) for task, about in zip(tasks, said, strict=True)]
        saved = {} if save is None else _save(trainings[0], save, screen, found.best)
        command = shlex.join(["adacsl", *sys.argv[1:]])
        shown = vars(showing) | {"explain": drivers(found, tasks[0]) if "model" in saved else None}
        page = folder / "report.html"
        try:
            found.report(page, command=command, model=saved.get("model"), **shown)
        except OSError as error:  # a full disk: what was found is worth telling all the same
            saved["not_reported"] = one_line(error.strerror or error)
    return _answer(found, folder, page, [one for one in trainings if one], saved)


def _check_words(task: Task, methods: list[Any], ratios: list[str] | None) -> None:
    """Refuse methods and ratios that do not fit the data, before anything is said about these."""
    from adacsl.comparison.protocol import choose_ratios  # noqa: PLC0415
    from adacsl.estimators.registry import choose_methods  # noqa: PLC0415  scikit-learn

    by_row = task.costs.n_instances is not None
    choose_methods(methods, images=task.images, n_classes=task.costs.n_classes, row_costs=by_row)
    choose_ratios(task.costs, ratios)


@contextmanager
def _said_already() -> Iterator[None]:
    """Say nothing again that checks have said."""
    from adacsl.datasets.findings import CheckWarning  # noqa: PLC0415  pandas

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "rows of .* have dates")
        warnings.simplefilter("ignore", CheckWarning)
        yield


def _asked(*, epochs: int | None, weights: Path | None, device: str, rotate: bool) -> dict[str, Any]:
    """Return what was said about nets, by option."""
    asked = {"epochs": epochs, "weights": weights, "device": None if device == "auto" else device}
    return {name: value for name, value in {**asked, "rotate": rotate or None}.items() if value is not None}


def _save(training: Training | None, model: Path, screen: Screen, recommended: str | None) -> dict[str, Any]:
    """Fit the recommended method on all rows and save it; return the model's folder, the next command, or why not."""
    if recommended is None:
        return {"not_saved": "no method is recommended"}
    if training is None:
        return {"not_saved": f"{recommended} cannot be named on the command line: fit it in Python"}
    try:
        fitted = training.run(model, screen).document
    except (OSError, ValueError) as error:  # what was compared is worth telling all the same
        return {"not_saved": one_line(getattr(error, "strerror", None) or error)}
    return {"model": model, "fitted": fitted, "next": training.predicting(model)}


def failed_fits(found: Comparison) -> list[dict[str, Any]]:
    """Return the fits without a result, with their errors."""
    from adacsl.comparison.fits import FitKey  # noqa: PLC0415  scikit-learn

    return [
        {name: row[name] for name in FitKey._fields} | {"error": f"{row['type']}: {row['message']}"}
        for row in found.failures.to_dict("records")
    ]


def _default_folder(tasks: list[Task]) -> Path:
    """Return a folder of its own for these data and costs, the same each time."""
    digest = hashlib.sha256("".join(task.digest for task in tasks).encode()).hexdigest()
    return Path("runs") / f"{'+'.join(task.name for task in tasks)[:80]}-{digest[:6]}"


def _answer(found: Comparison, folder: Path, page: Path, trainings: list[Training], saved: dict[str, Any]) -> Answer:
    from adacsl.comparison.model_card import describe_duplicates  # noqa: PLC0415  torch

    failed = failed_fits(found)
    document = {
        "best": found.best,
        "recommendation": found.recommendation,
        "price_range": found.price_range,
        "recommendations": [
            {
                "data": data,
                "ratio": ratio,
                "recommended": recommendation.recommended,
                "cheapest": recommendation.cheapest,
                "saving": recommendation.saving._asdict() if recommendation.saving else None,
                "simpler": recommendation.simpler._asdict() if recommendation.simpler else None,
                "text": str(recommendation),
            }
            for (data, ratio), recommendation in found.recommendations.items()
        ],
        "tolerance": found.tolerance,
        "prefer": found.prefer,
        "intervals": found.intervals,
        "table": found.table.to_dict("records"),
        "folder": folder,
        "report": None if "not_reported" in saved else page,
        "train": [training.command() for training in trainings],
        **saved,
        "failed": failed,
        "missing": [each._asdict() for each in found.missing],
        "checks": {name: about.get("checks", []) for name, about in found.facts["data"].items()},
        "left_out": {
            name: {key: about[key] for key in ("unlabelled", "broken") if key in about}
            for name, about in found.facts["data"].items()
        },
        **({"segments": _segments(found)} if any(found.segments.values()) else {}),
        **({"windows": found.windows} if found.windows else {}),
    }
    shown: list[Any] = []
    for (name, ratio), block in found.table.groupby(["data", "ratio"], sort=False):
        classes = found.facts["data"].get(name, {}).get("classes", ())
        price = f"{len(classes)} classes" if len(classes) > 2 else f"a miss costs {ratio:g} false alarms"
        shown += [f"{name}, {price}; cost per row", "", _table(block), ""]
    copies = {name: describe_duplicates(about) for name, about in found.facts["data"].items()}
    several = len(copies) > 1
    shown += [found.intervals, *(f"{name}: {said}" if several else said for name, said in copies.items() if said), ""]
    shown += [f"window {seed}: {words}" for told in found.windows.values() for seed, words in told.items()]
    shown += ["", found.recommendation] if found.windows else [found.recommendation]
    if found.price_range:
        shown += ["", found.price_range]
    shown += [line for told in _segments(found) for line in _by_segment(told)]
    if failed:
        shown += ["", *_failures(failed)]
    shown += ["", *_ending(page, trainings, saved)]
    return Answer(document, tuple(shown), code=1 if failed or {"not_saved", "not_reported"} & set(saved) else 0)


def _ending(page: Path, trainings: list[Training], saved: dict[str, Any]) -> list[str]:
    """Return where model and report are, and the next command to type."""
    written = f"report: {page}"
    if "not_reported" in saved:
        written = f"no report was written: {saved['not_reported']}; once there is room: adacsl report {page.parent}"
    if "model" in saved:
        fitted = saved["fitted"]
        return [
            *(f"{each['severity']}: {each['text']} [{each['code']}]" for each in fitted["model_checks"]),
            f"model: {saved['model']} ({fitted['method']}, fitted on all {fitted['rows']:,} rows)",
            written,
            f"next: {saved['next']}",
        ]
    lines = [f"no model was saved: {saved['not_saved']}"] if "not_saved" in saved else []
    return [*lines, written, *(f"fit and save it: {training.command()}" for training in trainings)]


def _segments(found: Comparison) -> list[dict[str, Any]]:
    """Return what the method to take costs in each segment, by data set, ratio and column."""
    from adacsl.comparison.segments import tables_of  # noqa: PLC0415  torch

    return [
        {"data": view[0], "ratio": view[1], "column": column, "segments": part.to_dict("records")}
        for view, table in tables_of(found, found.recommendations)
        for column, part in table.groupby("column", sort=False)
    ]


def _by_segment(told: dict[str, Any]) -> list[Any]:
    table = listing(str(told["column"]), right=("rows", "cost", "95 % interval", "than all others"), then=("",))
    for row in told["segments"]:
        interval = interval_text(row["low"], row["high"])
        more = f"{row['difference']:+.4g}" if row["difference"] == row["difference"] else ""
        table.add_row(row["segment"], f"{row['rows']:,}", f"{row['cost']:.4g}", interval, more, row["significance"])
    return ["", f"{told['data']} by {told['column']}, ratio {told['ratio']:g}; cost per row", "", table]


def _table(block: Any) -> Any:
    from adacsl.comparison.statistics import CONSTANTS  # noqa: PLC0415  pandas

    table = listing("method", right=("cost", "95 % interval", "dearer"), then=("",))
    rows = block.to_dict("records")
    for row in sorted(rows, key=lambda row: row["method"] in CONSTANTS):  # no methods: last
        alone = row["significance"] == "lowest cost" or row["percent"] != row["percent"]
        dearer = "" if alone else f"{row['percent']:+.1f} %"
        interval = interval_text(row["low"], row["high"])
        table.add_row(str(row["method"]), f"{row['mean']:.4g}", interval, dearer, str(row["significance"]))
    return table


def _failures(failed: list[dict[str, Any]]) -> list[str]:
    from adacsl.comparison.fits import FitKey  # noqa: PLC0415  scikit-learn

    lines = [f"{len(failed)} fits failed; the same command tries them again:"]
    lines += [
        f"  {FitKey(*(row[name] for name in FitKey._fields))}: {one_line(row['error'])}" for row in failed[:NAMED]
    ]
    return [*lines, f"  ... and {len(failed) - NAMED} more"] if len(failed) > NAMED else lines
