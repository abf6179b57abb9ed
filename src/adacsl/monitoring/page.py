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
    found: MonitoringReport, path: str | os.PathLike[str], *, title: str = "Monitoring report"
) -> Path:
    """Write the monitoring report as one HTML file and return its path.

    An existing file is replaced completely or not at all.

    Parameters
    ----------
    found : MonitoringReport
        The result of :func:`adacsl.monitor`.
    path : path
        The file, such as ``monitor.html``.
    title : str
        Title of the page.

    Returns
    -------
    Path
        The written file.
    """
    return write_page(monitoring_page(found, title), path)


def monitoring_page(found: MonitoringReport, title: str) -> Page:
    """Return the contents of the monitoring page."""
    headline, *sentences = found.sentences
    estimated = found.labels.estimated if found.labels is not None else None
    windows = [
        TimeWindow(window.name, window.rows, window.labelled, window.cost, window.expected, window.psi)
        for window in found.windows
    ]
    sections = (
        sentences_section(sentences),
        windows_section(windows, None if estimated is None else estimated.estimate),
        prior_section(_priors(found)),
        scores_section(_scores(found)),
    )
    view = View(
        headline=headline,
        tiles=list(_tiles(found)),
        cards=[costs_card(Costs(cost_rows(found), found.level))],
        sections=[one for one in sections if one is not None],
    )
    return Page(title=title, views=[view])


def cost_rows(found: MonitoringReport) -> list[tuple[str, Interval]]:
    """Return the known mean costs, by name."""
    rows: list[tuple[str, Interval]] = []
    if found.labels is not None:
        rows.append(("measured", found.labels.cost))
        if found.labels.saving is not None:
            cost, saving = found.labels.cost.estimate, found.labels.saving
            rows.append(("if re-tuned", Interval(cost - saving.estimate, cost - saving.high, cost - saving.low)))
        if found.labels.constant is not None:
            constant = found.labels.constant
            rows.append((f"always {constant.decision}", Interval(constant.cost, constant.cost, constant.cost)))
        if found.labels.estimated is not None:
            rows.append(("in training", found.labels.estimated))
    rows.append(("expected", found.expected))
    if found.shifted_costs is not None and found.prior is not None and found.prior.excluded:
        now, adapted = found.shifted_costs.cost, found.shifted_costs.adapted
        rows.append(("with estimated prior", Interval(now, now, now)))
        rows.append(("adapted to that prior", Interval(adapted, adapted, adapted)))
    return rows


def _tiles(found: MonitoringReport) -> Iterator[Tile]:
    """Yield the tiles of the summary."""
    counts = f"{found.rows:,} samples, {found.labelled:,} with a label"
    yield Tile("Recommendation", RECOMMENDATIONS[found.recommendation], counts)
    if found.labels is not None:
        estimated = found.labels.estimated
        then = "" if estimated is None else f"; {show(estimated.estimate, 3)} in training"
        yield Tile("Mean cost per sample", show(found.labels.cost.estimate, 3), _ci(found.labels.cost, found) + then)
    else:
        yield Tile("Expected cost per sample", show(found.expected.estimate, 3), "by the model's probabilities")
    if found.loss is not None and found.enough:
        sure = _ci(found.loss, found, 1000) if found.by_labels else "expected with the estimated class prior"
        yield Tile("Saved by re-tuning, per 1,000 samples", show(1000 * found.loss.estimate, 3), sure)
    if found.scores is not None:
        yield Tile("Score drift (PSI)", f"{found.scores.psi:.3f}", f"drift from {show(found.scores.limit, 3)} on")


def _ci(interval: Interval, found: MonitoringReport, scale: float = 1.0) -> str:
    return f"{found.level * 100:g} % CI {show(scale * interval.low, 3)} to {show(scale * interval.high, 3)}"


def _priors(found: MonitoringReport) -> list[ClassPrior]:
    prior = found.prior
    if prior is None:
        return []
    shares = found.labels.prior if found.labels is not None else [None] * len(found.classes)
    return [
        ClassPrior(
            name,
            float(prior.then[k]),
            Interval(float(prior.now[k]), float(prior.low[k]), float(prior.high[k])),
            shares[k],
        )
        for k, name in enumerate(found.classes)
    ]


def _scores(found: MonitoringReport) -> ScoreBins | None:
    scores = found.scores
    if scores is None:
        return None
    name = found.classes[scores.place]
    return ScoreBins(name, scores.edges, scores.then, scores.now, scores.psi, scores.ks, scores.shifted)
