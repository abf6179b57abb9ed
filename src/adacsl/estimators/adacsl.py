"""The AdaCSL classifier: a class weight that follows the held-out cost, for any learner."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import Policy
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.fitting.settings import keeps_settings

with requires("sklearn"):
    from sklearn.base import BaseEstimator
    from sklearn.utils import get_tags
    from sklearn.utils.metaestimators import available_if


def _estimator(classifier: AdaCSLClassifier) -> Any:
    """Return the scikit-learn estimator that learns; None where it is a learner of this package."""
    learner = classifier.learner
    if isinstance(learner, str) or learner is None or isinstance(learner, type):
        return None
    return getattr(learner, "estimator", None if hasattr(learner, "trained_by") else learner)


def _gives_probabilities(self: AdaCSLClassifier) -> bool:
    fitted = getattr(getattr(self, "model_", None), "estimators", None)
    estimator = fitted[0] if fitted else _estimator(self)
    return estimator is None or hasattr(estimator, "predict_proba")


class AdaCSLClassifier(CostSensitiveClassifier):
    """Classifier whose class weight a controller adapts to held-out data while it trains (AdaCSL).

    A :class:`CostSensitiveClassifier` with a weighted loss and a controller, for tables and images.

    Parameters
    ----------
    costs : CostMatrix, optional
        Costs of the errors, of two classes or K x K. A matrix without class names is in the order of the sorted labels.
        Costs may depend on columns of X, ``CostMatrix(fp=1, fn="0.8 * amount")``; arrays with a cost for each sample
        (two classes) are given to :meth:`fit` and :meth:`predict`. Default: the inverse class frequencies of the
        training labels (``CostMatrix.balanced(y)``).
    learner : {"net", "xgboost", "lightgbm", "catboost", "boosting"}, learner or classifier, default "net"
        What is trained: a neural network (:class:`~adacsl.neural.NeuralLearner`), gradient boosting
        (:class:`~adacsl.learners.BoostingLearner`), or any scikit-learn classifier with ``sample_weight`` in ``fit`` or
        ``partial_fit`` (:class:`~adacsl.learners.SklearnLearner`). Pipelines and frozen estimators get X as it is,
        other estimators an encoded table. ``learner__epochs`` works in searches.
    controller : None, "auto", dict or AdaCSLController, default "auto"
        Whether and how AdaCSL adapts the class weight to held-out samples. None: not at all, lambda stays 1. "auto":
        the paper's update at full speed for images; the exact odds update with damping 0.5 for tables and scikit-learn
        classifiers; the paper's update at a tenth of its speed, with ``n_standard_errors=1``, for boosting. A dict such
        as ``{"n_standard_errors": 2}`` changes parts of that. An AdaCSLController is copied, with the costs and the
        target threshold of the classifier. More than two classes have
        one lambda each.
    target_threshold : float, "bayes", "middle" or "auto", optional
        T', the threshold for scores that a weighted loss trains for. Default: 0.5. "bayes": T' = T, the Bayes
        threshold; "middle": the geometric mean of the odds of T and 0.5. "auto": all three are trained, and with a
        controller also plain cross-entropy without adaptation (T' = T); the lowest held-out cost decides. More than two
        classes: "bayes" (the default), "middle" or "half".
    decide : str, default "auto"
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
    TypeError
        Where an estimator takes no weights.

    See Also
    --------
    CostSensitiveClassifier : Any loss and decision rule, with or without a controller.
    AdaCSLController : The controller.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from adacsl import AdaCSLClassifier, CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> costs = CostMatrix(fp=1, fn=8)
    >>> learner = make_pipeline(StandardScaler(), LogisticRegression())
    >>> model = AdaCSLClassifier(costs, learner=learner, cv=5, random_state=0)
    >>> model.fit(X, 1 - y).predict(X[:3]).tolist()
    [1, 1, 1]
    """

    loss = "weighted"
    resample = None

    @keeps_settings
    def __init__(
        self,
        costs: CostMatrix | None = None,
        *,
        learner: Any = "net",
        controller: Any = "auto",
        target_threshold: float | str | None = None,
        decide: str = "auto",
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

    def make_learner(self) -> Any:
        """Return the learner; raise where it cannot be weighted."""
        learner = super().make_learner()
        if hasattr(learner, "kind_of_training"):
            learner.check()
            learner.kind_of_training  # noqa: B018  raises where the estimator takes no weights
        return learner

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
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
        >>> from adacsl import CostMatrix, AdaCSLClassifier
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> y = (X.sum(axis=1) > 1).astype(int)
        >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
        >>> model = AdaCSLClassifier(costs, learner=learner).fit(X, y)
        >>> model.predict_proba(X[:2]).shape
        (2, 2)
        """
        return super().predict_proba(X, fp=fp, fn=fn, tp=tp, tn=tn)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator = _estimator(self)
        if isinstance(estimator, BaseEstimator) and not self.encodes:
            tags.input_tags = copy.deepcopy(get_tags(estimator).input_tags)
        return tags
