"""Sensitivity of the recommendation to the costs: extra cost over a range of ratios, and cost against the ratio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix, or_nan, scale_fn
from adacsl.report import style
from adacsl.report.content import Card, Section, Table, listed, section
from adacsl.report.data import Outcome, Regret, Terms
from adacsl.report.formatting import DASH, show, show_column, show_percent, show_short, unbroken
from adacsl.report.style import COLORED, PALETTES, plain
from adacsl.report.tables import records, wide_table

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go


RATIO_AXIS = "cost of a false negative, in false positives"


@dataclass(frozen=True)
class Sensitivity:
    """What other costs would mean, of two classes.

    Parameters
    ----------
    ratio : float
        The cost ratio of the view.
    methods : sequence of str
        The methods to colour, the recommended one first.
    outcomes : mapping from str to Outcome
        The test samples of all methods.
    results : DataFrame
        The fits at all ratios: method, ratio, cost, normalized_cost.
    regret : Regret, optional
        Extra cost of each method over a range of ratios.
    terms : Terms
        Words and units.
    """

    ratio: float
    methods: Sequence[str]
    outcomes: Mapping[str, Outcome]
    results: pd.DataFrame
    regret: Regret | None = None
    terms: Terms = field(default_factory=Terms)


def sensitivity_section(given: Sensitivity) -> Section | None:
    """Return the extra cost over a range of ratios, and the normalized cost against the ratio."""
    return section("ratios", "Sensitivity to the costs", listed(_regret_card(given)), listed(_ratio_card(given)))


def _regret_card(given: Sensitivity) -> Card | None:
    result, name = given.regret, given.methods[0]
    if result is None:
        return None
    names = ", ".join(rivals(result, name))
    return Card(
        "regret",
        title="Extra cost if the costs are different",
        guide=(
            "Extra cost of each method over the lowest-cost one at every cost ratio in and around the (shaded) range. "
            "Cost-aware methods predict again at each ratio, from the same probabilities without training; the "
            "predictions of others stay."
        ),
        result=unbroken(result.words),
        alt=(
            f"Extra cost of {names} over the lowest-cost method, for a false negative worth {show(result.low, 3)} to "
            f"{show(result.high, 3)} false positives. The tables have the worst case of each method."
        ),
        figure=regret_figure(result, name, unit=given.terms.unit),
        folded=[_worst_table(result, name, given.terms), _lowest_table(result)],
    )


def _worst_table(result: Regret, marked: str, terms: Terms) -> Table:
    rows = [
        [r.method, _percent(r.percent), cost, show(r.at, 3), show_percent(r.cheapest), show_percent(r.undecided)]
        for r, cost in zip(records(result.table), show_column(result.table["regret"]), strict=True)
    ]
    heads = ["method", "at most above the lowest", terms.head("per sample"), "at ratio", "lowest cost in"]
    heads.append("predictions that change")
    return Table("Worst case of each method within the range", heads, rows, marked)


def _percent(value: float) -> str:
    return f"{show_short(value)} %" if np.isfinite(value) else DASH


def _lowest_table(result: Regret) -> Table:
    rows = [[f"{show(r.low, 3)} to {show(r.high, 3)}", r.method] for r in records(result.cheapest)]
    return Table("Lowest-cost method at each ratio", ["ratio", "method"], rows, text=(1,))


def _ratio_card(given: Sensitivity) -> Card | None:
    ran = ratio_table(given.results)
    shown = {name: given.outcomes[name] for name in given.methods if name in given.outcomes}
    again = _redecided(given.ratio, shown, ran)
    if len(ran["ratio"].unique()) < 2 and again.empty:
        return None
    wide = ran.pivot_table(index="method", columns="ratio", values="normalized_cost", sort=False)
    order = [*given.methods, *(name for name in wide.index if name not in given.methods)]
    wide = wide.reindex([name for name in order if name in wide.index])
    return Card(
        "ratio",
        title="Normalised cost against the cost ratio",
        guide=(
            "Points: fits. Lines: the same probabilities, predicted again at the Bayes threshold of each ratio without "
            "training. 1 is the best constant baseline."
        ),
        alt=(
            f"Normalised cost of {', '.join(given.methods)} against the cost ratio; 1 is the best constant baseline. "
            "The table has the ratios of the fits."
        ),
        figure=ratio_figure(ran, again, highlight=list(given.methods)),
        folded=[wide_table("Normalised cost at the ratios of the fits", "method", wide, marked=given.methods[0])],
    )


def _redecided(ratio: float, outcomes: Mapping[str, Outcome], ran: pd.DataFrame) -> pd.DataFrame:
    known = [ratio, *ran["ratio"].tolist()]
    around = np.geomspace(min(known) / 4, max(known) * 4, 41)
    own = any(outcome.own_costs for outcome in outcomes.values())
    # with per-sample costs the ratio is a mean: what can be moved is a factor on every false negative
    frame = redecided_table(outcomes, around / ratio if own else around)
    return frame.assign(ratio=frame["ratio"] * ratio) if own else frame


# numbers


def with_ratio(outcome: Outcome, ratio: float) -> CostMatrix:
    """Return the costs with another ratio of the two errors: fn moves, fp stays.

    With per-sample costs ``ratio`` is a factor on the cost of every false negative (1: as it was).
    """
    costs = outcome.costs
    if outcome.own_costs:
        return scale_fn(costs, ratio)
    return CostMatrix(fp=costs.fp, fn=costs.tp + ratio * (costs.fp - costs.tn), tp=costs.tp, tn=costs.tn)


def ratio_table(results: pd.DataFrame) -> pd.DataFrame:
    """Return the cost of each method at each ratio: method, ratio, n, cost, normalized_cost (means of fits)."""
    if results.empty:
        return pd.DataFrame(columns=["method", "ratio", "n", "cost", "normalized_cost"])
    if "normalized_cost" not in results.columns:
        results = results.assign(normalized_cost=np.nan)
    groups = results.groupby(["method", "ratio"], sort=False)
    frame = groups.agg(n=("cost", "size"), cost=("cost", "mean"), normalized_cost=("normalized_cost", "mean"))
    return frame.reset_index()


def redecided_table(outcomes: Mapping[str, Outcome], ratios: Iterable[float]) -> pd.DataFrame:
    """Return the cost of the same probabilities at other ratios, each at its Bayes threshold: no new training."""
    rows = []
    for name, outcome in outcomes.items():
        for ratio in ratios:
            costs = with_ratio(outcome, float(ratio))
            decided = outcome.labels, costs.decide(outcome.scores)
            rows.append((name, float(ratio), costs.mean(*decided), or_nan(costs.normalized, *decided)))
    return pd.DataFrame(rows, columns=["method", "ratio", "cost", "normalized_cost"])


# figures


def rivals(result: Regret, recommended: str) -> list[str]:
    """Return the methods to colour: the recommended, the lowest-cost ones somewhere, and the smallest worst cases."""
    longest = result.cheapest.assign(length=np.log(result.cheapest["high"] / result.cheapest["low"]))
    firsts = longest.groupby("method")["length"].sum().sort_values(ascending=False).index.tolist()
    return list(dict.fromkeys([recommended, *firsts, *result.table["method"]]))[:COLORED]


def regret_figure(result: Regret, recommended: str, *, unit: str = "", theme: str = "light") -> go.Figure:
    """Draw the extra cost of each method over the lowest cost at each ratio; shaded is the range of ratios."""
    colors, names = PALETTES[theme], rivals(result, recommended)
    figure = style.new_figure(theme, "Extra cost if the costs are different", height=420)
    figure.add_vrect(x0=result.low, x1=result.high, fillcolor=colors.grid, line_width=0, layer="below", opacity=0.6)
    figure.add_vline(x=result.ratio, line=style.dotted(theme))
    column, words = _measure(result, unit)
    looks = style.colors_of(result.table["method"].tolist(), names, theme)
    ends = []
    for name in [*(other for other in result.table["method"] if other not in names), *reversed(names)]:
        part, big = result.curve[result.curve["method"] == name].sort_values("ratio"), name in names
        figure.add_scatter(
            x=part["ratio"], y=part[column], mode="lines", name=plain(name), showlegend=big,
            line={"color": looks[name], "width": 2.4 if name == recommended else 2 if big else 1},
            hovertemplate=style.hover("ratio", words),
        )  # fmt: skip
        if big:
            ends.append((name, float(part["ratio"].iloc[-1]), float(part[column].iloc[-1]), looks[name]))
    top = _top(result, names, column)
    figure.add_annotation(
        text="this comparison", x=float(np.log10(result.ratio)), y=0.99, yref="paper", xanchor="left", yanchor="top",
        xshift=3, showarrow=False, font={"size": 12, "color": colors.muted},
    )  # fmt: skip
    ratios = result.curve["ratio"]
    few = ratios.max() / ratios.min() < 300
    figure.update_xaxes(
        type="log", title_text=RATIO_AXIS, tickformat="~g", dtick="D2" if few else None,
        range=[float(np.log10(ratios.min())), float(np.log10(ratios.max()))],
    )  # fmt: skip
    figure.update_yaxes(title_text=words, range=[-0.02 * top, top], ticksuffix=" %" if column == "percent" else "")
    return style.add_line_ends(figure, ends, (0.0, top))


def _measure(result: Regret, unit: str) -> tuple[str, str]:
    """Return what to draw: percent, or costs where the lowest cost is nothing somewhere."""
    if np.isfinite(result.curve["percent"]).all():
        return "percent", "above the lowest cost"
    return "regret", style.axis_title("above the lowest cost, per sample", unit)


def _top(result: Regret, names: Sequence[str], column: str) -> float:
    """Return where the axis ends: above the coloured lines within the range, whatever the others do."""
    shown = result.curve[result.curve["method"].isin(names) & result.curve["within"]]
    least = 10.0 if column == "percent" else 1e-9
    near = float(result.curve.loc[result.curve["method"].eq(names[0]) & result.curve["within"], column].max())
    return style.top_of(
        shown[column], least=max(least, 1.15 * near), most=max(100.0 if least == 10.0 else np.inf, least)
    )


def ratio_figure(
    ran: pd.DataFrame,
    redecided: pd.DataFrame | None = None,
    *,
    highlight: Sequence[str] | None = None,
    theme: str = "light",
) -> go.Figure:
    """Draw the normalized cost against the cost ratio: fits as points, the same scores at other ratios as lines."""
    figure = style.new_figure(theme, "Normalised cost against the cost ratio", height=420)
    redecided = ran.iloc[:0] if redecided is None else redecided
    both = pd.concat([frame[["method", "ratio", "normalized_cost"]] for frame in (ran, redecided)])
    if highlight is None:
        highlight = ran.groupby("method")["normalized_cost"].mean().sort_values().index[:COLORED].tolist()
    names = style.highlighted_first(both["method"], highlight)
    colors = style.colors_of(names, highlight, theme)
    ends = []
    for name in names:
        again, points = (frame[frame["method"] == name].sort_values("ratio") for frame in (redecided, ran))
        line = again if len(again) else points
        if len(line) > 1 and name in highlight:
            figure.add_scatter(
                x=line["ratio"], y=line["normalized_cost"], mode="lines", name=plain(name),
                line={"color": colors[name], "width": 2.2},
                legendgroup=plain(name), hovertemplate=style.hover("ratio", "normalised cost"),
            )  # fmt: skip
        figure.add_scatter(
            x=points["ratio"], y=points["normalized_cost"], mode="markers", name=plain(name),
            legendgroup=plain(name),
            marker={"color": colors[name], "size": 8 if name in highlight else 5},
            showlegend=name in highlight and len(line) <= 1, hovertemplate=style.hover("ratio", "normalised cost"),
        )  # fmt: skip
        if name in highlight and len(line):
            ends.append((name, float(line["ratio"].iloc[-1]), float(line["normalized_cost"].iloc[-1]), colors[name]))
    top = style.top_of(both["normalized_cost"], least=1.05, most=1.6)
    figure.add_hline(y=1, line=style.dotted(theme))
    figure.add_annotation(
        text="best constant baseline", x=0, xref="x domain", y=1, xanchor="left", yanchor="bottom", showarrow=False,
        font={"size": 12, "color": PALETTES[theme].muted},
    )  # fmt: skip
    few = both.empty or np.log10(both["ratio"].max() / both["ratio"].min()) < 2.5
    figure.update_xaxes(type="log", title_text=RATIO_AXIS, tickformat="~g", dtick="D2" if few else None)
    figure.update_yaxes(title_text="normalised cost", range=[0, top])
    return style.add_line_ends(figure, ends, (0.0, top))
