"""Regret over a range of prices, against deciding and paying anew at every single price."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.comparison.cost_sensitivity import (
    better_elsewhere,
    costs_at,
    describe,
    find_regret,
    is_cost_aware,
    lowest_cost_of,
    ratio_grid,
    ratio_text,
    regret_of,
    worst_of,
)
from adacsl.comparison.fits import scale_fn
from adacsl.comparison.statistics import RowCosts
from adacsl.report.data import Outcome

SEEDS = 3


def made(seed=0, n=90, *, own=False, sharp=2.0, rule="bayes", right=0.0):
    """Test rows of three splits, decided by costs or blindly."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.3).astype(int)
    logits = sharp * (labels - 0.5) + rng.normal(size=n) - 0.6
    scores = (1 / (1 + np.exp(-logits))).astype(np.float32)
    fn = right + rng.lognormal(2, 1, n) if own else 6.0
    costs = CostMatrix(fp=1.0, fn=fn, tp=right)
    decided = costs.decide(scores.astype(float)) if rule == "bayes" else (scores > 0.5).astype(int)
    return Outcome(scores, labels, decided, np.arange(n) % SEEDS, fp=1.0, fn=fn, tp=right, rule=rule)


def entries(outcomes):
    """Rows and splits of outcomes that have all of them."""
    seeds = next(iter(outcomes.values())).seeds
    rows = np.arange(len(seeds))
    return RowCosts(tuple(outcomes), np.zeros((len(outcomes), len(rows))), rows, seeds, rows)


def by_hand(outcome, factor):
    """The mean of what decisions at this price cost, from the definition."""
    costs = scale_fn(outcome.costs, factor)
    decided = costs.decide(outcome.scores.astype(float)) if outcome.rule == "bayes" else outcome.decisions
    return costs.incurred(outcome.labels, decided).mean()


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 0.5]))
def test_costs_and_regret_are_those_of_every_cost_by_hand(seed, own, right):
    outcomes = {
        "good": made(seed, own=own, sharp=3.0, right=right),
        "poor": made(seed, own=own, sharp=1.0, right=right),
        "blind": made(seed, own=own, sharp=3.0, rule="half", right=right),
    }
    result = find_regret(outcomes, (0.4, 3.0), ratio=6.0, entries=entries(outcomes), recommended="good")
    worst = dict.fromkeys(outcomes, 0.0)
    assert (result.low, result.high) == (pytest.approx(2.4), pytest.approx(18.0))
    for ratio, there in result.curve.groupby("ratio"):
        costs = {name: by_hand(outcome, ratio / 6.0) for name, outcome in outcomes.items()}
        listed = there.set_index("method")
        for name, cost in costs.items():
            extra = cost - min(costs.values())
            assert listed.loc[name, "cost"] == pytest.approx(cost)
            assert listed.loc[name, "regret"] == pytest.approx(extra, abs=1e-9)
            if there["within"].all():
                worst[name] = max(worst[name], 100 * extra / min(costs.values()))
    table = result.table.set_index("method")
    for name, percent in worst.items():
        assert table.loc[name, "percent"] == pytest.approx(percent, abs=1e-6)
    assert result.table["method"].iloc[0] == min(worst, key=worst.get)  # the minimax one comes first
    assert table.loc["blind", "undecided"] == 0.0


@pytest.mark.parametrize("own", [False, True])
def test_at_the_costs_that_were_run_it_is_what_was_paid(own):
    outcome = made(3, own=own)
    (result,) = costs_at({"one": outcome}, np.asarray([1.0]), entries({"one": outcome}))
    np.testing.assert_allclose(result.costs, [outcome.costs.incurred(outcome.labels, outcome.decisions)])
    assert np.array_equal(result.fits, outcome.seeds)


def test_a_method_without_some_splits_has_no_costs_there():
    whole = made(3)
    kept = whole.seeds != 1
    part = Outcome(*(getattr(whole, name)[kept] for name in ("scores", "labels", "decisions", "seeds")), fn=6.0)
    outcomes = {"whole": whole, "part": part}
    for result in costs_at(outcomes, np.asarray([0.5, 1.0, 2.0]), entries(outcomes)):
        assert result.methods == ("part", "whole")
        assert np.array_equal(np.isnan(result.costs), [~kept, np.zeros(len(kept), bool)])
        np.testing.assert_allclose(result.costs[0, kept], result.costs[1, kept])


def test_cost_aware_methods_are_known_by_their_rule_or_else_by_the_decisions():
    assert is_cost_aware(made(rule="bayes"))
    assert not is_cost_aware(made(rule="half"))
    bare = made(rule="bayes")
    assert is_cost_aware(Outcome(bare.scores, bare.labels, bare.decisions, bare.seeds, fp=1.0, fn=6.0))
    blind = made(rule="half")
    assert not is_cost_aware(Outcome(blind.scores, blind.labels, blind.decisions, blind.seeds, fp=1.0, fn=6.0))


