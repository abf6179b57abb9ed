"""``adacsl compare``: a comparison of methods, its recommendation, and the command that fits it."""

from __future__ import annotations

import hashlib
import math
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from adacsl.base.extras import requires
from adacsl.cli.check import load_checked
from adacsl.cli.console import PLAIN, WINNER, AlreadyShown, Answer, Screen, listing, next_command, one_line, stoppable
from adacsl.cli.custom_methods import own_method
from adacsl.cli.model_folder import check_model_folder
from adacsl.cli.options import (
    ADVANCED_METHODS,
    ADVANCED_REPORT,
    ADVANCED_TRAINING,
    CHECK_DEFAULTS,
    COST_DEFAULTS,
    DATA_DEFAULTS,
    EVALUATION_DEFAULTS,
    EXECUTION_DEFAULTS,
    MOST_EPOCHS,
    REPORT_DEFAULTS,
    TIME_DEFAULTS,
    TRAINING_CONSTRAINT_DEFAULTS,
    CheckOptions,
    CostOptions,
    DataOptions,
    Device,
    EvaluationOptions,
    ExecutionOptions,
    ReportOptions,
    TimeOptions,
    TrainingConstraintOptions,
    as_words,
    hidden_text,
    interval_text,
    neural_learner,
    split_words,
    within,
)
from adacsl.storage.atomic import check_folder

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison
    from adacsl.datasets.task import Task


@dataclass(frozen=True)
class Training:
    """Arguments of `adacsl train`, without the folder of the model."""

    data: str | None
    source: DataOptions = DATA_DEFAULTS
    cost_options: CostOptions = COST_DEFAULTS
    times: TimeOptions = TIME_DEFAULTS
    check_options: CheckOptions = CHECK_DEFAULTS
    constraint_options: TrainingConstraintOptions = TRAINING_CONSTRAINT_DEFAULTS
    method: str = ""
    networks: Mapping[str, Any] = field(default_factory=dict)
    """Settings of neural networks, by the name of the option."""

    def command(self, out: str = "model/") -> str:
        """Return the command to type."""
        parts = (self.source, self.times, self.cost_options, self.constraint_options, self.check_options)
        words = [word for part in parts for word in as_words(part)]
        for name, value in self.networks.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return shlex.join(["adacsl", "train", *self._data, *words, "--method", self.method, "--out", out])

    def run(self, out: Path, screen: Screen) -> Answer:
        """Fit the method on all samples and save it."""
        from adacsl.cli.train import train  # noqa: PLC0415  as slow as the command itself

        silent = AlreadyShown(**vars(screen))  # the comparison has shown the findings
        options = {"source": self.source, "times": self.times}
        options |= {"cost_options": self.cost_options, "check_options": self.check_options}
        options |= {"constraint_options": self.constraint_options}
        return train(self.data, out=out, method=self.method, screen=silent, **options, **self.networks)  # type: ignore[arg-type]

    @property
    def _data(self) -> list[str]:
        return [] if self.data is None else [self.data]


def training_of(result: Comparison, task: Task, training: Training, origins: Mapping[str, str]) -> Training | None:
    """Return how to train the recommended method on all samples; None where the command line cannot express it.

    ``training`` holds the options of the data and of neural networks, ``origins`` the words of custom methods.
    """
    from adacsl.comparison.fits import scale_fn  # noqa: PLC0415  torch
    from adacsl.comparison.protocol import mean_ratio  # noqa: PLC0415
    from adacsl.estimators.registry import METHODS, is_ensemble, method, needs_network  # noqa: PLC0415  scikit-learn

    own = mean_ratio(task.costs)
    recommendations = {
        ratio: recommendation for (name, ratio), recommendation in result.recommendations.items() if name == task.name
    }
    ratio = next((r for r in recommendations if math.isclose(r, own, rel_tol=1e-5)), next(iter(recommendations), own))
    recommendation = recommendations.get(ratio)
    name = None if recommendation is None else recommendation.recommended
    costs = scale_fn(task.costs, ratio / own)
    if name is None or name not in {*METHODS, *origins} or (costs is not task.costs and costs.n_instances is not None):
        return None  # per-sample costs, scaled
    if costs is not task.costs:
        training = replace(training, cost_options=CostOptions(costs.fn, costs.fp, costs.tp or None, costs.tn or None))
    made = result.methods[name] if name in origins else method(name)
    networks = training.networks if needs_network(made) or is_ensemble(made) else {}
    return replace(training, method=origins.get(name, name), networks=networks)


