"""The paper's tables and figures from raw data: what to run, running it, and small CSV files that survive anything.

``python -m adacsl.experiments.reproduce`` is the same as ``adacsl reproduce`` for machines that have only what training
needs (no cyclopts, no rich, no plotly).
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from adacsl.datasets.builtin import data_folder
from adacsl.datasets.errors import DataError
from adacsl.datasets.task import Task
from adacsl.experiments import subgroups
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.deciding import mean_ratio
from adacsl.experiments.documents import put
from adacsl.experiments.embedding import as_features, stand_in
from adacsl.experiments.jobs import plan_jobs, run_work
from adacsl.experiments.nets import Training
from adacsl.experiments.paper_figures import FACTORS
from adacsl.experiments.parts import Parts
from adacsl.experiments.pools import Job
from adacsl.experiments.profiles import (
    ABLATIONS,
    CHOICES,
    DEFAULT_PROFILES,
    PROFILES,
    VALIDATION_SHARES,
    WOLF_DOG,
    Profile,
    Source,
    find_source,
    find_weights,
    present_sources,
    quick_task,
    validation_recipes,
)
from adacsl.experiments.protocol import Protocol
from adacsl.experiments.provenance import commit, now, versions
from adacsl.experiments.recipes import Recipe
from adacsl.experiments.runner import Event, RunInterrupted, run
from adacsl.experiments.sheets import EPOCH_COLUMNS, KEY, SHEET_KEYS, SHEETS, Row, Sheet, read_results, read_rows
from adacsl.experiments.store import Store

PARTS = ("table1", "table2", "figure1", "ablations")
FIGURE_METHOD = "adacsl"
FEATURES = "features"
"""The tag of settings whose methods get features instead of pixels."""
ABOUT = "about.json"
"""Beside the CSV files: the calls behind them."""

SECONDS_PER_EPOCH = 1.5 / 15
"""Of an H200 for one epoch of ResNet-18 over 10,000 pictures of 64 x 64, twelve nets side by side: 15 take 1.5 s."""


@dataclass(frozen=True)
class Wishes:
    """What to reproduce, and where; the options of the command.

    Quick ones make do with two seeds, random splits and the smallest and largest k.

    Parameters
    ----------
    parts : tuple of str
        Some of "table1", "table2", "figure1", "ablations".
    data : path, optional
        Folder of the data; default: the one that ADACSL_DATA names.
    datasets : tuple of str
        Of the paper; default: all that are in the folder.
    profiles, splits, methods : tuples of str
        Narrow down what is run; no methods means all of a profile.
    factors : tuple of int
        The k of the costs.
    seeds : int
        How many random splits.
    weights : path, optional
        ImageNet weights of ResNet-18; default: the file in the data folder.
    device, workers
        Where nets train, and how many at a time.
    out : path, optional
        Folder for everything; default: runs/paper, or runs/paper-quick.
    export : path, optional
        Folder for the CSV files; default: ``out``.
    skip_done : tuple of paths
        CSV files of earlier runs, or folders with them: what they hold is taken over and not run again.
    quick : bool
        A few hundred pictures and two epochs: does it all work?
    time_limit : float, optional
        Seconds after which no more results are waited for.
    """

    parts: tuple[str, ...] = PARTS
    data: Path | None = None
    datasets: tuple[str, ...] = ()
    profiles: tuple[str, ...] = DEFAULT_PROFILES
    splits: tuple[str, ...] = ("random", "group")
    methods: tuple[str, ...] = ()
    factors: tuple[int, ...] = FACTORS
    seeds: int = 5
    weights: Path | None = None
    device: str = "auto"
    workers: int | None = None
    out: Path | None = None
    export: Path | None = None
    skip_done: tuple[Path, ...] = ()
    quick: bool = False
    time_limit: float | None = None

    def __post_init__(self) -> None:
        for name, known in (("parts", PARTS), ("profiles", tuple(PROFILES)), ("splits", ("random", "group"))):
            if wrong := [word for word in getattr(self, name) if word not in known]:
                raise ValueError(f"{name} must be some of {', '.join(known)}, got {wrong[0]!r}")
        self._check_numbers()
        known_methods = {*(recipe.name for recipe in all_recipes()), *(choice.name for choice in CHOICES)}
        if wrong := [name for name in self.methods if name not in known_methods]:
            raise ValueError(f"there is no method {wrong[0]!r} here; known: {', '.join(sorted(known_methods))}")
        if self.out is None:
            object.__setattr__(self, "out", Path("runs/paper-quick" if self.quick else "runs/paper"))
        if self.quick:
            smaller: dict[str, Any] = {"seeds": min(self.seeds, 2), "splits": ("random",)}
            smaller["factors"] = tuple(dict.fromkeys((self.factors[0], self.factors[-1])))
            for name, value in smaller.items():
                object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")
        if self.time_limit is not None and not self.time_limit >= 0:
            raise ValueError(f"the time limit must be a number of seconds from 0, got {self.time_limit:g}")
        if not self.factors or min(self.factors) < 1:
            raise ValueError(f"the factors k of the costs must be numbers from 1, got {self.factors!r}")

    @property
    def folder(self) -> Path:
        """The folder for everything."""
        return self.out or Path()

    @property
    def results(self) -> Path:
        """The folder of the CSV files."""
        return self.folder if self.export is None else self.export


def all_recipes() -> list[Recipe]:
    """Return every method of every part."""
    found = [recipe for profile in PROFILES.values() for recipe in (*profile.recipes, *profile.feature_recipes)]
    found += [recipe for recipes in ABLATIONS.values() for recipe in recipes]
    return found + [recipe for share in VALIDATION_SHARES for recipe in validation_recipes(share)]


# what there is to do


@dataclass(frozen=True)
class Setting:
    """Methods under one protocol on one data set: what becomes rows of one CSV file."""

    sheet: str
    dataset: str
    profile: str
    split: str
    protocol: Protocol = field(repr=False)
    recipes: tuple[Recipe, ...] = field(repr=False)
    tag: str = ""

    @property
    def data(self) -> str:
        """The name of the task, fit for a file name."""
        parts = (self.dataset.lower(), self.profile, self.split, self.tag)
        return ".".join(part for part in parts if part)

    def narrowed(self, methods: Sequence[str]) -> Setting:
        """Return the setting with some methods only, and those that these choose among."""
        wanted = {*methods, *(name for choice in CHOICES if choice.name in methods for name in choice.among)}
        return replace(self, recipes=tuple(r for r in self.recipes if r.name in wanted)) if methods else self


def settings_of(wishes: Wishes, sources: Sequence[Source], weights: str | None) -> list[Setting]:
    """Return all settings of the parts that compare methods; what several parts need is there once."""
    found: dict[tuple[str, str], Setting] = {}
    for source in sources:
        for profile in (PROFILES[name] for name in wishes.profiles):
            protocol = profile.for_source(source, weights=weights, device=wishes.device)
            for split in (s for s in profile.splits if s in wishes.splits):
                setting = Setting("table2", source.name, profile.name, split, protocol, profile.recipes)
                if "table2" in wishes.parts:
                    found[setting.sheet, setting.data] = setting
                    if weights is not None and profile.feature_recipes:
                        more = replace(setting, recipes=profile.feature_recipes, tag=FEATURES)
                        found[more.sheet, more.data] = more
                elif "figure1" in wishes.parts and source is sources[0] and split == "random":
                    found[setting.sheet, setting.data] = setting.narrowed([FIGURE_METHOD])
    if "ablations" in wishes.parts and sources:
        for profile in (PROFILES[name] for name in wishes.profiles if name != "paper"):
            for setting in ablation_settings(sources[0], profile, weights=weights, device=wishes.device):
                found[setting.sheet, setting.data] = setting
    chosen = [_quickly(s) if wishes.quick else s for s in (s.narrowed(wishes.methods) for s in found.values())]
    return [setting for setting in chosen if setting.recipes]


def ablation_settings(source: Source, profile: Profile, *, weights: str | None, device: str) -> list[Setting]:
    """Return the variants of AdaCSL on one data set, random splits."""
    protocol = profile.for_source(source, weights=weights, device=device)
    recipes = tuple(recipe for group in ABLATIONS.values() for recipe in group)
    found = [Setting("ablations", source.name, profile.name, "random", protocol, recipes)]
    for share in VALIDATION_SHARES:
        smaller = replace(protocol, validation=share)
        tag = f"validation-{share:g}"
        chosen = validation_recipes(share)
        found.append(Setting("ablations", source.name, profile.name, "random", smaller, chosen, tag))
    return found


QUICK_METHODS: dict[tuple[str, str], tuple[str, ...]] = {
    ("table2", "paper"): ("ce", "ta", "smote", "wce", "adacsl"),
    **{("table2", name): ("ce-bayes", "adacsl", "adacsl-last", "adacsl-cv") for name in PROFILES if name != "paper"},
    **{("ablations", name): ("adacsl-every-25", "adacsl-validation-0.1") for name in PROFILES if name != "paper"},
}


def _quickly(setting: Setting) -> Setting:
    """Return the same with few methods, epochs, pixels and nets."""
    protocol = replace(setting.protocol, epochs=2, batch_size=32, image_size=16, weights=None)
    chosen = setting.narrowed(QUICK_METHODS[setting.sheet, setting.profile]).recipes
    recipes = (replace(r, crossfit=2 if r.crossfit else 0, every=None if r.every is None else 2) for r in chosen)
    return replace(setting, protocol=protocol, recipes=tuple(recipes))


class Planned(NamedTuple):
    """Jobs in the order of their running, and what their cells are in the CSV files."""

    jobs: list[Job]
    places: dict[Cell, tuple[Setting, int]]
    tasks: dict[str, Task]


def plan(wishes: Wishes, settings: Sequence[Setting], tasks: Mapping[str, Task], done: set[tuple[Any, ...]]) -> Planned:
    """Gather what is missing into jobs: all of seed 0 first, then seed 1; within a seed the longest first."""
    jobs: list[Job] = []
    places: dict[Cell, tuple[Setting, int]] = {}
    own = {setting.data: _task_of(setting, tasks[setting.dataset]) for setting in settings}
    for seed in range(wishes.seeds):
        of_seed: list[Job] = []
        for setting in settings:
            task = own[setting.data]
            ratios = {k: float(f"{mean_ratio(task.costs) * k:.6g}") for k in wishes.factors}
            recipes = {recipe.name: recipe for recipe in setting.recipes}
            for job in plan_jobs(
                [task], {task.name: recipes}, {task.name: list(ratios.values())}, [seed], setting.protocol
            ):
                factor = {ratio: k for k, ratio in ratios.items()}
                missing = tuple(c for c in job.cells if _key(setting, factor[c.ratio], c) not in done)
                places |= {cell: (setting, factor[cell.ratio]) for cell in missing}
                if missing:
                    of_seed.append(Job(missing, job.payload))
        jobs += sorted(of_seed, key=lambda job: -_nets(job))
    return Planned(jobs, places, own)


def _task_of(setting: Setting, task: Task) -> Task:
    if setting.tag == FEATURES:
        task = stand_in(task)
    if setting.split == "group" and task.groups is None:
        raise DataError(
            f"{task.name} has no groups here, so it cannot be split by group: take --splits random, or give its map"
        )
    return replace(task, name=setting.data, groups=task.groups if setting.split == "group" else None)


def _key(setting: Setting, k: int, cell: Cell) -> tuple[Any, ...]:
    return (setting.dataset, setting.profile, setting.split, k, cell.recipe, cell.seed)


def _nets(job: Job) -> int:
    recipes = {recipe.name: recipe for recipe in job.payload.recipes}
    nets = [cell for cell in job.cells if recipes[cell.recipe].learner == "net"]
    return sum(training.members for training in {Training.of(recipes[c.recipe], c.ratio) for c in nets})


class Estimate(NamedTuple):
    """How much work a setting is."""

    sheet: str
    data: str
    cells: int
    nets: int
    seconds: float


def estimate(planned: Planned) -> list[Estimate]:
    """Return cells, nets and seconds (of an H200 with twelve nets side by side) of each setting."""
    sums: dict[tuple[str, str], list[float]] = {}
    for job in planned.jobs:
        setting, _ = planned.places[job.cells[0]]
        nets, rows = _nets(job), len(planned.tasks[setting.data].y)
        pixels = ((setting.protocol.image_size or 64) / 64) ** 2
        seconds = nets * int(setting.protocol.epochs) * SECONDS_PER_EPOCH * rows / 10_000 * max(1.0, pixels)
        parts = sums.setdefault((setting.sheet, setting.data), [0, 0, 0.0])
        for i, more in enumerate((len(job.cells), nets, seconds)):
            parts[i] += more
    return [Estimate(*name, int(cells), int(nets), seconds) for name, (cells, nets, seconds) in sums.items()]


# rows


def row_of(result: CellResult, setting: Setting, k: int) -> Row:
    """Return a result as a row of Table 2; the cost is the total over the test rows, as in the paper.

    Divided by their number it is the normalised cost: with inverse priors, calling everything positive costs 1 per row.
    """
    metrics = result.metrics
    numbers = {
        "cost": round(metrics["total_cost"], 3),
        "normalized_cost": round(metrics["cost"], 5),
        "accuracy": round(metrics["accuracy"], 5),
        "epoch": round(metrics["epoch"], 2) if "epoch" in metrics else "",
        "seconds": round(result.seconds, 2),
    }
    return dict(zip(KEY, _key(setting, k, result.cell), strict=True)) | numbers


def chosen_rows(rows: Iterable[Row], held_out: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of methods that choose among others, where all of these were run: least cost on held-out rows."""
    costs = {tuple(row[name] for name in KEY): float(row["validation_cost"]) for row in held_out}
    runs: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        if tuple(row[name] for name in KEY) in costs:
            runs.setdefault(tuple(row[name] for name in KEY if name != "method"), {})[row["method"]] = row
    for methods in runs.values():
        for choice in (c for c in CHOICES if set(c.among) <= set(methods)):
            candidates = [methods[name] for name in choice.among]
            best = min(candidates, key=lambda row: costs[tuple(row[name] for name in KEY)])
            yield best | {"method": choice.name, "seconds": round(sum(row["seconds"] for row in candidates), 2)}


