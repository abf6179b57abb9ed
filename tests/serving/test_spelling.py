"""A value is one category, whatever file, type or batch it comes in: the decision depends on the sample alone."""

import csv
import datetime
import decimal
import itertools
import json
import sqlite3
import warnings

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.datasets import read_table
from adacsl.datasets.encoder import TableEncoder
from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.datasets.readers.formats import stream_table
from adacsl.learners.histogram_boosting import HistogramBoosting
from adacsl.learners.sklearn import SklearnLearner

ARROW = "application/vnd.apache.arrow.stream"
DAY = datetime.date(2024, 3, 31)
NOON = datetime.datetime(2024, 3, 31, 12, 30)
KINDS = {
    "one": [1, 1.0, "1", "1.0", "01.00", " +1 ", "1e0", True, "True", "true", decimal.Decimal("1.0"), np.float32(1)],
    "zero": [0, -0.0, "0", "-0.0", False, "FALSE", ".0", np.int8(0)],
    "half": [2.5, "2.5", "2.50", np.float32(2.5), decimal.Decimal("2.5"), "25e-1"],
    "tenth": [0.1, "0.1", np.float32(0.1), float(np.float32(0.1)), "0.10000000149011612", decimal.Decimal("0.1")],
    "long": [1e20, 10**20, "100000000000000000000", "1e20", "1E+20"],
    "whole": [2**60, float(2**60), str(2**60)],
    "text": ["A", " A", "A \t", "A\0", "A\0\0 "],
    "other": ["A 1", "A 1 "],
    "day": [DAY, "2024-03-31", "2024-03-31 00:00:00", "2024-03-31T00:00Z", datetime.datetime(2024, 3, 31)],
    "noon": [NOON, "2024-03-31 12:30", "2024-03-31T12:30:00.000", "2024-03-31T14:30:00+02:00", pd.Timestamp(NOON)],
    "missing": [None, float("nan"), "", " ", "NA", "n/a", "null", "None", "nan", "<NA>", pd.NaT, pd.NA],
    "wide": ["w" * 80, "w" * 80 + "\0", " " + "w" * 80],
}
"""Values of which those of one list are the same."""
LEARNERS = {
    "features": SklearnLearner(LogisticRegression(C=1e4)),
    "codes": SklearnLearner(HistogramBoosting(0, max_iter=60, early_stopping=False), encode=False),
}
ONES = [(kind, value) for kind, values in KINDS.items() for value in values]


