"""Costs on the command line: numbers, ranges, columns and expressions over columns; from training to new rows."""

import numpy as np
import pandas as pd
import pytest

import adacsl as library
from adacsl import CostMatrix
from adacsl.cli.options import CostOptions, as_words
from adacsl.estimators.persistence import load_noted

ROWS = ("--target", "churn", "--pos-label", "yes", "--method", "gbm-bayes", "--quiet")
SAID = ("--fn", "0.5 * amount + 2", "--fp", "1.5")


def own(rows):
    return CostMatrix(fp=1.5, fn=0.5 * rows["amount"].to_numpy() + 2)


@pytest.fixture(scope="module")
def model(place):
    from adacsl.cli.app import run

    words = ["train", str(place / "rows.parquet"), *ROWS, "--drop", "id", *SAID, "--out", str(place / "priced")]
    assert run(words) == 0
    return place / "priced"


def test_expressions_are_trained_with_and_remembered(adacsl, place, rows, model, tmp_path):
    fitted = library.load(model)
    assert fitted.cost_spec_ == CostMatrix(fp=1.5, fn="0.5 * amount + 2")
    assert fitted.costs_ == own(rows).averaged((rows["churn"] == "yes").to_numpy())
    assert load_noted(model)[1]["costs"]["fn"] == "0.5 * amount + 2"
    proba = fitted.predict_proba(rows[fitted.feature_names_in_])[:, 1]
    decided = own(rows).decide(proba)
    for data in ("rows.csv", "rows.parquet"):
        assert adacsl("predict", model, place / data, "--out", tmp_path / "p.parquet", "--batch-rows", 150).code == 0
        result = pd.read_parquet(tmp_path / "p.parquet")
        assert (result["decision"] == "yes").astype(int).tolist() == decided.tolist()
        np.testing.assert_allclose(result["expected_cost"], own(rows).expected(proba), rtol=1e-6)
    assert (fitted.predict(rows[fitted.feature_names_in_]) == result["decision"]).all()
    cost = own(rows).mean(rows["churn"] == "yes", decided)
    evaluated = adacsl("evaluate", model, place / "rows.csv", "--json").json
    assert evaluated["cost"]["mean"] == pytest.approx(cost)
    explained = adacsl("explain", model, place / "rows.csv", "--repeats", 1, "--json").json
    assert explained["base_cost"] == pytest.approx(cost)


def test_costs_that_are_given_replace_those_of_the_training(adacsl, place, rows, model):
    fitted = library.load(model)
    proba = fitted.predict_proba(rows[fitted.feature_names_in_])[:, 1]
    for words, costs in (
        (("--fn", "amount", "--fp", "3 + 1"), CostMatrix(fp=4, fn=rows["amount"].to_numpy())),
        (("--fn", "8", "--fp", "1", "--tp", "-2"), CostMatrix(fp=1, fn=8, tp=-2)),
        (("--fp", "5", "--fn", "2..8"), CostMatrix(fp=5, fn=4)),
    ):
        result = adacsl("evaluate", model, place / "rows.parquet", *words, "--json").json
        assert result["cost"]["mean"] == pytest.approx(costs.mean(rows["churn"] == "yes", costs.decide(proba)))


def test_columns_of_costs_may_be_dropped_features(adacsl, place, rows, tmp_path):
    words = (*ROWS, "--drop", "id,amount", *SAID)
    assert adacsl("train", place / "rows.csv", *words, "--out", tmp_path / "m").code == 0
    fitted = library.load(tmp_path / "m")
    assert fitted.cost_spec_ is None  # what it cannot see in its features is in the notes
    assert "amount" not in fitted.feature_names_in_
    assert adacsl("predict", tmp_path / "m", place / "rows.csv", "--out", tmp_path / "p.csv").code == 0
    decided = own(rows).decide(fitted.predict_proba(rows[fitted.feature_names_in_])[:, 1])
    assert (pd.read_csv(tmp_path / "p.csv")["decision"] == "yes").astype(int).tolist() == decided.tolist()


def test_a_piece_may_hold_free_errors_only(adacsl, place, rows, model, tmp_path):
    rows.assign(amount=np.where(np.arange(400) < 100, 0.0, 5.0)).to_parquet(tmp_path / "rows.parquet")
    words = ("--fn", "amount", "--fp", "1", "--batch-rows", 100, "--out", tmp_path / "p.csv")
    assert adacsl("predict", model, tmp_path / "rows.parquet", *words).code == 0
    assert (pd.read_csv(tmp_path / "p.csv")["decision"][:100] == "no").all()


