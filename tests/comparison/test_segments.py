"""Costs by segment: formulas against brute force, coverage against a known law, and the way through a run folder."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.naive_bayes import GaussianNB

from adacsl import CostMatrix, CostSensitiveClassifier, compare, load_comparison
from adacsl.comparison.segments import segment_costs
from adacsl.comparison.statistics import Evidence, fold_interval
from adacsl.comparison.store import Store, StoreError

QUICK = {
    "methods": [("bayes", CostSensitiveClassifier(learner=GaussianNB()))],
    "n_jobs": 1,
    "progress": False,
    "folds": 3,
}


def together(values, keys):
    """The sum, over pairs of entries with the same key, of the products of their values; one by one."""
    return sum(a * b for a, k in zip(values, keys, strict=True) for b, j in zip(values, keys, strict=True) if k == j)


def by_hand(costs, inside, fits, units):
    """The interval of the difference, entry by entry."""
    inside, outside = np.flatnonzero(inside), np.flatnonzero(~np.asarray(inside))
    means = [np.mean([costs[i] for i in side]) for side in (inside, outside)]
    errors = np.zeros(len(costs))
    lucks, shortfalls, counts = [], [], []
    for sign, side, mean in zip((1, -1), (inside, outside), means, strict=True):
        own = [(costs[i] - mean) / len(side) for i in side]
        least = together([c - np.mean(costs) for c in costs], units) / (len(costs) * len(side))
        spread = together(own, [units[i] for i in side])
        lucks.append(1.25 * max(spread, least))
        shortfalls.append(1.25 * max(least - spread, 0))
        counts.append(len({units[i] for i in side}) - 1)
        errors[side] = np.multiply(sign, own)
    n = len(set(fits))
    of_fits = max(0, n / (n - 1) * together(errors, fits) - together(errors, list(zip(units, fits, strict=True))))
    variance = 1.25 * together(errors, units) + sum(shortfalls) + of_fits
    doubt = sum(luck**2 / k for luck, k in zip(lucks, counts, strict=True)) + of_fits**2 / (n - 1)
    law = stats.t(variance**2 / doubt)
    half = law.ppf(0.975) * math.sqrt(variance)
    middle = means[0] - means[1]
    return means[0], middle, middle - half, middle + half, 2 * law.sf(abs(middle) / math.sqrt(variance))


@given(st.integers(0, 10**6), st.integers(6, 30), st.booleans(), st.booleans())
def test_differences_are_those_of_brute_force(seed, n, grouped, straddling):
    rng = np.random.default_rng(seed)
    rows = np.tile(np.arange(n), 2)
    units = rows // 3 if grouped else rows
    inside = (rng.random(n) < 0.4 if straddling else np.arange(n) < n // 2)[rows]
    inside[[0, 5, n, n + 5]], inside[[1, 4, n + 1, n + 4]] = True, False
    fits = np.concatenate([rng.permutation(n) % 3 + 3 * repeat for repeat in range(2)])
    costs = rng.choice([0.0, 0.0, 1.0, 5.0], 2 * n)
    costs[0] = 2.0
    result = segment_costs(costs, inside, Evidence.of(fits, units))
    expected = by_hand(costs.tolist(), inside, fits.tolist(), units.tolist())
    got = (result.cost, result.difference, result.difference_low, result.difference_high, result.p)
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_segment_with_a_wide_spread_has_the_interval_of_its_samples_alone():
    rng = np.random.default_rng(0)
    rows = np.tile(np.arange(200), 2)
    fits = np.concatenate([rng.permutation(200) % 5 + 5 * repeat for repeat in range(2)])
    inside = rows < 60
    costs = np.where(inside, rng.choice([0.0, 9.0], 400), rng.choice([0.0, 1.0], 400))
    result = segment_costs(costs, inside, Evidence.of(fits, rows))
    alone = fold_interval(costs[inside], fits[inside], rows[inside])
    assert result[:3] == pytest.approx(tuple(alone))


def test_few_samples_without_an_error_are_not_sure_to_be_free():
    rows = np.arange(300)
    costs = np.where(rows % 10 == 0, 5.0, 0.0)
    inside = (rows < 40) & (rows % 10 > 5)  # 16 rows that all cost nothing
    result = segment_costs(costs, inside, Evidence.of(rows % 5, rows))
    assert result.cost == 0
    assert result.high > 0.5
    assert result.p > 0.05


def test_one_sample_or_one_side_alone_has_no_interval():
    rows = np.arange(20)
    evidence = Evidence.of(rows % 4, rows)
    one = segment_costs(rows.astype(float), rows == 3, evidence)
    assert (one.cost, one.difference) == (3.0, 3.0 - (190 - 3) / 19)
    assert np.isnan([one.low, one.difference_low, one.p]).all()
    everything = segment_costs(rows.astype(float), rows >= 0, evidence)
    assert np.isfinite(everything.low)
    assert math.isnan(everything.difference)
    assert segment_costs(np.zeros(20), rows < 9, evidence).p == 1.0
    with pytest.raises(ValueError, match="at least one sample"):
        segment_costs(rows.astype(float), rows < 0, evidence)


@pytest.mark.weekly
@pytest.mark.parametrize("size", [20, 40, 100, 300])
@pytest.mark.parametrize("inside", [(0.05, 0.15), (0.02, 0.1), (0.1, 0.2)])
def test_intervals_hold_the_truth_as_often_as_they_say(size, inside):
    """Errors of two prices, rare and less rare; a row meets the same fate in both repeats, mostly."""
    rng, n, outside, hits = np.random.default_rng(1), 600, (0.05, 0.15), []
    within = np.arange(n) < size
    dear, cheap = (np.where(within, *pair) for pair in zip(inside, outside, strict=True))
    truth = [5 * miss + alarm for miss, alarm in (inside, outside)]
    for _ in range(500):
        luck, costs = rng.random(n), []
        for _repeat in range(2):
            own = np.where(rng.random(n) < 0.8, luck, rng.random(n))
            costs.append(np.where(own < dear, 5.0, np.where(own < dear + cheap, 1.0, 0.0)))
        fits = np.concatenate([rng.permutation(n) % 5 + 5 * repeat for repeat in range(2)])
        result = segment_costs(np.concatenate(costs), np.tile(within, 2), Evidence.of(fits, np.tile(np.arange(n), 2)))
        gap = truth[0] - truth[1]
        hits.append((result.low <= truth[0] <= result.high, result.difference_low <= gap <= result.difference_high))
    assert (np.mean(hits, axis=0) >= 0.935).all()


# in a comparison


def table(n=240, classes=2, seed=0):
    """Rows whose labels are noise in the west and clear elsewhere."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    region = rng.choice(["north", "west"], n)
    a = np.where(region == "west", rng.normal(size=n), 4 * y + rng.normal(0, 0.3, n))
    return pd.DataFrame({"a": a, "age": rng.integers(18, 80, n), "region": region}), y


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    X, y = table()
    folder = tmp_path_factory.mktemp("runs") / "one"
    costs = CostMatrix(fp=1, fn=5)
    return compare(X, y, costs, repeats=2, segments=["region", "age"], folder=folder, **QUICK), X, y


