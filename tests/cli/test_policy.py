"""A person, a capacity and other class shares on the command line: the same decisions as in Python."""

import numpy as np
import pandas as pd
import pytest

import adacsl as library
from adacsl import CostMatrix, Policy

SAID = ("--target", "churn", "--pos-label", "yes", "--fn", "8", "--fp", "1", "--drop", "id")


@pytest.fixture(scope="module")
def model(place, tmp_path_factory):
    """A quick model with a policy of its own."""
    from adacsl.cli.app import run

    folder = tmp_path_factory.mktemp("policy") / "model"
    words = ("train", place / "rows.csv", *SAID, "--method", "gbm-bayes", "--refer", 0.4, "--quiet", "--out", folder)
    assert run([str(word) for word in words]) == 0
    return folder


@pytest.fixture
def predicted(adacsl, model, place, tmp_path):
    """Run predict with more words; return its answer and its table."""

    def call(*words, data="rows.parquet"):
        output = adacsl("predict", model, place / data, "--out", tmp_path / "out.parquet", "--json", *words)
        assert output.code == 0, output.err
        return output.json, pd.read_parquet(tmp_path / "out.parquet")

    return call


def test_training_keeps_the_policy_and_shows_what_it_saves(adacsl, place, tmp_path):
    words = ("train", place / "rows.csv", *SAID, "--method", "gbm-bayes", "--refer", 0.4, "--refer-errors", "fn=0.05")
    output = adacsl(*words, "--capacity", 9, "--out", tmp_path / "m", "--json")
    assert output.code == 0, output.err
    assert library.load(tmp_path / "m").policy == Policy(refer=0.4, errors={"fn": 0.05}, capacity=9)
    assert output.json["policy_cost"]["mean"] < output.json["estimated_cost"]["mean"]
    result = adacsl(*words, "--out", tmp_path / "m")
    assert "with the other actions, without a limit: " in result.out


def test_the_time_column_of_the_training_counts_the_days(adacsl, place, tmp_path):
    words = (*SAID, "--method", "gbm-bayes", "--capacity", 1, "--per", "month", "--time-column", "since")
    output = adacsl("train", place / "rows.parquet", *words, "--out", tmp_path / "m", "--json")
    assert output.code == 0, output.err
    assert library.load(tmp_path / "m").policy == Policy(capacity=1, per="month", time="since")
    output = adacsl("predict", tmp_path / "m", place / "rows.parquet", "--out", tmp_path / "out.csv", "--json")
    assert output.code == 0, output.err
    assert 0 < output.json["decided_positive"] <= 30
    assert "1 a month were there" in output.json["notes"][0]


def test_rows_are_referred_as_in_python(predicted, model, rows):
    document, table = predicted()
    result = library.load(model).decisions(rows.drop(columns=["id", "churn"]))
    assert table["decision"].tolist() == result.labels.tolist()
    np.testing.assert_allclose(table["expected_cost"], result.expected)
    assert document["decided"] == result.counts
    assert result.counts["refer"] > 0
    plain, table = predicted("--no-policy")
    assert set(table["decision"]) == {"yes", "no"}
    assert plain["decided_positive"] == (table["decision"] == "yes").sum()


def test_capacity_of_each_month_over_several_pieces(predicted, model, rows, adacsl, place, tmp_path):
    words = ("--capacity", 2, "--per", "month", "--time-column", "since", "--prior", "em", "--fn", "amount")
    document, table = predicted(*words, "--keep", "id", "--batch-rows", 37)
    result = library.load(model).decisions(
        rows.drop(columns=["id", "churn"]), capacity=2, per="month", time="since", prior="em",
        fn=rows["amount"].to_numpy(),
    )  # fmt: skip
    assert table["decision"].tolist() == result.labels.tolist()
    assert table["id"].tolist() == rows["id"].tolist()
    np.testing.assert_allclose(table["probability"], result.probabilities)
    assert document["notes"] == list(result.notes)
    assert document["prior"] == pytest.approx(result.prior)
    reply = adacsl("predict", model, place / "rows.parquet", *words, "--out", tmp_path / "x.csv")
    assert "wanted 'refer', 2 a month were there" in reply.out
    assert (pd.read_csv(tmp_path / "x.csv")["decision"] == "refer").sum() == result.counts["refer"]