def epochs_of(result: CellResult, setting: Setting, k: int) -> Iterator[Row]:
    """Yield lambda, T_actual and costs of each epoch, for Figure 1."""
    about = dict(zip(KEY, _key(setting, k, result.cell), strict=True))
    for step in result.history:
        yield about | {name: round(step[name], 5) if name in step else "" for name in EPOCH_COLUMNS[len(KEY) :]}


# running it


@dataclass(frozen=True)
class Reproduced:
    """What came of it."""

    folder: Path
    files: tuple[Path, ...]
    done: int  # rows this run added
    total: int  # rows it was to add
    failed: tuple[str, ...] = ()
    stopped: bool = False  # the time limit was reached
    seconds: float = 0.0


Tell = Callable[[Event], object]


def prepare(wishes: Wishes) -> tuple[Planned, dict[str, Task]]:
    """Load the data and plan what is missing."""
    sources = _sources(wishes)
    weights = find_weights(wishes.weights, wishes.data)
    if weights is None and not wishes.quick:
        warnings.warn(
            "no ImageNet weights were found, so the nets start from random ones and costs will be higher than the "
            "paper's: name the file, --weights FILE",
            stacklevel=2,
        )
    if wishes.quick:
        tasks = {source.name: replace(quick_task(None if source is MADE_UP else source, wishes.data), name=source.name)
                 for source in sources}  # fmt: skip
    else:
        tasks = {source.name: source.load(wishes.data) for source in sources}
    settings = settings_of(wishes, sources, weights)
    earlier = read_results(*wishes.skip_done)
    done = {tuple(row[name] for name in KEY) for name in ("table2", "ablations") for row in earlier[name]}
    return plan(wishes, settings, tasks, done), tasks


