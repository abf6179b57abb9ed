"""What there is to do: methods under one protocol on one data set, gathered into jobs; and how long it will take."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl import CostMatrix, Task
from adacsl.comparison.fits import FitKey
from adacsl.comparison.jobs import count_networks, plan_jobs
from adacsl.comparison.protocol import Protocol
from adacsl.comparison.runner import Job
from adacsl.datasets import DataError
from paper.embedding import stand_in
from paper.methods import (
    ABLATIONS,
    CHOICES,
    PROFILES,
    VALIDATION_SHARES,
    Methods,
    Profile,
    net_seconds,
    quick_method,
    quick_protocol,
    under,
    validation_methods,
    with_folds,
)
from paper.options import Options
from paper.sources import Source

FIGURE_METHOD = "adacsl"
FEATURES = "features"
"""The tag of settings whose methods get features instead of pixels."""


@dataclass(frozen=True)
class Setting:
    """Methods under one protocol on one data set: the rows of one CSV file."""

    sheet: str
    dataset: str
    profile: str
    split: str
    protocol: Protocol = field(repr=False)
    methods: Methods = field(repr=False)
    tag: str = ""

    @property
    def data(self) -> str:
        """The name of the task, fit for a file name."""
        parts = (self.dataset.lower(), self.profile, self.split, self.tag)
        return ".".join(part for part in parts if part)

    def narrowed(self, names: Sequence[str]) -> Setting:
        """Return the setting with some methods only, and those that these choose among."""
        wanted = {*names, *(name for choice in CHOICES if choice.name in names for name in choice.among)}
        chosen = {name: method for name, method in self.methods.items() if name in wanted}
        return replace(self, methods=chosen) if names else self


def settings_of(options: Options, sources: Sequence[Source], weights: str | None) -> list[Setting]:
    """Return all settings of the parts that compare methods; what several parts need is there once."""
    result: dict[tuple[str, str], Setting] = {}
    for source in sources:
        for profile in (PROFILES[name] for name in options.profile):
            for split in (s for s in profile.splits if s in options.splits and (s != "patient" or source.patients)):
                protocol = profile.conditions(
                    upright=source.upright, weights=weights, device=options.device, split=split
                )
                setting = Setting("table2", source.name, profile.name, split, protocol, profile.methods)
                if "table2" in options.parts:
                    result[setting.sheet, setting.data] = setting
                    if weights is not None and profile.feature_methods:
                        more = replace(setting, methods=profile.feature_methods, tag=FEATURES)
                        result[more.sheet, more.data] = more
                elif "figure1" in options.parts and source is sources[0] and split == "random":
                    result[setting.sheet, setting.data] = setting.narrowed([FIGURE_METHOD])
    if "ablations" in options.parts and sources:
        for profile in (PROFILES[name] for name in options.profile if name != "paper"):
            for setting in ablation_settings(sources[0], profile, weights=weights, device=options.device):
                result[setting.sheet, setting.data] = setting
    whole = [_quickly(setting) if options.quick else setting for setting in result.values()]
    _check_methods(options, whole)
    return [setting for setting in (s.narrowed(options.methods) for s in whole) if setting.methods]


def _check_methods(options: Options, settings: Sequence[Setting]) -> None:
    """Raise unless every method that was asked for is in some setting, or chooses among methods that are."""
    there = {name for setting in settings for name in setting.methods}
    there |= {choice.name for choice in CHOICES if there.issuperset(choice.among)}
    if missing := [name for name in options.methods if name not in there]:
        where = f"{options.what}{' --quick' if options.quick else ''}"
        has = f"with profile {' and '.join(options.profile)} it has {', '.join(sorted(there))}"
        raise ValueError(f"{where} has no method {missing[0]!r}: {has if there else 'it compares no methods'}")


def possible(settings: Sequence[Setting], tasks: Mapping[str, Task]) -> list[Setting]:
    """Return the settings that the data allow, with a warning for each data set that cannot be split by group."""
    without = {s.dataset for s in settings if s.split != "random" and tasks[s.dataset].groups is None}
    result = [s for s in settings if s.split == "random" or s.dataset not in without]
    if settings and not result:
        raise DataError(_no_groups(settings[0].dataset))
    for name in sorted(without):
        at_random = any(setting.dataset == name for setting in result)
        rest = "it is split at random only" if at_random else "it is skipped"
        warnings.warn(f"{name} has no groups here: {rest}", stacklevel=3)
    return result


def ablation_settings(source: Source, profile: Profile, *, weights: str | None, device: str) -> list[Setting]:
    """Return the variants of AdaCSL on one data set, random splits."""
    protocol = profile.conditions(upright=source.upright, weights=weights, device=device)
    methods = {name: method for group in ABLATIONS.values() for name, method in group.items()}
    result = [Setting("ablations", source.name, profile.name, "random", protocol, methods)]
    for share in VALIDATION_SHARES:
        smaller = replace(protocol, validation=share)
        tag = f"validation-{share:g}"
        chosen = validation_methods(share)
        result.append(Setting("ablations", source.name, profile.name, "random", smaller, chosen, tag))
    return result


QUICK_METHODS: dict[tuple[str, str], tuple[str, ...]] = {
    ("table2", "paper"): ("net", "ta", "net-smote", "net-weighted", "adacsl"),
    **{("table2", name): ("net-bayes", "adacsl", "adacsl-last", "adacsl-cv") for name in PROFILES if name != "paper"},
    **{("ablations", name): ("adacsl-every-25", "adacsl-validation-0.1") for name in PROFILES if name != "paper"},
}


def _quickly(setting: Setting) -> Setting:
    """Return the same with few methods, epochs, pixels and networks."""
    chosen = setting.narrowed(QUICK_METHODS[setting.sheet, setting.profile]).methods
    quick = {name: quick_method(method) for name, method in chosen.items()}
    return replace(setting, protocol=quick_protocol(setting.protocol), methods=quick)


class Planned(NamedTuple):
    """Jobs in the order of their running, and what their fits are in the CSV files."""

    jobs: list[Job]
    places: dict[FitKey, tuple[Setting, int]]
    tasks: dict[str, Task]


def plan(
    options: Options, settings: Sequence[Setting], tasks: Mapping[str, Task], done: set[tuple[Any, ...]]
) -> Planned:
    """Gather what is missing into jobs: all of seed 0 first, then seed 1; within a seed the longest first."""
    jobs: list[Job] = []
    places: dict[FitKey, tuple[Setting, int]] = {}
    own = {setting.data: _task_of(setting, tasks[setting.dataset]) for setting in settings}
    patients = {s.data: len(np.unique(_groups_of(own[s.data]))) for s in settings if s.split == "patient"}
    for seed in range(options.seeds):
        of_seed: list[Job] = []
        for setting in (s for s in settings if seed < patients.get(s.data, options.seeds)):
            task, methods = own[setting.data], setting.methods
            if setting.data in patients:
                methods = {name: with_folds(made, patients[setting.data] - 1) for name, made in methods.items()}
            factor = {float(f"{task.costs.averaged().ratio * k:.6g}"): k for k in options.factors}
            own_nets = {name: under(made, setting.protocol) for name, made in methods.items()}
            for job in plan_jobs([task], {task.name: own_nets}, {task.name: list(factor)}, [seed], setting.protocol):
                missing = tuple(c for c in job.fits if key_of(setting, factor[c.ratio], c) not in done)
                places |= {fit: (setting, factor[fit.ratio]) for fit in missing}
                if missing:
                    of_seed.append(Job(missing, job.payload))
        jobs += sorted(of_seed, key=lambda job: -count_networks(job))
    return Planned(jobs, places, own)


def _groups_of(task: Task) -> NDArray[Any]:
    if task.groups is None:
        raise DataError(_no_groups(task.name))
    return task.groups


def _task_of(setting: Setting, task: Task) -> Task:
    groups = None if setting.split == "random" else _groups_of(task)
    task = replace(task, name=setting.data, groups=groups)
    if setting.split == "patient":
        kept = patients_of_both(task)
        y = task.y[kept]
        task = replace(task, X=task.X[kept], y=y, groups=_groups_of(task)[kept], costs=CostMatrix.balanced(y))
    return stand_in(task) if setting.tag == FEATURES else task


def patients_of_both(task: Task) -> NDArray[np.int64]:
    """Return the samples of groups with both classes: in the others, the patient implies the class."""
    groups = _groups_of(task)
    both = [group for group in np.unique(groups) if len(np.unique(task.y[groups == group])) == 2]
    if len(both) < 3:
        raise DataError(f"{task.name} has {len(both)} patients with both classes: leaving one out needs at least 3")
    return np.flatnonzero(np.isin(groups, both))


def _no_groups(name: str) -> str:
    return f"{name} has no groups here, so it cannot be split by group: take --splits random, or give its map"


def key_of(setting: Setting, k: int, fit: FitKey) -> tuple[Any, ...]:
    """Return the key of a fit's row in a CSV file."""
    return (setting.dataset, setting.profile, setting.split, k, fit.method, fit.seed)


