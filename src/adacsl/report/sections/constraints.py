"""Reject option and capacity constraint of the recommended method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.report import style
from adacsl.report.content import Card, Section, Table, listed, section
from adacsl.report.data import Outcome
from adacsl.report.formatting import show, show_column, show_percent, unbroken, with_unit
from adacsl.report.style import PALETTES
from adacsl.report.tables import table_of

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


POINTS = 61
"""Points of a curve: costs of a referral, or numbers of positive predictions."""

WORTH = 0.01
"""A referral that saves less than this share of the cost is not worth its trouble."""

LISTED = 11
"""About so many points of a curve stand in a table."""


@dataclass(frozen=True)
class Constraints:
    """The method whose predictions are constrained, its test samples, and the unit of costs."""

    method: str
    outcome: Outcome
    unit: str = ""


def constraints_section(given: Constraints | None) -> Section | None:
    """Return the reject option and, of two classes, the capacity constraint; None without any method to constrain."""
    if given is None:
        return None
    capacity = _capacity_card(given) if given.outcome.n_classes == 2 else None
    title = "Reject option and capacity" if given.outcome.n_classes == 2 else "Reject option"
    return section("ways", title, listed(capacity, _referral_card(given)))


def constrained(outcomes: Mapping[str, Outcome], method: str, unit: str = "") -> Constraints | None:
    """Return the recommended method, else the first, of those with scores that differ; None where there is none."""
    names = [name for name in dict.fromkeys((method, *outcomes)) if name in outcomes]
    name = next((name for name in names if np.ptp(outcomes[name].scores, axis=0).max() > 0), None)
    return None if name is None else Constraints(name, outcomes[name], unit)


def _capacity_card(given: Constraints) -> Card | None:
    table = capacity_table(given.outcome)
    if len(table) < 3:
        return None
    columns = {
        "predicted positive": [show_percent(share) for share in table["checked"]],
        _per_sample(given.unit): show_column(table["cost"]),
    }
    return Card(
        "capacity",
        title="Capacity constraint",
        guide=(
            "Mean cost when only so many samples can be predicted positive (checked, called, treated): those with the "
            "largest expected saving. The line ends where no further one saves anything."
        ),
        result=unbroken(_capacity_words(given, table)),
        alt=f"Mean cost of {given.method} against the share of samples that can be predicted positive.",
        figure=capacity_figure(table, unit=given.unit),
        folded=[_listed("Capacity", columns)],
    )


def _capacity_words(given: Constraints, table: pd.DataFrame) -> str:
    none, full = table.iloc[0], table.iloc[-1]
    half = table.iloc[(table["checked"] - full["checked"] / 2).abs().argmin()]
    start = f"Without a limit, {given.method} predicts {show_percent(full['checked'])} of the samples as positive"
    if full["cost"] >= none["cost"]:
        return f"{start}; its probabilities are not calibrated, and this saves nothing."
    share = (none["cost"] - half["cost"]) / (none["cost"] - full["cost"])
    costs = f"mean cost {with_unit(full['cost'], given.unit, 3)}, against {show(none['cost'], 3)} with none"
    few = (
        f" The half with the largest expected saving saves {show_percent(min(share, 1.0))} of that."
        if share > 0
        else ""
    )
    return f"{start}: {costs}.{few}"


def _referral_card(given: Constraints) -> Card | None:
    table = referral_table(given.outcome)
    even = break_even(given.outcome, table)
    if not table["referral_cost"].iloc[-1] > 0:
        return None
    columns = {
        "cost of a referral": [show(cost, 3) for cost in table["referral_cost"]],
        "referred": [show_percent(share) for share in table["referred"]],
        _per_sample(given.unit): show_column(table["cost"]),
    }
    return Card(
        "referral",
        title="Reject option",
        guide=(
            "Samples whose expected cost exceeds the cost of a referral go to a person, who is assumed to be right. "
            "Above: mean cost, referrals included. Below: share of samples referred."
        ),
        result=unbroken(_referral_words(given, table, even)),
        alt=f"Mean cost of {given.method}, and the share of samples referred, against the cost of a referral.",
        figure=referral_figure(table, even=even, unit=given.unit),
        folded=[_listed("Referrals", columns)],
    )


def _referral_words(given: Constraints, table: pd.DataFrame, even: float) -> str:
    alone = given.outcome.costs.mean(given.outcome.labels, given.outcome.decisions)
    if even <= 0:
        return f"No reject option pays with {given.method}: its errors cost too little."
    highest = float(table["referral_cost"].iloc[-1])
    at = table.iloc[(table["referral_cost"] - min(even, highest) / 2).abs().argmin()]
    limit = f"up to about {with_unit(even, given.unit, 2)} each"
    if even > highest:
        limit = f"even above {with_unit(highest, given.unit, 2)} each, for a few samples with high costs"
    less = f" ({show_percent((alone - at['cost']) / alone)} less)" if alone > 0 else ""
    return (
        f"Referrals pay {limit}. At {show(at['referral_cost'], 2)}, {show_percent(at['referred'])} of the samples are "
        f"referred and the mean cost is {show(at['cost'], 3)} instead of {show(alone, 3)}{less}."
    )


def _per_sample(unit: str) -> str:
    return f"mean cost per sample, {unit}" if unit else "mean cost per sample"


def _listed(caption: str, columns: dict[str, list[str]]) -> Table:
    table = table_of(caption, columns)
    every = max(1, round(len(table.rows) / (LISTED - 1)))
    return table._replace(rows=[*table.rows[:-1:every], table.rows[-1]])


# numbers


def referral_table(outcome: Outcome, *, points: int = POINTS) -> pd.DataFrame:
    """Return the effect of a reject option, at costs of a referral up to one at which hardly any sample is referred.

    A sample is referred where that costs less than the expected cost of its prediction (above being right). Columns:
    referral_cost, referred (share of the samples), cost (per sample, referrals included).
    """
    risk, paid, base = _risks(outcome)
    order = np.argsort(-risk, kind="stable")
    # without the highest per cent: one sample of a high cost would stretch the axis
    high = float(np.quantile(risk, 0.99)) * 1.05
    costs = np.linspace(0.0, high, points)
    referred = np.searchsorted(-risk[order], -costs, side="left")  # those that risk more than a referral costs
    saved = np.concatenate(([0.0], np.cumsum(paid[order])))
    cost = base + (saved[-1] - saved[referred] + costs * referred) / outcome.n
    return pd.DataFrame({"referral_cost": costs, "referred": referred / outcome.n, "cost": cost})


def break_even(outcome: Outcome, table: pd.DataFrame) -> float:
    """Return up to which cost a referral pays: where it stops saving a hundredth of the (avoidable) cost.

    Infinity where the highest per cent of the samples alone is worth more than the costs of the table.
    """
    _, paid, base = _risks(outcome)
    avoidable = float(paid.mean())
    saved = base + avoidable - table["cost"].to_numpy()
    enough = saved > WORTH * avoidable
    if enough.all() or not enough[0]:
        return float("inf") if enough.all() else 0.0
    last = int(np.argmin(enough)) - 1
    costs = table["referral_cost"].to_numpy()
    fall = (saved[last] - WORTH * avoidable) / (saved[last] - saved[last + 1])
    return float(costs[last] + fall * (costs[last + 1] - costs[last]))


def capacity_table(outcome: Outcome, *, points: int = POINTS) -> pd.DataFrame:
    """Return the effect of a limit to the number of positive predictions, of two classes.

    Samples are predicted positive in the order of their expected saving; the others negative. Columns: checked (share
    of the samples; up to all that save something), cost (per sample), by_probability (the cost where the samples of the
    highest probability are taken instead; differs with per-sample costs).
    """
    scores = outcome.scores.astype(np.float64)
    each = as_host(outcome.costs.expected_of_each(scores))
    gains = each[:, 0] - each[:, 1]
    wanted = int((gains > 0).sum())
    counts = np.unique(np.linspace(0, wanted, min(points, wanted + 1)).round().astype(int))
    never, always = (_paid(outcome, action) for action in (0, 1))
    costs = []
    for order in (np.argsort(-gains, kind="stable"), np.argsort(-scores, kind="stable")):
        saved = np.concatenate(([0.0], np.cumsum((never - always)[order])))
        costs.append((never.sum() - saved[counts]) / outcome.n)
    return pd.DataFrame({"checked": counts / outcome.n, "cost": costs[0], "by_probability": costs[1]})


def _paid(outcome: Outcome, action: int) -> NDArray[np.float64]:
    return np.asarray(as_host(outcome.costs.incurred(outcome.labels, np.full(outcome.n, action))), dtype=np.float64)


def _risks(outcome: Outcome) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the expected and the actual cost of each prediction above being right, and the cost of being right."""
    avoidable = outcome.costs.reduced()
    risk = as_host(avoidable.expected(outcome.scores.astype(np.float64), outcome.decisions))
    paid = as_host(avoidable.incurred(outcome.labels, outcome.decisions))
    whole = as_host(outcome.costs.incurred(outcome.labels, outcome.decisions))
    return np.asarray(risk), np.asarray(paid), float((whole - paid).mean())