def test_costs_looked_at_hold_the_range_and_what_was_run():
    grid = ratio_grid(0.3, 7.0)
    assert {0.3, 7.0, 1.0} <= set(grid.tolist())
    assert grid[0] < 0.3
    assert grid[-1] > 7.0
    assert (np.diff(grid) > 0).all()
    assert len(ratio_grid(2.0, 2.0)) > 10


def blocks_of(costs, spread=0.001):
    """Row costs of two splits at each of several ratios, from means by method."""
    ratios = np.geomspace(1.0, 16.0, len(next(iter(costs.values()))))
    rows, fits = np.arange(40), np.repeat([0, 1], 20)
    noise = spread * np.where(rows % 2, 1.0, -1.0)
    tables = (np.asarray(own, dtype=float)[:, None] + noise for own in zip(*costs.values(), strict=True))
    return [
        (ratio, RowCosts(tuple(costs), t, rows, fits, rows)) for ratio, t in zip(ratios, tables, strict=True)
    ], ratios


def test_stretches_meet_between_two_costs():
    blocks, ratios = blocks_of({"a": [1, 1, 1, 1, 2, 2, 2, 2.0], "b": [2, 2, 2, 2, 1, 1, 1, 1.0]})
    curve = regret_of(blocks, 1.0, 16.0)
    border = np.sqrt(ratios[3] * ratios[4])
    result = lowest_cost_of(curve)
    assert result["method"].tolist() == ["a", "b"]
    assert result[["low", "high"]].to_numpy().ravel() == pytest.approx([1.0, border, border, 16.0])
    ((low, high, name),) = better_elsewhere(curve, "a", own=1.0)
    assert (low, high, name) == (pytest.approx(border), 16.0, "b")
    worst = worst_of(curve).set_index("method")
    assert worst.loc["a", "percent"] == pytest.approx(100, rel=0.01)
    assert worst.loc["a", "cheapest"] == 0.5


def test_single_costs_that_flicker_make_no_stretch():
    rng = np.random.default_rng(0)
    blocks, _ = blocks_of({"a": [1.0] * 24, "b": [1.0] * 24})
    for _, rows in blocks:
        rows.costs[1] += rng.normal(0, 0.2, rows.costs.shape[1])
    assert list(better_elsewhere(regret_of(blocks, 1.0, 16.0), "a", own=4.0)) == []


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ({"a": [1] * 8, "b": [2] * 8}, ["a costs least at every ratio"]),
        (
            {"a": [2, 2, 2, 2, 1, 1, 1, 1], "b": [1, 1, 1, 1, 2, 2, 2, 2]},
            ["a costs at most 100 % more", "Below 4 : 1 b costs significantly less"],
        ),
        ({"a": [1, 1, 1, 1, 1, 3, 3, 3], "b": [2] * 8}, ["Above 5.9 : 1 b costs significantly less", "most at"]),
        ({"a": [1] * 8, "b": [0] * 8}, ["at most 1 per sample more", "At all of these ratios"]),
        ({"a": [1.005] * 8, "b": [1] * 8}, ["at most 0.5 %", "No other method costs significantly less"]),
    ],
)
def test_words_say_when_to_take_another(costs, expected):
    blocks, _ = blocks_of({name: list(map(float, own)) for name, own in costs.items()}, spread=0.0)
    curve = regret_of(blocks, 1.0, 16.0)
    outcomes = {"a": made(), "b": made(rule="half")}
    result = find_regret(outcomes, (0.5, 2.0), ratio=4.0, entries=entries(outcomes), recommended="a")
    table = worst_of(curve).assign(undecided=0.25)
    result = result._replace(curve=curve, table=table, cheapest=lowest_cost_of(curve), low=1.0, high=16.0)
    text = describe(result, "a")
    assert text.startswith("If a false negative costs 1 to 16 false positives, a costs")
    for part in (*expected, "25 % of its predictions depend"):
        assert part in text
    assert describe(result, "unknown") == ""


def test_one_split_alone_states_that_it_may_be_chance():
    outcomes = {"a": made(1, sharp=0.5), "b": made(1, sharp=4.0)}
    outcomes = {
        name: Outcome(one.scores, one.labels, one.decisions, np.zeros(one.n), fp=1.0, fn=6.0)
        for name, one in outcomes.items()
    }
    result = find_regret(outcomes, (0.5, 2.0), ratio=6.0, entries=entries(outcomes), recommended="a", given=False)
    assert "one split: no test" in result.words
    assert "half to double, as no range was given" in result.words


@pytest.mark.parametrize(("ratio", "text"), [(6.25, "6.2 : 1"), (20, "20 : 1"), (0.2, "1 : 5"), (1e6, "1,000,000 : 1")])
def test_ratios_as_users_write_them(ratio, text):
    assert ratio_text(ratio) == text
