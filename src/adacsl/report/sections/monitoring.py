"""The monitoring report as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import adacsl
from adacsl.base.extras import requires
from adacsl.metrics.intervals import Interval
from adacsl.report import style
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
from adacsl.report.formatting import DASH, show, show_percent
from adacsl.report.style import PALETTES, house_template, plain
from adacsl.report.tables import Table

if TYPE_CHECKING:
    from adacsl.monitoring.report import Monitoring

with requires("compare"):
    import plotly.graph_objects as go
    from markupsafe import Markup


def costs_figure(rows: Sequence[tuple[str, Interval]], *, theme: str = "light") -> go.Figure:
    """Draw costs per row with their intervals, one below the other."""
    colors, names = PALETTES[theme], [plain(name) for name, _ in rows]
    figure = style.new_figure(theme, "What a row costs", height=96 + 34 * len(rows))
    costs = [cost for _, cost in rows]
    first = [colors.first if place == 0 else colors.ink for place in range(len(rows))]
    figure.add_scatter(
        x=[cost.estimate for cost in costs], y=names, mode="markers", showlegend=False,
        marker={"color": first, "size": 10}, error_x=_error(costs, colors.muted),
        hovertemplate="%{y}<br>%{x:.4g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title_text="cost per row", rangemode="tozero")
    return style.list_names(figure, names, colors)


def _error(costs: Sequence[Interval], color: str) -> dict[str, Any]:
    return {
        "type": "data", "symmetric": False, "array": [cost.high - cost.estimate for cost in costs],
        "arrayminus": [cost.estimate - cost.low for cost in costs], "color": color, "thickness": 1.6, "width": 0,
    }  # fmt: skip


def windows_figure(found: Monitoring, *, theme: str = "light") -> go.Figure:
    """Draw the cost of each window of time: measured with its interval, expected, and promised."""
    colors = PALETTES[theme]
    figure = style.new_figure(theme, "Cost over time", height=380)
    known = [window for window in found.windows if window.cost is not None]
    names = [plain(window.name) for window in found.windows]
    if known:
        costs = [window.cost for window in known if window.cost is not None]
        figure.add_scatter(
            x=[plain(window.name) for window in known], y=[cost.estimate for cost in costs], mode="markers",
            name="has cost", marker={"color": colors.first, "size": 9}, error_y=_error(costs, colors.first),
            hovertemplate="%{x}<br>%{y:.4g}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=names, y=[window.expected for window in found.windows], mode="lines+markers", name="expected",
        line={"color": colors.second, "dash": "dash", "width": 1.6}, marker={"size": 5},
        hovertemplate="%{x}<br>expected %{y:.4g}<extra></extra>",
    )  # fmt: skip
    if found.labels is not None and found.labels.promised is not None:
        promised = [found.labels.promised.estimate] * len(names)
        figure.add_scatter(
            x=names, y=promised, mode="lines", name="promised", line=style.dotted(theme), hoverinfo="skip"
        )
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=names, nticks=8)
    figure.update_yaxes(title_text="cost per row", rangemode="tozero")
    return figure.update_layout(showlegend=True)


def prior_figure(found: Monitoring, *, theme: str = "light") -> go.Figure:
    """Draw the share of each class: in training, estimated now with its interval, and among rows with labels."""
    colors, prior = PALETTES[theme], found.prior
    assert prior is not None  # noqa: S101
    shown = [1] if len(prior.then) == 2 else list(range(len(prior.then)))
    names = (
        ["in training", "estimated now", "with labels"] if len(shown) == 1 else [plain(found.classes[k]) for k in shown]
    )
    figure = style.new_figure(theme, "The classes", height=110 + 44 * len(names))
    now = [Interval(*(100 * float(end[k]) for end in (prior.now, prior.low, prior.high))) for k in shown]
    parts: list[tuple[str, list[Interval], str, str]] = [
        ("in training", [Interval(*[100 * float(prior.then[k])] * 3) for k in shown], colors.muted, "line-ns-open"),
        ("estimated now", now, colors.first, "circle"),
    ]
    if found.labels is not None:
        shares = [Interval(*(100 * end for end in found.labels.shares[k])) for k in shown]
        parts.append(("with labels", shares, colors.second, "diamond-open"))
    names = names[: len(parts)] if len(shown) == 1 else names
    for label, values, color, symbol in parts:
        figure.add_scatter(
            x=[value.estimate for value in values], y=[label] if len(shown) == 1 else names, mode="markers", name=label,
            marker={"color": color, "size": 12, "symbol": symbol, "line": {"color": color, "width": 2}},
            error_x=_error(values, color), hovertemplate=f"%{{y}}<br>{label} %{{x:.3g}} %<extra></extra>",
        )  # fmt: skip
    whose = f"share of {names_of(found, shown)}, %"
    figure.update_xaxes(title_text=whose, rangemode="tozero")
    return style.list_names(figure, names, colors).update_layout(showlegend=len(shown) > 1)


def names_of(found: Monitoring, shown: Sequence[int]) -> str:
    """Return whose shares an axis is about."""
    return plain(found.classes[shown[0]]) if len(shown) == 1 else "the classes"


def scores_figure(found: Monitoring, *, theme: str = "light") -> go.Figure:
    """Draw the shares of the bins of probabilities, then and now."""
    colors, scores = PALETTES[theme], found.scores
    assert scores is not None  # noqa: S101
    ends = [0.0, *scores.edges.tolist(), 1.0]
    # bins of one name would be drawn as one
    digits = next((d for d in range(2, 17) if len({show(end, d) for end in ends}) == len(ends)), 17)
    names = [f"{show(low, digits)} to {show(high, digits)}" for low, high in pairwise(ends)]
    figure = style.new_figure(theme, "The scores", height=360)
    for label, shares, color in (("in training", scores.then, colors.quiet), ("now", scores.now, colors.first)):
        figure.add_bar(
            x=names, y=100 * np.asarray(shares), name=label, marker_color=color,
            hovertemplate=f"%{{x}}<br>{label} %{{y:.3g}} %<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(type="category", title_text="probability")
    figure.update_yaxes(title_text="share of the rows, %", rangemode="tozero")
    return figure.update_layout(barmode="group", bargap=0.25, showlegend=True)


VERDICTS = {"well": "all is well", "look": "look at it", "retune": "retune", "unresolved": "too few samples"}


class Picture(NamedTuple):
    """A picture with what stands above it, its text alternative and its numbers."""

    id: str
    title: str
    guide: str
    alt: str
    figure: Any
    table: Table


def write_monitoring(found: Monitoring, path: str | os.PathLike[str], *, title: str = "A model in use") -> Path:
    """Write the page about a model in use and return its path; an old page is replaced whole or not at all.

    Parameters
    ----------
    found : Monitoring
        What :func:`adacsl.monitor` has found.
    path : path
        The file, such as ``monitor.html``.
    title : str
        What stands above the page.
    """
    return write_page(render_monitoring(found, title), path)


def render_monitoring(found: Monitoring, title: str) -> str:
    """Return the page as text."""
    pictures = list(_pictures(found))
    script = template_text("monitor.js")
    plotly_js, source_hash = packed_plotly()
    headline, *sentences = found.sentences
    payload = {
        "colors": list(zip(PALETTES["light"], PALETTES["dark"], strict=True)),
        "themes": {theme: house_template(theme).to_plotly_json() for theme in ("light", "dark")},
    }
    return (
        environment()
        .get_template("monitor.html.j2")
        .render(
            title=title,
            headline=headline,
            sentences=sentences,
            tiles=list(_tiles(found)),
            pictures=pictures,
            version=adacsl.__version__,
            policy=script_policy(sha256(script), source_hash),
            style=Markup(template_text("page.css")),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            payload=embedded(payload),
            figures=packed_figures({picture.id: picture.figure for picture in pictures}),
            plotly=plotly_js,
        )
    )


def _tiles(found: Monitoring) -> Iterator[tuple[str, str, str]]:
    """Yield the headline's numbers: name, value, and a word about it."""
    yield "Verdict", VERDICTS[found.verdict], f"{found.rows:,} rows, {found.labelled:,} with a label"
    if found.labels is not None:
        promised = found.labels.promised
        then = "" if promised is None else f"; promised {show(promised.estimate, 3)}"
        yield "Cost per row", show(found.labels.cost.estimate, 3), _between(found.labels.cost, found) + then
    else:
        yield "Expected cost per row", show(found.expected.estimate, 3), "by the model's probabilities"
    if found.loss is not None and found.enough:
        name = "Not retuning, per 1,000 rows"
        sure = _between(found.loss, found, 1000) if found.by_labels else "expected under the estimated class shares"
        yield name, show(1000 * found.loss.estimate, 3), sure
    if found.scores is not None:
        yield "Score shift (PSI)", f"{found.scores.psi:.3f}", f"a shift from {show(found.scores.limit, 3)} on"


