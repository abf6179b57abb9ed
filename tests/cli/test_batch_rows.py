"""adacsl threshold and evaluate: the answer does not depend on how many rows are held in memory."""

import warnings

import numpy as np
import pandas as pd
import pytest

from adacsl import CostMatrix, cost_curve
from adacsl.thresholds import streaming


def same(batches, whole):
    """Compare two answers: sums of floats may differ by their rounding."""
    assert type(batches) is type(whole)
    if isinstance(whole, dict):
        assert list(batches) == list(whole)
        for name, value in whole.items():
            same(batches[name], value)
    elif isinstance(whole, list):
        assert len(batches) == len(whole)
        for one, other in zip(batches, whole, strict=True):
            same(one, other)
    else:
        assert batches == (pytest.approx(whole, rel=1e-9) if isinstance(whole, float) else whole)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    rng = np.random.default_rng(4)
    y = rng.random(6000) < 0.3
    scores = 1 / (1 + np.exp(-(rng.normal(size=6000) + 2 * y - 1.5)))
    frame = pd.DataFrame(
        {"score": scores, "label": y.astype(int), "amount": rng.lognormal(1, 0.5, 6000), "w": rng.integers(0, 3, 6000)}
    ).sort_values("label")  # the first pieces hold one class only
    folder = tmp_path_factory.mktemp("scored")
    frame.to_csv(folder / "s.csv", index=False)
    frame.to_parquet(folder / "s.parquet")
    return folder, frame


# threshold


@pytest.mark.parametrize(
    ("suffix", "words", "held"),
    [
        ("csv", ("--fn", 4, "--fp", 1), 0),
        ("parquet", ("--fn", 4, "--fp", 1), streaming.HELD),
        ("parquet", ("--fn", 4, "--fp", 1, "--tn", -0.5, "--weight-column", "w"), 0),
        ("parquet", ("--fn", "2 * amount", "--fp", 2, "--tp", 0.5), streaming.HELD),
        ("csv", ("--fn", "amount", "--fp", 1, "--weight-column", "w"), 0),
    ],
)
def test_a_threshold_of_batches_is_that_of_all_rows(adacsl, scored, suffix, words, held, monkeypatch):
    folder, _ = scored
    monkeypatch.setitem(streaming.summarize_thresholds.__kwdefaults__, "held", held)
    command = (
        "threshold",
        folder / f"s.{suffix}",
        "--score-column",
        "score",
        "--label-column",
        "label",
        *words,
        "--json",
    )
    batches = adacsl(*command, "--batch-rows", 700)
    assert batches.code == 0, batches.err
    same(batches.json, adacsl(*command).json)


def test_the_curve_does_not_depend_on_batches(adacsl, scored, tmp_path):
    folder, frame = scored
    words = ("--fn", 4, "--fp", 1, "--score-column", "score", "--label-column", "label", "--batch-rows", 1000)
    output = adacsl("threshold", folder / "s.parquet", *words, "--curve", tmp_path / "c.csv")
    curve, known = pd.read_csv(tmp_path / "c.csv"), cost_curve(frame["score"], frame["label"], CostMatrix(fp=1, fn=4))
    assert f"cost of {len(curve):,} candidate thresholds: {tmp_path / 'c.csv'}" in output.out
    np.testing.assert_allclose(curve["threshold"], known.thresholds)
    np.testing.assert_allclose(curve["total_cost"], known.total_costs)


def test_scores_that_are_no_probabilities_are_joined_again(adacsl, scored, tmp_path):
    _, frame = scored
    logits = frame.assign(score=np.log(frame["score"] / (1 - frame["score"])))
    logits.to_parquet(tmp_path / "l.parquet")
    words = ("--fn", "amount", "--fp", 1, "--score-column", "score", "--label-column", "label", "--json")
    batches = adacsl("threshold", tmp_path / "l.parquet", *words, "--batch-rows", 999)
    assert batches.json == adacsl("threshold", tmp_path / "l.parquet", *words).json


def test_balanced_costs_need_all_rows(adacsl, scored):
    folder, _ = scored
    words = ("--costs", "balanced", "--score-column", "score", "--label-column", "label", "--json")
    command = ("threshold", folder / "s.csv", *words)
    assert adacsl(*command, "--batch-rows", 100).json == adacsl(*command).json


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"score": "high"},
            "column 'score' of {}, from row 41 on must hold a score in every row, got 'high' in row 10",
        ),
        ({"label": "9"}, "from row 41 on has the classes '9', known are '0', '1'"),
        ({"label": None}, "column 'label' of {}, from row 41 on is missing in 1 of 20 rows, first in row 10"),
    ],
)
def test_what_is_wrong_in_a_later_batch_is_one_line(refused, tmp_path, change, match):
    frame = pd.DataFrame({"score": np.linspace(0, 1, 60).astype(str), "label": np.arange(60) % 2})
    frame = frame.astype({"label": object})
    for name, value in change.items():
        frame.loc[49, name] = value
    frame.to_csv(tmp_path / "bad.csv", index=False)
    result = refused("threshold", tmp_path / "bad.csv", "--fn", 4, "--fp", 1, "--batch-rows", 20)
    assert match.format(tmp_path / "bad.csv") in result


def test_labels_of_a_text_file_are_those_of_all_rows(adacsl, tmp_path):
    table = tmp_path / "s.csv"
    table.write_text("score,label\n" + "0.1,0.0\n0.7,1\n0.3,0\n0.9,1.0\n" * 20)
    words = ("threshold", table, "--fn", 4, "--fp", 1, "--json")
    assert adacsl(*words, "--batch-rows", 7).json["classes"] == adacsl(*words).json["classes"] == ["0", "1"]


