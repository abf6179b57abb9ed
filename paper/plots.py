"""Figures of the reproduced tables and figures, where matplotlib is installed."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from paper.methods import PROFILES
from paper.printed import SPLIT_TITLES, TITLES, normalized, title_of
from paper.sheets import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 2
"""Runs that are too few for an interval: with one degree of freedom it would be meaningless."""

CAPTIONS = {
    "figure1a": "Figure 1(a): the cost-optimal threshold on validation data by epoch, for each cost ratio; T' is 0.5",
    "figure1b": "Figure 1(b): cost of training (dashed) and validation data by epoch, for each cost ratio",
    "table2": (
        "Table 2: normalised cost by method, mean and 95 % interval (a point alone: two runs, not to be compared with "
        "means of five); the dashed line is the paper's AdaCSL"
    ),
}


def caption_of(figure: Path) -> str:
    """Return the caption of a figure."""
    return CAPTIONS[figure.stem.partition("-")[0]]


def draw_epochs(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw Figure 1, a panel for each data set and profile."""
    frame = pd.DataFrame(rows)
    frame = frame[frame["split"].isin(["random", "patient"])]
    views = list(frame.groupby(["dataset", "profile", "split"], sort=False))
    if not views or not can_draw():
        return []
    return [
        _draw_figure(views, folder / f"{name}.png", thresholds=name == "figure1a") for name in ("figure1a", "figure1b")
    ]


def draw_methods(table: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw Table 2, a figure for each data set, profile and way of splitting, a panel for each k."""
    if not can_draw():
        return []
    made = []
    views = dict(list(cast("Any", table.groupby(["dataset", "profile", "split"]))))
    for view in sorted(
        views, key=lambda view: (view[0], list(PROFILES).index(view[1]), list(SPLIT_TITLES).index(view[2]))
    ):
        dataset, profile, split = map(str, view)
        suffix = "" if split == "random" else f"-{split}"
        path = folder / f"table2-{dataset.lower()}-{profile}{suffix}.png"
        _draw_methods(views[view], dataset, profile, split, path)
        made.append(path)
    return made


def can_draw() -> bool:
    """Tell whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def _draw_figure(views: Sequence[Any], path: Path, *, thresholds: bool) -> Path:
    columns = min(2, len(views))
    lines = math.ceil(len(views) / columns)
    figure = _new_figure(4.6 * columns, 3.2 * lines)
    for place, ((dataset, profile, split), block) in enumerate(views):
        axes = figure.add_subplot(lines, columns, place + 1)
        for number, (k, part) in enumerate(block.groupby("k")):
            color, mean = f"C{number}", part.groupby("epoch")[["threshold", "train_cost", "val_cost"]].mean()
            if thresholds:
                for _, run in part.groupby("seed"):
                    axes.plot(run["epoch"] + 1, run["threshold"], color=color, alpha=0.25, linewidth=0.8)
            else:
                axes.plot(mean.index + 1, mean["train_cost"], color=color, linestyle="--")
            axes.plot(mean.index + 1, mean["threshold" if thresholds else "val_cost"], color=color, label=f"k = {k}")
        if thresholds:
            axes.axhline(0.5, color="0.5", linewidth=0.8)
        else:
            axes.set_ylim(bottom=0.0)
        name = f"{title_of(str(dataset))}\n{profile}, {SPLIT_TITLES[str(split)]}"
        axes.set(title=name, xlabel="epoch", ylabel="T_actual" if thresholds else "cost per sample")
        axes.locator_params(axis="x", integer=True)
        axes.legend(frameon=False, ncols=3, fontsize="small")
    return _save(figure, path)


def _draw_methods(block: pd.DataFrame, dataset: str, profile: str, split: str, path: Path) -> None:
    order = [name for name in PROFILES[profile].order if name in set(block["method"])]
    factors = sorted(block["k"].unique().tolist())
    figure = _new_figure(3.1 * len(factors) + 1.2, 0.27 * len(order) + 1.0)
    first: Axes | None = None
    for place, k in enumerate(factors):
        axes = figure.add_subplot(1, len(factors), place + 1, sharey=first)
        first = first or axes
        part = block[block["k"] == k].set_index("method")
        for line, method in enumerate(order):
            if method in part.index:
                _draw_interval(axes, part.loc[method], line, own=method.startswith("adacsl"))
        theirs = normalized(dataset, int(k), "adacsl")
        if theirs is not None and split == "random":  # as the paper splits
            axes.axvline(theirs, color="0.4", linewidth=0.9, linestyle="--")
        names = [TITLES.get(name, name) if profile == "paper" else name for name in order]
        axes.set_yticks(range(len(order)), names)
        axes.tick_params(axis="y", labelleft=place == 0)
        axes.set_ylim(len(order) - 0.5, -0.5)
        scale_costs(axes, part["mean"])
        axes.grid(axis="x", alpha=0.3)
        axes.set(title=f"k = {k}", xlabel="normalised cost")
    figure.suptitle(f"{title_of(dataset)}, {profile}, {SPLIT_TITLES[split]}", fontsize="medium")
    _save(figure, path)


def scale_costs(axes: Axes, means: pd.Series[float]) -> None:
    """Start at 0; where costs differ by large factors, use a logarithmic axis, off which lower ends may run."""
    least = float(means[means > 0].min())
    if float(means.max()) > 8 * least:
        axes.set_xscale("log")
        axes.set_xlim(left=least / 3)
    else:
        axes.set_xlim(0.0, max(axes.get_xlim()[1], 1.04 * float(means.max())))
        axes.locator_params(axis="x", nbins=5)


def _draw_interval(axes: Axes, row: Any, line: int, *, own: bool) -> None:
    color = "C3" if own else "C0"
    if math.isfinite(row["low"]) and row["n"] > FEW:
        axes.plot([row["low"], row["high"]], [line, line], color=color, linewidth=1.2)
    axes.plot([row["mean"]], [line], "o", color=color, markersize=5)


def _new_figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  an optional package
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path
