"""adacsl threshold."""

import re

import numpy as np
import pandas as pd
import pytest

from adacsl import CostMatrix, find_threshold

COSTS = CostMatrix(fp=1, fn=8)


def draw(n, seed=0, shift=1.5):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.25).astype(np.int64)
    return 1 / (1 + np.exp(-(rng.normal(size=n) + shift * y - 1.5))), y


@pytest.fixture
def table(tmp_path):
    def write(frame, name="scores.csv"):
        frame = pd.DataFrame(frame)
        path = tmp_path / name
        frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
        return path

    return write


# the command


def test_optimum_is_the_lowest_cost_of_all_thresholds(adacsl, table):
    scores, y = draw(300)
    scores = scores.round(2)  # ties
    output = adacsl("threshold", table({"score": scores, "label": y}), "--fn", 8, "--fp", 1, "--json")
    assert output.code == 0
    candidates = [-0.01, *np.unique(scores)]
    costs = [8 * y[scores <= candidate].sum() + (1 - y)[scores > candidate].sum() for candidate in candidates]
    result = output.json["threshold"]
    assert output.json["cost"]["total"] == min(costs)
    assert 8 * y[scores <= result["value"]].sum() + (1 - y)[scores > result["value"]].sum() == min(costs)
    assert result["low"] <= result["value"] < result["high"]
    assert result["interval"][0] <= result["value"] <= result["interval"][1]
    assert output.json["cost"]["mean"] == pytest.approx(min(costs) / 300)
    assert output.json["cost"]["interval"][0] < output.json["cost"]["expected"] < output.json["cost"]["interval"][1]
    assert output.json["always_negative"] == pytest.approx(8 * y.mean())
    assert output.json["always_positive"] == pytest.approx(1 - y.mean())
    called = scores > 1 / 9
    assert output.json["bayes"]["threshold"] == pytest.approx(1 / 9)
    assert output.json["bayes"]["mean"] == pytest.approx(np.where(y == 1, 8 * ~called, called).mean())


def test_text_shows_threshold_intervals_and_curve(adacsl, table):
    scores, y = draw(200)
    output = adacsl("threshold", table({"score": scores, "label": y}), "--fn", 8, "--fp", 1)
    assert output.code == 0
    for words in ("cost-optimal threshold", "95 % interval of the threshold", "expected on new samples",
                  "Bayes threshold",
                  "always negative", "cost by threshold", "▁"):  # fmt: skip
        assert words in output.out


def test_costs_weights_and_labels_of_columns(adacsl, table):
    scores, y = draw(200)
    rng = np.random.default_rng(1)
    amount, weight = rng.lognormal(1, 1, 200), rng.integers(0, 3, 200)
    frame = {"p": scores, "fraud": np.where(y, "yes", "no"), "amount": amount, "w": weight}
    words = ("--score-column", "p", "--label-column", "fraud", "--pos-label", "yes", "--weight-column", "w", "--json")
    output = adacsl("threshold", table(frame, "s.parquet"), *words, "--fn", "amount", "--fp", 2, "--tn", 0.5)
    costs = CostMatrix(fp=2, fn=amount, tn=0.5)
    best = find_threshold(scores, y, costs, sample_weight=weight.astype(float))
    assert output.json["threshold"]["value"] == best.value
    assert output.json["cost"]["total"] == pytest.approx(best.total_cost)
    assert output.json["cost"]["mean"] == pytest.approx(best.cost)
    assert output.json["bayes"]["threshold"] is None
    each = costs.incurred(y, costs.decide(scores))
    assert output.json["bayes"]["mean"] == pytest.approx(np.average(each, weights=weight))


def test_scores_of_any_scale_keep_their_scale(adacsl, table):
    scores, y = draw(300)
    points = 300 + 550 * scores
    inner = adacsl("threshold", table({"score": scores, "label": y}), "--fn", 8, "--fp", 1, "--json").json
    outer = adacsl("threshold", table({"score": points, "label": y}), "--fn", 8, "--fp", 1, "--json").json
    assert outer["cost"]["total"] == inner["cost"]["total"]
    assert outer["threshold"]["low"] == pytest.approx(300 + 550 * inner["threshold"]["low"])
    assert outer["threshold"]["high"] == pytest.approx(300 + 550 * inner["threshold"]["high"])
    called = points > outer["threshold"]["value"]
    assert COSTS.total(y, called.astype(int)) == outer["cost"]["total"]
    assert outer["bayes"] is None
    low, high = outer["threshold"]["interval"]
    assert low <= outer["threshold"]["value"] <= high


