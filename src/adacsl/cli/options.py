"""Options that several commands share, their limits and the panels of the help."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import CycloptsError, Group, Parameter, Token

from adacsl.base.extras import requires

if TYPE_CHECKING:
    from adacsl.datasets.costs import Costs
    from adacsl.datasets.task import Task
    from adacsl.neural.learner import NeuralLearner


MOST_SPLITS, MOST_WORKERS, MOST_EPOCHS, LARGEST = 1000, 1024, 10**6, 2**31 - 1
"""Upper limits of options; the last is the largest number of rows, or the like, that all libraries take."""


def advanced(subject: str, order: int) -> Group:
    """Return a panel of the help for options that few users need; it stands below the basic ones."""
    return Group(f"Advanced: {subject}", sort_key=100 + order)


ADVANCED_COSTS, ADVANCED_DATA, ADVANCED_READING, ADVANCED_TIME, ADVANCED_DECISIONS = (
    advanced("costs", 0), advanced("data", 1), advanced("reading files", 2), advanced("time", 3),
    advanced("decisions", 4),
)  # fmt: skip
EXECUTION = Group("Execution", sort_key=45)
ADVANCED_METHODS, ADVANCED_TRAINING, ADVANCED_EXECUTION, ADVANCED_RESULTS, ADVANCED_REPORT = (
    advanced("methods and ratios", 5), advanced("training", 6), advanced("execution", 7),
    advanced("recommendation and checks", 8), advanced("report", 9),
)  # fmt: skip


def within(least: float, most: float = LARGEST) -> Parameter:
    """Return a parameter that reads a finite number between two bounds, a whole one where the type is int."""

    def read(kind: type, tokens: Sequence[Token]) -> float:
        option, word = tokens[0].keyword, tokens[0].value
        try:
            value: float = int(word) if kind is int else float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise CycloptsError(msg=f"{option} must be a {'whole ' * (kind is int)}number, got {word!r}")
        if not least <= value <= most:
            end = f"at least {least:g}" if value < least else f"at most {most:.17g}"
            raise CycloptsError(msg=f"{option} must be {end}, got {word}")
        return value

    return Parameter(converter=read)


BATCH_ROWS = 1_000_000
"""Rows of a table that are held in memory; --batch-rows overrides it."""


Seed: TypeAlias = Annotated[int, Parameter(group=ADVANCED_TRAINING), within(0, 2**32 - 1)]
Device: TypeAlias = Annotated[str, Parameter(group=ADVANCED_EXECUTION)]
Module: TypeAlias = Annotated[str | None, Parameter(group=ADVANCED_EXECUTION)]
BatchRows: TypeAlias = Annotated[int, Parameter(group=ADVANCED_READING), within(1)]
Folder: TypeAlias = Annotated[Path | None, Parameter(group=ADVANCED_DATA)]
Cost: TypeAlias = Annotated[float | str | None, Parameter(allow_leading_hyphen=True)]
CorrectCost: TypeAlias = Annotated[float | str | None, Parameter(allow_leading_hyphen=True, group=ADVANCED_COSTS)]


@Parameter(name="*", group=Group("Costs", sort_key=10))
@dataclass(frozen=True)
class CostOptions:
    """Cost specification on the command line."""

    fn: Cost = None
    """Cost of a false negative: a number, a range such as 5..20, a column, or an expression over columns such as
    "0.8 * amount + 12" (names with other characters than letters and digits in backticks). A cost that is unknown at
    prediction time is predicted from the sample: "model(amount)"; its columns are excluded from the features."""

    fp: Cost = None
    """Cost of a false positive; likewise."""

    tp: CorrectCost = None
    """Cost of a true positive; default: 0. Benefits are negative."""

    tn: CorrectCost = None
    """Cost of a true negative; default: 0."""

    costs: str | None = None
    """CSV file of a cost matrix, for any number of classes: class names on both axes, rows predicted, columns actual
    (`adacsl check DATA --write-costs` writes a template). Or balanced: inverse class frequencies."""

    def __post_init__(self) -> None:
        others = [name for name, value in vars(self).items() if value is not None and name != "costs"]
        if self.costs is not None and others:
            raise ValueError(f"--costs holds all costs: omit --{others[0]}, or --costs")

    @property
    def given(self) -> bool:
        """Whether any cost is given."""
        return self != COST_DEFAULTS

    def check(self, *, required: bool = False) -> CostOptions:
        """Return itself if both kinds of error have a cost, or no cost is given."""
        if self.costs is not None:
            return self
        missing = [name for name in ("fn", "fp") if getattr(self, name) is None]
        if missing and (required or self.given):
            what = " and ".join(f"--{name} {8 if name == 'fn' else 1} (or --{name} COLUMN)" for name in missing)
            raise ValueError(f"give the costs of errors: {what} {'are' if len(missing) > 1 else 'is'} missing")
        return self

    @property
    def known(self) -> Costs:
        """The costs by name (some may depend on columns) or as a matrix, None where none is given."""
        from adacsl.datasets.costs import read_cost, read_costs  # noqa: PLC0415  pandas

        if self.costs is not None:
            return "balanced" if self.costs == "balanced" else read_costs(self.costs)
        costs: dict[str, Any] = {}
        for name in ("fn", "fp", "tp", "tn"):
            text = getattr(self, name)
            try:
                costs |= {name: read_cost(text)} if text is not None else {}
            except ValueError as error:
                raise ValueError(f"--{name}: {error}") from None
        return costs or None


COST_DEFAULTS = CostOptions()


@Parameter(name="*", group=ADVANCED_READING)
@dataclass(frozen=True)
class ReadingOptions:
    """How files are read, where that cannot be inferred."""

    separator: str | None = None
    """Separator of CSV files: one character, or comma, semicolon, tab, pipe, space; default: inferred."""

    encoding: str | None = None
    """Encoding of CSV files and JSON lines: utf-8, utf-16, cp1252, latin-1, ...; default: inferred."""

    sheet: str | None = None
    """Sheet of a workbook: its name, or its number from 1; default: the first."""

    sql: str | None = None
    """A SELECT in place of DATA: over --db, or, without it, over files that it names, by DuckDB."""

    db: Path | None = None
    """DuckDB or SQLite database that --sql queries; it is only read."""

    on_error: Literal["skip", "stop"] = "skip"
    """Samples without a label and unreadable images: skip (with a warning) or stop."""

    @property
    def how(self) -> dict[str, Any]:
        """The arguments of the readers."""
        return {name: getattr(self, name) for name in ("separator", "encoding", "sheet", "sql", "db")}


READING_DEFAULTS = ReadingOptions()


@Parameter(name="*", group=Group("Reference scores", sort_key=20))
@dataclass(frozen=True)
class ScoreOptions:
    """What the columns of reference scores mean."""

    score_column: str | None = None
    """Column of the scores, in both tables. Default: `score`, or a guess where there are two columns."""

    label_column: str | None = None
    """Column of the labels of the reference scores. Default: `label`, or a guess where there are two columns."""

    pos_label: str | None = None
    """Label of the positive class; default: 1 or true where the labels are 0/1, -1/1 or false/true."""


SCORE_DEFAULTS = ScoreOptions()


@Parameter(name="*", group=Group("Data", sort_key=20))
@dataclass(frozen=True)
class DataOptions:
    """What the columns of the data mean."""

    target: str | None = None
    """Column of the labels; default: target."""

    pos_label: str | None = None
    """Label of the positive class; default: 1 or true where the labels are 0/1, -1/1 or false/true."""

    group_column: str | None = None
    """Samples with the same value (patient, customer) are never split across folds."""

    drop: tuple[str, ...] = ()
    """Columns to exclude from the features, with commas between them: target leakage, identifiers."""

    image_size: Annotated[int | None, Parameter(group=ADVANCED_DATA), within(1, 10_000)] = None
    """Side to which images are resized; default: 64 for folders."""

    folder: Folder = None
    """Folder of the files of built-in data sets; default: the folder that ADACSL_DATA names."""

    files: ReadingOptions = READING_DEFAULTS

    def load(self, data: str | None, cost_options: CostOptions, **known: Any) -> Task:
        """Read the data and their costs, which may be ``known`` already."""
        from adacsl.datasets.loading import load_task  # noqa: PLC0415  pandas

        given = {"costs": cost_options.check().known} | vars(self) | {"drop": split_words(self.drop)} | known
        del given["files"]
        return load_task(data, **given, **vars(self.files))


DATA_DEFAULTS = DataOptions()


@Parameter(name="*", group=Group("Time", sort_key=30))
@dataclass(frozen=True)
class TimeOptions:
    """Times of the samples."""

    time_column: str | None = None
    """Column of the observation time: dates such as 2024-03-31, or numbers; excluded from the features. Splits follow
    time: early samples train, later ones adapt and select, the latest test; nothing is shuffled."""

    gap: Annotated[str | None, Parameter(group=ADVANCED_TIME)] = None
    """Time before each split whose samples are dropped: 12h, 7d, 2w, 3mo, or a number where the column has numbers."""

    label_delay: Annotated[str | None, Parameter(group=ADVANCED_TIME)] = None
    """Time until the label of a sample is known, such as 30d: until then it neither trains nor adapts."""

    def __post_init__(self) -> None:
        if self.time_column is None and (self.gap or self.label_delay):
            raise ValueError("--gap and --label-delay need the column of the times: give --time-column NAME")
        if self.gap or self.label_delay:
            from adacsl.datasets.time import Duration  # noqa: PLC0415  pandas

            Duration.read(self.gap, "--gap")
            Duration.read(self.label_delay, "--label-delay")

    def check(self, when: Any) -> None:
        """Refuse durations that do not fit the times of the samples."""
        from adacsl.datasets.time import Duration  # noqa: PLC0415  pandas

        for name, text in (("--gap", self.gap), ("--label-delay", self.label_delay)):
            if text:
                Duration.read(text, name).after(when[:1], name)


TIME_DEFAULTS = TimeOptions()


@Parameter(name="*", group=Group("Evaluation", sort_key=40))
@dataclass(frozen=True)
class EvaluationOptions:
    """How a comparison splits the samples, and how it recommends a method."""

    repeats: Annotated[int | None, within(1, MOST_SPLITS)] = None
    """Number of repeats of the cross-validation; more repeats later reuse what is there. Default: 2; 1 from 20,000
    samples."""

    folds: Annotated[int | None, within(2, MOST_SPLITS)] = None
    """Number of folds. With --time-column: the number of test windows, the latest first; these have no repeats.
    Default: 5; 3 from 50,000 samples."""

    racing: Annotated[Literal["auto", "on", "off"], Parameter(group=ADVANCED_METHODS)] = "auto"
    """Do not run methods on further folds that cost significantly more after some. auto: on tables of at least 20,000
    samples, with four or more folds in all."""

    tolerance: Annotated[float, Parameter(group=ADVANCED_RESULTS), within(-LARGEST)] = 0.1
    """The share of the lowest cost that a simpler method may cost more to be recommended; 0.1: 10 %."""

    prefer: Annotated[Literal["cost", "simple"], Parameter(group=ADVANCED_RESULTS)] = "cost"
    """cost: a simpler method is recommended only without a significant difference from the lowest cost. simple: the
    simplest method within the tolerance, even where it costs significantly more."""

    baseline_column: str | None = None
    """Column with your current decisions (labels, or 0 and 1), or scores from 0 to 1 (threshold 0.5). Excluded from the
    features; shown as the method `baseline`, and the saving is measured against it. Without it: the better of threshold
    0.5 and the best constant decision."""

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise ValueError(
                f"--tolerance is a share of the cost from 0 to below 1, such as 0.1; got {self.tolerance:g}"
            )


EVALUATION_DEFAULTS = EvaluationOptions()


@Parameter(name="*", group=ADVANCED_RESULTS)
@dataclass(frozen=True)
class CheckOptions:
    """Checks of data and models to skip."""

    ignore: tuple[str, ...] = ()
    """Codes of checks to skip, such as duplicate-rows,few-rows (docs/guide/diagnose/checks.md lists them)."""

    def __post_init__(self) -> None:
        if self.ignore:
            from adacsl.datasets.findings import known_codes  # noqa: PLC0415  pandas

            known_codes(split_words(self.ignore))

    @property
    def codes(self) -> list[str]:
        """The codes, one by one."""
        return split_words(self.ignore)


CHECK_DEFAULTS = CheckOptions()


LIMITS = ("min_recall", "min_precision", "max_fpr", "max_positive_rate")


def _is_set(options: Any, option: Field[Any]) -> bool:
    return bool(getattr(options, option.name) != option.default)


@Parameter(name="*", group=ADVANCED_DECISIONS)
@dataclass(frozen=True)
class ConstraintOptions:
    """Constraints on the decisions, of two classes."""

    min_recall: Annotated[float | None, within(0, 1)] = None
    """Least share of the positives that are predicted positive, such as 0.9; the threshold is the one of least cost
    that meets it on new data, with --confidence."""

    min_precision: Annotated[float | None, within(0, 1)] = None
    """Least share of positives among the samples predicted positive."""

    max_fpr: Annotated[float | None, within(0, 1)] = None
    """Largest share of the negatives that are predicted positive."""

    max_positive_rate: Annotated[float | None, within(0, 1)] = None
    """Largest share of all samples that are predicted positive."""

    confidence: str = "0.95"
    """Probability that all constraints hold on new data; none: they hold on the samples of the search, without a
    guarantee (needed with groups and sample weights)."""

    @property
    def given(self) -> dict[str, Any] | None:
        """The constraints by name, with their confidence; None where there are none."""
        limits = {name: value for name in LIMITS if (value := getattr(self, name)) is not None}
        if not limits:
            for option in (f"--{each.name.replace('_', '-')}" for each in fields(self) if _is_set(self, each)):
                raise ValueError(f"{option} is that of constraints: give --min-recall 0.9, or omit {option}")
            return None
        try:
            limits["confidence"] = None if self.confidence.lower() == "none" else float(self.confidence)
        except ValueError:
            raise ValueError(
                f"--confidence must be a number between 0 and 1 such as 0.95, or none; got {self.confidence!r}"
            ) from None
        from adacsl.thresholds.constraints import Constraints  # noqa: PLC0415  numpy

        try:
            Constraints.of(limits)
        except ValueError as error:
            text = str(error)
            for name in limits:
                text = text.replace(name + "=None", f"--{name} none") if name in text else text
            first = text.partition(" ")[0]
            raise ValueError(f"--{first.replace('_', '-')}{text.removeprefix(first)}") from None
        return limits

    def check(self, *, groups: bool = False, weights: str | None = None) -> None:
        """Refuse a confidence where samples are not independent, or do not count alike."""
        limits = self.given
        if limits is None or limits["confidence"] is None:
            return
        option = "--group-column" if groups else weights
        if option is not None:
            raise ValueError(
                f"a constraint with confidence needs independent samples that count alike: omit {option}, or take "
                "--confidence none"
            )


CONSTRAINT_DEFAULTS = ConstraintOptions()


@Parameter(name="*", group=ADVANCED_DECISIONS)
@dataclass(frozen=True)
class TrainingConstraintOptions(ConstraintOptions):
    """Constraints on the decisions of models that are trained, of two classes."""

    recall_segments: str | None = None
    """Column within each of whose values --min-recall holds, such as region."""

    certify: Annotated[float, within(0, 1)] = 0.2
    """The share of the samples that certifies the constraints and trains nothing."""

    @property
    def given(self) -> dict[str, Any] | None:
        """The constraints by name, with their confidence; None where there are none."""
        limits = super().given
        if limits is None or self.recall_segments is None:
            return limits
        if self.min_recall is None:
            raise ValueError("--recall-segments is for a recall: give --min-recall 0.9, or omit --recall-segments")
        return limits | {"segments": self.recall_segments}

    def check_column(self, task: Task) -> None:
        """Refuse a column of segments that the features lack."""
        if self.recall_segments is not None:
            from adacsl.datasets.errors import check_column  # noqa: PLC0415  a help text needs none

            columns = list(getattr(task.X, "columns", ()))
            check_column(self.recall_segments, columns, f"--recall-segments: {task.name}")


TRAINING_CONSTRAINT_DEFAULTS = TrainingConstraintOptions()


@Parameter(name="*", group=ADVANCED_REPORT)
@dataclass(frozen=True)
class ReportOptions:
    """Unit, volume and name of samples in the report."""

    unit: str = ""
    """Unit of the costs, such as EUR."""

    volume: Annotated[float | None, within(0, 1e15)] = None
    """Number of decisions per year, such as 50000: the report shows costs per year too."""

    people: str = "samples"
    """Name of the samples, such as customers."""

    def __post_init__(self) -> None:
        if self.volume is not None and not 0 < self.volume < float("inf"):
            raise ValueError(f"--volume is a number of decisions per year above 0, such as 50000; got {self.volume:g}")


REPORT_DEFAULTS = ReportOptions()


@Parameter(name="*", group=ADVANCED_EXECUTION)
@dataclass(frozen=True)
class ExecutionOptions:
    """Where fits run: processes of this machine or a Ray cluster."""

    backend: Literal["processes", "ray"] = "processes"
    """processes: on this machine. ray: a cluster."""

    address: str | None = None
    """Address of the Ray cluster: host:port or auto; default: local, one on this machine for this run."""

    n_jobs: Annotated[int | None, Parameter(group=EXECUTION), within(1, MOST_WORKERS)] = None
    """Number of parallel jobs; default: as many as cores and memory allow."""

    gpus: Annotated[float, within(0, MOST_WORKERS)] = 0.0
    """GPUs per Ray worker, such as 0.25."""

    def __post_init__(self) -> None:
        for name in ("address", "gpus") if self.backend != "ray" else ():
            if getattr(self, name):
                raise ValueError(f"--{name} is for --backend ray")

    @property
    def trainer(self) -> dict[str, Any]:
        """The options that differ from their defaults, by the names of the estimators' parameters."""
        return {
            option.name: value for option in fields(self) if (value := getattr(self, option.name)) != option.default
        }


