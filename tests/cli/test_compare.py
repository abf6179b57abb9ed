"""adacsl compare and report: the real runner on methods that need no training, and stand-ins for what goes wrong."""

import errno
import json
import os
import re
import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import adacsl as library
from adacsl import load_comparison
from adacsl.cli.app import run
from adacsl.comparison import compare
from adacsl.comparison.result import Comparison, NoResultError
from adacsl.learners.boosting_libraries import installed_library

QUICK = ("--methods", "always-negative,always-positive", "--n-jobs", 1)
TWICE = ("--repeats", 1, "--folds", 2)


@pytest.fixture
def spied(monkeypatch):
    """Catch what the command asks the library for; nothing is run."""
    asked = {}

    def compare_tasks(tasks, **options):
        asked.update(options, tasks=tasks)
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "compare_tasks", compare_tasks)
    return asked


def make_comparison(failures, paired_of):
    rows = [
        {"data": "d", "ratio": 8.0, "method": method, "seed": seed, "cost": cost + 0.01 * seed, "normalized_cost": cost,
         "savings": 1 - cost, "n_train": 80, "n_test": 20}
        for method, cost in (("net-bayes", 0.5), ("[red]adacsl", 0.4)) for seed in range(3)
    ]  # fmt: skip
    columns = ["data", "ratio", "method", "seed", "type", "message"]
    results = pd.DataFrame(rows)
    result = Comparison(results, pd.DataFrame(failures, columns=columns), {"data": {}}, {}, {})
    vars(result)["paired"] = paired_of(results)  # computed from fits, which there are none of
    return result


def test_compare_ends_with_table_recommendation_and_report(adacsl, refused, tmp_path):
    output = adacsl("compare", *QUICK, *TWICE, "--out", tmp_path / "run", "--quiet")
    assert output.code == 0, output.err
    assert "german-credit, a false negative costs 5 false positives" in output.out
    (first,) = (line for line in output.out.splitlines() if line.startswith("* always-positive "))
    assert first.endswith("lowest cost")
    assert "95 % intervals: Student's t on paired costs of 1 x 2 folds, with the variance" in output.out
    assert "Recommended: always predicting positive, the lowest cost. Mean cost 0.7 (" in output.out
    assert "always-positive" in output.out
    assert "If a false negative costs 2.5 to 10 false positives (half to double, as no range was given), " in output.out
    page, train = output.out.rstrip().splitlines()[-2:]
    assert page == f"report: {tmp_path / 'run/report.html'}"
    assert train == "next: adacsl train german-credit --method always-positive --out model/"
    assert "<html" in (tmp_path / "run/report.html").read_text()
    assert output.err == ""

    result = adacsl("compare", *QUICK, *TWICE, "--out", tmp_path / "run", "--quiet", "--json").json
    table = {row["method"]: row for row in result["table"]}
    # 5 for each of 300 bad customers of 1,000 who gets the money; 1 for each good one who does not
    assert table["always-negative"]["mean"] == pytest.approx(5 * 0.3)
    assert table["always-positive"]["mean"] == pytest.approx(0.7)
    assert result["best"] == "always-positive"
    assert result["cost_range"].startswith("If a false negative costs 2.5 to 10")
    assert result["failed"] == []
    assert (result["tolerance"], result["intervals"][:15]) == (0.1, "95 % intervals:")
    assert [(one["recommended"], one["simpler"], one["saving"]) for one in result["recommendations"]] == [
        ("always-positive", None, None)
    ]
    assert (result["prefer"], result["missing"]) == ("cost", [])

    output = adacsl("report", tmp_path / "run", "--out", tmp_path / "page.html", "--json")
    assert output.code == 0
    assert output.json["best"] == "always-positive"
    assert "Permutation importance" not in (tmp_path / "page.html").read_text()

    worth = pd.DataFrame({"column": [3, 7], "cost": [0.2, 0.0], "low": [0.1, 0.0], "high": [0.3, 0.0]})
    worth.to_csv(tmp_path / "columns.csv", index=False)
    words = ("report", tmp_path / "run", "--out", tmp_path / "page.html", "--explain", tmp_path / "columns.csv")
    assert adacsl(*words).code == 0
    page = (tmp_path / "page.html").read_text()
    assert "Permutation importance" in page
    assert "(0.100 to 0.300)" in page
    worth.drop(columns="low").to_csv(tmp_path / "columns.csv", index=False)
    assert "needs the columns ['low']" in refused(*words)
    assert (tmp_path / "page.html").read_text() == page

    words = ("report", tmp_path / "run", "--out", tmp_path / "page.html", "--unit", "EUR", "--people", "loans")
    output = adacsl(*words, "--markdown", tmp_path / "page.md", "--json").json
    assert output["markdown"] == str(tmp_path / "page.md")
    assert "Of 1,000 loans, with always-positive" in (tmp_path / "page.html").read_text()
    assert "actual bad: 300 | 300 (no cost) | 0 (5 EUR each)" in (tmp_path / "page.md").read_text()
    assert "--volume is a number of decisions per year above 0" in refused(*words, "--volume", 0)


