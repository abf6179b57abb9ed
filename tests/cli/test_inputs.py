"""Every command reads every kind of data, and states what it left out."""

import shutil
import sqlite3

import pandas as pd
import pytest

from adacsl.estimators.persistence import load_noted

WORDS = ("--target", "churn", "--pos-label", "yes", "--fn", 8, "--fp", 1)


@pytest.fixture(scope="module")
def formats(place):
    """The table of ``place`` in other forms; the words that name each."""
    frame = pd.read_csv(place / "rows.csv")
    folder = place / "formats"
    (folder / "parts").mkdir(parents=True)
    frame.to_csv(folder / "german.csv", sep=";", decimal=",", encoding="cp1252", index=False)
    frame.to_excel(folder / "rows.xlsx", index=False)
    frame.to_feather(folder / "rows.feather")
    frame.to_json(folder / "rows.jsonl", orient="records", lines=True, double_precision=15)
    for shop, part in frame.groupby("shop"):
        (folder / "parts" / f"shop={shop}").mkdir()
        part.drop(columns="shop").to_parquet(folder / "parts" / f"shop={shop}" / "0.parquet", index=False)
    connection = sqlite3.connect(folder / "rows.sqlite")
    frame.to_sql("people", connection, index=False)
    connection.close()
    query = ("--sql", f"from '{place / 'rows.parquet'}'")
    files = {name: (folder / name,) for name in ("german.csv", "rows.xlsx", "rows.feather", "rows.jsonl", "parts")}
    return files | {"sqlite": ("--sql", "select * from people", "--db", folder / "rows.sqlite"), "duckdb": query}


@pytest.mark.parametrize("name", ["german.csv", "rows.xlsx", "rows.feather", "rows.jsonl", "parts", "sqlite", "duckdb"])
def test_all_forms_predict_and_evaluate_alike(adacsl, place, formats, tmp_path, name):
    def predicted(*words):
        output = adacsl("predict", place / "model", *words, "--keep", "id,age", "--out", tmp_path / "p.parquet")
        assert output.code == 0, output.err
        return pd.read_parquet(tmp_path / "p.parquet").set_index("id").sort_index()

    got, expected = predicted(*formats[name], "--batch-rows", 64), predicted(place / "rows.csv")
    pd.testing.assert_series_equal(got["probability"], expected["probability"])
    pd.testing.assert_series_equal(pd.to_numeric(got["age"]), pd.to_numeric(expected["age"]))
    costs = [
        adacsl("evaluate", place / "model", *words, *WORDS, "--json").json["cost"]["total"]
        for words in (formats[name], (place / "rows.csv",))
    ]
    assert costs[0] == costs[1]


def test_excluded_rows_are_reported_and_stored(adacsl, refused, place, tmp_path):
    frame = pd.read_csv(place / "rows.csv")
    frame.loc[[3, 5, 9], "churn"] = None
    frame.to_csv(tmp_path / "gaps.csv", index=False)
    words = (tmp_path / "gaps.csv", *WORDS, "--drop", "id,since")
    output = adacsl("train", *words, "--method", "always-positive", "--out", tmp_path / "m", "--json")
    assert "3 rows have no label and are excluded, 397 are used" in output.err
    assert (output.json["rows"], output.json["unlabelled"]) == (397, 3)
    assert load_noted(tmp_path / "m")[1]["unlabelled"] == 3
    assert adacsl("evaluate", place / "model", tmp_path / "gaps.csv", *WORDS, "--json").json["unlabelled"] == 3
    methods = ("--methods", "always-positive,always-negative", "--folds", 2, "--repeats", 1, "--n-jobs", 1)
    output = adacsl("compare", *words, *methods, "--out", tmp_path / "run", "--json", "--quiet")
    assert output.json["left_out"] == {"gaps": {"unlabelled": 3}}
    assert "3 rows have no label and are excluded" in (tmp_path / "run" / "report.html").read_text()
    line = refused("train", *words, "--method", "always-positive", "--on-error", "stop", "--out", tmp_path / "m")
    assert "missing in 3 of 400 rows, first in row 4" in line


def test_the_next_command_shows_how_the_data_were_read(adacsl, formats, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = (*formats["sqlite"], *WORDS, "--drop", "id,since", "--methods", "always-positive,always-negative")
    output = adacsl(
        "compare", *words, "--folds", 2, "--repeats", 1, "--n-jobs", 1, "--save", "model", "--json", "--quiet"
    )
    assert output.code == 0, output.err
    assert output.json["next"].startswith("adacsl predict model --sql 'select * from people' --db ")
    assert "adacsl train --target churn" in output.json["train"][0]
    assert "--sql 'select * from people' --db " in output.json["train"][0]


def test_broken_images_are_excluded_from_predictions(adacsl, refused, images, tmp_path):
    shutil.copytree(images / "data", tmp_path / "data")
    (tmp_path / "data" / "ill" / "03.png").write_bytes(b"no picture")
    output = adacsl("predict", images / "model", tmp_path / "data", "--out", tmp_path / "p.csv", "--json")
    assert (output.json["rows"], output.json["broken"]) == (23, ["ill/03.png: no image"])
    got = pd.read_csv(tmp_path / "p.csv")
    assert adacsl("predict", images / "model", images / "data", "--out", tmp_path / "all.csv").code == 0
    whole = pd.read_csv(tmp_path / "all.csv")
    pd.testing.assert_frame_equal(got, whole[whole["file"] != "ill/03.png"].reset_index(drop=True))
    words = ("predict", images / "model", tmp_path / "data", "--out", tmp_path / "p.csv")
    assert "1 images cannot be read and are excluded (ill/03.png), 23 are used" in adacsl(*words).out
    assert "cannot read image" in refused(*words, "--on-error", "stop")


def test_other_commands_read_queries_too(adacsl, refused, place, formats, tmp_path):
    query = formats["sqlite"]
    words = ("check", *query, "--target", "shop", "--write-costs", tmp_path / "m.csv", "--json")
    assert "churn" not in adacsl(*words).json["classes"]
    assert adacsl("monitor", place / "model", *query, "--json").json["rows"] == 400
    assert "no data are given: name a file, or give an SQL query" in refused("evaluate", place / "model", *WORDS)
    assert "db is the database of an SQL query" in refused("train", place / "rows.csv", "--db", "x", "--out", "m")
