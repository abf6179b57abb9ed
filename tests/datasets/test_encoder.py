from __future__ import annotations

import datetime as dt
import json
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.datasets.encoder import SCALINGS, TableEncoder

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": lambda data: pl.DataFrame(data).to_arrow()}
DAYS = [dt.datetime(2020, 1, 31, 5), dt.datetime(2021, 6, 1, 23), None, dt.datetime(2024, 2, 29, 12)]
DATA = {
    "number": [1.5, None, -3.0, 8.0],
    "whole": [1, 2, 3, 1000],
    "truth": [True, False, True, True],
    "text": ["a", "b", None, "a"],
    "day": DAYS,
    "digits": ["1", "2.5", None, "-4e3"],
    "iso": ["2020-01-31", "2020-05-01T10:00:00", None, "2021-12-31"],
}


def again(encoder):
    return TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict(), allow_nan=False, sort_keys=True)))


def outcome(encoder, table):
    """The encoded table, or why it was refused (text where training data had numbers)."""
    try:
        return encoder.transform(table).tolist()
    except ValueError as error:
        return str(error)


def column(values, **options):
    frame = pd.DataFrame({"c": values})
    encoder = TableEncoder(**options).fit(frame)
    return encoder, encoder.transform(frame)


# table libraries


@pytest.mark.parametrize("library", FRAMES)
def test_all_table_libraries_agree(library):
    table = FRAMES[library](DATA)
    encoder = TableEncoder().fit(table)
    expected = TableEncoder().fit_transform(pl.DataFrame(DATA))
    np.testing.assert_array_equal(encoder.transform(table), expected)
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame(DATA)), expected)
    assert encoder.feature_names_in_.tolist() == list(DATA)
    assert encoder.n_features_in_ == len(DATA)
    assert expected.dtype == np.float32
    assert expected.shape == (4, encoder.n_features_out_) == (4, len(encoder.describe()))


def test_numpy_and_frames_agree():
    X = np.random.default_rng(0).normal(size=(50, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    from_array, from_frame = TableEncoder().fit(X), TableEncoder().fit(frame)
    np.testing.assert_array_equal(from_array.transform(X), from_frame.transform(frame))
    np.testing.assert_array_equal(from_frame.transform(X), from_array.transform(frame))
    assert not hasattr(from_array, "feature_names_in_")
    assert from_array.describe() == [f"{scale}x{i}" for i in range(3) for scale in ("", "rank of ")]
    from_frame.fit(X.tolist())  # another fit forgets the names
    assert from_frame.n_features_in_ == 3
    assert not hasattr(from_frame, "feature_names_in_")
    numbered = TableEncoder().fit(pd.DataFrame(X))  # columns with numbers have no names
    assert not hasattr(numbered, "feature_names_in_")
    assert numbered.describe()[0] == "0"


def test_object_arrays_are_read_column_by_column():
    X = np.array([[1, "a", None], [2, "b", 3.5], [np.nan, None, pd.NA]], dtype=object)
    encoder = TableEncoder().fit(X)
    assert encoder.describe() == ["x0", "x0 is missing", "x1 = a", "x1 = b", "x1 is missing", "x2", "x2 is missing"]
    assert encoder.transform(X)[:, 4].tolist() == [0, 0, 1]


# JSON

CELLS = {
    "number": st.one_of(st.none(), st.floats(allow_infinity=False, width=64), st.integers(-(2**40), 2**40)),
    "text": st.one_of(st.none(), st.text(max_size=3), st.sampled_from(["a", "b", "nan", " "])),
    "day": st.one_of(st.none(), st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))),
}


@st.composite
def tables(draw):
    n = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=4))
    cells = {f"{kind} {i}": draw(st.lists(CELLS[kind], min_size=n, max_size=n)) for i, kind in enumerate(kinds)}
    dtypes = {"number": pl.Float64, "text": pl.String, "day": pl.Datetime("us")}
    return pl.DataFrame(cells, schema={name: dtypes[name.split()[0]] for name in cells}, strict=False)


@given(tables(), tables(), st.sampled_from(SCALINGS))
def test_round_trip_through_json_changes_nothing(train, other, scaling):
    encoder = TableEncoder(scaling=scaling, max_levels=3).fit(train)
    copy = again(encoder)
    out = encoder.transform(train)
    assert np.isfinite(out).all()
    np.testing.assert_array_equal(copy.transform(train), out)
    assert copy.describe() == encoder.describe()
    assert copy.to_dict() == encoder.to_dict()
    if other.columns == train.columns:
        assert outcome(copy, other) == outcome(encoder, other)


