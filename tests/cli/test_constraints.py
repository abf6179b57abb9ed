"""--min-recall and its like in threshold, train and compare."""

import numpy as np
import pandas as pd
import pytest

from adacsl import CostMatrix, find_threshold, load

COSTS = CostMatrix(fp=1, fn=2)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A table of scores, and a table of features."""
    folder = tmp_path_factory.mktemp("constraints")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    log_odds = X @ [1.5, -1.0, 0.5] - 1.0
    y = (log_odds + rng.logistic(size=3000) > 0).astype(int)
    scores = pd.DataFrame({"score": 1 / (1 + np.exp(-log_odds)), "label": y, "weight": 1.0, "amount": rng.random(3000)})
    scores.to_csv(folder / "scores.csv", index=False)
    more = {"target": y, "person": np.arange(3000) // 2, "region": np.where(X[:, 2] > 0.5, "north", "south")}
    pd.DataFrame(X, columns=list("abc")).assign(**more).to_csv(folder / "rows.csv", index=False)
    return folder


def test_threshold_is_that_of_python(adacsl, files):
    frame = pd.read_csv(files / "scores.csv")
    columns = ["--score-column", "score", "--label-column", "label"]
    words = ["threshold", files / "scores.csv", *columns, "--fn", 2, "--fp", 1, "--min-recall", 0.9]
    output = adacsl(*words, "--max-positive-rate", 0.8, "--confidence", 0.9, "--batch-rows", 700, "--json").json
    best = find_threshold(frame["score"], frame["label"], COSTS, min_recall=0.9, max_positive_rate=0.8, confidence=0.9)
    assert output["constrained"]["value"] == best.value
    assert output["constrained"]["cost"] == best.cost
    assert output["constrained"]["constraints"]["min_recall"]["guaranteed"] >= 0.9
    assert output["threshold"]["value"] == find_threshold(frame["score"], frame["label"], COSTS).value
    shown = adacsl(*words).out
    assert "optimum under the constraints" in shown
    assert "recall at least 0.9 (0.90" in shown
    plain = adacsl(*words, "--confidence", "none", "--weight-column", "weight", "--json").json
    assert plain["constrained"]["value"] == pytest.approx(
        find_threshold(frame["score"], frame["label"], COSTS, min_recall=0.9, confidence=None).value
    )
    own = adacsl(
        "threshold", files / "scores.csv", *columns, "--fn", "amount", "--fp", 0.2, "--min-recall", 0.9, "--json"
    )
    by_sample = CostMatrix(fp=0.2, fn=frame["amount"].to_numpy())
    assert (
        own.json["constrained"]["value"]
        == find_threshold(frame["score"], frame["label"], by_sample, min_recall=0.9).value
    )


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--min-recall", 0.9, "--max-fpr", 0.01], "with max_fpr=0.01, recall is at most 0."),
        (["--min-recall", 0.999], "at least 2,995 positives are needed, 1,955 more"),
        (
            ["--min-recall", 1],
            "--min-recall must be a share strictly between 0 and 1; --confidence none allows 0 and 1",
        ),
        (["--min-recall", 1.5], "--min-recall must be at most 1, got 1.5"),
        (["--min-recall", 0.9, "--weight-column", "weight"], "omit --weight-column, or take --confidence none"),
        (["--confidence", 0.9], "--confidence is that of constraints: give --min-recall 0.9"),
        (["--min-recall", 0.9, "--confidence", "sure"], "--confidence must be a number between 0 and 1 such as 0.95"),
        (["--min-recall", 0.9, "--confidence", 95], "--confidence must lie strictly between 0 and 1"),
    ],
)
def test_what_is_refused(refused, files, words, match):
    columns = ["--score-column", "score", "--label-column", "label"]
    assert match in refused("threshold", files / "scores.csv", *columns, "--fn", 2, "--fp", 1, *words)


def test_trained_saved_and_used(adacsl, refused, files, tmp_path):
    words = ["train", files / "rows.csv", "--drop", "person,region", "--fn", 2, "--fp", 1, "--method", "logistic"]
    output = adacsl(*words, "--min-recall", 0.9, "--out", tmp_path / "model")
    assert "recall at least 0.9 (0.9025 certified" in output.out
    model = load(tmp_path / "model")
    assert model.constraints == {"min_recall": 0.9, "confidence": 0.95}
    again = adacsl(*words, "--min-recall", 0.9, "--out", tmp_path / "model", "--json").json
    assert again["constraints"]["min_recall"]["guaranteed"] == model.constraints_["min_recall"].guaranteed
    result = adacsl("evaluate", tmp_path / "model", files / "rows.csv", "--json").json
    rows = pd.read_csv(files / "rows.csv")
    decided = model.predict(rows[["a", "b", "c"]])
    assert result["counts"]["tp"] == ((decided == 1) & (rows["target"] == 1)).sum()
    shown = adacsl("monitor", tmp_path / "model", files / "rows.csv", "--labels", "target").out
    assert "Recall 0.9" in shown
    assert "is within the required 0.9" in shown
    grouped = [*words, "--group-column", "person", "--min-recall", 0.9, "--out", tmp_path / "grouped"]
    assert "omit --group-column, or take --confidence none" in refused(*grouped)
    assert adacsl(*grouped, "--confidence", "none").code == 0
    assert "leave out policy, or constraints" in refused(
        *words, "--min-recall", 0.9, "--refer", 0.2, "--out", tmp_path / "no"
    )


def test_compared_and_saved(adacsl, files, tmp_path):
    words = [
        "compare",
        files / "rows.csv",
        "--drop",
        "person,region",
        "--fn",
        2,
        "--fp",
        1,
        "--repeats",
        1,
        "--folds",
        2,
    ]
    words += ["--methods", "logistic,always-negative,always-positive", "--n-jobs", 1, "--min-recall", 0.9]
    output = adacsl(*words, "--out", tmp_path / "run", "--save", tmp_path / "model", "--json")
    assert output.code == 0
    assert {row["method"] for row in output.json["table"]} == {"logistic", "always-positive"}
    assert [row["method"] for row in output.json["infeasible"]] == ["always-negative"]
    assert "--min-recall 0.9" in output.json["train"][0]
    assert load(tmp_path / "model").constraints_["min_recall"].guaranteed >= 0.9
    shown = adacsl(*words, "--out", tmp_path / "run").out
    (row,) = [line for line in shown.splitlines() if line.startswith("  always-negative")]
    assert "not feasible in 2 of 2" in row


def test_recall_within_segments_and_the_share_that_certifies(adacsl, refused, files, tmp_path):
    words = [files / "rows.csv", "--drop", "person", "--fn", 2, "--fp", 1]
    limits = ["--min-recall", 0.8, "--recall-segments", "region", "--certify", 0.3]
    shown = adacsl("train", *words, *limits, "--method", "logistic", "--out", tmp_path / "model").out
    assert "recall of north at least 0.8 (" in shown
    model = load(tmp_path / "model")
    assert model.constraints == {"min_recall": 0.8, "confidence": 0.95, "segments": "region"}
    assert model.certify == 0.3
    assert set(model.constraints_) == {"min_recall of north", "min_recall of south"}
    compared = ["compare", *words, "--repeats", 1, "--folds", 2, "--methods", "logistic", "--n-jobs", 1]
    shown = adacsl(*compared, *limits, "--out", tmp_path / "run", "--json")
    assert shown.code == 0, shown.err
    assert "--min-recall 0.8 --recall-segments region --certify 0.3" in shown.json["train"][0]
    more = ["--out", tmp_path / "no"]
    for command in (["train", *words], compared):
        message = "no column 'regionn'; did you mean 'region'?"
        assert message in refused(*command, "--min-recall", 0.8, "--recall-segments", "regionn", *more)
    assert "give --min-recall 0.9, or omit --recall-segments" in refused(
        "train", *words, "--max-fpr", 0.5, "--recall-segments", "region", *more
    )
    assert "--certify is that of constraints: give --min-recall 0.9" in refused(
        "train", *words, "--certify", 0.3, *more
    )
