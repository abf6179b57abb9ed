"""adacsl threshold, and the statistics behind it."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl import CostMatrix, cost_curve, find_threshold
from adacsl.cli import tuned
from adacsl.cli.tuned import mean_cost, tune_threshold

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


def test_optimum_is_the_cheapest_of_all_cuts(adacsl, table):
    scores, y = draw(300)
    scores = scores.round(2)  # ties
    said = adacsl("threshold", table({"score": scores, "label": y}), "--fn", 8, "--fp", 1, "--json")
    assert said.code == 0
    cuts = [-0.01, *np.unique(scores)]
    costs = [8 * y[scores <= cut].sum() + (1 - y)[scores > cut].sum() for cut in cuts]
    found = said.json["threshold"]
    assert said.json["cost"]["total"] == min(costs)
    assert 8 * y[scores <= found["value"]].sum() + (1 - y)[scores > found["value"]].sum() == min(costs)
    assert found["low"] <= found["value"] < found["high"]
    assert found["interval"][0] <= found["value"] <= found["interval"][1]
    assert said.json["cost"]["mean"] == pytest.approx(min(costs) / 300)
    assert said.json["cost"]["interval"][0] < said.json["cost"]["expected"] < said.json["cost"]["interval"][1]
    assert said.json["always_negative"] == pytest.approx(8 * y.mean())
    assert said.json["always_positive"] == pytest.approx(1 - y.mean())
    called = scores > 1 / 9
    assert said.json["bayes"]["threshold"] == pytest.approx(1 / 9)
    assert said.json["bayes"]["mean"] == pytest.approx(np.where(y == 1, 8 * ~called, called).mean())


def test_text_shows_threshold_intervals_and_curve(adacsl, table):
    scores, y = draw(200)
    said = adacsl("threshold", table({"score": scores, "label": y}), "--fn", 8, "--fp", 1)
    assert said.code == 0
    for words in ("cheapest threshold", "95 % interval of the threshold", "expected on new rows", "Bayes threshold",
                  "always negative", "cost by threshold", "▁"):  # fmt: skip
        assert words in said.out


def test_prices_weights_and_labels_of_columns(adacsl, table):
    scores, y = draw(200)
    rng = np.random.default_rng(1)
    amount, weight = rng.lognormal(1, 1, 200), rng.integers(0, 3, 200)
    frame = {"p": scores, "fraud": np.where(y, "yes", "no"), "amount": amount, "w": weight}
    words = ("--score-column", "p", "--label-column", "fraud", "--positive", "yes", "--weight-column", "w", "--json")
    said = adacsl("threshold", table(frame, "s.parquet"), *words, "--fn-column", "amount", "--fp", 2, "--tn", 0.5)
    costs = CostMatrix(fp=2, fn=amount, tn=0.5)
    best = find_threshold(scores, y, costs, sample_weight=weight.astype(float))
    assert said.json["threshold"]["value"] == best.value
    assert said.json["cost"]["total"] == pytest.approx(best.cost)
    assert said.json["cost"]["mean"] == pytest.approx(best.cost / weight.sum())
    assert said.json["bayes"]["threshold"] is None
    each = costs.incurred(y, costs.decide(scores))
    assert said.json["bayes"]["mean"] == pytest.approx(np.average(each, weights=weight))


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


@pytest.mark.parametrize("order", [("prob", "truth"), ("truth", "prob")])
def test_two_columns_are_told_apart(adacsl, table, order):
    scores, y = draw(100)
    frame = pd.DataFrame({"prob": scores, "truth": y})[list(order)]
    said = adacsl("threshold", table(frame), "--fn", 8, "--fp", 1, "--json")
    assert said.json["threshold"]["value"] == find_threshold(scores, y, COSTS).value


def test_curve_holds_every_cut(adacsl, table, tmp_path):
    scores, y = draw(100)
    path = tmp_path / "curve.csv"
    said = adacsl("threshold", table({"score": scores, "label": y}), "--fn", 8, "--fp", 1, "--curve", path)
    assert str(path) in said.out
    curve, expected = pd.read_csv(path), cost_curve(scores, y, COSTS)
    np.testing.assert_allclose(curve["threshold"], expected.thresholds)
    np.testing.assert_allclose(curve["total_cost"], expected.costs)
    np.testing.assert_allclose(curve["false_negative_cost"] + curve["false_positive_cost"], curve["total_cost"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["curve.csv", "scores.csv"]


@pytest.mark.parametrize(
    ("frame", "words", "match"),
    [
        ({"a": [0.1, 0.9], "b": [0, 1], "c": [1, 2]}, [], "Say --score-column and --label-column; it has a, b, c"),
        ({"score": [0.1, 0.9], "b": [0, 1], "c": [1, 2]}, [], "Say --label-column; it has score, b, c"),
        ({"score": [0.1, 0.9], "label": [0, 1]}, ["--score-column", "scor"], "no column 'scor'; did you mean 'score'?"),
        (
            {"score": ["low", 0.9], "label": [0, 1]},
            [],
            "'score' of .* must hold a score in every row, got 'low' in row 1",
        ),
        ({"score": [0.1, None], "label": [0, 1]}, [], "must hold a score in every row, got nothing in row 2"),
        ({"score": [0.1, 0.9], "label": [0, 0]}, [], "one class only"),
        ({"score": [0.1, 0.9, 0.5], "label": [0, 1, 2]}, [], "has 3 classes"),
        ({"score": [0.1, 0.9], "label": ["no", "yes"]}, [], "--positive 'no' or --positive 'yes'"),
        ({"score": [0.1, 0.9], "label": ["no", "yes"]}, ["--positive", "Y"], "no class 'Y'"),
    ],
)
def test_wrong_tables_are_one_line(refused, table, frame, words, match):
    assert re.search(match, refused("threshold", table(frame), "--fn", 8, "--fp", 1, *words))


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ([], "--fn 8 (or --fn-column NAME) and --fp 1 (or --fp-column NAME) are missing"),
        (["--fn", "8"], "--fp 1 (or --fp-column NAME) is missing"),
        (["--fn", "0", "--fp", "1"], "fn must cost more than tp, got fn=0"),
        (["--fn", "8", "--fp", "-1"], "fp must cost more than tn, got fp=-1"),
        (["--fn", "nan", "--fp", "1"], "fn must be finite"),
        (["--fn", "8", "--fn-column", "label", "--fp", "1"], "--fn and --fn-column exclude each other"),
        (["--fn-column", "amount", "--fp", "1"], "no column 'amount'"),
    ],
)
def test_wrong_costs_are_one_line(refused, table, words, match):
    assert match in refused("threshold", table({"score": [0.1, 0.9], "label": [0, 1]}), *words)


def test_one_row_of_a_class_has_no_expected_cost(adacsl, table):
    said = adacsl("threshold", table({"score": [0.1, 0.5, 0.9], "label": [0, 0, 1]}), "--fn", 8, "--fp", 1, "--json")
    assert said.code == 0
    assert said.json["cost"]["expected"] is None


# the statistics


def test_all_cuts_of_the_rows_themselves_are_the_cost_curve():
    scores, y = draw(80)
    scores = scores.round(1)
    rows, cuts = tuned._cells(scores, y == 1, COSTS, None)
    order = np.argsort(rows.cell, kind="stable")
    rows = rows.take(order)
    starts = np.searchsorted(rows.cell, np.arange(len(cuts.low) - 1))
    costs = tuned._costs_of_cuts(rows, np.ones((1, 80), dtype=np.int64), starts)[0]
    np.testing.assert_allclose(costs, cost_curve(scores, y, COSTS).costs)


@pytest.mark.parametrize("own", [False, True])
def test_bootstrap_is_find_threshold_on_resamples(own):
    scores, y = draw(60, seed=3)
    scores = scores.round(1) if not own else scores
    costs = CostMatrix(fp=1, fn=np.random.default_rng(0).lognormal(2, 1, 60)) if own else COSTS
    lows, highs = tuned._bootstrap(scores, y, costs, None, 2000, 0)
    rng = np.random.default_rng(1)
    slow = []
    for _ in range(1500):
        rows = rng.integers(0, 60, 60)
        curve = cost_curve(scores[rows], y[rows], costs.rows(rows))
        cheapest = np.flatnonzero(curve.costs <= curve.costs.min() * (1 + 1e-9))
        # in terms of all scores: the first cut that is cheapest begins at the highest score below it
        slow.append(max(float(curve.thresholds[cheapest[0]]), 0.0) if cheapest[0] else 0.0)
    for q in (0.1, 0.5, 0.9):
        assert np.quantile(lows, q) == pytest.approx(np.quantile(slow, q), abs=0.08)
    assert (lows <= highs).all()


def test_many_scores_are_cut_at_some_of_them(monkeypatch):
    scores, y = draw(3000)
    fine = tune_threshold(scores, y, COSTS)
    monkeypatch.setattr(tuned, "CELLS", 100)
    coarse = tune_threshold(scores, y, COSTS)
    assert coarse.best == fine.best
    np.testing.assert_allclose(coarse.threshold, fine.threshold, atol=0.03)


def test_kinds_of_rows_are_drawn_as_rows_are():
    # few distinct scores: rows are drawn by kind; distinct weights of one: row by row
    scores, y = draw(500)
    scores = scores.round(1)
    kinds = tuned._bootstrap(scores, y, COSTS, None, 3000, 0)
    weight = 1 + 1e-12 * np.arange(500)
    rows = tuned._bootstrap(scores, y, COSTS, weight, 3000, 1)
    for a, b in zip(kinds, rows, strict=True):
        assert np.mean(a) == pytest.approx(np.mean(b), abs=0.01)


def test_expected_cost_is_honest_and_covers():
    reference, truth = draw(400_000, seed=99)
    covered, covered_cut, apparent, expected, actual = 0, 0, [], [], []
    optimum = find_threshold(reference, truth, COSTS).value
    for seed in range(60):
        scores, y = draw(150, seed=seed)
        found = tune_threshold(scores, y, COSTS, random_state=seed)
        cost = COSTS.mean(truth, (reference > found.best.value).astype(int))
        covered += found.cost.low <= cost <= found.cost.high
        covered_cut += found.threshold.low <= optimum <= found.threshold.high
        apparent.append(found.best.cost / 150)
        expected.append(found.cost.estimate)
        actual.append(cost)
    assert np.mean(apparent) < 0.93 * np.mean(actual)  # a tuned threshold flatters its rows
    assert np.mean(expected) == pytest.approx(np.mean(actual), rel=0.06)
    assert covered >= 52
    assert covered_cut >= 48


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=30), st.floats(1e-9, 1e9))
def test_any_rows_give_ordered_intervals(pairs, price):
    scores, y = np.array([p for p, _ in pairs]), np.array([b for _, b in pairs]).astype(np.int64)
    found = tune_threshold(scores, y, CostMatrix(fp=1, fn=price))
    assert found.threshold.low <= found.best.value <= found.threshold.high
    if min(y.sum(), len(y) - y.sum()) < 2:
        assert found.cost is None
    else:
        assert found.cost.low <= found.cost.high
        assert found.cost.estimate >= 0


def test_mean_cost_is_the_weighted_mean():
    each, weight = np.array([0.0, 1.0, 8.0]), np.array([1.0, 2.0, 1.0])
    found = mean_cost(each, weight)
    assert found.estimate == pytest.approx(10 / 4)
    assert found.low <= found.estimate <= found.high
