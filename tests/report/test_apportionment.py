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
from adacsl.report.apportionment import money_each, money_table, money_texts, whole, whole_confusion
from adacsl.report.data import Outcome, Saved
from adacsl.report.sections.money import money_rows, money_tile, money_words, people_cards, people_words
from adacsl.report.tables import people_matrix

AMOUNTS = st.lists(st.floats(0, 50), min_size=1, max_size=4).filter(lambda some: sum(some) > 0.1)


@given(AMOUNTS, st.integers(0, 12))
def test_whole_numbers_add_up_and_are_as_near_as_whole_numbers_can_be(amounts, total):
    found = whole(amounts, total)
    exact = np.asarray(amounts) * total / sum(amounts)
    assert found.sum() == total
    assert (np.abs(found - exact) < 1 + 1e-6).all()
    every = (some for some in itertools.product(range(total + 1), repeat=len(amounts)) if sum(some) == total)
    nearest = min(np.abs(np.asarray(some) - exact).sum() for some in every)
    assert np.abs(found - exact).sum() == pytest.approx(nearest, abs=1e-6)


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
    each = {"today": paid + saved, "recommended": paid, "saved": saved}
    texts = money_texts({what: Interval(value, value / 2, value * 2) for what, value in each.items()}, count)
    shown = {what: float(text.replace(",", "")) for what, (text, _) in texts.items()}
    assert shown["today"] == pytest.approx(shown["recommended"] + shown["saved"], rel=1e-9)
    for what, value in each.items():
        assert shown[what] == pytest.approx(value * count, abs=0.021 * (paid + saved) * count)


def test_thousand_times_as_much_has_the_same_digits():
    each = {"saved": Interval(0.3325, 0.2081, 0.457)}
    small, large = (money_texts(each, count)["saved"][0] for count in (1, 1000))
    assert float(large) == pytest.approx(1000 * float(small))
    assert money_texts({"saved": Interval(-12.3, np.nan, np.nan)}, 50_000)["saved"] == ("\u2212615,000", "")


@pytest.fixture(scope="module")
def report(made):
    small = made(ratios=(8.0,), rows=50, seeds=2, methods=["ce", "adacsl-cv"])
    (view,) = small.views
    paid = small.summary_of(view).set_index("method")["cost"][small.recommended_of(view)]
    today = small.outcomes[(*view, "ce")]
    saved = Saved(
        "threshold 0.5", Interval(40.0, 20.0, 60.0), Interval(0.2, 0.1, 0.3), Interval(paid + 0.2, 0.3, 0.9), today
    )
    return replace(small, savings={view: saved}, volume=50_000, people="patients")


def test_money_is_per_row_per_thousand_and_per_year(report):
    (view,) = report.views
    table = money_table(report, view).set_index(["what", "people"])
    assert table.loc[("saved", 50_000)].tolist() == pytest.approx([10_000, 5_000, 15_000])
    assert table.loc[("saved", 1000)].tolist() == pytest.approx([200, 100, 300])
    own = replace(report, savings={view: report.savings[view]._replace(against="your current decisions")})
    assert money_rows(own, view).rows[0][0] == "your current decisions"
    each = money_each(report, view)
    assert each["today"].estimate == pytest.approx(each["recommended"].estimate + each["saved"].estimate)
    rows = money_rows(report, view)
    assert rows.headers[2:] == ["per 1,000 patients, EUR", "a year, 50,000 patients, EUR"]
    assert [row[0] for row in rows.rows] == ["baseline: threshold 0.5", "adacsl-cv", "saved"]
    assert rows.rows[2][3] == "10,000 (5,000 to 15,000)"
    plain = replace(report, volume=None)
    assert len(money_rows(plain, view).headers) == 3
    assert money_tile(plain, view) == ("Saved per 1,000 patients", "200 EUR", "95 % CI 100 to 300")


def test_words_say_what_is_saved_and_how_sure_that_is(report):
    (view,) = report.views
    assert money_words(report, view) == (
        "adacsl-cv saves about 10,000 EUR in a year of 50,000 patients, against threshold 0.5. "
        "95 % CI of the saving: 5,000 to 15,000 EUR."
    )
    both = report.savings[view]._replace(other="always predicting sick", other_cost=0.75)
    assert "Always predicting sick would cost 37,500 EUR." in money_words(replace(report, savings={view: both}), view)
    known = report.savings[view]
    unsure = replace(report, savings={view: known._replace(each=Interval(-0.02, -0.12, 0.08))}, unit="", volume=None)
    assert money_words(unsure, view) == (
        "adacsl-cv costs about 20 more per 1,000 patients, against threshold 0.5. 95 % CI of the loss: "
        "\u221280 to 120. The difference is not significant."
    )
    assert money_tile(unsure, view)[:2] == ("Costs more per 1,000 patients", "20")
    with pytest.raises(ValueError, match="volume is a number of decisions per year above 0"):
        replace(report, volume=-1)


def test_people_are_told_in_natural_frequencies_of_today_and_then(report):
    (view,) = report.views
    before, after = people_cards(report, view, "v")
    assert before.title == "Of 1,000 patients, with threshold 0.5"
    assert after.title == "Of 1,000 patients, with adacsl-cv"
    outcome = report.outcomes[(*view, "adacsl-cv")]
    (passed, alarmed), (missed, caught) = whole_confusion(outcome, 1000)
    assert after.say == people_words(report, outcome, 1000)
    assert after.say.startswith(
        f"{missed + caught} of 1,000 are “malignant”: {caught} of them are called so, {missed} "
    )
    assert f"Of the {passed + alarmed} that are “benign”, {alarmed} are called “malignant” wrongly." in after.say
    assert after.matrix.headers == [f"decided malignant: {caught + alarmed}", f"decided benign: {missed + passed}"]
    sums = [name for name, _ in after.matrix.rows]
    assert sums == [f"malignant: {missed + caught}", f"benign: {passed + alarmed}"]
    shown = {name: (count, each) for _, cells in after.matrix.rows for name, count, each, _ in cells}
    assert shown["fn"] == (str(missed), "8 EUR each")
    assert shown["tn"] == (str(passed), "no cost")
    amounts = np.where(np.arange(outcome.n) % 2, 4.0, 12.0)
    paid = replace(outcome, fn=amounts).costs.incurred(outcome.labels, outcome.decisions)
    mean = paid[(outcome.labels == 1) & (outcome.decisions == 0)].mean()
    matrix = people_matrix(report, replace(outcome, fn=amounts), 1000)
    each = {name: words for _, cells in matrix.rows for name, _, words, _ in cells}
    assert each["fn"] == f"{mean:.3g} EUR each on average"
    assert each["fp"] == "1 EUR each"


def test_many_classes_say_how_many_are_wrong(made_classes):
    report = made_classes.made_class_report(rows=40, seeds=2)
    (view,) = report.views[:1]
    outcome = report.outcomes[(*view, report.recommended_of(view))]
    cells = whole_confusion(outcome, 1000)
    text = people_words(report, outcome, 1000)
    assert text.startswith(f"{cells.trace()} are decided rightly, {1000 - cells.trace()} wrongly; most often “")
