"""Curves drawn with matplotlib, in scikit-learn's manner: from an estimator or from predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.base.extras import requires
from adacsl.base.labels import customary_positive
from adacsl.costs.matrix import CostMatrix
from adacsl.thresholds.curves import brier_curve, decision_curve, optimal_cost_curve
from adacsl.thresholds.search import cost_curve, find_threshold

if TYPE_CHECKING:
    import pandas as pd

GUIDE: dict[str, Any] = {"color": "0.55", "linewidth": 1.0, "zorder": 1}
"""Lines that only give orientation; this grey is seen on white and on black."""


class CurveDisplay:
    """What the displays share: a frame of numbers, its first two columns drawn as a line, and guides beside it.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : matplotlib Line2D
    """

    labels: ClassVar[tuple[str, str]]
    """What stands at the axes."""

    step: ClassVar[bool] = False

    def __init__(self, *, table: pd.DataFrame, name: str | None = None) -> None:
        self.table, self.name = table, name

    def frame(self) -> pd.DataFrame:
        """Return the numbers of the curve.

        Returns
        -------
        pandas.DataFrame
            One row per point.
        """
        return self.table.copy()

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw. Default: a new figure. Several curves may share one.
        name : str, optional
            Text of the legend.
        **kwargs : Any
            Of the line: ``color``, ``linewidth``, ...

        Returns
        -------
        CurveDisplay
            Itself, with ``ax_``, ``figure_`` and ``line_``.
        """
        with requires("cli"):
            import matplotlib.pyplot as plt  # noqa: PLC0415  only for those who draw
        self.ax_ = plt.subplots()[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        x, y = (self.table.iloc[:, place] for place in (0, 1))
        called = {"label": name or self.name} if name or self.name else {}
        style = {"drawstyle": "steps-post"} if self.step else {}
        self.line_: Any = self.ax_.plot(x, y, **called | style | kwargs)[0]
        self._guides()
        heights = np.concatenate([line.get_ydata() for line in self.ax_.lines])
        bottom, top = self._span(float(heights.min(initial=0.0)), float(heights.max(initial=1e-9)))
        self.ax_.set(xlabel=self.labels[0], ylabel=self.labels[1], xlim=(0, 1), ylim=(bottom, 1.06 * top))
        if self.ax_.get_legend_handles_labels()[1]:
            self.ax_.legend()
        return self

    def _guides(self) -> None:
        """Draw what gives orientation."""

    def _span(self, lowest: float, highest: float) -> tuple[float, float]:
        """Return the ends of the vertical axis, from those of all lines."""
        return lowest, highest

    def _guide(self, label: str, x: Any, y: Any, **style: Any) -> None:
        """Draw a line that all curves of these axes share, once."""
        if label not in self.ax_.get_legend_handles_labels()[1]:
            self.ax_.plot(x, y, label=label, **GUIDE | style)


class CostCurveDisplay(CurveDisplay):
    """Cost of every threshold per sample; the optimal one is marked, and a dotted line is the Bayes threshold.

    Parameters
    ----------
    table : DataFrame
        threshold, cost, false_negatives and false_positives (their parts of the cost above that of correct decisions),
        per sample.
    optimum : (float, float)
        The cost-optimal threshold and its mean cost.
    bayes : float, optional
        The Bayes threshold; None for per-sample costs.
    name : str, optional
        Name of the line in the legend.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.report import CostCurveDisplay
    >>> y, scores, costs = [0, 1, 0, 1], [0.1, 0.3, 0.6, 0.8], CostMatrix(fp=1, fn=8)
    >>> display = CostCurveDisplay.from_predictions(y, scores, costs, plot=False)
    >>> display.frame()["cost"].tolist()
    [0.5, 0.25, 2.25, 2.0, 4.0, 4.0]
    """

    labels = ("threshold", "cost per sample")
    step = True

    def __init__(
        self, *, table: pd.DataFrame, optimum: tuple[float, float], bayes: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(table=table, name=name)
        self.optimum, self.bayes = optimum, bayes

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, costs: CostMatrix | None = None, *,  # noqa: N803
        pos_label: Any = None, name: str | None = None, ax: Any = None, plot: bool = True, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Return the cost curve of a classifier's probabilities.

        Parameters
        ----------
        estimator : classifier
            A fitted one, with ``predict_proba``.
        X : table
            Samples that did not train it.
        y : array of shape (n,)
            True labels.
        costs : CostMatrix, optional
            Class-wide or per sample. Default: those of the estimator, which classifiers of adacsl have.
        pos_label : label, optional
            The positive class. 0/1, -1/1 and False/True need none.
        name : str, optional
            Text of the legend. Default: the name of the estimator.
        ax : matplotlib.axes.Axes, optional
            Where to draw. Default: a new figure.
        plot : bool, default True
            Whether to draw; False only computes the numbers of :meth:`frame`.
        **kwargs : Any
            Of the line: ``color``, ``linewidth``, ...

        Returns
        -------
        CostCurveDisplay
            The display.
        """
        costs = getattr(estimator, "costs_", None) if costs is None else costs
        if costs is None:
            raise ValueError(f"{type(estimator).__name__} has no costs: pass costs=CostMatrix(fp=1, fn=8)")
        scores, label = _probabilities(estimator, X, pos_label)
        name = name or type(estimator).__name__
        return cls.from_predictions(y, scores, costs, pos_label=label, name=name, ax=ax, plot=plot, **kwargs)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_score: Any, costs: CostMatrix, *,
        pos_label: Any = None, name: str | None = None, ax: Any = None, plot: bool = True, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Return the cost curve of probabilities.

        Parameters
        ----------
        y_true : array of shape (n,)
            True labels.
        y_score : array of shape (n,)
            Probabilities of the positive class.
        costs : CostMatrix
            Class-wide or per sample.
        pos_label : label, optional
            The positive class. 0/1, -1/1 and False/True need none.
        name : str, optional
            Text of the legend.
        ax : matplotlib.axes.Axes, optional
            Where to draw. Default: a new figure.
        plot : bool, default True
            Whether to draw; False only computes the numbers of :meth:`frame`.
        **kwargs : Any
            Of the line: ``color``, ``linewidth``, ...

        Returns
        -------
        CostCurveDisplay
            The display.
        """
        labels, n = _positives(y_true, pos_label), len(y_true)
        curve, best = cost_curve(y_score, labels, costs), find_threshold(y_score, labels, costs)
        thresholds, costs_per_sample, _, *parts = (as_host(part).astype(np.float64) for part in curve)
        thresholds[0] = min(thresholds[0], 0.0)
        rows = {"threshold": thresholds, "cost": costs_per_sample} | dict(
            zip(("false_negatives", "false_positives"), (part / n for part in parts), strict=True)
        )
        table = _frame({key: np.append(part, 1.0 if key == "threshold" else part[-1]) for key, part in rows.items()})
        bayes = None if costs.n_instances is not None else float(costs.threshold)
        result = cls(table=table, optimum=(best.value, best.cost), bayes=bayes, name=name)
        return result.plot(ax, **kwargs) if plot else result

    def _guides(self) -> None:
        self.ax_.plot(*self.optimum, "o", color=self.line_.get_color())
        if self.bayes is not None:
            self._guide("Bayes threshold", [self.bayes] * 2, [0, self.table["cost"].max()], linestyle=":")


class ScoreDisplay(CurveDisplay):
    """A curve that probabilities and labels make alone."""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *,  # noqa: N803
        pos_label: Any = None, name: str | None = None, ax: Any = None, plot: bool = True, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Return the curve of a classifier's probabilities.

        Parameters
        ----------
        estimator : classifier
            A fitted one, with ``predict_proba``.
        X : table
            Samples that did not train it.
        y : array of shape (n,)
            True labels.
        pos_label : label, optional
            The positive class. 0/1, -1/1 and False/True need none.
        name : str, optional
            Text of the legend. Default: the name of the estimator.
        ax : matplotlib.axes.Axes, optional
            Where to draw. Default: a new figure.
        plot : bool, default True
            Whether to draw; False only computes the numbers of :meth:`frame`.
        **kwargs : Any
            Of the line: ``color``, ``linewidth``, ...

        Returns
        -------
        ScoreDisplay
            The display.
        """
        scores, label = _probabilities(estimator, X, pos_label)
        return cls.from_predictions(
            y, scores, pos_label=label, name=name or type(estimator).__name__, ax=ax, plot=plot, **kwargs
        )

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_score: Any, *,
        pos_label: Any = None, name: str | None = None, ax: Any = None, plot: bool = True, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Return the curve of probabilities.

        Parameters
        ----------
        y_true : array of shape (n,)
            True labels.
        y_score : array of shape (n,)
            Probabilities of the positive class.
        pos_label : label, optional
            The positive class. 0/1, -1/1 and False/True need none.
        name : str, optional
            Text of the legend.
        ax : matplotlib.axes.Axes, optional
            Where to draw. Default: a new figure.
        plot : bool, default True
            Whether to draw; False only computes the numbers of :meth:`frame`.
        **kwargs : Any
            Of the line: ``color``, ``linewidth``, ...

        Returns
        -------
        ScoreDisplay
            The display.
        """
        result = cls(table=cls._table(y_score, _positives(y_true, pos_label)), name=name)
        return result.plot(ax, **kwargs) if plot else result

    @staticmethod
    def _table(scores: Any, labels: NDArray[np.int64]) -> pd.DataFrame:
        raise NotImplementedError


class BrierCurveDisplay(ScoreDisplay):
    """Brier curve: the cost of trusting the probabilities at every cost ratio.

    Dashed: the cost at the best threshold of each ratio. Better calibration could save the difference.

    Parameters
    ----------
    table : pandas.DataFrame
        proportion (c = fp / (fp + fn)), loss and best: costs per sample, with fp + fn = 2.
    name : str, optional
        Text of the legend.

    See Also
    --------
    adacsl.thresholds.brier_curve : The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.report import BrierCurveDisplay
    >>> y, scores = np.asarray([0, 0, 1, 1]), np.asarray([0.1, 0.4, 0.35, 0.8])
    >>> list(BrierCurveDisplay.from_predictions(y, scores, plot=False).frame())
    ['proportion', 'loss', 'best']
    """

    labels = ("cost proportion fp / (fp + fn)", "cost per sample, fp + fn = 2")

    @staticmethod
    def _table(scores: Any, labels: NDArray[np.int64]) -> pd.DataFrame:
        trusted, best = brier_curve(scores, labels), optimal_cost_curve(scores, labels)
        x = as_host(trusted.x)
        lowest = np.interp(x, as_host(best.x), as_host(best.y))
        return _frame({"proportion": x, "loss": as_host(trusted.y), "best": lowest})

    def _guides(self) -> None:
        self.ax_.plot(
            self.table["proportion"], self.table["best"], "--", color=self.line_.get_color(), linewidth=1.0, alpha=0.8
        )
        self._guide("at the best threshold", [], [], linestyle="--")


class DecisionCurveDisplay(ScoreDisplay):
    """Decision curve: the net benefit of acting on the probabilities, against acting always and never.

    Parameters
    ----------
    table : pandas.DataFrame
        threshold, net_benefit and treat_all; never acting has a benefit of 0.
    name : str, optional
        Text of the legend.

    See Also
    --------
    adacsl.thresholds.decision_curve : The numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.report import DecisionCurveDisplay
    >>> y, scores = np.asarray([0, 0, 1, 1]), np.asarray([0.1, 0.4, 0.35, 0.8])
    >>> list(DecisionCurveDisplay.from_predictions(y, scores, plot=False).frame())
    ['threshold', 'net_benefit', 'treat_all']
    """

    labels = ("threshold", "net benefit per sample")

    @staticmethod
    def _table(scores: Any, labels: NDArray[np.int64]) -> pd.DataFrame:
        result = decision_curve(scores, labels)
        names = ("threshold", "net_benefit", "treat_all")
        return _frame(dict(zip(names, map(as_host, result), strict=True)))

    def _guides(self) -> None:
        self._guide("always act", self.table["threshold"], self.table["treat_all"], linestyle="--")
        self._guide("never act", [0, 1], [0, 0], linestyle=":")

    def _span(self, lowest: float, highest: float) -> tuple[float, float]:
        return max(lowest, -0.3 * highest), highest  # far below nothing, always acting is of no interest


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    with requires("train"):
        import pandas as pd  # noqa: PLC0415  with the curves alone comes none
    return pd.DataFrame(columns)


def _probabilities(estimator: Any, X: Any, pos_label: Any) -> tuple[NDArray[np.float64], Any]:  # noqa: N803
    """Return the probability of the positive class, and its label."""
    if not hasattr(estimator, "predict_proba"):
        raise ValueError(f"{type(estimator).__name__} has no predict_proba: give scores to from_predictions")
    classes = np.asarray(getattr(estimator, "classes_", ())).tolist()
    if len(classes) != 2:
        raise ValueError(f"these curves are for two classes, and {type(estimator).__name__} has {len(classes)}")
    label = getattr(estimator, "pos_label_", None) if pos_label is None else pos_label
    if label is None:
        if customary_positive(classes) is None:
            choice = " or ".join(f"pos_label={known!r}" for known in classes)
            raise ValueError(f"name the positive label, {choice}")
        label = classes[1]
    if label not in classes:
        raise ValueError(f"pos_label must be one of {classes}, got {label!r}")
    return np.asarray(estimator.predict_proba(X))[:, classes.index(label)], label


def _positives(labels: Any, pos_label: Any) -> NDArray[np.int64]:
    values = np.asarray(labels)
    if pos_label is None:
        known = set(np.unique(values).tolist())
        if not (known <= {0, 1} or known <= {-1, 1}):
            raise ValueError(f"name the positive label, pos_label=...; y_true has {sorted(map(str, known))}")
        pos_label = 1
    return np.asarray(values == pos_label, dtype=np.int64)
