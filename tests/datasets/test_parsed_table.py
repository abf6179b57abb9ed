"""ParsedTable: whatever rows are read, encoders learn and give what they do of the table itself."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from adacsl.datasets.columns import ParsedTable
from adacsl.datasets.encoder import TableEncoder
from adacsl.datasets.ordinal_encoder import ColumnEncoder

ROWS = 400


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "amount": rng.normal(size=ROWS),
            "text": rng.choice(["x", "y ", "1.0", "1", "long " * 20, None], ROWS),
            "numbers": rng.choice(["1", "2.5", "True"], ROWS),
            "dates": rng.choice(["2024-01-02", "2023-05-06", ""], ROWS),
            "mixed": rng.choice(["1", "2024-01-02"], ROWS),
            "declared": pd.Categorical(rng.choice(["1", "2"], ROWS)),
            "unique": [f"t{i}" for i in range(ROWS)],
        }
    )


def encoded(encoder, rows):
    """Return what an encoder makes of rows, or its error."""
    try:
        return encoder.transform(rows).tolist()
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("encoder", [TableEncoder, ColumnEncoder])
@pytest.mark.parametrize("which", ["all", "some", "no dates", "numbers of mixed"])
def test_encoders_see_no_difference(table, encoder, which, library):
    some = {
        "all": np.arange(ROWS),
        "some": np.random.default_rng(1).choice(ROWS, 90, replace=False),
        "no dates": np.flatnonzero(table["dates"] == ""),  # all missing: a number
        "numbers of mixed": np.flatnonzero(table["mixed"] == "1"),
    }[which]
    frame = table if library is pd.DataFrame else pl.from_pandas(table)
    part = table.iloc[some] if library is pd.DataFrame else frame[some.tolist()]
    parsed = ParsedTable(frame)
    own, other = encoder().fit(part), encoder().fit(parsed.rows(some))
    assert other.to_dict() == own.to_dict()
    np.testing.assert_equal(encoded(other, parsed.rows(some)), encoded(own, part))
    np.testing.assert_equal(encoded(other, parsed), encoded(own, frame))


def test_rows_of_rows_are_rows_of_the_table(table):
    parsed = ParsedTable(table).rows(np.array([5, 3, 8])).rows(np.array([2, 0]))
    assert parsed.shape == (2, table.shape[1])
    assert parsed.column(0).values.tolist() == table["amount"].iloc[[8, 5]].tolist()
    assert parsed.column(6).values.tolist() == ["t8", "t5"]
