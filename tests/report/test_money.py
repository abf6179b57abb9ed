"""Money paid and saved, and the errors among whole samples."""

from dataclasses import replace

import numpy as np
import pytest

from adacsl.metrics.intervals import Interval
from adacsl.report.apportionment import whole_confusion
from adacsl.report.comparison import money_input, summary_input
from adacsl.report.data import Saved
from adacsl.report.sections.money import money_rows, money_words, people_cards, people_matrix, people_words
from adacsl.report.sections.summary import headline_and_lead


@pytest.fixture(scope="module")
def report(made):
    small = made(ratios=(8.0,), rows=50, seeds=2, methods=["net", "adacsl-cv"])
    (view,) = small.views
    paid = small.summary_of(view).set_index("method")["cost"][small.recommended_of(view)]
    today = small.outcomes[(*view, "net")]
    saved = Saved(
        "threshold 0.5", Interval(40.0, 20.0, 60.0), Interval(0.2, 0.1, 0.3), Interval(paid + 0.2, 0.3, 0.9), today
    )
    return replace(small, savings={view: saved}, volume=50_000, people="patients")


def test_money_is_per_sample_and_per_year(report):
    (view,) = report.views
    money = money_input(report, view)
    each = money.each
    assert each["baseline"].estimate == pytest.approx(each["recommended"].estimate + each["saved"].estimate)
    rows = money_rows(money)
    assert rows.headers[1:] == ["per sample, EUR", "a year, 50,000 patients, EUR"]
    assert [row[0] for row in rows.rows] == ["baseline: threshold 0.5", "adacsl-cv", "saved"]
    assert rows.rows[2][1:] == ["0.200 (0.100 to 0.300)", "10,000 (5,000 to 15,000)"]
    own = replace(report, savings={view: report.savings[view]._replace(against="your current decisions")})
    assert money_rows(money_input(own, view)).rows[0][0] == "your current decisions"
    assert len(money_rows(money_input(replace(report, volume=None), view)).headers) == 2
    with pytest.raises(ValueError, match="volume is a number of decisions per year above 0"):
        replace(report, volume=-1)


def test_headline_sentence_and_table_have_the_same_amounts(report):
    (view,) = report.views
    headline, lead = headline_and_lead(summary_input(report, view))
    assert headline == "Saves 10,000 EUR a year (95 % CI 5,000 to 15,000) against threshold 0.5"
    assert lead == report.recommendations[view]
    assert money_words(money_input(report, view)) == (
        "adacsl-cv saves 10,000 EUR in a year of 50,000 patients against threshold 0.5 (95 % CI 5,000 to 15,000 EUR)."
    )
    each = replace(report, volume=None)
    headline, _ = headline_and_lead(summary_input(each, view))
    assert headline == "Saves 0.200 EUR per sample (95 % CI 0.100 to 0.300) against threshold 0.5"
    assert money_rows(money_input(each, view)).rows[2][1] == "0.200 (0.100 to 0.300)"
    headline, _ = headline_and_lead(summary_input(replace(each, unit=""), view))
    assert headline == "40 % lower cost (95 % CI 20-60 %) than threshold 0.5"


def test_a_loss_and_what_is_not_significant_are_named(report):
    (view,) = report.views
    known = report.savings[view]
    both = known._replace(other="always predicting sick", other_cost=0.75)
    words = money_words(money_input(replace(report, savings={view: both}), view))
    assert "Always predicting sick would cost 37,500 EUR." in words
    unsure = replace(report, savings={view: known._replace(each=Interval(-0.02, -0.12, 0.08))}, unit="", volume=None)
    assert money_words(money_input(unsure, view)) == (
        "adacsl-cv costs 0.020 more per sample against threshold 0.5 (95 % CI \u22120.080 to 0.120). The difference is "
        "not significant."
    )
    same = replace(report, savings={view: known._replace(each=Interval(0.0, 0.0, 0.0))})
    assert money_words(money_input(same, view)) == "adacsl-cv costs the same as threshold 0.5 for every sample."


def test_errors_are_natural_frequencies_with_the_baseline_and_with_the_method(report):
    (view,) = report.views
    before, after = people_cards(money_input(report, view))
    assert before.title == "Of 1,000 patients, with threshold 0.5"
    assert after.title == "Of 1,000 patients, with adacsl-cv"
    outcome = report.outcomes[(*view, "adacsl-cv")]
    (tn, fp), (fn, tp) = whole_confusion(outcome, 1000)
    assert after.result == people_words(outcome, 1000, report.terms)
    assert after.result == (
        f"{fn + tp} of 1,000 are “malignant”, {fn} of them false negatives. Of the {tn + fp} that are “benign”, "
        f"{fp} are false positives."
    )
    assert after.matrix.headers == [f"predicted malignant: {tp + fp}", f"predicted benign: {fn + tn}"]
    assert [name for name, _ in after.matrix.rows] == [f"malignant: {fn + tp}", f"benign: {tn + fp}"]
    shown = {cell.outcome: (cell.amount, cell.remark) for _, cells in after.matrix.rows for cell in cells}
    assert shown["fn"] == (str(fn), "8 EUR each")
    assert shown["tn"] == (str(tn), "no cost")
    amounts = np.where(np.arange(outcome.n) % 2, 4.0, 12.0)
    paid = replace(outcome, fn=amounts).costs.incurred(outcome.labels, outcome.decisions)
    mean = paid[(outcome.labels == 1) & (outcome.decisions == 0)].mean()
    matrix = people_matrix(replace(outcome, fn=amounts), 1000, report.terms)
    each = {cell.outcome: cell.remark for _, cells in matrix.rows for cell in cells}
    assert each["fn"] == f"{mean:.3g} EUR each on average"
    assert each["fp"] == "1 EUR each"


def test_many_classes_say_how_many_are_wrong(made_classes):
    report = made_classes.made_class_report(rows=40, seeds=2)
    (view,) = report.views[:1]
    outcome = report.outcomes[(*view, report.recommended_of(view))]
    cells = whole_confusion(outcome, 1000)
    text = people_words(outcome, 1000, report.terms)
    assert text.startswith(f"{cells.trace()} predictions are right, {1000 - cells.trace()} wrong; most often “")
