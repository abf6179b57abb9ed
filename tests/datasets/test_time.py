"""Times and durations: read from anything, compared with pandas."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import Task
from adacsl.datasets import DataError, load_task
from adacsl.datasets.time import Duration, date_columns, read_times, take_times, time_text

DAYS = ["2024-03-31", "2024-01-01", "2024-03-31"]
INSTANTS = np.asarray(DAYS, dtype="datetime64[us]")
dates = st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2090, 1, 1))


@pytest.mark.parametrize(
    "given_as",
    [
        DAYS,
        np.asarray(DAYS),
        np.asarray(DAYS, dtype="datetime64[D]"),
        pd.Series(DAYS),
        pd.Series(pd.to_datetime(DAYS)),
        pd.Series(pd.to_datetime(DAYS)).dt.tz_localize("UTC"),
        pd.to_datetime(DAYS),
        pl.Series(DAYS),
        pl.Series(DAYS).str.to_date(),
        pa.chunked_array([pa.array(INSTANTS)]),
        [datetime.date(2024, 3, 31), datetime.date(2024, 1, 1), datetime.date(2024, 3, 31)],
    ],
)
def test_dates_of_every_kind_are_the_same_instants(given_as):
    result = read_times(given_as)
    assert result.dtype == np.dtype("datetime64[us]")
    assert np.array_equal(result, INSTANTS)
    zoned = pd.Series(pd.to_datetime(["2024-03-31T12:00"])).dt.tz_localize("Europe/Berlin")
    assert read_times(zoned)[0] == np.datetime64("2024-03-31T10:00")  # zones become UTC


@pytest.mark.parametrize("given_as", [[3, 1, 2], np.asarray([3.0, 1.0, 2.0]), pl.Series([3, 1, 2]), ["3", "1", "2"]])
def test_numbers_stay_numbers(given_as):
    assert read_times(given_as).tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (["2024-03-31", None], "missing in 1 rows, first in row 2"),
        ([1.0, np.nan], "missing in 1 rows, first in row 2"),
        ([1.0, np.inf], "missing in 1 rows, first in row 2"),
        (["2024-03-31", "31.12.2023"], r"'31.12.2023' in row 2"),
        ([[1, 2]], "one time for each sample"),
    ],
)
def test_times_that_are_none_are_named(bad, message):
    with pytest.raises(DataError, match=message):
        read_times(bad)


@pytest.mark.parametrize("text", ["7 days", "d", "-1d", "nan", "inf", True, [7], "1.5mo", "", -3, float("nan")])
def test_durations_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="label_delay must be"):
        Duration.read(text, "label_delay")


@settings(max_examples=60)
@given(
    when=st.lists(dates, min_size=1, max_size=8),
    amount=st.integers(0, 400),
    unit=st.sampled_from(["s", "min", "h", "d", "w", "mo", "y"]),
)
def test_durations_are_those_of_pandas(when, amount, unit):
    when = sorted(when)
    amount = amount % 20 if unit == "y" else amount
    times = np.asarray(when, dtype="datetime64[us]")
    moved = Duration.read(f"{amount}{unit}").after(times)
    names = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks", "mo": "months", "y": "years"}
    expected = np.asarray([pd.Timestamp(one) + pd.DateOffset(**{names[unit]: amount}) for one in when])
    expected = expected.astype("datetime64[us]")
    whole = np.asarray([one.day <= 28 for one in when]) | (unit not in ("mo", "y"))
    assert np.array_equal(moved[whole], expected[whole])
    # the end of a shorter month: the same day, never an earlier instant, and never out of order
    assert np.array_equal(moved.astype("datetime64[D]"), expected.astype("datetime64[D]"))
    assert (moved >= expected).all()
    assert (np.diff(moved) >= np.timedelta64(0)).all()


def test_durations_of_numbers_dates_and_timedeltas():
    assert Duration.read(2.5).after(np.asarray([1.0, 2.0])).tolist() == [3.5, 4.5]
    assert Duration.read(1e-9).after(np.asarray([0.0]))[0] == 1e-9
    week = Duration.read(datetime.timedelta(days=7)).after(INSTANTS)
    assert np.array_equal(week, Duration.read(np.timedelta64(1, "W")).after(INSTANTS))
    assert np.array_equal(week, Duration.read("1w").after(INSTANTS))
    with pytest.raises(ValueError, match="gap=7 has no unit"):
        Duration.read(7).after(INSTANTS, "gap")
    with pytest.raises(ValueError, match="gap='7d' is for dates"):
        Duration.read("7d").after(np.arange(3.0), "gap")


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_column_of_times_is_not_a_feature(library):
    table = library({"when": DAYS, "amount": [1.0, 2.0, 3.0]})
    features, time, name = take_times(table, "when")
    assert np.array_equal(time, INSTANTS)
    assert name == "when"
    assert list(getattr(features, "column_names", features.columns)) == ["amount"]
    assert date_columns(table) == ["when"]
    same, time, name = take_times(table, "when", keep=("when", "amount"))  # features of the model
    assert same is table
    assert np.array_equal(time, INSTANTS)
    with pytest.raises(DataError, match="did you mean 'when'"):
        take_times(table, "When")
    with pytest.raises(DataError, match="X is not a table"):
        take_times(np.zeros((3, 2)), "when")


def test_columns_with_dates():
    table = pd.DataFrame({"born": pd.to_datetime(DAYS), "text": ["a", "b", "c"], "year": [2001, 2002, 2003]})
    table["empty"] = pd.Series([pd.NaT] * 3)
    table["some"] = ["2024-03-31", None, "2023-01-01"]
    assert date_columns(table) == ["born", "some"]
    assert date_columns(np.zeros((3, 2))) == []
    assert time_text(np.datetime64("2024-03-31T08:30:05.5")) == "2024-03-31 08:30:05"
    assert [time_text(x) for x in (3.0, 0.1, 1e9 + 0.5)] == ["3", "0.1", "1000000000.5"]


def test_a_task_knows_its_times(tmp_path):
    frame = pd.DataFrame({"when": DAYS, "amount": [1.0, 2.0, 3.0], "fraud": [0, 1, 0]})
    frame.to_csv(tmp_path / "cards.csv", index=False)
    task = load_task(tmp_path / "cards.csv", target="fraud", time_column="when")
    assert np.array_equal(task.time, INSTANTS)
    assert list(task.X.columns) == ["amount"]
    same = Task.from_data(frame[["when", "amount"]], frame["fraud"], time="when")
    assert np.array_equal(same.time, task.time)
    assert same.digest != Task.from_data(frame[["amount"]], frame["fraud"]).digest
    assert same.digest != Task.from_data(frame[["amount"]], frame["fraud"], time=[3, 1, 3]).digest
    assert np.array_equal(task.rows([2, 1]).time, INSTANTS[[2, 1]])
    with pytest.raises(ValueError, match="one time for each of 3 samples"):
        Task.from_data(frame[["amount"]], frame["fraud"], time=[1, 2])
    frame.assign(when=[DAYS[0], None, DAYS[1]]).to_csv(tmp_path / "cards.csv", index=False)
    with pytest.raises(DataError, match=r"time column 'when' of .*cards.csv is missing in 1 rows, first in row 2"):
        load_task(tmp_path / "cards.csv", target="fraud", time_column="when")
    with pytest.raises(DataError, match="no column 'wen'; did you mean 'when'"):
        load_task(tmp_path / "cards.csv", target="fraud", time_column="wen")


def test_a_mapping_of_arrays_stays_as_it_is():
    table = {"when": np.array([3.0, 1.0]), "amount": np.array([1, 2])}
    features, time, _ = take_times(table, "when")
    assert features is table
    assert time.tolist() == [3.0, 1.0]
    with pytest.raises(DataError, match="X has no column 'When'; did you mean 'when'"):
        take_times(table, "When")