MADE_UP = Source("made-up", "ham10k", None, (), False)


def _sources(wishes: Wishes) -> list[Source]:
    here = data_folder(wishes.data)
    if here is not None and not here.is_dir():
        raise DataError(f"there is no folder {here} of data: name the one that holds the paper's data, --data DIR")
    if wishes.datasets:
        return [find_source(name) for name in dict.fromkeys(wishes.datasets)]
    found = present_sources(wishes.data)
    if wishes.quick:
        return found[:1] or [MADE_UP]
    if not found:
        raise DataError(
            f"none of the paper's data sets is in {here}: see the page of the documentation about the paper's data"
            if here
            else "say where the paper's data are: --data DIR, or the environment variable ADACSL_DATA"
        )
    return found


def reproduce(wishes: Wishes, *, tell: Tell | None = None, command: str = "") -> Reproduced:
    """Run what is missing, and write CSV files as results come."""
    begin = time.monotonic()
    planned, tasks = prepare(wishes)
    device = _device_name(wishes.device)  # asked now: a shared GPU may refuse new clients once workers were cut off
    calls, earlier = _earlier_calls(wishes), read_results(*wishes.skip_done)
    sheets = {name: Sheet(wishes.results / f"{name}.csv", SHEETS[name], key=SHEET_KEYS[name]) for name in SHEETS}
    for name, sheet in sheets.items():
        here = read_rows(sheet.path) if sheet.path.exists() else []
        sheet.start([*earlier[name], *here])
    before = {name: len(sheet.rows) for name, sheet in sheets.items()}
    failed, stopped = _run_cells(wishes, planned, tasks, sheets, tell, begin)
    added = sum(len(sheets[name].rows) - before[name] for name in ("table2", "ablations"))
    for row in list(chosen_rows(sheets["table2"].rows.values(), sheets["held_out"].rows.values())):
        sheets["table2"].add(row)
    if "table1" in wishes.parts and not stopped:
        _run_table1(wishes, tasks, sheets["table1"])
    for sheet in sheets.values():
        if sheet.rows:
            sheet.write()
    seconds = time.monotonic() - begin
    call = {"command": command, "date": now()[:10], "device": device, "seconds": round(seconds, 1)}
    calls.append(call | {"commit": commit(), "versions": versions()})
    put(wishes.results / ABOUT, f"{json.dumps(calls, indent=1)}\n".encode(), replace=True)
    files = tuple(sheet.path for sheet in sheets.values() if sheet.rows)
    return Reproduced(wishes.results, files, added, len(planned.places), failed, stopped, seconds)


