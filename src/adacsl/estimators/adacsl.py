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
    """Classifier that minimises cost: a controller adapts the class weight to held-out data while it trains (AdaCSL).

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
    target_threshold : float, "bayes", "middle" or "auto", default 0.5
        T', the threshold for scores that a weighted loss trains for. "bayes": T' = T, the Bayes threshold; "middle":
        the geometric mean of the odds of T and 0.5. "auto": all three are trained, and with a controller also plain
        cross-entropy without adaptation (T' = T); the lowest held-out cost decides. More than two classes: "bayes"
        (the default), "middle" or "half".
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
    net_ : nn.Module
        The trained network(s), of a neural learner.
    boosters_, rounds_ : list
        The library's models, of a boosting learner, and how many rounds of each are kept.
    estimators_ : list
        The kept models, of a scikit-learn classifier, one per fold; they know the classes 0 and 1 (positive), or 0 to
        K - 1 in the order of ``classes_``.
    encoder_ : TableEncoder
        The fitted encoder, of tables.

    The other attributes are those of :class:`CostSensitiveClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from adacsl import CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> clf = AdaCSLClassifier(CostMatrix(fp=1, fn=8), learner=model, cv=5, random_state=0).fit(X, 1 - y)
    >>> clf.predict(X[:3]).tolist()
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
        """Return probabilities, corrected for the cost weighting; columns in the order of ``classes_``."""
        return super().predict_proba(X, fp=fp, fn=fn, tp=tp, tn=tn)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator = _estimator(self)
        if isinstance(estimator, BaseEstimator) and not self.encodes:
            tags.input_tags = copy.deepcopy(get_tags(estimator).input_tags)
        return tags
