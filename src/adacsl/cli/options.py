"""Options that several commands share, and their limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import CycloptsError, Group, Parameter, Token

if TYPE_CHECKING:
    from adacsl.datasets.costs import Costs
    from adacsl.datasets.task import Task


MOST_SPLITS, MOST_WORKERS, MOST_EPOCHS, LARGEST = 1000, 1024, 10**6, 2**31 - 1
"""Nobody means more of these; the last is the largest number of rows, or the like, that all libraries take."""


def within(least: float, most: float = LARGEST) -> Parameter:
    """Return how the number of an option is read: finite, whole where its type is, and within these ends."""

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
"""Rows of a table that are held in memory, unless --batch-rows says otherwise."""


Seed: TypeAlias = Annotated[int, within(0, 2**32 - 1)]
Side: TypeAlias = Annotated[int | None, within(1, 10_000)]


Price: TypeAlias = Annotated[float | str | None, Parameter(allow_leading_hyphen=True)]


@Parameter(name="*", group=Group("Costs", sort_key=10))
@dataclass(frozen=True)
class Prices:
    """What the outcomes cost, as said on the command line."""

    fn: Price = None
    """Price of a false negative, a missed positive: a number, a range such as 5..20, a column, or an expression over
    columns such as "0.8 * amount + 12" (names with other characters than letters and digits in backticks). A price that
    is known only afterwards is predicted from the row: "model(amount)"; its columns are no features."""

    fp: Price = None
    """Price of a false positive, a false alarm; likewise."""

    tp: Price = None
    """Price of a true positive; default 0. Benefits are negative."""

    tn: Price = None
    """Price of a true negative; default 0."""

    costs: str | None = None
    """CSV file of a cost matrix, for any number of classes: class names on both axes, rows predicted, columns actual
    (`adacsl costs template` writes one to fill in). Or balanced: inverse class frequencies."""

    def __post_init__(self) -> None:
        others = [name for name, value in vars(self).items() if value is not None and name != "costs"]
        if self.costs is not None and others:
            raise ValueError(f"--costs holds all prices: leave out --{others[0]}, or --costs")

    @property
    def given(self) -> bool:
        """Whether anything was said about costs."""
        return self != FREE

    def check(self, *, required: bool = False) -> Prices:
        """Return itself if what a miss and a false alarm cost is said, or nothing is."""
        if self.costs is not None:
            return self
        missing = [name for name in ("fn", "fp") if getattr(self, name) is None]
        if missing and (required or self.given):
            what = " and ".join(f"--{name} {8 if name == 'fn' else 1} (or --{name} COLUMN)" for name in missing)
            raise ValueError(f"say what errors cost: {what} {'are' if len(missing) > 1 else 'is'} missing")
        return self

    @property
    def known(self) -> Costs:
        """The prices by name (some may depend on columns) or as a matrix, None where nothing was said."""
        from adacsl.datasets.costs import read_cost, read_costs  # noqa: PLC0415  pandas

        if self.costs is not None:
            return "balanced" if self.costs == "balanced" else read_costs(self.costs)
        found: dict[str, Any] = {}
        for name in ("fn", "fp", "tp", "tn"):
            said = getattr(self, name)
            try:
                found |= {name: read_cost(said)} if said is not None else {}
            except ValueError as error:
                raise ValueError(f"--{name}: {error}") from None
        return found or None


FREE = Prices()


@Parameter(name="*", group=Group("Reading", sort_key=25))
@dataclass(frozen=True)
class Files:
    """How files are read, as said on the command line, where that is not to be found out."""

    separator: str | None = None
    """Of CSV files, if it is not to be found out: one character, or comma, semicolon, tab, pipe, space."""

    encoding: str | None = None
    """Of CSV files and JSON lines, if it is not to be found out: utf-8, utf-16, cp1252, latin-1, ..."""

    sheet: str | None = None
    """Of a workbook: its name, or its number from 1; default: the first."""

    sql: str | None = None
    """A SELECT in place of the data: over --db, or, without it, over files that it names, by DuckDB."""

    db: Path | None = None
    """DuckDB or SQLite file that --sql asks; it is only read."""

    on_error: Literal["skip", "stop"] = "skip"
    """Rows without a label and pictures that cannot be read: skip (left out, and said) or stop."""

    @property
    def how(self) -> dict[str, Any]:
        """What tables are read with."""
        return {name: getattr(self, name) for name in ("separator", "encoding", "sheet", "sql", "db")}


AS_FOUND = Files()


@Parameter(name="*", group=Group("Data", sort_key=20))
@dataclass(frozen=True)
class Source:
    """What the parts of the data mean, as said on the command line."""

    target: str | None = None
    """Column of the labels; may be left out where it is called target."""

    pos_label: str | None = None
    """Label of the positive class, whose misses cost --fn; 0/1, -1/1 and false/true need no naming."""

    group_column: str | None = None
    """Rows with the same value (patient, customer) are never torn apart by a split."""

    drop: tuple[str, ...] = ()
    """Columns that are no features: they give the answer away, or only name the row."""

    image_size: Side = None
    """Side to which pictures are resized; default 64 for folders."""

    folder: Path | None = None
    """Where the files of built-in data sets are; default: the folder that ADACSL_DATA names."""

    files: Files = AS_FOUND

    def load(self, data: str | None, prices: Prices, **known: Any) -> Task:
        """Read the data and their costs, which may be ``known`` already."""
        from adacsl.datasets.loading import load_task  # noqa: PLC0415  pandas

        said = {"costs": prices.check().known} | vars(self) | {"drop": split_words(self.drop)} | known
        del said["files"]
        return load_task(data, **said, **vars(self.files))


ANY = Source()


@Parameter(name="*", group=Group("Time", sort_key=30))
@dataclass(frozen=True)
class Times:
    """When rows were, as said on the command line."""

    time_column: str | None = None
    """Column that says when each row was: dates such as 2024-03-31, or numbers; no feature. The past trains, later rows
    adapt and select, the latest are tested on; nothing is shuffled."""

    gap: str | None = None
    """Rows so close before a cut are left out: 12h, 7d, 2w, 3mo, or a number where the column holds numbers."""

    label_delay: str | None = None
    """A label is known only so long after its row, such as 30d: until then a row neither trains nor adapts."""

    def __post_init__(self) -> None:
        if self.time_column is None and (self.gap or self.label_delay):
            raise ValueError("--gap and --label-delay speak of times: say which column holds them, --time-column NAME")
        if self.gap or self.label_delay:
            from adacsl.datasets.time import Duration  # noqa: PLC0415  pandas

            Duration.read(self.gap, "--gap")
            Duration.read(self.label_delay, "--label-delay")

    def check(self, when: Any) -> None:
        """Refuse durations that do not fit the times of the rows."""
        from adacsl.datasets.time import Duration  # noqa: PLC0415  pandas

        for name, said in (("--gap", self.gap), ("--label-delay", self.label_delay)):
            if said:
                Duration.read(said, name).after(when[:1], name)


NEVER = Times()


@Parameter(name="*", group=Group("Evidence", sort_key=40))
@dataclass(frozen=True)
class Judging:
    """How much evidence a comparison gathers, and how it is judged, as said on the command line."""

    repeats: Annotated[int, within(1, MOST_SPLITS)] = 2
    """How often the rows are cut into folds anew; more repeats later go on from what is there."""

    folds: Annotated[int, within(2, MOST_SPLITS)] = 5
    """Into how many parts: each is tested on once in every repeat, by models of the others. Of rows with a time: how
    many test windows, one after another, the latest first; these have no repeats."""

    tolerance: Annotated[float, within(-LARGEST)] = 0.1
    """The share of the lowest cost that a simpler method may cost more to be recommended; 0.1: 10 %."""

    prefer: Literal["cost", "simple"] = "cost"
    """cost: a simpler method is recommended only without a significant difference from the lowest cost. simple: the
    simplest method within the tolerance, even where it costs significantly more."""

    baseline_column: str | None = None
    """Column with your current decisions (labels, or 0 and 1), or scores from 0 to 1 (threshold 0.5). Excluded from the
    features; shown as the method `baseline`, and the saving is measured against it. Without it: the better of threshold
    0.5 and the best constant decision."""

    seeds: Annotated[str | None, Parameter(show=False)] = None
    """Gone."""

    def __post_init__(self) -> None:
        if self.seeds is not None:
            raise ValueError(
                "--seeds is gone: rows are cut into folds, and each is tested on; give --repeats and --folds (default "
                "2 and 5; more repeats make it more certain)"
            )
        if not 0 <= self.tolerance < 1:
            raise ValueError(
                f"--tolerance is a share of the cost from 0 to below 1, such as 0.1; got {self.tolerance:g}"
            )


USUAL = Judging()


@Parameter(name="*", group=Group("Checks", sort_key=60))
@dataclass(frozen=True)
class Checking:
    """What is not to be said about data and models."""

    ignore: tuple[str, ...] = ()
    """Codes of checks to say nothing about, such as duplicate-rows,few-rows (docs/checks.md lists them)."""

    def __post_init__(self) -> None:
        if self.ignore:
            from adacsl.datasets.findings import known_codes  # noqa: PLC0415  pandas

            known_codes(split_words(self.ignore))

    @property
    def codes(self) -> list[str]:
        """The codes, one by one."""
        return split_words(self.ignore)


ALL = Checking()


@Parameter(name="*", group=Group("Report", sort_key=50))
@dataclass(frozen=True)
class Showing:
    """How the report speaks, as said on the command line."""

    unit: str = ""
    """What costs are counted in, such as EUR."""

    volume: Annotated[float | None, within(0, 1e15)] = None
    """How many decisions are made in a year, such as 50000: money is shown per year too."""

    people: str = "samples"
    """What samples are called, such as customers."""

    def __post_init__(self) -> None:
        if self.volume is not None and not 0 < self.volume < float("inf"):
            raise ValueError(f"--volume is a number of decisions per year above 0, such as 50000; got {self.volume:g}")


ALIKE = Showing()


@Parameter(name="*", group=Group("Where to train", sort_key=45))
@dataclass(frozen=True)
class Place:
    """Where members of an ensemble are trained, as said on the command line."""

    backend: Literal["processes", "ray"] = "processes"
    """processes: on this machine. ray: a cluster."""

    address: str | None = None
    """Of the Ray cluster, host:port or auto; default: local, one on this machine for this fit."""

    n_jobs: Annotated[int | None, within(1, MOST_WORKERS)] = None
    """How many members at once, default: as many as have room."""

    gpus: Annotated[float, within(0, MOST_WORKERS)] = 0.0
    """GPUs that each worker asks Ray for, such as 0.25."""

    def __post_init__(self) -> None:
        for name in ("address", "gpus") if self.backend != "ray" else ():
            if getattr(self, name):
                raise ValueError(f"--{name} is for --backend ray")

    @property
    def trainer(self) -> dict[str, Any]:
        """What Python's ``trainer=`` is told; nothing where nothing was said."""
        return {
            option.name: value for option in fields(self) if (value := getattr(self, option.name)) != option.default
        }