def _run_cells(
    wishes: Wishes,
    planned: Planned,
    tasks: Mapping[str, Task],
    sheets: Mapping[str, Sheet],
    tell: Tell | None,
    begin: float,
) -> tuple[tuple[str, ...], bool]:
    if not planned.jobs:
        return (), False
    stopped = False
    with Store.open(wishes.folder / "store", _identity(planned, quick=wishes.quick)) as store:

        def note(event: Event) -> None:
            if event.kind in ("kept", "done"):
                _export(store.read(event.cells[0]), planned, sheets)
            if tell is not None:
                tell(event)

        try:
            tasks = _with_features(planned, tasks, wishes.device)
            left = None if wishes.time_limit is None else wishes.time_limit - (time.monotonic() - begin)
            work = functools.partial(run_work, parts=Parts(store.folder / "parts"))
            run(planned.jobs, work, store, shared=tasks, workers=wishes.workers, seconds=left, on_event=note)
        except RunInterrupted:
            stopped = wishes.time_limit is not None and time.monotonic() - begin >= wishes.time_limit
            if not stopped:
                raise
            for cell in planned.places:  # what jobs that were cut off had done already
                if store.has(cell):
                    _export(store.read(cell), planned, sheets)
        failures = store.failures()
    wanted = {tuple(cell) for cell in planned.places}
    failed = [
        f"{Cell(*row[:4])}: {row[4]}: {row[5]}"
        for row in failures.to_numpy().tolist()  # the columns of Cell, then those of Failure
        if tuple(row[:4]) in wanted
    ]
    return tuple(failed), stopped


