"""The paper's tables and figures from raw data: run what is missing, and keep small CSV files."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from adacsl import Task, __version__
from adacsl.comparison.fits import FitKey, FitResult
from adacsl.comparison.jobs import run_jobs
from adacsl.comparison.runner import Event, RunInterrupted
from adacsl.comparison.store import Store, commit
from adacsl.datasets import DataError, data_folder
from paper.embedding import as_features
from paper.methods import CHOICES, protocol_identity
from paper.options import Options
from paper.planning import (
    FEATURES,
    FIGURE_METHOD,
    Planned,
    Setting,
    key_of,
    patients_of_both,
    plan,
    possible,
    settings_of,
)
from paper.sheets import EPOCH_COLUMNS, KEY, SHEET_KEYS, SHEETS, Row, Sheet, read_results, read_rows, replace_text
from paper.sources import MADE_UP, WOLF_DOG, Source, find_source, find_weights, present_sources, quick_task
from paper.subgroups import two_epochs

ABOUT = "about.json"
"""Beside the CSV files: the calls behind them."""
OnEvent = Callable[[Event], object]
"""Gets what happens in a run, for a progress bar."""


# rows


def row_of(result: FitResult, setting: Setting, k: int) -> Row:
    """Return a result as a row of Table 2; the cost is the total over the test samples, as in the paper.

    Divided by their number it is the normalised cost: with inverse priors, calling everything positive costs 1.
    """
    metrics = result.metrics
    numbers = {
        "cost": round(metrics["total_cost"], 3),
        "normalized_cost": round(metrics["cost"], 5),
        "accuracy": round(metrics["accuracy"], 5),
        "epoch": "" if setting.tag == FEATURES else round(metrics["epoch"], 2),
        "seconds": round(result.seconds, 2),
    }
    return dict(zip(KEY, key_of(setting, k, result.fit), strict=True)) | numbers


def chosen_rows(rows: Iterable[Row], held_out: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of methods that choose among others, where all of these were run: least held-out cost."""
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


def epochs_of(result: FitResult, setting: Setting, k: int) -> Iterator[Row]:
    """Yield lambda, T_actual and costs of each epoch, for Figure 1."""
    about = dict(zip(KEY, key_of(setting, k, result.fit), strict=True))
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


def prepare(options: Options) -> tuple[Planned, dict[str, Task]]:
    """Load the data and plan what is missing."""
    sources = _sources(options)
    weights = find_weights(options.weights, options.data)
    if weights is None and not options.quick:
        warnings.warn(
            "no ImageNet weights were found, so the networks start from random ones and costs will be higher than the "
            "paper's: name the file, --weights FILE",
            stacklevel=2,
        )
    settings_of(options, sources, weights)  # methods without a match are refused before anything is loaded
    tasks = _load(options, sources)
    settings = possible(settings_of(options, [s for s in sources if s.name in tasks], weights), tasks)
    earlier = read_results(*options.skip_done)
    done = {tuple(row[name] for name in KEY) for name in ("table2", "ablations") for row in earlier[name]}
    return plan(options, settings, tasks, done), tasks


def _load(options: Options, sources: Sequence[Source]) -> dict[str, Task]:
    """Return the tasks by name; a data set that nobody named and that cannot be read is skipped with a warning."""
    tasks: dict[str, Task] = {}
    errors: dict[str, DataError] = {}
    for source in sources:
        try:
            task = quick_task(source, options.data) if options.quick else source.load(options.data)
        except DataError as error:
            errors[source.name] = error
            if options.datasets:
                raise
            continue
        tasks[source.name] = replace(task, name=source.name)
        if options.quick and not options.datasets:
            break  # one is enough to see whether it works
    if not tasks:
        raise next(iter(errors.values()))
    for name, reason in errors.items():
        warnings.warn(f"{name} is skipped: {reason}", stacklevel=3)
    return tasks


def _sources(options: Options) -> list[Source]:
    here = data_folder(options.data)
    if here is not None and not here.is_dir():
        raise DataError(f"there is no folder {here} of data: name the one that holds the paper's data, --data DIR")
    if options.datasets:
        return [find_source(name) for name in dict.fromkeys(options.datasets)]
    result = present_sources(options.data)
    if options.quick:
        return result or [MADE_UP]
    if not result:
        raise DataError(
            f"none of the paper's data sets is in {here}: see the page of the documentation about the paper's data"
            if here
            else "say where the paper's data are: --data DIR, or the environment variable ADACSL_DATA"
        )
    return result


def reproduce(options: Options, *, on_event: OnEvent | None = None, command: str = "") -> Reproduced:
    """Run what is missing, and write CSV files as results come."""
    begin = time.monotonic()
    planned, tasks = prepare(options)
    device = _device_name(options.device)  # asked now: a shared GPU may refuse new clients once workers were cut off
    calls, earlier = _earlier_calls(options), read_results(*options.skip_done)
    sheets = {name: Sheet(options.results / f"{name}.csv", SHEETS[name], key=SHEET_KEYS[name]) for name in SHEETS}
    for name, sheet in sheets.items():
        here = read_rows(sheet.path) if sheet.path.exists() else []
        sheet.start([*earlier[name], *here])
    before = {name: len(sheet.rows) for name, sheet in sheets.items()}
    failed, stopped = _run_fits(options, planned, tasks, sheets, on_event, begin)
    added = sum(len(sheets[name].rows) - before[name] for name in ("table2", "ablations"))
    for row in list(chosen_rows(sheets["table2"].rows.values(), sheets["held_out"].rows.values())):
        sheets["table2"].add(row)
    if "table1" in options.parts and not stopped:
        _run_table1(options, tasks, sheets["table1"])
    for sheet in sheets.values():
        if sheet.rows:
            sheet.write()
    seconds = time.monotonic() - begin
    about = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit(), "versions": _versions()}
    calls.append({"command": command, "device": device, "seconds": round(seconds, 1), **about})
    replace_text(options.results / ABOUT, f"{json.dumps(calls, indent=1)}\n")
    files = tuple(sheet.path for sheet in sheets.values() if sheet.rows)
    return Reproduced(options.results, files, added, len(planned.places), failed, stopped, seconds)