DEFAULT_DATA = "german-credit"
RACING: Mapping[str, Any] = {"auto": "auto", "on": True, "off": False}
NAMED = 5
"""Number of failed fits that are named; the others are counted."""


def compare(  # noqa: PLR0913  one argument for each option
    *data: Annotated[str, Parameter(help="Table (CSV, Excel, ...), folder of images, or names (adacsl data)")],
    source: DataOptions = DATA_DEFAULTS,
    cost_options: CostOptions = COST_DEFAULTS,
    constraint_options: TrainingConstraintOptions = TRAINING_CONSTRAINT_DEFAULTS,
    times: TimeOptions = TIME_DEFAULTS,
    methods: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    everything: Annotated[bool, Parameter(name="--all", group=ADVANCED_METHODS, show_default=False)] = False,
    method: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    ratios: Annotated[tuple[str, ...], Parameter(group=ADVANCED_METHODS, show_default=False)] = (),
    evaluation: EvaluationOptions = EVALUATION_DEFAULTS,
    check_options: CheckOptions = CHECK_DEFAULTS,
    report_options: ReportOptions = REPORT_DEFAULTS,
    segments: Annotated[tuple[str, ...], Parameter(group=ADVANCED_REPORT, show_default=False)] = (),
    out: Path | None = None,
    save: Path | None = None,
    execution: ExecutionOptions = EXECUTION_DEFAULTS,
    device: Device = "auto",
    epochs: Annotated[int | None, Parameter(group=ADVANCED_TRAINING), within(1, MOST_EPOCHS)] = None,
    weights: Annotated[Path | None, Parameter(group=ADVANCED_TRAINING)] = None,
    rotate: Annotated[bool, Parameter(group=ADVANCED_TRAINING, show_default=False)] = False,
    screen: Screen = PLAIN,
) -> Answer:
    """Compare cost-sensitive methods on your data and recommend one.

    Runs the methods on the same folds and ends with a table, a recommendation and an HTML report: which method to use,
    its cost with a confidence interval, and the saving against the baseline. Every result is kept at once: the same
    command, started again, runs only what is missing.

    Parameters
    ----------
    data
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of images per class, .npz archive, or names of
        built-in data sets (`adacsl data`); or --sql. Default: german-credit, which is bundled.
    methods
        Names of methods, with commas between them; default: a few that differ.
    everything
        Run all methods that suit the data. Each one costs power: a difference must be larger to be significant.
    method
        A scikit-learn classifier of your own in addition, module:factory: a function of a module in the working
        directory that returns it. May be given several times.
    ratios
        Cost ratios (false negative to false positive) to compare at, such as 4,8,16, or multiples of the given one,
        such as 1x,3x. For two classes only.
    segments
        Columns by whose values costs are also shown, such as region, with commas between them; numbers in five
        quantiles. They stay features unless --drop names them.
    out
        Folder for results and report; default: runs/NAME, one for each data and costs.
    save
        Fit the recommended method on all samples and save the model in this folder, as `adacsl train` does. Data with
        an error (`adacsl check`) are refused then, exit code 2, unless --ignore names its code.
    device
        Device for neural networks: auto, cpu, cuda, cuda:1 or mps.
    epochs
        Training epochs of neural networks; default: by the number of samples.
    weights
        Local weights (.safetensors, .pth) of the backbone of the image network.
    rotate
        Augment training images by quarter turns: for images without an up and down.

    Examples
    --------
    adacsl compare --save model
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --out runs/loans
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --baseline-column refused --repeats 5
    adacsl compare loans.csv --target default --pos-label yes --fn 900 --fp 100 --unit EUR --volume 50000 --people loans
    adacsl compare cards.parquet --target fraud --fn amount --fp 5 --methods net-bayes,gbm-bayes,adacsl-cv
    adacsl compare photos/ --pos-label melanoma --fn 8 --fp 1 --ratios 4,8,16 --backend ray --gpus 0.25
    adacsl compare flowers.csv --target kind --costs matrix.csv
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --segments region,age --unit EUR
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --min-recall 0.9
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --all
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --method mine:forest --method mine:svm
    adacsl compare loans.csv --target default --pos-label yes --fn 8 --fp 1 --time-column applied --gap 7d --label-delay
    90d
    """
    limits = constraint_options.given
    constraint_options.check(groups=source.group_column is not None)
    neural = neural_learner(epochs, weights, rotate=rotate)
    own = {word: own_method(word) for word in method}
    chosen = [*(split_words(methods) or ["all" if everything else "default"]), *own.values()]
    names: tuple[str | None, ...] = data or (DEFAULT_DATA if source.files.sql is None else None,)
    reading = f"reading and checking {', '.join(name or 'the result of --sql' for name in names)}"
    with ExitStack() as opened, screen.doing(reading):
        opened.enter_context(_workers_ahead(execution, chosen))
        if execution.backend == "processes":
            from adacsl.neural.device import choose_device  # noqa: PLC0415  torch

            choose_device(device)  # fails here where it is absent
        if save is not None:
            if len(names) > 1:
                raise ValueError(
                    f"--save keeps one model, and there are {len(names)} data sets: give one, or omit --save"
                )
            check_model_folder(save, option="--save")
        baseline = evaluation.baseline_column
        apart = {"time_column": times.time_column, "baseline_column": baseline, "segments": split_words(segments)}
        loaded = [
            load_checked(source, name, cost_options, check_options, refuse=save is not None, **apart) for name in names
        ]
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
            constraint_options.check_column(task)
        ahead = opened.pop_all()
    for task, checks in loaded:
        screen.findings(checks, task.name if len(names) > 1 else "")
    with (
        ahead,
        stoppable(f"what is finished is kept in {folder}; the same command resumes from there"),
        _without_findings(),
    ):
        result = compare_tasks(
            tasks, methods=chosen, ratios=split_words(ratios) or None, repeats=evaluation.repeats,
            folds=evaluation.folds, racing=RACING[evaluation.racing],
            tolerance=evaluation.tolerance, prefer=evaluation.prefer, folder=folder,
            **vars(execution), progress=not screen.quiet, device=device, neural=neural,
            gap=times.gap, label_delay=times.label_delay, ignore=check_options.codes, constraints=limits,
            certify=constraint_options.certify,
        )  # fmt: skip
        words = {name: word for word, (name, _) in own.items()}
        networks = _asked(epochs=epochs, weights=weights, device=device, rotate=rotate)
        if baseline:
            source = replace(source, drop=(*source.drop, baseline))
        asked = [
            Training(name, source, cost_options, times, check_options, constraint_options, networks=networks)
            for name in names
        ]
        trainings = [training_of(result, task, each, words) for task, each in zip(tasks, asked, strict=True)]
        saved = {} if save is None else _save(trainings[0], save, screen, result.best)
        command = shlex.join(["adacsl", *sys.argv[1:]])
        shown = vars(report_options) | {"explain": drivers(result, tasks[0]) if "model" in saved else None}
        page = folder / "report.html"
        try:
            result.report(page, command=command, model=saved.get("model"), **shown)
        except OSError as error:  # a full disk: the result is shown all the same
            saved["not_reported"] = one_line(error.strerror or error)
    return _answer(result, folder, page, [one for one in trainings if one], saved)


