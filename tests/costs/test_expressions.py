"""Costs written as text: against Python's own arithmetic, on every kind of table, and what is refused."""

import decimal
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adacsl.costs.expressions import Expression

NUMBER = st.floats(-1e9, 1e9).filter(lambda v: v == 0 or abs(v) > 1e-9)


def python_clip(x, low, high):
    return min(max(x, low), high)


BY_HAND = {
    "where": lambda condition, a, b: a if condition else b,
    "min": min,
    "max": max,
    "abs": abs,
    "clip": python_clip,
    "log": math.log,
    "sqrt": math.sqrt,
    "exp": math.exp,
}


@st.composite
def texts(draw, depth=3):
    """Random expressions that are finite for all finite columns."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["a", "b", "2", "0.5", "1e-3", "7"]))
    part = texts(depth - 1)
    kind = draw(st.sampled_from(["+", "-", "*", "sign", "min", "max", "abs", "clip", "where", "chain", "power"]))
    one, two, three = draw(part), draw(part), draw(part)
    forms = {
        "sign": f"-({one})",
        "min": f"min({one}, {two}, {three})",
        "max": f"max({one}, {two})",
        "abs": f"abs({one})",
        "clip": f"clip({one}, -1000, 1000)",
        "where": f"where({one} > {two}, {two}, {three})",
        "chain": f"where(-5 <= {one} < 8, {two}, {three})",
        "power": f"clip({one}, -9, 9) ** 2",
    }
    return forms.get(kind, f"({one}) {kind} ({two})")


@given(texts(), st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=4))
def test_equals_pythons_arithmetic_row_by_row(text, rows):
    table = {"a": np.array([a for a, _ in rows]), "b": np.array([b for _, b in rows])}
    result = Expression(f"{text} + 0 * a").of(table)
    by_hand = [eval(text, BY_HAND | {"a": a, "b": b}) for a, b in rows]  # noqa: S307  the oracle, not the product
    np.testing.assert_allclose(result, by_hand, rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 ** 3 * amount", 80.0),
        ("-amount ** 2", -100.0),
        ("amount / 4 - 1", 1.5),
        ("log(amount) + sqrt(amount) + exp(0)", math.log(10) + math.sqrt(10) + 1),
        ("where(amount == 10, 1, 2) + where(amount != 10, 1, 2)", 3.0),
        ("`loan amount (EUR)` * 2", 14.0),
        ("`a``b`", 3.0),
        ("class", 5.0),
        ("log", 4.0),
        ("log(log)", math.log(4)),
        ("  amount  ", 10.0),
    ],
)
def test_grammar(text, value):
    row = {"amount": [10], "loan amount (EUR)": [7], "a`b": [3], "class": [5], "log": [4]}
    assert Expression(text).of(row).tolist() == pytest.approx([value])


def test_columns_come_once_and_in_the_order_of_the_text():
    assert Expression("b + `a c` * b - max(z, 1)").columns == ("b", "a c", "z")
    assert Expression("3 * 4").columns == ()
    assert Expression("3 * 4").of({}).tolist() == 12.0


@pytest.mark.parametrize(
    "table",
    [
        {"amount": [1, 2], "count": [True, False]},
        {"amount": torch.tensor([1.0, 2.0]), "count": np.array([1, 0], dtype=np.int8)},
        pd.DataFrame({"amount": ["1", "2.0"], "count": [1, 0]}),
        pd.DataFrame({"amount": [decimal.Decimal(1), decimal.Decimal(2)], "count": [1, 0]}, index=[7, 3]),
        pd.DataFrame({"amount": pd.array([1, 2], dtype="Int64"), "count": [True, False]}),
        pl.DataFrame({"amount": [1, 2], "count": [1, 0]}),
        pa.table({"amount": [1, 2], "count": [1.0, 0.0]}),
    ],
    ids=["lists", "arrays", "text", "decimals", "nullable", "polars", "pyarrow"],
)
def test_takes_every_kind_of_table(table):
    assert Expression("10 * amount + count").of(table).tolist() == [11.0, 20.0]


@pytest.mark.parametrize(
    "table",
    [
        {"amount": [1.0, None]},
        pd.DataFrame({"amount": pd.array([1, None], dtype="Int64")}),
        pd.DataFrame({"amount": pd.array(["1", None], dtype="string")}),
        pd.DataFrame({"amount": [1.0, np.nan]}),
        pl.DataFrame({"amount": [1, None]}),
        pa.table({"amount": [1, None]}),
    ],
)
def test_missing_values_are_named_or_pass(table):
    with pytest.raises(ValueError, match=r"got nan in row 2, 1 such row: repair"):
        Expression("amount").of(table)
    np.testing.assert_array_equal(Expression("2 * amount").of(table, finite=False), [2.0, np.nan])
    assert Expression("where(amount >= 0, amount, 9)").of(table).tolist() == [1.0, 9.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("loan amount", "cannot be read at character 6; a column with such a name goes in backticks: `loan amount`"),
        ("amount +", "cannot be read"),
        ("`amount", "cannot be read at character 1"),
        ("a\nb", "cannot be read"),
        ("a\0", "cannot be read"),
        ("loan.amount", "'loan.amount' has no place in the expression 'loan.amount'"),
        ("`x y`.z", "'`x y`.z' has no place"),
        ("amount[0]", r"'amount\[0\]' has no place"),
        ("__import__('os')", "has no place"),
        ("(lambda: 1)()", "has no place"),
        ("log(amount, base=2)", "has no place"),
        ("'gold'", "has no place"),
        ("True + amount", "'True' has no place"),
        ("amount > 3", "'amount > 3' has no place"),
        ("amount % 3", "has no place"),
        ("amount and 3", "has no place"),
        ("1e999 * amount", "has no place"),
        ("2j * amount", "has no place"),
        ("[x for x in amount]", "has no place"),
        ("where(amount, 1, 2)", "begins with a comparison such as amount > 100, got 'amount'"),
        ("where(amount in b, 1, 2)", "begins with a comparison"),
        ("clip(amount, 1)", "clip takes 3 values, got 2"),
        ("max(amount)", "max takes at least 2 values, got 1"),
        ("log()", "log takes 1 values, got 0"),
        ("amount + " * 200 + "1", "at most 1000 characters"),
        ("-" * 400 + "amount", "nested too deeply"),
        ("(" * 300 + "amount" + ")" * 300, "cannot be read|nested too deeply"),
    ],
)
def test_everything_else_is_refused_and_named(text, message):
    with pytest.raises(ValueError, match=message):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "table", "message"),
    [
        ("amount", {"fee": [1]}, "need the column 'amount', which is not there: there are 'fee'"),
        ("amount", np.ones((3, 2)), "need a table whose columns have names .* got ndarray"),
        ("amount", {"amount": ["1", "many"]}, "'amount' must hold numbers to be a cost, got 'many' in row 2"),
        ("amount", pd.DataFrame({"amount": pd.to_datetime(["2020-01-01"])}), "must hold numbers"),
        ("amount", {"amount": np.ones((2, 2))}, r"one cost for each row, got shape \(2, 2\)"),
        ("a + b", {"a": [1, 2], "b": [1, 2, 3]}, "must be equally long"),
        ("log(amount)", {"amount": [1, 0, 0]}, r"got -inf in row 2 \(amount = 0\), 2 such rows"),
        ("exp(amount)", {"amount": [1e9]}, "got inf in row 1"),
        ("sqrt(0 - 1)", {}, "got nan in row 1"),
    ],
)
def test_bad_tables_are_named(text, table, message):
    with pytest.raises(ValueError, match=message):
        Expression(text).of(table)


def test_is_a_value():
    one, same, other = Expression("a * 2"), Expression(" a * 2 "), Expression("a*2")
    assert one == same != other
    assert len({one, same, other}) == 2
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301
    assert repr(one) == "Expression('a * 2')"
    assert one.to_dict() == {"kind": "expression", "text": "a * 2"}
    with pytest.raises(TypeError, match="an expression is a text"):
        Expression(3)