def _with_features(planned: Planned, tasks: Mapping[str, Task], device: str) -> dict[str, Task]:
    """Return the tasks of all settings, with the features that some of them need computed."""
    found = dict(planned.tasks)
    wanted = {setting.data: setting for setting, _ in planned.places.values() if setting.tag == FEATURES}
    features: dict[str, Task] = {}
    for setting in wanted.values():
        if setting.dataset not in features:
            features[setting.dataset] = as_features(
                tasks[setting.dataset], str(setting.protocol.weights), device=device
            )
        found[setting.data] = replace(found[setting.data], X=features[setting.dataset].X)
    return found


def _export(result: CellResult, planned: Planned, sheets: Mapping[str, Sheet]) -> None:
    setting, k = planned.places[result.cell]
    sheets[setting.sheet].add(row_of(result, setting, k))
    if setting.sheet == "table2" and math.isfinite(result.metrics["validation_cost"]):
        about = dict(zip(KEY, _key(setting, k, result.cell), strict=True))
        sheets["held_out"].add(about | {"validation_cost": round(result.metrics["validation_cost"], 6)})
    if setting.sheet == "table2" and result.cell.recipe == FIGURE_METHOD:
        for row in epochs_of(result, setting, k):
            sheets["figure1"].add(row)


def _identity(planned: Planned, *, quick: bool) -> dict[str, Any]:
    """Return what results depend on: each setting's data and protocol. Weights are the same wherever they lie."""
    protocols = {setting.data: setting.protocol for setting, _ in planned.places.values()}
    about = {}
    for name, protocol in protocols.items():
        conditions = protocol.identity()
        conditions["weights"] = None if protocol.weights is None else Path(protocol.weights).name
        task = planned.tasks[name]
        about[name] = {"digest": task.digest, "rows": len(task.y), "protocol": conditions}
    return {"data": about, "quick": quick}