def test_every_sample_is_in_one_segment_and_counted_as_brute_force_counts(kept):
    result, X, y = kept
    outcome = result.outcome("bayes")
    rows = np.concatenate([split.test_rows for split in result.splits.values()])
    shown = result.by_segment("region").set_index("segment")
    for region, row in shown.iterrows():
        inside = X["region"].to_numpy()[rows] == region
        labels, decided = outcome.labels[inside], outcome.decisions[inside]
        missed, alarmed = (labels == 1) & (decided == 0), (labels == 0) & (decided == 1)
        assert row["rows"] == (X["region"] == region).sum()
        assert row["share"] == pytest.approx((X["region"] == region).mean())
        assert row["positive"] == pytest.approx(y[X["region"] == region].mean())
        assert row["decided"] == pytest.approx(decided.mean())
        assert row["fnr"] == pytest.approx(missed.sum() / (labels == 1).sum())
        assert row["fpr"] == pytest.approx(alarmed.sum() / (labels == 0).sum())
        assert row["cost"] == pytest.approx((5 * missed + alarmed).mean())
        always = 1.0 * (labels == 0)  # the baseline: always predicting positive costs less than threshold 0.5
        assert row["saved"] == pytest.approx((always - (5 * missed + alarmed)).mean())
    assert shown["difference"].sum() == pytest.approx(0)
    assert (shown["low"] >= 0).all()
    assert shown["significance"].tolist() == ["significant difference"] * 2
    assert shown["p"].nunique() == 1  # one question, asked once
    assert list(dict.fromkeys(result.by_segment()["column"])) == ["region", "age"]


def test_more_questions_are_adjusted_for(kept):
    result = kept[0]
    alone, many = result.by_segment("region")["p"].iloc[0], result.by_segment()
    assert len(many) == 7
    assert many["p"].iloc[0] == pytest.approx(6 * alone)


def test_a_folder_keeps_them_and_others_may_be_added(kept):
    result, X, y = kept
    read = load_comparison(result.folder)
    pd.testing.assert_frame_equal(read.by_segment(), result.by_segment())
    more = compare(X, y, CostMatrix(fp=1, fn=5), repeats=2, segments={"odd": y % 2}, folder=result.folder, **QUICK)
    assert set(more.by_segment()["column"]) == {"region", "age", "odd"}
    store = Store.read_only(result.folder)
    with pytest.raises(ValueError, match="no segments of 'data' were kept"):
        compare(X, y, CostMatrix(fp=1, fn=5), repeats=1, **QUICK).by_segment()
    with pytest.raises(ValueError, match="has no column 'town'"):
        result.by_segment("town")
    (path,) = (result.folder / "splits").glob("*segments*")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(StoreError, match="run the comparison again"):
        store.read_segments("data")


def test_more_than_two_classes_count_errors():
    X, y = table(classes=3)
    costs = CostMatrix.from_array([[0, 1, 2], [3, 0, 1], [1, 1, 0]], rows="predicted")
    shown = compare(X, y, costs, repeats=1, segments=["region"], **QUICK).by_segment()
    assert {"wrong", "cost", "significance"} <= set(shown.columns)
    assert "fnr" not in shown.columns
    assert shown.set_index("segment")["wrong"]["west"] > shown.set_index("segment")["wrong"]["north"]


def test_a_notebook_shows_names_letter_by_letter():
    X, y = table()
    name = "<script>alert('x')</script>"
    result = compare(
        X,
        y,
        CostMatrix(fp=1, fn=5),
        repeats=1,
        **QUICK | {"methods": [(name, CostSensitiveClassifier(learner=GaussianNB()))]},
    )
    recommendation = next(iter(result.recommendations.values()))
    for shown in (result, recommendation):
        assert name not in shown._repr_html_()
        assert "&lt;script&gt;alert(" in shown._repr_html_()