HERE = Place()


def split_words(words: Iterable[str] | None) -> list[str]:
    """Return words that came one by one or with commas between them.

    >>> split_words(["net,adacsl", "smote"])
    ['net', 'adacsl', 'smote']
    """
    return [word.strip() for part in words or () for word in part.split(",") if word.strip()]


def net_settings(epochs: int | None, weights: Path | None, *, rotate: bool) -> dict[str, Any]:
    """Return what was said about nets as Python's ``net=`` has it; refuse at once what would make every net fail."""
    if weights is not None and not weights.is_file():
        raise FileNotFoundError(f"there is no file {weights} of weights")
    said: dict[str, Any] = {"epochs": epochs, "weights": None if weights is None else str(weights)}
    if rotate:
        from adacsl.torch.augmentation import Augment  # noqa: PLC0415  torch

        said["augment"] = Augment(rotate=True)
    return {name: value for name, value in said.items() if value is not None}


def as_words(said: Prices | Source | Times | Files | Checking) -> list[str]:
    """Return options as they would be typed.

    >>> as_words(Prices(fn="8", fp="price"))
    ['--fn', '8', '--fp', 'price']
    """
    words: list[str] = []
    for option in fields(said):
        value = getattr(said, option.name)
        if isinstance(value, Files):
            words += as_words(value)
        elif value != option.default:
            words += [f"--{option.name.replace('_', '-')}", _typed(value)]
    return words


def _typed(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def hidden_text(task: Task) -> str | None:
    """Return which columns are no features, as they hold a price that is to be predicted."""
    hidden = () if task.cost_spec is None else task.cost_spec.hidden
    if not hidden:
        return None
    named = ", ".join(map(repr, hidden))
    return f"the price of {named} is known only afterwards: it is predicted from the row, and no feature"


def task_text(task: Task) -> str:
    """Return how many rows there are, and of what, for people."""
    return rows_text([int((task.y == number).sum()) for number in range(len(task.classes))], task.classes)


def rows_text(counts: Sequence[int], classes: Sequence[str]) -> str:
    """Return how many rows there are, and of what, by the number of each class."""
    if len(classes) > 2:
        return f"{sum(counts)} rows of {len(classes)} classes"
    return f"{sum(counts)} rows, {counts[1]} of them positive ({classes[1]})"


def interval_text(low: float, high: float) -> str:
    """Return an interval for a table."""
    return f"[{low:.4g}, {high:.4g}]"
