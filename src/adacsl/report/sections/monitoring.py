"""A deployed model on new samples: its costs, costs over time, class prior, and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.metrics.intervals import Interval
from adacsl.report import style
from adacsl.report.content import Card, Section, Table, section
from adacsl.report.formatting import DASH, show, show_percent
from adacsl.report.style import PALETTES, plain

with requires("compare"):
    import plotly.graph_objects as go


class TimeWindow(NamedTuple):
    """The samples of some time: counts, measured cost of those with labels, expected cost, and shift of the scores."""

    name: str
    samples: int
    labelled: int
    cost: Interval | None
    expected: float
    psi: float | None


class ClassPrior(NamedTuple):
    """The share of a class: in training, estimated now, and among samples with labels."""

    name: str
    training: float
    now: Interval
    labelled: Interval | None = None


class ScoreBins(NamedTuple):
    """Shares of the samples in bins of the scores, in training and now; and the statistics of their difference."""

    name: str
    edges: NDArray[np.float64]
    training: NDArray[np.float64]
    now: NDArray[np.float64]
    psi: float
    ks: float
    shifted: bool


@dataclass(frozen=True)
class Costs:
    """Mean costs per sample by name, the most important first, and the coverage of their intervals."""

    rows: Sequence[tuple[str, Interval]]
    level: float = 0.95


def costs_card(costs: Costs) -> Card:
    """Return all costs per sample that are known."""
    cells = [(name, show(cost.estimate), show(cost.low), show(cost.high)) for name, cost in costs.rows]
    return Card(
        "costs",
        title="Mean cost per sample",
        guide=(
            "Measured: samples with labels. In training: the estimate of the training. Expected: by the probabilities. "
            "With estimated prior: if the classes have the shares estimated below. Lines are "
            f"{costs.level * 100:g} % intervals (bootstrap over samples or groups)."
        ),
        alt="; ".join(f"{name} {show(cost.estimate)}" for name, cost in costs.rows) + ".",
        figure=costs_figure(costs.rows),
        folded=[Table("Mean costs per sample", ("", "mean", "from", "to"), cells)],
    )


def windows_section(windows: Sequence[TimeWindow], promised: float | None = None) -> Section | None:
    """Return costs and shift by time, where a time was given."""
    if not windows:
        return None
    heads = ("time", "samples", "with label", "mean cost", "from", "to", "expected", "PSI")
    cells = []
    for window in windows:
        cost = (DASH,) * 3 if window.cost is None else tuple(show(value) for value in window.cost)
        counts = (f"{window.samples:,}", f"{window.labelled:,}")
        cells.append((window.name, *counts, *cost, show(window.expected), show(window.psi)))
    card = Card(
        "time",
        guide="Points: measured on samples with labels, with intervals. Dashed: expected by the probabilities.",
        alt=f"The mean cost in {len(windows)} windows of time; the table has all numbers.",
        figure=windows_figure(windows, promised),
        folded=[Table("Costs by time", heads, cells)],
    )
    return section("over-time", "Cost over time", [card])


def prior_section(priors: Sequence[ClassPrior]) -> Section | None:
    """Return the class prior in training and now."""
    if not priors:
        return None
    cells = [
        (one.name, *(show_percent(share) for share in (one.training, one.now.estimate, one.now.low, one.now.high)))
        for one in priors
    ]
    card = Card(
        "shares",
        guide=(
            "In training, as estimated from the probabilities, and among samples with labels. The estimate assumes "
            "that the samples of a class look as in training (prior shift)."
        ),
        alt="; ".join(f"{name}: {then} in training, {now} now" for name, then, now, *_ in cells) + ".",
        figure=prior_figure(priors),
        folded=[Table("Class prior", ("class", "in training", "now, estimated", "from", "to"), cells)],
    )
    return section("prior", "Class prior", [card])


def scores_section(scores: ScoreBins | None) -> Section | None:
    """Return the distribution of the scores in training and now."""
    if scores is None:
        return None
    ends = [0.0, *scores.edges.tolist(), 1.0]
    cells = [
        (f"{show(low, 3)} to {show(high, 3)}", show_percent(then), show_percent(now))
        for low, high, then, now in zip(ends[:-1], ends[1:], scores.training, scores.now, strict=True)
    ]
    card = Card(
        "scores",
        guide=(
            f"Probabilities of “{scores.name}” in bins that held equally many samples in training. PSI "
            f"{scores.psi:.3f}, Kolmogorov-Smirnov statistic {scores.ks:.3f}."
        ),
        alt=f"Bins of probabilities; {'they differ from' if scores.shifted else 'no drift against'} the training.",
        figure=scores_figure(scores),
        folded=[Table("Shares of the bins", ("probability", "in training", "now"), cells)],
    )
    return section("drift", "Distribution of the scores", [card])


def sentences_section(sentences: Sequence[str]) -> Section | None:
    """Return the findings as sentences."""
    card = Card("sentences", sentences=sentences)
    return section("findings", "Findings", [card] if sentences else [], open=True)


# figures


def costs_figure(rows: Sequence[tuple[str, Interval]], *, theme: str = "light") -> go.Figure:
    """Draw mean costs with their intervals, one below the other."""
    colors, names = PALETTES[theme], [plain(name) for name, _ in rows]
    figure = style.new_figure(theme, "Mean cost per sample", height=96 + 34 * len(rows))
    costs = [cost for _, cost in rows]
    first = [colors.first if place == 0 else colors.ink for place in range(len(rows))]
    figure.add_scatter(
        x=[cost.estimate for cost in costs], y=names, mode="markers", showlegend=False,
        marker={"color": first, "size": 10}, error_x=_error(costs, colors.muted),
        hovertemplate="%{y}<br>%{x:.4g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text="mean cost per sample", rangemode="tozero")
    return style.list_names(figure, names, colors)


def _error(costs: Sequence[Interval], color: str) -> dict[str, Any]:
    return {
        "type": "data", "symmetric": False, "array": [cost.high - cost.estimate for cost in costs],
        "arrayminus": [cost.estimate - cost.low for cost in costs], "color": color, "thickness": 1.6, "width": 0,
    }  # fmt: skip


def windows_figure(windows: Sequence[TimeWindow], promised: float | None = None, *, theme: str = "light") -> go.Figure:
    """Draw the cost of each window of time: measured with its interval, expected, and estimated in training."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Cost over time", height=380)
    names = [plain(window.name) for window in windows]
    known = [(plain(window.name), window.cost) for window in windows if window.cost is not None]
    if known:
        costs = [cost for _, cost in known]
        figure.add_scatter(
            x=[name for name, _ in known], y=[cost.estimate for cost in costs], mode="markers",
            name="measured", marker={"color": colors.first, "size": 9}, error_y=_error(costs, colors.first),
            hovertemplate="%{x}<br>%{y:.4g}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=names, y=[window.expected for window in windows], mode="lines+markers", name="expected",
        line={"color": colors.second, "dash": "dash", "width": 1.6}, marker={"size": 5},
        hovertemplate="%{x}<br>expected %{y:.4g}<extra></extra>",
    )  # fmt: skip
    if promised is not None:
        flat = [promised] * len(names)
        figure.add_scatter(
            x=names, y=flat, mode="lines", name="in training", line=style.dotted(theme), hoverinfo="skip"
        )
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names, nticks=8)
    figure.update_yaxes(title_text="mean cost per sample", rangemode="tozero")
    return figure.update_layout(showlegend=True)


