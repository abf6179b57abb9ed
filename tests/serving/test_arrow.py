"""Arrow in, Arrow out; and streams that want to crash the server or fill its memory."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FEATURES = ["age", "gap", "shop", "since"]
ARROW = "application/vnd.apache.arrow.stream"


def stream(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=7)
    return bytes(sink.getvalue())


def post(client, table, **options):
    content = table if isinstance(table, bytes) else stream(table, **options)
    return client.post("/predict", content=content, headers={"content-type": ARROW})


def refused(client, table, **options):
    answer = post(client, table, **options)
    assert answer.status_code == 422, answer.content
    return answer.json()["detail"]


@pytest.fixture(scope="module")
def table(rows):
    return pa.Table.from_pandas(rows, preserve_index=False)


def test_the_answer_is_a_stream_of_what_json_would_say(client, rows, records, table):
    answer = post(client, table)
    assert answer.headers["content-type"] == ARROW
    result = pa.ipc.open_stream(answer.content).read_all()
    assert result.schema.names == ["decision", "probability", "expected_cost"]
    assert result.to_pylist() == client.post("/predict", json={"rows": records(rows)}).json()["rows"]


def test_notes_are_metadata_of_the_schema(client_of, instance_costs, table):
    schema = pa.ipc.open_stream(post(client_of(instance_costs), table).content).schema
    assert b"2 a day were there" in schema.metadata[b"notes"]


def test_columns_of_other_types_mean_the_same(client, table):
    other = table.set_column(2, "shop", table["shop"].dictionary_encode())
    other = other.set_column(0, "age", table["age"].cast(pa.float32()).cast(pa.float64()))
    dates = pa.array([datetime.date.fromisoformat(one) for one in table["since"].to_pylist()])
    other = other.set_column(3, "since", dates).append_column("blob", pa.array([b"x"] * len(table)))
    again = other.set_column(0, "age", other["age"].cast(pa.float32()))
    result, same = (pa.ipc.open_stream(post(client, one).content).read_all() for one in (other, again))
    assert result.equals(same)
    plain = pa.ipc.open_stream(post(client, table).content).read_all()
    np.testing.assert_allclose(result["probability"], plain["probability"], rtol=1e-5)


def test_a_column_of_nulls_or_decimals_is_taken(client, table):
    instance_costs = pa.array([decimal.Decimal("41.5")] * len(table))
    some = table.set_column(1, "gap", pa.nulls(len(table))).set_column(0, "age", instance_costs)
    same = some.set_column(0, "age", pa.array([41.5] * len(table))).set_column(
        1, "gap", pa.array([np.nan] * len(table))
    )
    assert post(client, some).content == post(client, same).content


def test_wrong_columns_are_named(client, table):
    assert "column 'shop': this column is missing" in refused(client, table.drop_columns(["shop"]))
    doubled = table.append_column("age", table["age"])
    assert refused(client, doubled) == "column 'age': two columns have this name"
    lists = table.set_column(2, "shop", pa.array([["web"]] * len(table)))
    assert refused(client, lists) == "column 'shop': expected text or null, got the Arrow type list<item: string>"
    ages = table["age"].to_pylist()
    far = table.set_column(0, "age", pa.array([*ages[:-1], np.inf]))
    assert (
        refused(client, far)
        == "row 29 (the first is 0), column 'age': expected a number or null, got inf, which is not a number"
    )
    spelt = table.set_column(0, "age", pa.array(["old"] * len(table)))
    assert "row 0 (the first is 0), column 'age': expected a number or null, got 'old'" in refused(client, spelt)


def test_times_and_prices_may_not_be_missing(client_of, instance_costs, table):
    amounts, days = table["amount"].to_pylist(), pd.to_datetime(table["since"].to_pandas())
    gone = table.set_column(4, "amount", pa.array([*amounts[:3], None, *amounts[4:]]))
    assert "row 3 (the first is 0), column 'amount'" in refused(client_of(instance_costs), gone)
    timeless = table.set_column(3, "since", pa.array(days.where(np.arange(len(days)) != 5)))
    assert "row 5 (the first is 0), column 'since'" in refused(client_of(instance_costs), timeless)


def test_limits_hold_for_streams(client, table):
    assert "there are more than 50 rows" in refused(client, pa.concat_tables([table, table]))
    assert "there are no rows" in refused(client, table[:0])


def test_texts_that_all_rows_share_may_not_be_long(client, table):
    shared = pa.DictionaryArray.from_arrays(np.zeros(len(table), np.int8), ["w" * 1001])
    assert "more than 1,000 characters" in refused(client, table.set_column(2, "shop", shared))
    own = table.set_column(2, "shop", pa.array(["w" * 1001] + ["web"] * (len(table) - 1)))
    assert "row 0 (the first is 0), column 'shop': the text has 1,001 characters" in refused(client, own)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_batches_are_refused_before_they_are_unpacked(client, table, compression):
    assert "batches are compressed" in refused(client, table, compression=compression)
    encoded = table[:0].set_column(2, "shop", table["shop"][:0].dictionary_encode())
    assert "there are no rows" in refused(client, encoded)
    dictionary = stream(pa.table({"shop": pa.array(["web"] * 9).dictionary_encode()}), compression=compression)
    schema, words, *_ = pa.ipc.MessageReader.open_stream(dictionary)
    assert words.type == "dictionary"  # it comes before the rows, which are compressed too
    assert "batches are compressed" in refused(client, bytes(schema.serialize()) + bytes(words.serialize()))


def test_offsets_that_point_elsewhere_are_refused(client, table):
    n = len(table)
    offsets = pa.py_buffer(np.r_[0, np.full(n - 1, 2**20), 3].astype(np.int32).tobytes())
    wild = pa.StringArray.from_buffers(n, offsets, pa.py_buffer(b"web"))
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([wild if name == "shop" else table[name].combine_chunks() for name in FEATURES], FEATURES)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert "column 'shop': it is damaged: Offset invariant failure" in refused(client, bytes(sink.getvalue()))


@settings(max_examples=30)
@given(st.data())
def test_damaged_streams_are_refused_or_answered_and_crash_nothing(client, table, data):
    content = bytearray(stream(table))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    assert post(client, bytes(content[:end])).status_code in (200, 422)


def _forged(table, place, column):
    columns = [one.combine_chunks() for one in table.columns]
    columns[place] = column
    batch = pa.RecordBatch.from_arrays(columns, table.column_names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("scale", [-1, 71])
def test_decimals_have_a_scale_within_their_precision(client, table, scale):
    numbers = pa.py_buffer(np.tile(np.array([7, 0, 0, 0], np.int64), len(table)))
    column = pa.Array.from_buffers(pa.decimal256(70, scale), len(table), [None, numbers])
    assert "a scale from 0 to its precision" in refused(client, _forged(table, 0, column))


@pytest.mark.parametrize("zone", ["Nowhere/City", "../../etc/passwd", "x" * 9_000])
def test_time_zones_must_be_known(client, table, zone):
    dates = pa.array(np.arange(len(table)), pa.timestamp("us", zone))
    reply = refused(client, _forged(table, 3, dates))
    assert "column 'since'" in reply
    assert "time zone" in reply
    assert len(reply) < 400


@pytest.mark.parametrize(
    "make",
    [
        lambda n: pa.array([2**60] * n, pa.timestamp("s")),
        lambda n: pa.array([2**60] * n, pa.timestamp("us")),
        lambda n: pa.array([2**31 - 1] * n, pa.int32()).view(pa.date32()),
    ],
)
def test_dates_are_within_the_calendar(client, table, make):
    assert "from year 1 to 9999" in refused(client, _forged(table, 3, make(len(table))))


def test_dictionaries_are_not_nested(client, table):
    inner = pa.array([["web"], ["city"]])
    nested = pa.DictionaryArray.from_arrays(pa.array([0] * len(table), pa.int8()), inner)
    assert "column 'shop'" in refused(client, _forged(table, 2, nested))


def test_names_of_columns_are_utf8(client, table):
    assert "UTF-8" in refused(client, stream(table).replace(b"shop", b"s\xffo\xfe"))