@pytest.mark.parametrize("fn", [8, 1000])  # calling everybody positive is cheapest, where a false negative costs 1,000
def test_the_command_and_the_function_agree_about_logits(adacsl, table, fn):
    scores, y = draw(200)
    logits = np.log(scores) - np.log1p(-scores)
    logits[y == 1] = logits[y == 1] if fn == 8 else -9.0
    output = adacsl("threshold", table({"score": logits, "label": y}), "--fn", fn, "--fp", 1, "--json").json
    result = find_threshold(logits, y, CostMatrix(fp=1, fn=fn))
    assert tuple(output["threshold"][name] for name in ("value", "low", "high")) == (
        result.value,
        result.low,
        result.high,
    )
    called = (logits > output["threshold"]["value"]).astype(int)
    assert CostMatrix(fp=1, fn=fn).total(y, called) == output["cost"]["total"] == result.total_cost


@pytest.mark.parametrize("order", [("prob", "truth"), ("truth", "prob")])
def test_scores_and_labels_are_recognized_in_either_order(adacsl, table, order):
    scores, y = draw(100)
    frame = pd.DataFrame({"prob": scores, "truth": y})[list(order)]
    output = adacsl("threshold", table(frame), "--fn", 8, "--fp", 1, "--json")
    assert output.json["threshold"]["value"] == find_threshold(scores, y, COSTS).value


@pytest.mark.parametrize(
    ("frame", "words", "match"),
    [
        ({"a": [0.1, 0.9], "b": [0, 1], "c": [1, 2]}, [], "name the score column and the label column; it has a, b, c"),
        ({"score": [0.1, 0.9], "b": [0, 1], "c": [1, 2]}, [], "name the label column; it has score, b, c"),
        ({"score": [0.1, 0.9], "label": [0, 1]}, ["--score-column", "scor"], "no column 'scor'; did you mean 'score'?"),
        (
            {"score": ["low", 0.9], "label": [0, 1]},
            [],
            "'score' of .* must hold a score in every row, got 'low' in row 1",
        ),
        ({"score": [0.1, None], "label": [0, 1]}, [], "must hold a score in every row, got nothing in row 2"),
        ({"score": [0.1, 0.9], "label": [0, 0]}, [], "one class only"),
        ({"score": [0.1, 0.9, 0.5], "label": [0, 1, 2]}, [], "has 3 classes"),
        ({"score": [0.1, 0.9], "label": ["no", "yes"]}, [], "cost fn: 'no' or 'yes'"),
        ({"score": [0.1, 0.9], "label": ["no", "yes"]}, ["--pos-label", "Y"], "no class 'Y'"),
    ],
)
def test_wrong_tables_are_one_line(refused, table, frame, words, match):
    assert re.search(match, refused("threshold", table(frame), "--fn", 8, "--fp", 1, *words))


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ([], "--fn 8 (or --fn COLUMN) and --fp 1 (or --fp COLUMN) are missing"),
        (["--fn", "8"], "--fp 1 (or --fp COLUMN) is missing"),
        (["--fn", "0", "--fp", "1"], "fn must cost more than tp, got fn=0"),
        (["--fn", "amount", "--fp", "1"], "no column 'amount'"),
    ],
)
def test_wrong_costs_are_one_line(refused, table, words, match):
    assert match in refused("threshold", table({"score": [0.1, 0.9], "label": [0, 1]}), *words)


def test_one_row_of_a_class_has_no_expected_cost(adacsl, table):
    output = adacsl("threshold", table({"score": [0.1, 0.5, 0.9], "label": [0, 0, 1]}), "--fn", 8, "--fp", 1, "--json")
    assert output.code == 0
    assert output.json["cost"]["expected"] is None
