"""The boosting learner: settings of gradient boosting with XGBoost, LightGBM or CatBoost.

Settings alone: what trains is imported when a booster is fitted.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

from adacsl.adaptive.controller import check_targets
from adacsl.base.arrays import check_whole
from adacsl.base.extras import requires
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.settings import keeps_settings
from adacsl.learners.boosting_libraries import LIBRARIES, installed_library, load_libraries

with requires("sklearn"):
    from sklearn.base import BaseEstimator


class BoostingLearner(BaseEstimator):
    """Settings of gradient boosting with XGBoost, LightGBM or CatBoost.

    Without a controller and without cross-fitting, held-out samples (five folds of at most 10,000 samples, one split of
    more) choose the number of rounds, and a model with that many rounds is trained on all samples.

    Parameters
    ----------
    library : {"auto", "xgboost", "lightgbm", "catboost"}, default "auto"
        The library; each is an extra, ``pip install 'adacsl[xgboost]'``. "auto": the first that is installed.
    n_estimators : int, default 1000
        Trees at most.
    learning_rate : float, default 0.05
        Learning rate.
    patience : int or None, default 50
        Stop after so many rounds without a better one: of lower cost with a controller, else of lower log loss. None:
        no early stopping.
    every : int, default 1
        Adapt after every so many rounds.
    params : dict, optional
        The library's own parameters, such as ``{"max_depth": 4, "nthread": 2}``; they override the above.

    Raises
    ------
    ValueError
        In ``fit``, where a setting is out of range.
    ImportError
        In ``fit``, where the library is not installed.

    Examples
    --------
    >>> from adacsl import CostMatrix, CostSensitiveClassifier
    >>> from adacsl.learners import BoostingLearner
    >>> learner = BoostingLearner("xgboost", n_estimators=200, params={"max_depth": 4})
    >>> model = CostSensitiveClassifier(CostMatrix(fp=1, fn=8), learner=learner)
    >>> model.get_params()["learner__n_estimators"]
    200
    """

    tables_only = True
    trained_by = "adacsl.learners.boosting_fit:fit_boosters"

    @keeps_settings
    def __init__(
        self,
        library: str = "auto",
        *,
        n_estimators: int = 1000,
        learning_rate: float = 0.05,
        patience: int | None = 50,
        every: int = 1,
        params: dict[str, Any] | None = None,
    ) -> None:
        """Keep the settings."""

    def check(self) -> None:
        """Refuse settings that make no sense."""
        if self.library not in (*LIBRARIES, "auto"):
            raise ValueError(f"library must be one of {', '.join(map(repr, LIBRARIES))}, got {self.library!r}")
        check_whole("n_estimators", self.n_estimators)
        check_whole("every", self.every)
        check_whole("patience", self.patience, other=[None])
        if not isinstance(self.learning_rate, Real) or not 0.0 < float(self.learning_rate) <= 1.0:
            raise ValueError(f"learning_rate must be a number above 0 and at most 1, got {self.learning_rate!r}")
        if not (self.params is None or isinstance(self.params, dict)):
            raise TypeError(f"params must be a dict of the library's own parameters, got {self.params!r}")

    def adapts(self, candidate: Candidate) -> bool:
        """Return whether "auto" adapts: unless T' is the Bayes threshold, where the plain booster did as well."""
        bayes = check_targets("bayes", candidate.class_costs)
        return not (isinstance(candidate.method.controller, str) and candidate.target_threshold == bayes)

    def load_library(self) -> None:
        """Import the library: a limit of threads does not hold for libraries that are imported under it."""
        load_libraries([self])

    @property
    def chosen_library(self) -> str:
        """The library's name."""
        return (installed_library() or LIBRARIES[0]) if self.library == "auto" else str(self.library)
