"""Where the numbers of a comparison come from, in words."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adacsl.datasets.checks import Checks
from adacsl.datasets.checks.checking import check_task
from adacsl.datasets.leftout import left_out_in_words
from adacsl.experiments.protocol import in_words

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.experiments.comparison import Comparison


def facts_in_words(found: Comparison) -> dict[str, str]:
    """Return data, protocol, versions and date, as the report shows them."""
    facts = {}
    seeds = sorted(found.results["seed"].unique().tolist())
    for name, about in found.facts["data"].items():
        facts[f"data: {name}"] = f"{counted_in_words(about)}. {about['costs']}. {source_in_words(about)}".strip()
        facts |= {f"window {seed} of {name}": words for seed, words in found.windows.get(name, {}).items()}
    protocol = found.facts["protocol"]
    facts["protocol"] = in_words(protocol, seeds)
    facts["intervals"] = intervals_in_words(found)
    if any(name.startswith(("gbm-", "portfolio")) for name in found.results["method"]):
        facts["boosting"] = str(protocol.get("boosting"))
    about = next(iter(found.cells.values())).provenance
    facts |= {key: str(about[key]) for key in ("device", "commit") if about.get(key)}
    if about.get("versions"):
        facts["versions"] = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    facts["made"] = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return facts


def intervals_in_words(found: Comparison) -> str:
    """Return how the intervals were made."""
    protocol, splits = found.facts.get("protocol", {}), found.results["seed"].nunique()
    folds = protocol.get("folds")
    where = f"{splits / folds:.3g} x {folds} folds" if folds else f"{splits} random splits"
    where = f"{splits} test windows" if "time" in protocol else where
    units = "groups" if any(about["groups"] for about in found.facts["data"].values()) else "rows"
    return f"95 % intervals: Student's t on paired row costs of {where}, {units} and fits counted"


def source_in_words(about: Mapping[str, Any]) -> str:
    """Return where the data come from, if that is known."""
    return f"Source: {about['source']}" if about["source"] else ""


def counted_in_words(about: Mapping[str, Any]) -> str:
    """Return how many rows there are, of what, and what is known of their ties."""
    kind = "images" if about["images"] else "rows"
    grouped = ", split by group" if about["groups"] else ""
    counted = f"{about['rows']:,} {kind}{_classes_in_words(about)}{grouped}"
    return ". ".join(filter(None, (counted, copies_in_words(about), *left_out_in_words(about))))


def _classes_in_words(about: Mapping[str, Any]) -> str:
    if "counts" not in about:
        return f", {about['positives']:,} of them {about['classes'][1]!r}"
    counts = sorted(zip(about["counts"], about["classes"], strict=True), reverse=True)
    return f" of {len(counts)} classes, from {counts[0][0]:,} {counts[0][1]!r} to {counts[-1][0]:,} {counts[-1][1]!r}"


def copies_in_words(about: Mapping[str, Any]) -> str:
    """Return how many rows are copies of others, and what is done about it; nothing where there are none."""
    copies, apart = about.get("copies", 0), about.get("copies_apart", 0)
    if not copies:
        return ""
    kind = "images" if about["images"] else "rows"
    said = f"{copies:,} {kind} are copies of others; copies stay together"
    return f"{said}, but for {apart:,} {kind} of sets larger than a fold" if apart else said


def with_checks(facts: Mapping[str, Any], tasks: Sequence[Task], ignore: Iterable[str]) -> dict[str, Any]:
    """Return the facts of a comparison with what checks say about its data sets now."""
    found = {task.name: {"checks": check_task(task, ignore).to_list()} for task in tasks}
    return {**facts, "data": {name: {**about, **found.get(name, {})} for name, about in facts["data"].items()}}


def checks_of(facts: Mapping[str, Any]) -> dict[str, Checks]:
    """Return what checks said about each data set; nothing about those compared before there were checks."""
    return {name: Checks.from_list(about["checks"]) for name, about in facts["data"].items() if "checks" in about}