def _between(interval: Interval, found: Monitoring, scale: float = 1.0) -> str:
    ends = f"{show(scale * interval.low, 3)} to {show(scale * interval.high, 3)}"
    return f"{found.level * 100:g} % interval {ends}"


def _pictures(found: Monitoring) -> Iterator[Picture]:
    yield _costs(found)
    if found.windows:
        yield _windows(found)
    if found.prior is not None:
        yield _prior(found)
    if found.scores is not None:
        yield _scores(found)


def _costs(found: Monitoring) -> Picture:
    rows = cost_rows(found)
    cells = [(name, show(cost.estimate), show(cost.low), show(cost.high)) for name, cost in rows]
    return Picture(
        "costs",
        "What a row costs",
        "Has cost, if retuned: measured on rows with labels. Promised: in training. Expected: by the probabilities. "
        "Under new shares: if the classes have the shares that are estimated below. Lines are "
        f"{found.level * 100:g} % intervals: of what is measured now, by bootstrap over rows or groups.",
        "; ".join(f"{name} {show(cost.estimate)}" for name, cost in rows) + ".",
        costs_figure(rows),
        Table("Costs per row", ("", "mean", "from", "to"), cells),
    )


def cost_rows(found: Monitoring) -> list[tuple[str, Interval]]:
    """Return all costs per row that are known, by name."""
    rows: list[tuple[str, Interval]] = []
    if found.labels is not None:
        rows.append(("has cost", found.labels.cost))
        if found.labels.saving is not None:
            cost, saving = found.labels.cost.estimate, found.labels.saving
            anew = Interval(cost - saving.estimate, cost - saving.high, cost - saving.low)
            rows.append(("if retuned", anew))
        if found.labels.constant is not None:
            constant = found.labels.constant
            rows.append((f"always {constant.decision}", Interval(constant.cost, *[constant.cost] * 2)))
        if found.labels.promised is not None:
            rows.append(("promised", found.labels.promised))
    rows.append(("expected", found.expected))
    if found.redecided is not None and found.prior is not None and found.prior.excluded:
        rows.append(("under new shares", Interval(found.redecided.cost, *[found.redecided.cost] * 2)))
        rows.append(("decided by these", Interval(found.redecided.anew, *[found.redecided.anew] * 2)))
    return rows


