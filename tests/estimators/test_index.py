"""What belongs to each sample is matched by position: an index of X in another order is refused, never ignored."""

import numpy as np
import pandas as pd
import pytest

from adacsl import CostMatrix, CostModel, CostSensitiveClassifier, check, compare, monitor
from adacsl.base import arrays
from adacsl.integrations.sklearn import mean_cost
from tests.made import logistic

N = 200
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=list("abc"), index=RNG.permutation(1000)[:N])
Y = (X["a"] + 0.5 * pd.Series(RNG.normal(size=N), X.index) > 0.8).astype(int)
WEIGHT, GROUPS = pd.Series(RNG.uniform(1, 2, N), X.index), pd.Series(np.arange(N) // 2, X.index)
AMOUNT, TIME = pd.Series(RNG.lognormal(1, 1, N), X.index), pd.Series(np.arange(N), X.index)
COSTS = CostMatrix(fp=1, fn=3)


def shuffled(values):
    return values.sample(frac=1, random_state=0)


def method():
    return logistic(COSTS)


def reading(call, **given):
    """Call with everything in the order of X, and with one thing after another in another order."""
    call(**given)
    for name, values in given.items():
        with pytest.raises(
            ValueError, match=rf"the index of {name} is that of X in another order.*{name}\.loc\[X\.index\]"
        ):
            call(**given | {name: shuffled(values)})


def test_fit():
    reading(lambda y, **given: method().fit(X, y, **given), y=Y, sample_weight=WEIGHT, groups=GROUPS, fn=AMOUNT)
    reading(lambda y, **given: method().fit(X, y, **given), y=Y, time=TIME, fp=AMOUNT)


def test_a_fitted_model():
    model = method().fit(X, Y)
    reading(lambda **given: model.predict(X, **given), fn=AMOUNT)
    reading(lambda **given: model.decisions(X, **given), fn=AMOUNT)
    reading(lambda y, **given: model.score(X, y, **given), y=Y, sample_weight=WEIGHT, fn=AMOUNT)
    reading(
        lambda y, **given: model.permutation_cost(X, y, repeats=1, **given),
        y=Y, sample_weight=WEIGHT, groups=GROUPS, fn=AMOUNT,
    )  # fmt: skip
    reading(lambda y, **given: model.retune(X, y, **given), y=Y, groups=GROUPS, fn=AMOUNT)
    reading(lambda y, **given: monitor(model, X, y, **given), y=Y, groups=GROUPS, time=TIME, fn=AMOUNT)


def test_check_and_compare():
    reading(lambda y, **given: check(X, y, COSTS, **given), y=Y, groups=GROUPS, time=TIME)
    reading(lambda fn: check(X, Y, {"fp": 1, "fn": fn}), fn=AMOUNT)
    run = {"methods": ["always-negative"], "repeats": 1, "folds": 2, "n_jobs": 1, "progress": False}
    reading(
        lambda y, **given: compare(X, y, COSTS, **given, **run),
        y=Y, sample_weight=WEIGHT, groups=GROUPS, fn=AMOUNT, baseline=Y,
    )  # fmt: skip
    with pytest.raises(ValueError, match="the index of region is that of X in another order"):
        compare(X, Y, COSTS, segments={"region": shuffled(GROUPS)}, **run)


def test_validation_data_and_predicted_costs():
    separate = CostSensitiveClassifier(COSTS, learner="xgboost", validation=(X, shuffled(Y)), random_state=0)
    with pytest.raises(ValueError, match="the index of the y of validation is that of X in another order"):
        separate.fit(X, Y)
    table = X.assign(amount=AMOUNT)
    reading(lambda **given: CostModel("amount").fit(table, **given), sample_weight=WEIGHT, groups=GROUPS)


def test_without_an_index_of_x_the_labels_have_the_order():
    with pytest.raises(ValueError, match="the index of sample_weight is that of y in another order"):
        method().fit(X.to_numpy(), Y, sample_weight=shuffled(WEIGHT))
    with pytest.raises(ValueError, match="the index of y_pred is that of y_true in another order"):
        mean_cost(Y, shuffled(Y), costs=COSTS)


def test_other_indices_are_taken_by_position():
    other = Y.reset_index(drop=True)
    expected = method().fit(X, Y.to_numpy()).predict(X)
    for labels in (Y, other, other.set_axis([f"r{i}" for i in range(N)]), Y.tolist()):
        assert (method().fit(X, labels).predict(X) == expected).all()
    arrays.refuse_reordered(pd.DataFrame({"a": [1, 2, 3]}, index=[0, 0, 1]), y=pd.Series([1, 2, 3], index=[0, 1, 1]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([0, 0, 1], [0, 1, 0]),
        (["a", None, "b"], [None, "a", "b"]),
        (
            pd.MultiIndex.from_tuples([(0, "a"), (0, "b"), (1, "a")]),
            pd.MultiIndex.from_tuples([(1, "a"), (0, "b"), (0, "a")]),
        ),
        (pd.date_range("2026-01-01", periods=3), pd.date_range("2026-01-01", periods=3)[::-1]),
        (pd.Index([1, 2, 3]), pd.Index([3, 2, 1])),
    ],
)
def test_any_index(one, other):
    with pytest.raises(ValueError, match="in another order"):
        arrays.refuse_reordered(pd.DataFrame({"a": [1, 2, 3]}, index=one), y=pd.Series([1, 2, 3], index=other))
