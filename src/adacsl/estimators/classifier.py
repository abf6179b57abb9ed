"""The cost-sensitive classifier: a learner, a loss, an optional controller and a decision rule."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import refuse_reordered
from adacsl.base.extras import requires, resolve
from adacsl.base.scores import to_probabilities
from adacsl.costs.cells import check_samples
from adacsl.costs.instance import row_offsets
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import Decisions, Policy, choose_policy, decide, ordered_labels, take_time
from adacsl.decision.rule import Decision
from adacsl.estimators.validation import check_method
from adacsl.execution.threads import one_thread_if_forked
from adacsl.fitting.rows import costs_for, missing_costs, read_features, read_known_labels
from adacsl.fitting.settings import inside, keeps_settings
from adacsl.learners.registry import as_learner
from adacsl.metrics.intervals import Interval
from adacsl.thresholds.constraints import Certified

if TYPE_CHECKING:
    import pandas as pd

    from adacsl.datasets.findings import Checks

with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import _num_samples, check_is_fitted


class CostSensitiveClassifier(ClassifierMixin, BaseEstimator):
    """Cost-sensitive classifier built from a base learner, a loss, an optional AdaCSL controller and a decision rule.

    It follows scikit-learn's conventions and takes tables and images. :func:`adacsl.method` returns one by name.

    Parameters
    ----------
    costs : CostMatrix, optional
        Costs of the errors, of two classes or K x K. A matrix without class names is in the order of the sorted labels.
        Costs may depend on columns of X, ``CostMatrix(fp=1, fn="0.8 * amount")``; arrays with a cost for each sample
        (two classes) are given to :meth:`fit` and :meth:`predict`. Default: the inverse class frequencies of the
        training labels (``CostMatrix.balanced(y)``).
    learner : str, learner or classifier, default "net"
        What is trained. "net": a neural network for tables or images (:class:`~adacsl.neural.NeuralLearner`);
        "xgboost", "lightgbm", "catboost" or "boosting": gradient boosting
        (:class:`~adacsl.learners.BoostingLearner`; "boosting" is the first library that is installed, else
        scikit-learn's histogram boosting); "logistic": logistic regression; "metacost": MetaCost around histogram
        boosting; "constant": nothing, for baselines; or any scikit-learn classifier, for tables
        (:class:`~adacsl.learners.SklearnLearner`). ``learner__epochs`` works in searches.
    resample : {None, "oversample", "undersample", "smote"}, default None
        Train neural networks on balanced classes. Probabilities are corrected for it before the decision.
    loss : {"plain", "weighted", "instance-weighted", "focal", "logit-adjusted"} or callable, default "plain"
        "plain": cross-entropy; "weighted": weighted by the costs of the classes; "instance-weighted": also by each
        sample's own cost, where costs differ between samples; "focal": weighted focal loss; "logit-adjusted": logits
        shifted by the odds of the Bayes threshold. For neural networks also a callable ``loss(logits, labels,
        costs=...)`` that returns one value per sample.
    controller : None, "auto", dict or AdaCSLController, default None
        Whether and how AdaCSL adapts the class weight to held-out samples. None: not at all, lambda stays 1. "auto":
        the paper's update at full speed for images; the exact odds update with damping 0.5 for tables and scikit-learn
        classifiers; the paper's update at a tenth of its speed, with ``n_standard_errors=1``, for boosting. A dict such
        as ``{"n_standard_errors": 2}`` changes parts of that. An AdaCSLController is copied, with the costs and the
        target threshold of the classifier. Needs ``loss="weighted"`` or ``"instance-weighted"``.
    target_threshold : float, "bayes", "middle" or "auto", optional
        T', the threshold for scores that a weighted loss trains for. Default: 0.5. "bayes": T' = T, the Bayes
        threshold; "middle": the geometric mean of the odds of T and 0.5. "auto": all three are trained, and with a
        controller also plain cross-entropy without adaptation (T' = T); the lowest held-out cost decides. More than two
        classes: "bayes" (the default), "middle" or "half".
    decide : str, default "bayes"
        How scores become decisions: "bayes", "tuned", "calibrated", "unweighted", "half", "raw", "negative" or
        "positive", see :class:`~adacsl.Decision`; or "auto": "calibrated" where a neural network is trained on a table
        of two classes with the same costs for all samples and one split holds out at least 150 samples; else "bayes".
    select : {"best", "last", "log-loss"}, default "best"
        Which epoch or round of each model is kept: the one of least held-out cost, the last, or the one of least
        held-out log loss.
    cv : None, int or splitter, default None
        Cross-fitting: one model per fold, each adapted on the fold it did not train on; their log-odds are averaged. A
        number of folds of a table is fitted a second time on other folds, to estimate the cost of the average.
    validation : float or (X, y), default 0.2
        Without ``cv``: the share of samples held out, or separate data, to adapt, select and tune. Where nothing has
        to be selected, the model is fitted on all samples, and held-out scores come from five folds.
    pos_label : label, optional
        The positive class. 0/1, -1/1 and False/True need none; text labels need one; of other numbers the greater one
        is used, with a warning.
    device : {"auto", "cpu", "cuda", "cuda:1", "mps"}, default "auto"
        Where neural networks train and predict; an absent GPU falls back to the CPU with a warning.
    resume : path, optional
        Folder of checkpoints: an interrupted ``fit`` of neural networks continues when it is started again with the
        same data and settings.
    random_state : int, RandomState or None, default None
        Seed of everything random; ``resume`` and training in several processes need an integer.
    verbose : bool, default False
        Show a progress bar with the current cost.
    policy : Policy, optional
        Reject option, other actions, a capacity or other class priors, used by :meth:`predict` and :meth:`decisions`.
        Training and ``estimated_cost_`` are about the classes.
    constraints : dict, optional
        ``min_recall``, ``min_precision``, ``max_fpr`` and ``max_positive_rate`` of the decisions on new data, two
        classes: ``{"min_recall": 0.9, "confidence": 0.95}``, see :class:`~adacsl.Decision`. With a confidence
        (default 0.95) the samples must be independent: no ``sample_weight``, no ``groups``. ``"confidence": None``
        applies the constraints to out-of-fold scores, without a guarantee. ``"segments": "region"``: recall within
        each value of that column. Not with a policy.
    certify : float, default 0.2
        Share of the samples that certify the constraints and train, select and calibrate nothing; with times the
        latest. A frozen estimator as ``learner`` certifies on all samples, unless ``decide="calibrated"``.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The labels, sorted.
    pos_label_ : label or None
        The positive class; None with more than two classes.
    costs_ : CostMatrix
        The class-wide costs trained with: means, where samples have costs of their own.
    cost_spec_ : CostMatrix or None
        The cost specification, where costs depend on columns: :meth:`predict` evaluates it on its samples.
    sample_costs_ : tuple of str
        Which of ``fp``, ``fn``, ``tp`` and ``tn`` were arrays with a cost for each sample: :meth:`predict` needs them
        of the samples it is given.
    decision_ : Decision
        From scores to probabilities and decisions.
    target_threshold_ : float
        T', the threshold that scores were trained for.
    threshold_ : float
        The decision threshold: scores above it are positive; of two classes only.
    adapted_ : bool
        Whether a controller adapted the kept model.
    target_costs_ : dict
        The held-out cost of every T' tried, and of ``"plain"``, which did not adapt; with ``cv`` of single models.
    history_ : pandas.DataFrame
        One row per epoch or round, and fold: its ``target_threshold``, whether it ``adapted``, ``lambda`` and
        ``weight`` it was trained with; ``threshold`` (the cost-optimal one, T_actual) and ``val_cost`` that were
        measured after it.
    oof_scores_ : array of shape (n,)
        Scores of the samples by models that did not train on them, in the epoch or round that *other* held-out samples
        chose (``select="best"``); NaN for samples that only trained. Validation samples given apart follow behind the n
        samples.
    reference_scores_ : array of shape (m,)
        Scores of held-out samples (of at most 20,000) in the epoch or round that was kept: the reference of drift
        tests.
    estimated_cost_ : Interval
        Mean cost of held-out decisions with its 95 % bootstrap interval; sample weights count. With a number of folds
        on a table it is that of the average of all models, measured by a second cross-fit; with given folds, and for
        images, that of single models. The same samples adapted lambda, which is slightly optimistic; thresholds are
        tuned on other held-out samples.
    constraints_ : dict of Certified or None
        Of each of the ``constraints``: what is ``required``, what is ``guaranteed`` on new data, and its ``estimate``
        on the ``samples`` that certified it.
    saving_ : Interval
        Paired saving per sample against the cheaper constant baseline.
    calibration_error_ : float
        Expected calibration error (15 quantile bins) of the held-out probabilities; with more than two classes of the
        likeliest class's.
    model_ : object
        What was fitted; gives ``logits(X)``.
    times_ : str
        Where samples had a time: until when they trained, and from when to when they adapted; else "".
    left_out_ : tuple of str
        Columns of the training table excluded from the features (the time); ``predict`` takes tables with and without
        them.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : array of shape (n_features_in_,)
        The names of the features, where they have names.
    net_ : nn.Module
        The trained network(s), of a neural learner.
    boosters_ : list
        The library's models, of a boosting learner.
    rounds_ : list of int
        How many rounds of each booster are kept.
    estimators_ : list
        The kept models, of a scikit-learn classifier, one per fold; their classes are 0 and 1 (positive), or 0 to K
        - 1 in the order of ``classes_``.
    encoder_ : TableEncoder
        The fitted encoder, of tables.
    feature_importances_ : array of shape (n_features_in_,)
        Relative feature importances, of tree models.

    Raises
    ------
    ValueError
        Where settings make no sense together, or X, y and costs do not fit to each other.

    See Also
    --------
    AdaCSLClassifier : Adapts the class weight while it trains.
    EnsembleClassifier : A stacked ensemble.
    method : A built-in method by name.
    compare : Several methods on the same splits.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
    >>> model = CostSensitiveClassifier(costs, learner=learner, decide="tuned")
    >>> model.fit(X, 1 - y).predict(X[:3]).tolist()
    [1, 1, 1]
    """

    classes_: NDArray[Any]
    pos_label_: Any
    costs_: CostMatrix
    cost_spec_: CostMatrix | None
    sample_costs_: tuple[str, ...]
    left_out_: tuple[str, ...]
    times_: str
    decision_: Decision
    model_: Any
    target_threshold_: float | str
    adapted_: bool
    target_costs_: dict[float | str, float]
    history_: pd.DataFrame
    oof_scores_: NDArray[np.float64]
    reference_scores_: NDArray[np.float64]
    estimated_cost_: Interval
    saving_: Interval
    calibration_error_: float
    policy: Policy | None = None
    constraints: dict[str, float | None] | None = None

    NESTED: tuple[str, ...] = ("controller", "net", "constraints")
    """Parameters that hold parameters of their own, ``controller__damping``."""

    @property
    def encodes(self) -> bool:
        """Whether tables are checked and encoded; otherwise the learner takes X as it is."""
        learner = self.learner
        if learner is None:  # a loaded classifier has no untrained learner
            return getattr(self.model_, "encoder", None) is not None
        if isinstance(learner, str):
            return True
        learner = as_learner(learner)
        own = type(getattr(learner, "estimator", None)).__module__.startswith("adacsl.")  # takes tables unencoded
        return own or bool(getattr(learner, "encodes", True))

    @keeps_settings
    def __init__(  # noqa: PLR0913  settings by name
        self,
        costs: CostMatrix | None = None,
        *,
        learner: Any = "net",
        resample: str | None = None,
        loss: Any = "plain",
        controller: Any = None,
        target_threshold: float | str | None = None,
        decide: str = "bayes",
        select: str = "best",
        cv: Any = None,
        validation: Any = 0.2,
        pos_label: Any = None,
        device: str = "auto",
        resume: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        policy: Policy | None = None,
        constraints: dict[str, float | None] | None = None,
        certify: float = 0.2,
    ) -> None:
        """Keep the settings."""

    # parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings; those inside nested objects as ``name__key``.

        Parameters
        ----------
        deep : bool, default True
            Whether settings of nested objects (``controller__damping``) are included.

        Returns
        -------
        dict
            Names and values.

        Examples
        --------
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> CostSensitiveClassifier(CostMatrix(fp=1, fn=8)).get_params()["decide"]
        'bayes'
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        for name in self.NESTED if deep else ():
            value = params.get(name)
            params |= {f"{name}__{key}": setting for key, setting in inside(value).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings; ``controller__damping=0.5`` changes one of a nested object.

        Parameters
        ----------
        **params : Any
            Names and values.

        Returns
        -------
        CostSensitiveClassifier
            Itself.

        Raises
        ------
        ValueError
            Where there is no such setting.

        Examples
        --------
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> CostSensitiveClassifier(CostMatrix(fp=1, fn=8)).set_params(decide="tuned").decide
        'tuned'
        """
        nested = [name for name in params if name.partition("__")[0] in self.NESTED and "__" in name]
        if any(name.startswith("learner__") for name in params) and isinstance(self.learner, str):
            self.learner: Any = as_learner(self.learner)
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        for name in nested:
            outer, _, key = name.partition("__")
            held = getattr(self, outer)
            if hasattr(held, "set_params"):
                held.set_params(**{key: params[name]})
            else:
                setattr(self, outer, inside(held) | {key: params[name]})
        return self

    def check_settings(self) -> Any:
        """Return the learner; raise where parameters make no sense, alone or together."""
        learner = self.make_learner()
        learner.check()
        check_method(self, learner)
        return learner

    def make_learner(self) -> Any:
        """Return the learner that the parameters describe."""
        return as_learner(self.learner)

    # training

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
        label_delay: Any = None,
        validation: Any = None,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : table, images, folder, torch Dataset, or loader
            numpy, pandas, polars or pyarrow tables with numbers, categories, dates and missing values; for networks
            also images as uint8 arrays (N x H x W x C or N x C x H x W), a folder with one subfolder per class, or a
            Dataset of (image, label) pairs. A loader is any iterable of (inputs, labels), such as a DataLoader, for a
            network of your own: each pass is an epoch, and nothing is kept in memory.
        y : array of shape (n,), optional
            Labels; folders and Datasets bring their own.
        sample_weight : array of shape (n,), optional
            How much each sample counts in training and in the held-out cost.
        groups : array of shape (n,), optional
            Samples of one group (patient, customer) never stand on both sides of a split.
        time : array of shape (n,) or str, optional
            Observation times (dates, ISO text or numbers), or the column of X that holds them, which is then excluded
            from the features. Nothing is shuffled: later samples adapt, select and tune what earlier samples have
            trained. ``cv`` folds are windows of the later half, one after another.
        gap : float or str, optional
            Samples within this duration before a cut are left out: a number in the unit of the times, or "12h", "7d",
            "2w", "3mo".
        label_delay : float or str, optional
            How long after its sample a label is known, in the same forms.
        validation : loader, optional
            With a training loader: batches of the validation samples, always in the same order.
        fp : array of shape (n,) or str, optional
            Cost of a false positive of each sample; arrays are passed to :meth:`predict` as well. A text is a column of
            X or an expression over columns (``fn="amount"``), which :meth:`predict` evaluates, too.
        fn : array of shape (n,) or str, optional
            Cost of a false negative of each sample.
        tp : array of shape (n,) or str, optional
            Cost of a true positive of each sample.
        tn : array of shape (n,) or str, optional
            Cost of a true negative of each sample.

        Returns
        -------
        CostSensitiveClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            Where settings make no sense together, or X, y and costs do not fit to each other.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner)
        >>> model.fit(X, y).estimated_cost_.estimate < 0.2
        True
        """
        # by dotted string: what predicts does not import what trains
        resolve("adacsl.estimators.fit:fit_classifier")(
            self, X, y, sample_weight=sample_weight, groups=groups, time=time, gap=gap, label_delay=label_delay,
            validation=validation, fp=fp, fn=fn, tp=tp, tn=tn,
        )  # fmt: skip
        return self

    # what was trained

    @property
    def net_(self) -> Any:
        """The trained network(s), of a neural learner."""
        return self.model_.net

    @property
    def boosters_(self) -> list[Any]:
        """The library's models, of a boosting learner."""
        return list(self.model_.boosters)

    @property
    def rounds_(self) -> list[int]:
        """Rounds that were kept, of each booster."""
        return list(self.model_.rounds)

    @property
    def estimators_(self) -> Any:
        """The kept models, of a scikit-learn classifier."""
        return list(self.model_.estimators)

    @property
    def encoder_(self) -> Any:
        """The encoder of tables."""
        return self.model_.encoder

    # scores and decisions

    @one_thread_if_forked()
    def decision_scores(self, X: Any, *, costs: CostMatrix | None = None) -> NDArray[np.float64]:  # noqa: N803
        """Return the scores of the learner, to be compared with ``threshold_``.

        Parameters
        ----------
        X : table, dict of arrays or images
            As in training; columns of a dict are matched by name.
        costs : CostMatrix, optional
            Per-sample costs, which only an ensemble with base estimators weighted by them needs.

        Returns
        -------
        array of shape (n,) or (n, K)
            Scores of the positive class, or of every class.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> positive = model.decision_scores(X) > model.threshold_
        >>> bool((positive == model.predict(X)).all())
        True
        """
        check_is_fitted(self)
        features = read_features(self, X, reset=False)
        if costs is not None and costs.n_instances is not None and getattr(self.model_, "instance_weighted", False):
            check_samples(costs.n_instances, _num_samples(features))
            return to_probabilities(self.model_.logits(features, row_offsets(costs, self.costs_)))
        return to_probabilities(self.model_.logits(features))

    def decision_probabilities(self, X: Any, *, costs: CostMatrix | None = None) -> NDArray[np.float64]:  # noqa: N803
        """Return the probabilities that decisions are based on.

        Parameters
        ----------
        X : table, dict of arrays or images
            As in training; columns of a dict are matched by name.
        costs : CostMatrix, optional
            Per-sample costs, where they are known.

        Returns
        -------
        array of shape (n,) or (n, K)
            Of the positive class, or of every class.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> model.decision_probabilities(X[:2]).shape
        (2,)
        """
        return self.decision_.probabilities(self.decision_scores(X, costs=costs), costs=costs)

    @property
    def threshold_(self) -> float:
        """The decision threshold: scores above it are positive; of two classes only."""
        check_is_fitted(self, "decision_")
        return self.decision_.threshold_

    @property
    def constraints_(self) -> dict[str, Certified] | None:
        """What is known of each constraint: required, guaranteed on new data, estimated; None without constraints."""
        check_is_fitted(self, "decision_")
        return self.decision_.constraints_

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

        Per-sample costs matter where the loss was weighted by them: expressions over columns are evaluated on X; costs
        that :meth:`fit` got as arrays have to be passed here too.

        Parameters
        ----------
        X : table, dict of arrays or images
            As in training; columns of a dict are matched by name.
        fp : float or array of shape (n,), optional
            Cost of a false positive of each sample.
        fn : float or array of shape (n,), optional
            Cost of a false negative of each sample.
        tp : float or array of shape (n,), optional
            Cost of a true positive of each sample.
        tn : float or array of shape (n,), optional
            Cost of a true negative of each sample.

        Returns
        -------
        array of shape (n, K)
            Probabilities.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> model.predict_proba(X[:2]).shape
        (2, 2)
        """
        check_is_fitted(self)
        weighted = self.decision_.instance_weighted or getattr(self.model_, "instance_weighted", False)
        costs = costs_for(self, X, fp=fp, fn=fn, tp=tp, tn=tn) if weighted else None
        positive = self.decision_probabilities(X, costs=costs)
        if self.pos_label_ is None:
            return positive
        columns = (1.0 - positive, positive)
        return np.stack(columns if self.pos_label_ == self.classes_[1] else columns[::-1], axis=1)

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
        """Return the label of least expected cost for each sample.

        Costs given as expressions over columns in training (``fn="amount"``) are evaluated on X, unless others are
        given. Costs that :meth:`fit` got as arrays have to be passed, unless the loss was weighted by them
        (``loss="instance-weighted"``); each sample is then decided at its own Bayes threshold.

        Parameters
        ----------
        X : table, dict of arrays or images
            As in training; columns of a dict are matched by name.
        policy : Policy, optional
            Replaces the classifier's own; ``Policy()`` decides among the classes without limits.
        refer : float, optional
            Setting of the :class:`~adacsl.Policy`: the cost of having a person decide (reject option).
        capacity : int, optional
            Setting of the policy: how many samples may get the limited action.
        per : {"hour", "day", "week", "month"}, optional
            Setting of the policy: the period of the capacity.
        time : array of shape (n,) or str, optional
            Times of the samples, or their column, for ``per``.
        prior : float, mapping, sequence or "em", optional
            Setting of the policy: the class prior where the model is used.
        fp : float or array of shape (n,), optional
            Cost of a false positive of each sample.
        fn : float or array of shape (n,), optional
            Cost of a false negative of each sample.
        tp : float or array of shape (n,), optional
            Cost of a true positive of each sample.
        tn : float or array of shape (n,), optional
            Cost of a true negative of each sample.

        Returns
        -------
        array of shape (n,)
            Labels; names of actions, where the policy has others.

        Raises
        ------
        ValueError
            Where settings make no sense together, or X, y and costs do not fit to each other.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> model.predict(X[:4]).tolist()
        [0, 1, 0, 1]
        """
        check_is_fitted(self)
        settings = {"refer": refer, "capacity": capacity, "per": per, "time": time, "prior": prior}
        chosen = choose_policy(self.policy, policy, settings)
        given = {"fp": fp, "fn": fn, "tp": tp, "tn": tn}
        # labels alone need no costs where the scores were trained with those of each sample
        blind = chosen.empty and not self.decision_.needs_costs and all(cost is None for cost in given.values())
        costs = None if blind and missing_costs(self, given) else costs_for(self, X, **given)
        return self._decide(X, costs, chosen).labels

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
        """Return the decision for each sample, its expected cost, and notes on the decisions as a whole.

        Parameters
        ----------
        X : table, dict of arrays or images
            As in training; columns of a dict are matched by name.
        policy : Policy, optional
            Replaces the classifier's own; ``Policy()`` decides among the classes without limits.
        fp : float or array of shape (n,), optional
            Cost of a false positive of each sample.
        fn : float or array of shape (n,), optional
            Cost of a false negative of each sample.
        tp : float or array of shape (n,), optional
            Cost of a true positive of each sample.
        tn : float or array of shape (n,), optional
            Cost of a true negative of each sample.
        **settings : Any
            Single settings of the :class:`~adacsl.Policy`: ``refer=3, capacity=200``.

        Returns
        -------
        Decisions
            Labels, actions, probabilities, expected costs and notes.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> result = model.decisions(X, refer=0.5, capacity=20)
        >>> result.counts["refer"]
        20
        """
        check_is_fitted(self)
        chosen = choose_policy(self.policy, policy, settings)
        return self._decide(X, costs_for(self, X, fp=fp, fn=fn, tp=tp, tn=tn), chosen)

    def _decide(self, X: Any, costs: CostMatrix | None, policy: Policy) -> Decisions:  # noqa: N803
        X, policy = take_time(self, X, policy)  # noqa: N806
        probabilities = self.decision_probabilities(X, costs=costs)
        return decide(probabilities, self.decision_, ordered_labels(self), costs=costs, policy=policy)

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
        """Return minus the mean cost, so that the highest score is the lowest cost.

        Under a policy, actions beyond the classes are charged at the policy's costs.

        Parameters
        ----------
        X : table, dict of arrays or images
            As in training; columns of a dict are matched by name.
        y : array of shape (n,)
            True labels.
        sample_weight : array of shape (n,), optional
            How much each sample counts.
        policy : Policy, optional
            Replaces the classifier's own; ``Policy()`` decides among the classes without limits.
        fp : float or array of shape (n,), optional
            Cost of a false positive of each sample.
        fn : float or array of shape (n,), optional
            Cost of a false negative of each sample.
        tp : float or array of shape (n,), optional
            Cost of a true positive of each sample.
        tn : float or array of shape (n,), optional
            Cost of a true negative of each sample.

        Returns
        -------
        float
            Minus the mean cost.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> -0.2 < model.score(X, y) <= 0
        True
        """
        refuse_reordered(X, y=y, sample_weight=sample_weight)
        labels = read_known_labels(self, y)
        decisions = self.decisions(X, policy=policy, fp=fp, fn=fn, tp=tp, tn=tn)
        return -decisions.costs.mean(labels, decisions.actions, sample_weight=sample_weight)

    # diagnosis

    def check(self, ignore: Iterable[str] = ()) -> Checks:
        """Return warnings about the fitted model, such as a held-out cost no lower than that of a constant baseline.

        Parameters
        ----------
        ignore : iterable of str, default ()
            Codes of checks to omit; see :doc:`/guide/diagnose/checks`.

        Returns
        -------
        Checks
            The findings.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> model.check().has_errors
        False
        """
        from adacsl.estimators.model_checks import check_model  # noqa: PLC0415  for those who ask

        return check_model(self, ignore)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Relative feature importances of tree models; :meth:`permutation_cost` measures importance in cost."""
        check_is_fitted(self)
        from adacsl.estimators.importance import importances  # noqa: PLC0415  boosters

        result = importances(self.model_, int(self.n_features_in_))
        if result is None:
            raise AttributeError("this model has no feature importances; permutation_cost works for all models")
        return result

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
        """Return the permutation importance of each column in cost: the rise of the mean cost when it is shuffled.

        Parameters
        ----------
        X : table of shape (n, p)
            numpy, pandas, polars or pyarrow; best samples that did not train the model.
        y : array of shape (n,)
            True labels.
        repeats : int, default 5
            How often each column is shuffled. All columns are shuffled alike, and as scikit-learn's
            ``permutation_importance`` does for the same ``random_state``.
        columns : list or dict, optional
            Names or numbers of columns. Default: all; ``{"address": ["zip", "city"]}`` shuffles columns together.
        sample_weight : array of shape (n,), optional
            How much each sample counts in the means; samples of weight zero are left out.
        groups : array of shape (n,), optional
            Samples of one group (patient, customer) are no independent evidence: the interval counts groups.
        random_state : int, RandomState or None, default None
            Seed of the shuffles.
        policy : Policy, optional
            Replaces the classifier's own. Of a capacity, the samples of one shuffle take their part together; times
            stay where they are.
        fp : float or array of shape (n,), optional
            Cost of a false positive of each sample; not shuffled.
        fn : float or array of shape (n,), optional
            Cost of a false negative of each sample; not shuffled.
        tp : float or array of shape (n,), optional
            Cost of a true positive of each sample; not shuffled.
        tn : float or array of shape (n,), optional
            Cost of a true negative of each sample; not shuffled.

        Returns
        -------
        pandas.DataFrame
            One row per column, costliest first: ``column``; ``cost``, the rise of the mean cost, a mean over the
            repeats; ``low`` and ``high``, its 95 % interval, for which both the samples and the shuffles count;
            ``share`` of what the model saves against the cheaper constant decision (NaN where it saves nothing).
            ``attrs`` holds ``base_cost``, ``constant_cost``, ``rows`` and ``repeats``.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X[:, 1] > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> model.permutation_cost(X, y, random_state=0)["column"].tolist()
        [1, 0]
        """
        from adacsl.estimators.importance import permutation_costs, read_table_rows  # noqa: PLC0415

        check_is_fitted(self)
        costs = costs_for(self, X, fp=fp, fn=fn, tp=tp, tn=tn)
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
        """Return a copy whose decision rule is fitted to later samples; the learner is not refitted.

        Parameters
        ----------
        X : table or images
            Samples that did not train the model.
        y : array of shape (n,)
            True labels; samples without one (None, NaN) are left out. At least ten of each class.
        decide : {"tuned", "calibrated"}, optional
            What is fitted to them, see :class:`~adacsl.Decision`. Default: as before, and "tuned" where nothing was
            fitted.
        groups : array of shape (n,), optional
            Samples of one group (patient, customer) are no independent evidence.
        fp : float or array of shape (n,), optional
            Cost of a false positive of each sample.
        fn : float or array of shape (n,), optional
            Cost of a false negative of each sample.
        tp : float or array of shape (n,), optional
            Cost of a true positive of each sample.
        tn : float or array of shape (n,), optional
            Cost of a true negative of each sample.

        Returns
        -------
        CostSensitiveClassifier
            Of the same class. Its ``estimated_cost_``, ``oof_scores_`` and ``calibration_error_`` are those of these
            samples: the cost is that of decisions fitted on one half and evaluated on the other.

        Raises
        ------
        ValueError
            Where settings make no sense together, or X, y and costs do not fit to each other.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X[:200], y[:200])
        >>> model.retune(X[200:], y[200:]).decision_.decide
        'tuned'
        """
        check_is_fitted(self)
        costs = costs_for(self, X, fp=fp, fn=fn, tp=tp, tn=tn)
        fresh: Self = resolve("adacsl.monitoring.retune:retune")(self, X, y, costs, decide=decide, groups=groups)
        return fresh

    # saving and exporting

    def save(self, folder: str | Path) -> Path:
        """Write the fitted classifier to a folder, atomically; :func:`adacsl.load` reads it.

        The folder holds safetensors and JSON with digests. Nothing is pickled: neural networks, linear models and trees
        are arrays, boosters are in their libraries' own formats, other scikit-learn estimators in that of skops.

        Parameters
        ----------
        folder : path
            Where to write; an artefact that is there is replaced.

        Returns
        -------
        pathlib.Path
            The folder.

        Raises
        ------
        TypeError
            Where an estimator has no form that can be saved.

        See Also
        --------
        adacsl.load : Reads it.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
        >>> import tempfile, adacsl
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     loaded = adacsl.load(model.save(f"{folder}/model"))
        >>> bool((loaded.predict(X) == model.predict(X)).all())
        True
        """
        from adacsl.estimators.persistence import save_method  # noqa: PLC0415  safetensors stays optional

        check_is_fitted(self)
        return save_method(self, folder)

    def export_onnx(self, path: str | Path, sample: Any) -> Path:
        """Write an ONNX graph with the outputs ``score``, ``probability`` and ``decision``.

        For networks, for logistic regressions of tables (``learner="logistic"``), and for ensembles of these. The graph
        takes raw numbers (float64, NaN = missing) where all columns are numeric, bytes (N x H x W x C) for images, and
        each column under its own name where some are text (as strings) or dates (seconds since 1970 in UTC): the
        encoding is part of the graph. With K classes ``score`` and ``probability`` have K columns, and ``decision`` is
        the place in ``classes_`` of the class of least expected cost. Threshold, class names and costs are in its
        metadata.

        Parameters
        ----------
        path : path
            The file.
        sample : table or images
            Some samples of X, on which the graph is run before the file is put in place: it must agree with
            :meth:`decision_scores` to 1e-5.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        TypeError
            Where the learner has no graph.

        Examples
        --------
        >>> from adacsl import CostMatrix, CostSensitiveClassifier
        >>> model = CostSensitiveClassifier(CostMatrix(fp=1, fn=8), learner="logistic")
        >>> model.fit(X, y).export_onnx("model.onnx", X[:10])  # doctest: +SKIP
        """
        from adacsl.estimators.onnx import export_onnx  # noqa: PLC0415  onnx stays optional

        check_is_fitted(self)
        return export_onnx(self, path, sample)

    # scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        return tags
