"""Prediction of a folder of tables, part by part: exactly once, in any order, by any executor."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adacsl import CostMatrix, Policy, load
from adacsl.estimators.distributed_predict import predict_on
from adacsl.estimators.partitioned_predict import Report, Request, predict_folder, predict_unit
from adacsl.execution.executors import Placement
from tests.made import logistic


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model and a folder of four tables of 50 rows."""
    folder, rng = tmp_path_factory.mktemp("parts"), np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200), "amount": rng.lognormal(size=200)})
    y = (frame["a"] + rng.normal(size=200) > 0.5).astype(int)
    model = logistic(CostMatrix(fp=1, fn=8))
    model.fit(frame[["a", "b"]], y).save(folder / "model")
    (folder / "data").mkdir()
    for number, part in enumerate(np.split(np.arange(200), 4)):
        frame.iloc[part].assign(id=part).to_parquet(folder / f"data/{number}.parquet")
    return folder, load(folder / "model"), frame


def predicted(place, out, *, costs=None, rows=20, **options):
    folder, model, _ = place
    request = Request(model.costs_ if costs is None else costs, Policy(), ["id"], rows)
    return predict_folder(model, folder / "model", str(folder / "data"), out, request, device="cpu", **options)


def test_a_folder_holds_the_predictions_of_all_rows(place, tmp_path):
    _, model, frame = place
    calls = []
    result = predicted(place, tmp_path / "out", progress=lambda *call: calls.append(call[1:]))
    assert (result.summary.rows, result.rows_now, result.files, result.resumed, result.failed) == (200, 200, 4, 0, [])
    assert calls == [(50, 200), (100, 200), (150, 200), (200, 200)]
    found = pd.read_parquet(tmp_path / "out").sort_values("id", ignore_index=True)
    np.testing.assert_allclose(found["probability"], model.predict_proba(frame[["a", "b"]])[:, 1])
    np.testing.assert_array_equal(found["decision"], model.predict(frame[["a", "b"]]))
    assert result.summary.counts["1"] == (found["decision"] == 1).sum()
    assert result.summary.cost == pytest.approx(found["expected_cost"].sum())


def test_an_executor_may_change_the_order_and_repeat_parts(place, tmp_path):
    def execute(plan, units):
        for unit in units[::-1]:
            predict_unit(place[1], plan, unit)  # its worker died before it could report
            before = (plan.out / unit.name).stat().st_mtime_ns
            report = predict_unit(place[1], plan, unit)
            assert (plan.out / unit.name).stat().st_mtime_ns == before
            yield report

    result = predicted(place, tmp_path / "out", execute=execute)
    assert (result.summary.rows, result.failed) == (200, [])
    assert sorted(pd.read_parquet(tmp_path / "out")["id"]) == list(range(200))


def test_two_processes_predict_what_one_does(place, tmp_path):
    result = predicted(place, tmp_path / "out", execute=partial(predict_on, placement=Placement(n_jobs=2)))
    assert result.failed == []
    assert result.summary.to_dict() == predicted(place, tmp_path / "one").summary.to_dict()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out"), pd.read_parquet(tmp_path / "one"))


def test_what_failed_is_done_by_the_next_call_and_nothing_else(place, tmp_path):
    def half(plan, units):
        for number, unit in enumerate(units):
            failed = Report(unit.name, failed="its worker was lost")
            yield predict_unit(place[1], plan, unit) if number % 2 else failed

    first = predicted(place, tmp_path / "out", execute=half)
    assert (first.summary.rows, first.failed) == (100, ["its worker was lost"] * 2)
    (tmp_path / "out/.0.draft").write_bytes(b"of a killed worker")
    done = []

    def rest(plan, units):
        done.extend(unit.name for unit in units)
        yield from (predict_unit(place[1], plan, unit) for unit in units)

    again = predicted(place, tmp_path / "out", execute=rest)
    assert done == ["0.parquet", "2.parquet"]
    assert (again.summary.rows, again.rows_now, again.resumed, again.failed) == (200, 100, 2, [])
    assert again.summary.to_dict() == predicted(place, tmp_path / "out").summary.to_dict()
    assert not (tmp_path / "out/.0.draft").exists()


def test_an_error_that_all_parts_share_ends_the_call(place, tmp_path):
    def full(plan, units):
        yield Report(units[0].name, failed="could not write: the disk is full", hopeless=True)

    with pytest.raises(OSError, match="the disk is full; what is finished is kept in"):
        predicted(place, tmp_path / "out", execute=full)


@pytest.mark.parametrize(
    ("policy", "data", "match"),
    [
        (Policy(capacity=3), "data", "decided part by part: write one file"),
        (Policy(), "none", "is neither a table nor a folder of tables: write its predictions to one file"),
        (Policy(), None, "a query is neither a table"),
    ],
)
def test_what_has_no_parts_is_refused_before_anything_is_written(place, tmp_path, policy, data, match):
    folder, model, _ = place
    path = None if data is None else str(folder / data)
    with pytest.raises(ValueError, match=match):
        predict_folder(model, folder / "model", path, tmp_path / "out", Request(model.costs_, policy, [], 10))
    assert not Path(tmp_path / "out").exists()