NO_NETWORK = ("always-", "logistic", "gbm-", "xgboost", "lightgbm", "catboost", "metacost")
"""How the names of methods begin that train no network."""


def _workers_ahead(execution: ExecutionOptions, chosen: Sequence[Any]) -> AbstractContextManager[None]:
    """Start worker processes, which import for seconds, while the data are read."""
    if execution.backend != "processes" or execution.n_jobs == 1:
        return nullcontext()
    from adacsl.execution.processes import started_ahead  # noqa: PLC0415  joblib
    from adacsl.execution.threads import cores  # noqa: PLC0415

    networks = not all(word.startswith(NO_NETWORK) for word in chosen if isinstance(word, str))
    modules = ("adacsl.comparison.jobs", *(("adacsl.neural.loop",) if networks else ()))
    return started_ahead(min(cores(), execution.n_jobs or cores()), modules)


def _check_words(task: Task, methods: list[Any], ratios: list[str] | None) -> None:
    """Refuse methods and ratios that do not suit the data, before anything is printed."""
    from adacsl.comparison.protocol import choose_ratios  # noqa: PLC0415
    from adacsl.estimators.registry import choose_methods  # noqa: PLC0415  scikit-learn

    by_row = task.costs.n_instances is not None
    choose_methods(methods, images=task.images, n_classes=task.costs.n_classes, row_costs=by_row)
    choose_ratios(task.costs, ratios)


@contextmanager
def _without_findings() -> Iterator[None]:
    """Silence warnings that the checks have shown."""
    from adacsl.datasets.findings import CheckWarning  # noqa: PLC0415  pandas

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "rows of .* have dates|.*contains dates")
        warnings.simplefilter("ignore", CheckWarning)
        yield