def prior_figure(priors: Sequence[ClassPrior], *, theme: str = "light") -> go.Figure:
    """Draw the share of each class (of two: of the positive one) in training, now, and among samples with labels."""
    colors = PALETTES[theme]
    shown = list(priors)[1:] if len(priors) == 2 else list(priors)
    one = len(shown) == 1
    parts: list[tuple[str, list[Interval], str, str]] = [
        ("in training", [Interval(*[prior.training] * 3) for prior in shown], colors.muted, "line-ns-open"),
        ("estimated now", [prior.now for prior in shown], colors.first, "circle"),
    ]
    labelled = [prior.labelled for prior in shown if prior.labelled is not None]
    if labelled:
        parts.append(("with labels", labelled, colors.second, "diamond-open"))
    names = [label for label, *_ in parts] if one else [plain(prior.name) for prior in shown]
    figure = style.new_figure(theme, "Class prior", height=110 + 44 * len(names))
    for label, shares, color, symbol in parts:
        values = [Interval(*(100 * end for end in share)) for share in shares]
        figure.add_scatter(
            x=[value.estimate for value in values], y=[label] if one else names, mode="markers", name=label,
            marker={"color": color, "size": 12, "symbol": symbol, "line": {"color": color, "width": 2}},
            error_x=_error(values, color), hovertemplate=f"%{{y}}<br>{label} %{{x:.3g}} %<extra></extra>",
        )  # fmt: skip
    whose = plain(shown[0].name) if one else "the classes"
    figure.update_xaxes(title_text=f"share of {whose}, %", rangemode="tozero")
    return style.list_names(figure, names, colors).update_layout(showlegend=not one)


def scores_figure(scores: ScoreBins, *, theme: str = "light") -> go.Figure:
    """Draw the shares of the bins of probabilities, in training and now."""
    colors = PALETTES[theme]
    ends = [0.0, *scores.edges.tolist(), 1.0]
    # bins of one name would be drawn as one
    digits = next((d for d in range(2, 17) if len({show(end, d) for end in ends}) == len(ends)), 17)
    names = [f"{show(low, digits)} to {show(high, digits)}" for low, high in pairwise(ends)]
    figure = style.new_figure(theme, "Distribution of the scores", height=360)
    for label, shares, color in (("in training", scores.training, colors.quiet), ("now", scores.now, colors.first)):
        figure.add_bar(
            x=names, y=100 * np.asarray(shares), name=label, marker_color=color,
            hovertemplate=f"%{{x}}<br>{label} %{{y:.3g}} %<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(type="category", title_text="probability")
    figure.update_yaxes(title_text="share of the samples, %", rangemode="tozero")
    return figure.update_layout(barmode="group", bargap=0.25, showlegend=True)
