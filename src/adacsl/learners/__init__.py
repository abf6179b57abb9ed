"""Learners: gradient boosting, scikit-learn estimators, MetaCost, constants."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.learners.boosting import BoostingLearner
    from adacsl.learners.sklearn import SklearnLearner

_PLACES = {
    "BoostingLearner": "adacsl.learners.boosting",
    "SklearnLearner": "adacsl.learners.sklearn",
}

__all__ = [
    "BoostingLearner",
    "SklearnLearner",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "sklearn")
