"""adacsl train, predict, evaluate, export and data."""

import errno
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

import adacsl as library
from adacsl import CostMatrix
from adacsl.cli.console import Screen
from adacsl.cli.model_folder import load_model, save_model
from adacsl.estimators.artefact import ArtefactError
from adacsl.learners import BoostingLearner, SklearnLearner
from adacsl.neural.learner import NeuralLearner

PROGRAM = [sys.executable, "-m", "adacsl.cli"]
SAID = ("--target", "churn", "--pos-label", "yes", "--fn", "8", "--fp", "1", "--drop", "id", "--ignore", "time-ignored")
TRAIN = (*SAID, "--method", "adacsl", "--epochs", "2", "--cv", "0")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# train


def test_train_saves_a_model_and_shows_what_it_will_cost(adacsl, place, tmp_path):
    output = adacsl("train", place / "rows.parquet", *TRAIN, "--out", tmp_path / "m", "--json")
    assert output.code == 0, output.err
    model = library.load(tmp_path / "m")
    assert output.json["estimated_cost"]["mean"] == model.estimated_cost_.estimate
    assert output.json["estimated_cost"]["interval"] == list(model.estimated_cost_[1:])
    assert output.json["threshold"] == model.threshold_
    assert (output.json["classes"], output.json["pos_label"]) == (["no", "yes"], "yes")
    assert model.feature_names_in_.tolist() == ["age", "gap", "shop", "since", "amount"]
    assert model.pos_label_ == "yes"


def test_train_text_names_cost_threshold_and_place(adacsl, place, tmp_path):
    output = adacsl("train", place / "rows.csv", *TRAIN, "--out", tmp_path / "m")
    for words in (
        "estimated mean cost per sample (on validation samples)",
        "95 % interval",
        "probability above 0.1111",
        f"model: {tmp_path / 'm'}",
        f"next: adacsl predict {tmp_path / 'm'} {place / 'rows.csv'} --out decisions.csv",
    ):
        assert words in output.out
    assert output.err == ""


def test_costs_of_rows_reach_training_and_are_remembered(adacsl, place, rows, tmp_path):
    words = ("--target", "churn", "--pos-label", "yes", "--drop", "id", "--method", "adacsl", "--epochs", "2")
    costs = ("--fn", "amount", "--fp", "2")
    output = adacsl("train", place / "rows.csv", *words, *costs, "--out", tmp_path / "m")
    assert output.code == 0
    model = library.load(tmp_path / "m")
    # only positives can be false negatives
    assert model.costs_.fn == pytest.approx(rows.loc[rows["churn"] == "yes", "amount"].mean())
    out = tmp_path / "p.csv"
    assert adacsl("predict", tmp_path / "m", place / "rows.csv", "--out", out).code == 0
    proba = model.predict_proba(rows[model.feature_names_in_])[:, 1]
    costs = CostMatrix(fp=2, fn=rows["amount"].to_numpy())
    result = pd.read_csv(out)
    assert (result["decision"] == "yes").to_numpy().tolist() == (costs.decide(proba) == 1).tolist()
    np.testing.assert_allclose(result["expected_cost"], costs.expected(proba), rtol=1e-6)
    result = adacsl("evaluate", tmp_path / "m", place / "rows.csv", "--json").json
    assert result["cost"]["mean"] == pytest.approx(costs.mean(rows["churn"] == "yes", costs.decide(proba)))
    assert result["threshold"] is None


def test_no_costs_are_named(adacsl, place, tmp_path):
    words = ("--target", "churn", "--pos-label", "yes", "--method", "adacsl", "--epochs", "1")
    output = adacsl("train", place / "rows.csv", *words, "--out", tmp_path / "m")
    assert output.code == 0
    assert "warning: no costs were given: all classes have equal weight" in output.err
    assert "[costs-not-given]\n" in output.err