def test_matrices_of_three_classes_hold_expressions(adacsl, place, rows, tmp_path):
    kinds = np.where(rows["age"] > 50, "old", np.where(rows["age"] > 38, "mid", "young"))
    data = rows[["age", "gap", "amount"]].assign(
        kind=kinds, age=rows["age"] + np.random.default_rng(1).normal(0, 5, 400)
    )
    data.to_parquet(tmp_path / "three.parquet")
    lines = ",mid,old,young\nmid,0,0.1 * amount,1\nold,2,0,3\nyoung,1,amount / 4,0\n"
    (tmp_path / "matrix.csv").write_text(lines)
    words = ("--target", "kind", "--costs", tmp_path / "matrix.csv", "--method", "gbm-bayes", "--quiet")
    assert adacsl("train", tmp_path / "three.parquet", *words, "--out", tmp_path / "m").code == 0
    fitted = library.load(tmp_path / "m")
    assert fitted.cost_spec_.columns == ("amount",)
    own = fitted.cost_spec_.of(data)
    decided = own.decide(fitted.predict_proba(data[fitted.feature_names_in_]))
    assert adacsl("predict", tmp_path / "m", tmp_path / "three.parquet", "--out", tmp_path / "p.csv").code == 0
    assert pd.read_csv(tmp_path / "p.csv")["decision"].tolist() == fitted.classes_[decided].tolist()
    result = adacsl("evaluate", tmp_path / "m", tmp_path / "three.parquet", "--json").json
    assert result["cost"]["mean"] == pytest.approx(own.mean(np.searchsorted(fitted.classes_, kinds), decided))


def test_threshold_takes_expressions(adacsl, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    frame = pd.DataFrame({"score": np.clip(0.3 * y + 0.7 * rng.random(300), 0, 1), "label": y, "sum": rng.random(300)})
    frame.to_csv(tmp_path / "s.csv", index=False)
    result = adacsl("threshold", tmp_path / "s.csv", "--fn", "max(3 * sum, 1)", "--fp", "1", "--json").json
    costs = CostMatrix(fp=1, fn=np.maximum(3 * frame["sum"], 1))
    by_hand = min(costs.total(y, frame["score"] > candidate) for candidate in [-1, *frame["score"]])
    assert result["cost"]["total"] == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--fn", "amounts", "--fp", 1), "rows.csv has no column 'amounts'; did you mean 'amount'?"),
        (("--fn", "8 + ", "--fp", 1), "--fn: the expression '8 +' cannot be read"),
        (("--fn", "20..5", "--fp", 1), "a range of fn goes from a low cost to a high one"),
        (("--fn", "shop", "--fp", 1), "column 'shop' must hold numbers to be a cost"),
        (("--fn", "log(amount - amount)", "--fp", 1), "got -inf in row 1 (amount = "),
        (("--fn", "0 * amount", "--fp", 1), "fn costs no more than tp for any sample"),
    ],
)
def test_bad_costs_are_refused_in_one_line(refused, place, tmp_path, words, line):
    assert line in refused("train", place / "rows.csv", *ROWS[:-1], *words, "--out", tmp_path / "m")


def test_implausible_costs_of_the_training_are_reported_once(adacsl, place, rows, tmp_path):
    rows.assign(amount=np.where(np.arange(400) == 7, -1.0, rows["amount"])).to_parquet(tmp_path / "rows.parquet")
    words = (*ROWS[:-1], "--drop", "id", "--fn", "amount", "--fp", 1, "--out", tmp_path / "m")
    output = adacsl("train", tmp_path / "rows.parquet", *words)
    assert output.err.count("fn is below the cost of a correct prediction in 1 row, first in row 8 (-1 against 0)") == 1


def test_cost_options_are_typed_as_they_were_given():
    output = CostOptions(fn="0.8 * amount + 12", fp=5.0, tp="-3..-1")
    assert as_words(output) == ["--fn", "0.8 * amount + 12", "--fp", "5", "--tp", "-3..-1"]
    assert CostMatrix(**output.known).ranges == {"tp": (-3.0, -1.0)}
