"""Results in a notebook: every result class, with everything escaped."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adacsl
from adacsl import CostMatrix, Decision, Policy
from adacsl.base.html import describe, html_table
from adacsl.metrics import Interval
from adacsl.thresholds.uncertainty import tune_threshold
from tests.made import logistic

HOSTILE = "</td><script>alert('x')</script>\"'&"
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "strong", "br"}
SCORES, LABELS = np.asarray([0.1, 0.3, 0.6, 0.8] * 5), np.asarray([0, 1, 0, 1] * 5)


class Reader(HTMLParser):
    """The tags of a text, that every one is closed, and what is read between them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.text = set(), [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(result):
    """The text of a result in a notebook, which has only the tags we write."""
    reader = Reader(result._repr_html_())
    assert not reader.open
    assert reader.tags <= TAGS
    return " ".join(reader.text)


TEXTS = st.text("<>&;\"'/abtd \n", max_size=12)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3), TEXTS)
def test_any_text_is_shown_letter_by_letter(rows, title):
    html = html_table(rows, ["", title], title)
    reader = Reader(html)
    assert not reader.open
    assert reader.tags <= TAGS
    expected = "".join([title, title, *(cell for row in rows for cell in row)])
    assert "".join(reader.text) == expected


def test_values_are_written_as_people_read_them():
    assert describe(Interval(0.5, 0.25, 0.75)) == "0.5 (0.25 to 0.75)"
    assert describe(np.arange(10) / 10) == "10 numbers, 0 to 0.9"
    assert describe(np.float64(1 / 3)) == "0.333333"
    assert describe(np.asarray(["a", "b"])) == "a, b"
    assert describe(12) == "12"
    assert describe(True) == "True"


def test_cost_matrices_show_what_each_decision_costs():
    assert read(CostMatrix(fp=1, fn=8)) == (
        "What each decision costs true negative true positive decided negative 0 8 decided positive 1 0"
    )
    assert "5 to 20" in read(CostMatrix(fp=1, fn=(5, 20)))
    assert "0.8 * amount" in read(CostMatrix(fp=1, fn="0.8 * amount"))
    assert "3 values, mean 2" in read(CostMatrix(fp=1, fn=np.asarray([1.0, 2.0, 3.0])))
    many = CostMatrix.from_array(1 - np.eye(30), rows="predicted")
    assert "first 10 classes of 30" in read(many)
    assert many._repr_html_().count("<tr>") < 15
    named = CostMatrix.from_array([[0, 1], [2, 0]], rows="predicted", classes=["well", HOSTILE])
    assert HOSTILE in read(named)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            adacsl.find_threshold(SCORES, LABELS, CostMatrix(fp=1, fn=8)),
            r"Cost-optimal threshold value 0\.3 cost 0\.25 total cost 5",
        ),
        (adacsl.cost_curve(SCORES, LABELS, CostMatrix(fp=1, fn=8)), r"Cost of every threshold thresholds 0\.1, 0\.1"),
        (Interval(0.08, 0.0, 0.24), "estimate 0.08 low 0 high 0.24"),
        (tune_threshold(SCORES, LABELS, CostMatrix(fp=1, fn=8)), "and its uncertainty"),
        (adacsl.thresholds.brier_curve(SCORES, LABELS), "Curve .* area"),
        (adacsl.thresholds.decision_curve(SCORES, LABELS), "thresholds 99 numbers, 0.01 to 0.99"),
        (adacsl.metrics.calibration_error(SCORES, LABELS), "Calibration .* error"),
        (
            adacsl.thresholds.find_multipliers(
                np.eye(3), [0, 1, 2], CostMatrix.from_array(1 - np.eye(3), rows="predicted")
            ),
            "Multipliers of the classes values",
        ),
        (Decision(CostMatrix(fp=1, fn=8), "calibrated").fit(SCORES, LABELS), "decide calibrated .* What each"),
        (Decision(CostMatrix.from_array(1 - np.eye(3), rows="predicted")), "decide bayes .* true 2"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_results_are_tables(result, text):
    assert re.search(text, read(result))


@pytest.fixture(scope="module")
def hostile():
    """A table whose names and labels would be code."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = pd.DataFrame({HOSTILE: y + rng.normal(size=200), "b": rng.normal(size=200)})
    return X, np.where(y == 1, HOSTILE, "well")


def test_what_estimators_find_is_escaped(hostile):
    X, y = hostile
    costs = CostMatrix(fp=1, fn=8)
    model = logistic(costs, pos_label=HOSTILE).fit(X, y)
    assert HOSTILE in read(model.decisions(X, policy=Policy(capacity=5)))
    assert HOSTILE in read(adacsl.monitor(model, X, y))
    assert "<script>alert" not in model._repr_html_()
