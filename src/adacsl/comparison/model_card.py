"""Model card, and the provenance of a comparison as text."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adacsl.comparison.protocol import describe_protocol
from adacsl.comparison.statistics import CONSTANTS, span
from adacsl.datasets.findings import Checks
from adacsl.datasets.readers.base import describe_left_out
from adacsl.estimators.artefact import DOCUMENT
from adacsl.estimators.persistence import load
from adacsl.estimators.registry import title_of

if TYPE_CHECKING:
    from adacsl.comparison.result import Comparison
    from adacsl.estimators.classifier import CostSensitiveClassifier


def describe_facts(result: Comparison) -> dict[str, str]:
    """Return data, protocol, versions and date, as the report shows them."""
    facts = {}
    seeds = sorted(result.results["seed"].unique().tolist())
    for name, about in result.facts["data"].items():
        facts[f"data: {name}"] = f"{describe_counts(about)}. {about['costs']}. {describe_source(about)}".strip()
        facts |= {f"window {seed} of {name}": words for seed, words in result.windows.get(name, {}).items()}
    protocol = result.facts["protocol"]
    facts["protocol"] = describe_protocol(protocol, seeds)
    facts["intervals"] = describe_intervals(result)
    if any(name.startswith(("gbm-", "ensemble")) for name in result.results["method"]):
        facts["boosting"] = str(protocol.get("boosting"))
    about = next(iter(result.fits.values())).provenance
    facts |= {key: str(about[key]) for key in ("device", "commit") if about.get(key)}
    if about.get("versions"):
        facts["versions"] = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    facts["date"] = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return facts


def describe_intervals(result: Comparison) -> str:
    """Return how the intervals were made."""
    protocol, splits = result.facts.get("protocol", {}), result.results["seed"].nunique()
    folds = protocol.get("folds")
    where = f"{splits / folds:.3g} x {folds} folds" if folds else f"{splits} random splits"
    where = f"{splits} test windows" if "time" in protocol else where
    units = "groups" if any(about["groups"] for about in result.facts["data"].values()) else "samples"
    text = f"95 % intervals: Student's t on paired costs of {where}, with the variance of {units} and fits"
    return f"{text}{describe_stopped(result)}"


def describe_stopped(result: Comparison) -> str:
    """Return which methods do not rest on all folds, as the end of a sentence; empty where all do."""
    if not result.stopped:
        return ""
    several = len({each[:2] for each in result.stopped}) > 1
    named = (f"{each}{f' on {each.data}, ratio {each.ratio:g}' if several else ''}" for each in result.stopped)
    return f". Stopped early, as they cost significantly more after fewer folds: {', '.join(named)}"


def describe_source(about: Mapping[str, Any]) -> str:
    """Return where the data come from, if that is known."""
    return f"Source: {about['source']}" if about["source"] else ""


def describe_counts(about: Mapping[str, Any]) -> str:
    """Return the number of samples and their classes, groups and duplicates."""
    kind = "images" if about["images"] else "samples"
    grouped = ", split by group" if about["groups"] else ""
    counted = f"{about['rows']:,} {kind}{_describe_classes(about)}{grouped}"
    return ". ".join(filter(None, (counted, describe_duplicates(about), *describe_left_out(about))))


def _describe_classes(about: Mapping[str, Any]) -> str:
    if "counts" not in about:
        return f", {about['positives']:,} of them {about['classes'][1]!r}"
    counts = sorted(zip(about["counts"], about["classes"], strict=True), reverse=True)
    return f" of {len(counts)} classes, from {counts[0][0]:,} {counts[0][1]!r} to {counts[-1][0]:,} {counts[-1][1]!r}"


def describe_duplicates(about: Mapping[str, Any]) -> str:
    """Return the number of duplicates and how splits treat them; nothing where there are none."""
    copies, apart = about.get("copies", 0), about.get("copies_apart", 0)
    if not copies:
        return ""
    kind = "images" if about["images"] else "samples"
    words = f"{copies:,} {kind} are duplicates of others; duplicates stay in one fold"
    return f"{words}, except {apart:,} {kind} of sets larger than a fold" if apart else words


def with_checks(facts: Mapping[str, Any], checks: Mapping[str, Checks]) -> dict[str, Any]:
    """Return the facts of a comparison with the present findings of the data checks."""
    result = {name: {"checks": own.to_list()} for name, own in checks.items()}
    return {**facts, "data": {name: {**about, **result.get(name, {})} for name, about in facts["data"].items()}}


def checks_of(facts: Mapping[str, Any]) -> dict[str, Checks]:
    """Return the findings of the data checks by data set."""
    return {name: Checks.from_list(about["checks"]) for name, about in facts["data"].items() if "checks" in about}


FEW_ERRORS = 100
"""With fewer samples of a class, its error rates are imprecise."""


def model_card(
    result: Comparison, view: tuple[str, float], name: str, *, people: str = "samples", model: str | Path | None = None
) -> dict[str, str]:
    """Return the model card of a method, line by line.

    Parameters
    ----------
    result : Comparison
        What was compared.
    view : (str, float)
        Data set and cost ratio.
    name : str
        The method.
    people : str
        What samples are called.
    model : path, optional
        Where the method was saved, fitted on all samples.
    """
    about = result.facts["data"][view[0]]
    classes = about["classes"]
    wanted = f"which {people} are {classes[1]!r}" if len(classes) == 2 else f"of which class {people} are"
    card = {
        "method": _titled(name, len(classes)),
        "intended use": (
            f"Predicting {wanted}, among {people} like those of the training, from the same columns as known at "
            "prediction time, with the costs below."
        ),
        "out of scope": (
            f"Other kinds of {people}, or costs far from these. It predicts outcomes and does not explain causes."
        ),
        "training data": f"{describe_counts(about)}. {describe_source(about)}".strip().rstrip(".") + ".",
        "evaluation": f"{describe_protocol(result.facts['protocol'], sorted(set(result.results['seed'].tolist())))}.",
        "costs": f"{about['costs']}.{_other_ratio(view[1], about)}",
        "predicts": _predicts(result, view, name),
        "mean cost": _mean_cost(result, view, name),
        "limitations": " ".join(_limits(about, result.facts["protocol"], people)),
        "deployment": "Monitor it with adacsl monitor: it tests for drift and tells whether to re-tune the threshold.",
    }
    kept = {} if model is None else _kept(Path(model), result.methods.get(name))
    return card | _made_with(result, view, name) | kept


def _titled(name: str, n_classes: int) -> str:
    title = title_of(name, n_classes)
    return name if title == name else f"{name}: {title}"


def _other_ratio(ratio: float, about: Mapping[str, Any]) -> str:
    if len(about["classes"]) > 2 or np.isclose(ratio, about["ratio"], rtol=1e-5):
        return ""
    return f" In this comparison a false negative costs {ratio:g} times a false positive."


def _predicts(comparison: Comparison, view: tuple[str, float], name: str) -> str:
    classes = comparison.facts["data"][view[0]]["classes"]
    if name in CONSTANTS:
        return f"Always {classes[name == 'always-positive']!r}."
    if len(classes) > 2:
        return "The class of least expected cost, from the probability of each."
    fits = [result for fit, result in comparison.fits.items() if fit[:3] == (*view, name)]
    known = [result.threshold for result in fits if result.threshold is not None]
    if len(known) < len(fits):
        return f"{classes[1]!r} above a threshold that depends on the costs of each sample."
    low, high = min(known), max(known)
    where = f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g} (each split has its own)"
    return f"{classes[1]!r} where its probability is above {where}."


def _mean_cost(result: Comparison, view: tuple[str, float], name: str) -> str:
    table = result.table
    row = table[(table["data"] == view[0]) & (table["ratio"] == view[1]) & (table["method"] == name)].iloc[0]
    return f"{span(row['mean'], row['low'], row['high'], '')} per sample. {describe_intervals(result)}."


def _limits(about: Mapping[str, Any], protocol: Mapping[str, Any], people: str) -> Iterator[str]:
    counts = about.get("counts") or [about["rows"] - about["positives"], about["positives"]]
    rare = int(np.argmin(counts))
    if counts[rare] < FEW_ERRORS:
        yield f"Only {counts[rare]:,} {people} are {about['classes'][rare]!r}: their error rates are imprecise."
    if "time" not in protocol:
        yield "Splits are random: changes over time are not in these numbers."
    if not about["groups"]:
        yield "Samples are assumed to be independent; otherwise name a group column."
    yield "Costs of training, checking and running the model are not included."
    warned = [finding["code"] for finding in about.get("checks", ()) if finding["severity"] != "info"]
    if warned:
        yield f"The data checks warn of: {', '.join(dict.fromkeys(warned))}."


def _made_with(comparison: Comparison, view: tuple[str, float], name: str) -> dict[str, str]:
    own = [result.provenance for fit, result in comparison.fits.items() if fit[:3] == (*view, name)]
    versions = {text for each in own if (text := _listed(each.get("versions", {})))}
    days = sorted(str(each["finished"])[:10] for each in own if each.get("finished"))
    made = {"versions": " or ".join(sorted(versions)), "date": " to ".join(dict.fromkeys((*days[:1], *days[-1:])))}
    digest = comparison.facts["data"][view[0]].get("digest", "")
    return {key: text for key, text in (made | {"digest of the data": digest}).items() if text}


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _kept(folder: Path, method: CostSensitiveClassifier | None) -> dict[str, str]:
    """Return where the fitted model lies, its threshold, and the digest of its document."""
    network = getattr(getattr(method, "learner", None), "module", None)  # no file has the code of a custom one
    fitted = load(folder, device="cpu", module=network if callable(network) else None)
    threshold = fitted.decision_.threshold_for(fitted.costs_)
    digest = hashlib.sha256((folder / DOCUMENT).read_bytes()).hexdigest()
    kept = f"{folder}, fitted on all samples" + ("" if threshold is None else f"; threshold {threshold:.3g}")
    return {"saved in": kept, f"digest of {DOCUMENT}": f"sha256 {digest}"}