def test_actions_from_a_file(predicted, model, rows, tmp_path):
    matrix = tmp_path / "actions.csv"
    matrix.write_text("action,no,yes\nno,0,8\nyes,1,0\nmail,0.1,3\n")
    document, table = predicted("--no-policy")
    with pytest.raises(AssertionError, match="omit it, or the other options"):
        predicted("--actions", matrix, "--no-policy")
    document, table = predicted("--actions", matrix, "--capacity", 10, "--capacity-of", "mail")
    costs = CostMatrix.from_array(
        [[0, 8], [1, 0], [0.1, 3]], rows="predicted", classes=["no", "yes"], actions=["no", "yes", "mail"]
    )
    result = library.load(model).decisions(
        rows.drop(columns=["id", "churn"]), actions=costs, capacity=10, action="mail"
    )
    assert table["decision"].tolist() == result.labels.tolist()
    assert document["decided"]["mail"] <= 10


def test_evaluation_counts_the_cost_of_a_referral(adacsl, model, place, rows, tmp_path):
    output = adacsl(
        "evaluate", model, place / "rows.csv", "--out", tmp_path / "rows.csv", "--refer-errors", 0.1, "--json"
    )
    assert output.code == 0, output.err
    X, y = rows.drop(columns=["id", "churn"]), rows["churn"].to_numpy()
    read = library.load(model)
    assert output.json["cost"]["mean"] == pytest.approx(-read.score(X, y, policy=Policy(refer=0.4, errors=0.1)))
    assert output.json["actions"] == ["no", "yes", "refer"]
    table = pd.read_csv(tmp_path / "rows.csv")
    assert table["cost"].mean() == pytest.approx(output.json["cost"]["mean"])
    assert np.asarray(output.json["counts"]).sum() == len(y)
    assert np.asarray(output.json["money"]).sum() == pytest.approx(output.json["cost"]["total"])
    result = adacsl("evaluate", model, place / "rows.csv")
    assert "refer" in result.out


def test_evaluation_under_a_capacity_and_another_prior(adacsl, model, place, rows):
    words = ("--no-policy", "--json")
    plain = adacsl("evaluate", model, place / "rows.csv", *words).json
    assert "actions" not in plain
    words = ("--capacity", 1, "--per", "day", "--time-column", "since", "--prior", "yes=0.5,no=0.5")
    output = adacsl("evaluate", model, place / "rows.parquet", *words, "--json").json
    X, y = rows.drop(columns=["id", "churn"]), rows["churn"].to_numpy()
    policy = Policy(refer=0.4, capacity=1, per="day", time="since", prior=0.5)
    assert output["cost"]["mean"] == pytest.approx(-library.load(model).score(X, y, policy=policy))
    assert len(output["notes"]) >= 2


def test_two_classes_under_a_capacity_keep_their_table(adacsl, place, rows):
    output = adacsl("evaluate", place / "model", place / "rows.csv", "--capacity", 20, "--json")
    assert output.code == 0, output.err
    assert output.json["counts"]["tp"] + output.json["counts"]["fp"] <= 20
    assert output.json["threshold"] is None


def test_what_makes_no_sense_is_refused(refused, model, place, tmp_path):
    data = place / "rows.csv"
    assert "--time-column NAME" in refused("predict", model, data, "--capacity", 3, "--per", "day")
    assert "no column" in refused("predict", model, data, "--capacity", 3, "--per", "day", "--time-column", "when")
    assert "when" in refused("evaluate", model, data, "--capacity", 3, "--per", "day", "--time-column", "when")
    assert "--prior must be a share" in refused("predict", model, data, "--prior", "often")
    assert "between 0 and 1" in refused("predict", model, data, "--prior", "2")
    assert "hold dates" in refused("predict", model, data, "--capacity", 3, "--per", "day", "--time-column", "shop")
    words = ("train", data, *SAID, "--quiet", "--out", tmp_path / "m", "--method")
    assert "which this method does not use" in refused(*words, "always-negative", "--refer", 1)
    assert "has the lowest cost for every class" in refused(*words, "gbm-bayes", "--refer", 0)
    assert not (tmp_path / "m").exists()


