"""Methods compared at decisions that meet constraints; those that cannot are named, not compared."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, compare, load_comparison
from adacsl.comparison.result import NoResultError

COSTS = CostMatrix(fp=1, fn=2)
FLOOR = {"min_recall": 0.9}


def drawn(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X @ [2.0, -1.5, 0.5] + rng.logistic(size=n) > 1.0).astype(int)


def compared(constraints, methods, folder=None, **options):
    X, y = drawn()
    return compare(
        X, y, COSTS, methods=methods, repeats=1, folds=2, n_jobs=1, progress=False, constraints=constraints,
        folder=folder, **options,
    )  # fmt: skip


METHODS = [
    ("regression", LogisticRegression()),
    ("blind", CostSensitiveClassifier(learner=DummyClassifier(), decide="bayes")),
]


@pytest.mark.filterwarnings("ignore:.* is not feasible")
def test_an_infeasible_method_is_named_and_the_others_meet_the_floor(tmp_path):
    limits = FLOOR | {"max_fpr": 0.6}
    result = compared(limits, [*METHODS, "always-positive"], tmp_path / "run")
    free = compared(None, METHODS)
    assert list(result.table["method"]) == ["regression"]
    assert set(free.table["method"]) == {"regression", "blind"}
    outcome = result.outcome("regression")
    recall = outcome.decisions[outcome.labels == 1].mean()
    assert recall > 0.88
    assert outcome.decisions[outcome.labels == 0].mean() < 0.6
    assert recall > free.outcome("regression").decisions[free.outcome("regression").labels == 1].mean()
    missing = {each.method: str(each) for each in result.missing}
    assert missing["blind"].startswith("blind is not feasible in 2 of 2 folds (no threshold meets min_recall=0.9 and")
    assert "predicting positive for every sample violates min_recall=0.9 and max_fpr=0.6" in missing["always-positive"]
    assert result.recommendations[("data", 2.0)].recommended == "regression"
    assert "not feasible" in result.recommendation
    # what is fitted on all samples has the same constraints, also from the folder
    model = result.fit(*drawn())
    assert model.constraints == limits | {"confidence": 0.95}
    assert model.constraints_["min_recall"].guaranteed >= 0.9
    again = load_comparison(tmp_path / "run")
    assert list(again.table["method"]) == ["regression"]
    assert result.report(tmp_path / "report.html").exists()


def test_no_method_meets_the_constraints():
    with pytest.raises(NoResultError, match="no method meets the constraints: no threshold meets"):
        compared(FLOOR | {"max_fpr": 0.05}, ["always-negative", METHODS[0]])


def test_one_training_serves_methods_with_and_without_a_threshold():
    result = compared(
        FLOOR | {"confidence": None}, ["logistic", "always-positive", "gbm-bayes"], groups=np.arange(5000) // 2
    )
    assert set(result.table["method"]) == {"logistic", "always-positive", "gbm-bayes"}


def test_what_does_not_go_together():
    X, y = drawn(300)
    with pytest.raises(ValueError, match="leave out groups of data"):
        compare(X, y, COSTS, constraints=FLOOR, groups=np.arange(300), progress=False)
    with pytest.raises(ValueError, match="constraints are for two classes, data has 3"):
        compare(X, np.arange(300) % 3, "balanced", constraints=FLOOR, progress=False)
    with pytest.raises(ValueError, match="segments are the values of a column of X, and X has no column 'region'"):
        compared(FLOOR | {"segments": "region"}, ["logistic"])
    with pytest.raises(ValueError, match="certify must be a share"):
        compare(X, y, COSTS, constraints=FLOOR, certify=0, progress=False)
    with pytest.raises(ValueError, match="constraints are min_recall"):
        compare(X, y, COSTS, constraints={"recall": 0.9}, progress=False)
