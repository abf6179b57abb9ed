"""The sliders of a page: test samples with scores, packed so that the script computes with them what Python would."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.costs.matrix import CostMatrix
from adacsl.report.content import Explorers, Matrix, MatrixCell
from adacsl.report.data import Outcome

EMBEDDED_SAMPLES = 20_000
"""At most so many test samples of one method are put into the page."""

FEWEST_SAMPLES = 200

Places = dict[tuple[str, int, bytes], int]
"""Numbers of the arrays of a page by their kind, length and bytes: what methods and ratios share is written once."""


def explorers_of(
    views: Sequence[Mapping[str, Outcome]],
    recommended: Sequence[str],
    titles: Mapping[str, str],
    classes: tuple[str, str],
    room: int,
) -> Explorers:
    """Return the explorers of all views.

    Parameters
    ----------
    views : sequence of mapping from str to Outcome
        The outcomes of each view by method, lowest cost first.
    recommended : sequence of str
        The method that the explorer of each view starts with.
    titles : mapping from str to str
        One line about each method.
    classes : (str, str)
        Names of the negative and the positive class.
    room : int
        About so many characters are filled; where samples do not fit, fewer of them are drawn.
    """
    limit = EMBEDDED_SAMPLES
    while True:
        places: Places = {}
        samples = [
            [
                (_two_classes if outcome.n_classes == 2 else _many_classes)(name, titles, outcome, limit, places)
                for name, outcome in outcomes.items()
                if outcome.n_classes == 2 or not outcome.own_costs  # a matrix for each sample would fill the page
            ]
            for outcomes in views
        ]
        arrays = [_array(*key) for key in places]
        size = sum(len(entry["data"]) + 40 for entry in arrays)
        size += sum(len(json.dumps(sample)) for view in samples for sample in view)
        if size <= room or limit <= FEWEST_SAMPLES:
            break
        limit = max(FEWEST_SAMPLES, int(limit * min(0.8, room / size if room > 0 else 0.0)))
    filled = [
        (next(iter(outcomes.values())), result) for outcomes, result in zip(views, samples, strict=True) if result
    ]
    return Explorers(
        views=[
            {"recommended": name, "threshold": f"view-{number}-threshold", "samples": result, **_matrix_of(outcomes)}
            for number, (outcomes, name, result) in enumerate(zip(views, recommended, samples, strict=True))
        ],
        arrays=arrays,
        two_classes=any(outcome.n_classes == 2 for outcome, _ in filled),
        many_classes=any(outcome.n_classes > 2 for outcome, _ in filled),
        matrix=empty_matrix(classes),
        repeats=max((outcome.repeats for outcomes in views for outcome in outcomes.values()), default=1),
    )


def without_samples(n_views: int) -> Explorers:
    """Return explorers of so many views that have everything but samples: the room that they need."""
    matrix = empty_matrix(("negative", "positive"))
    return Explorers([{"samples": []}] * n_views, two_classes=True, many_classes=True, matrix=matrix)


def _matrix_of(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return names and costs of more than two classes; nothing for two."""
    first = next(iter(outcomes.values()), None)
    if first is None or first.n_classes == 2:
        return {}
    return {"classes": first.class_names, "matrix": first.costs.averaged().to_array().tolist()}


def empty_matrix(classes: tuple[str, str]) -> Matrix:
    """Return the confusion matrix that the explorer fills."""
    cells = {name: MatrixCell(name, "", "", 0.0) for name in ("tp", "fn", "fp", "tn")}
    rows = [(classes[1], [cells["tp"], cells["fn"]]), (classes[0], [cells["fp"], cells["tn"]])]
    return Matrix("Total cost of each outcome at your threshold", [f"predicted {name}" for name in classes[::-1]], rows)


def rule_of(outcome: Outcome) -> str:
    """Return by which rule decisions follow from the probabilities, and can be repeated at other costs.

    "likeliest": the likeliest class, whatever the costs. "cheapest": the class of least expected cost. "kept": neither.
    """
    if outcome.rule == "half":
        return "likeliest"
    cheapest = as_host(outcome.costs.decide(outcome.scores.astype(np.float64)))
    return "cheapest" if np.array_equal(cheapest, outcome.decisions) else "kept"


