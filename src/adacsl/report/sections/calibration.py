"""Calibration: reliability, Brier curve and decision curve of two classes; reliability of the likeliest of K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.scores import likeliest
from adacsl.metrics.bins import UniformBins
from adacsl.metrics.calibration import calibration_error
from adacsl.report import style
from adacsl.report.content import Card, Section, Table, section
from adacsl.report.data import Outcome
from adacsl.report.formatting import show, show_count
from adacsl.report.style import COLORED, PALETTES
from adacsl.report.tables import curve_table, records, stacked
from adacsl.thresholds.curves import brier_curve, decision_curve, optimal_cost_curve

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Calibration:
    """The methods whose probabilities are shown, the recommended one first."""

    outcomes: Mapping[str, Outcome]


def with_own_scores(outcomes: Mapping[str, Outcome], names: Sequence[str]) -> dict[str, Outcome]:
    """Return the first outcomes that have different scores, in the order of ``names``; constant scores are left out."""
    seen: dict[bytes, str] = {}
    for name in names:
        if name in outcomes and np.ptp(outcomes[name].scores) > 0:
            seen.setdefault(outcomes[name].scores.tobytes(), name)
    return {name: outcomes[name] for name in list(seen.values())[:COLORED]}


def calibration_section(calibration: Calibration) -> Section | None:
    """Return how well probabilities are calibrated."""
    shown = calibration.outcomes
    if not shown:
        return None
    many = next(iter(shown.values())).n_classes > 2
    cards = [_class_card(shown)] if many else [_reliability_card(shown), _brier_card(shown), _decision_card(shown)]
    guide = "The recommended method and the next ones by cost that have scores of their own."
    return section("probabilities", "Calibration of the probabilities", cards, guide=guide)


def _reliability_card(shown: Mapping[str, Outcome]) -> Card:
    table = calibration_table(shown)
    return Card(
        "calibration",
        title="Reliability diagram",
        guide="Of samples with a score of 0.3, 30 % should be positive: the dotted line. Larger points: more samples.",
        alt=f"Share of positives against mean score for {', '.join(shown)}.",
        figure=calibration_figure(table, highlight=list(shown)),
        folded=[_reliability_rows(table)],
    )


def _class_card(shown: Mapping[str, Outcome]) -> Card:
    table = calibration_table(shown)
    figure = calibration_figure(table, highlight=list(shown))
    figure.update_xaxes(title_text="mean probability of the likeliest class")
    figure.update_yaxes(title_text="share of correct predictions")
    rows = _reliability_rows(table)
    heads = ["method", "mean probability", "share correct", *rows.headers[3:]]
    return Card(
        "class-calibration",
        title="Reliability diagram",
        guide=(
            "Of the samples whose likeliest class has probability 0.7, 70 % should be of it: the dotted line. Larger "
            "points hold more samples."
        ),
        alt=f"Share of correct likeliest classes against their probability for {', '.join(shown)}.",
        figure=figure,
        folded=[rows._replace(headers=heads)],
    )


def _brier_card(shown: Mapping[str, Outcome]) -> Card:
    table = brier_table(shown)
    return Card(
        "brier",
        title="Brier curve",
        guide=(
            "Loss at the Bayes threshold for every cost proportion; the area is the Brier score. Dotted: the best "
            "constant baseline."
        ),
        alt=f"Loss over all cost proportions for {', '.join(shown)}.",
        figure=brier_figure(table, highlight=list(shown)),
        folded=[curve_table("Brier curve", "cost proportion", table, "proportion", "loss")],
    )


def _decision_card(shown: Mapping[str, Outcome]) -> Card:
    table = decision_table(shown)
    return Card(
        "decision",
        title="Decision curve",
        guide=(
            "Net benefit of predicting positive above a threshold, in true positives per sample. Dashed: all positive; "
            "zero: all negative."
        ),
        alt=f"Net benefit at thresholds from 0.01 to 0.99 for {', '.join(shown)}.",
        figure=decision_figure(table, highlight=list(shown)),
        folded=[curve_table("Decision curve", "threshold", table, "threshold", "net_benefit")],
    )


def _reliability_rows(table: pd.DataFrame) -> Table:
    result = records(table)
    rows = [[r.method, show(r.mean_score), show(r.positive_share), show_count(r.n), show(r.error)] for r in result]
    heads = ["method", "mean score", "share of positives", "samples", "calibration error"]
    return Table("Reliability in bins", heads, rows)


# numbers


def calibration_table(outcomes: Mapping[str, Outcome], *, bins: int = 10) -> pd.DataFrame:
    """Return, in bins of similar score, the mean score and the share of positives: equal where scores are calibrated.

    Of more than two classes: the probability of the likeliest one, and how often it was correct. ``error`` is the
    expected calibration error of the method, the same in all its rows.
    """
    parts = []
    for name, outcome in outcomes.items():
        result = calibration_error(*likeliest(outcome.scores, outcome.labels), partition=UniformBins(bins))
        columns = {"mean_score": result.mean_score, "positive_share": result.positive_share}
        columns["n"] = outcome.per_repeat(result.sizes)
        parts.append(pd.DataFrame({"method": name, **columns, "error": result.error}))
    return stacked(parts, ["method", "mean_score", "positive_share", "n", "error"])


def brier_table(outcomes: Mapping[str, Outcome], *, points: int = 101) -> pd.DataFrame:
    """Return the Brier curve at evenly spaced cost proportions.

    Columns: method, proportion, loss, best_loss, area, positive_share. ``best_loss`` is the loss at the best threshold:
    the gap is what better calibration could save. ``area`` is the Brier score.
    """
    at = np.linspace(0.0, 1.0, points)
    parts = []
    for name, outcome in outcomes.items():
        curve, best = brier_curve(outcome.scores, outcome.labels), optimal_cost_curve(outcome.scores, outcome.labels)
        columns: dict[str, Any] = {"method": name, "proportion": at, "loss": _on_steps(curve.x, curve.y, at)}
        columns |= {"best_loss": np.interp(at, best.x, best.y), "area": curve.area}
        parts.append(pd.DataFrame({**columns, "positive_share": float(outcome.labels.mean())}))
    return stacked(parts, ["method", "proportion", "loss", "best_loss", "area", "positive_share"])


def decision_table(outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
    """Return the net benefit at thresholds 0.01 .. 0.99: method, threshold, net_benefit, treat_all."""
    parts = []
    for name, outcome in outcomes.items():
        curve = decision_curve(outcome.scores, outcome.labels)
        columns = {"threshold": curve.thresholds, "net_benefit": curve.net_benefit, "treat_all": curve.treat_all}
        parts.append(pd.DataFrame({"method": name, **columns}))
    return stacked(parts, ["method", "threshold", "net_benefit", "treat_all"])


def _on_steps(x: NDArray[Any], y: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Read a curve of straight pieces that jumps between them (x holds each border twice) at some points."""
    left, right, start, end = x[0::2], x[1::2], y[0::2], y[1::2]
    piece = np.searchsorted(left, at, side="right") - 1
    width = right[piece] - left[piece]
    along = np.divide(at - left[piece], width, out=np.zeros_like(at), where=width > 0)
    return np.asarray(start[piece] + along * (end[piece] - start[piece]))