class Estimate(NamedTuple):
    """How much work a setting is."""

    sheet: str
    data: str
    fits: int
    networks: int
    seconds: float


def estimate(planned: Planned) -> list[Estimate]:
    """Return fits, networks and seconds (of an H200 with twelve networks side by side) of each setting."""
    sums: dict[tuple[str, str], list[float]] = {}
    for job in planned.jobs:
        setting, _ = planned.places[job.fits[0]]
        networks = count_networks(job)
        seconds = networks * net_seconds(setting.protocol, len(planned.tasks[setting.data].y))
        parts = sums.setdefault((setting.sheet, setting.data), [0, 0, 0.0])
        for i, more in enumerate((len(job.fits), networks, seconds)):
            parts[i] += more
    return [Estimate(*name, int(fits), int(nets), seconds) for name, (fits, nets, seconds) in sums.items()]


def plan_lines(estimates: Sequence[Estimate]) -> list[str]:
    """Return the plan as a table of text."""
    width = max([len(f"{e.sheet} {e.data}") for e in estimates], default=10)
    lines = [f"{'part':<{width}}   fits  networks  seconds on an H200"]
    lines += [f"{e.sheet + ' ' + e.data:<{width}}  {e.fits:5d}  {e.networks:8d}  {e.seconds:7.0f}" for e in estimates]
    fits, nets, seconds = (sum(getattr(e, name) for e in estimates) for name in ("fits", "networks", "seconds"))
    return [*lines, f"{'all':<{width}}  {fits:5d}  {nets:8d}  {seconds:7.0f}"]