def _two_classes(name: str, titles: Mapping[str, str], outcome: Outcome, limit: int, places: Places) -> dict[str, Any]:
    rows, weights = drawn_rows(outcome.labels, limit)
    known = outcome.costs.deciding
    return _named(name, titles, outcome, rows, places) | {
        "labels": _place(places, "bits", outcome.labels[rows]),
        "decisions": _place(places, "bits", outcome.decisions[rows]),
        "costs": _packed_costs(outcome.costs, rows, places),
        **({} if known is outcome.costs else {"known": _packed_costs(known, rows, places)}),
        "ownCosts": outcome.own_costs,
        "ratio": 1.0 if outcome.own_costs else float(outcome.costs.ratio),
        "threshold": None if outcome.threshold is None else float(outcome.threshold),
        "weights": [outcome.per_repeat(weight) for weight in weights],
    }


def _many_classes(name: str, titles: Mapping[str, str], outcome: Outcome, limit: int, places: Places) -> dict[str, Any]:
    rows, weights = class_rows(outcome.labels, outcome.n_classes, limit)
    return _named(name, titles, outcome, rows, places) | {
        "labels": _place(places, "u2", outcome.labels[rows]),
        "decisions": _place(places, "u2", outcome.decisions[rows]),
        "rule": rule_of(outcome),
        "weights": [outcome.per_repeat(weight) for weight in weights],
    }


def _named(
    name: str, titles: Mapping[str, str], outcome: Outcome, rows: NDArray[np.int64], places: Places
) -> dict[str, Any]:
    title, kind = titles.get(name, ""), "f4" if outcome.scores.dtype == np.float32 else "f8"
    label = f"{name}: {title}" if title else name
    scores = _place(places, kind, outcome.scores[rows])
    return {"name": name, "label": label, "kind": kind, "scores": scores, "all": outcome.n, "repeats": outcome.repeats}


def _packed_costs(costs: CostMatrix, rows: NDArray[np.int64], places: Places) -> dict[str, Any]:
    return {
        key: cost if isinstance(cost, float) else {"array": _place(places, "f8", np.asarray(cost)[rows])}
        for key, cost in ((key, getattr(costs, key)) for key in ("fp", "fn", "tp", "tn"))
    }


def _place(places: Places, kind: str, values: NDArray[Any]) -> int:
    raw = (np.packbits(values) if kind == "bits" else values.astype(f"<{kind}")).tobytes()
    return places.setdefault((kind, len(values), raw), len(places))


def _array(kind: str, n: int, raw: bytes) -> dict[str, Any]:
    return {"kind": kind, "data": base64.b64encode(raw).decode()} | ({"n": n} if kind == "bits" else {})


def drawn_rows(labels: NDArray[Any], limit: int) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """Draw at most ``limit`` samples by class, with the number of samples each drawn negative and positive stands for.

    The rarer class keeps up to half of the places, so that few positives among many negatives are not lost. The same
    labels always give the same samples.
    """
    n = len(labels)
    if n <= limit:
        return np.arange(n), (1.0, 1.0)
    classes = [np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)]
    fewest = min(map(len, classes))
    rare = min(fewest, limit // 2)
    sizes = [rare if len(rows) == fewest else limit - rare for rows in classes]
    rng = np.random.default_rng(n)
    picked = [rng.choice(rows, size, replace=False) for rows, size in zip(classes, sizes, strict=True)]
    weights = [len(rows) / size if size else 1.0 for rows, size in zip(classes, sizes, strict=True)]
    return np.sort(np.concatenate(picked)), (weights[0], weights[1])


def class_rows(labels: NDArray[Any], n_classes: int, limit: int) -> tuple[NDArray[np.int64], list[float]]:
    """Draw at most ``limit`` samples by class, the rarest first, each with an equal part of the places that are left.

    With them come the numbers of samples that each drawn one of a class stands for.
    """
    if len(labels) <= limit:
        return np.arange(len(labels)), [1.0] * n_classes
    counts = np.bincount(labels, minlength=n_classes)
    sizes, left = np.zeros(n_classes, dtype=np.int64), limit
    for turn, label in enumerate(np.argsort(counts, kind="stable")):
        sizes[label] = min(counts[label], left // (n_classes - turn))
        left -= sizes[label]
    rng = np.random.default_rng(len(labels))
    picked = [rng.choice(np.flatnonzero(labels == j), size, replace=False) for j, size in enumerate(sizes)]
    return np.sort(np.concatenate(picked)), (counts / np.maximum(sizes, 1)).tolist()