def test_foreign_and_newer_states_are_refused():
    state = TableEncoder().fit(pd.DataFrame(DATA)).to_dict()
    with pytest.raises(ValueError, match="the document is not a table encoder"):
        TableEncoder.from_dict({"a": 1})
    with pytest.raises(ValueError, match="has format 99; this version of adacsl reads 1"):
        TableEncoder.from_dict(state | {"format": 99})
    with pytest.raises(ValueError, match="a column must be of kind number, date, category, got 'x'"):
        TableEncoder.from_dict(state | {"columns": [{"kind": "x"}]})
    with pytest.raises(ValueError, match="7 columns announced, 1 described"):
        TableEncoder.from_dict(state | {"columns": [None]})


@pytest.mark.parametrize(
    ("values", "features"),
    [
        ([0, 1, 1, 0], ["c"]),  # two values need one scale only
        ([5.0, np.nan, 5.0], ["c", "c is missing"]),
        (["1", " 2.5 ", "", None, "1e3"], ["c", "rank of c", "c is missing"]),
        (["1", "2.5", "none of it"], ["c = 1", "c = 2.5", "c = none of it"]),
        (["1", "2.5", "n/a"], ["c", "c is missing"]),
        (["10_20", "20_30", "1020"] * 20, ["c = 1020", "c = 10_20", "c = 20_30"]),  # no numbers
        (pd.to_datetime(["2024-01-01", "2024-01-08", "2024-01-15"]), ["seconds of c", "day of c"]),  # three Mondays
        (["now", "today"], ["c = now", "c = today"]),
        (["2012-13-45", "2012-01-01"], ["c = 2012-01-01", "c = 2012-13-45"]),
        (["1/2/2020", "3/4/2021"], ["c = 1/2/2020", "c = 3/4/2021"]),
        ([f"id{i}" for i in range(1000)], ["nothing"]),  # ids
    ],
    ids=lambda value: str(value)[:20],
)
def test_features_of_a_column(values, features):
    encoder, out = column(values)
    assert encoder.describe() == features
    assert again(encoder).describe() == features
    assert out.shape == (len(values), len(features))


TEXT, NUMBERS = ["x", "y", None, "x"], [1.0, 0.0, np.nan, 1.0]


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        *((pd.array([1, 0, None, 1], dtype=dtype), NUMBERS) for dtype in ("Int64", "Float64", "boolean", "Int8")),
        (pd.to_timedelta([1, 2, None, 4], unit="h"), [3600.0, 7200.0, np.nan, 14400.0]),
        ([dt.date(2020, 1, 1), dt.date(2022, 1, 1), None], ["2020-01-01", "2022-01-01", None]),
        (pd.Categorical(TEXT), TEXT),
        (pd.array(TEXT, dtype="string"), TEXT),
        (np.array(["x", "y", np.nan, "x"], dtype=object), TEXT),
        (pl.Series(TEXT, dtype=pl.Categorical), TEXT),
        (pl.Series(TEXT, dtype=pl.Enum(["x", "y"])), TEXT),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_columns_of_every_kind_are_encoded_as_plain_ones(values, plain):
    table = pl.DataFrame({"c": values}) if isinstance(values, pl.Series) else pd.DataFrame({"c": values})
    np.testing.assert_array_equal(TableEncoder().fit_transform(table), column(plain)[1])


# numbers


def test_quantile_scaling_gives_normal_scores():
    values = np.random.default_rng(0).standard_cauchy(5000)
    _, out = column(values, scaling="quantile")
    assert abs(out.mean()) < 0.01
    assert abs(out.std() - 1) < 0.02
    assert np.abs(out).max() <= 3.5
    assert (np.diff(out[np.argsort(values), 0]) >= 0).all()


def test_standard_scaling_is_the_textbook_one():
    values = np.random.default_rng(0).normal(5, 3, size=1000)
    np.testing.assert_allclose(
        column(values, scaling="standard")[1][:, 0], (values - values.mean()) / values.std(), rtol=1e-5
    )