@pytest.mark.parametrize("command", ["threshold", "evaluate"])
def test_no_rows_at_a_time_are_refused(refused, scored, place, command):
    words = (place / "model", place / "rows.csv")
    words = (scored[0] / "s.csv", "--fn", 4, "--fp", 1) if command == "threshold" else words
    assert "--batch-rows must be at least 1, got 0" in refused(command, *words, "--batch-rows", 0)


# evaluate


@pytest.mark.parametrize(
    ("suffix", "words"),
    [
        ("csv", ()),
        ("parquet", ("--fn", "amount", "--fp", 2, "--tp", 0.5)),
        ("csv", ("--group-column", "id", "--fn", "amount", "--fp", 1)),
        ("parquet", ("--refer", 1, "--refer-errors", 0.02)),
        ("csv", ("--prior", 0.4, "--at-most", 0.001)),
    ],
)
def test_an_evaluation_of_batches_is_that_of_all_rows(adacsl, place, tmp_path, suffix, words):
    command = ("evaluate", place / "model", place / f"rows.{suffix}", *words, "--json")
    batches = adacsl(*command, "--batch-rows", 90, "--out", tmp_path / "p.csv")
    whole = adacsl(*command, "--out", tmp_path / "w.csv")
    assert batches.code == whole.code, batches.err
    same({**batches.json, "written": 0}, {**whole.json, "written": 0})
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "p.csv"), pd.read_csv(tmp_path / "w.csv"))


def test_rows_of_a_group_are_one_observation(adacsl, place, rows, tmp_path):
    rows.assign(team=np.arange(400) % 40).to_parquet(tmp_path / "teams.parquet")
    command = ("evaluate", place / "model", tmp_path / "teams.parquet", "--group-column", "team", "--json")
    same(adacsl(*command, "--batch-rows", 77).json, adacsl(*command).json)


def test_an_evaluation_of_a_query_and_its_words(adacsl, place):
    query = f"from '{place / 'rows.parquet'}' select *"
    output = adacsl("evaluate", place / "model", "--sql", query, "--batch-rows", 150)
    assert output.code == 0, output.err
    assert "400 samples" in output.out


def test_rows_without_a_label_are_excluded_from_batches(adacsl, refused, place, rows, tmp_path):
    table = tmp_path / "gaps.csv"
    rows.assign(churn=rows["churn"].where(np.arange(400) >= 120)).to_csv(table, index=False, date_format="%Y-%m-%d")
    command = ("evaluate", place / "model", table)
    batches, whole = adacsl(*command, "--batch-rows", 100, "--json"), adacsl(*command, "--json")
    same(batches.json, whole.json)
    assert batches.json["unlabelled"] == 120
    assert "120 rows have no label and are excluded, 280 are used" in batches.err
    stopped = refused(*command, "--batch-rows", 100, "--on-error", "stop")
    assert "is missing in 100 of 100 rows" in stopped
    rows.assign(churn=None).to_csv(table, index=False)
    assert "no row of" in refused(*command, "--batch-rows", 100)


def test_implausible_costs_are_reported_once_over_all_batches(adacsl, place, rows, tmp_path):
    table = tmp_path / "odd.parquet"
    rows.assign(amount=1e6).to_parquet(table)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        output = adacsl("evaluate", place / "model", table, "--fn", "amount", "--fp", 1, "--batch-rows", 50)
    whole = adacsl("evaluate", place / "model", table, "--fn", "amount", "--fp", 1)
    assert len(output.err.splitlines()) == len(whole.err.splitlines())


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--target", "left"), "no column 'left'"),
        (("--pos-label", "maybe"), "no class 'maybe'"),
        (("--pos-label", "no"), "the positive class of the model is 'yes', not 'no': omit --pos-label"),
        (("--target", "id"), "has the classes"),
        (("--fn", "age - 1000", "--fp", "1"), "fn"),
        (("--group-column", "shop"), "lacks 1 of the 5 columns that the model was trained on (shop)"),
    ],
)
def test_wrong_evaluation_is_one_line(refused, place, words, match):
    assert match in refused("evaluate", place / "model", place / "rows.csv", *words, "--batch-rows", 80)


@pytest.mark.parametrize("words", [("--costs", "balanced"), ("--prior", "em")])
def test_what_looks_at_all_rows_does_not_depend_on_batches(adacsl, place, words):
    command = ("evaluate", place / "model", place / "rows.csv", *words, "--json")
    assert adacsl(*command, "--batch-rows", 50).json == adacsl(*command).json


def test_rows_that_trained_the_model_are_counted_over_all_batches(adacsl, place, rows, tmp_path):
    fresh = rows.assign(age=rows["age"] + 0.125)
    pd.concat((fresh, rows)).to_parquet(tmp_path / "half.parquet")
    command = ("evaluate", place / "model", tmp_path / "half.parquet", "--json")
    batches, whole = adacsl(*command, "--batch-rows", 64).json, adacsl(*command).json
    assert batches["training_share"] == whole["training_share"] == 0.5


def test_a_capacity_looks_at_all_rows(adacsl, place):
    words = ("evaluate", place / "model", place / "rows.csv", "--capacity", 20, "--json")
    assert adacsl(*words, "--batch-rows", 50).json == adacsl(*words).json
