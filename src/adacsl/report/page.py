"""A comparison as one HTML file that needs nothing else: verdict, pictures, tables, and sliders that recompute."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import adacsl
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.report.data import Outcome, ReportData
from adacsl.report.embedding import (
    embedded,
    environment,
    packed_figures,
    packed_plotly,
    script_policy,
    sha256,
    template_text,
    write_page,
)
from adacsl.report.figures import threshold_figure
from adacsl.report.formatting import show
from adacsl.report.frames import rule_of, thinned, threshold_curve, threshold_points
from adacsl.report.sections import costs as sections_costs
from adacsl.report.sections import multiclass
from adacsl.report.sections.about import alarm
from adacsl.report.style import PALETTES, house_template
from adacsl.report.tables import empty_matrix

with requires("compare"):
    from markupsafe import Markup


EMBEDDED_ROWS = 20_000
"""At most so many test rows of one method are put into the page."""

PAGE_BYTES = 5_900_000
"""The whole page stays below this: with many data sets, fewer rows of each are embedded."""

FEWEST_ROWS = 200

ABOUT_ALL = ("costs", "ratios", "training", "data")
"""Sections that speak of all methods, not of the recommended one."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)")


def write_report(data: ReportData, path: str | os.PathLike[str]) -> Path:
    """Write the page and return its path; an old page is replaced whole or not at all."""
    return write_page(render_report(data), path)


def render_report(data: ReportData) -> str:
    """Return the page as text."""
    views = [_view(data, view, number) for number, view in enumerate(data.views)]
    ranks = sections_costs.rank_card(data)
    shown = [card for view in views for part in view["parts"] for row in part["rows"] for card in row]
    figures = {card.id: card.figure for card in [*shown, ranks] if card is not None and card.figure is not None}
    figures |= {view["curve"]: view["explored"] for view in views if view["explored"] is not None}
    payload: dict[str, Any] = {
        "unit": data.unit,
        "classes": list(data.classes),
        "start": _start(data),
        "colors": list(zip(PALETTES["light"], PALETTES["dark"], strict=True)),
        "themes": {"light": house_template("light").to_plotly_json(), "dark": house_template("dark").to_plotly_json()},
        "views": [
            {key: view[key] for key in ("data", "ratio", "recommended")} | {"threshold": view["curve"]} | view["many"]
            for view in views
        ],
    }
    script = "\n".join(template_text(name) for name in ("costs.js", "classes.js", "page.js"))
    plotly_js, source_hash = packed_plotly()
    page = {
        "data": data,
        "views": views,
        "ranks": ranks,
        "repeats": max((outcome.repeats for outcome in data.outcomes.values()), default=1),
        "live_matrix": empty_matrix(data.classes),
        "version": adacsl.__version__,
        "policy": script_policy(sha256(script), source_hash),
        "style": Markup(template_text("page.css")),  # noqa: S704 - our own file
        "script": Markup(script),  # noqa: S704 - our own files
        "figures": packed_figures(figures),
        "plotly": plotly_js,
    }
    template = environment().get_template("report.html.j2")
    samples, arrays = _samples(data, PAGE_BYTES - len(template.render(payload=embedded(payload), **page).encode()))
    for view, found in zip(payload["views"], samples, strict=True):
        view["samples"] = found
    return template.render(payload=embedded({**payload, "arrays": arrays}), **page)


def _view(data: ReportData, view: tuple[str, float], number: int) -> dict[str, Any]:
    """Return what the template says about one data set at one ratio."""
    key = f"view-{number}"
    recommended = data.recommended_of(view)
    headline, _, rest = _SENTENCE_END.sub("\0", data.verdicts[view], count=1).partition("\0")
    outcomes = data.outcomes_of(view)
    explored, many = None, _many(outcomes)
    if outcomes and not many:
        shown = outcomes.get(recommended) or next(iter(outcomes.values()))
        explored = threshold_figure(thinned(threshold_curve(shown), 2), threshold_points(shown), unit=data.unit)
    return {
        "id": key,
        "data": view[0],
        "ratio": "as given" if many else f"{view[1]:g}",
        "label": _label(data, view),
        "many": many,
        "verdict": data.verdicts[view],
        "headline": headline,
        "rest": rest,
        "recommended": recommended,
        "curve": f"{key}-threshold",
        "explored": explored,
        "tiles": sections_costs.tiles(data, view),
        "alarm": alarm(data, view[0]),
        "parts": _parts((multiclass.parts if many else sections_costs.parts)(data, view, key), data.recommends(view)),
    }


def _parts(parts: list[dict[str, Any]], recommends: bool) -> list[dict[str, Any]]:
    """Return the sections of a view; without a recommendation, those that are about no single method."""
    return [part for part in parts if recommends or part["id"].split("-", 2)[2] in ABOUT_ALL]


