"""Provenance of a comparison in words, and the model card."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.comparison.protocol import in_words
from adacsl.comparison.statistics import CONSTANTS, span
from adacsl.datasets.findings import Checks
from adacsl.datasets.readers.base import left_out_in_words
from adacsl.estimators.artefact import DOCUMENT
from adacsl.estimators.persistence import load
from adacsl.estimators.registry import title_of

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison


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


def with_checks(facts: Mapping[str, Any], checks: Mapping[str, Checks]) -> dict[str, Any]:
    """Return the facts of a comparison with what checks say about its data sets now."""
    found = {name: {"checks": own.to_list()} for name, own in checks.items()}
    return {**facts, "data": {name: {**about, **found.get(name, {})} for name, about in facts["data"].items()}}


def checks_of(facts: Mapping[str, Any]) -> dict[str, Checks]:
    """Return what checks said about each data set; nothing about those compared before there were checks."""
    return {name: Checks.from_list(about["checks"]) for name, about in facts["data"].items() if "checks" in about}


FEW_ERRORS = 100
"""Below so many rows of a class, what is said about its errors is rough."""


def model_card(
    found: Comparison, view: tuple[str, float], name: str, *, people: str = "rows", model: str | Path | None = None
) -> dict[str, str]:
    """Return the model card of a method, line by line.

    Parameters
    ----------
    found : Comparison
        What was compared.
    view : (str, float)
        Data set and cost ratio.
    name : str
        The method.
    people : str
        What rows are called.
    model : path, optional
        Where the method was saved, fitted on all rows.
    """
    about = found.facts["data"][view[0]]
    classes = about["classes"]
    wanted = f"which {people} are {classes[1]!r}" if len(classes) == 2 else f"of which class {people} are"
    card = {
        "method": _titled(name, len(classes)),
        "made for": (
            f"Deciding {wanted}, among {people} like those it was trained on, from the same columns, as far as they "
            "are known when the decision is made, and at the prices below."
        ),
        "not made for": (
            f"Other kinds of {people} than those of the data, or prices far from these. It finds what goes together, "
            "no causes: it does not say what would change an outcome."
        ),
        "trained on": f"{counted_in_words(about)}. {source_in_words(about)}".strip().rstrip(".") + ".",
        "tested by": f"{in_words(found.facts['protocol'], sorted(found.results['seed'].unique().tolist()))}.",
        "prices": f"{about['costs']}.{_other_prices(view[1], about)}",
        "decides": _decides(found, view, name),
        "costs": _costs(found, view, name),
        "limits": " ".join(_limits(about, found.facts["protocol"], people)),
        "in use": (
            f"Watch it with adacsl monitor: it says when new {people} differ from those it knows, and when to decide "
            "anew where the threshold lies."
        ),
    }
    return card | _made_with(found, view, name) | ({} if model is None else _kept(Path(model)))


def _titled(name: str, n_classes: int) -> str:
    title = title_of(name, n_classes)
    return name if title == name else f"{name}: {title}"


def _other_prices(ratio: float, about: Mapping[str, Any]) -> str:
    if len(about["classes"]) > 2 or np.isclose(ratio, about["ratio"], rtol=1e-5):
        return ""
    return f" Here a miss is taken to cost {ratio:g} false alarms."


def _decides(found: Comparison, view: tuple[str, float], name: str) -> str:
    classes = found.facts["data"][view[0]]["classes"]
    if name in CONSTANTS:
        return f"Always {classes[name == 'always-positive']!r}."
    if len(classes) > 2:
        return "The class of least expected cost, from the probability of each."
    cells = [result for cell, result in found.cells.items() if cell[:3] == (*view, name)]
    known = [result.threshold for result in cells if result.threshold is not None]
    if len(known) < len(cells):
        return f"{classes[1]!r} above a probability that depends on each row's own prices."
    low, high = min(known), max(known)
    where = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g} (each split had its own)"
    return f"{classes[1]!r} where its probability is above {where}."


def _costs(found: Comparison, view: tuple[str, float], name: str) -> str:
    table = found.table
    row = table[(table["data"] == view[0]) & (table["ratio"] == view[1]) & (table["method"] == name)].iloc[0]
    return f"{span(row['mean'], row['low'], row['high'], '')} per row. {intervals_in_words(found)}."


def _limits(about: Mapping[str, Any], protocol: Mapping[str, Any], people: str) -> Iterator[str]:
    counts = about.get("counts") or [about["rows"] - about["positives"], about["positives"]]
    rare = int(np.argmin(counts))
    if counts[rare] < FEW_ERRORS:
        yield f"Only {counts[rare]:,} {people} are {about['classes'][rare]!r}: what is said about them is rough."
    if "time" not in protocol:
        yield "Rows were split by chance: what changes with time is not seen in these figures."
    if not about["groups"]:
        yield "Rows were taken as independent of each other: rows that belong together need a group column."
    yield "The prices were taken as given. Costs of training, checking and running the model are not counted."
    warned = [finding["code"] for finding in about.get("checks", ()) if finding["severity"] != "note"]
    if warned:
        yield f"The checks warn of: {', '.join(dict.fromkeys(warned))}."


def _made_with(found: Comparison, view: tuple[str, float], name: str) -> dict[str, str]:
    own = [result.provenance for cell, result in found.cells.items() if cell[:3] == (*view, name)]
    versions = {text for each in own if (text := _listed(each.get("versions", {})))}
    days = sorted(str(each["finished"])[:10] for each in own if each.get("finished"))
    made = {"versions": " or ".join(sorted(versions)), "date": " to ".join(dict.fromkeys((*days[:1], *days[-1:])))}
    digest = found.facts["data"][view[0]].get("digest", "")
    return {key: text for key, text in (made | {"digest of the data": digest}).items() if text}


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _kept(folder: Path) -> dict[str, str]:
    """Return where the fitted model lies, what it decides at, and the digest of its document."""
    fitted = load(folder, device="cpu")
    threshold = fitted.decision_.threshold_for(fitted.costs_)
    digest = hashlib.sha256((folder / DOCUMENT).read_bytes()).hexdigest()
    kept = f"{folder}, fitted on all rows" + ("" if threshold is None else f"; it decides at {threshold:.3g}")
    return {"kept in": kept, f"digest of {DOCUMENT}": f"sha256 {digest}"}