def _run_table1(wishes: Wishes, tasks: Mapping[str, Task], sheet: Sheet) -> None:
    """Run the illustration of Table 1 on wolves and dogs, or on the nearest balanced task there is."""
    wolves = WOLF_DOG.place(data_folder(wishes.data)) is not None and not wishes.quick
    task = WOLF_DOG.load(wishes.data) if wolves else next(iter(tasks.values()))
    small: dict[str, Any] = {"image_size": 16, "per_class": (12, 6)} if wishes.quick else {}
    weights = None if wishes.quick else find_weights(wishes.weights, wishes.data)
    done = {(row["dataset"], row["seed"]) for row in sheet.rows.values()}
    for seed in range(wishes.seeds):
        if (task.name, seed) not in done:
            for row in subgroups.two_epochs(task, seed=seed, weights=weights, device=wishes.device, **small):
                sheet.add({name: round(v, 5) if isinstance(v, float) else v for name, v in row.items()})


def _device_name(wish: str) -> str:
    import torch  # noqa: PLC0415  loaded long before

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() and wish != "cpu" else "cpu"


def _earlier_calls(wishes: Wishes) -> list[dict[str, Any]]:
    """Return the calls behind the files that are there already, or taken over: command, device, date."""
    calls: list[dict[str, Any]] = []
    for path in dict.fromkeys((wishes.results / ABOUT, *(folder / ABOUT for folder in wishes.skip_done))):
        if not path.is_file():
            continue
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{path} is no list of earlier calls ({error}): move it away") from error
        calls += [call for call in found if call not in calls]
    return calls


