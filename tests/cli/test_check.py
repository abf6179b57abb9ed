"""`adacsl check`, and the findings of train and compare: once, with a code, silenced by it."""

import numpy as np
import pandas as pd
import pytest

from adacsl import compare, load, load_comparison
from adacsl.datasets import Checks
from adacsl.datasets.errors import DataWarning

WORDS = ("--target", "churn", "--pos-label", "yes", "--fn", "8", "--fp", "1")


@pytest.fixture
def leaking(place, tmp_path):
    """The table with a column that gives the label away."""
    frame = pd.read_csv(place / "rows.csv")
    frame.assign(left=(frame["churn"] == "yes").astype(int)).to_csv(tmp_path / "leak.csv", index=False)
    return tmp_path / "leak.csv"


def test_check_names_each_thing_with_its_code(adacsl, leaking):
    output = adacsl("check", leaking, *WORDS)
    assert output.code == 1
    lines = output.out.splitlines()
    assert lines[0].startswith("leak: 400 samples, ")
    assert lines[0].endswith("3 findings")
    codes = [line.rpartition(" [")[2] for line in lines[2:5]]
    assert codes == ["target-leakage]", "time-ignored]", "looks-like-id]"]
    assert "docs/guide/diagnose/checks.md" in lines[-1]
    result = adacsl("check", leaking, *WORDS, "--json").json
    assert [each["severity"] for each in result["findings"]] == ["error", "warning", "warning"]
    assert result["findings"][0]["page"] == "docs/guide/diagnose/checks.md#target-leakage"


def test_check_of_clean_data_and_silenced_codes(adacsl, refused, leaking):
    output = adacsl("check", leaking, *WORDS, "--drop", "left,id", "--time-column", "since")
    assert (output.code, output.err) == (0, "")
    assert output.out.splitlines()[0].endswith("; no findings")
    output = adacsl("check", leaking, *WORDS, "--ignore", "target-leakage,looks-like-id", "--ignore", "time-ignored")
    assert output.code == 0
    assert output.out.splitlines()[0].endswith("no findings; skipped: target-leakage, looks-like-id, time-ignored")
    assert adacsl("check", "wine").code == 0
    assert "did you mean 'looks-like-id'" in refused("check", leaking, *WORDS, "--ignore", "look-like-id")


def test_train_reports_findings_before_and_after(adacsl, leaking, tmp_path):
    frame = pd.read_csv(leaking)
    noise = frame.assign(age=np.random.default_rng(1).permutation(frame["age"]), shop="web").drop(columns="left")
    noise.to_csv(tmp_path / "noise.csv", index=False)
    words = ("train", tmp_path / "noise.csv", *WORDS, "--drop", "id", "--method", "logistic", "--out", tmp_path / "m")
    output = adacsl(*words)
    assert output.code == 0
    lines = output.err.splitlines()
    assert [line.rpartition(" [")[2] for line in lines[:2]] == ["time-ignored]", "constant-column]"]
    assert lines[2:] == ["what each [code] means: docs/guide/diagnose/checks.md; to skip a check: --ignore CODE"]
    assert "[no-better-than-constant]" in output.out
    model = load(tmp_path / "m")
    assert "no-better-than-constant" in model.check().codes
    result = adacsl(*words, "--json", "--ignore", "time-ignored,constant-column,no-better-than-constant")
    assert result.err == ""
    assert result.json["checks"] == []
    assert "no-better-than-constant" not in {each["code"] for each in result.json["model_checks"]}


def test_implausible_costs_are_reported_once(adacsl, place, tmp_path):
    frame = pd.read_csv(place / "rows.csv").drop(columns=["id", "since"])
    frame.loc[frame.index[frame["churn"] == "yes"][0], "amount"] = 1e9
    frame.to_csv(tmp_path / "rows.csv", index=False)
    words = ("--target", "churn", "--pos-label", "yes", "--fn", "amount", "--fp", "2")
    for command in (("check",), ("train", "--method", "logistic", "--out", tmp_path / "m")):
        output = adacsl(command[0], tmp_path / "rows.csv", *words, *command[1:])
        assert (output.out + output.err).count("alone carries") == 1
        assert "[row-dominates]" in output.out + output.err
    output = adacsl("check", tmp_path / "rows.csv", *words, "--ignore", "row-dominates")
    assert "alone carries" not in output.out + output.err


