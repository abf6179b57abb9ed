"""The report of scores that were made elsewhere: thresholds, errors in cost, calibration, and the explorer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.base.labels import encode_labels
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.calibration import expected_calibration_error
from adacsl.metrics.intervals import Interval, mean_interval, saving_over_constant
from adacsl.report.content import Page, Section, Tile, View
from adacsl.report.data import Outcome, Terms
from adacsl.report.explorer import explorers_of, without_samples
from adacsl.report.formatting import show
from adacsl.report.page import render_page, write_text
from adacsl.report.sections.about import provenance_section
from adacsl.report.sections.calibration import Calibration, calibration_section
from adacsl.report.sections.costs import Costs, costs_card, costs_section
from adacsl.report.sections.errors import Errors, errors_section, thinned, threshold_curve, threshold_figure
from adacsl.report.sections.errors import threshold_points as points_of
from adacsl.report.sections.multiclass import class_errors_section
from adacsl.thresholds.constraints import Constraints
from adacsl.thresholds.search import find_threshold
from adacsl.thresholds.uncertainty import tune_threshold

with requires("compare"):
    import pandas as pd

PAGE_BYTES = 5_900_000
TUNED, BAYES, HALF, LIKELIEST = "cost-optimal threshold", "Bayes threshold", "threshold 0.5", "likeliest class"
CONSTRAINED = "threshold under the constraints"


class Rule(NamedTuple):
    """A way to decide by scores: its outcome, and its mean cost with an interval."""

    outcome: Outcome
    cost: Interval


def report_scores(
    scores: Any,
    labels: Any,
    costs: CostMatrix,
    path: str | os.PathLike[str] = "scores.html",
    *,
    pos_label: Any = None,
    title: str = "Scores and costs",
    unit: str = "",
    constraints: Mapping[str, float | None] | Constraints | None = None,
) -> Path:
    """Write the report of a model's scores: the cost of every threshold, errors in cost, calibration.

    It is one HTML file that loads nothing, with sliders for other costs and thresholds.

    Parameters
    ----------
    scores : array of shape (n,) or (n, K)
        Probabilities of the positive class, or of each class, of samples that did not train the model.
    labels : array of shape (n,)
        Their labels; with K classes in the order of the scores' columns: 0 to K - 1, or the names in the costs.
    costs : CostMatrix
        Class-wide, or per-sample costs of two classes.
    path : path, default "scores.html"
        The file to write; an existing one is replaced completely or not at all.
    pos_label : optional
        The label of the positive class; not needed for 0/1, -1/1 and false/true.
    title : str, default "Scores and costs"
        Title of the page.
    unit : str, default ""
        Unit of the costs, such as EUR.
    constraints : dict or Constraints, optional
        Constraints on the threshold, such as ``{"min_recall": 0.9}``, of two classes; the page then shows the
        cost-optimal threshold that meets them. Default: none.

    Returns
    -------
    Path
        The written file.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, report_scores
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, 500)
    >>> scores = np.clip(0.3 * labels + 0.6 * rng.random(500), 0, 1)
    >>> costs = CostMatrix(fp=1, fn=8)
    >>> report_scores(scores, labels, costs, "scores.html")  # doctest: +SKIP
    PosixPath('scores.html')
    """
    page = render_scores(scores, labels, costs, pos_label=pos_label, title=title, unit=unit, constraints=constraints)
    return write_text(page, path)


def render_scores(
    scores: Any, labels: Any, costs: CostMatrix, *, pos_label: Any = None, title: str = "", unit: str = "",
    constraints: Mapping[str, float | None] | Constraints | None = None,
) -> str:  # fmt: skip
    """Return the page of :func:`report_scores` as text."""
    proba, y, names = _read(scores, labels, costs, pos_label)
    limits = Constraints.of(constraints)
    if limits is not None and proba.ndim != 1:
        raise ValueError(f"constraints hold for two classes, and the scores have {proba.shape[1]}: omit them")
    rules = _class_rules(proba, y, costs) if proba.ndim != 1 else _binary_rules(proba, y, costs, limits)
    terms = Terms(unit=unit, classes=(names[0], names[1]) if len(names) == 2 else ("negative", "positive"))
    page = _page(rules, terms, title, names, limits)
    outcomes = {name: rule.outcome for name, rule in rules.items()}
    figures: dict[str, Any] = {}
    if proba.ndim == 1:
        one = outcomes[next(iter(outcomes))]
        figures["view-0-threshold"] = threshold_figure(thinned(threshold_curve(one), 2), points_of(one), unit=unit)
    room = PAGE_BYTES - len(render_page(replace(page, explorers=without_samples(1)), figures).encode())
    explorers = explorers_of([outcomes], [next(iter(outcomes))], {}, terms.classes, room)
    return render_page(replace(page, explorers=explorers), figures)


# what came


def _read(
    scores: Any, labels: Any, costs: CostMatrix, pos_label: Any
) -> tuple[NDArray[np.float64], NDArray[np.int64], list[str]]:
    """Return checked probabilities, class numbers and the names of the classes."""
    if not isinstance(costs, CostMatrix) or not costs.resolved:
        raise TypeError(f"costs must be a CostMatrix of numbers, such as CostMatrix(fp=1, fn=8), got {costs!r}")
    proba = np.asarray(as_host(scores), dtype=np.float64)
    wanted = (costs.n_classes,) if costs.n_classes > 2 else ()
    if proba.ndim == 2 and proba.shape[1] == 1 and not wanted:
        proba = proba[:, 0]
    if proba.shape[1:] != wanted or not len(proba):
        raise ValueError(f"scores must have shape {('n', *wanted)}, as the costs have, got {proba.shape}")
    if not ((proba >= 0.0) & (proba <= 1.0)).all():
        raise ValueError(
            "the report needs probabilities, from 0 to 1 and none missing; of log-odds 1 / (1 + exp(-score)) makes such"
        )
    if wanted and np.abs(proba.sum(axis=1) - 1.0).max() > 1e-3:
        raise ValueError("the probabilities of the classes must sum to 1 in each row")
    given = np.asarray(as_host(labels))
    if given.shape != (len(proba),):
        raise ValueError(f"labels must be one for each of {len(proba)} scores, got shape {given.shape}")
    if costs.n_instances not in (None, len(proba)):
        raise ValueError(f"per-sample costs must be as many as scores: got {costs.n_instances} for {len(proba)}")
    encoded = encode_labels(given, pos_label, costs.classes, who="report_scores")
    if len(encoded.classes) != costs.n_classes:
        raise ValueError(f"labels have {len(encoded.classes)} classes, the costs {costs.n_classes}")
    return proba, encoded.numbers, [str(name) for name in encoded.order.names]


# ways to decide


def _binary_rules(
    proba: NDArray[np.float64], y: NDArray[np.int64], costs: CostMatrix, limits: Constraints | None = None
) -> dict[str, Rule]:
    """Return the ways to decide, first the one that the page is about."""
    rules: dict[str, Rule] = {}
    if limits is not None:
        cut = find_threshold(proba, y, costs, **limits.limits).value
        rules[CONSTRAINED] = _decided(proba, y, costs, (proba > cut).astype(np.int64), cut)
    tuned = tune_threshold(proba, y, costs)
    rules |= {TUNED: _decided(proba, y, costs, (proba > tuned.best.value).astype(np.int64), tuned.best.value)}
    if tuned.cost is not None:  # what the threshold costs on other samples than those that chose it
        rules[TUNED] = rules[TUNED]._replace(cost=tuned.cost)
    bayes = None if costs.n_instances is not None else float(costs.threshold)
    rules[BAYES] = _decided(proba, y, costs, np.asarray(as_host(costs.decide(proba))), bayes)
    if bayes is None or abs(bayes - 0.5) > 1e-9:
        rules[HALF] = _decided(proba, y, costs, (proba > 0.5).astype(np.int64), 0.5)
    return rules


def _class_rules(proba: NDArray[np.float64], y: NDArray[np.int64], costs: CostMatrix) -> dict[str, Rule]:
    return {
        "least expected cost": _decided(proba, y, costs, np.asarray(as_host(costs.decide(proba)))),
        LIKELIEST: _decided(proba, y, costs, np.argmax(proba, axis=1), rule="half"),
    }


def _decided(
    proba: NDArray[np.float64], y: NDArray[np.int64], costs: CostMatrix, decisions: NDArray[Any],
    threshold: float | None = None, rule: str = "",
) -> Rule:  # fmt: skip
    each = costs if proba.ndim == 1 else None
    prices = {} if each is None else {name: _cost_of(getattr(each, name)) for name in ("fp", "fn", "tp", "tn")}
    outcome = Outcome(
        proba, y, decisions, np.zeros(len(y), dtype=np.int64), **prices, threshold=threshold,
        matrix=None if proba.ndim == 1 else costs, rule=rule,
    )  # fmt: skip
    return Rule(outcome, mean_interval(np.asarray(as_host(costs.incurred(y, decisions)), dtype=np.float64)))


def _cost_of(value: Any) -> Any:
    values = np.asarray(as_host(value), dtype=np.float64)
    return values if values.ndim else float(values)


# the page


def _page(rules: dict[str, Rule], terms: Terms, title: str, names: list[str], limits: Constraints | None) -> Page:
    best, first = next(iter(rules.items()))
    y, costs = first.outcome.labels, first.outcome.costs
    paid = {name: rule.cost for name, rule in rules.items()} | {
        f"always {name}": mean_interval(np.asarray(as_host(costs.incurred(y, np.full(len(y), k))), dtype=np.float64))
        for k, name in enumerate(names)
    }
    order = sorted(paid, key=lambda name: paid[name].estimate)
    frame = pd.DataFrame([{"method": name, "n": 1, **paid[name]._asdict()} for name in order])
    frame = frame.rename(columns={"estimate": "cost"})
    outcomes = {name: rules[name].outcome for name in rules}
    table = Costs(frame, terms=terms)
    errors = Errors(outcomes, best, terms)
    sections: list[Section | None] = [
        costs_section(table),
        errors_section(errors) if first.outcome.n_classes == 2 else class_errors_section(errors),
        calibration_section(Calibration({best: first.outcome})),
        provenance_section(_facts(first.outcome, names)),
    ]
    view = View(
        headline=_headline(rules, best, limits),
        lead=_lead(rules, terms),
        tiles=_tiles(first, terms),
        footnote=_footnote(rules),
        cards=[costs_card(table)],
        sections=[one for one in sections if one is not None],
    )  # fmt: skip
    return Page(title=title or "Scores and costs", views=[view], unit=terms.unit, classes=terms.classes)


def _footnote(rules: dict[str, Rule]) -> str:
    texts = ["Bootstrap intervals."]
    if TUNED in rules:
        texts.append("The cost of the cost-optimal threshold is that of thresholds tuned on one half of the samples "
                     "and measured on the other.")  # fmt: skip
    if CONSTRAINED in rules:
        texts.append("The cost of the threshold under the constraints is that of the samples that chose it.")
    return " ".join(texts)


def _headline(rules: dict[str, Rule], best: str, limits: Constraints | None) -> str:
    threshold = rules[best].outcome.threshold
    if threshold is None:
        return f"Deciding by least expected cost costs {show(rules[best].cost.estimate)} per sample"
    if limits is not None:
        return f"The cost-optimal threshold under the constraints is {show(threshold)}"
    return f"The cost-optimal threshold of these scores is {show(threshold)}"


def _lead(rules: dict[str, Rule], terms: Terms) -> str:
    texts = [f"{name} {terms.amount(show(rule.cost.estimate))}" for name, rule in rules.items()]
    where = "" if CONSTRAINED in rules else ", to be expected on new samples"
    return f"Mean cost per sample{where}: {'; '.join(texts)}."


def _tiles(first: Rule, terms: Terms) -> list[Tile]:
    outcome, cost = first.outcome, first.cost
    paid = np.asarray(as_host(outcome.costs.incurred(outcome.labels, outcome.decisions)), dtype=np.float64)
    saving = saving_over_constant(outcome.costs, outcome.labels, paid)
    error = expected_calibration_error(outcome.scores, outcome.labels)
    between = f"95 % CI {show(cost.low, 3)} to {show(cost.high, 3)}"
    return [
        Tile("Mean cost per sample", terms.amount(show(cost.estimate, 3)), between),
        Tile(
            "Saved per sample against the best constant decision", terms.amount(show(saving.estimate, 3)),
            f"95 % CI {show(saving.low, 3)} to {show(saving.high, 3)}",
        ),
        Tile("Calibration error", f"{error:.3f}", "mean distance of probabilities from frequencies"),
    ]  # fmt: skip


def _facts(outcome: Outcome, names: list[str]) -> dict[str, str]:
    counts = np.bincount(outcome.labels, minlength=outcome.n_classes)
    shares = ", ".join(f"{name}: {count:,}" for name, count in zip(names, counts, strict=True))
    return {"samples": f"{outcome.n:,}", "classes": shares, "costs": str(outcome.costs) if not outcome.own_costs else
            "of each sample"}  # fmt: skip