# figures


def capacity_figure(table: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the mean cost against the share of samples that can be predicted positive."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Capacity constraint", height=400)
    lines: list[tuple[str, str, str, str]] = [("by expected saving", "cost", colors.first, "solid")]
    if not np.allclose(table["cost"], table["by_probability"]):
        lines.insert(0, ("by probability", "by_probability", colors.second, "dot"))
    for label, column, color, dash in lines:
        figure.add_scatter(
            x=100 * table["checked"], y=table[column], mode="lines", name=label,
            line={"color": color, "width": 2.4, "dash": dash},
            hovertemplate=f"{label}<br>%{{x:.3g}} % positive<br>cost %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title_text="samples that can be predicted positive", ticksuffix=" %", rangemode="tozero")
    figure.update_yaxes(title_text=style.axis_title("mean cost per sample", unit), rangemode="tozero")
    return figure.update_layout(showlegend=len(lines) > 1)


def referral_figure(table: pd.DataFrame, *, even: float, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the mean cost, and the share of samples referred, against the cost of a referral."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Reject option", height=480, rows=2)
    looks: Sequence[tuple[str, str, pd.Series[float], str, str]] = (
        ("cost", "mean cost", table["cost"], colors.first, "%{y:.4g}"),
        ("referred", "referred", 100 * table["referred"], colors.third, "%{y:.3g} %"),
    )
    for row, (name, words, values, color, form) in enumerate(looks, start=1):
        figure.add_scatter(
            x=table["referral_cost"], y=values, mode="lines", name=name, showlegend=False,
            line={"color": color, "width": 2.4}, row=row, col=1,
            hovertemplate=f"referral %{{x:.4g}}<br>{words} {form}<extra></extra>",
        )  # fmt: skip
        if np.isfinite(even):
            figure.add_vline(x=even, row=row, col=1, line=style.dotted(theme))
    if np.isfinite(even):
        figure.add_annotation(
            text="break-even", x=even, y=1, yref="paper", xanchor="center", yanchor="bottom", showarrow=False,
            font={"size": 12, "color": colors.muted},
        )  # fmt: skip
    figure.update_yaxes(title_text=style.axis_title("mean cost per sample", unit), rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="samples referred", ticksuffix=" %", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title_text=style.axis_title("cost of a referral", unit), row=2, col=1)
    return figure