def _asked(*, epochs: int | None, weights: Path | None, device: str, rotate: bool) -> dict[str, Any]:
    """Return the settings of neural networks that are given, by option."""
    asked = {"epochs": epochs, "weights": weights, "device": None if device == "auto" else device}
    return {name: value for name, value in {**asked, "rotate": rotate or None}.items() if value is not None}


def _save(training: Training | None, model: Path, screen: Screen, recommended: str | None) -> dict[str, Any]:
    """Fit the recommended method on all samples and save it; return its folder and the next command, or why not."""
    if recommended is None:
        return {"not_saved": "no method is recommended"}
    if training is None:
        return {"not_saved": f"{recommended} has no name on the command line: fit it in Python"}
    try:
        fitted = training.run(model, screen).document
    except (OSError, ValueError) as error:  # the comparison is shown all the same
        return {"not_saved": one_line(getattr(error, "strerror", None) or error)}
    return {"model": model, "fitted": fitted, "next": fitted["next"]}


def failed_fits(result: Comparison) -> list[dict[str, Any]]:
    """Return the fits without a result, with their errors."""
    from adacsl.comparison.fits import FitKey  # noqa: PLC0415  scikit-learn

    return [
        {name: row[name] for name in FitKey._fields} | {"error": f"{row['type']}: {row['message']}"}
        for row in result.failures.to_dict("records")
    ]


def _default_folder(tasks: list[Task]) -> Path:
    """Return a folder of its own for these data and costs, the same each time."""
    digest = hashlib.sha256("".join(task.digest for task in tasks).encode()).hexdigest()
    return Path("runs") / f"{'+'.join(task.name for task in tasks)[:80]}-{digest[:6]}"


def _answer(result: Comparison, folder: Path, page: Path, trainings: list[Training], saved: dict[str, Any]) -> Answer:
    from adacsl.comparison.model_card import describe_duplicates  # noqa: PLC0415  torch
    from adacsl.comparison.recommendation import INFEASIBLE  # noqa: PLC0415  pandas

    every = failed_fits(result)
    failed = [row for row in every if not row["error"].startswith("InfeasibleError")]
    document = {
        "best": result.best,
        "recommendation": result.recommendation,
        "cost_range": result.cost_range,
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
            for (data, ratio), recommendation in result.recommendations.items()
        ],
        "tolerance": result.tolerance,
        "prefer": result.prefer,
        "intervals": result.intervals,
        "table": result.table.to_dict("records"),
        "stopped": [each._asdict() for each in result.stopped],
        "folder": folder,
        "report": None if "not_reported" in saved else page,
        "train": [training.command() for training in trainings],
        **saved,
        "failed": failed,
        "infeasible": [each._asdict() for each in result.missing if each.reason.startswith(INFEASIBLE)],
        "missing": [each._asdict() for each in result.missing],
        "checks": {name: about.get("checks", []) for name, about in result.facts["data"].items()},
        "left_out": {
            name: {key: about[key] for key in ("unlabelled", "broken") if key in about}
            for name, about in result.facts["data"].items()
        },
        **({"segments": _segments(result)} if any(result.segments.values()) else {}),
        **({"windows": result.windows} if result.windows else {}),
    }
    shown: list[Any] = []
    for (name, ratio), block in result.table.groupby(["data", "ratio"], sort=False):
        classes = result.facts["data"].get(name, {}).get("classes", ())
        costs = f"{len(classes)} classes" if len(classes) > 2 else f"a false negative costs {ratio:g} false positives"
        place: Any = (name, ratio)
        recommended = result.recommendations[place].recommended
        excluded = [own for own in document["infeasible"] if (own["data"], own["ratio"]) == (name, ratio)]
        shown += [f"{name}, {costs}; mean cost per sample", "", _table(block, recommended, excluded), ""]
    copies = {name: describe_duplicates(about) for name, about in result.facts["data"].items()}
    several = len(copies) > 1
    shown += [result.intervals, *(f"{name}: {text}" if several else text for name, text in copies.items() if text), ""]
    shown += [f"window {seed}: {words}" for windows in result.windows.values() for seed, words in windows.items()]
    one = len(result.recommendations) == 1
    advice = next(iter(result.recommendations.values())).brief if one else result.recommendation
    shown += ["", advice] if result.windows else [advice]
    if result.cost_range:
        shown += ["", result.cost_range]
    shown += [line for part in _segments(result) for line in _by_segment(part)]
    if failed:
        shown += ["", *_failures(failed)]
    shown += ["", *_ending(page, trainings, saved)]
    return Answer(document, tuple(shown), code=1 if failed or {"not_saved", "not_reported"} & set(saved) else 0)


