"""Errors and thresholds of two classes: the confusion matrix in cost, samples of similar score, all thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.metrics.bins import UniformBins
from adacsl.report import style
from adacsl.report.apportionment import whole_confusion
from adacsl.report.content import Card, Matrix, MatrixCell, Section, Table, section
from adacsl.report.data import Outcome, Terms
from adacsl.report.formatting import show, show_column, show_count, with_unit
from adacsl.report.style import PALETTES
from adacsl.report.tables import records, show_whole
from adacsl.thresholds.search import cost_curve, find_threshold, subgroup_thresholds

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


EDGE = 1e-6
"""How near 0 or 1 a target threshold may come: the tie rule needs it strictly between them."""


@dataclass(frozen=True)
class Errors:
    """Whose errors are shown.

    Parameters
    ----------
    outcomes : mapping from str to Outcome
        The test samples of all methods, lowest cost first.
    method : str
        The recommended method.
    terms : Terms
        Words and units.
    """

    outcomes: Mapping[str, Outcome]
    method: str
    terms: Terms = field(default_factory=Terms)

    @property
    def shown(self) -> tuple[str, Outcome]:
        """The method whose errors are shown, and its outcome: the recommended one, else the first."""
        name = self.method if self.method in self.outcomes else next(iter(self.outcomes))
        return name, self.outcomes[name]


def errors_section(errors: Errors) -> Section | None:
    """Return the confusion matrix in cost, groups of similar score, and the thresholds of all methods."""
    if not errors.outcomes:
        return None
    name, outcome = errors.shown
    matrix = Card(
        "matrix",
        title=f"Errors of {name}, by cost",
        guide=f"{outcome.counted} The darker an error, the higher its total cost.",
        matrix=cost_matrix(outcome, errors.terms),
    )
    groups = Card(
        "groups",
        title="Samples of similar score",
        guide=(
            "The cost-optimal threshold of each group alone (Table 1 of the AdaCSL paper). Where it differs from the "
            "others, probabilities are not calibrated in that range, or samples are few."
        ),
        tables=[group_table(name, subgroup_table(outcome), errors.terms)],
    )
    thresholds = Card(
        "thresholds",
        title="Thresholds of all methods",
        guide="The oracle threshold is chosen on the test samples themselves: its cost is a lower limit.",
        tables=[threshold_table(errors)],
    )
    return section("errors", "Errors and thresholds", [matrix, groups], [thresholds])


# numbers


def threshold_curve(outcome: Outcome) -> pd.DataFrame:
    """Return the cost of every threshold: threshold, cost (per sample), total_cost, and its two avoidable parts.

    As everywhere here, totals and counts are those of one repeat.
    """
    curve = cost_curve(outcome.scores, outcome.labels, outcome.costs)
    return pd.DataFrame(
        {
            "threshold": np.asarray(curve.thresholds, dtype=float).clip(0.0),
            "cost": curve.costs,
            "total_cost": outcome.per_repeat(curve.total_costs),
            "missed": curve.false_negatives / outcome.n,
            "alarmed": curve.false_positives / outcome.n,
        }
    )


def threshold_points(outcome: Outcome) -> pd.DataFrame:
    """Return the thresholds to mark on the curve: the chosen one, the oracle ("cheapest") and the Bayes threshold."""
    points = []
    if outcome.threshold is not None:
        points.append(("chosen", float(outcome.threshold), _cost_at(outcome, outcome.threshold)))
    best = find_threshold(outcome.scores, outcome.labels, outcome.costs)
    points.append(("cheapest", max(best.value, 0.0), best.total_cost))
    if not outcome.own_costs:
        bayes = float(outcome.costs.threshold)
        points.append(("Bayes", bayes, _cost_at(outcome, bayes)))
    frame = pd.DataFrame(points, columns=["point", "threshold", "total_cost"])
    frame["cost"] = frame["total_cost"] / outcome.n
    return frame.assign(total_cost=outcome.per_repeat(frame["total_cost"]))


def thinned(curve: pd.DataFrame, points: int = 400) -> pd.DataFrame:
    """Return at most about ``points`` rows of a curve, ends and minimum among them: as many as a screen can show."""
    if len(curve) <= points:
        return curve
    along = np.searchsorted(curve["threshold"].to_numpy(), np.linspace(0.0, 1.0, points // 2), side="right") - 1
    evenly = np.linspace(0, len(curve) - 1, points // 2).round().astype(int)
    keep = np.unique(np.concatenate((along.clip(0), evenly, [int(curve["cost"].to_numpy().argmin())])))
    return curve.iloc[keep].reset_index(drop=True)


def subgroup_table(outcome: Outcome, *, bins: int = 10) -> pd.DataFrame:
    """Return the paper's Table 1: samples of similar score, and the cost-optimal threshold of each such subgroup.

    Among equally good thresholds T_m is the one nearest the chosen (else the Bayes) threshold: where T_m equals it,
    nothing is lost in that subgroup. ``cost`` is the cost of the method's predictions there, ``lowest_cost`` the one
    at T_m.
    """
    numbers = np.asarray(UniformBins(bins)(outcome.scores))
    edges = np.arange(bins + 1) / bins
    best, _ = subgroup_thresholds(
        outcome.scores, outcome.labels, outcome.costs, numbers, target_threshold=_target(outcome)
    )
    present = np.unique(numbers)
    paid = as_host(outcome.costs.incurred(outcome.labels, outcome.decisions))
    return pd.DataFrame(
        {
            "low": edges[present],
            "high": edges[present + 1],
            "n": outcome.per_repeat(np.bincount(numbers, minlength=bins)[present]),
            "positives": outcome.per_repeat(np.bincount(numbers[outcome.labels == 1], minlength=bins)[present]),
            "threshold": [result.value for result in best],
            "lowest_cost": outcome.per_repeat(np.array([result.total_cost for result in best])),
            "cost": outcome.per_repeat(np.bincount(numbers, weights=paid, minlength=bins)[present]),
        }
    )


def confusion_table(outcome: Outcome) -> pd.DataFrame:
    """Return the confusion matrix in counts and costs: outcome, actual, decided, count, mean_cost, total_cost."""
    paid = as_host(outcome.costs.incurred(outcome.labels, outcome.decisions))
    rows = []
    for name, actual, decided in (("tp", 1, 1), ("fn", 1, 0), ("fp", 0, 1), ("tn", 0, 0)):
        here = (outcome.labels == actual) & (outcome.decisions == decided)
        count, total = int(here.sum()), float(paid[here].sum())
        cost = float(np.mean(as_host(getattr(outcome.costs, name)))) if count == 0 else total / count
        rows.append((name, actual, decided, outcome.per_repeat(count), cost, outcome.per_repeat(total)))
    return pd.DataFrame(rows, columns=["outcome", "actual", "decided", "count", "mean_cost", "total_cost"])


def _cost_at(outcome: Outcome, threshold: float) -> float:
    # in float64, as the page does it: numpy would round the threshold to the scores' own float32
    return outcome.costs.total(outcome.labels, (outcome.scores.astype(float) > threshold).astype(int))


def _target(outcome: Outcome) -> float:
    target = outcome.threshold if outcome.threshold is not None else float(outcome.costs.averaged().threshold)
    return min(max(float(target), EDGE), 1.0 - EDGE)


# what is shown


def cost_matrix(outcome: Outcome, terms: Terms) -> Matrix:
    """Return a confusion matrix with the total cost and the whole samples of each cell."""
    table, people = confusion_table(outcome), whole_confusion(outcome)
    largest = float(table["total_cost"].abs().max()) or 1.0
    cells = {
        row.outcome: MatrixCell(
            row.outcome, with_unit(row.total_cost, terms.unit),
            f"{show_whole(int(people[row.actual, row.decided]), row.count)} samples", abs(row.total_cost) / largest,
        )
        for row in records(table)
    }  # fmt: skip
    return in_order("Total cost of each outcome", terms.classes, cells)


def in_order(caption: str, classes: tuple[str, str], cells: Mapping[str, MatrixCell]) -> Matrix:
    """Return the cells of two classes as a matrix, positives first."""
    rows = [(classes[1], [cells["tp"], cells["fn"]]), (classes[0], [cells["fp"], cells["tn"]])]
    return Matrix(caption, [f"predicted {name}" for name in classes[::-1]], rows)


def group_table(name: str, table: pd.DataFrame, terms: Terms) -> Table:
    """Return the cost-optimal threshold of groups of similar score."""
    rows = [
        [
            f"{row.low:.1f} to {row.high:.1f}", show_count(row.n), show_count(row.positives),
            f"{max(row.threshold, 0.0):.3f}", show(row.lowest_cost), show(row.cost),
        ]
        for row in records(table)
    ]  # fmt: skip
    heads = ["score", "samples", terms.classes[1], "optimal threshold", "total cost there", "total cost as predicted"]
    return Table(f"Groups of similar score, {name}", heads, rows)


def threshold_table(errors: Errors) -> Table:
    """Return the threshold of each method, and the cost at other thresholds."""
    rows: list[list[object]] = []
    numbers: list[float] = []
    for name, outcome in errors.outcomes.items():
        points = {point.point: point for point in records(threshold_points(outcome))}
        best = points["cheapest"]
        own = "varies" if outcome.threshold is None else f"{outcome.threshold:.3f}"
        rows.append([name, own, None, f"{best.threshold:.3f}", None, None])
        numbers += [
            outcome.costs.mean(outcome.labels, outcome.decisions),
            best.cost,
            points["Bayes"].cost if "Bayes" in points else float("nan"),
        ]
    costs = iter(show_column(numbers))
    filled = [[next(costs) if cell is None else cell for cell in row] for row in rows]
    heads = [
        "method",
        "threshold",
        errors.terms.head("cost"),
        "oracle threshold",
        "cost there",
        "cost at the Bayes threshold",
    ]
    return Table("Thresholds and mean cost per sample", heads, filled, errors.method)


def threshold_figure(curve: pd.DataFrame, points: pd.DataFrame, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the cost of every threshold, with the chosen, the oracle and the Bayes threshold marked."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Cost of every threshold", height=400)
    figure.add_scatter(
        x=[*curve["threshold"], 1.0], y=[*curve["cost"], curve["cost"].iloc[-1]], mode="lines", name="cost",
        line={"color": colors.muted, "width": 2, "shape": "hv"},
        hovertemplate="threshold %{x:.4f}<br>cost %{y:.4g}<extra></extra>",
    )  # fmt: skip
    looks = {
        "chosen": ("diamond", colors.first, "chosen"),
        "cheapest": ("circle", colors.third, "oracle (chosen on test data)"),
        "Bayes": ("line-ns-open", colors.fourth, "Bayes"),
    }
    for point, (symbol, color, label) in looks.items():
        row = points[points["point"] == point]
        figure.add_scatter(
            x=row["threshold"], y=row["cost"], mode="markers", name=label,
            marker={"symbol": symbol, "size": 13, "color": color, "line": {"color": color, "width": 2.5}},
            hovertemplate=f"{label}: threshold %{{x:.4f}}<br>cost %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    top = style.top_of(curve["cost"], least=0.0, most=float(points["cost"].min()) * 6 or 1.0)
    figure.update_xaxes(title_text="threshold", range=[-0.01, 1.01])
    figure.update_yaxes(title_text=style.axis_title("mean cost per sample", unit), range=[0, top])
    return figure.update_layout(showlegend=True)