# without the command line


def parts_of(what: str) -> tuple[str, ...]:
    """Return the parts a word stands for."""
    return PARTS if what == "all" else (what,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``python -m adacsl.experiments.reproduce``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = vars(_parser().parse_args(words))
    what, show_plan, render = options.pop("what"), options.pop("plan"), options.pop("render")
    names = {f.name for f in dataclasses.fields(Wishes)}
    given = {name: value for name, value in options.items() if name in names and value is not None}
    for name, value in given.items():
        given[name] = tuple(value) if isinstance(value, list) else value
    wishes = Wishes(parts=parts_of(what), **given)
    if show_plan:
        _say(*plan_lines(estimate(prepare(wishes)[0])))
        return 0
    line = command_line("python", "-m", "adacsl.experiments.reproduce", *words)
    found = reproduce(wishes, tell=_Lines(), command=line)
    _say(f"{found.done} of {found.total} rows in {found.seconds:.0f} s", *map(str, found.files), *found.failed)
    if render:
        from adacsl.experiments.paper_report import write_report  # noqa: PLC0415

        _say(*map(str, write_report(wishes.results, wishes.folder)))
    return 1 if found.failed else 0


def command_line(*words: str) -> str:
    """Return a command as it can be shown to others: of absolute paths only the last part.

    Examples
    --------
    >>> command_line("adacsl", "reproduce", "all", "--data", "/home/me/my data")
    "adacsl reproduce all --data 'my data'"
    """
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in words)


def plan_lines(estimates: Sequence[Estimate]) -> list[str]:
    """Return the plan as a table of text."""
    width = max([len(f"{e.sheet} {e.data}") for e in estimates], default=10)
    lines = [f"{'part':<{width}}  cells  nets  seconds on an H200"]
    lines += [f"{e.sheet + ' ' + e.data:<{width}}  {e.cells:5d}  {e.nets:4d}  {e.seconds:7.0f}" for e in estimates]
    cells, nets, seconds = (sum(getattr(e, name) for e in estimates) for name in ("cells", "nets", "seconds"))
    return [*lines, f"{'all':<{width}}  {cells:5d}  {nets:4d}  {seconds:7.0f}"]


class _Lines:
    """A line now and then: how far it is."""

    def __init__(self) -> None:
        self._begin = self._said = time.monotonic()

    def __call__(self, event: Event) -> None:
        if event.kind == "failed":
            _say(f"failed: {event.cells[0]}: {event.message}")
        if event.kind in ("start", "end") or time.monotonic() - self._said > 10.0:
            self._said = time.monotonic()
            _say(f"{event.done} / {event.total} cells, {self._said - self._begin:.0f} s")


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m adacsl.experiments.reproduce", description=__doc__)
    parser.add_argument("what", choices=(*PARTS, "all"))
    parser.add_argument("--data", type=Path, help="folder of the data")
    parser.add_argument("--datasets", nargs="+", metavar="NAME")
    parser.add_argument(
        "--profile", dest="profiles", type=lambda t: both(t, DEFAULT_PROFILES), help=f"{', '.join(PROFILES)}, both"
    )
    parser.add_argument("--splits", type=lambda t: both(t, ("random", "group")), help="random, group, both")
    parser.add_argument("--methods", nargs="+", metavar="NAME")
    parser.add_argument("--factors", nargs="+", type=int, metavar="K")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--export", type=Path, help="folder for the CSV files, written as results come")
    parser.add_argument("--skip-done", nargs="+", type=Path, metavar="CSV")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--plan", action="store_true", help="only say how much there is to do")
    parser.add_argument("--render", action="store_true", help="write the tables and pictures too")
    return parser


def both(word: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return what "both" stands for."""
    return known if word == "both" else (word,)


if __name__ == "__main__":
    sys.exit(main())