EXECUTION_DEFAULTS = ExecutionOptions()


def split_words(words: Iterable[str] | None) -> list[str]:
    """Return words that came one by one or with commas between them.

    >>> split_words(["net,adacsl", "smote"])
    ['net', 'adacsl', 'smote']
    """
    return [word.strip() for part in words or () for word in part.split(",") if word.strip()]


def neural_learner(epochs: int | None, weights: Path | None, *, rotate: bool) -> NeuralLearner | None:
    """Return the settings of neural networks, None where none are given; refuse what would make every training fail."""
    if weights is not None and not weights.is_file():
        raise FileNotFoundError(f"there is no file {weights} of weights")
    settings: dict[str, Any] = {"epochs": epochs, "weights": None if weights is None else str(weights)}
    if rotate:
        from adacsl.torch.augmentation import Augment  # noqa: PLC0415  torch

        settings["augment"] = Augment(rotate=True)
    settings = {name: value for name, value in settings.items() if value is not None}
    if not settings:
        return None
    with requires("train"):
        from adacsl.neural.learner import NeuralLearner  # noqa: PLC0415  scikit-learn
    learner: NeuralLearner = NeuralLearner(**settings)
    return learner


def as_words(options: Any) -> list[str]:
    """Return options as they would be typed.

    >>> as_words(CostOptions(fn="8", fp="amount"))
    ['--fn', '8', '--fp', 'amount']
    """
    words: list[str] = []
    for option in fields(options):
        value = getattr(options, option.name)
        if isinstance(value, ReadingOptions):
            words += as_words(value)
        elif value != option.default:
            words += [f"--{option.name.replace('_', '-')}", *([] if value is True else [_typed(value)])]
    return words