def test_robust_scaling_is_bounded_and_centred():
    _, out = column(np.r_[np.arange(101.0), 1e12], scaling="robust")
    assert np.abs(out).max() <= 3
    assert abs(np.median(out)) < 1e-6


@pytest.mark.parametrize("scaling", SCALINGS)
def test_new_values_beyond_the_training_range_stay_finite(scaling):
    encoder = TableEncoder(scaling=scaling).fit(np.arange(10.0)[:, None])
    assert np.isfinite(encoder.transform(np.array([[-1e308], [1e308]]))).all()


def test_missing_numbers_become_the_median_with_an_indicator():
    encoder, out = column([1.0, np.nan, 3.0, 9.0], scaling="robust")
    assert encoder.describe() == ["c", "c is missing"]
    assert out[1].tolist() == [encoder.transform(pd.DataFrame({"c": [3.0]}))[0, 0], 1.0]
    assert out[:, 1].tolist() == [0, 1, 0, 0]
    encoder, _ = column([1.0, 2.0, 3.0])  # missing at prediction only: the median
    assert encoder.transform(pd.DataFrame({"c": [None]}, dtype=float)).tolist() == [[0.0, 0.0]]


def test_a_large_float_array_is_fast():
    X = np.random.default_rng(0).normal(size=(100_000, 30))
    start = time.process_time()
    TableEncoder().fit_transform(X)
    assert time.process_time() - start < 3


# dates


def test_months_lie_on_a_circle():
    days = pd.date_range("2020-01-15", periods=24, freq="MS")
    encoder, out = column(days)
    where = [encoder.describe().index(f"{wave} of month of c") for wave in ("sine", "cosine")]
    np.testing.assert_allclose((out[:, where] ** 2).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(out[0, where], out[12, where], atol=1e-6)


def test_iso_text_counts_as_dates_and_zones_as_utc():
    encoder, out = column(["2020-01-01T12:00:00", "2021-05-06T07:08:09", None])
    assert "hour" in " ".join(encoder.describe())
    stamps = pd.to_datetime(["2020-01-01T12:00:00", "2021-05-06T07:08:09", None])
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"c": stamps})), out)
    zoned = stamps.tz_localize("UTC").tz_convert("America/New_York")
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"c": zoned})), out)
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"c": ["2020-01-01T13:00:00+01:00"]})), out[:1])


# categories


def test_categories_are_one_hot_with_missing_of_its_own():
    encoder, out = column(["x", "y", None, "x"])
    assert encoder.describe() == ["c = x", "c = y", "c is missing"]
    assert out.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_unknown_levels_are_zeros_or_other():
    encoder, _ = column(["x", "y"])
    assert encoder.transform(pd.DataFrame({"c": ["new", None]})).tolist() == [[0, 0], [0, 0]]
    encoder, out = column(["x"] * 1500 + ["y"] * 1500 + ["rare"])
    assert encoder.describe() == ["c = x", "c = y", "c is other"]
    assert out[-1].tolist() == [0, 0, 1]
    assert encoder.transform(pd.DataFrame({"c": ["new", None]})).tolist() == [[0, 0, 1], [0, 0, 1]]


def test_many_levels_keep_the_frequent_ones_and_their_frequency():
    values = [f"level{i:03d}" for i in range(60) for _ in range(i + 1)]
    encoder, out = column(values, max_levels=5)
    names = encoder.describe()
    assert names == [f"c = level{i:03d}" for i in range(55, 60)] + ["c is other", "frequency of c"]
    assert out[-1, -1] == out[:, -1].max()
    assert abs(out[:, -1].mean()) < 1e-5
    seen_once, new = encoder.transform(pd.DataFrame({"c": ["level000", "new"]}))
    assert seen_once.tolist() == new.tolist()


def test_category_of_numbers_stays_a_category_when_it_comes_back_as_numbers():
    encoder, out = column(["1", "2", "b"])
    assert encoder.transform(pd.DataFrame({"c": [1, 2]})).tolist() == out[:2].tolist()
    assert encoder.transform(pd.DataFrame({"c": [1.0, np.nan]})).tolist() == [out[0].tolist(), [0, 0, 0]]


# nothing to learn, and errors


