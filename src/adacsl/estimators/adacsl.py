"""AdaCSL classifiers for neural networks, boosting and scikit-learn estimators."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires, resolve
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import Policy
from adacsl.estimators.classifier import Method
from adacsl.fitting.settings import keeps_settings

with requires("sklearn"):
    from sklearn.base import MetaEstimatorMixin
    from sklearn.utils import get_tags
    from sklearn.utils.metaestimators import available_if


class AdaCSLClassifier(Method):
    """A classifier that minimises cost, for tables and images, steered by validation data (AdaCSL).

    A :class:`Method` of nets whose weighted cross-entropy a controller steers.

    Parameters
    ----------
    costs : CostMatrix, optional
        What the errors cost, of two classes or K x K. Default: the inverse class frequencies
        (``CostMatrix.balanced(y)``).
    net : dict or Net, optional
        Settings of the nets, see :class:`~adacsl.neural.learner.Net`:
        ``{"epochs": 30, "lr": 1e-3, "module": ..., "weights": ..., "views": 4}``. A search says ``net__lr``.
    controller : "auto", None, dict or AdaptiveWeight
        How lambda is steered: "auto" is the paper's update at full speed for images, and the exact odds update with
        damping 0.5 for tables, where it was cheaper; ``{"caution": 2}`` changes parts of that; None keeps lambda at 1,
        which is plain weighted cross-entropy. More than two classes have one lambda each, at half speed. A search says
        ``controller__damping``.
    target, decide, select, cv, validation, positive, device, resume, random_state, verbose, policy
        As for every :class:`Method`; ``decide="auto"`` by default, which was cheaper on tables.

    Attributes
    ----------
    net_ : nn.Module
        The trained net(s).
    encoder_ : TableEncoder
        Of tables.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from adacsl import CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AdaCSLClassifier(CostMatrix(fp=1, fn=8), net={"epochs": 3}, random_state=0).fit(X, 1 - y)
    >>> clf.predict(X[:3]).tolist()
    [1, 1, 1]
    """

    loss = "weighted"
    resample = None
    encodes = True

    @keeps_settings
    def __init__(  # the parts that a net has use for
        self,
        costs: CostMatrix | None = None,
        *,
        net: Any = None,
        controller: Any = "auto",
        target: float | str | None = None,
        decide: str = "auto",
        select: str = "best",
        cv: Any = None,
        validation: Any = 0.2,
        positive: Any = None,
        device: str = "auto",
        resume: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        policy: Policy | None = None,
    ) -> None:
        """Keep the settings."""

    def make_learner(self) -> Any:
        """Return the neural learner."""
        with requires("train"):
            from adacsl.neural.learner import Net  # noqa: PLC0415

        return learner_from(Net, self.net, "net")

    @property
    def net_(self) -> Any:
        """The trained net(s)."""
        return self.model_.net

    @property
    def encoder_(self) -> Any:
        """The encoder of tables."""
        return self.model_.encoder


class AdaCSLBoostingClassifier(Method):
    """Gradient boosting that minimises cost; validation data can steer its class weight between rounds (AdaCSL).

    By default it is a plain booster, stopped early, fitted on all rows and decided at the Bayes threshold: on the
    tables measured adaptation saved nothing on top of that. ``target=0.5`` adapts, ``target="auto"`` tries the plain
    one and two more. Categories and missing values go to the booster as they are; nothing is one-hot encoded or filled
    in.

    Parameters
    ----------
    costs : CostMatrix, optional
        What the errors cost, of two classes or K x K. Default: the inverse class frequencies
        (``CostMatrix.balanced(y)``).
    engine : {"xgboost", "lightgbm", "catboost", "auto"}
        Which library boosts; each is an extra, ``pip install 'adacsl[xgboost]'``. "auto": the first that is installed.
    rounds, lr, patience, every, params
        See :class:`~adacsl.learners.boosting.Booster`.
    controller : "auto", None, dict or AdaptiveWeight
        Whether and how lambda moves. "auto": the paper's update at a tenth of its speed, with caution 1, unless T' = T,
        where the plain booster did as well.
    target, decide, select, cv, validation, positive, random_state, verbose
        As for every :class:`Method`; ``target="bayes"`` by default. A policy is set as ``model.policy = Policy(...)``.

    Attributes
    ----------
    boosters_ : list
        The library's models, up to the kept rounds; ``rounds_`` says how many those are.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from adacsl import CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AdaCSLBoostingClassifier(CostMatrix(fp=1, fn=8), rounds=20, random_state=0).fit(X, 1 - y)
    >>> clf.predict(X[:3]).tolist()
    [1, 1, 1]
    """

    loss = "weighted"
    resample = None
    encodes = True
    device = "cpu"
    resume = None
    policy: Policy | None = None

    @keeps_settings
    def __init__(
        self,
        costs: CostMatrix | None = None,
        *,
        engine: str = "xgboost",
        rounds: int = 1000,
        lr: float = 0.05,
        patience: int | None = 50,
        every: int = 1,
        params: dict[str, Any] | None = None,
        controller: Any = "auto",
        target: float | str = "bayes",
        decide: str = "bayes",
        select: str = "best",
        cv: Any = None,
        validation: Any = 0.2,
        positive: Any = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        """Keep the settings."""

    def make_learner(self) -> Any:
        """Return the boosting learner."""
        names = ("rounds", "lr", "patience", "every", "params")
        return resolve("adacsl.learners.boosting:Booster")(self.engine, **{name: getattr(self, name) for name in names})

    @property
    def boosters_(self) -> list[Any]:
        """The library's models."""
        return list(self.model_.boosters)

    @property
    def rounds_(self) -> list[int]:
        """Rounds that were kept."""
        return list(self.model_.rounds)

    @property
    def encoder_(self) -> Any:
        """The encoder of tables."""
        return self.model_.encoder