# figures


def calibration_figure(
    table: pd.DataFrame, *, highlight: Sequence[str] | None = None, theme: str = "light"
) -> go.Figure:
    """Draw the share of positives against the mean score of bins: on the diagonal scores are probabilities."""
    figure = style.new_figure(theme, "Reliability diagram", height=440)
    style.add_guide(figure, [0, 1], [0, 1], style.dotted(theme))
    style.add_curves(figure, table, "mean_score", "positive_share", highlight, theme)
    figure.update_xaxes(title_text="mean score of a bin", range=[-0.02, 1.04])
    return figure.update_yaxes(title_text="share of positives", range=[-0.02, 1.04])


def brier_figure(table: pd.DataFrame, *, highlight: Sequence[str] | None = None, theme: str = "light") -> go.Figure:
    """Draw the loss at the Bayes threshold over all cost ratios; the area under a line is its Brier score."""
    figure = style.new_figure(theme, "Brier curve", height=420)
    style.add_curves(figure, table, "proportion", "loss", highlight, theme)
    at = np.unique(table["proportion"].to_numpy(dtype=float))
    share = float(table["positive_share"].iloc[0]) if len(table) else 0.0
    # the loss of the best constant baseline
    style.add_guide(figure, at, 2 * np.minimum(at * (1 - share), (1 - at) * share), style.dotted(theme))
    figure.update_xaxes(title_text="cost proportion: fp / (fp + fn)", range=[0, 1])
    return figure.update_yaxes(title_text="loss per sample", range=[0, style.top_of(table["loss"], 0, 1)])


def decision_figure(table: pd.DataFrame, *, highlight: Sequence[str] | None = None, theme: str = "light") -> go.Figure:
    """Draw the net benefit at each threshold, against all and none predicted positive."""
    figure = style.new_figure(theme, "Decision curve", height=420)
    if len(table):
        one = table[table["method"] == table["method"].iloc[0]]  # all positive is the same for every method
        dashed = {"color": PALETTES[theme].muted, "width": 1.2, "dash": "dash"}
        style.add_guide(figure, one["threshold"], one["treat_all"], dashed)
    figure.add_hline(y=0, line=style.dotted(theme))
    style.add_curves(figure, table, "threshold", "net_benefit", highlight, theme)
    top = style.top_of(table["net_benefit"], 0.0, 1.0)
    figure.update_xaxes(title_text="threshold", range=[0, 1])
    return figure.update_yaxes(title_text="net benefit per sample", range=[-0.25 * top, top])
