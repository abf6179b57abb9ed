"""Whole people that add up, and money per 1,000 and per year."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.intervals import Interval
from adacsl.report import apportionment
from adacsl.report.apportionment import money_texts, whole, whole_confusion
from adacsl.report.data import Outcome

AMOUNTS = st.lists(st.floats(0, 50), min_size=1, max_size=4).filter(lambda some: sum(some) > 0.1)


@given(AMOUNTS, st.integers(0, 12))
def test_whole_numbers_add_up_and_are_as_near_as_whole_numbers_can_be(amounts, total):
    result = whole(amounts, total)
    exact = np.asarray(amounts) * total / sum(amounts)
    assert result.sum() == total
    assert (np.abs(result - exact) < 1 + 1e-6).all()
    every = (some for some in itertools.product(range(total + 1), repeat=len(amounts)) if sum(some) == total)
    nearest = min(np.abs(np.asarray(some) - exact).sum() for some in every)
    assert np.abs(result - exact).sum() == pytest.approx(nearest, abs=1e-6)


def test_of_equal_remainders_the_one_that_is_last_waits():
    assert whole([0.5, 1.5], 2).tolist() == [1, 1]
    assert whole([0.5, 1.5], 2, last=0).tolist() == [0, 2]
    assert whole([0.0, 0.0], 0).tolist() == [0, 0]


def outcomes(n_classes):
    rows = st.lists(st.tuples(*[st.integers(0, n_classes - 1)] * 3), min_size=1, max_size=40)

    def made(rows):
        labels, first, second = np.array(rows).T
        fields = {"labels": np.tile(labels, 2), "decisions": np.concatenate([first, second]), "repeats": 2}
        if n_classes == 2:
            return Outcome(np.full(2 * len(rows), 0.5), seeds=np.zeros(2 * len(rows)), fp=1.0, fn=8.0, **fields)
        matrix = CostMatrix.from_array(1.0 - np.eye(n_classes), rows="predicted")
        scores = np.full((2 * len(rows), n_classes), 1 / n_classes)
        return Outcome(scores, seeds=np.zeros(2 * len(rows)), matrix=matrix, **fields)

    return rows.map(made)


@given(st.one_of(outcomes(2), outcomes(3)), st.sampled_from([None, 1, 7, 1000]))
def test_whole_people_add_up_to_their_classes_and_to_all(outcome, total):
    cells = whole_confusion(outcome, total)
    sizes = np.bincount(outcome.labels, minlength=outcome.n_classes) / 2
    assert cells.sum() == (outcome.n // 2 if total is None else total)
    assert (np.abs(cells.sum(axis=1) - sizes * cells.sum() / sizes.sum()) < 1).all()
    for actual, decided in np.ndindex(cells.shape):
        share = ((outcome.labels == actual) & (outcome.decisions == decided)).sum() / 2 / max(sizes[actual], 0.5)
        assert abs(cells[actual, decided] - share * cells[actual].sum()) < 1
    if total is None:
        assert cells.sum(axis=1).tolist() == sizes.tolist()


def test_what_repeats_decide_differently_counts_as_an_error():
    outcome = Outcome(np.full(4, 0.5), [1, 0, 1, 0], [0, 1, 1, 0], np.zeros(4), repeats=2)
    assert whole_confusion(outcome).tolist() == [[0, 1], [1, 0]]


def test_more_people_are_spoken_of_where_a_class_is_rare():
    labels = np.arange(5000) < 3
    rare = Outcome(np.full(5000, 0.5), labels, labels, np.zeros(5000))
    assert apportionment.people_spoken_of(rare) == 100_000
    assert apportionment.people_spoken_of(replace(rare, labels=np.arange(5000) < 50)) == 1000
    assert apportionment.people_spoken_of(replace(rare, labels=np.zeros(5000))) == 1000


# money

SIZES = st.floats(0.01, 1e4)


@given(paid=SIZES, saved=SIZES, count=st.sampled_from([1, 1000, 50_000]))
def test_money_adds_up_as_it_is_shown(paid, saved, count):
    each = {"baseline": paid + saved, "recommended": paid, "saved": saved}
    texts = money_texts({what: Interval(value, value / 2, value * 2) for what, value in each.items()}, count)
    shown = {what: float(text.replace(",", "")) for what, (text, _) in texts.items()}
    assert shown["baseline"] == pytest.approx(shown["recommended"] + shown["saved"], rel=1e-9)
    for what, value in each.items():
        assert shown[what] == pytest.approx(value * count, abs=0.021 * (paid + saved) * count)


def test_amounts_have_three_digits_and_a_minus():
    assert money_texts({"saved": Interval(-12.3, np.nan, np.nan)}, 50_000)["saved"] == ("\u2212615,000", "")
    assert money_texts({"saved": Interval(0.3325, 0.2081, 0.457)}, 1)["saved"] == ("0.333", "0.208 to 0.457")
