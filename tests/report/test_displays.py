"""Curves in scikit-learn's manner: their numbers by brute force, and what is drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.report import BrierCurveDisplay, CostCurveDisplay, DecisionCurveDisplay

matplotlib = pytest.importorskip("matplotlib")
ROWS = st.lists(st.tuples(st.integers(0, 20).map(lambda k: k / 20), st.integers(0, 1)), min_size=3, max_size=25)
COSTS = CostMatrix(fp=1, fn=8)


@pytest.fixture
def axes():
    """Axes that belong to no window."""
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def two_classes(rows):
    scores, labels = (np.asarray(part) for part in zip(*rows, strict=True))
    labels[:2] = 0, 1
    return scores, labels


@given(ROWS, st.floats(0, 1))
def test_costs_of_thresholds_are_those_of_deciding_there(rows, at):
    scores, labels = two_classes(rows)
    shown = CostCurveDisplay.from_predictions(labels, scores, COSTS, plot=False)
    table = shown.frame()
    place = int(np.flatnonzero(table["threshold"] <= at)[-1])
    decided = (scores > at).astype(int)
    assert table["cost"][place] == pytest.approx(COSTS.mean(labels, decided))
    assert table["false_negatives"][place] == pytest.approx(8 * ((labels == 1) & (decided == 0)).mean())
    assert table["false_positives"][place] == pytest.approx(((labels == 0) & (decided == 1)).mean())
    assert shown.optimum[1] == pytest.approx(table["cost"].min())
    assert shown.bayes == pytest.approx(1 / 9)


@given(ROWS)
def test_the_brier_curve_holds_the_brier_score_and_lies_above_the_best(rows):
    scores, labels = two_classes(rows)
    table = BrierCurveDisplay.from_predictions(labels, scores, plot=False).frame()
    area = np.trapezoid(table["loss"], table["proportion"])
    assert area == pytest.approx(np.mean((scores - labels) ** 2))
    assert (table["best"] <= table["loss"] + 1e-12).all()
    for c, best in zip(table["proportion"], table["best"], strict=True):
        losses = [2 * (c * ((labels == 0) & (scores > t)).mean() + (1 - c) * ((labels == 1) & (scores <= t)).mean())
                  for t in (-1, *scores)]  # fmt: skip
        assert best == pytest.approx(min(losses), abs=1e-9)


@given(ROWS)
def test_net_benefit_is_that_of_the_formula(rows):
    scores, labels = two_classes(rows)
    for row in DecisionCurveDisplay.from_predictions(labels, scores, plot=False).frame().itertuples():
        odds = row.threshold / (1 - row.threshold)
        hits, false_positives = (
            ((labels == 1) & (scores > row.threshold)).mean(),
            ((labels == 0) & (scores > row.threshold)).mean(),
        )
        assert row.net_benefit == pytest.approx(hits - odds * false_positives)
        assert row.treat_all == pytest.approx(labels.mean() - odds * (1 - labels.mean()))


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    X = np.column_stack((y + rng.normal(size=120), rng.normal(size=120)))
    words = np.where(y == 1, "bad", "good")
    model = CostSensitiveClassifier(COSTS, learner=LogisticRegression(), pos_label="bad", random_state=0).fit(X, words)
    return model, LogisticRegression().fit(X, y), X, words, y


def test_an_estimator_is_drawn_with_its_own_costs_and_positive_class(fitted, axes):
    model, _, X, words, y = fitted
    shown = CostCurveDisplay.from_estimator(model, X, words, ax=axes, color="red")
    scores = model.predict_proba(X)[:, list(model.classes_).index("bad")]
    by_hand = CostCurveDisplay.from_predictions(y, scores, COSTS, plot=False)
    assert shown.frame().equals(by_hand.frame())
    assert shown.ax_ is axes
    assert shown.figure_ is axes.figure
    assert shown.line_.get_color() == "red"
    assert shown.line_.get_label() == "CostSensitiveClassifier"
    np.testing.assert_array_equal(shown.line_.get_ydata(), shown.frame()["cost"])
    assert axes.get_xlabel() == "threshold"
    assert shown.plot(axes, name="again").line_.get_label() == "again"


@pytest.mark.parametrize("display", [BrierCurveDisplay, DecisionCurveDisplay])
def test_curves_share_axes_and_their_guides(fitted, axes, display):
    model, plain, X, words, y = fitted
    display.from_estimator(model, X, words, ax=axes, name="ours")
    display.from_estimator(plain, X, y, ax=axes)
    labels = axes.get_legend_handles_labels()[1]
    assert {"ours", "LogisticRegression"} < set(labels)
    assert len(set(labels)) == len(labels)
    highest = max(line.get_ydata().max() for line in axes.lines if len(line.get_ydata()))
    assert axes.get_ylim()[1] >= highest


def test_a_figure_of_its_own_is_made_where_none_is_given(fitted):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    shown = DecisionCurveDisplay.from_predictions(fitted[4], fitted[1].predict_proba(fitted[2])[:, 1])
    assert shown.figure_ is shown.ax_.figure
    pyplot.close(shown.figure_)


def test_rows_with_costs_of_their_own_have_no_bayes_line(fitted, axes):
    y = fitted[4]
    costs = CostMatrix(fp=1, fn=np.linspace(1, 9, len(y)))
    shown = CostCurveDisplay.from_predictions(y, np.linspace(0, 1, len(y)), costs, ax=axes)
    assert shown.bayes is None
    assert "Bayes threshold" not in axes.get_legend_handles_labels()[1]


def test_what_cannot_be_drawn_is_reported(fitted):
    _, plain, X, words, y = fitted
    with pytest.raises(ValueError, match="has no costs"):
        CostCurveDisplay.from_estimator(plain, X, y)
    with pytest.raises(ValueError, match="no predict_proba"):
        BrierCurveDisplay.from_estimator(LinearSVC().fit(X, y), X, y)
    with pytest.raises(ValueError, match="name the positive label"):
        BrierCurveDisplay.from_predictions(words, y)
    with pytest.raises(ValueError, match=r"name the positive label, pos_label='bad' or pos_label='good'"):
        BrierCurveDisplay.from_estimator(LogisticRegression().fit(X, np.where(y == 1, "bad", "good")), X, y)
    with pytest.raises(ValueError, match="pos_label must be one of"):
        BrierCurveDisplay.from_estimator(plain, X, y, pos_label="bad")
    three = LogisticRegression().fit(X, np.arange(len(y)) % 3)
    with pytest.raises(ValueError, match="for two classes"):
        DecisionCurveDisplay.from_estimator(three, X, y)