def _gives_probabilities(self: AdaptiveCostClassifier) -> bool:
    fitted = hasattr(self, "model_")
    return hasattr(self.model_.estimators[0] if fitted else self.estimator, "predict_proba")


class AdaptiveCostClassifier(MetaEstimatorMixin, Method):
    """Make any scikit-learn classifier minimise cost: its sample weights follow the validation cost (AdaCSL).

    Each round trains with the negatives (of K classes, each class) weighted by the controller, measures held-out rows
    and corrects the weight; the cheapest round is kept.

    Parameters
    ----------
    estimator : classifier
        Anything with ``sample_weight`` in ``fit`` or ``partial_fit``, also a ``Pipeline`` whose last step has it. With
        ``predict_proba``, or ``decision_function`` alone (then :meth:`predict_proba` is missing here too).
    costs : CostMatrix, optional
        What the errors cost, of two classes or K x K. Default: the inverse class frequencies
        (``CostMatrix.balanced(y)``).
    training, rounds, patience, every, weight_name
        See :class:`~adacsl.learners.sklearn.Model`.
    controller : "auto", dict or AdaptiveWeight
        As for the tables of :class:`AdaCSLClassifier` the exact odds update at half speed.
    target, decide, select, cv, validation, positive, random_state, policy
        As for every :class:`Method`; with ``cv`` there is one controller for all folds.

    Attributes
    ----------
    estimators_ : list
        The kept models, one per fold; they know the classes 0 and 1 (positive), or 0 to K - 1 in the order of
        ``classes_``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from adacsl import CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> clf = AdaptiveCostClassifier(model, CostMatrix(fp=1, fn=8), cv=5, random_state=0).fit(X, 1 - y)
    >>> clf.predict(X[:3]).tolist()
    [1, 1, 1]
    """

    loss = "weighted"
    resample = None
    device = "cpu"
    resume = None
    verbose = False

    @keeps_settings
    def __init__(
        self,
        estimator: Any,
        costs: CostMatrix | None = None,
        *,
        training: str = "auto",
        rounds: int | str = "auto",
        patience: int | None = 10,
        every: int = 1,
        weight_name: str | None = None,
        controller: Any = "auto",
        target: float | str | None = None,
        decide: str = "bayes",
        select: str = "best",
        cv: Any = None,
        validation: Any = 0.2,
        positive: Any = None,
        random_state: Any = None,
        policy: Policy | None = None,
    ) -> None:
        """Keep the settings."""

    def make_learner(self) -> Any:
        """Return the estimator as a learner."""
        names = ("training", "rounds", "patience", "every", "weight_name")
        settings = {name: getattr(self, name) for name in names}
        model = resolve("adacsl.learners.sklearn:Model")(self.estimator, **settings, encode=False)
        model.check()
        model.kind_of_training  # noqa: B018  says so where the estimator cannot be steered
        return model

    encodes = False

    @property
    def estimators_(self) -> list[Any]:
        """The kept models."""
        return list(self.model_.estimators)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return probabilities, corrected for the cost weighting; columns in the order of ``classes_``."""
        return super().predict_proba(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:  # what was loaded has no untrained one
            tags.input_tags = copy.deepcopy(get_tags(self.estimator).input_tags)
        return tags


def learner_from(kind: Any, given: Any, name: str) -> Any:
    """Return the settings of a learner from a dict of them, from itself, or from nothing."""
    if given is None:
        return kind()
    if isinstance(given, kind):
        return given
    if not isinstance(given, dict):
        raise TypeError(f"{name} must be a dict of settings or {kind.__name__}(...), got {given!r}")
    known = list(kind().get_params())
    if unknown := [key for key in given if key not in known]:
        raise ValueError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    return kind(**given)
