"""The monitoring report as one HTML file, on the same page engine as comparisons."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from adacsl.metrics.intervals import Interval
from adacsl.monitoring.report import MonitoringReport
from adacsl.report.content import Page, Tile, View
from adacsl.report.formatting import show
from adacsl.report.page import write_page
from adacsl.report.sections.monitoring import (
    ClassPrior,
    Costs,
    ScoreBins,
    TimeWindow,
    costs_card,
    prior_section,
    scores_section,
    sentences_section,
    windows_section,
)

RECOMMENDATIONS = {"keep": "no change", "review": "review", "retune": "re-tune", "unresolved": "too few samples"}


def write_monitoring(
    result: MonitoringReport, path: str | os.PathLike[str], *, title: str = "Monitoring report"
) -> Path:
    """Write the monitoring report as one HTML file.

    An existing file is replaced completely or not at all.

    Parameters
    ----------
    result : MonitoringReport
        The result of :func:`adacsl.monitor`.
    path : path
        The file, such as ``monitor.html``.
    title : str, default "Monitoring report"
        Title of the page.

    Returns
    -------
    pathlib.Path
        The written file.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier, monitor
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(1000) < 0.3).astype(int)
    >>> X = rng.normal(size=(1000, 1)) + 1.5 * y[:, None]
    >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
    >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X[:500], y[:500])
    >>> result = monitor(model, X[500:], y[500:])
    >>> write_monitoring(result, "monitor.html")  # doctest: +SKIP
    """
    return write_page(monitoring_page(result, title), path)


def monitoring_page(result: MonitoringReport, title: str) -> Page:
    """Return the contents of the monitoring page."""
    headline, *sentences = result.sentences
    estimated = result.labels.estimated if result.labels is not None else None
    windows = [
        TimeWindow(window.name, window.rows, window.labelled, window.cost, window.expected, window.psi)
        for window in result.windows
    ]
    sections = (
        sentences_section(sentences),
        windows_section(windows, None if estimated is None else estimated.estimate),
        prior_section(_priors(result)),
        scores_section(_scores(result)),
    )
    view = View(
        headline=headline,
        tiles=list(_tiles(result)),
        cards=[costs_card(Costs(cost_rows(result), result.level))],
        sections=[one for one in sections if one is not None],
    )
    return Page(title=title, views=[view])


def cost_rows(result: MonitoringReport) -> list[tuple[str, Interval]]:
    """Return the known mean costs, by name."""
    rows: list[tuple[str, Interval]] = []
    if result.labels is not None:
        rows.append(("measured", result.labels.cost))
        if result.labels.saving is not None:
            cost, saving = result.labels.cost.estimate, result.labels.saving
            rows.append(("if re-tuned", Interval(cost - saving.estimate, cost - saving.high, cost - saving.low)))
        if result.labels.constant is not None:
            constant = result.labels.constant
            rows.append((f"always {constant.decision}", Interval(constant.cost, constant.cost, constant.cost)))
        if result.labels.estimated is not None:
            rows.append(("in training", result.labels.estimated))
    rows.append(("expected", result.expected))
    if result.shifted_costs is not None and result.prior is not None and result.prior.excluded:
        now, adapted = result.shifted_costs.cost, result.shifted_costs.adapted
        rows.append(("with estimated prior", Interval(now, now, now)))
        rows.append(("adapted to that prior", Interval(adapted, adapted, adapted)))
    return rows


def _tiles(result: MonitoringReport) -> Iterator[Tile]:
    """Yield the tiles of the summary."""
    counts = f"{result.rows:,} samples, {result.labelled:,} with a label"
    yield Tile("Recommendation", RECOMMENDATIONS[result.recommendation], counts)
    if result.labels is not None:
        estimated = result.labels.estimated
        then = "" if estimated is None else f"; {show(estimated.estimate, 3)} in training"
        yield Tile("Mean cost per sample", show(result.labels.cost.estimate, 3), _ci(result.labels.cost, result) + then)
    else:
        yield Tile("Expected cost per sample", show(result.expected.estimate, 3), "by the model's probabilities")
    if result.loss is not None and result.enough:
        sure = _ci(result.loss, result, 1000) if result.by_labels else "expected with the estimated class prior"
        yield Tile("Saved by re-tuning, per 1,000 samples", show(1000 * result.loss.estimate, 3), sure)
    if result.scores is not None:
        yield Tile("Score drift (PSI)", f"{result.scores.psi:.3f}", f"drift from {show(result.scores.limit, 3)} on")


def _ci(interval: Interval, result: MonitoringReport, scale: float = 1.0) -> str:
    return f"{result.level * 100:g} % CI {show(scale * interval.low, 3)} to {show(scale * interval.high, 3)}"


def _priors(result: MonitoringReport) -> list[ClassPrior]:
    prior = result.prior
    if prior is None:
        return []
    shares = result.labels.prior if result.labels is not None else [None] * len(result.classes)
    return [
        ClassPrior(
            name,
            float(prior.then[k]),
            Interval(float(prior.now[k]), float(prior.low[k]), float(prior.high[k])),
            shares[k],
        )
        for k, name in enumerate(result.classes)
    ]


def _scores(result: MonitoringReport) -> ScoreBins | None:
    scores = result.scores
    if scores is None:
        return None
    name = result.classes[scores.place]
    return ScoreBins(name, scores.edges, scores.then, scores.now, scores.psi, scores.ks, scores.shifted)