def training_rows():
    """Every kind in many rows, as text; each has a share of positives of its own."""
    rows = [(kind, i) for kind in KINDS for i in range(24)]
    spelt = {"one": "1.0", "half": "2.5", "day": "2024-03-31", "noon": str(NOON), "missing": ""}
    spelt |= {"zero": "0.0", "tenth": "0.1", "long": "1e20", "whole": str(2**60), "text": "A", "other": "A 1"}
    text = [spelt.get(kind, "w" * 80) for kind, _ in rows]
    share = {kind: (place + 1) / (len(KINDS) + 1) for place, kind in enumerate(KINDS)}
    return pd.DataFrame({"code": text}), np.array([int(i < 24 * share[kind]) for kind, i in rows])


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of each encoder, trained on a CSV file."""
    frame, y = training_rows()
    path = tmp_path_factory.mktemp("train") / "rows.csv"
    frame.to_csv(path, index=False)
    costs = CostMatrix(fp=1, fn=1)
    return [
        CostSensitiveClassifier(costs, learner=learner, random_state=0).fit(read_table(path), y)
        for learner in LEARNERS.values()
    ]


@pytest.fixture(params=LEARNERS)
def model(request, models):
    return models[list(LEARNERS).index(request.param)]


@pytest.fixture(scope="module")
def expected(models):
    """The probability of each kind by each model, all of them different."""
    result = []
    for model in models:
        result.append(dict(zip(KINDS, model.predict_proba(training_rows()[0][::24])[:, 1], strict=True)))
        assert np.diff(sorted(result[-1].values())).min() > 1e-3
    return result


def plain(value):
    """Return a value as JSON and databases have it."""
    if value is None or (not isinstance(value, str) and pd.isna(value)):
        return None
    if isinstance(value, decimal.Decimal | np.floating):
        return float(value)
    if isinstance(value, np.integer):
        return int(value)
    return value if isinstance(value, bool | int | float | str) else value.isoformat()


def text_of(value):
    return None if plain(value) is None else value if isinstance(value, str) else str(value)


def has_type(values):
    """Whether this is one value that Arrow has a type for."""
    big = isinstance(values[0], int) and abs(values[0]) >= 2**63
    return len(values) == 1 and plain(values[0]) is not None and not big


def in_memory(values):
    """Yield the values as columns in memory; typed, where they are of one type."""
    yield pd.DataFrame({"code": pd.Series(values, dtype=object)})
    yield pd.DataFrame({"code": pd.Series([text_of(value) for value in values], dtype="category")})
    yield pl.DataFrame({"code": pl.Series([text_of(value) for value in values], dtype=pl.String)})
    if len(values) == 1 and plain(values[0]) is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd types
            yield pd.DataFrame({"code": values})
            yield pd.DataFrame({"code": pd.Series(values).astype("category")})
            yield pd.DataFrame({"code": pd.Series(values).convert_dtypes()})
        if has_type(values):
            yield pl.DataFrame({"code": values}, strict=False)
            typed = pa.table({"code": pa.array(values)})
            yield typed
            yield typed.to_pandas(types_mapper=pd.ArrowDtype)


def in_files(values, folder):
    """Yield the values as read from every format, whole and in pieces."""
    paths = [write(values, folder) for write in (write_csv, write_lines, write_workbook, write_text)]
    if has_type(values):
        for array in (pa.array(values), pa.array([*values, None])):  # a gap makes floats of integers and bools
            pa.parquet.write_table(pa.table({"code": array, "row": list(range(len(array)))}), folder / "one.parquet")
            yield read_table(folder / "one.parquet")[:1]
            yield read_table(sql=f"select code from '{folder}/one.parquet' order by row limit 1")  # noqa: S608
    for path in paths:
        yield read_table(path)
        yield pd.concat(list(stream_table(path, rows=2)))
    db = folder / "rows.db"
    db.unlink(missing_ok=True)
    with sqlite3.connect(db) as connection:
        connection.execute("create table rows (code)")
        cells = [[str(v) if isinstance(v := plain(value), int) and abs(v) >= 2**63 else v] for value in values]
        connection.executemany("insert into rows values (?)", cells)
    connection.close()
    yield read_table(sql="select code from rows", db=db)
    yield read_table(sql=f"select code from '{folder}/rows.parquet'")  # noqa: S608


def write_csv(values, folder):
    with (folder / "rows.csv").open("w", newline="") as file:
        cells = ["" if text_of(value) is None else text_of(value).replace("\0", "") for value in values]
        csv.writer(file).writerows([["code", "row"], *([cell, i] for i, cell in enumerate(cells))])
    return folder / "rows.csv"


def write_lines(values, folder):
    cells = [float(v) if isinstance(v := plain(value), int) and abs(v) >= 2**63 else v for value in values]
    lines = [json.dumps({"code": cell, "row": i}) for i, cell in enumerate(cells)]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder / "rows.jsonl"


def write_workbook(values, folder):
    book = openpyxl.Workbook()
    for row in [("code", "row"), *((value, i) for i, value in enumerate(values))]:
        cells = [value.replace("\0", "") if isinstance(value, str) else value for value in row]
        cells = [c if isinstance(c, datetime.date) or c is None else plain(c) for c in cells]
        book.active.append([repr(c) if isinstance(c, float) and len(repr(c)) > 15 else c for c in cells])  # it rounds
    book.save(folder / "rows.xlsx")
    return folder / "rows.xlsx"


def write_text(values, folder):
    table = pa.table({"code": [text_of(value) for value in values]})
    pa.feather.write_feather(table, folder / "rows.feather", compression="uncompressed")
    pa.parquet.write_table(table, folder / "rows.parquet")
    return folder / "rows.parquet"


def over_http(values, client):
    """Yield the probabilities that a server answers: as JSON, as Arrow text, as Arrow of its own type."""
    rows = client.post("/predict", json={"rows": [{"code": plain(value)} for value in values]})
    assert rows.status_code == 200, rows.text
    yield [row["probability"] for row in rows.json()["rows"]]
    tables = [pa.table({"code": pa.array([text_of(value) for value in values], pa.string())})]
    if has_type(values):
        tables.append(pa.table({"code": pa.array(values)}))
    for table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        answer = client.post("/predict", content=bytes(sink.getvalue()), headers={"content-type": ARROW})
        assert answer.status_code == 200, answer.text
        yield pa.ipc.open_stream(answer.content).read_all()["probability"].to_pylist()


@pytest.fixture
def check(models, client_of, expected):
    """Every way to bring these values gives the probabilities of their kinds."""
    clients = [client_of(model) for model in models]

    def of(drawn, folder):
        values = [value for _, value in drawn]
        wanted = [[own[kind] for kind, _ in drawn] for own in expected]
        for frame in (*in_memory(values), *in_files(values, folder)):
            code = frame[["code"]] if isinstance(frame, pd.DataFrame) else frame.select(["code"])
            for model, own in zip(models, wanted, strict=True):
                result = model.predict_proba(code)
                np.testing.assert_allclose(result[:, 1], own, rtol=1e-9, err_msg=f"{values} in {frame}")
        for client, own in zip(clients, wanted, strict=True):
            for result in over_http(values, client):
                np.testing.assert_allclose(result, own, rtol=1e-9, err_msg=f"{values} over HTTP")

    return of


def test_each_value_alone_is_its_category_in_every_format(check, tmp_path):
    for one in ONES:
        check([one], tmp_path)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(ONES), min_size=2, max_size=7))
def test_a_value_is_its_category_whatever_else_is_in_the_batch(check, tmp_path_factory, drawn):
    check(drawn, tmp_path_factory.mktemp("batch"))


@pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
def test_every_format_trains_the_same_model(learner, tmp_path):
    frame, y = training_rows()
    values = [{"1.0": 1.0, "2.5": 2.5, "0.0": 0, "": None}.get(text, text) for text in frame["code"]]
    tables = [frame, *in_memory(values), *in_files(values, tmp_path)]
    models = [
        CostSensitiveClassifier(CostMatrix(fp=1, fn=3), learner=learner, random_state=0).fit(_code(table), y)
        for table in tables
    ]
    for other in models[1:]:
        np.testing.assert_array_equal(other.predict_proba(frame), models[0].predict_proba(frame))


def _code(table):
    return table[["code"]] if isinstance(table, pd.DataFrame) else table.select(["code"])


def test_nul_in_text_does_not_depend_on_longer_text(model):
    texts = ["".join(characters) for characters in itertools.product("A\0 \t", repeat=3)]
    alone = [model.predict_proba(pd.DataFrame({"code": [text]}))[0, 1] for text in texts]
    beside = model.predict_proba(pd.DataFrame({"code": [*texts, "x" * 65]}))[:-1, 1]
    np.testing.assert_array_equal(alone, beside)


def test_numbers_that_arrive_as_text_are_those_numbers(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "yes": rng.random(200) < 0.5})
    model = CostSensitiveClassifier(CostMatrix(fp=1, fn=3), learner=LogisticRegression(), random_state=0).fit(
        frame, frame["x"] > 0.3
    )
    wanted = model.predict_proba(frame)
    for name, words in {"Python": ("True", "False"), "SQL": ("true", "false"), "R": ("TRUE", "FALSE")}.items():
        text = pd.DataFrame({"x": frame["x"].map(repr), "yes": np.where(frame["yes"], *words)})
        text.to_csv(tmp_path / "rows.csv", index=False)
        for table in (text, read_table(tmp_path / "rows.csv"), pd.concat(stream_table(tmp_path / "rows.csv", rows=7))):
            np.testing.assert_array_equal(model.predict_proba(table), wanted, err_msg=name)
    mixed = frame.assign(yes=pd.Series([True, 1, "1", "True", 1.0] * 40, dtype=object))
    np.testing.assert_array_equal(model.predict_proba(mixed), model.predict_proba(frame.assign(yes=True)))


@pytest.mark.parametrize("kind", [TableEncoder, ColumnEncoder])
def test_an_encoder_saved_before_finds_its_levels(kind):
    frame, _ = training_rows()
    encoder = kind().fit(frame)
    about = json.loads(json.dumps(encoder.to_dict()))
    (rule,) = about["columns"]
    assert "1" in rule["levels"]
    rule["levels"] = [{"1": "1.0", "0": "0.0"}.get(level, level) for level in rule["levels"]]
    np.testing.assert_array_equal(kind.from_dict(about).transform(frame), encoder.transform(frame))