def _many(outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Return names and prices of more than two classes; nothing for two."""
    first = next(iter(outcomes.values()), None)
    if first is None or first.n_classes == 2:
        return {}
    return {"classes": first.class_names, "matrix": first.costs.averaged().to_array().tolist()}


def _label(data: ReportData, view: tuple[str, float]) -> str:
    if names := _many(data.outcomes_of(view)).get("classes"):
        return f"{view[0]}: {len(names)} classes, a price for each kind of error"
    mean = " on average" if any(outcome.own_costs for outcome in data.outcomes_of(view).values()) else ""
    return f"{view[0]}: a missed “{data.classes[1]}” costs {show(view[1])} times a false alarm{mean}"


def _start(data: ReportData) -> int:
    """Return the view to begin with: the middle ratio of the first data set."""
    first = [number for number, view in enumerate(data.views) if view[0] == data.views[0][0]]
    return first[len(first) // 2]


# scores for the sliders


def _samples(data: ReportData, room: int) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Pack the test rows of all methods into about ``room`` characters, thinning out where they do not fit."""
    limit = EMBEDDED_ROWS
    while True:
        places: dict[tuple[str, int, bytes], int] = {}
        found = [
            [
                (_sample if outcome.n_classes == 2 else _class_sample)(data, name, outcome, limit, places)
                for name, outcome in data.outcomes_of(view).items()
                if outcome.n_classes == 2 or not outcome.own_costs  # a matrix for each row would fill the page
            ]
            for view in data.views
        ]
        arrays = [_array_entry(*key) for key in places]
        size = sum(len(entry["data"]) + 40 for entry in arrays)
        size += sum(len(json.dumps(sample)) for view in found for sample in view)
        if size <= room or limit <= FEWEST_ROWS:
            return found, arrays
        limit = max(FEWEST_ROWS, int(limit * min(0.8, room / size if room > 0 else 0.0)))


def _place(places: dict[tuple[str, int, bytes], int], kind: str, values: NDArray[Any]) -> int:
    """Return the number of an array; what several methods and ratios share has one number, and is written once."""
    raw = (np.packbits(values) if kind == "bits" else values.astype(f"<{kind}")).tobytes()
    return places.setdefault((kind, len(values), raw), len(places))


def _array_entry(kind: str, n: int, raw: bytes) -> dict[str, Any]:
    return {"kind": kind, "data": base64.b64encode(raw).decode()} | ({"n": n} if kind == "bits" else {})


def _sample(
    data: ReportData, name: str, outcome: Outcome, limit: int, places: dict[tuple[str, int, bytes], int]
) -> dict[str, Any]:
    rows, weights = drawn_rows(outcome.labels, limit)
    costs = _packed_prices(outcome.costs, rows, places)
    known = outcome.costs.deciding
    before = {} if known is outcome.costs else {"known": _packed_prices(known, rows, places)}
    return _named(data, name, outcome, rows, places) | {
        "labels": _place(places, "bits", outcome.labels[rows]),
        "decisions": _place(places, "bits", outcome.decisions[rows]),
        "costs": costs,
        **before,
        "ownCosts": outcome.own_costs,
        "ratio": 1.0 if outcome.own_costs else float(outcome.costs.ratio),
        "threshold": None if outcome.threshold is None else float(outcome.threshold),
        "weights": [outcome.per_repeat(weight) for weight in weights],
    }


def _packed_prices(
    costs: CostMatrix, rows: NDArray[np.int64], places: dict[tuple[str, int, bytes], int]
) -> dict[str, Any]:
    return {
        key: price if isinstance(price, float) else {"array": _place(places, "f8", np.asarray(price)[rows])}
        for key, price in ((key, getattr(costs, key)) for key in ("fp", "fn", "tp", "tn"))
    }


def _class_sample(
    data: ReportData, name: str, outcome: Outcome, limit: int, places: dict[tuple[str, int, bytes], int]
) -> dict[str, Any]:
    rows, weights = class_rows(outcome.labels, outcome.n_classes, limit)
    return _named(data, name, outcome, rows, places) | {
        "labels": _place(places, "u2", outcome.labels[rows]),
        "decisions": _place(places, "u2", outcome.decisions[rows]),
        "rule": rule_of(outcome),
        "weights": [outcome.per_repeat(weight) for weight in weights],
    }


def _named(
    data: ReportData, name: str, outcome: Outcome, rows: NDArray[np.int64], places: dict[tuple[str, int, bytes], int]
) -> dict[str, Any]:
    title, kind = data.titles.get(name, ""), "f4" if outcome.scores.dtype == np.float32 else "f8"
    label = f"{name}: {title}" if title else name
    scores = _place(places, kind, outcome.scores[rows])
    return {"name": name, "label": label, "kind": kind, "scores": scores, "all": outcome.n, "repeats": outcome.repeats}


def drawn_rows(labels: NDArray[Any], limit: int) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """Draw at most ``limit`` rows by class, and say how many rows each drawn negative and positive stands for.

    The rarer class keeps up to half of the places, so that few positives among many negatives are not lost. The same
    labels always give the same rows.
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
    """Draw at most ``limit`` rows by class, the rarest first, each with an equal part of the places that are left.

    With them come the numbers of rows that each drawn row of a class stands for.
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
