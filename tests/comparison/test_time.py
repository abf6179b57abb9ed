"""Comparisons of rows with a time: rolling windows, and what is said about them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from adacsl import CostMatrix, CostSensitiveClassifier, Task, compare, load_comparison
from adacsl.comparison.compare import compare_tasks
from adacsl.comparison.protocol import Protocol
from adacsl.comparison.result import NoResultError
from adacsl.comparison.store import StoreError
from adacsl.neural.learner import NeuralLearner

QUICK = {"n_jobs": 1, "progress": False, "neural": NeuralLearner(epochs=2), "device": "cpu"}
COSTS = CostMatrix(fp=1, fn=5)
DAY = np.timedelta64(1, "D")


def table(n=400, seed=0):
    """Loans of 200 days, in no order."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    y = np.where(x[:, 0] + rng.normal(size=n) > 0.8, "bad", "good")
    when = np.datetime64("2024-01-01") + (rng.permutation(n) // 2) * DAY
    return pd.DataFrame(x, columns=["a", "b", "c"]).assign(when=when), y


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    x, y = table()
    methods = [
        "always-positive",
        "net",
        "gbm-bayes",
        ("mine", CostSensitiveClassifier(learner=LogisticRegression(), cv=3)),
    ]
    folder = tmp_path_factory.mktemp("runs") / "one"
    return compare(
        x, y, COSTS, pos_label="bad", time="when", gap="2d", label_delay="5d", methods=methods, folds=3,
        folder=folder, **QUICK,
    )  # fmt: skip


def test_windows_lie_one_after_another_and_the_latest_is_number_0(found):
    x, y = table()
    assert len(found.failures) == 0
    tested = [np.asarray(found.splits["data", seed].test_rows) for seed in range(3)]
    assert sum(map(len, tested)) == pytest.approx(0.2 * len(y), abs=2)
    when = x["when"].to_numpy()
    assert when[tested[0]].max() == when.max()
    for later, earlier in ((0, 1), (1, 2)):
        assert when[tested[later]].min() - when[tested[earlier]].max() == DAY
    # six days before each window teach nothing: five of label_delay, and of equality
    n_train = found.results.groupby("seed")["n_train"].first()
    for seed in range(3):
        assert n_train[seed] == (when + 5 * DAY < when[tested[seed]].min()).sum()


def test_what_is_reported_about_the_windows(found):
    said = found.windows["data"][0]
    assert said.startswith("trained on rows until 2024-0")
    assert "tested on 2024-07-06 to 2024-07-18" in said
    assert "rows excluded for gap and label_delay" in said
    facts = found.report_data().facts
    assert facts["window 0 of data"] == said
    assert "not shuffled: 3 test windows" in facts["protocol"]
    assert "(gap 2d, label_delay 5d)" in facts["protocol"]
    assert "stratified" not in facts["protocol"]
    assert found.report(found.folder / "page.html").read_text().count("excluded for gap and label_delay") >= 3


def test_a_folder_keeps_the_windows_and_refuses_others(found):
    assert load_comparison(found.folder).windows == found.windows
    x, y = table()
    same = {"pos_label": "bad", "time": "when", "methods": ["always-positive"], "folder": found.folder, **QUICK}
    again = compare(x, y, COSTS, gap="2d", label_delay="5d", repeats=1, folds=3, **same)
    assert again.windows == found.windows
    for other, what in (({"folds": 2, "gap": "2d"}, "folds"), ({"folds": 3, "gap": "3d"}, "time")):
        with pytest.raises(StoreError, match=rf"protocol\.{what}"):
            compare(x, y, COSTS, label_delay="5d", **other, **same)


def test_the_recommended_method_is_fitted_in_the_order_of_time_too(found):
    x, y = table()
    made = found.fit(x, y, name="mine", time="when", gap="2d", label_delay="5d")
    assert made.times_.startswith("trained on rows until 2024-0")
    assert list(made.feature_names_in_) == ["a", "b", "c"]


def test_a_shuffle_is_refused_with_the_reason():
    x, y = table()
    methods = [
        ("mine", CostSensitiveClassifier(learner=LogisticRegression(), cv=KFold(3, shuffle=True, random_state=0)))
    ]
    with pytest.raises(NoResultError, match="rows with a time are not shuffled"):
        compare(x, y, COSTS, pos_label="bad", time="when", methods=methods, repeats=1, folds=2, **QUICK)


def test_dates_that_are_split_by_chance_are_named():
    x, y = table()
    with pytest.warns(UserWarning, match=r"column 'when' of data contains dates.*--time-column when"):
        chance = compare(x, y, COSTS, pos_label="bad", methods=["always-positive"], repeats=1, folds=2, **QUICK)
    assert chance.windows == {}
    assert "1 repeat of 2 folds, stratified: every sample is tested once" in chance.report_data().facts["protocol"]


def test_data_with_and_without_a_time_side_by_side():
    x, y = table()
    tasks = [
        Task.from_data(x.drop(columns="when"), y, COSTS, pos_label="bad", name="shuffled"),
        Task.from_data(x, y, COSTS, pos_label="bad", time="when", name="ordered"),
    ]
    both = compare_tasks(tasks, methods=["always-positive"], repeats=1, folds=2, gap="1d", **QUICK)
    assert list(both.windows) == ["ordered"]
    alone = compare_tasks(tasks[0], methods=["always-positive"], repeats=1, folds=2, **QUICK)
    for seed in range(2):
        assert np.array_equal(both.splits["shuffled", seed].test_rows, alone.splits["shuffled", seed].test_rows)
    with pytest.raises(ValueError, match="gap and label_delay are for data with a time"):
        compare_tasks(tasks[0], methods=["always-positive"], gap="1d", **QUICK)


def test_windows_of_one_class_are_named_before_anything_is_trained():
    x, y = table()
    y = np.where(x["when"] >= pd.Timestamp("2024-07-10"), "good", y)
    with pytest.raises(ValueError, match="test window 0 of data: the held-out window from 2024-07-1"):
        compare(x, y, COSTS, pos_label="bad", time="when", methods=["always-positive"], folds=5, **QUICK)


def test_the_identity_of_comparisons_without_a_time_is_what_it_was():
    assert set(Protocol().identity()) == {"test", "validation", "neural", "boosting"}
    assert Protocol(windows=2, gap="1w").identity()["time"] == {"windows": 2, "gap": "1w", "label_delay": "0"}


def test_groups_of_a_window_teach_nothing_before_it():
    x, y = table()
    groups = np.arange(len(y)) % 150
    task = Task.from_data(x, y, COSTS, pos_label="bad", time="when", groups=groups)
    protocol = Protocol(windows=4)
    for seed in range(4):
        rest, tested = protocol.split(task, seed)
        assert not set(groups[rest]) & set(groups[tested])
        assert task.time[rest].max() < task.time[tested].min()
    assert "excluded for gap, label_delay and groups" in protocol.describe_windows(task)[0]