def test_constant_and_all_missing_columns_are_dropped():
    frame = pd.DataFrame(
        {"k": [1, 1, 1], "t": ["a"] * 3, "n": [np.nan] * 3, "o": [None] * 3, "d": pd.NaT, "x": [1, 2, 3]}
    )
    encoder = TableEncoder().fit(frame)
    assert encoder.describe() == ["x", "rank of x"]
    assert again(encoder).transform(frame).shape == (3, 2)
    encoder = TableEncoder().fit(np.ones((3, 2)))
    assert encoder.describe() == ["nothing"]
    assert encoder.numeric_features == []
    assert again(encoder).transform(np.ones((2, 2))).tolist() == [[0.0], [0.0]]


def test_numeric_features_are_the_scaled_numbers():
    encoder = TableEncoder().fit(pd.DataFrame(DATA))
    names = encoder.describe()
    numeric = {names[i] for i in encoder.numeric_features}
    assert {"number", "whole", "truth", "digits", "year of day", "seconds of iso"} <= numeric
    assert not any("=" in name or "missing" in name or "sine" in name for name in numeric)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (np.zeros((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.zeros((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (pd.DataFrame({"a": []}), ValueError, r"0 sample\(s\)"),
        (np.zeros(3), ValueError, "Expected 2D array, got 1D array instead"),
        (np.zeros((2, 2), dtype=complex), ValueError, "Complex data not supported"),
        (pl.DataFrame({"a": [[1], [2]]}), ValueError, r"column 'a' holds lists or structs \(List"),
        (pl.LazyFrame({"a": [1]}), TypeError, r"lazy table: collect it first"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "two columns of the same name"),
    ],
)
def test_unusable_tables_are_refused(table, error, message):
    with pytest.raises(error, match=message):
        TableEncoder().fit(table)


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.asarray, lambda x: pd.DataFrame(x, columns=["a", "x1"]), pl.from_numpy])
def test_infinite_numbers_are_refused(kind, infinite):
    x = np.array([[1.0, 6.0], [2.0, 3.0], [4.0, infinite]])
    known = kind(x[:2])
    message = r"column '(x1|column_1)' holds infinite numbers \(1 of 3 rows, first in row 3\)"
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(kind(x))
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(known).transform(kind(x))
    with pytest.raises(ValueError, match="column 'b' holds infinite numbers"):
        TableEncoder().fit(pd.DataFrame({"b": ["inf", "1", "2"]}))


def test_sparse_matrices_are_written_out_up_to_a_size():
    sparse = pytest.importorskip("scipy.sparse")
    full = np.random.default_rng(0).integers(0, 3, (20, 4)).astype(float)
    for form in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.dok_array):
        encoder = TableEncoder().fit(form(full))
        np.testing.assert_array_equal(encoder.transform(form(full)), TableEncoder().fit(full).transform(full))
    with pytest.raises(ValueError, match=r"40,000 x 50,000 would be a table of 14.9 GiB.*AdaCSLClassifier"):
        TableEncoder().fit(sparse.csr_array((40_000, 50_000)))


@pytest.mark.parametrize(
    ("train", "new", "message"),
    [
        ([1, 2], ["1", "many"], "column 'c' held numbers when the encoder was fitted, now it holds 'many'"),
        ([1, 2], pd.to_datetime(["2020-01-01", "2020-01-02"]), "'c' held numbers .* now it holds dates"),
        (["2020-01-01", "2020-01-02"], ["2020-01-01", "soon"], "'c' held dates .* now it holds 'soon'"),
        (["2020-01-01", "2020-01-02"], [1, 2], "'c' held dates .* now it holds numbers"),
    ],
)
def test_columns_that_changed_their_kind_are_named(train, new, message):
    encoder, _ = column(train)
    with pytest.raises(ValueError, match=message):
        encoder.transform(pd.DataFrame({"c": new}))


def test_settings_and_columns_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="not fitted yet"):
        TableEncoder().transform(np.zeros((1, 1)))
    for options in ({"scaling": "none"}, {"max_levels": 1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            TableEncoder(**options)
    encoder, out = column([1, 2, 3])
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"c": ["1", "2", "3"]})), out)  # text of numbers
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1, 2], "b": [1, 2], "c": [3, 4]}))
    with pytest.raises(ValueError, match="X lacks columns of the fit: 'a', 'c'; it has 'b'"):
        encoder.transform(pd.DataFrame({"b": [1]}))
    with pytest.raises(ValueError, match="X has 2 features, but TableEncoder is expecting 3 features as input"):
        encoder.transform(np.zeros((1, 2)))