class Ended(NamedTuple):
    """How the fits ended."""

    failed: tuple[str, ...]  # a line for each fit without a result
    stopped: bool  # the time limit was reached


def _run_fits(
    options: Options,
    planned: Planned,
    tasks: Mapping[str, Task],
    sheets: Mapping[str, Sheet],
    on_event: OnEvent | None,
    begin: float,
) -> Ended:
    """Run what the folder lacks; every result is exported as soon as it is there, those of earlier runs too."""
    if not planned.jobs:
        return Ended((), stopped=False)
    ready = with_features(planned, tasks, options.device)
    left = None if options.time_limit is None else options.time_limit - (time.monotonic() - begin)
    begin, stopped = time.monotonic(), False
    with Store.open(options.folder / "store", identity_of(planned, quick=options.quick)) as store:

        def note(event: Event) -> None:
            if event.kind in ("kept", "done"):
                _export(store.read(event.fits[0]), planned, sheets)
            if on_event is not None:
                on_event(event)

        try:
            run_jobs(planned.jobs, store, ready, n_jobs=options.n_jobs, seconds=left, on_event=note)
        except RunInterrupted:
            stopped = left is not None and time.monotonic() - begin >= left
            if not stopped:
                raise
            for fit in filter(store.has, planned.places):  # what jobs that were cut off had done already
                _export(store.read(fit), planned, sheets)
        failures = store.failures().to_numpy().tolist()  # the columns of FitKey, then those of Failure
    failed = (f"{FitKey(*row[:4])}: {row[4]}: {row[5]}" for row in failures if FitKey(*row[:4]) in planned.places)
    return Ended(tuple(failed), stopped)


def with_features(planned: Planned, tasks: Mapping[str, Task], device: str) -> dict[str, Task]:
    """Return the tasks of all settings, with the features that some of them need computed."""
    result = dict(planned.tasks)
    wanted = {setting.data: setting for setting, _ in planned.places.values() if setting.tag == FEATURES}
    features: dict[str, Task] = {}
    for setting in wanted.values():
        if setting.dataset not in features:
            features[setting.dataset] = as_features(
                tasks[setting.dataset], str(setting.protocol.neural.weights), device=device
            )
        X = features[setting.dataset].X  # noqa: N806
        kept = patients_of_both(tasks[setting.dataset]) if setting.split == "patient" else slice(None)
        result[setting.data] = replace(result[setting.data], X=X.iloc[kept].reset_index(drop=True))
    return result


def _export(result: FitResult, planned: Planned, sheets: Mapping[str, Sheet]) -> None:
    setting, k = planned.places[result.fit]
    sheets[setting.sheet].add(row_of(result, setting, k))
    if setting.sheet == "table2" and math.isfinite(result.metrics["validation_cost"]):
        about = dict(zip(KEY, key_of(setting, k, result.fit), strict=True))
        sheets["held_out"].add(about | {"validation_cost": round(result.metrics["validation_cost"], 6)})
    if setting.sheet == "table2" and result.fit.method == FIGURE_METHOD:
        for row in epochs_of(result, setting, k):
            sheets["figure1"].add(row)


def identity_of(planned: Planned, *, quick: bool) -> dict[str, Any]:
    """Return what results depend on: each setting's data and protocol."""
    about = {}
    for setting in {setting.data: setting for setting, _ in planned.places.values()}.values():
        task = planned.tasks[setting.data]
        conditions = protocol_identity(setting.protocol)
        about[setting.data] = {"digest": task.digest, "rows": len(task.y), "protocol": conditions}
    return {"data": about, "quick": quick}


def _run_table1(options: Options, tasks: Mapping[str, Task], sheet: Sheet) -> None:
    """Run the illustration of Table 1 on wolves and dogs, or on the nearest balanced task there is."""
    wolves = WOLF_DOG.place(data_folder(options.data)) is not None and not options.quick
    task = WOLF_DOG.load(options.data) if wolves else next(iter(tasks.values()))
    small: dict[str, Any] = {"image_size": 16, "per_class": (12, 6)} if options.quick else {}
    weights = None if options.quick else find_weights(options.weights, options.data)
    done = {(row["dataset"], row["seed"]) for row in sheet.rows.values()}
    for seed in range(options.seeds):
        if (task.name, seed) not in done:
            for row in two_epochs(task, seed=seed, weights=weights, device=options.device, **small):
                sheet.add({name: round(v, 5) if isinstance(v, float) else v for name, v in row.items()})


def _device_name(wish: str) -> str:
    import torch  # noqa: PLC0415  loaded long before

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() and wish != "cpu" else "cpu"


def _versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in ("numpy", "scikit-learn", "torch")}
    return {"python": platform.python_version(), "adacsl": __version__, **packages}


def _earlier_calls(options: Options) -> list[dict[str, Any]]:
    """Return the calls behind the files that are there already, or taken over: command, device, date."""
    calls: list[dict[str, Any]] = []
    for path in dict.fromkeys((options.results / ABOUT, *(folder / ABOUT for folder in options.skip_done))):
        if not path.is_file():
            continue
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{path} is no list of earlier calls ({error}): move it away") from error
        calls += [call for call in result if call not in calls]
    return calls
