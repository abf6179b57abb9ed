"""A method's result depends on its own rows, seed and settings: alone, in company or resumed, bit for bit (CPU).

Scores of a comparison are kept as float32; the estimators' own are compared after the same rounding.
"""

from pathlib import Path

import numpy as np
import pytest

from adacsl import METHODS, AdaCSLBoostingClassifier, AdaCSLClassifier, CostMatrix, compare, method
from adacsl.estimators.learners.nets import Net
from adacsl.estimators.learners.portfolio import Portfolio

pytestmark = pytest.mark.filterwarnings("ignore:rows of mixed have dates")  # split by chance on purpose
COSTS = CostMatrix(fp=1, fn=6)
EPOCHS, SEED = 4, 3
ALIKE = {"logistic-weighted", "ce-tuned-last", "xgboost", "lightgbm", "catboost", "wce-cv", "gbm-tuned"}
"""Put together from parts that others here have too."""
NAMES = [name for name in METHODS if name not in ALIKE]
SHARE = 0.15 / (1.0 - 0.20)
"""The validation share of what a comparison leaves beside its test rows."""


@pytest.fixture(scope="module")
def tables(load_module):
    found = load_module(Path(__file__).parents[1] / "pins" / "tables.py").tables()
    return {name: found[name] for name in ("wine", "mixed")}


@pytest.fixture(scope="module", autouse=True)
def quick_portfolio():
    """Let the portfolio of the table have two members: what holds for them holds for more."""
    title, settings = METHODS["portfolio"]
    with pytest.MonkeyPatch.context() as patch:
        small = Portfolio(["logistic", "nets"], n_jobs=1, net=Net(epochs=EPOCHS))
        patch.setitem(METHODS, "portfolio", (title, {**settings, "learner": small}))
        yield


def run(table, name, methods=None, **options):
    return compare(
        *table, COSTS, methods=methods or NAMES, seeds=[SEED], name=name, net={"epochs": EPOCHS}, workers=1,
        device="cpu", progress=False, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def together(tables):
    return {name: run(table, name) for name, table in tables.items()}


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
def test_alone_is_as_in_company(name, tables, together):
    for data, table in tables.items():
        alone = run(table, data, [name])
        assert [cell.method for cell in alone.cells] == [name]
        for cell, found in alone.cells.items():
            assert_same(found, together[data].cells[cell])


def test_company_of_another_kind_changes_nothing(tables, together):
    # other ratios train beside it, and the names come in another order
    found = run(tables["mixed"], "mixed", ["smote", "wce", "adacsl", "ce"], ratios=[20, "1x"])
    for cell in found.cells:
        if cell.ratio == 6.0:
            assert_same(found.cells[cell], together["mixed"].cells[cell])


@pytest.mark.parametrize("data", ["wine", "mixed"])
def test_resumed_is_as_in_one_go(data, tables, together, tmp_path):
    first = run(tables[data], data, NAMES[::2], folder=tmp_path / "run")
    resumed = run(tables[data], data, folder=tmp_path / "run")
    assert set(first.cells) < set(resumed.cells) == set(together[data].cells)
    for cell, found in resumed.cells.items():
        assert_same(found, together[data].cells[cell])
    # what was there has not been computed again
    assert all(resumed.cells[cell].provenance == found.provenance for cell, found in first.cells.items())


# the same through the estimators


def fitted_like(estimator, name, data, tables, together):
    """Return an estimator fitted on the rows the comparison left beside its test rows; these; and its result."""
    X, y = tables[data]
    test = together[data].splits[(data, SEED)].test_rows
    rest = np.setdiff1d(np.arange(len(y)), test)
    cell = next(cell for cell in together[data].cells if cell.method == name)
    return estimator.fit(X.iloc[rest], y[rest]), X.iloc[test], together[data].cells[cell]


def assert_gives(clf, rows, found):
    scores = clf.predict_proba(rows)[:, 1].astype(np.float32)
    np.testing.assert_array_equal(scores, found.scores)
    np.testing.assert_array_equal(clf.predict(rows) == 1, found.decisions)


@pytest.mark.parametrize("data", ["wine", "mixed"])
@pytest.mark.parametrize("name", NAMES)
def test_a_method_gives_the_scores_of_the_comparison(name, data, tables, together):
    if (name, data) == ("metacost", "mixed"):
        pytest.skip("sixty boosters: one table is enough")
    made = method(name, COSTS, random_state=SEED, validation=SHARE, device="cpu")
    if made.learner == "net":
        made.set_params(learner=Net(epochs=EPOCHS))
    assert_gives(*fitted_like(made, name, data, tables, together))


@pytest.mark.parametrize("data", ["wine", "mixed"])
def test_adacsl_cv_is_the_classifier(data, tables, together):
    clf = AdaCSLClassifier(COSTS, cv=5, random_state=SEED, net={"epochs": EPOCHS}, device="cpu")
    assert_gives(*fitted_like(clf, "adacsl-cv", data, tables, together))


@pytest.mark.parametrize("data", ["wine", "mixed"])
def test_gbm_bayes_is_the_booster(data, tables, together):
    pytest.importorskip("xgboost")
    clf = AdaCSLBoostingClassifier(COSTS, engine="auto", select="log-loss", validation=SHARE, random_state=SEED)
    assert_gives(*fitted_like(clf, "gbm-bayes", data, tables, together))