def test_absent_gpu_is_a_note(adacsl, place, tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    output = adacsl("train", place / "rows.csv", *TRAIN, "--device", "cuda", "--out", tmp_path / "m")
    assert output.code == 0
    assert "warning: device 'cuda' was asked for, but no GPU is available: using the CPU" in output.err
    assert output.err.count("\n") == 1


def test_labels_that_are_numbers_come_back_as_numbers(adacsl, place, rows, tmp_path):
    rows.assign(churn=(rows["churn"] == "yes").astype(int)).to_parquet(tmp_path / "rows.parquet")
    words = ("--target", "churn", "--fn", "8", "--fp", "1", "--method", "net", "--epochs", "1", "--out", tmp_path / "m")
    assert adacsl("train", tmp_path / "rows.parquet", *words).code == 0
    assert adacsl("predict", tmp_path / "m", tmp_path / "rows.parquet", "--out", tmp_path / "p.parquet").code == 0
    assert set(pd.read_parquet(tmp_path / "p.parquet")["decision"]) <= {0, 1}


def test_a_folder_of_other_files_is_left_alone_unless_forced(adacsl, refused, place, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    line = refused("train", place / "rows.csv", *TRAIN, "--out", tmp_path)
    assert "holds other files and no model" in line
    assert "--force" in line
    assert names(tmp_path) == ["thesis.tex"]
    assert adacsl("train", place / "rows.csv", *TRAIN, "--out", tmp_path, "--force").code == 0
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    library.load(tmp_path)
    assert adacsl("train", place / "rows.csv", *TRAIN, "--out", tmp_path).code == 0  # now it is a model: replaced
    assert [name for name in names(tmp_path) if name.startswith(".")] == []


def test_ctrl_c_while_training_shows_how_to_go_on(place, rows, tmp_path):
    pd.concat([rows] * 20).to_csv(tmp_path / "rows.csv", index=False)  # long enough epochs to be interrupted
    known = (*SAID, "--ignore", "target-leakage")  # of copied rows every number tells the label
    command = [*PROGRAM, "train", str(tmp_path / "rows.csv"), *known, "--method", "adacsl", "--epochs", "1000",
               "--resume", str(tmp_path / "ckpt"), "--out", str(tmp_path / "m")]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while time.monotonic() < until and not list(tmp_path.glob("ckpt/together/last.ckpt")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("stopped: start it again, with --resume")
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--cv", "1"), "--cv must be 0 or at least 2 folds, got 1"),
        (("--weights", "x.pth"), "--weights are for image networks"),
        (("--epochs", "0"), "--epochs must be at least 1, got 0"),
        (("--method", "magic"), "there is no method 'magic' (known: always-negative, always-positive, logistic"),
        (("--device", "tpu"), "device must be"),
        (("--fn", "0"), "fn must cost more than tp"),
        (("--fp", "-2"), "fp must cost more than tn"),
        (("--target", "churned"), "no column 'churned'; did you mean 'churn'?"),
        (("--pos-label", "maybe"), "no class 'maybe'"),
        (("--drop", "ID"), "no column 'ID'; did you mean 'id'?"),
        (("--group-column", "house"), "no column 'house'"),
        (("--target", "shop"), "is for two classes, but column 'shop'"),
    ],
)
def test_wrong_training_is_one_line_and_leaves_nothing(refused, place, tmp_path, words, match):
    given = list(TRAIN)
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option in given:
            given[given.index(option) + 1] = value
        else:
            given += [option, value]
    assert match in refused("train", place / "rows.csv", *given, "--out", tmp_path / "m")
    assert names(tmp_path) == []


def test_text_in_a_column_of_costs_is_one_line(refused, place, tmp_path):
    words = ("--target", "churn", "--pos-label", "yes", "--fn", "shop", "--fp", "1", "--out", tmp_path / "m")
    line = refused("train", place / "rows.csv", *words)
    assert f"{place / 'rows.csv'}: column 'shop' must hold numbers to be a cost, got '" in line


def test_missing_files_folders_and_images_are_one_line(refused, tmp_path):
    words = ("--pos-label", "a", "--fn", 8, "--fp", 1, "--out", tmp_path / "m")
    assert "there is no file or folder" in refused("train", tmp_path / "none.csv", *words)
    (tmp_path / "empty").mkdir()
    assert "holds no images" in refused("train", tmp_path / "empty", *words)
    (tmp_path / "photos/a").mkdir(parents=True)
    (tmp_path / "photos/b").mkdir()
    assert "holds no images" in refused("train", tmp_path / "photos", *words)
    (tmp_path / "photos/a/x.png").write_bytes(b"no picture")
    (tmp_path / "photos/b/y.png").write_bytes(b"no picture")
    assert "none of 2 images can be read, the first, " in refused("train", tmp_path / "photos", *words)
    assert "cannot read image" in refused("train", tmp_path / "photos", *words, "--on-error", "stop")
    (tmp_path / "photos/c").mkdir()
    assert "3 class folders" in refused("train", tmp_path / "photos", *words)
    assert not (tmp_path / "m").exists()


# methods

WITHOUT_NETS = (
    "always-negative", "always-positive", "logistic", "gbm-bayes", "gbm-tuned", "gbm-weighted", "gbm-instance",
    "metacost",
)  # fmt: skip
ALIKE = {"logistic-weighted", "net-tuned-last", "net-calibrated-last", "xgboost", "lightgbm", "catboost",
         "net-bayes-cv",
         "net-weighted-cv", "gbm-bayes-cv", "ensemble"}  # fmt: skip
"""Others have their parts too, or they have tests of their own."""
FAMILIES = (
    "always-positive",
    "logistic",
    "gbm-tuned",
    "gbm-instance",
    "net",
    "net-smote",
    "net-calibrated",
    "adacsl-cv",
)
"""One of each; tests/estimators has all methods in Python, and the weekly tests all on the command line."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAMILIES else pytest.mark.weekly)
        for name in library.METHODS
        if name not in ALIKE
    ],
)
def test_every_method_is_trained_predicted_and_evaluated(adacsl, refused, rows, tmp_path, name):
    rows, data = rows[:120], tmp_path / "rows.parquet"
    rows.to_parquet(data)
    epochs = () if name in WITHOUT_NETS else ("--epochs", 2)
    words = (*SAID, *epochs, "--method", name, "--device", "cpu", "--out", tmp_path / "m", "--json")
    output = adacsl("train", data, *words)
    assert (output.code, output.err) == (0, "")
    model = library.load(tmp_path / "m")
    assert (output.json["method"], output.json["estimated_cost"]["mean"]) == (name, model.estimated_cost_.estimate)
    assert ("epochs" in output.json) == (name not in WITHOUT_NETS)
    X = rows[model.feature_names_in_]
    expected = library.method(name, CostMatrix(fp=1, fn=8), pos_label="yes", random_state=0, device="cpu")
    if epochs:
        expected.set_params(learner=NeuralLearner(epochs=2))
    expected.fit(X, rows["churn"].to_numpy())
    assert np.array_equal(expected.predict_proba(X), model.predict_proba(X))

    assert adacsl("predict", tmp_path / "m", data, "--out", tmp_path / "p.parquet").code == 0
    result = pd.read_parquet(tmp_path / "p.parquet")
    assert result["decision"].tolist() == model.predict(X).tolist()  # methods without costs predict at threshold 0.5
    np.testing.assert_allclose(result["probability"], model.predict_proba(X)[:, 1], atol=1e-6)
    output = adacsl("evaluate", tmp_path / "m", data, "--json")
    assert (output.code, output.err.count("\n")) == (0, 1)
    assert output.err.startswith("warning: 100 % of these samples were used for training")
    assert output.json["cost"]["mean"] == pytest.approx(-model.score(X, rows["churn"].to_numpy()))
    assert output.json["threshold"] == pytest.approx(model.decision_.probability_threshold)
    if name.startswith("logistic"):
        assert adacsl("export", tmp_path / "m", "--onnx", tmp_path / "m.onnx").code == 0
    elif name in WITHOUT_NETS:
        line = refused("export", tmp_path / "m", "--onnx", tmp_path / "m.onnx")
        assert line.startswith("error: only neural networks and logistic regressions can be exported to ONNX")
        assert names(tmp_path) == ["m", "p.parquet", "rows.parquet"]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (
            ("--method", "gbm-bayes", "--epochs", "3"),
            "--epochs is for neural networks, but gbm-bayes trains no",
        ),
        (
            ("--method", "metacost", "--resume", "ckpt"),
            "--resume is for neural networks, but metacost trains no",
        ),
        (
            ("--method", "gbm-tuned", "--device", "cuda"),
            "--device is for neural networks, but gbm-tuned trains no",
        ),
        (("--method", "always-negative", "--cv", "5"), "--cv is for methods that learn, but always-negative does not"),
        (("--method", "net-smote", "--cv", "5"), "--cv 5: SMOTE mixes training rows"),
        (("--method", "net", "--rotate"), "--rotate is for image networks, but the data are a table"),
    ],
)
def test_options_that_a_method_has_no_use_for_are_one_line(refused, place, tmp_path, words, match):
    assert match in refused("train", place / "rows.csv", *SAID, *words, "--out", tmp_path / "m")
    assert names(tmp_path) == []


def test_constants_say_what_they_decide(adacsl, refused, place, images, tmp_path):
    output = adacsl("train", place / "rows.csv", *SAID, "--method", "always-positive", "--out", tmp_path / "m")
    assert "decides yes for every sample" in output.out
    words = ("--pos-label", "ill", "--fn", 8, "--fp", 1, "--image-size", 16, "--out", tmp_path / "p")
    output = adacsl("train", images / "data", *words, "--method", "always-negative")
    assert output.code == 0, output.err
    assert "decides well for every sample" in output.out
    output = adacsl("evaluate", tmp_path / "p", images / "data", "--json")
    assert output.json["counts"] == {"tp": 0, "fp": 0, "fn": 12, "tn": 12}
    line = refused("train", images / "data", *words, "--method", "gbm-bayes")
    assert "method 'gbm-bayes' is for tables, but the data are images" in line


def test_models_with_scores_only_are_predicted_too(adacsl, rows, tmp_path):
    from sklearn.svm import LinearSVC

    X, y = rows[["age", "amount"]].to_numpy(), (rows["churn"] == "yes").astype(int).to_numpy()
    model = library.AdaCSLClassifier(
        CostMatrix(fp=1, fn=8),
        learner=SklearnLearner(LinearSVC(), max_iter=2, encode=False),
        random_state=0,
        decide="bayes",
    ).fit(X, y)
    model.save(tmp_path / "m")
    rows[["age", "amount"]].to_csv(tmp_path / "rows.csv", index=False)
    output = adacsl("predict", tmp_path / "m", tmp_path / "rows.csv", "--out", tmp_path / "p.csv")
    assert (output.code, output.err) == (0, "")
    assert pd.read_csv(tmp_path / "p.csv")["decision"].tolist() == model.predict(X).tolist()


def test_epochs_are_shown_while_networks_train(adacsl, place, tmp_path, monkeypatch):
    shown = []

    @contextmanager
    def progress(self, title, *, total=None, unit="rows"):
        yield lambda completed, note="", total=None: shown.append((title, unit, completed, total, note[:5]))

    monkeypatch.setattr(Screen, "progress", progress)
    assert adacsl("train", place / "rows.csv", *TRAIN, "--out", tmp_path / "m").code == 0
    assert shown == [("adacsl", "epochs", epoch, 2, "cost ") for epoch in (1, 2)]
    shown.clear()
    assert adacsl("train", place / "rows.csv", *SAID, "--method", "gbm-bayes", "--out", tmp_path / "m").code == 0
    assert shown == []


# predict


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("batch", [7, 65_536])
def test_predictions_are_the_models(adacsl, place, rows, tmp_path, suffix, batch):
    out = tmp_path / f"p.{suffix}"
    output = adacsl("predict", place / "model", place / f"rows.{suffix}", "--out", out, "--keep", "id", "--batch-rows",
                  batch, "--json")  # fmt: skip
    assert output.code == 0, output.err
    model = library.load(place / "model")
    features = rows[model.feature_names_in_]
    result = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    assert result.columns.tolist() == ["id", "probability", "decision", "expected_cost"]
    assert result["id"].tolist() == rows["id"].tolist()
    proba = model.predict_proba(features)[:, 1]
    np.testing.assert_allclose(result["probability"], proba, atol=1e-6)
    assert result["decision"].tolist() == model.predict(features).tolist()
    np.testing.assert_allclose(result["expected_cost"], np.minimum(proba * 8, 1 - proba), atol=1e-6)
    assert output.json["rows"] == 400
    assert output.json["decided_positive"] == (result["decision"] == "yes").sum()
    assert output.json["expected_cost"]["total"] == pytest.approx(result["expected_cost"].sum())
    assert names(tmp_path) == [out.name]


def test_folders_of_parquet_parts_are_one_table(adacsl, place, rows, tmp_path):
    (tmp_path / "parts").mkdir()
    rows[:150].to_parquet(tmp_path / "parts/a.parquet")
    rows[150:].to_parquet(tmp_path / "parts/b.parquet")
    output = adacsl(
        "predict", place / "model", tmp_path / "parts", "--out", tmp_path / "p.parquet", "--keep", "id,since"
    )
    assert output.code == 0
    result = pd.read_parquet(tmp_path / "p.parquet")
    assert result["id"].tolist() == rows["id"].tolist()
    assert (result["since"].to_numpy() == rows["since"].to_numpy()).all()


def test_stored_columns_keep_their_kind(adacsl, place, rows, tmp_path):
    number = pd.array([None if i % 7 == 0 and i > 100 else i for i in range(400)], dtype="Int64")
    rows = rows.assign(number=number, flag=[True, False] * 200, kind=pd.Categorical(["x", "y"] * 200))
    rows.to_parquet(tmp_path / "rows.parquet")
    words = ("--keep", "number,flag", "--keep", "kind", "--batch-rows", 60)
    output = adacsl("predict", place / "model", tmp_path / "rows.parquet", "--out", tmp_path / "p.parquet", *words)
    assert output.code == 0, output.err
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.schema.field("number").type == pa.int64()
    assert table.schema.field("flag").type == pa.bool_()
    assert table["number"].to_pylist() == [None if value is pd.NA else value for value in number]
    assert table["kind"].to_pylist() == ["x", "y"] * 200


def test_numbers_that_would_be_rounded_are_refused(refused, place, rows, tmp_path):
    rows = rows.assign(number=pd.array([None, *[2**60 + i for i in range(399)]], dtype="Int64"))
    rows.to_parquet(tmp_path / "rows.parquet")
    words = ("--out", tmp_path / "p.parquet", "--keep", "number")
    line = refused("predict", place / "model", tmp_path / "rows.parquet", *words)
    assert "column 'number' has missing values and integers above 2^53" in line
    assert names(tmp_path) == ["rows.parquet"]


def test_a_bad_cost_names_its_row(refused, place, rows, tmp_path):
    rows.assign(amount=np.where(np.arange(400) == 250, np.nan, 5.0)).to_csv(tmp_path / "rows.csv", index=False)
    words = ("--out", tmp_path / "p.csv", "--fn", "amount", "--batch-rows", 100)
    line = refused("predict", place / "model", tmp_path / "rows.csv", *words)
    assert "from row 201 on" in line
    assert "in row 51" in line
    assert names(tmp_path) == ["rows.csv"]


def test_built_in_names_are_data_too(adacsl, tmp_path):
    words = ("--method", "net", "--epochs", "1", "--out", tmp_path / "m")
    assert adacsl("train", "breast-cancer", *words).code == 0
    output = adacsl("predict", tmp_path / "m", "breast-cancer", "--out", tmp_path / "p.csv", "--json")
    assert output.json["rows"] == 569
    assert output.json["pos_label"] == "malignant"
    assert adacsl("evaluate", tmp_path / "m", "breast-cancer", "--json").json["rows"] == 569


def test_models_of_arrays_take_columns_by_position(adacsl, refused, rows, tmp_path):
    X, y = rows[["age", "amount"]].to_numpy(), (rows["churn"] == "yes").astype(int)
    model = library.AdaCSLClassifier(CostMatrix(fp=1, fn=8), learner=NeuralLearner(epochs=1), random_state=0).fit(X, y)
    model.save(tmp_path / "m")
    rows[["id", "age", "amount"]].to_csv(tmp_path / "rows.csv", index=False)
    words = (tmp_path / "m", tmp_path / "rows.csv", "--out", tmp_path / "p.csv")
    assert adacsl("predict", *words, "--keep", "id").code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["probability"], model.predict_proba(X)[:, 1], atol=1e-6)
    assert "trained on 2 columns without names" in refused("predict", *words)


def test_a_table_without_rows_gives_one(adacsl, place, rows, tmp_path):
    rows[:0].to_csv(tmp_path / "rows.csv", index=False)
    output = adacsl("predict", place / "model", tmp_path / "rows.csv", "--out", tmp_path / "p.parquet", "--json")
    assert (output.code, output.json["rows"], output.json["expected_cost"]["mean"]) == (0, 0, None)
    assert pd.read_parquet(tmp_path / "p.parquet").shape == (0, 3)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--out", "p.xlsx"), "cannot tell how to write"),
        (("--out", "none/p.csv"), "there is no folder none to write p.csv to"),
        (("--keep", "decision"), "the output has a column of that name already"),
        (("--keep", "ident"), "no column 'ident'"),
        (("--batch-rows", "0"), "--batch-rows must be at least 1"),
        (("--device", "abacus"), "device must be"),
    ],
)
def test_wrong_prediction_is_one_line(refused, place, tmp_path, monkeypatch, words, match):
    monkeypatch.chdir(tmp_path)
    assert match in refused("predict", place / "model", place / "rows.csv", *words)
    assert names(tmp_path) == []


def test_missing_columns_are_named(refused, place, rows, tmp_path):
    rows.drop(columns=["age", "shop"]).to_csv(tmp_path / "rows.csv", index=False)
    line = refused("predict", place / "model", tmp_path / "rows.csv", "--out", tmp_path / "p.csv")
    assert "lacks 2 of the 5 columns that the model was trained on (age, shop)" in line


def test_text_where_numbers_were_is_one_line_and_nothing_half_written(refused, place, rows, tmp_path):
    rows.assign(age=[*map(str, rows["age"][:399]), "old"]).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "p.csv").write_text("older predictions")
    line = refused("predict", place / "model", tmp_path / "rows.csv", "--out", tmp_path / "p.csv", "--batch-rows", 100)
    assert "column 'age' held numbers when the encoder was fitted, now it holds 'old'" in line
    assert names(tmp_path) == ["p.csv", "rows.csv"]
    assert (tmp_path / "p.csv").read_text() == "older predictions"


def test_the_data_themselves_are_not_overwritten(refused, place, rows, tmp_path):
    rows.to_csv(tmp_path / "rows.csv", index=False)
    line = refused("predict", place / "model", tmp_path / "rows.csv", "--out", tmp_path / "rows.csv")
    assert "is the data to predict" in line


@pytest.mark.parametrize("out", ["p.parquet", "p.csv"])
def test_full_disk_leaves_nothing(refused, place, rows, tmp_path, out):
    pd.concat([rows] * 30).to_parquet(tmp_path / "rows.parquet")
    words = ("predict", place / "model", tmp_path / "rows.parquet", "--batch-rows", 1000, "--out", tmp_path / out)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))  # the system refuses to let any file grow beyond
    try:
        line = refused(*words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert line.startswith(f"error: could not write {tmp_path / out}: ")
    assert "File too large" in line
    assert line.endswith("nothing was left there")
    assert names(tmp_path) == ["rows.parquet"]


def test_full_disk_while_a_model_is_saved(refused, place, tmp_path, monkeypatch):
    from adacsl.storage import atomic

    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(atomic, "write_file", full)
    line = refused("train", place / "rows.csv", *TRAIN, "--out", tmp_path / "m")
    assert "could not write" in line
    assert "No space left on device" in line
    assert names(tmp_path) == []


@pytest.mark.parametrize("command", ["train", "predict", "compare", "export", "threshold"])
def test_places_that_cannot_be_written_are_refused_before_any_work(refused, place, tmp_path, monkeypatch, command):
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
    out = tmp_path / "x.csv"
    words = {
        "train": ("train", place / "rows.csv", *TRAIN, "--out", tmp_path / "m"),
        "predict": ("predict", place / "model", "rows", "--out", out),
        "compare": ("compare", "--out", tmp_path / "run"),
        "export": ("export", place / "model", "--onnx", out),
        "threshold": ("threshold", place / "rows.csv", "--fn", 8, "--fp", 1, "--curve", out),
    }[command]
    line = refused(*words)
    assert line == f"error: no permission to write to {tmp_path}: choose another place"
    assert names(tmp_path) == []


def test_a_file_is_no_folder(refused, place, tmp_path):
    (tmp_path / "file").write_text("")
    line = refused("train", place / "rows.csv", *TRAIN, "--out", tmp_path / "file/model")
    assert f"{tmp_path / 'file'} is a file" in line
    assert "is a file" in refused("train", place / "rows.csv", *TRAIN, "--out", tmp_path / "file")
    assert "is a file" in refused("compare", "--out", tmp_path / "file")
    assert "is a folder: give the name of a file" in refused("export", place / "model", "--onnx", tmp_path)
    words = ("threshold", place / "rows.csv", "--fn", 8, "--fp", 1, "--curve", "/dev/full")
    assert "not a regular file" in refused(*words)


def test_ctrl_c_removes_the_draft(adacsl, place, tmp_path, monkeypatch):
    real, calls = library.CostSensitiveClassifier.decision_scores, []

    def interrupted(self, X, **given):
        calls.append(names(tmp_path))
        if len(calls) > 2:
            raise KeyboardInterrupt
        return real(self, X, **given)

    monkeypatch.setattr(library.CostSensitiveClassifier, "decision_scores", interrupted)
    output = adacsl("predict", place / "model", place / "rows.csv", "--out", tmp_path / "p.csv", "--batch-rows", 50)
    assert (output.code, output.out) == (130, "")
    assert output.err == "stopped: nothing was written; start the command again\n"
    assert calls[-1][0].endswith(".draft")
    assert names(tmp_path) == []


# images


def test_images_are_predicted_by_file(adacsl, images, tmp_path):
    output = adacsl("predict", images / "model", images / "data", "--out", tmp_path / "p.csv", "--json")
    assert output.code == 0, output.err
    result = pd.read_csv(tmp_path / "p.csv")
    assert result["file"].tolist() == [f"{label}/{i:02d}.png" for label in ("ill", "well") for i in range(12)]
    model = library.load(images / "model")
    proba = model.predict_proba(images / "data")[:, list(model.classes_).index("ill")]
    np.testing.assert_allclose(result["probability"], proba, atol=1e-4)
    assert set(result["decision"]) <= {"ill", "well"}


def test_a_column_that_training_dropped_need_not_be_there(adacsl, rows, place, tmp_path):
    """The model knows its columns: repeating the options of the training asks for no others."""
    rows.drop(columns="id").to_parquet(tmp_path / "rows.parquet")
    expected = adacsl("evaluate", place / "model", place / "rows.parquet", "--json").json
    output = adacsl("evaluate", place / "model", tmp_path / "rows.parquet", "--drop", "id", "--json", "--quiet")
    assert output.code == 0
    assert output.err.startswith("warning: 100 % of these samples were used for training")
    assert len(output.err.splitlines()) == 1
    assert output.json["cost"] == expected["cost"]


def test_images_are_evaluated(adacsl, images):
    output = adacsl("evaluate", images / "model", images / "data", "--json")
    assert output.code == 0, output.err
    assert (output.json["rows"], output.json["positives"]) == (24, 12)
    assert sum(output.json["counts"].values()) == 24


def test_images_and_tables_are_not_mixed_up(refused, images, place, tmp_path):
    out = ("--out", tmp_path / "p.csv")
    assert "trained on images, but" in refused("predict", images / "model", place / "rows.csv", *out)
    assert "trained on a table, but" in refused("predict", place / "model", images / "data", *out)
    assert "trained on images, but" in refused("predict", images / "model", "breast-cancer", *out)
    assert "trained on images" in refused("evaluate", images / "model", place / "rows.csv", "--target", "churn",
                                            "--pos-label", "yes")  # fmt: skip
    assert "images have no columns" in refused("predict", images / "model", images / "data", "--keep", "id", *out)
    assert "trained on images, which have no columns" in refused("explain", images / "model", images / "data")
    (tmp_path / "none").mkdir()
    assert "holds no images" in refused("predict", images / "model", tmp_path / "none", *out)
    (tmp_path / "none/x.png").write_bytes(b"")
    assert "none of 1 images can be read" in refused("predict", images / "model", tmp_path / "none", *out)
    assert names(tmp_path) == ["none"]


def test_a_model_of_costs_of_each_row_asks_for_their_column(place, adacsl, refused, tmp_path):
    frame = pd.read_csv(place / "rows.csv")
    X, y = frame[["age", "amount"]], frame["churn"]
    model = library.CostSensitiveClassifier(
        CostMatrix(fp=2, fn=1), learner=LogisticRegression(), pos_label="yes", random_state=0
    )
    folder = model.fit(X, y, fn=frame["amount"].to_numpy()).save(tmp_path / "model")
    data = place / "rows.csv"
    asks = "fitted with per-sample fn: name the column, --fn NAME, or give one cost for all samples, --fn"
    for words in (["predict", data], ["evaluate", data, "--target", "churn"], ["explain", data, "--target", "churn"]):
        line = refused(words[0], folder, *words[1:])
        assert asks in line
    assert asks in refused("monitor", folder, data)
    assert "which a request cannot give" in refused("serve", folder, "--port", "0")
    assert adacsl("predict", folder, data, "--fn", "amount", "--out", tmp_path / "out.csv").code == 0
    assert (model.predict(X, fn=frame["amount"]) == "yes").any()


# evaluate


def test_evaluation_is_what_scikit_learn_counts(adacsl, place, rows, tmp_path):
    from sklearn.metrics import confusion_matrix

    output = adacsl("evaluate", place / "model", place / "rows.csv", "--out", tmp_path / "r.csv", "--json")
    assert output.code == 0, output.err
    model = library.load(place / "model")
    decided = model.predict(rows[model.feature_names_in_])
    tn, fp, fn, tp = confusion_matrix(rows["churn"], decided, labels=["no", "yes"]).ravel()
    result = output.json
    assert result["counts"] == {"tp": tp, "fp": fp, "fn": fn, "tn": tn}
    assert result["money"] == {"tp": 0, "fp": fp, "fn": 8 * fn, "tn": 0}
    assert result["cost"]["total"] == fp + 8 * fn
    assert result["cost"]["mean"] == pytest.approx((fp + 8 * fn) / 400)
    positives = (rows["churn"] == "yes").sum()
    constant = min(8 * positives, 400 - positives)
    assert result["normalized_cost"] == pytest.approx((fp + 8 * fn) / constant)
    assert result["savings"] == pytest.approx(1 - (fp + 8 * fn) / constant)
    assert result["cost"]["interval"][0] <= result["cost"]["mean"] <= result["cost"]["interval"][1]
    assert result["threshold"] == pytest.approx(1 / 9)
    assert result["cheapest_threshold"]["mean"] <= result["cost"]["mean"]
    each = pd.read_csv(tmp_path / "r.csv")
    assert each["cost"].sum() == fp + 8 * fn
    assert each["label"].tolist() == rows["churn"].tolist()
    assert each["decision"].tolist() == decided.tolist()


def test_evaluation_shows_the_confusion_in_money(adacsl, place):
    output = adacsl("evaluate", place / "model", place / "rows.csv")
    for words in (
        "mean cost per sample",
        "95 % interval",
        "normalised cost",
        "calibration error",
        "decided yes",
        "actual no",
        "(cost ",
    ):
        assert words in output.out


def test_a_limit_makes_a_bad_result_exit_with_1(adacsl, place):
    assert adacsl("evaluate", place / "model", place / "rows.csv", "--at-most", 100).code == 0
    output = adacsl("evaluate", place / "model", place / "rows.csv", "--at-most", 0.0001)
    assert output.code == 1
    assert "is above the limit of 0.0001" in output.out
    assert (
        adacsl("evaluate", place / "model", place / "rows.csv", "--at-most", 0.0001, "--json").json["passed"] is False
    )


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("evaluate", "--out", "x.txt"), "cannot tell how to write"),
        (("explain", "--out", "x.txt"), "cannot tell how to write"),
        (("explain", "--html", "."), "is a folder: give the name of a file"),
        (("explain", "--repeats", "0"), "--repeats must be at least 1, got 0"),
        (("explain", "--target", "left"), "no column 'left'"),
    ],
)
def test_wrong_words_are_one_line(refused, place, words, match):
    assert match in refused(words[0], place / "model", place / "rows.csv", *words[1:])


def test_other_classes_are_refused(refused, place, rows, tmp_path):
    rows.assign(churn=rows["churn"].replace("no", "never")).to_csv(tmp_path / "rows.csv", index=False)
    line = refused("evaluate", place / "model", tmp_path / "rows.csv")
    assert "column 'churn' of" in line
    assert "has the classes 'never', known are 'no', 'yes'" in line


# explain


def test_explanation_is_the_librarys_and_is_written_whole(adacsl, place, rows, tmp_path):
    out, page = tmp_path / "columns.csv", tmp_path / "columns.html"
    words = ("--group-column", "id", "--fn", "amount", "--fp", 2, "--repeats", 2, "--seed", 1)
    output = adacsl("explain", place / "model", place / "rows.csv", *words, "--out", out, "--html", page, "--json")
    assert output.code == 0, output.err
    model = library.load(place / "model")
    known = {"fn": rows["amount"].to_numpy(), "fp": 2.0, "groups": rows["id"], "repeats": 2, "random_state": 1}
    result = model.permutation_cost(rows[model.feature_names_in_], rows["churn"], **known)
    assert [row["column"] for row in output.json["columns"]] == result["column"].tolist()
    written = pd.read_csv(out)
    np.testing.assert_allclose(written.drop(columns="column"), result.drop(columns="column"), rtol=1e-6)
    assert output.json["base_cost"] == pytest.approx(result.attrs["base_cost"])
    assert (output.json["rows"], output.json["repeats"], output.json["written"]) == (400, 2, str(out))
    text = page.read_text()
    assert f"“{result['column'][0]}”" in text
    assert "Permutation importance" in text
    assert names(tmp_path) == ["columns.csv", "columns.html"]


def test_explanation_shows_the_costliest_columns_of_models_without_names_too(adacsl, rows, tmp_path):
    x = np.random.default_rng(0).normal(size=(120, 18))
    y = (x[:, 4] > 0.5).astype(int)
    library.method("net-bayes", CostMatrix(fp=1, fn=8), learner=LogisticRegression()).fit(x, y).save(tmp_path / "m")
    frame = pd.DataFrame(x, columns=[f"c{i}" for i in range(18)]).assign(target=y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    output = adacsl("explain", tmp_path / "m", tmp_path / "rows.csv")
    assert output.code == 0, output.err
    lines = output.out.splitlines()
    assert "120 samples; mean cost" in lines[0]
    assert lines[3].split()[0] == "c4"
    assert lines[-1].startswith("3 further columns:")
    assert output.err == ""


# export


def test_export_agrees_with_the_model(adacsl, place, rows, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from adacsl.estimators.onnx import graph_inputs

    out = tmp_path / "m.onnx"
    output = adacsl("export", place / "model", "--onnx", out, "--sample", place / "rows.csv", "--json")
    assert output.code == 0, output.err
    assert output.json["inputs"].startswith("the columns by name")
    model = library.load(place / "model")
    session = onnxruntime.InferenceSession(out.read_bytes(), providers=["CPUExecutionProvider"])
    X = rows[model.feature_names_in_]
    taken = graph_inputs(model, X)
    assert set(taken) == {put.name for put in session.get_inputs()}
    score, proba, decided = session.run(["score", "probability", "decision"], taken)
    np.testing.assert_allclose(score, model.decision_scores(X), atol=1e-5)
    np.testing.assert_allclose(proba, model.predict_proba(X)[:, 1], atol=1e-5)
    clear = np.abs(proba - model.decision_.probability_threshold) > 1e-5
    assert np.array_equal(decided[clear] == 1, (model.predict(X) == "yes")[clear])


def test_export_without_its_extra_is_one_line(refused, place, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "adacsl.estimators.onnx", raising=False)
    line = refused("export", place / "model", "--onnx", tmp_path / "m.onnx")
    assert line == "error: this part of adacsl needs 'onnx': run pip install 'adacsl[onnx]'"
    assert names(tmp_path) == []


def test_models_of_boosting_predict_but_are_not_exported(adacsl, refused, rows, tmp_path):
    pytest.importorskip("lightgbm")
    X, y = rows[["age", "shop", "amount"]], (rows["churn"] == "yes").astype(int)
    model = library.CostSensitiveClassifier(
        CostMatrix(fp=1, fn=8), learner=BoostingLearner(library="lightgbm", n_estimators=5), random_state=0
    ).fit(X, y)
    model.save(tmp_path / "m")
    rows.to_parquet(tmp_path / "rows.parquet")
    output = adacsl("predict", tmp_path / "m", tmp_path / "rows.parquet", "--out", tmp_path / "p.parquet")
    assert output.code == 0, output.err
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "p.parquet")["probability"], model.predict_proba(X)[:, 1])
    line = refused("export", tmp_path / "m", "--onnx", tmp_path / "m.onnx")
    assert line.endswith(f"exported to ONNX, and {tmp_path / 'm'} is made of boosters: use it with adacsl predict")


# data


def test_data_lists_and_describes(adacsl, tmp_path):
    output = adacsl("data")
    assert "breast-cancer" in output.out
    assert "absent" in adacsl("data", "--folder", tmp_path).out
    listed = {about["name"]: about for about in adacsl("data", "--json").json["datasets"]}
    assert listed["breast-cancer"]["present"] is True
    assert "malignant" in adacsl("data", "breast_cancer").out
    assert adacsl("data", "breast-cancer", "--json").json["rows"] == 569


# what was given in training


@pytest.fixture
def noted(place, tmp_path):
    """A model whose notes have a cost that it was not fitted with: without the notes it decides otherwise."""
    import shutil

    from adacsl.estimators.persistence import load_noted, save_method

    shutil.copytree(place / "model", tmp_path / "m")
    model, notes = load_noted(tmp_path / "m")
    assert notes["target"] == "churn"
    save_method(model, tmp_path / "m", notes=notes | {"costs": {"fn": 80.0, "fp": 1.0}})
    return tmp_path / "m"


def test_notes_are_part_of_the_model_and_no_byte_of_them_is_taken_otherwise(adacsl, refused, noted, place, tmp_path):
    assert adacsl("predict", noted, place / "rows.csv", "--out", tmp_path / "p.parquet").code == 0
    model = library.load(noted)
    proba = model.predict_proba(pd.read_csv(place / "rows.csv")[model.feature_names_in_])[:, 1]
    assert (pd.read_parquet(tmp_path / "p.parquet")["decision"] == "yes").tolist() == (proba > 1 / 81).tolist()
    assert names(noted) == ["model.json", next(name for name in names(noted) if name.startswith("tensors-"))]
    path = noted / "model.json"
    whole = path.read_bytes()
    begin = whole.index(b'"notes"')
    for number in (*range(0, begin, 211), *range(begin, len(whole), 17)):
        changed = bytearray(whole)
        changed[number] ^= 0x04
        path.write_bytes(changed)
        with pytest.raises(ArtefactError):
            load_model(noted, device="cpu")
    path.write_bytes(whole[:begin])
    assert "is damaged (its digest does not fit its content)" in refused("predict", noted, place / "rows.csv")
    path.unlink()
    assert "is not an adacsl model (it has no model.json)" in refused("evaluate", noted, place / "rows.csv")


@pytest.mark.parametrize(
    ("notes", "why"),
    [
        ({"costs": {"fn": [1]}}, "neither number nor text"),
        ({"target": {"a": 1}}, "neither number nor text"),
        ({"costs": {"gold": 1}}, "gold"),
        ({"costs": 3}, "must be a mapping"),
        ({"costs": {"fn": 1.0, "costs": "m.csv"}}, "--costs holds all costs"),
    ],
)
def test_notes_of_another_form_are_refused(refused, noted, place, notes, why):
    from adacsl.estimators.persistence import save_method

    save_method(library.load(noted), noted, notes=notes)
    line = refused("evaluate", noted, place / "rows.csv", "--target", "churn")
    assert "has unreadable notes of its training" in line
    assert why in line


def test_model_and_notes_change_together_or_not_at_all(noted, tmp_path, monkeypatch):
    from adacsl.estimators.persistence import load_noted

    model, before = load_noted(noted)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/thesis.tex").write_text("years of work")
    real = Path.replace

    def full(self, target):
        if Path(target).name == "model.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    for folder in (noted, tmp_path / "thesis"):
        with pytest.raises(ArtefactError, match="No space left"):
            save_model(model, folder, {"target": "other"}, force=True)
    monkeypatch.undo()
    assert load_noted(noted)[1] == before
    assert names(tmp_path / "thesis") == ["thesis.tex"]
    save_model(model, tmp_path / "thesis", {"target": "other"}, force=True)
    assert load_noted(tmp_path / "thesis")[1] == {"target": "other"}
    (tmp_path / "model.json").write_text("{}")  # somebody else's
    with pytest.raises(ArtefactError, match=r"holds other files \(model.json, ...\) and no adacsl model"):
        save_model(library.load(noted), tmp_path, {}, force=True)
    assert (tmp_path / "model.json").read_text() == "{}"


def test_evaluate_warns_of_rows_that_trained_the_model(adacsl, place, tmp_path):
    frame = pd.read_parquet(place / "rows.parquet")
    command = (
        "--target",
        "churn",
        "--pos-label",
        "yes",
        "--fn",
        "8",
        "--fp",
        "1",
        "--drop",
        "id",
        "--method",
        "logistic",
    )
    frame[:300].to_csv(tmp_path / "old.csv", index=False, date_format="%Y-%m-%d")
    frame[:300].to_parquet(tmp_path / "old.parquet")
    frame[300:].to_csv(tmp_path / "new.csv", index=False, date_format="%Y-%m-%d")
    frame[200:].sample(frac=1, random_state=0).to_csv(tmp_path / "both.csv", index=False, date_format="%Y-%m-%d")
    assert adacsl("train", tmp_path / "old.csv", *command, "--out", tmp_path / "m", "--quiet").code == 0
    for name, share in (("old.csv", 1.0), ("old.parquet", 1.0), ("both.csv", 0.5), ("new.csv", 0.0)):
        result = adacsl("evaluate", tmp_path / "m", tmp_path / name, "--json")
        assert result.code == 0
        assert result.json["training_share"] == pytest.approx(share)
        assert ("of these samples were used for training" in result.err) == (share > 0)
    assert (tmp_path / "m/model.json").stat().st_size < 100_000


def test_each_command_ends_with_the_next_one_which_runs(adacsl, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("train", place / "rows.csv", *SAID, "--method", "logistic", "--out", "m")
    commands = [shlex.split(adacsl(*words).out.splitlines()[-1])]
    assert commands[0][:3] == ["next:", "adacsl", "predict"]
    for start in (("evaluate", "m"), ("monitor", "m")):
        last = adacsl(*start, place / "rows.csv", "--fn", 8, "--fp", 1).out.splitlines()[-1]
        commands.append(shlex.split(last))
    assert commands[1][2] == "explain"
    assert commands[2][-2:] == ["--html", "monitor.html"]
    for command in commands:
        output = adacsl(*command[2:])
        assert output.code == 0, output.err
    assert (tmp_path / "monitor.html").is_file()
    assert (tmp_path / "decisions.csv").is_file()
