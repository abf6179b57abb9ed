"""What every fitted classifier of adacsl does: score, decide, judge, be saved."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import refuse_reordered
from adacsl.core.costs import CostMatrix
from adacsl.core.prices import check_samples
from adacsl.core.rowwise import row_offsets
from adacsl.core.scores import to_probabilities
from adacsl.estimators.acting import decide_rows
from adacsl.estimators.decision import Decision
from adacsl.estimators.policy import Decisions, Policy, choose_policy, take_time
from adacsl.estimators.prices import missing_costs, prices_of
from adacsl.estimators.reading import number_labels, read_features, read_known_labels
from adacsl.estimators.settings import inside
from adacsl.extras import requires
from adacsl.workers import one_thread_if_forked

with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import _num_samples, check_is_fitted

if TYPE_CHECKING:
    import pandas as pd

    from adacsl.datasets.checks import Checks


class CostClassifier(ClassifierMixin, BaseEstimator):
    """The side of a method that is turned to its users once it is fitted."""

    classes_: NDArray[Any]
    positive_: Any
    costs_: CostMatrix
    said_costs_: CostMatrix | None
    sample_costs_: tuple[str, ...]
    decision_: Decision
    model_: Any
    policy: Policy | None = None

    NESTED: tuple[str, ...] = ("controller", "net")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings; those inside dicts as ``name__key``."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for name in self.NESTED if deep else ():
            value = params.get(name)
            params |= {f"{name}__{key}": setting for key, setting in inside(value).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings; ``controller__damping=0.5`` changes one inside."""
        nested = [name for name in params if name.partition("__")[0] in self.NESTED and "__" in name]
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        for name in nested:
            outer, _, key = name.partition("__")
            held = getattr(self, outer)
            if hasattr(held, "set_params"):
                held.set_params(**{key: params[name]})
            else:
                setattr(self, outer, inside(held) | {key: params[name]})
        return self

    @one_thread_if_forked()
    def decision_scores(self, X: Any, *, costs: CostMatrix | None = None) -> NDArray[np.float64]:  # noqa: N803
        """Return the scores: what the learner says, to be compared with ``threshold_``; of K classes (n, K).

        ``costs`` are those of the rows, which a stack with members weighted by them looks at.
        """
        check_is_fitted(self)
        features = read_features(self, X, reset=False)
        if costs is not None and costs.n_instances is not None and getattr(self.model_, "row_weighted", False):
            check_samples(costs.n_instances, _num_samples(features))
            return to_probabilities(self.model_.logits(features, row_offsets(costs, self.costs_)))
        return to_probabilities(self.model_.logits(features))

    def decision_probabilities(self, X: Any, *, costs: CostMatrix | None = None) -> NDArray[np.float64]:  # noqa: N803
        """Return what is decided upon: the probability of the positive class, or of each of K classes.

        ``costs`` are those of the rows, where they are known.
        """
        return self.decision_.probabilities(self.decision_scores(X, costs=costs), costs=costs)

    @property
    def threshold_(self) -> float:
        """The score above which a row is called positive; of two classes only."""
        check_is_fitted(self, "decision_")
        return self.decision_.threshold_

    def check(self, ignore: Iterable[str] = ()) -> Checks:
        """Return what speaks against the fitted model: held-out rows no cheaper than one decision for all, and others.

        ``ignore`` are codes to say nothing about; docs/checks.md tells what each means.
        """
        from adacsl.estimators.model_checks import check_model  # noqa: PLC0415  for those who ask

        return check_model(self, ignore)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The share of each column in what trees have learned, where there are some; ``permutation_cost`` is money."""
        check_is_fitted(self)
        from adacsl.estimators.importances import importances  # noqa: PLC0415  boosters

        found = importances(self.model_, int(self.n_features_in_))
        if found is None:
            raise AttributeError("nothing in this model knows importances of columns; permutation_cost works for all")
        return found

    def predict_proba(
        self,
        X: Any,  # noqa: N803
        *,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> NDArray[np.float64]:
        """Return probabilities, corrected for the cost weighting; columns in the order of ``classes_``.

        Costs of each row matter where the loss was weighted by them: those said over columns are taken from X, and
        those that :meth:`fit` got as arrays have to be passed here too.
        """
        check_is_fitted(self)
        weighted = self.decision_.row_weighted or getattr(self.model_, "row_weighted", False)
        costs = prices_of(self, X, fp=fp, fn=fn, tp=tp, tn=tn) if weighted else None
        positive = self.decision_probabilities(X, costs=costs)
        if self.positive_ is None:
            return positive
        columns = (1.0 - positive, positive)
        return np.stack(columns if self.positive_ == self.classes_[1] else columns[::-1], axis=1)

    def predict(
        self,
        X: Any,  # noqa: N803
        *,
        policy: Policy | None = None,
        refer: Any = None,
        capacity: int | None = None,
        per: str | None = None,
        time: Any = None,
        prior: Any = None,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> NDArray[Any]:
        """Return the cheapest label of each row; with costs of each row, by each row's own Bayes threshold.

        Prices said over columns in training (``fn="amount"``) are those of these rows, unless others are given. Costs
        that :meth:`fit` got as arrays, one of each sample, have to be passed, unless the loss was weighted by them
        (``loss="row-weighted"``).

        Parameters
        ----------
        X : table or images
            As in training.
        policy : Policy, optional
            Instead of the classifier's own; ``Policy()`` decides among the classes, as many as it takes.
        refer, capacity, per, time, prior : optional
            Single settings of the :class:`~adacsl.Policy`; :meth:`decisions` takes all, and says more.
        fp, fn, tp, tn : float or arrays of shape (n,), optional
            Costs of each row.
        """
        said = {"refer": refer, "capacity": capacity, "per": per, "time": time, "prior": prior}
        if not choose_policy(self.policy, policy, said).empty:
            return self.decisions(X, policy=policy, fp=fp, fn=fn, tp=tp, tn=tn, **said).labels
        check_is_fitted(self)
        given = {"fp": fp, "fn": fn, "tp": tp, "tn": tn}
        known = all(cost is None for cost in given.values()) and not self.decision_.needs_costs
        costs = None if known and missing_costs(self, given) else prices_of(self, X, **given)
        decided = self.decision_.predict(self.decision_scores(X, costs=costs), costs=costs)
        if self.positive_ is None:
            return np.asarray(self.classes_[decided])
        positive = decided == 1
        negative = self.classes_[0] if self.positive_ == self.classes_[1] else self.classes_[1]
        kind = self.classes_.dtype
        return np.where(positive, np.asarray(self.positive_, kind), np.asarray(negative, kind))

    def decisions(
        self,
        X: Any,  # noqa: N803
        *,
        policy: Policy | None = None,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
        **settings: Any,
    ) -> Decisions:
        """Return the decision about each row, what it is expected to cost, and plain sentences about all of them.

        Parameters
        ----------
        X : table or images
            As in training; a table may have the column of the ``time`` besides, and that of the classifier's own.
        policy : Policy, optional
            Instead of the classifier's own.
        fp, fn, tp, tn : float or arrays of shape (n,), optional
            Costs of each row.
        **settings
            Single settings of the :class:`~adacsl.Policy`: ``refer=3, capacity=200``.

        Examples
        --------
        >>> from adacsl import CostMatrix, Method
        >>> from sklearn.linear_model import LogisticRegression
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X[:, 1] + X[:, 0] > 1).astype(int)
        >>> model = Method(CostMatrix(fp=1, fn=8), learner=LogisticRegression(), random_state=0).fit(X, y)
        >>> found = model.decisions(X, refer=0.5, capacity=20)
        >>> found.counts
        {'0': 269, '1': 111, 'refer': 20}
        >>> found.notes[0].partition(",")[0]
        "55 rows wanted 'refer'"
        """
        check_is_fitted(self)
        chosen = choose_policy(self.policy, policy, settings)
        X, chosen = take_time(self, X, chosen)  # noqa: N806
        costs = prices_of(self, X, fp=fp, fn=fn, tp=tp, tn=tn)
        return decide_rows(self, self.decision_probabilities(X, costs=costs), costs, chosen)

    def score(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        *,
        policy: Policy | None = None,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> float:
        """Return minus the mean cost, so that a search for the best score finds the cheapest model.

        Under a policy, actions beyond the classes cost what it says.
        """
        refuse_reordered(X, y=y, sample_weight=sample_weight)
        labels = read_known_labels(self, y)
        if not choose_policy(self.policy, policy, {}).empty:
            decisions = self.decisions(X, policy=policy, fp=fp, fn=fn, tp=tp, tn=tn)
            return -decisions.costs.mean(labels, decisions.actions, sample_weight=sample_weight)
        costs = prices_of(self, X, fp=fp, fn=fn, tp=tp, tn=tn) or self.costs_
        decided = number_labels(self, self.predict(X, fp=fp, fn=fn, tp=tp, tn=tn, policy=policy))
        return -costs.mean(labels, decided, sample_weight=sample_weight)

    def permutation_cost(
        self,
        X: Any,  # noqa: N803
        y: Any,
        *,
        repeats: int = 5,
        columns: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        random_state: Any = None,
        policy: Policy | None = None,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> pd.DataFrame:
        """Return what each column is worth: how much dearer a row gets when the column is shuffled among the rows.

        Parameters
        ----------
        X : table of shape (n, p)
            numpy, pandas, polars or pyarrow; best rows that did not train the model.
        y : array of shape (n,)
            Their labels.
        repeats : int, default 5
            How often each column is shuffled. All columns are shuffled alike, and as scikit-learn's
            ``permutation_importance`` does for the same ``random_state``.
        columns : list or dict, optional
            Names or numbers of columns, default all; ``{"address": ["zip", "city"]}`` shuffles columns together.
        sample_weight : array of shape (n,), optional
            How much each row counts in the means; rows of weight zero are left out.
        groups : array of shape (n,), optional
            Rows of one group (patient, customer) are no independent evidence: the interval counts groups.
        random_state : int, RandomState or None
            Of the shuffles.
        policy : Policy, optional
            Instead of the classifier's own, as in :meth:`predict`. Of a capacity, the rows of one shuffle take their
            part together; times stay where they are.
        fp, fn, tp, tn : float or arrays of shape (n,), optional
            Costs of each row, by which it is decided and judged. They stay where they are.

        Returns
        -------
        DataFrame
            One row per column, dearest first: ``column``; ``cost``, by how much the mean cost rises, as a mean over the
            repeats; ``low`` and ``high``, its 95 % interval, for which both the rows and the shuffles count;
            ``share`` of what the model saves against the cheaper constant decision (NaN where it saves nothing).
            ``attrs`` holds ``base_cost``, ``constant_cost``, ``rows`` and ``repeats``.

        Examples
        --------
        >>> from adacsl import CostMatrix, Method
        >>> from sklearn.linear_model import LogisticRegression
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> model = Method(CostMatrix(fp=1, fn=8), learner=LogisticRegression()).fit(X, (X[:, 1] > 1).astype(int))
        >>> model.permutation_cost(X, (X[:, 1] > 1).astype(int), random_state=0)["column"].tolist()
        [1, 0]
        """
        from adacsl.estimators.explaining import permutation_costs, read_table_rows  # noqa: PLC0415

        check_is_fitted(self)
        costs = prices_of(self, X, fp=fp, fn=fn, tp=tp, tn=tn)
        X, holds = take_time(self, X, choose_policy(self.policy, policy, {}))  # noqa: N806
        rows, holds = read_table_rows(self, X, y, sample_weight, groups, costs, holds)
        return permutation_costs(self, rows, holds, columns, repeats, random_state)

    def retune(
        self,
        X: Any,  # noqa: N803
        y: Any,
        *,
        decide: str | None = None,
        groups: Any = None,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> Self:
        """Return a copy that decides as later rows say; what learns is not trained again.

        Parameters
        ----------
        X : table or images
            Rows that did not train the model.
        y : array of shape (n,)
            Their labels; rows without one (None, NaN) are left out. At least ten of each class.
        decide : {"tuned", "calibrated"}, optional
            What is fitted to them, see :class:`~adacsl.Decision`. Default: as before, and "tuned" where nothing was
            fitted.
        groups : array of shape (n,), optional
            Rows of one group (patient, customer) are no independent evidence.
        fp, fn, tp, tn : float or arrays of shape (n,), optional
            Costs of each row.

        Returns
        -------
        a fitted classifier of the same kind
            Its ``estimated_cost_``, ``oof_scores_`` and ``calibration_error_`` are those of these rows: the cost is
            that of decisions fitted on one half and paid on the other.

        Examples
        --------
        >>> from adacsl import CostMatrix, Method
        >>> from sklearn.linear_model import LogisticRegression
        >>> X = np.random.default_rng(0).normal(size=(800, 2))
        >>> y = (X[:, 1] > 1).astype(int)
        >>> model = Method(CostMatrix(fp=1, fn=8), learner=LogisticRegression()).fit(X[:400], y[:400])
        >>> model.retune(X[400:], y[400:]).decision_.decide
        'tuned'
        """
        from adacsl.estimators.monitoring import retune  # noqa: PLC0415  pandas

        check_is_fitted(self)
        costs = prices_of(self, X, fp=fp, fn=fn, tp=tp, tn=tn)
        fresh: Self = retune(self, X, y, costs, decide=decide, groups=groups)
        return fresh

    # keeping

    def save(self, folder: str | Path) -> Path:
        """Write the fitted method as safetensors and JSON with digests, atomically; ``adacsl.load`` reads it.

        No pickle: nets, linear models and forests are numbers, boosters are in their libraries' own formats. An
        estimator of another kind cannot be written so; an error says it.
        """
        from adacsl.estimators.persistence import save_method  # noqa: PLC0415  safetensors stays optional

        check_is_fitted(self)
        return save_method(self, folder)

    def export_onnx(self, path: str | Path, sample: Any) -> Path:
        """Write an ONNX graph with the outputs ``score``, ``probability`` and ``decision``.

        For nets, and for logistic regressions of tables (``learner="logistic"``).

        A portfolio is one graph where all its members are nets or logistic regressions. The graph takes raw numbers
        (float64, NaN = missing) where all columns are numeric, bytes (N x H x W x C) for images, and each column under
        its own name where some are text (as strings) or dates (seconds since 1970 in UTC): the encoding is part of the
        graph. With K classes ``score`` and ``probability``
        have K columns, and ``decision`` is the place in ``classes_`` of the class of least expected cost; the matrix is
        in the graph. Threshold, class names and costs are in its metadata. Before the file is put in place it is run
        on ``sample``, some rows of X, and must agree with :meth:`decision_scores` to 1e-5.
        """
        from adacsl.estimators.export import export_onnx  # noqa: PLC0415  onnx stays optional

        check_is_fitted(self)
        return export_onnx(self, path, sample)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        return tags
