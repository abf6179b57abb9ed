"""What the page states about segments, the data and drivers."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from adacsl.datasets.overview import overview_frame
from adacsl.report.comparison import render_report, report_page
from adacsl.report.data import Terms
from adacsl.report.markdown import to_markdown
from adacsl.report.page import cards_of
from adacsl.report.sections.about import Data, data_section, stakes_figure
from adacsl.report.sections.importance import Importance, importance_section, importance_words
from adacsl.report.sections.segments import Segments, rates_figure, segment_figure, segments_section
from adacsl.report.style import PALETTES

HOSTILE = "</script><img src=x onerror=\"alert('x')\">%{x}"
VIEW = ("breast-cancer", 8.0)


def segments(column="region", names=("north", "west", "(missing)"), told="west"):
    n = len(names)
    difference = np.asarray([-0.2, 0.5, 0.1][:n])
    frame = pd.DataFrame(
        {
            "column": column, "segment": names, "rows": [700, 480, 20][:n], "share": [0.6, 0.38, 0.02][:n],
            "positive": 0.3, "decided": 0.4, "fnr": [0.1, 0.3, np.nan][:n], "fnr_low": 0.05, "fnr_high": 0.35,
            "fpr": 0.2, "fpr_low": 0.1, "fpr_high": 0.3, "cost": [0.5, 1.2, 0.8][:n], "low": 0.4, "high": 1.4,
            "difference": difference, "difference_low": difference - 0.1, "difference_high": difference + 0.1,
            "p": 0.01, "saved": 0.25, "saved_low": 0.125, "saved_high": 0.375,
        }
    )  # fmt: skip
    return frame.assign(
        significance=np.where(frame["segment"] == told, "significant difference", "no significant difference")
    )


OVERVIEW = {
    "rows": 1000,
    "n_columns": 14,
    "columns": [
        {"column": f"c{i}", "kind": "text", "missing": 5 * i, "distinct": 3, "values": "Ulm 60 %"} for i in range(13)
    ],
    "classes": [
        {"name": "benign", "rows": 700, "at_stake": 700.0},
        {"name": "malignant", "rows": 300, "at_stake": 2100.0},
    ],
}


@pytest.fixture(scope="module")
def small(made):
    return made(
        ratios=(8.0,), rows=30, seeds=2, methods=["net", "adacsl-cv"], people="patients",
        segments={VIEW: pd.concat([segments(), segments("samples", ("a", "b"), told="")])},
        overview={VIEW[0]: overview_frame(OVERVIEW, "A false negative costs 8, a false positive 1")},
        explained={VIEW: pd.DataFrame({"column": ["age", "job"], "cost": [0.2, 0.1], "low": [0.1, -0.1], "high": 0.3})},
    )  # fmt: skip


def shown_cards(report):
    return {card.id: card for _, card in cards_of(report_page(report))}


def section_rows(table, **terms):
    named = {"classes": ("benign", "malignant"), "unit": "EUR"} | terms
    return segments_section(Segments(table, Terms(**named))).rows


def test_segments_have_figures_and_a_table_for_each_column(small):
    rows = section_rows(small.segments[VIEW])
    assert [len(row) for row in rows] == [2, 1, 2, 1]
    cost, rates = rows[0]
    assert (
        cost.result == "By “region”, a sample of “west” costs 0.500 EUR (0.400 to 0.600) more than one of all others."
    )
    assert "no segment differs significantly" in rows[2][0].result
    assert rates.result.startswith("False negative rate: from 10\u00a0% in “north” to 30\u00a0% in “west”.")
    costs, errors = rows[1][0].tables
    assert costs.headers == ["region", "samples", "mean cost, EUR", "than all others", "saved against the baseline"]
    assert rows[3][0].tables[0].headers[:2] == ["samples", "samples"]  # a column may be called so
    amounts = ["1.200 (0.400 to 1.400)", "0.500 (0.400 to 0.600)", "0.250 (0.125 to 0.375)"]
    assert costs.rows[1] == ["west", "480", *amounts]
    assert errors.rows[1:] == [
        ["west", "480", "30 %", "40 %", "30 %", "20 %"],
        ["(missing)", "20", "30 %", "40 %", "\u2013", "20 %"],
    ]
    assert costs.badges == {"west": "significant"}
    assert segments_section(Segments(None)) is None


def test_a_segment_that_costs_less_is_named():
    words = section_rows(segments(told="north"), unit="")[0][0].result
    assert "“north” costs 0.200 (0.100 to 0.300) less than one of all others" in words


def test_segments_of_more_than_two_classes_have_one_kind_of_error():
    frame = segments().drop(columns=["positive", "decided", "fnr", "fpr", "saved"])
    frame = frame.assign(wrong=[0.1, 0.2, 0.3], wrong_low=0.0, wrong_high=0.5)
    (_, rates), (numbers,) = section_rows(frame)
    assert rates.result == "Error rate: from 10\u00a0% in “north” to 30\u00a0% in “(missing)”."
    assert [table.headers[2:] for table in numbers.tables] == [["mean cost, EUR", "than all others"], ["error rate"]]


def test_figures_show_intervals_and_significance(small):
    figure = segment_figure(segments(), unit="EUR")
    dearer = next(trace for trace in figure.data if trace.name == "costs more than all others")
    assert list(dearer.y) == ["west"]
    assert dearer.marker.color == PALETTES["light"].second
    assert dearer.x[0] - dearer.error_x.arrayminus[0] == pytest.approx(0.4)
    assert dearer.x[0] + dearer.error_x.array[0] == pytest.approx(1.4)
    mean = figure.layout.shapes[0].x0
    assert mean == pytest.approx(0.6 * 0.5 + 0.38 * 1.2 + 0.02 * 0.8)
    rates = rates_figure(segments(), {"fnr": "missed", "fpr": "fpr"})
    assert list(rates.data[0].x) == [10.0, 30.0]  # where there is no positive, there is no rate
    assert stakes_figure(OVERVIEW["classes"]).data[1].x == (30.0, 75.0)


def test_the_data_are_described(small):
    card = shown_cards(small)["overview"]
    assert card.result == (
        "1,000 patients, 300 of them (30\u00a0%) “malignant”, with 75\u00a0% of the cost at stake. "
        "A false negative costs 8, a false positive 1."
    )
    (table,) = card.folded
    assert table.caption == "14 columns, the first 13 of them"
    assert table.rows[2] == ["c2", "text", "1 %", "3", "Ulm 60 %"]
    assert data_section(Data()) is None


def test_importance_is_shown_in_costs(small):
    assert shown_cards(small)["worth"].result == "Most important, per sample: “age” 0.200 EUR (0.100 to 0.300)."
    yearly = replace(small, volume=50_000)
    assert shown_cards(yearly)["worth"].result == "Most important, a year: “age” 10,000 EUR (5,000 to 15,000)."
    nothing = small.explained[VIEW].assign(low=-1.0)
    assert importance_words(nothing, small.terms).startswith("No single column has an importance clearly above 0")
    assert importance_section(Importance(None)) is None


def test_markdown_has_them(small):
    text = to_markdown(small)
    assert "### By region" in text
    assert "west (significant)" in text


def test_the_page_has_them_and_shows_names_letter_by_letter(small):
    columns = [one | {"column": HOSTILE, "values": HOSTILE} for one in OVERVIEW["columns"]]
    classes = [one | {"name": HOSTILE} for one in OVERVIEW["classes"]]
    result = replace(
        small, classes=("good", HOSTILE), people=HOSTILE,
        segments={VIEW: segments(HOSTILE, (HOSTILE, "b"), result=HOSTILE)},
        overview={VIEW[0]: overview_frame(OVERVIEW | {"columns": columns, "classes": classes}, HOSTILE)},
        explained={VIEW: small.explained[VIEW].assign(column=[HOSTILE, "b"])},
    )  # fmt: skip
    page = render_report(result)
    assert "<img src=x" not in page
    for words in ("Segments", "Cost by &lt;/script&gt;&lt;img", "Classes and columns", "Most important, per sample"):
        assert words in page
    for _, card in cards_of(report_page(result)):
        figure = "" if card.figure is None else json.dumps(card.figure.to_plotly_json(), default=list)
        assert "<img" not in figure
    assert "<img" not in stakes_figure(classes).to_json().replace("\\u003c", "<")
