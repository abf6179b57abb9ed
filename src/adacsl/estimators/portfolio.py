"""The portfolio as a classifier."""

from __future__ import annotations

from typing import Any

from adacsl.core.costs import CostMatrix
from adacsl.estimators.classifiers import make_learner
from adacsl.estimators.learners.portfolio import Portfolio
from adacsl.estimators.method import Method
from adacsl.estimators.policy import Policy
from adacsl.estimators.settings import keeps_settings
from adacsl.extras import requires


class PortfolioClassifier(Method):
    """The cheapest decision-maker there is: boosters, nets and a linear model, cross-fitted and stacked.

    Every member is trained on the same folds; a logistic regression of the members' log-odds of the rows they did not
    train on weighs them; its probabilities are decided at the Bayes threshold of the costs, each row's own where rows
    have costs. More than two classes share the weights, each class has an intercept, and the decision is the class of
    least expected cost. Members are chosen by **log loss**, weighed halfway between log loss and cost, and decided by
    **cost**: choosing by cost overfits.

    Parameters
    ----------
    costs : CostMatrix, optional
        What the errors cost, of two classes or K x K. Default: the inverse class frequencies
        (``CostMatrix.balanced(y)``).
    members : "auto" or list
        Who takes part: names (``adacsl.estimators.members.MEMBERS``, or of the table of methods), any
        :class:`Method`, any scikit-learn classifier, or pairs of a name and one of these. "auto": all that is
        installed, quickest first. A member that fails is left out, and a warning says why.
    cv : int or splitter, default 5
        The folds; a class with fewer rows gets fewer. None: one split, of which ``validation`` is held out.
    budget : float or str, optional
        Seconds, or a text such as "60s" or "5min": members are begun as long as they will be done in time.
    strength : float or "auto"
        How far weights may leave equality; "auto" is chosen by inner folds.
    net : dict or Net, optional
        Settings of the nets among the members, such as ``{"weights": ..., "epochs": 30}`` for images.
    distil : bool, "boosting" or "net"
        Fit one small ``student_`` as well, a booster (True: for tables) or a net (for images), on what the stack says,
        for those who must ship a single model; it is a :class:`Method` of its own with its ``estimated_cost_``.
    n_jobs : int or "auto"
        Processes that fit members; each has its share of the cores. "auto": one per core; for few rows, and for images,
        this one alone.
    trainer : dict, optional
        Where members are fitted, and how many at once: ``{"engine": "ray", "address": "auto", "workers": 8}`` are tasks
        of a Ray cluster (without an address: of one on this machine), a fold each where folds know nothing of each
        other; ``{"workers": 2}`` is ``n_jobs=2``. The result is the same.
    decide, validation, positive, device, random_state, verbose, policy
        As for every :class:`Method`.
    resume : path, optional
        Folder in which finished members are kept: a fit that was killed, started again with the same data and
        settings, goes on.

    Attributes
    ----------
    leaderboard_ : pandas.DataFrame
        Of each member its held-out cost, log loss, weight in the stack, the stack's cost ``without`` it, and seconds;
        at the end those that are left out, and why.
    estimated_cost_ : Interval
        Of the stack, from rows that neither the members nor the stack were fitted on. It speaks of the models of single
        folds, whose average is about 1 % cheaper. The 95 % interval is an eighth wider than a bootstrap of the rows,
        which knows nothing of the luck of the training rows.
    members_ : dict
        The fitted models by name; each gives ``logits(X)``.
    student_ : Method
        With ``distil``: one model that learned what the stack says; its cost is measured on the fifth of the rows it
        did not train on.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from adacsl import CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = PortfolioClassifier(CostMatrix(fp=1, fn=8), members=["logistic", "histogram"], n_jobs=1, random_state=0)
    >>> clf.fit(X, 1 - y).predict(X[:3]).tolist()
    [1, 1, 1]
    """

    loss = "plain"
    resample = None
    controller = None
    target = 0.5
    select = "best"

    @keeps_settings
    def __init__(
        self,
        costs: CostMatrix | None = None,
        *,
        members: Any = "auto",
        cv: Any = 5,
        budget: float | str | None = None,
        strength: float | str = "auto",
        net: Any = None,
        distil: bool | str = False,
        n_jobs: int | str = "auto",
        trainer: dict[str, Any] | None = None,
        decide: str = "bayes",
        validation: Any = 0.2,
        positive: Any = None,
        device: str = "auto",
        resume: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        policy: Policy | None = None,
    ) -> None:
        """Keep the settings."""

    def _make_learner(self) -> Any:
        return Portfolio(
            self.members, budget=self.budget, strength=self.strength, net=_as_net(self.net), distil=self.distil,
            n_jobs=self.n_jobs, trainer=self.trainer,
        )  # fmt: skip

    @property
    def learner(self) -> Any:
        """The settings as every method has them, by which a comparison tells what it has to do with."""
        return self._make_learner()

    @property
    def members_(self) -> dict[str, Any]:
        """The fitted models by name."""
        return dict(zip(self.model_.names, self.model_.models, strict=True))


def _as_net(given: Any) -> Any:
    if given is None:
        return None
    with requires("train"):
        from adacsl.estimators.learners.net import Net  # noqa: PLC0415  torch

    return make_learner(Net, given, "net")
