"""adacsl train and compare with --time-column."""

import numpy as np
import pandas as pd
import pytest

from adacsl.estimators.persistence import load_noted

COSTS = ("--target", "default", "--pos-label", "yes", "--fn", 8, "--fp", 1)
TIMES = ("--time-column", "applied", "--gap", "2d", "--label-delay", "5d")


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    rng = np.random.default_rng(0)
    n = 400
    income, applied = rng.normal(size=n), np.datetime64("2024-01-01") + rng.permutation(n) // 2
    label = np.where(income + rng.normal(size=n) > 0.8, "yes", "no")
    path = tmp_path_factory.mktemp("time") / "loans.csv"
    frame = pd.DataFrame({"applied": applied.astype(str), "income": income, "age": rng.integers(20, 70, n)})
    frame.assign(default=label).to_csv(path, index=False)
    return path


def test_compare_shows_what_was_tested_on(adacsl, loans, tmp_path):
    words = ("compare", loans, *COSTS, *TIMES, "--methods", "always-negative,always-positive", "--n-jobs", 1)
    output = adacsl(*words, "--folds", 2, "--out", tmp_path / "run", "--quiet")
    assert output.code == 0, output.err
    lines = output.out.splitlines()
    (first,) = [line for line in lines if line.startswith("window 0: ")]
    assert "tested on 2024-06-29 to 2024-07-18" in first
    assert "rows excluded for gap and label_delay" in first
    assert "--time-column applied --gap 2d --label-delay 5d" in lines[-1]
    again = adacsl(*words, "--folds", 2, "--out", tmp_path / "run", "--quiet", "--json").json
    assert again["windows"]["loans"]["0"] == first.removeprefix("window 0: ")


def test_train_keeps_the_order_and_predict_needs_no_times(adacsl, loans, tmp_path):
    words = ("train", loans, *COSTS, *TIMES, "--method", "gbm-bayes", "--out", tmp_path / "model")
    output = adacsl(*words)
    assert output.code == 0, output.err
    assert "have dates" not in output.out
    assert "(on later samples)" in output.out
    assert "trained on rows until 2024-0" in output.out
    assert load_noted(tmp_path / "model")[1]["times"]["gap"] == "2d"
    pd.read_csv(loans).drop(columns=["applied", "default"]).to_csv(tmp_path / "new.csv", index=False)
    for rows in (tmp_path / "new.csv", loans):
        assert adacsl("predict", tmp_path / "model", rows, "--out", tmp_path / "out.csv").code == 0
    assert adacsl("evaluate", tmp_path / "model", loans).code == 0


def test_the_column_of_times_is_that_of_a_capacity_too(adacsl, loans, tmp_path):
    words = ("--capacity", 1, "--per", "day", "--method", "gbm-bayes", "--out", tmp_path / "model")
    assert adacsl("train", loans, *COSTS, *TIMES, *words).code == 0
    output = adacsl("predict", tmp_path / "model", loans, "--out", tmp_path / "out.csv")
    assert output.code == 0, output.err
    decided = pd.read_csv(tmp_path / "out.csv")["decision"] == "yes"
    assert decided.groupby(pd.read_csv(loans)["applied"]).sum().max() == 1


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--gap", "7d"), "need the column of the times: give --time-column NAME"),
        (("--time-column", "when"), "no column 'when'"),
        (("--time-column", "applied", "--gap", "7"), "gap=7 has no unit"),
        (("--time-column", "applied", "--gap", "soon"), "gap must be a number in the unit of the times"),
        (("--time-column", "age", "--gap", "7d"), "gap='7d' is for dates, and the times are numbers"),
        (("--time-column", "applied", "--label-delay", "9mo"), "none may train"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(refused, loans, tmp_path, words, match):
    out = ("--out", tmp_path / "model", "--method", "gbm-bayes")
    assert match in refused("train", loans, *COSTS, *words, *out)