def _ending(page: Path, trainings: list[Training], saved: dict[str, Any]) -> list[str]:
    """Return where model and report are, and the next command."""
    written = f"report: {page}"
    if "not_reported" in saved:
        written = f"no report was written: {saved['not_reported']}; once there is room: adacsl report {page.parent}"
    if "model" in saved:
        fitted = saved["fitted"]
        return [
            *(f"{each['severity']}: {each['text']} [{each['code']}]" for each in fitted["model_checks"]),
            f"model: {saved['model']} ({fitted['method']}, fitted on all {fitted['rows']:,} samples)",
            written,
            next_command(saved["next"]),
        ]
    lines = [f"no model was saved: {saved['not_saved']}"] if "not_saved" in saved else []
    return [*lines, written, *(next_command(training.command()) for training in trainings)]


def _segments(result: Comparison) -> list[dict[str, Any]]:
    """Return the cost of the recommended method in each segment, by data set, ratio and column."""
    from adacsl.comparison.segments import tables_of  # noqa: PLC0415  torch

    return [
        {"data": view[0], "ratio": view[1], "column": column, "segments": part.to_dict("records")}
        for view, table in tables_of(result, result.recommendations)
        for column, part in table.groupby("column", sort=False)
    ]


def _by_segment(part: dict[str, Any]) -> list[Any]:
    table = listing(
        str(part["column"]), right=("samples", "cost", "95 % interval", "than the others"), then=("significant",)
    )
    for row in part["segments"]:
        interval = interval_text(row["low"], row["high"])
        more = f"{row['difference']:+.4g}" if row["difference"] == row["difference"] else ""
        significant = SIGNIFICANT.get(row["significance"], row["significance"])
        table.add_row(row["segment"], f"{row['rows']:,}", f"{row['cost']:.4g}", interval, more, significant)
    return ["", f"{part['data']} by {part['column']}, ratio {part['ratio']:g}; mean cost per sample", "", table]


SIGNIFICANT = {
    "no significant difference": "no", "not significant (corrected)": "no (corrected)", "significantly higher": "yes",
    "significant difference": "yes",
}  # fmt: skip
"""Whether a difference is significant, in one word for a table."""


def _table(block: Any, recommended: str | None, infeasible: Sequence[Mapping[str, Any]] = ()) -> Any:
    """Return the methods with their costs; the recommended one is marked."""
    from adacsl.comparison.statistics import CONSTANTS  # noqa: PLC0415  pandas

    rows = block.to_dict("records")
    most = max(row["n"] for row in rows)
    some = any(row["n"] < most for row in rows)  # a method was stopped early, or lacks folds
    right = ("cost", "95 % interval", "vs lowest", *(("folds",) if some else ()))
    table = listing("  method", right=right, then=("significant",))
    for row in sorted(rows, key=lambda row: row["method"] in CONSTANTS):  # constant baselines last
        lowest, unknown = row["significance"] == "lowest cost", row["percent"] != row["percent"]
        increase = "" if lowest or unknown else f"{row['percent']:+.1f} %"
        interval = interval_text(row["low"], row["high"])
        marked = row["method"] == recommended
        significant = SIGNIFICANT.get(row["significance"], str(row["significance"]))
        table.add_row(
            f"{'*' if marked else ' '} {row['method']}", f"{row['mean']:.4g}", interval, increase,
            *((str(row["n"]),) if some else ()), significant,
            style=WINNER if marked else None,
        )  # fmt: skip
    for row in infeasible:
        table.add_row(f"  {row['method']}", "", "", "", *(("",) if some else ()), row["reason"].partition(" (")[0])
    return table


def _failures(failed: list[dict[str, Any]]) -> list[str]:
    from adacsl.comparison.fits import FitKey  # noqa: PLC0415  scikit-learn

    lines = [f"{len(failed)} fits failed; the same command tries them again:"]
    lines += [
        f"  {FitKey(*(row[name] for name in FitKey._fields))}: {one_line(row['error'])}" for row in failed[:NAMED]
    ]
    return [*lines, f"  ... and {len(failed) - NAMED} more"] if len(failed) > NAMED else lines
