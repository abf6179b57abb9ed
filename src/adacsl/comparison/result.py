"""Result of a comparison as text, tables and figures, with its recommended method."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.base.labels import plain_labels
from adacsl.comparison import baseline, cost_sensitivity
from adacsl.comparison import report_data as comparison_report_data
from adacsl.comparison.fits import FitKey, FitResult, Stopped, scale_fn
from adacsl.comparison.model_card import checks_of, describe_intervals
from adacsl.comparison.protocol import compared_neural, named_costs, set_ensemble
from adacsl.comparison.recommendation import (
    TOLERANCE,
    Missing,
    Prefer,
    Recommendation,
    completed,
    missing_of,
    recommendations,
)
from adacsl.comparison.report_data import outcome_of
from adacsl.comparison.segments import segment_table
from adacsl.comparison.statistics import BASELINE, RowCosts, row_costs, summarise
from adacsl.comparison.store import StoredSplit
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.findings import Checks
from adacsl.datasets.segments import Segments
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.estimators.registry import METHODS, is_ensemble, method
from adacsl.neural.learner import NeuralLearner
from adacsl.report.data import Outcome, Regret, ReportData

with requires("compare"):
    import pandas as pd
    from sklearn.base import clone


class NoResultError(RuntimeError):
    """Every fit of a comparison failed."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The result of a comparison: table, recommendation, figures and report.

    :func:`~adacsl.compare` returns it, :func:`~adacsl.load_comparison` reads one from its folder.

    Attributes
    ----------
    results : pandas.DataFrame
        One row per finished fit.
    failures : pandas.DataFrame
        One row per failed fit, with the reason.
    facts : dict
        Data sets and protocol.
    folder : pathlib.Path or None
        Folder of the results, if they were kept.
    tolerance : float
        How much more a simpler method may cost to be recommended, as a share of the lowest cost.
    prefer : {"cost", "simple"}
        Whether a simpler method is recommended where it costs significantly more.
    table : pandas.DataFrame
        Mean cost of each method with its interval and its difference to the lowest cost, by data set and ratio.
    recommendation : str
        The recommendation, a line for each data set and ratio.
    best : str or None
        The recommended method, which :meth:`fit` fits; over several data sets, the one recommended for all.
    stopped : tuple of Stopped
        Methods that were not run on all folds, because they cost significantly more after some (``racing``): data,
        ratio, method, seeds (the splits its row rests on), planned (number of splits) and best (what cost less).
    raced : frozenset of (data, ratio)
        Data sets and ratios where methods could be stopped: p is corrected for all pairs of methods there.

    See Also
    --------
    adacsl.compare : Returns it.
    adacsl.load_comparison : Reads it from a folder.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix, compare
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = (X.sum(axis=1) > 1).astype(int)
    >>> methods = ["always-positive", "logistic"]
    >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
    ...                  folds=2, n_jobs=1, progress=False)
    >>> result.best
    'logistic'
    >>> result.fit(X, y).predict(X[:3]).tolist()
    [0, 1, 0]
    """

    results: pd.DataFrame
    """One row per fit: data, ratio, method, seed, cost, counts of outcomes and times."""
    failures: pd.DataFrame
    """One row per fit without a result, with its error."""
    facts: Mapping[str, Any]
    """What was compared: data sets and protocol."""
    fits: Mapping[FitKey, FitResult] = field(repr=False)
    splits: Mapping[tuple[str, int], StoredSplit] = field(repr=False)
    folder: Path | None = None
    """Folder of the results, if they were kept."""
    methods: Mapping[str, CostSensitiveClassifier] = field(default_factory=dict, repr=False)
    """The methods that were compared; those of the table of methods where it was read from a folder."""
    neural: NeuralLearner | None = field(default=None, repr=False)
    """Settings of the neural networks of the built-in methods; None where it was read from a folder."""
    tolerance: float = TOLERANCE
    """How much more a simpler method may cost to be recommended, as a share of the lowest cost."""
    segments: Mapping[str, Mapping[str, Segments]] = field(default_factory=dict, repr=False)
    """The segment of each sample: by data set, then by column."""
    prefer: Prefer = "cost"
    """Whether a simpler method is recommended where it costs significantly more: "cost" or "simple"."""
    planned: frozenset[FitKey] = field(default_factory=frozenset, repr=False)
    """The fits that are planned; without them, those that have a result."""
    stopped: tuple[Stopped, ...] = ()
    """Methods that were not run on all folds because they cost significantly more after some."""
    raced: frozenset[tuple[str, float]] = frozenset()
    """Data sets and ratios whose methods raced: p is corrected for all pairs of methods there."""

    def __repr__(self) -> str:
        names = sorted(set(self.results["method"]))
        return f"Comparison({', '.join(self.facts['data'])}: {len(names)} methods, {len(self.results)} results)"

    # tables and recommendation

    @cached_property
    def table(self) -> pd.DataFrame:
        """Mean cost of each method with its interval and its difference to the lowest cost, by data set and ratio."""
        return summarise(self.results, self.paired, stopped=self.stopped, raced=self.raced)

    @cached_property
    def paired(self) -> dict[tuple[str, float], RowCosts]:
        """Cost of every test sample under each method, by data set and ratio."""
        return row_costs(
            self.fits, self.splits, lambda data, ratio, costs: scale_fn(costs, ratio / self._own_ratio(data))
        )

    @cached_property
    def recommendations(self) -> dict[tuple[str, float], Recommendation]:
        """The recommendation for each data set and ratio."""
        result = recommendations(
            self.table, simplest_first=list(METHODS), tolerance=self.tolerance, prefer=self.prefer, paired=self.paired,
            baseline=partial(baseline.baseline_costs, self), stopped=self.stopped,
        )  # fmt: skip
        return {
            view: completed(recommendation, self.missing_of(view), self.progress)
            for view, recommendation in result.items()
        }

    @cached_property
    def missing(self) -> list[Missing]:
        """The methods that lack folds, by data set and ratio: not started, unfinished or failed, with the reason."""
        return missing_of(self.planned, self.fits, self.failures)

    def missing_of(self, view: tuple[str, float]) -> list[Missing]:
        """Return the methods that lack folds on one data set at one ratio."""
        return [each for each in self.missing if (each.data, each.ratio) == view]

    @property
    def progress(self) -> str:
        """How many fits of an unfinished comparison are done, as text; empty where nothing is left to do."""
        pending = sum(each.folds - each.done - each.failed for each in self.missing)
        return f"{len(self.planned & set(self.fits)):,} of {len(self.planned):,} fits done" if pending else ""

    @property
    def recommendation(self) -> str:
        """The recommendation as text, a line for each data set and ratio."""
        if len(self.recommendations) == 1:
            return str(next(iter(self.recommendations.values())))
        return "\n".join(
            f"{self._place(*view)}: {recommendation}" for view, recommendation in self.recommendations.items()
        )

    @property
    def intervals(self) -> str:
        """How the intervals of the table were computed, as text."""
        return describe_intervals(self)

    @property
    def windows(self) -> dict[str, dict[int, str]]:
        """Times of training, adaptation and test of each window, by seed, of data with a time."""
        done = set(zip(self.results["data"], self.results["seed"], strict=True))
        windows = {name: about["windows"] for name, about in self.facts["data"].items() if "windows" in about}
        return {name: {i: text for i, text in enumerate(own) if (name, i) in done} for name, own in windows.items()}

    @property
    def checks(self) -> dict[str, Checks]:
        """Findings of the data checks by data set; docs/guide/diagnose/checks.md explains each code."""
        return checks_of(self.facts)

    def _place(self, data: str, ratio: float) -> str:
        """Return the name of a data set and its ratio; more than two classes have no ratio."""
        return data if self._n_classes(data) > 2 else f"{data}, ratio {ratio:g}"

    @property
    def best(self) -> str | None:
        """The recommended method, which :meth:`fit` fits; over several data sets, the one recommended for all."""
        chosen = {recommendation.recommended for recommendation in self.recommendations.values()}
        if len(chosen) > 1 and len({data for data, _ in self.recommendations}) == 1:
            return self.recommendations[self._view(None, None)].recommended
        return chosen.pop() if len(chosen) == 1 else None

    def method(
        self, name: str | None = None, *, data: str | None = None, ratio: float | None = None
    ) -> CostSensitiveClassifier:
        """Return a method as it was compared, with its costs, not yet fitted.

        Parameters
        ----------
        name : str, optional
            The method. Default: the recommended one.
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        CostSensitiveClassifier
            Unfitted.

        Raises
        ------
        ValueError
            Where no method is recommended, or it was one of your own in a comparison read from a folder.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostMatrix, compare
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> methods = ["always-positive", "logistic"]
        >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
        ...                  folds=2, n_jobs=1, progress=False)
        >>> result.method("logistic").learner
        'logistic'
        """
        view = self._view(data, ratio)
        several = data is None and len({name for name, _ in self.recommendations}) > 1
        name = name or (self.best if several else None) or self.recommendations[view].recommended
        if name is None:
            raise ValueError(
                f"no method is recommended: {self.recommendations[view].text} To fit one, name it: name=..."
            )
        costs = scale_fn(self._costs(view[0]).averaged(), view[1] / self._own_ratio(view[0]))
        return unfitted_method(self, name, self.facts["data"][view[0]]["classes"], costs)

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        *,
        name: str | None = None,
        random_state: int = 0,
        **given: Any,
    ) -> CostSensitiveClassifier:
        """Fit the recommended method, or the one named, on all samples.

        Parameters
        ----------
        X : table or images
            As in :func:`~adacsl.compare`.
        y : array of shape (n,)
            Labels.
        name : str, optional
            The method. Default: the recommended one.
        random_state : int, default 0
            Seed of the fit.
        **given : Any
            Parameters of :meth:`CostSensitiveClassifier.fit`: ``groups``, ``sample_weight``, and ``fp``, ``fn`` where
            costs are per sample (not needed for class-wide costs and expressions over columns).

        Returns
        -------
        CostSensitiveClassifier
            The fitted method: it predicts, and can be saved.

        Raises
        ------
        ValueError
            Where no method is recommended, or per-sample costs are missing.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostMatrix, compare
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> methods = ["always-positive", "logistic"]
        >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
        ...                  folds=2, n_jobs=1, progress=False)
        >>> result.fit(X, y).predict(X[:3]).tolist()
        [0, 1, 0]
        """
        fresh = self.method(name).set_params(random_state=random_state)
        data, ratio = self._view(None, None)
        if self._costs(data).n_instances is not None and not {"fp", "fn", "tp", "tn"} & set(given):
            spec = self.facts["data"][data].get("cost_spec")
            if spec is None or not math.isclose(ratio, self._own_ratio(data), rel_tol=1e-5):
                raise ValueError("the comparison had per-sample costs: give them, fit(X, y, fn=amounts)")
            fresh.set_params(costs=CostMatrix.from_dict(spec))
        return fresh.fit(baseline.without_baseline_column(self, data, X), y, **given)

    def _costs(self, data: str) -> CostMatrix:
        """Return the costs of the test samples of a split."""
        return next(split.costs for (name, _), split in self.splits.items() if name == data)

    # samples and segments

    def outcome(self, method: str, *, data: str | None = None, ratio: float | None = None) -> Outcome:
        """Return the test samples of a method, all splits together.

        Parameters
        ----------
        method : str
            The method.
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        Outcome
            Scores, decisions, labels and costs.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostMatrix, compare
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> methods = ["always-positive", "logistic"]
        >>> result = compare(X, y, CostMatrix(fp=1, fn=8), methods=methods, repeats=1,
        ...                  folds=2, n_jobs=1, progress=False)
        >>> len(result.outcome("logistic").decisions)
        200
        """
        view = self._view(data, ratio)
        return outcome_of(self, self._fits_of(*view, method), (*view, method))

    def by_segment(
        self, *columns: str, method: str | None = None, data: str | None = None, ratio: float | None = None
    ) -> pd.DataFrame:
        """Return the cost of the recommended method, or the one named, in each segment.

        Parameters
        ----------
        *columns : str
            Segment columns. Default: all.
        method : str, optional
            The method. Default: the recommended one.
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        DataFrame
            One row for each segment of each column: rows, share; positive, decided (shares of its samples), fnr and fpr
            (false negative and false positive rate), or of more than two classes wrong (error rate); cost, low, high;
            difference to all other samples with its interval, p (Holm, over all rows of the table) and significance:
            "significant difference" or "no significant difference"; saved, the saving against the baseline on the same
            samples, with its interval.
        """
        view = self._view(data, ratio)
        return segment_table(self, view, method or comparison_report_data.recommended(self, view), columns)

    # other costs

    def regret(
        self, data: str | None = None, ratio: float | None = None, *, fp: Any = None, fn: Any = None
    ) -> pd.DataFrame:
        """Return the largest excess of each method over the lowest cost in a range of costs, smallest first.

        Cost-aware methods decide again at each ratio, from the same probabilities; nothing is trained again.

        Parameters
        ----------
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.
        fp : float or (low, high), optional
            Replaces the range that the costs were given with; without any range, the ratio goes from half to double. Of
            per-sample costs it is the mean.
        fn : float or (low, high), optional
            The same of false negatives.

        Returns
        -------
        DataFrame
            method; percent and regret (the largest excess, in percent of the lowest cost there, and per sample); at
            (the ratio of it); cheapest (share of ratios at which the method has the lowest cost); undecided (share of
            its decisions that change within the range).
        """
        view = self._view(data, ratio)
        self._two_classes(view[0], "ranges of fp and fn")
        given = {name: cost for name, cost in (("fp", fp), ("fn", fn)) if cost is not None}
        return (cost_sensitivity.regret_in(self, view, given) if given else self.regrets[view]).table

    @cached_property
    def regrets(self) -> dict[tuple[str, float], Regret]:
        """Regret over the range of costs, for each data set of two classes, and ratio."""
        views = [view for view in self.recommendations if self._n_classes(view[0]) == 2 and self._fits_of(*view)]
        return {view: cost_sensitivity.regret_in(self, view) for view in views}

    @property
    def cost_range(self) -> str:
        """Sensitivity to the costs, as text; empty with more than two classes."""
        return cost_sensitivity.words_of(self.regrets, self._place if len(self.recommendations) > 1 else None)

    def history(self, method: str, *, data: str | None = None, ratio: float | None = None) -> pd.DataFrame:
        """Return lambda, threshold and costs by epoch, of all seeds.

        Parameters
        ----------
        method : str
            The method.
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        pandas.DataFrame
            One row per seed and epoch; empty for methods without epochs.
        """
        mine = self._fits_of(*self._view(data, ratio), method)
        return pd.DataFrame([{"seed": fit.seed} | step for fit, result in mine.items() for step in result.history])

    def _fits_of(self, *place: Any) -> dict[FitKey, FitResult]:
        """Return the results on a data set, and if given at a ratio and of a method, in order."""
        return {fit: self.fits[fit] for fit in sorted(self.fits) if fit[: len(place)] == place}

    def _view(self, data: str | None, ratio: float | None) -> tuple[str, float]:
        views = [v for v in self.recommendations if data in (None, v[0]) and (ratio is None or np.isclose(ratio, v[1]))]
        if not views:
            raise ValueError(
                f"there is no comparison of {data!r} at ratio {ratio}; available: {list(self.recommendations)}"
            )
        return next((v for v in views if np.isclose(v[1], self._own_ratio(v[0]), rtol=1e-5)), views[0])

    def _own_ratio(self, data: str) -> float:
        return float(self.facts["data"][data]["ratio"])

    def _n_classes(self, data: str) -> int:
        return len(comparison_report_data.classes_of(self, data))

    def _two_classes(self, data: str, what: str) -> None:
        if self._n_classes(data) > 2:
            raise ValueError(
                f"{what} are for two classes, but {data!r} has {self._n_classes(data)}: see plot_costs() and "
                "plot_confusion()"
            )

    # figures

    def plot_costs(self, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Return a figure of each method's cost with its interval, lowest first.

        Parameters
        ----------
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        plotly.graph_objects.Figure
            The figure.
        """
        view = self._view(data, ratio)
        table = comparison_report_data.summary_of(self)
        rows = table[(table["data"] == view[0]) & (table["ratio"] == view[1])]
        from adacsl.report.sections.costs import cost_figure  # noqa: PLC0415  plotly only for those who look

        return cost_figure(rows, recommended=self.recommendations[view].recommended)

    def plot_ratios(self, *, data: str | None = None) -> Any:
        """Return a figure of the normalised cost of each method against the cost ratio.

        Parameters
        ----------
        data : str, optional
            The data set, where there are several.

        Returns
        -------
        plotly.graph_objects.Figure
            The figure.
        """
        self._two_classes(self._view(data, None)[0], "cost ratios")
        own = self.results[self.results["data"] == self._view(data, None)[0]]
        from adacsl.report.sections.sensitivity import ratio_figure, ratio_table  # noqa: PLC0415  plotly

        return ratio_figure(ratio_table(own))

    def plot_regret(self, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Return a figure of the excess of each method over the lowest cost, by cost ratio.

        Parameters
        ----------
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        plotly.graph_objects.Figure
            The figure.
        """
        from adacsl.report.sections.sensitivity import regret_figure  # noqa: PLC0415  plotly only for those who look

        view = self._view(data, ratio)
        self._two_classes(view[0], "ranges of fp and fn")
        return regret_figure(self.regrets[view], self._recommended(view))

    def plot_threshold(self, method: str | None = None, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Return a figure of the cost of every threshold, with the chosen and the cost-optimal one.

        Parameters
        ----------
        method : str, optional
            The method. Default: the recommended one.
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        plotly.graph_objects.Figure
            The figure.
        """
        self._two_classes(self._view(data, ratio)[0], "thresholds")
        (outcome,) = self._outcomes([method] if method else [], data, ratio).values()
        from adacsl.report.sections import errors  # noqa: PLC0415  plotly only for those who look

        return errors.threshold_figure(errors.threshold_curve(outcome), errors.threshold_points(outcome))

    def plot_confusion(self, method: str | None = None, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Return a figure of the total cost of each kind of error: the confusion matrix in cost.

        Parameters
        ----------
        method : str, optional
            The method. Default: the recommended one.
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        plotly.graph_objects.Figure
            The figure.
        """
        from adacsl.report.sections.multiclass import confusion_cells, confusion_figure  # noqa: PLC0415  plotly

        ((name, outcome),) = self._outcomes([method] if method else [], data, ratio).items()
        names = self.facts["data"][self._view(data, ratio)[0]]["classes"]
        return confusion_figure(confusion_cells(outcome), names, name)

    def plot_lambda(self, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Return a figure of lambda and T_actual by epoch for the methods that adapt (the paper's Figure 1a).

        With more than two classes: the lambda of each class, of the lowest-cost method that adapts.

        Parameters
        ----------
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        plotly.graph_objects.Figure
            The figure.
        """
        from adacsl.report.sections import training  # noqa: PLC0415  plotly only for those who look

        view = self._view(data, ratio)
        if self._n_classes(view[0]) > 2:
            names = self.facts["data"][view[0]]["classes"]
            return training.class_lambda_figure(training.class_lambdas(self._histories(*view), names))
        return training.lambda_figure(training.epoch_table(self._histories(*view)))

    def plot_history(self, *, data: str | None = None, ratio: float | None = None) -> Any:
        """Return a figure of training and validation cost by epoch (the paper's Figure 1b).

        Parameters
        ----------
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        plotly.graph_objects.Figure
            The figure.
        """
        from adacsl.report.sections import training  # noqa: PLC0415  plotly only for those who look

        return training.history_figure(training.epoch_table(self._histories(*self._view(data, ratio))))

    def plot_calibration(self, *methods: str, data: str | None = None, ratio: float | None = None) -> Any:
        """Return a figure of the calibration curve: observed frequency by predicted probability.

        Parameters
        ----------
        *methods : str
            The methods. Default: the recommended one.
        data : str, optional
            The data set, where there are several.
        ratio : float, optional
            The cost ratio, where there are several. Default: that of the costs.

        Returns
        -------
        plotly.graph_objects.Figure
            The figure.
        """
        from adacsl.report.sections import calibration  # noqa: PLC0415  plotly only for those who look

        return calibration.calibration_figure(calibration.calibration_table(self._outcomes(methods, data, ratio)))

    def _recommended(self, view: tuple[str, float]) -> str:
        return comparison_report_data.recommended(self, view)

    def _outcomes(self, methods: Sequence[str], data: str | None, ratio: float | None) -> dict[str, Outcome]:
        view = self._view(data, ratio)
        names = methods or [self._recommended(view)]
        return {name: self.outcome(name, data=view[0], ratio=view[1]) for name in names}

    def _histories(self, *view: Any) -> dict[tuple[str, int], list[dict[str, Any]]]:
        return {(c.method, c.seed): result.history for c, result in self._fits_of(*view).items() if result.history}

    # report

    def report(
        self,
        path: str | Path,
        *,
        command: str = "",
        explain: pd.DataFrame | None = None,
        unit: str = "",
        volume: float | None = None,
        people: str = "samples",
        model: str | Path | None = None,
    ) -> Path:
        """Write the report as one HTML page that works offline.

        Parameters
        ----------
        path : path
            The file.
        command : str, default ""
            The command that made the report, shown on it.
        explain : pandas.DataFrame, optional
            Permutation importance of the method that :meth:`fit` fits, from
            :meth:`CostSensitiveClassifier.permutation_cost`.
        unit : str, default ""
            Unit of the costs, such as EUR.
        volume : float, optional
            Number of samples in a year: costs are shown per year too.
        people : str, default "samples"
            Name of the samples, such as customers.
        model : path, optional
            Folder of the saved model, which the model card names with its digest.

        Returns
        -------
        Path
            The file.
        """
        from adacsl.report.comparison import write_report  # noqa: PLC0415  plotly only for those who look

        shown = {"unit": unit, "volume": volume, "people": people, "model": model}
        return write_report(self.report_data(command=command, explain=explain, **shown), path)

    def report_data(self, *, explain: pd.DataFrame | None = None, model: Any = None, **shown: Any) -> ReportData:
        """Return everything the page shows; arguments as in :meth:`report`."""
        given = {"explained": explain, "models": model}
        shown |= {name: {self._view(None, None): value} for name, value in given.items() if value is not None}
        return comparison_report_data.report_data(self, **shown)

    def to_markdown(self, path: str | Path | None = None, **shown: Any) -> str:
        """Return the report as Markdown, for a pull request.

        Parameters
        ----------
        path : path, optional
            Where to write it, too.
        **shown : Any
            Parameters of :meth:`report`: ``command``, ``explain``, ``unit``, ``volume``, ``people``, ``model``.

        Returns
        -------
        str
            The text.
        """
        from adacsl.report.markdown import to_markdown  # noqa: PLC0415  plotly only for those who look

        return to_markdown(self.report_data(**shown), path)

    def _repr_html_(self) -> str:
        """Show the recommendation and the table in a notebook."""
        columns = ["data", "ratio", "method", "n", "mean", "low", "high", "normalized_cost", "savings", "significance"]
        table = self.table[columns].to_html(index=False, float_format="{:.3f}".format)
        lines = "<br>".join(html.escape(line) for line in self.recommendation.splitlines())
        return f"<p><strong>{lines}</strong></p>{table}<p>{html.escape(self.intervals)}</p>"

    def __str__(self) -> str:
        return self.recommendation


def unfitted_method(
    result: Comparison, name: str, classes: Sequence[str], costs: CostMatrix
) -> CostSensitiveClassifier:
    """Return a method of a comparison with its settings, the names of its classes and these costs, not yet fitted."""
    if name == BASELINE:
        raise ValueError("'baseline' is the current decisions, there is nothing to fit: name a method")
    if name not in {*result.methods, *METHODS} and name in set(result.results["method"]):
        raise ValueError(f"{name!r} is a custom method, and code is not saved: fit it yourself")
    made: CostSensitiveClassifier = clone(result.methods[name]) if name in result.methods else method(name)
    neural = result.facts["protocol"].get("neural")
    if neural and made.learner == "net":
        made.set_params(learner=compared_neural(result.neural, neural))
    elif neural and is_ensemble(made):
        set_ensemble(made, compared_neural(result.neural, neural))
    if limits := result.facts["protocol"].get("constraints"):
        made.set_params(constraints=dict(limits), certify=result.facts["protocol"]["certify"])
    if len(classes) > 2:
        return made.set_params(costs=named_costs([costs], classes), pos_label=None)
    return made.set_params(costs=costs, pos_label=plain_labels(classes)[1])