def test_no_rows_are_no_error(predicted, place, rows):
    rows[:0].to_parquet(place / "none.parquet")
    document, table = predicted("--capacity", 3, data="none.parquet")
    assert (document["rows"], len(table)) == (0, 0)


def test_a_range_of_costs_beside_a_referral(adacsl, place):
    words = ("--fn", "4..8", "--fp", "1", "--refer", "0.1")
    output = adacsl("evaluate", place / "model", place / "rows.csv", "--target", "churn", *words, "--json")
    assert output.code == 0, output.err
    middle = (*("--fn", str(32**0.5)), *words[2:])
    same = adacsl("evaluate", place / "model", place / "rows.csv", "--target", "churn", *middle, "--json")
    assert output.json["cost"]["mean"] == pytest.approx(same.json["cost"]["mean"])
    assert output.json["normalized_cost"] == pytest.approx(same.json["normalized_cost"])


def test_explain_decides_by_the_policy(adacsl, model, place):
    words = ("explain", model, place / "rows.csv", "--repeats", 2, "--json")
    stored, plain = adacsl(*words).json, adacsl(*words, "--no-policy").json
    read, rows = library.load(model), pd.read_csv(place / "rows.csv").drop(columns="id")
    X, y = rows.drop(columns="churn"), rows["churn"]
    assert stored["base_cost"] == pytest.approx(-read.score(X, y))
    assert plain["base_cost"] == pytest.approx(-read.score(X, y, policy=Policy()))
    everybody = adacsl(*words, "--refer", 0.0001).json
    assert {each["cost"] for each in everybody["columns"]} == {0.0}
    daily = adacsl(*words, "--refer", 0.0001, "--capacity", 1, "--per", "day", "--time-column", "since").json
    assert everybody["base_cost"] < daily["base_cost"] < plain["base_cost"]


@pytest.mark.parametrize("capacity", [7, 10_000])
def test_the_estimated_cost_counts_the_capacity(adacsl, place, tmp_path, capacity):
    words = ("train", place / "rows.csv", *SAID, "--method", "logistic", "--refer", 0.4, "--capacity", capacity)
    output = adacsl(*words, "--cv", 3, "--out", tmp_path / "m", "--json")
    assert output.code == 0, output.err
    read, rows = library.load(tmp_path / "m"), pd.read_csv(place / "rows.csv")
    y = (rows["churn"] == "yes").to_numpy().astype(int)
    p = read.decision_.probabilities(read.oof_scores_)
    gain = CostMatrix(fp=1, fn=8).expected(p, (p > 1 / 9).astype(int)) - 0.4
    asked = np.argsort(-gain, kind="stable")[:capacity]
    referred = np.isin(np.arange(len(y)), asked[gain[asked] > 0])
    paid = np.where(referred, 0.4, CostMatrix(fp=1, fn=8).incurred(y, (p > 1 / 9).astype(int)))
    assert output.json["policy_cost"]["mean"] == pytest.approx(paid.mean())
    if capacity == 7:
        result = adacsl(*words, "--cv", 3, "--out", tmp_path / "m").out
        assert f"with at most 7 'refer' in all {len(y)} samples: " in result


def test_the_estimated_cost_counts_a_capacity_of_held_out_rows_and_of_each_month(adacsl, place, tmp_path):
    words = ("train", place / "rows.csv", *SAID, "--method", "logistic", "--out", tmp_path / "m", "--json")
    positives = adacsl(*words, "--capacity", 0, "--cv", 0).json  # no row may be called positive
    rows, read = pd.read_csv(place / "rows.csv"), library.load(tmp_path / "m")
    held = ~np.isnan(read.oof_scores_)
    assert positives["policy_cost"]["mean"] == pytest.approx(8 * (rows["churn"][held] == "yes").mean())
    month = adacsl(*words, "--refer", 0.1, "--capacity", 1, "--per", "month", "--time-column", "since").json
    free = adacsl(*words, "--refer", 0.1, "--time-column", "since").json
    assert free["policy_cost"]["mean"] < month["policy_cost"]["mean"] < month["estimated_cost"]["mean"]
