"""Errors of more than two classes, and their page."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.costs.matrix import CostMatrix
from adacsl.report import explorer
from adacsl.report.comparison import PAGE_BYTES, render_report
from adacsl.report.data import Outcome
from adacsl.report.explorer import class_rows
from adacsl.report.sections import multiclass
from adacsl.report.sections.multiclass import heat_map

VIEW = ("lesions", 1.0)


@pytest.fixture(scope="module")
def report(made_classes):
    return made_classes.made_class_report()


@pytest.fixture(scope="module")
def outcome(report):
    return report.outcomes[(*VIEW, "net-bayes")]


@st.composite
def outcomes(draw):
    k, n = draw(st.integers(3, 5)), draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    matrix = rng.integers(1, 9, (k, k)).astype(float)
    if draw(st.booleans()):
        matrix += 0.5  # being right costs too
    np.fill_diagonal(matrix, draw(st.sampled_from([0.0, 0.5, -2.0])))
    if draw(st.booleans()):
        matrix = matrix * rng.uniform(1, 2, (n, 1, 1))  # per-sample costs
    costs = CostMatrix.from_array(matrix, rows="predicted")
    labels, decisions = rng.integers(0, k, (2, n))
    repeats = draw(st.sampled_from([1, 3]))
    return Outcome(rng.dirichlet(np.ones(k), n), labels, decisions, np.zeros(n), matrix=costs, repeats=repeats)


def test_the_heat_map_counts_whole_cases_that_add_up(made_classes):
    twice = made_classes.made_class_report(repeats=2, rows=60, seeds=2)
    outcome = twice.outcomes[(*VIEW, "net-bayes")]
    heat = heat_map(outcome, multiclass.confusion_cells(outcome), twice.terms)
    counts = [[int(cell[4].replace("<1", "0")) for cell in cells] for _, _, cells in heat.rows]
    sizes = np.bincount(outcome.labels, minlength=outcome.n_classes) / 2
    assert [sum(row) for row in counts] == sizes.round().tolist()


@given(outcomes())
def test_cells_and_classes_are_sums_over_the_rows(outcome):
    k, table = outcome.n_classes, outcome.costs.to_array()
    prices = table if table.ndim == 3 else np.broadcast_to(table, (outcome.n, k, k))
    paid = [prices[r, d, a] for r, (d, a) in enumerate(zip(outcome.decisions, outcome.labels, strict=True))]
    cells = multiclass.confusion_cells(outcome)
    assert len(cells) == k * k
    for cell in cells.itertuples():
        here = [(outcome.labels[r], outcome.decisions[r]) == (cell.actual, cell.decided) for r in range(outcome.n)]
        assert cell.count == sum(here) / outcome.repeats
        total = sum(p for p, h in zip(paid, here, strict=True) if h)
        assert cell.total_cost == pytest.approx(total / outcome.repeats)
        mean = prices[:, cell.decided, cell.actual].mean()
        assert cell.mean_cost == pytest.approx(cell.total_cost / cell.count if cell.count else mean)
    assert cells["total_cost"].sum() == pytest.approx(sum(paid) / outcome.repeats)
    for row in multiclass.class_costs(outcome).itertuples():
        own = cells[cells["actual"] == row.Index]
        assert row.n == pytest.approx(own["count"].sum())
        assert row.called == pytest.approx(cells.loc[cells["decided"] == row.Index, "count"].sum())
        assert row.total_cost == pytest.approx(own["total_cost"].sum())
        if row.n:
            assert row.cost == pytest.approx(row.total_cost / row.n)
            assert row.found == pytest.approx(own.loc[own["decided"] == row.Index, "count"].sum() / row.n)
        wrong = own[(own["decided"] != row.Index) & (own["count"] > 0)]
        assert (row.worst == -1) == wrong.empty


@given(st.lists(st.integers(0, 5), min_size=1, max_size=200), st.integers(6, 80))
def test_rows_are_drawn_by_class_and_stand_for_all(labels, limit):
    labels = np.asarray(labels)
    rows, weights = class_rows(labels, 6, limit)
    assert len(rows) <= limit
    assert len(set(rows.tolist())) == len(rows)
    assert len(rows) == min(limit, len(labels)) or len(labels) > limit
    drawn, counts = np.bincount(labels[rows], minlength=6), np.bincount(labels, minlength=6)
    assert np.allclose(drawn * np.asarray(weights), counts)  # no class is lost
    assert (drawn >= np.minimum(counts, limit // 6)).all()
    assert np.array_equal(rows, class_rows(labels, 6, limit)[0])


def test_the_rule_of_a_method_and_its_decisions_are_shown_separately(report, outcome):
    rules = {name: explorer.rule_of(report.outcomes[(*VIEW, name)]) for name in ("net", "net-bayes", "metacost")}
    assert rules == {"net": "likeliest", "net-bayes": "cheapest", "metacost": "kept"}


def test_the_confusion_figure_has_the_money_of_each_cell(outcome):
    cells = multiclass.confusion_cells(outcome)
    figure = multiclass.confusion_figure(cells, ["<b>x</b>", *"bcdefg"], "net-bayes")
    (heat,) = figure.data
    assert pytest.approx(outcome.costs.confusion(outcome.labels, outcome.decisions)) == np.asarray(heat.z).T
    assert heat.x[0] == heat.y[0] == "&lt;b&gt;x&lt;/b&gt;"
    assert figure.layout.title.text == "Errors of net-bayes, by cost"


@pytest.mark.parametrize(("k", "size"), [(3, "few"), (5, "few"), (7, "some"), (12, "many"), (38, "most")])
def test_the_heat_map_shows_everything_in_words(made_classes, k, size):
    names = [f"species {j}" for j in range(k)]
    report = made_classes.made_class_report(names=names, methods={"net-weighted": (1.5, 1.2, "bayes")}, rows=100)
    outcome = report.outcomes[(*VIEW, "net-weighted")]
    cells = multiclass.confusion_cells(outcome)
    heat = heat_map(outcome, cells, report.terms)
    assert heat.size == size
    assert [name for _, name in heat.columns] == names
    assert [head for head, _ in heat.columns] == (names if size == "few" else [str(j + 1) for j in range(k)])
    assert [len(row[2]) for row in heat.rows] == [k] * k
    dark = {(cell[2], cell[1]): cell[6] for _, _, row in heat.rows for cell in row}
    assert all(0.0 <= share <= 1.0 for share in dark.values())
    wrong = cells[cells["actual"] != cells["decided"]].sort_values("total_cost")
    first = wrong.iloc[-1]
    assert dark[first["actual"], first["decided"]] == 1.0
    words = heat.rows[int(first["actual"])][2][int(first["decided"])][7]
    assert words.startswith(f"actual species {first['actual']:.0f}, predicted species {first['decided']:.0f}: ")
    assert f"{first['count']:.0f} samples" in words


def test_short_names_stand_above_their_columns(report, outcome):
    heat = heat_map(outcome, multiclass.confusion_cells(outcome), report.terms)
    assert [head for head, _ in heat.columns] == list(outcome.class_names)
    assert {row[0] for row in heat.rows} == {""}


def test_the_page_has_the_matrix_the_classes_and_no_thresholds(report):
    text = render_report(report)
    for words in (
        "7 classes, a cost for each kind of error", "Try other costs", "Most costly kinds of error",
        "Cost of each class, adacsl-cv", "Mean cost of each class, by method", "AdaCSL: lambda of each class by epoch",
    ):  # fmt: skip
        assert words in text
    body = text[text.index("<main") : text.index('<details id="class-explorer"')]
    for words in ("threshold", "Brier", "Decision curve", "false positive", "Groups of similar score"):
        assert words not in body


def test_a_page_of_two_classes_knows_nothing_of_it(made):
    text = render_report(made(ratios=(8.0,), methods=["net", "net-weighted"], seeds=2, rows=60))
    assert '"class-explorer"' not in text
    assert 'class="heat' not in text


def test_two_and_more_classes_share_a_page(made, made_classes):
    many = made_classes.made_class_report(methods={"net": (1.6, 1.6, "half"), "net-weighted": (1.5, 1.2, "bayes")})
    two = made(ratios=(8.0,), methods=["net", "net-weighted"], seeds=3)
    joined = {
        name: getattr(two, name) | getattr(many, name)
        for name in ("recommendations", "outcomes", "histories", "recommended")
    }
    frames = {name: pd.concat([getattr(two, name), getattr(many, name)]) for name in ("results", "summary")}
    text = render_report(made(ratios=(8.0,), methods=["net", "net-weighted"], seeds=3, **joined, **frames))
    assert "a false negative (“malignant”) costs 8 times a false positive" in text
    assert "<td>as given</td>" in text


def test_rows_with_costs_of_their_own_have_no_explorer(made_classes):
    rng = np.random.default_rng(0)
    report = made_classes.made_class_report(methods={"net-weighted": (1.5, 1.2, "bayes")}, seeds=1)
    outcome = report.outcomes[(*VIEW, "net-weighted")]
    each = outcome.costs.to_array() * rng.uniform(0.5, 2, (outcome.n, 1, 1))
    own = CostMatrix.from_array(each, rows="predicted", classes=outcome.class_names)
    columns = {name: getattr(outcome, name) for name in ("scores", "labels", "decisions", "seeds")}
    text = render_report(
        made_classes.made_class_report(
            methods={"net-weighted": (1.5, 1.2, "bayes")},
            seeds=1,
            outcomes={(*VIEW, "net-weighted"): Outcome(**columns, matrix=own)},
        )
    )
    assert '"samples":[]' in text
    assert "Most costly kinds of error" in text


def test_many_rows_of_many_classes_are_thinned_out(made_classes):
    names = [f"a rather long name of kind {j}" for j in range(38)]
    methods = {name: made_classes.METHODS[name] for name in ("net", "net-weighted", "gbm-bayes", "adacsl-cv")}
    report = made_classes.made_class_report(names=names, rows=5000, methods=methods)
    assert len(render_report(report).encode()) <= PAGE_BYTES + 10_000


def test_hostile_names_are_escaped(made_classes):
    hostile = "</script><img src=x onerror=\"alert('x')\"><b>"
    text = render_report(made_classes.made_class_report(text=lambda value: value + hostile, rows=60, seeds=1))
    assert hostile not in text
    assert "<img" not in text