def test_compare_reports_and_stores_findings(adacsl, leaking, tmp_path):
    words = ("compare", leaking, *WORDS, "--methods", "logistic", "--repeats", "1", "--folds", "2", "--n-jobs", "1")
    output = adacsl(*words, "--out", tmp_path / "run", "--json")
    assert output.code == 0
    assert output.err.count("column 'since' contains dates") == 1
    assert [each["code"] for each in output.json["checks"]["leak"]] == [
        "target-leakage", "time-ignored", "looks-like-id",
    ]  # fmt: skip
    stored = load_comparison(tmp_path / "run").checks["leak"]
    assert isinstance(stored, Checks)
    assert stored.has_errors
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "alone determines the label" in page
    output = adacsl(*words, "--out", tmp_path / "run", "--ignore", "target-leakage,looks-like-id")
    assert "determines the label" not in output.err
    assert "--ignore target-leakage,looks-like-id" in output.out  # the next command
    assert "alone determines the label" not in (tmp_path / "run/report.html").read_text(encoding="utf-8")


def test_python_compares_without_warnings_of_checks(rows):
    X, y = rows.drop(columns=["churn", "since"]), (rows["churn"] == "yes").astype(int)
    result = compare(X, y, methods=["logistic"], repeats=1, folds=2, n_jobs=1, progress=False, ignore=["looks-like-id"])
    assert result.checks["data"].codes == ("costs-not-given",)
    with pytest.raises(ValueError, match="there is no check 'ids'"):
        compare(X, y, methods=["logistic"], repeats=1, folds=2, progress=False, ignore=["ids"])


# errors end train and compare --save


SMALL = ("--methods", "logistic", "--repeats", "1", "--folds", "2", "--n-jobs", "1")


@pytest.mark.parametrize(
    ("words", "written"),
    [(("train", "--method", "logistic", "--out", "m"), ["m"]),
     (("compare", *SMALL, "--out", "run", "--save", "m"), ["m", "run"])],
)  # fmt: skip
def test_data_with_errors_are_refused_before_anything_is_written_unless_ignored(
    adacsl, refused, leaking, monkeypatch, words, written
):
    monkeypatch.chdir(leaking.parent)
    words = (words[0], leaking, *WORDS, *words[1:])
    line = refused(*words)
    assert "column 'left' alone determines the label" in line
    assert line.endswith(
        "[target-leakage]; nothing was trained: repair the data, or, if they are right, --ignore target-leakage"
    )
    assert "column 'left' alone" in refused(*words, "--quiet", "--json")
    assert list(leaking.parent.iterdir()) == [leaking]
    assert adacsl(*words, "--ignore", "target-leakage").code == 0
    assert sorted(path.name for path in leaking.parent.iterdir()) == ["leak.csv", *written]


def test_every_error_is_named(refused, place, tmp_path):
    frame = pd.read_csv(place / "rows.csv")
    frame = pd.concat([frame[frame["churn"] == "no"], frame[frame["churn"] == "yes"][:8]])
    frame.to_csv(tmp_path / "few.csv", index=False)
    words = ("train", tmp_path / "few.csv", *WORDS, "--method", "logistic", "--out", tmp_path / "m")
    assert "8 rows are 'yes'" in refused(*words)
    assert "--ignore few-positives" in refused(*words)


def test_python_compare_warns_of_errors(leaking):
    frame = pd.read_csv(leaking).drop(columns=["id", "since"])
    X, y = frame.drop(columns="churn"), (frame["churn"] == "yes").astype(int)
    small = {"methods": ["logistic"], "repeats": 1, "folds": 2, "n_jobs": 1, "progress": False}
    with pytest.warns(DataWarning, match=r"'left' alone determines the label .*\[target-leakage\]"):
        result = compare(X, y, fp=1, fn=8, **small)
    assert result.checks["data"].has_errors
    compare(X, y, fp=1, fn=8, **small, ignore=["target-leakage"])  # silent
