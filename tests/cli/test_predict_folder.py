"""adacsl predict into a folder: one file for each input file, exactly once, and only what is missing is done again."""

import json
import os
import resource

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import adacsl as library
from adacsl import Policy
from adacsl.estimators import partitioned_predict
from adacsl.estimators.partitioned_predict import Request, load_for, make_plan

KEEP = ("--keep", "id")


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def data(rows, tmp_path):
    """Three Parquet files of 100, 100 and 200 rows."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, part in (("a", rows[:100]), ("b", rows[100:200]), ("c", rows[200:])):
        part.to_parquet(folder / f"{name}.parquet", row_group_size=50)
    return folder


@pytest.fixture
def predicted(adacsl, place, data, tmp_path):
    """What predict into one file states of the same rows."""
    assert adacsl("predict", place / "model", data, *KEEP, "--out", tmp_path / "p.parquet").code == 0
    return pd.read_parquet(tmp_path / "p.parquet")


PROBE = 2
"""Rows on which a model is tried when it is loaded."""


@pytest.fixture
def counted(monkeypatch):
    """Count how many rows are scored."""
    real, seen = library.CostSensitiveClassifier.decision_scores, []

    def count(self, X, **given):
        seen.extend([len(X)] if len(X) != PROBE else [])
        return real(self, X, **given)

    monkeypatch.setattr(library.CostSensitiveClassifier, "decision_scores", count)
    return seen


def test_each_file_gives_one_file_and_together_they_are_the_predictions(adacsl, place, data, predicted, tmp_path):
    output = adacsl("predict", place / "model", data, *KEEP, "--out", tmp_path / "out", "--json")
    assert output.code == 0, output.err
    assert names(tmp_path / "out") == ["_predictions.json", "a.parquet", "b.parquet", "c.parquet"]
    result = pd.concat([pd.read_parquet(tmp_path / f"out/{name}.parquet") for name in "abc"], ignore_index=True)
    pd.testing.assert_frame_equal(result, predicted, check_exact=True)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out"), predicted)  # pandas reads the folder as it is
    document = output.json
    assert (document["rows"], document["files"], document["resumed"], document["failed"]) == (400, 3, 0, [])
    assert document["decided_positive"] == (predicted["decision"] == "yes").sum()
    assert document["expected_cost"]["total"] == pytest.approx(predicted["expected_cost"].sum())


def test_the_same_command_does_only_what_is_missing(adacsl, place, data, predicted, tmp_path, counted):
    out = tmp_path / "out"
    first = adacsl("predict", place / "model", data, *KEEP, "--out", out, "--json").json
    whole = (out / "a.parquet").read_bytes()
    (out / "b.parquet").unlink()
    (out / ".0123.draft").write_bytes(whole[:1000])  # of a worker that was killed
    counted.clear()
    again = adacsl("predict", place / "model", data, *KEEP, "--out", out, "--json").json
    assert sum(counted) == 100
    assert (again["rows"], again["files"], again["resumed"]) == (400, 3, 2)
    assert again["expected_cost"] == pytest.approx(first["expected_cost"])
    assert again["decided_positive"] == first["decided_positive"]
    assert (out / "a.parquet").read_bytes() == whole
    assert names(out) == ["_predictions.json", "a.parquet", "b.parquet", "c.parquet"]
    pd.testing.assert_frame_equal(pd.read_parquet(out), predicted)
    counted.clear()
    output = adacsl("predict", place / "model", data, *KEEP, "--out", out)
    assert "3 of 3 files, 3 of them before" in output.out
    assert counted == []


def test_a_new_file_joins(adacsl, place, data, rows, tmp_path, counted):
    out = tmp_path / "out"
    adacsl("predict", place / "model", data, "--out", out)
    rows[:10].to_parquet(data / "d.parquet")
    counted.clear()
    assert adacsl("predict", place / "model", data, "--out", out, "--json").json["rows"] == 410
    assert counted == [10]


def test_long_files_are_cut_at_row_groups(adacsl, place, data, predicted, tmp_path, monkeypatch):
    monkeypatch.setattr(partitioned_predict, "ROWS", 120)
    assert adacsl("predict", place / "model", data, *KEEP, "--out", tmp_path / "out").code == 0
    candidate = ["c.groups-000000-000002.parquet", "c.groups-000002-000004.parquet"]
    assert names(tmp_path / "out") == ["_predictions.json", "a.parquet", "b.parquet", *candidate]
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out"), predicted, rtol=1e-6)
    monkeypatch.setattr(partitioned_predict, "ROWS", 10)  # less than a row group
    assert adacsl("predict", place / "model", data / "c.parquet", *KEEP, "--out", tmp_path / "one").code == 0
    assert len(names(tmp_path / "one")) == 5
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "one"), predicted[200:].reset_index(drop=True), rtol=1e-6)


def test_folders_that_name_a_column_stay_its_names(adacsl, place, rows, tmp_path):
    rows.assign(year=np.where(np.arange(400) < 150, 2023, 2024)).to_parquet(tmp_path / "data", partition_cols=["year"])
    output = adacsl("predict", place / "model", tmp_path / "data", "--keep", "id,year", "--out", tmp_path / "out")
    assert output.code == 0, output.err
    result = pd.read_parquet(tmp_path / "out").sort_values("id")
    assert result["year"].astype(int).value_counts().to_dict() == {2024: 250, 2023: 150}
    adacsl("predict", place / "model", tmp_path / "data", "--keep", "id", "--out", tmp_path / "p.parquet")
    wanted = pd.read_parquet(tmp_path / "p.parquet").sort_values("id")
    assert result["probability"].tolist() == wanted["probability"].tolist()


def test_text_files_give_parquet_files(adacsl, place, rows, tmp_path):
    (tmp_path / "data").mkdir()
    rows[:150].to_csv(tmp_path / "data/a.csv", index=False, date_format="%Y-%m-%d")
    rows[150:].to_csv(tmp_path / "data/b.csv", index=False, date_format="%Y-%m-%d")
    output = adacsl("predict", place / "model", tmp_path / "data", *KEEP, "--out", tmp_path / "out", "--json")
    assert output.json["files"] == 2, output.err
    result = pd.read_parquet(tmp_path / "out")
    adacsl("predict", place / "model", place / "rows.csv", *KEEP, "--out", tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(result, pd.read_parquet(tmp_path / "p.parquet"), rtol=1e-6)
    assert names(tmp_path / "out")[1:] == ["a.csv.parquet", "b.csv.parquet"]


def test_files_of_several_formats_are_all_predicted(adacsl, place, data, rows, predicted, tmp_path):
    (data / "a.parquet").unlink()
    rows[:100].to_csv(data / "a.csv", index=False)
    assert adacsl("predict", place / "model", data, *KEEP, "--out", tmp_path / "out").code == 0
    made = [pd.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in ("a.csv", "b", "c")]
    assert [len(part) for part in made] == [100, 100, 200]
    np.testing.assert_array_equal(pd.concat(made)["probability"], predicted["probability"])


def test_costs_of_rows_and_referrals_are_decided_part_by_part(adacsl, place, data, tmp_path):
    words = (data, *KEEP, "--fn", "0.8 * amount", "--fp", 3, "--refer", 1)
    assert adacsl("predict", place / "model", *words, "--out", tmp_path / "out").code == 0
    assert adacsl("predict", place / "model", *words, "--out", tmp_path / "p.parquet").code == 0
    result = pd.read_parquet(tmp_path / "out")
    assert set(result["decision"]) > {"refer"}
    pd.testing.assert_frame_equal(result, pd.read_parquet(tmp_path / "p.parquet"))


# refused, in one line


def test_other_options_and_changed_files_are_refused(adacsl, refused, place, data, rows, tmp_path):
    out = tmp_path / "out"
    words = ("predict", place / "model", data, "--out", out)
    assert adacsl(*words).code == 0
    before = {name: (out / name).read_bytes() for name in names(out)}
    assert "holds predictions with another cost matrix: give a new folder" in refused(*words, "--fn", 9, "--fp", 1)
    assert "holds predictions with another policy" in refused(*words, "--refer", 1)
    assert "holds predictions with another set of columns" in refused(*words, *KEEP)
    changed = rows[:100].assign(age=1.0)
    changed.to_parquet(data / "a.parquet")
    assert f"was made from {data / 'a.parquet'} before it was changed" in refused(*words)
    (data / "a.parquet").unlink()
    assert f"{out / 'a.parquet'} belongs to none of the files to predict" in refused(*words)
    assert {name: (out / name).read_bytes() for name in names(out)} == before


def test_another_model_is_refused(adacsl, refused, place, data, tmp_path):
    assert adacsl("predict", place / "model", data, "--out", tmp_path / "out").code == 0
    model = library.load(place / "model")
    model.left_out_ = ("other",)
    model.save(tmp_path / "other")
    line = refused("predict", tmp_path / "other", data, "--fn", 8, "--fp", 1, "--out", tmp_path / "out")
    assert "holds predictions with another model" in line


def test_parts_that_are_no_whole_files_of_ours_are_never_taken(adacsl, refused, place, data, tmp_path):
    out = tmp_path / "out"
    words = ("predict", place / "model", data, "--out", out)
    assert adacsl(*words).code == 0
    whole = (out / "a.parquet").read_bytes()
    for content in (whole[: len(whole) // 2], b"", (data / "a.parquet").read_bytes()):
        (out / "a.parquet").write_bytes(content)
        assert f"{out / 'a.parquet'} is damaged, or not made by adacsl predict: remove it" in refused(*words)
    (out / "a.parquet").write_bytes(whole)
    text = (out / "_predictions.json").read_bytes()
    (out / "_predictions.json").write_bytes(text.replace(b"8.0", b"9.0"))
    assert "_predictions.json is damaged" in refused(*words)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--capacity", 5), "look at all rows at once, but a folder of predictions is decided part by part"),
        (("--prior", "em"), "look at all rows at once"),
        (("--n-jobs", 2), "--n-jobs is for --backend ray"),
        (("--gpus", 0.5), "--gpus is for --backend ray"),
        (("--address", "local"), "--address is for --backend ray"),
        (("--backend", "ray", "--n-jobs", 0), "--n-jobs must be at least 1, got 0"),
        (("--backend", "ray", "--out", "p.parquet"), "p.parquet is the name of a file: give --out predictions/"),
        (("--batch-rows", 0), "--batch-rows must be at least 1"),
        (("--keep", "decision"), "the output has a column of that name already"),
        (("--keep", "ident"), "no column 'ident'"),
        (("--fn", "price", "--fp", 1), "no column 'price'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_written(
    refused, place, data, tmp_path, monkeypatch, words, match
):
    monkeypatch.chdir(tmp_path)
    out = () if "--out" in words else ("--out", "out")
    assert match in refused("predict", place / "model", data, *out, *words)
    assert names(tmp_path) == ["data/a.parquet", "data/b.parquet", "data/c.parquet"]


def test_places_and_data_that_do_not_fit_are_refused(refused, place, data, images, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    words = ("predict", place / "model")
    assert "is inside the data to predict" in refused(*words, data, "--out", data / "out")
    assert "holds other files and no predictions" in refused(*words, data, "--out", tmp_path / "full")
    assert "none is neither a table nor a folder of tables" in refused(
        *words, tmp_path / "none", "--out", tmp_path / "out"
    )
    assert "a query is neither a table" in refused(*words, "--sql", "select 1", "--out", tmp_path / "out")
    assert "holds no tables that can be read" in refused(*words, tmp_path / "full", "--out", tmp_path / "out")
    line = refused("predict", images / "model", images / "data", "--out", tmp_path / "out")
    assert "is neither a table nor a folder of tables: write its predictions to one file" in line
    assert not (tmp_path / "out").exists()


def test_two_files_never_share_their_predictions(refused, place, data, rows, tmp_path):
    rows[:10].to_parquet(data / "a.pq")
    rows[:10].to_parquet(data / "a.pq.parquet")
    line = refused("predict", place / "model", data, "--out", tmp_path / "out")
    assert "would have predictions of the same name: rename one" in line


def test_nothing_that_can_be_read_is_refused(refused, place, data, tmp_path):
    for path in data.iterdir():
        path.write_bytes(b"PAR1")
    assert "holds no Parquet file that can be read" in refused(
        "predict", place / "model", data, "--out", tmp_path / "out"
    )
    line = refused("predict", place / "model", data / "a.parquet", "--out", tmp_path / "out")
    assert "a.parquet is not a Parquet file, or is damaged" in line


def test_a_file_with_other_columns_is_refused_before_any_work(refused, place, data, rows, tmp_path, counted):
    rows.drop(columns="age").to_parquet(data / "d.parquet")
    assert "differ in columns (age)" in refused("predict", place / "model", data, "--out", tmp_path / "out")
    for name in "abc":
        (data / f"{name}.parquet").unlink()
    assert "lacks 1 of the 5 columns" in refused("predict", place / "model", data, "--out", tmp_path / "out")
    assert counted == []
    assert not (tmp_path / "out").exists()


# bad news


def test_a_bad_file_is_named_and_the_others_go_on(adacsl, place, data, rows, predicted, tmp_path):
    whole = (data / "b.parquet").read_bytes()
    (data / "b.parquet").write_bytes(whole[:-20])
    output = adacsl("predict", place / "model", data, *KEEP, "--out", tmp_path / "out", "--json")
    assert output.code == 1
    assert output.json["rows"] == 300
    (line,) = output.json["failed"]
    assert line.startswith(f"{data / 'b.parquet'}: ")
    assert "is not a Parquet file, or is damaged" in line
    assert names(tmp_path / "out") == ["_predictions.json", "a.parquet", "c.parquet"]
    output = adacsl("predict", place / "model", data, *KEEP, "--out", tmp_path / "out")
    assert (output.code, output.err) == (1, "")
    assert "2 of 3 files, 2 of them before" in output.out
    assert f"failed: {data / 'b.parquet'}: " in output.out
    rows[100:200].to_parquet(data / "b.parquet")
    assert adacsl("predict", place / "model", data, *KEEP, "--out", tmp_path / "out", "--json").json["resumed"] == 2
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out"), predicted)


def test_a_bad_value_fails_its_file_alone(adacsl, place, rows, tmp_path):
    (tmp_path / "data").mkdir()
    rows[:100].to_csv(tmp_path / "data/a.csv", index=False)
    rows[100:].assign(age=[*map(str, rows["age"][100:399]), "old"]).to_csv(tmp_path / "data/b.csv", index=False)
    output = adacsl(
        "predict", place / "model", tmp_path / "data", "--batch-rows", 50, "--out", tmp_path / "out", "--json"
    )
    assert output.code == 1
    assert (
        "b.csv: column 'age' held numbers when the encoder was fitted, now it holds 'old'" in output.json["failed"][0]
    )
    assert names(tmp_path / "out") == ["_predictions.json", "a.csv.parquet"]


def test_a_file_that_changes_while_it_is_read_is_not_taken(adacsl, place, data, tmp_path, monkeypatch):
    real = library.CostSensitiveClassifier.decision_scores

    def touch(self, X, **given):
        os.utime(data / "b.parquet")
        return real(self, X, **given)

    monkeypatch.setattr(library.CostSensitiveClassifier, "decision_scores", touch)
    output = adacsl("predict", place / "model", data, "--out", tmp_path / "out", "--json")
    assert output.code == 1
    assert output.json["failed"] == [f"{data / 'b.parquet'}: it has changed since the command was started: start again"]
    assert names(tmp_path / "out") == ["_predictions.json", "a.parquet", "c.parquet"]


def test_a_full_disk_ends_the_run_and_keeps_what_is_finished(refused, place, data, tmp_path):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, hard))
    try:
        line = refused("predict", place / "model", data, "--out", tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert "error: could not write" in line
    assert line.endswith(f"what is finished is kept in {tmp_path / 'out'}")
    assert not [name for name in names(tmp_path / "out") if name.endswith(".draft")]


def test_ctrl_c_keeps_what_is_finished_and_shows_how_to_go_on(adacsl, place, data, tmp_path, monkeypatch):
    real, calls = library.CostSensitiveClassifier.decision_scores, []

    def interrupted(self, X, **given):
        calls.extend([len(X)] if len(X) != PROBE else [])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, X, **given)

    monkeypatch.setattr(library.CostSensitiveClassifier, "decision_scores", interrupted)
    output = adacsl("predict", place / "model", data, "--out", tmp_path / "out")
    assert (output.code, output.out) == (130, "")
    stored = f"what is finished is kept in {tmp_path / 'out'}; the same command resumes from there"
    assert output.err == f"stopped: {stored}\n"
    assert names(tmp_path / "out") == ["_predictions.json", "a.parquet"]


def test_a_part_shows_what_it_was_made_from(adacsl, place, data, tmp_path):
    adacsl("predict", place / "model", data, "--out", tmp_path / "out")
    about = json.loads(pq.read_metadata(tmp_path / "out/a.parquet").metadata[b"adacsl"])
    state = (data / "a.parquet").stat()
    assert about["input"] == str(data / "a.parquet")
    assert about["state"] == [state.st_size, state.st_mtime_ns]
    assert about["summary"]["rows"] == 100


def test_a_machine_that_sees_other_folders_is_refused(place, data, adacsl, tmp_path):
    model = library.load(place / "model")
    request = Request(model.costs_, Policy(), [], 1000)
    plan, units = make_plan(model, place / "model", str(data), tmp_path / "out", request, None, "cpu")
    assert [unit.rows for unit in units] == [100, 100, 200]
    assert len(load_for(plan, "here").classes_) == 2
    with pytest.raises(OSError, match=r"machine far: there is no model folder .*; all must see model, data and --out"):
        load_for(plan._replace(model=tmp_path / "none"), "far")
    with pytest.raises(OSError, match="machine far sees another"):
        load_for(plan._replace(digest="0"), "far")
    with pytest.raises(OSError, match="or has another version of adacsl"):
        load_for(plan._replace(version="9.9"), "far")


def test_a_cluster_without_ray_names_the_extra(refused, place, data, tmp_path, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == "ray" or name.endswith("integrations.ray")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    line = refused("predict", place / "model", data, "--out", tmp_path / "out", "--backend", "ray")
    assert "needs 'ray': run pip install 'adacsl[ray]'" in line
    assert not (tmp_path / "out").exists()