def test_a_file_of_the_users(adacsl, place, tmp_path):
    words = ("--target", "churn", "--pos-label", "yes", "--fn", 8, "--fp", 1, "--drop", "id", "--ratios", "1x,2x")
    output = adacsl("compare", place / "rows.csv", *words, *QUICK, *TWICE, "--out", tmp_path / "run", "--json")
    assert output.code == 0, output.err
    assert {(row["data"], row["ratio"]) for row in output.json["table"]} == {("rows", 8.0), ("rows", 16.0)}


def test_networks_have_no_settings_by_default(adacsl, spied, tmp_path):
    adacsl("compare", "--out", tmp_path / "run")
    assert spied["neural"] is None


WORDS = ("--target", "churn", "--pos-label", "yes", "--drop", "id,since", "--fn", 8, "--fp", 0.5)


def train_line(output):
    start, _, command = output.out.rstrip().splitlines()[-1].partition(": ")
    assert start == "next"
    assert output.json is None
    return shlex.split(command)


def test_the_last_line_can_be_typed_and_fits_the_method_it_names(adacsl, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my rows.csv").write_bytes((place / "rows.csv").read_bytes())
    methods = ("--methods", "always-negative,gbm-bayes", "--n-jobs", 1, "--epochs", 3, *TWICE, "--quiet")
    command = train_line(adacsl("compare", "my rows.csv", *WORDS, *methods, "--out", "run"))
    shown = ["--target", "churn", "--pos-label", "yes", "--drop", "id,since", "--fn", "8", "--fp", "0.5"]
    # trees have no epochs
    assert command == ["adacsl", "train", "my rows.csv", *shown, "--method", "gbm-bayes", "--out", "model/"]
    assert run(command[1:]) == 0
    model = library.load(tmp_path / "model")
    assert (model.costs_.fn, model.costs_.fp) == (8, 0.5)
    assert model.feature_names_in_.tolist() == ["age", "gap", "shop", "amount"]
    booster = load_comparison(tmp_path / "run").report_data().facts["boosting"]
    assert booster == (installed_library() or "scikit-learn")
    assert re.search(rf"boosting\W.{{0,60}}{booster}", (tmp_path / "run/report.html").read_text(), re.DOTALL)

    # --save does the same, and ends with the command that uses the model
    words = ("compare", "my rows.csv", *WORDS, *methods, "--out", "run", "--save", "my model")
    where, page, following = adacsl(*words).out.rstrip().splitlines()[-3:]
    assert page == "report: run/report.html"
    assert where == "model: my model (gbm-bayes, fitted on all 400 samples)"
    assert adacsl(*shlex.split(following.removeprefix("next: adacsl "))).code == 0
    features = pd.read_csv(tmp_path / "my rows.csv")[model.feature_names_in_.tolist()]
    mine = library.load(tmp_path / "my model").predict_proba(features)
    np.testing.assert_array_equal(mine, model.predict_proba(features))
    np.testing.assert_allclose(pd.read_csv(tmp_path / "decisions.csv")["probability"], mine[:, 1])
    again = adacsl(*words, "--json").json
    assert (again["model"], again["fitted"]["method"]) == ("my model", "gbm-bayes")
    assert again["next"] == "adacsl predict 'my model' 'my rows.csv' --out decisions.csv"


def test_what_cannot_be_saved_is_reported_beside_the_recommendation(adacsl, refused, place, tmp_path):
    words = ("--target", "churn", "--pos-label", "yes", "--fn", "amount", "--fp", 1, *QUICK, *TWICE, "--quiet")
    model = ("--save", tmp_path / "model")
    output = adacsl("compare", place / "rows.csv", *words, "--ratios", 4, *model, "--out", tmp_path / "a")
    assert output.code == 1
    assert (
        output.out.rstrip()
        .splitlines()[-2]
        .startswith("no model was saved: always-positive has no name on the command line")
    )
    assert "the lowest cost" in output.out
    assert not (tmp_path / "model").exists()
    assert "--save keeps one model, and there are 2 data sets" in refused("compare", "wine", "digits", *model)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/notes.txt").touch()
    line = refused("compare", "wine", *model)
    assert line.endswith("model holds other files and no model: give a new folder, --save model/")


def test_a_full_disk_still_shows_the_recommendation(adacsl, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "report.html")

    monkeypatch.setattr("adacsl.report.comparison.write_report", full)
    monkeypatch.setattr("adacsl.cli.compare.Training.run", full)
    words = ("compare", *QUICK, *TWICE, "--out", tmp_path / "run", "--quiet")
    output = adacsl(*words, "--save", tmp_path / "model")
    assert output.code == 1
    assert "Recommended: always predicting positive, the lowest cost" in output.out
    again = f"once there is room: adacsl report {tmp_path / 'run'}"
    assert output.out.splitlines()[-3] == "no model was saved: No space left on device"
    assert output.out.splitlines()[-2] == f"no report was written: No space left on device; {again}"
    document = json.loads(adacsl(*words, "--json").out)
    assert (document["report"], document["not_reported"]) == (None, "No space left on device")
    assert document["best"] == "always-positive"
    monkeypatch.undo()
    assert adacsl("report", tmp_path / "run").code == 0


def test_the_last_line_has_the_options_of_networks_and_the_costs_of_its_recommendation(adacsl, place, tmp_path):
    words = ("--methods", "net-bayes", "--n-jobs", 1, "--epochs", 1, "--device", "cpu", *TWICE, "--quiet")
    command = train_line(adacsl("compare", place / "rows.csv", *WORDS, *words, "--ratios", 4, "--out", tmp_path / "r"))
    assert command[-8:] == ["--epochs", "1", "--device", "cpu", "--method", "net-bayes", "--out", "model/"]
    assert command[command.index("--fn") + 1] == "2"
    assert command[command.index("--fp") + 1] == "0.5"


def test_scaled_per_sample_costs_have_no_command(adacsl, place, tmp_path):
    words = ("--target", "churn", "--pos-label", "yes", "--fn", "amount", "--fp", 1, *QUICK, *TWICE)
    result = adacsl("compare", place / "rows.csv", *words, "--ratios", 4, "--out", tmp_path / "a", "--json")
    assert result.json["train"] == []
    result = adacsl("compare", place / "rows.csv", *words, "--out", tmp_path / "b", "--json")
    assert "--fn amount --fp 1 --method always-" in result.json["train"][0]


def test_a_baseline_column_is_a_row_of_the_table_and_no_feature(adacsl, rows, tmp_path):
    rows["done"] = np.where(rows["age"] > 50, "yes", "no")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = (*WORDS, "--baseline-column", "done", "--methods", "always-positive,logistic", "--n-jobs", 1, *TWICE)
    output = adacsl("compare", tmp_path / "rows.csv", *words, "--out", tmp_path / "run", "--quiet")
    assert output.code == 0, output.err
    lines = output.out.splitlines()
    assert [line[2:].split()[0] for line in lines[3:6]] == ["logistic", "baseline", "always-positive"]  # constants last
    assert re.search(r"Recommended: logistic, .* per sample, 86 % \(.*-100 %\) less than your current", output.out)
    assert "; always predicting yes costs " in output.out
    command = shlex.split(lines[-1].partition(": ")[2])
    assert command[command.index("--drop") + 1] == "id,since,done"
    assert ">baseline<" in (tmp_path / "run/report.html").read_text()
    (recommendation,) = adacsl("compare", tmp_path / "rows.csv", *words, "--out", tmp_path / "run", "--json").json[
        "recommendations"
    ]
    assert (recommendation["recommended"], recommendation["saving"]["against"]) == (
        "logistic",
        "your current decisions",
    )
    assert (
        recommendation["saving"]["percent_low"]
        < recommendation["saving"]["percent"]
        < recommendation["saving"]["percent_high"]
    )
    strict = adacsl("report", tmp_path / "run", "--tolerance", 0, "--out", tmp_path / "p.html", "--json").json
    assert strict["tolerance"] == 0


def test_options_reach_the_library(adacsl, spied, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.pth").touch()
    words = ("--methods", "net,net-weighted", "--methods", "net-focal", "--ratios", "4,2x", "--repeats", 3,
             "--folds", 4, "--racing", "off",
             "--tolerance", 0.2, "--prefer", "simple", "--backend", "ray", "--address", "auto",
             "--gpus", 0.25, "--n-jobs", 4, "--device", "cpu", "--epochs", 7,
             "--weights", "w.pth", "--rotate", "--quiet", "--out", "runs/x", "--ignore", "few-rows")  # fmt: skip
    output = adacsl("compare", *words)
    assert output.code == 130
    assert output.err == "stopped: what is finished is kept in runs/x; the same command resumes from there\n"
    task = spied.pop("tasks")[0]
    assert task.name == "german-credit"
    assert str(spied.pop("folder")) == "runs/x"
    neural = spied.pop("neural").changed()
    assert neural.pop("augment").rotate is True
    assert neural == {"epochs": 7, "weights": "w.pth"}
    assert spied == {
        "methods": ["net", "net-weighted", "net-focal"], "ratios": ["4", "2x"], "repeats": 3, "folds": 4,
        "racing": False, "tolerance": 0.2,
        "prefer": "simple", "backend": "ray", "address": "auto",
        "gpus": 0.25, "n_jobs": 4, "device": "cpu", "progress": False, "gap": None, "label_delay": None,
        "ignore": ["few-rows"], "constraints": None, "certify": 0.2,
    }  # fmt: skip


def test_each_data_and_costs_have_a_folder_of_their_own(adacsl, spied, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = []
    for words in ((), ("--fn", 9, "--fp", 1), ()):
        adacsl("compare", "breast-cancer", *words)
        folders.append(str(spied["folder"]))
    assert folders[0] == folders[2] != folders[1]
    assert folders[0].startswith("runs/breast-cancer-")
    assert (spied["methods"], spied["ratios"]) == (["default"], None)
    assert list(tmp_path.iterdir()) == []


def test_failed_fits_are_named_and_exit_with_1(adacsl, monkeypatch, tmp_path, paired_of):
    failures = [("d", 8.0, "net-smote", seed, "ValueError", "too few\nneighbours") for seed in range(7)]
    result = make_comparison(failures, paired_of)
    monkeypatch.setattr(compare, "compare_tasks", lambda tasks, **options: result)
    monkeypatch.setattr(Comparison, "report", lambda self, path, **_: path)
    output = adacsl("compare", "--out", tmp_path / "run")
    assert output.code == 1
    assert "7 fits failed; the same command tries them again" in output.out
    assert "  d, ratio 8, net-smote, seed 0: ValueError: too few neighbours\n" in output.out
    assert "... and 2 more" in output.out
    assert "[red]adacsl" in output.out  # names are no markup
    result = adacsl("compare", "--out", tmp_path / "run", "--json")
    assert (result.code, len(result.json["failed"])) == (1, 7)


def test_no_result_at_all_is_one_line(refused, monkeypatch, tmp_path):
    def compare_tasks(tasks, **options):
        raise NoResultError("no method came to an end: 3 classes")

    monkeypatch.setattr(compare, "compare_tasks", compare_tasks)
    assert refused("compare", "--out", tmp_path / "run", code=1) == "error: no method came to an end: 3 classes"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--methods", "magic"), "there is no method 'magic'"),
        (("--ratios", "many"), "a ratio is a positive number such as 8"),
        (("--ratios", "-1"), "a ratio is a positive number"),
        (("--repeats", "0"), "--repeats must be at least 1"),
        (("--folds", "1"), "--folds must be at least 2"),
        (("--tolerance", "10"), "--tolerance is a share of the cost from 0 to below 1"),
        (("--baseline-column", "statis"), "did you mean 'status'?"),
        (("--baseline-column", "age"), "must hold decisions ('good' and 'bad', or 0 and 1) or scores"),
        (("--n-jobs", "0"), "--n-jobs must be at least 1"),
        (("--address", "auto"), "--address is for --backend ray"),
        (("--fn", "0", "--fp", "1"), "fn must cost more than tp"),
        (("--fn", "8"), "--fp 1 (or --fp COLUMN) is missing"),
        (("nothing.csv",), "there is no file or folder nothing.csv"),
        (("wine", "--fn", "8", "--fp", "1"), "are costs of two"),
        (("breast-cancr",), "did you mean 'breast-cancer'?"),
        (("breast-cancer", "--target", "y"), "has its own labels"),
        (("breast-cancer", "breast-cancer"), "data sets must have different names"),
        (("--epochs", "0"), "--epochs must be at least 1"),
        (("--device", "abacus"), "device must be"),
        (("--weights", "w.pth"), "there is no file w.pth"),
    ],
)
def test_wrong_comparisons_are_one_line(refused, tmp_path, monkeypatch, words, match):
    monkeypatch.chdir(tmp_path)
    assert match in refused("compare", *words)
    assert list(tmp_path.iterdir()) == []


def test_reports_of_no_run_are_one_line(refused, tmp_path):
    assert "there is no folder" in refused("report", tmp_path / "none")
    line = refused("report", tmp_path)
    assert str(tmp_path) in line
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_a_run_with_failures_exits_with_1(adacsl, monkeypatch, tmp_path):
    result = SimpleNamespace(
        recommendation="v", best="net", progress="", missing=[], report=lambda path, **_: path,
        failures=pd.DataFrame([("d", 8.0, "net-smote", 0, "ValueError", "x")],
                              columns=["data", "ratio", "method", "seed", "type", "message"]),
    )  # fmt: skip
    monkeypatch.setattr(compare, "load_comparison", lambda folder, **_: result)
    assert adacsl("report", tmp_path).code == 1


# more than two classes

CLASSES = ("compare", "wine", "--methods", "net,net-bayes", "--epochs", 2, "--n-jobs", 1, *TWICE, "--quiet")


def test_more_than_two_classes_are_compared_and_reported(adacsl, tmp_path):
    costs = tmp_path / "matrix.csv"
    costs.write_text("predicted,class_0,class_1,class_2\nclass_0,0,1,9\nclass_1,2,0,3\nclass_2,1,20,0\n")
    output = adacsl(*CLASSES, "--costs", costs, "--out", tmp_path / "run")
    assert output.code == 0, output.err
    assert "wine, 3 classes; mean cost per sample" in output.out
    assert "ratio" not in output.out
    train = output.out.rstrip().splitlines()[-1]
    command = f"adacsl train wine --costs {re.escape(str(costs))} --epochs 2 --method net(-bayes)? --out model/"
    assert re.fullmatch(f"next: {command}", train)
    assert "3 classes, a cost for each kind of error" in (tmp_path / "run/report.html").read_text()

    again = adacsl("report", tmp_path / "run", "--out", tmp_path / "again.html", "--json").json
    assert again["failed"] == []
    assert "Try other costs" in (tmp_path / "again.html").read_text()

    words = shlex.split(train.removeprefix("next: adacsl "))
    fitted = adacsl(*words[:-1], tmp_path / "model", "--quiet")
    assert fitted.code == 0, fitted.err
    assert library.load(tmp_path / "model").costs_.n_classes == 3


def test_more_than_two_classes_have_no_ratios_and_not_all_methods(adacsl, refused, tmp_path):
    out = ("--out", tmp_path / "run")
    assert "a matrix of 3 classes is compared as it is" in refused(*CLASSES, "--ratios", "1x,3x", *out)
    line = refused("compare", "wine", "--methods", "net,metacost", *out)
    assert "method 'metacost' is for two classes, but the data have 3" in line
    assert not (tmp_path / "run").exists()


def test_costs_by_segment_are_shown_and_reported(adacsl, refused, place, tmp_path):
    words = ("--target", "churn", "--pos-label", "yes", "--fn", 8, "--fp", 1, "--drop", "id,shop", *QUICK, *TWICE)
    words = ("compare", place / "rows.csv", *words, "--out", tmp_path / "run", "--quiet")
    result = adacsl(*words, "--segments", "shop,age", "--json").json
    assert [part["column"] for part in result["segments"]] == ["shop", "age"]
    assert {part["segment"] for part in result["segments"][0]["segments"]} == {"web", "city", "mall"}
    again = adacsl(*words).out
    assert "rows by shop, ratio 8; mean cost per sample" in again
    assert "than the others  significant" in again
    assert "Cost by shop" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "has no column 'shopp'; did you mean 'shop'?" in refused(*words, "--segments", "shopp")
