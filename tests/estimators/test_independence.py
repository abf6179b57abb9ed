"""A method's result depends on its own rows, seed and settings: alone, in company or resumed, bit for bit (CPU).

Scores of a comparison are kept as float32; the estimators' own are compared after the same rounding.
"""

from pathlib import Path

import numpy as np
import pytest

from adacsl import METHODS, AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, Task, method
from adacsl.comparison.jobs import plan_jobs, run_jobs
from adacsl.comparison.protocol import Protocol, choose_ratios, split_rows
from adacsl.comparison.store import Store
from adacsl.estimators.registry import choose_methods
from adacsl.neural.learner import NeuralLearner

COSTS = CostMatrix(fp=1, fn=6)
EPOCHS, SEED = 4, 3
ALIKE = {"logistic-weighted", "net-tuned-last", "xgboost", "lightgbm", "catboost", "net-weighted-cv", "gbm-tuned"}
"""Put together from parts that others here have too."""
NAMES = [name for name in METHODS if name not in ALIKE]
SHARE = 0.15 / (1.0 - 0.20)
"""The validation share of what a comparison leaves beside its test rows."""


@pytest.fixture(scope="module")
def tables(load_module):
    result = load_module(Path(__file__).parents[1] / "pins" / "tables.py").tables()
    return {name: result[name] for name in ("wine", "mixed")}


@pytest.fixture(scope="module", autouse=True)
def quick_ensemble():
    """Let the ensemble of the table have two members: what holds for them holds for more."""
    title, settings = METHODS["ensemble"]
    with pytest.MonkeyPatch.context() as patch:
        small = {"estimators": ["logistic", "net"], "n_jobs": 1, "neural": NeuralLearner(epochs=EPOCHS)}
        patch.setitem(METHODS, "ensemble", (title, {**settings, **small}))
        yield


def run(table, name, folder, methods=None, ratios=None):
    """Run methods on one random split, in company; return the results by cell."""
    task, chosen = Task.from_data(*table, COSTS, name=name), choose_methods(methods or NAMES)
    conditions = Protocol(neural=NeuralLearner(epochs=EPOCHS), device="cpu")
    jobs = plan_jobs([task], {name: chosen}, {name: choose_ratios(COSTS, ratios)}, [SEED], conditions)
    with Store.open(folder, {"data": {name: {"digest": task.digest}}}) as store:
        run_jobs(jobs, store, {name: task}, n_jobs=1)
        return {cell: store.read(cell) for job in jobs for cell in job.fits}


@pytest.fixture(scope="module")
def together(tables, tmp_path_factory):
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


@pytest.mark.parametrize("name", NAMES)
def test_alone_is_as_in_company(name, tables, together, tmp_path):
    for data, table in tables.items():
        alone = run(table, data, tmp_path / data, [name])
        assert [cell.method for cell in alone] == [name]
        for cell, result in alone.items():
            assert_same(result, together[data][cell])


def test_company_of_another_kind_changes_nothing(tables, together, tmp_path):
    # other ratios train beside it, and the names come in another order
    result = run(
        tables["mixed"], "mixed", tmp_path / "run", ["net-smote", "net-weighted", "adacsl", "net"], ratios=[20, "1x"]
    )
    for cell in result:
        if cell.ratio == 6.0:
            assert_same(result[cell], together["mixed"][cell])


@pytest.mark.parametrize("data", ["wine", "mixed"])
def test_resumed_is_as_in_one_go(data, tables, together, tmp_path):
    first = run(tables[data], data, tmp_path / "run", NAMES[::2])
    resumed = run(tables[data], data, tmp_path / "run")
    assert set(first) < set(resumed) == set(together[data])
    for cell, result in resumed.items():
        assert_same(result, together[data][cell])
    # what was there has not been computed again
    assert all(resumed[cell].provenance == result.provenance for cell, result in first.items())


# the same through the estimators


def fitted_like(estimator, name, data, tables, together):
    """Return an estimator fitted on the rows the comparison left beside its test rows; these; and its result."""
    X, y = tables[data]
    rest, test = split_rows(Task.from_data(X, y, COSTS), 0.2, SEED)
    cell = next(cell for cell in together[data] if cell.method == name)
    return estimator.fit(X.iloc[rest], y[rest]), X.iloc[test], together[data][cell]


def assert_gives(clf, rows, result):
    scores = clf.predict_proba(rows)[:, 1].astype(np.float32)
    np.testing.assert_array_equal(scores, result.scores)
    np.testing.assert_array_equal(clf.predict(rows) == 1, result.decisions)


@pytest.mark.parametrize("data", ["wine", "mixed"])
@pytest.mark.parametrize("name", NAMES)
def test_a_method_gives_the_scores_of_the_comparison(name, data, tables, together):
    if (name, data) == ("metacost", "mixed"):
        pytest.skip("sixty boosters: one table is enough")
    made = method(name, COSTS, random_state=SEED, validation=SHARE, device="cpu")
    if made.learner == "net":
        made.set_params(learner=NeuralLearner(epochs=EPOCHS))
    assert_gives(*fitted_like(made, name, data, tables, together))


@pytest.mark.parametrize("data", ["wine", "mixed"])
def test_adacsl_cv_is_the_classifier(data, tables, together):
    clf = AdaCSLClassifier(COSTS, cv=5, random_state=SEED, learner=NeuralLearner(epochs=EPOCHS), device="cpu")
    assert_gives(*fitted_like(clf, "adacsl-cv", data, tables, together))


@pytest.mark.parametrize("data", ["wine", "mixed"])
def test_gbm_bayes_is_the_booster(data, tables, together):
    pytest.importorskip("xgboost")
    clf = CostSensitiveClassifier(COSTS, learner="boosting", select="log-loss", validation=SHARE, random_state=SEED)
    assert_gives(*fitted_like(clf, "gbm-bayes", data, tables, together))
