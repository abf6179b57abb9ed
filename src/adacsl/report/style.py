"""Figure style: colours of both themes, the plotly template, and the parts that figures share."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from adacsl.base.extras import requires
from adacsl.report.notebook import Figure

with requires("compare"):
    import pandas as pd
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots


LINE_END = "line-end"
"""The name of labels at the ends of lines: a narrow page takes them off and shows a legend instead."""

COLORED = 4
"""So many methods get a colour of their own; the others stay grey."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


class Palette(NamedTuple):
    """The colours of a theme, by role; as text on ``paper`` all but ``grid`` and ``quiet`` pass WCAG AA."""

    paper: str
    ink: str
    muted: str
    grid: str
    quiet: str
    first: str
    second: str
    third: str
    fourth: str

    @property
    def lines(self) -> tuple[str, str, str, str]:
        """Colours of lines in order; distinct with any kind of colour vision (after Okabe and Ito)."""
        return self.first, self.second, self.third, self.fourth


PALETTES: dict[str, Palette] = {
    "light": Palette("#ffffff", "#1d2733", "#5b6876", "#e3e8ed", "#b4bec8", "#0b62b0", "#b04a00", "#00735c", "#96458a"),
    "dark": Palette("#151a20", "#e7ebef", "#9dabb9", "#2a323b", "#4f5b67", "#66b5ff", "#ff9d52", "#3fcf9f", "#e090d2"),
}


def house_template(theme: str = "light") -> go.layout.Template:
    """Return the plotly template of a theme."""
    colors = PALETTES[theme]
    axis = {
        "gridcolor": colors.grid, "linecolor": colors.grid, "zeroline": False, "ticks": "", "automargin": True,
        "ticklabelstandoff": 4,
        "title": {"font": {"size": 13, "color": colors.muted}, "standoff": 10}, "tickfont": {"color": colors.muted},
    }  # fmt: skip
    return go.layout.Template(
        layout={
            "font": {"family": FONT, "size": 13, "color": colors.ink},
            "title": {"font": {"size": 16}, "x": 0, "xref": "paper", "xanchor": "left"},
            "paper_bgcolor": colors.paper, "plot_bgcolor": colors.paper, "colorway": list(colors.lines),
            "xaxis": axis, "yaxis": axis, "hovermode": "closest",
            "hoverlabel": {"font": {"family": FONT, "color": colors.ink}, "bgcolor": colors.paper,
                           "bordercolor": colors.muted},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
            "margin": {"l": 8, "r": 16, "t": 56, "b": 48}, "dragmode": False,
        }
    )  # fmt: skip


def new_figure(theme: str, title: str, *, height: int, rows: int = 1) -> go.Figure:
    """Return an empty figure in the style of the page; ``rows`` of them share their horizontal axis."""
    figure = Figure()
    if rows > 1:
        make_subplots(rows=rows, cols=1, shared_xaxes=True, vertical_spacing=0.08, figure=figure)
    return figure.update_layout(template=house_template(theme), title_text=title, height=height)


def dotted(theme: str) -> dict[str, Any]:
    """Return how a line looks that only gives orientation."""
    return {"color": PALETTES[theme].muted, "width": 1, "dash": "dot"}


def add_guide(figure: go.Figure, x: Any, y: Any, line: Mapping[str, Any]) -> None:
    """Draw a line that only gives orientation: not in the legend, and silent under the pointer."""
    figure.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)


def list_names(figure: go.Figure, names: Sequence[str], colors: Palette) -> go.Figure:
    """Write names along the vertical axis, the first on top."""
    return figure.update_yaxes(
        type="category", categoryorder="array", categoryarray=names, range=[len(names) - 0.4, -0.6], showgrid=False,
        tickfont={"color": colors.ink},
    )  # fmt: skip


def add_band(figure: go.Figure, part: pd.DataFrame, column: str, color: str, *, row: int | None = None) -> None:
    """Shade from the lowest to the highest value of splits and folds."""
    x = part["epoch"].to_numpy()
    y = np.concatenate((part[f"{column}_low"].to_numpy(), part[f"{column}_high"].to_numpy()[::-1]))
    place = {} if row is None else {"row": row, "col": 1}
    figure.add_scatter(
        x=np.concatenate((x, x[::-1])), y=y, fill="toself", fillcolor=color, opacity=0.13, line={"width": 0},
        mode="lines", hoverinfo="skip", showlegend=False, **place,
    )  # fmt: skip


