"""A method's result depends on its own samples, seed and settings: alone, beside others or resumed, bit for bit (CPU).

Scores of a comparison are stored as float32; the estimators' own are compared after the same rounding.
"""

from pathlib import Path

import numpy as np
import pytest

from adacsl import METHODS, CostMatrix, Task, method
from adacsl.comparison.jobs import plan_jobs, run_jobs
from adacsl.comparison.protocol import Protocol, choose_ratios, split_rows
from adacsl.comparison.store import Store
from adacsl.estimators.registry import choose_methods
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=6)
EPOCHS, SEED = 4, 3
ALIKE = {"logistic-weighted", "net-tuned-last", "xgboost", "lightgbm", "catboost", "net-weighted-cv", "gbm-tuned"}
"""Composed of parts that others here have too."""
NAMES = [name for name in METHODS if name not in ALIKE]


@pytest.fixture(scope="module")
def tables(load_module):
    result = load_module(Path(__file__).parents[1] / "pins" / "tables.py").tables()
    return {name: result[name] for name in ("wine", "mixed")}


@pytest.fixture(scope="module", autouse=True)
def quick_ensemble():
    """Let the ensemble of the table have two base estimators: what holds for them holds for more."""
    title, settings = METHODS["ensemble"]
    with pytest.MonkeyPatch.context() as patch:
        small = {"estimators": ["logistic", "net"], "n_jobs": 1, "neural": NeuralLearner(epochs=EPOCHS)}
        patch.setitem(METHODS, "ensemble", (title, {**settings, **small}))
        yield


def run(table, name, folder, methods=None, ratios=None):
    """Run methods on one random split, side by side; return the results by fit."""
    task, chosen = Task.from_data(*table, COSTS, name=name), choose_methods(methods or NAMES)
    conditions = Protocol(neural=NeuralLearner(epochs=EPOCHS), device="cpu")
    jobs = plan_jobs([task], {name: chosen}, {name: choose_ratios(COSTS, ratios)}, [SEED], conditions)
    with Store.open(folder, {"data": {name: {"digest": task.digest}}}) as store:
        run_jobs(jobs, store, {name: task}, n_jobs=1)
        return {fit: store.read(fit) for job in jobs for fit in job.fits}


@pytest.fixture(scope="module")
def joint(tables, tmp_path_factory):
    return {name: run(table, name, tmp_path_factory.mktemp("runs") / name) for name, table in tables.items()}


def assert_same(mine, theirs):
    assert mine.scores.dtype == np.float32
    np.testing.assert_array_equal(mine.scores, theirs.scores)
    np.testing.assert_array_equal(mine.decisions, theirs.decisions)
    assert mine.threshold == theirs.threshold
    assert mine.metrics.keys() == theirs.metrics.keys()
    for name, value in mine.metrics.items():
        np.testing.assert_equal(value, theirs.metrics[name], err_msg=name)
    assert mine.history == theirs.history


DATA = {name: ("wine", "mixed")[i % 2] for i, name in enumerate(NAMES)}
"""Each method on one of the tables."""


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_alone_equals_that_beside_others(name, tables, joint, tmp_path):
    data = DATA[name]
    alone = run(tables[data], data, tmp_path / data, [name])
    assert [fit.method for fit in alone] == [name]
    for fit, result in alone.items():
        assert_same(result, joint[data][fit])


def test_other_ratios_and_another_order_change_nothing(tables, joint, tmp_path):
    names = ["net-smote", "net-weighted", "adacsl", "net"]
    result = run(tables["mixed"], "mixed", tmp_path / "run", names, ratios=[20, "1x"])
    for fit in result:
        if fit.ratio == 6.0:
            assert_same(result[fit], joint["mixed"][fit])


def test_a_resumed_comparison_equals_an_uninterrupted_one(tables, joint, tmp_path):
    first = run(tables["mixed"], "mixed", tmp_path / "run", NAMES[::2])
    resumed = run(tables["mixed"], "mixed", tmp_path / "run")
    assert set(first) < set(resumed) == set(joint["mixed"])
    for fit, result in resumed.items():
        assert_same(result, joint["mixed"][fit])
    # results that were there have not been computed again
    assert all(resumed[fit].provenance == result.provenance for fit, result in first.items())


# the same through the estimators


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_gives_the_scores_of_the_comparison(name, tables, joint):
    data = "wine" if name == "metacost" else ("mixed", "wine")[DATA[name] == "mixed"]  # the other table
    # fitted on what the comparison leaves beside its test samples, with the same share of it for validation
    made = method(name, COSTS, random_state=SEED, validation=0.15 / (1.0 - 0.20), device="cpu")
    if made.learner == "net":
        made.set_params(learner=NeuralLearner(epochs=EPOCHS))
    X, y = tables[data]
    rest, test = split_rows(Task.from_data(X, y, COSTS), 0.2, SEED)
    made.fit(X.iloc[rest], y[rest])
    result = next(result for fit, result in joint[data].items() if fit.method == name)
    np.testing.assert_array_equal(made.predict_proba(X.iloc[test])[:, 1].astype(np.float32), result.scores)
    np.testing.assert_array_equal(made.predict(X.iloc[test]) == 1, result.decisions)