def _windows(found: Monitoring) -> Picture:
    heads = ("time", "rows", "with label", "cost per row", "from", "to", "expected", "PSI")
    cells = []
    for window in found.windows:
        cost = (DASH,) * 3 if window.cost is None else tuple(show(value) for value in window.cost)
        cells.append(
            (window.name, f"{window.rows:,}", f"{window.labelled:,}", *cost, show(window.expected), show(window.psi))
        )
    return Picture(
        "time",
        "Over time",
        "Points with lines: what rows with labels have cost. Dashed: what the probabilities expect.",
        f"The cost per row in {len(found.windows)} windows of time; the table has all numbers.",
        windows_figure(found),
        Table("Costs by time", heads, cells),
    )


def _prior(found: Monitoring) -> Picture:
    prior = found.prior
    assert prior is not None  # noqa: S101
    cells = [
        (name, *(show_percent(share) for share in (prior.then[k], prior.now[k], prior.low[k], prior.high[k])))
        for k, name in enumerate(found.classes)
    ]
    return Picture(
        "shares",
        "The classes",
        "Their shares in training, as estimated from the probabilities, and among rows with labels. The estimate "
        "assumes that rows of a class look as before.",
        "; ".join(f"{name}: {then} in training, {now} now" for name, then, now, *_ in cells) + ".",
        prior_figure(found),
        Table("Shares of the classes", ("class", "in training", "now, estimated", "from", "to"), cells),
    )


def _scores(found: Monitoring) -> Picture:
    scores = found.scores
    assert scores is not None  # noqa: S101
    names = [0.0, *scores.edges.tolist(), 1.0]
    cells = [
        (f"{show(low, 3)} to {show(high, 3)}", show_percent(then), show_percent(now))
        for low, high, then, now in zip(names[:-1], names[1:], scores.then, scores.now, strict=True)
    ]
    return Picture(
        "scores",
        "The scores",
        f"Probabilities of “{found.classes[scores.place]}” in bins that held equally many rows in training. "
        f"PSI {scores.psi:.3f}, largest distance of the distributions (KS) {scores.ks:.3f}.",
        f"Ten bins of probabilities; {'they have changed' if scores.shifted else 'they are as in training'}.",
        scores_figure(found),
        Table("Shares of the bins", ("probability", "in training", "now"), cells),
    )