def interval_bars(part: pd.DataFrame, color: str) -> dict[str, Any]:
    """Return how a cost shows its interval: as a line, and under the pointer."""
    return {
        "error_x": {"type": "data", "symmetric": False, "array": part["high"] - part["cost"],
                    "arrayminus": part["cost"] - part["low"], "color": color, "thickness": 1.6, "width": 0},
        "customdata": np.stack((part["low"], part["high"]), axis=1),
        "hovertemplate": "%{y}<br>%{x:.4g} (%{customdata[0]:.4g} to %{customdata[1]:.4g})<extra></extra>",
    }  # fmt: skip


def add_curves(
    figure: go.Figure, table: pd.DataFrame, x: str, y: str, highlight: Sequence[str] | None, theme: str
) -> go.Figure:
    """Draw a curve for each method of a table; larger points of bins hold more samples."""
    names = highlighted_first(table["method"], highlight or ())
    highlight = names[:COLORED] if highlight is None else highlight
    colors = colors_of(names, highlight, theme)
    for name in reversed(names):
        part, big = table[table["method"] == name], name in highlight
        look: dict[str, Any] = {"mode": "lines", "line": {"color": colors[name], "width": 2.2 if big else 1}}
        counts = ""
        if "n" in part.columns:
            look |= {"mode": "lines+markers" if big else "lines", "customdata": part["n"]}
            look |= {"marker": {"size": 5 + 11 * np.sqrt(part["n"] / part["n"].max()), "opacity": 0.85}}
            counts = "<br>%{customdata} samples"
        words = hover(x.replace("_", " "), y.replace("_", " "), counts)
        figure.add_scatter(x=part[x], y=part[y], name=plain(name), showlegend=big, hovertemplate=words, **look)
    return figure.update_layout(showlegend=True, legend_traceorder="reversed")


def add_line_ends(figure: go.Figure, ends: list[tuple[str, float, float, str]], span: tuple[float, float]) -> go.Figure:
    """Write each line's name at its end, on an axis of logarithms, moved apart where lines meet."""
    ends = sorted(ends, key=lambda end: end[2])
    for (name, x, _, color), place in zip(ends, _spread([end[2] for end in ends], span), strict=True):
        figure.add_annotation(
            name=LINE_END, text=plain(name), x=float(np.log10(x)), y=place, xanchor="left",
            xshift=8, showarrow=False, font={"color": color, "size": 12},
        )  # fmt: skip
    right = 16 + 8 * max((len(end[0]) for end in ends), default=0)
    return figure.update_layout(margin_r=min(right, 150), showlegend=False)


def _spread(heights: Sequence[float], span: tuple[float, float]) -> list[float]:
    """Move rising heights as little as needed to be a label's height apart, all inside the figure."""
    step = 0.06 * (span[1] - span[0])
    places: list[float] = []
    for height in heights:
        places.append(max([min(height, span[1]), *(last + step for last in places[-1:])]))
    ceiling = span[1]
    for k in reversed(range(len(places))):
        places[k] = min(places[k], ceiling)
        ceiling = places[k] - step
    return places


def highlighted_first(names: pd.Series[Any], highlight: Sequence[str]) -> list[str]:
    """Return the different names, those to highlight first."""
    present = list(dict.fromkeys(names))
    return [name for name in highlight if name in present] + [name for name in present if name not in highlight]


def colors_of(names: Sequence[str], highlight: Sequence[str], theme: str) -> dict[str, str]:
    """Return a colour for each name: a bright one for those to highlight, grey for the others."""
    bright = dict(zip(highlight, PALETTES[theme].lines, strict=False))
    return {name: bright.get(name, PALETTES[theme].quiet) for name in names}


def top_of(values: Any, least: float, most: float) -> float:
    """Return where an axis ends: above all values, between ``least`` and ``most``."""
    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    return max(least, min(most, float(finite.max()) * 1.08)) if finite.size else max(least, 1.0)


def hover(x: str, y: str, tail: str = "") -> str:
    """Return the hover text of a point: its name and both numbers."""
    # names come in through a field: a %{ in a name would be read as one
    return f"%{{fullData.name}}<br>{x} %{{x:.4g}}<br>{y} %{{y:.4g}}{tail}<extra></extra>"


def axis_title(text: str, unit: str) -> str:
    """Return the title of an axis, its unit in brackets."""
    return f"{text} [{plain(unit)}]" if unit else text


def plain(text: str) -> str:
    """Return a name escaped for plotly, which interprets some HTML in texts."""
    return html.escape(str(text), quote=False)