def predict_command(model: Path, data: str | None, source: DataOptions, module: str | None = None) -> str:
    """Return the command that predicts data of that source with a saved model (of a network of one's own)."""
    where = [] if source.folder is None else ["--folder", str(source.folder)]
    words = [*([] if data is None else [data]), *where, *as_words(source.files)]
    words += [] if module is None else ["--module", module]
    return shlex.join(["adacsl", "predict", str(model), *words, "--out", "decisions.csv"])


def _typed(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def hidden_text(task: Task) -> str | None:
    """Return which columns are excluded from the features because their cost is predicted."""
    hidden = () if task.cost_spec is None else task.cost_spec.hidden
    if not hidden:
        return None
    named = ", ".join(map(repr, hidden))
    return (
        f"the cost from {named} is unknown at prediction time: it is predicted, and {named} is excluded from the "
        "features"
    )


def task_text(task: Task) -> str:
    """Return the number of samples and of positives as text."""
    return rows_text([int((task.y == number).sum()) for number in range(len(task.classes))], task.classes)


def rows_text(counts: Sequence[int], classes: Sequence[str]) -> str:
    """Return the number of samples as text, from the number of each class."""
    if len(classes) > 2:
        return f"{sum(counts)} samples of {len(classes)} classes"
    return f"{sum(counts)} samples, {counts[1]} of them positive ({classes[1]})"


def interval_text(low: float, high: float) -> str:
    """Return an interval for a table."""
    return f"[{low:.4g}, {high:.4g}]"
