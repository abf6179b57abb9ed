"""Numbers as people read them."""

import pytest

from adacsl.report.formatting import DASH, show, show_column, show_percent, with_unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (1, "1"), (0.26333, "0.2633"), (0.00012345, "0.0001234"), (999.4, "999.4"),
        (999.6, "1,000"),
        (-1234.5, "\u22121,234"), (2e-7, "2.00e-7"), (1e9, "1,000,000,000"), (None, DASH), (float("inf"), DASH),
    ],
)  # fmt: skip
def test_show(value, text):
    assert show(value) == text


def test_columns_have_equally_many_decimals():
    assert show_column([2.947, 0.1433, 0.0045, float("nan")]) == ["2.947", "0.143", "0.004", DASH]
    assert show_column([12345.6, 1.0, 250.0]) == ["12,346", "1", "250"]
    assert show_column([-1.5, 2.25, 3.0]) == ["\u22121.50", "2.25", "3.00"]
    assert show_column([]) == []
    assert show_column([0.0, 0.0]) == ["0", "0"]
    assert show_column([2e-7, 0.0]) == ["2.00e-7", "0"]


def test_percent_and_unit():
    assert show_percent(0.12345) == "12.3 %"
    assert show_percent(float("nan")) == DASH
    assert with_unit(3.0, "EUR") == "3 EUR"
    assert with_unit(3.0, "") == "3"
    assert with_unit(None, "EUR") == DASH
