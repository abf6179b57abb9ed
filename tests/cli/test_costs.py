"""Cost matrices on the command line: templates, --costs, and models of more than two classes."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_wine

from adacsl import CostMatrix, load
from adacsl.datasets.costs import read_costs

NAMES = ["red", "rose", "white"]
COSTS = pd.DataFrame([[0, 4, 9], [1, 0, 2.5], [3, 5, 0]], ["white", "red", "rose"], ["white", "red", "rose"])


@pytest.fixture(scope="session")
def wines(tmp_path_factory):
    """A folder with a table of three classes, a matrix of costs, and a model trained with both."""
    from adacsl.cli.app import run

    folder = tmp_path_factory.mktemp("wines")
    frame = load_wine(as_frame=True).frame
    frame["kind"] = np.asarray(NAMES)[frame.pop("target")]
    frame[::2].to_csv(folder / "train.csv", index=False)
    frame[1::2].to_csv(folder / "test.csv", index=False)
    COSTS.to_csv(folder / "costs.csv")
    words = ["--target", "kind", "--costs", str(folder / "costs.csv"), "--method", "net-bayes", "--epochs", "8"]
    assert run(["train", str(folder / "train.csv"), *words, "--out", str(folder / "model"), "--quiet"]) == 0
    (folder / "costs.csv").rename(folder / "later.csv")  # a model needs the file no more
    return folder


# templates


def test_a_template_has_zeros_on_the_diagonal(adacsl, wines, tmp_path):
    out = tmp_path / "matrix.csv"
    done = adacsl("check", wines / "train.csv", "--target", "kind", "--write-costs", out)
    assert done.code == 0
    assert "rows are predicted, columns are actual" in done.out.splitlines()[0]
    assert out.read_text(encoding="utf-8") == "predicted,red,rose,white\nred,0,1,1\nrose,1,0,1\nwhite,1,1,0\n"
    assert read_costs(out) == CostMatrix.from_array(1 - np.eye(3), rows="predicted", classes=NAMES)


def test_a_template_of_a_built_in_data_set(adacsl, tmp_path):
    document = adacsl("check", "digits", "--write-costs", tmp_path / "m.csv", "--json").json
    assert document["classes"] == [str(digit) for digit in range(10)]
    assert np.asarray(document["costs"]).sum() == 90
    assert document["written"] == str(tmp_path / "m.csv")


def test_a_template_of_class_folders(adacsl, tmp_path):
    for name in ("cat", "ant", "bee", ".hidden"):
        (tmp_path / "pets" / name).mkdir(parents=True)
    assert adacsl("check", tmp_path / "pets", "--write-costs", tmp_path / "m.csv").code == 0
    assert (tmp_path / "m.csv").read_text().startswith("predicted,ant,bee,cat\n")


def test_templates_that_cannot_be_written(refused, wines, tmp_path):
    table = wines / "train.csv"
    (tmp_path / "there.csv").write_text("x", encoding="utf-8")
    (tmp_path / "flat").mkdir()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "cat").mkdir()
    one = tmp_path / "one.csv"
    one.write_text("x,target\n1,a\n2,a\n", encoding="utf-8")
    many = tmp_path / "many.csv"
    many.write_text("target\n" + "\n".join(str(i / 7) for i in range(1500)), encoding="utf-8")

    def line(data, *words, out="m.csv"):
        return refused("check", data, *words, "--write-costs", tmp_path / out)

    assert "the label column of" in line(table)
    assert "no column 'kid'; did you mean 'kind'" in line(table, "--target", "kid")
    assert "exists and may hold your costs" in line("wine", out="there.csv")
    assert (tmp_path / "there.csv").read_text(encoding="utf-8") == "x"
    assert "ends in .csv" in line("wine", out="m.xlsx")
    assert "one class only (a: 2): at least two" in line(one)
    assert "1000 at most: numbers to predict" in line(many)
    assert "no class folders" in line(tmp_path / "flat")
    assert "one class only" in line(tmp_path / "one")
    assert "target is for tables" in line(tmp_path / "one", "--target", "y")
    assert "there is no file or folder" in line(tmp_path / "nowhere")
    assert "omit --fn, --fp, --tp, --tn and --costs" in line("wine", "--fn", "8", "--fp", "1")
    assert not (tmp_path / "m.csv").exists()


# matrices that are wrong


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",red,rose\nred,0,1\nrose,1,0\n", "the cost matrix has no column for 'white'"),
        (",red,rose,white,blue\nred,0,1,1,1\nrose,1,0,1,1\nwhite,1,1,0,1\nblue,1,1,1,0\n", "names 'blue'"),
        (",red,rose,white\nred,0,1,1\nrose,1,0,1\nwite,1,1,0\n", "'white' is missing among 'red', 'rose', 'wite'"),
        (",red,rose,white\nred,0,1,1\nred,1,0,1\nwhite,1,1,0\n", "'red' is there more than once"),
        (",red,red,white\nred,0,1,1\nrose,1,0,1\nwhite,1,1,0\n", "several columns called 'red'"),
        (
            ",red,rose,white\nred,0,1,x\nrose,1,0,1\nwhite,1,1,0\n",
            "has no column 'x'",
        ),
        (
            ",red,rose,white\nred,0,1,\nrose,1,0,1\nwhite,1,1,0\n",
            "row 'red', column 'white' .* is empty",
        ),
        (",red,rose,white\nred,0,1,1\n,1,0,1\nwhite,1,1,0\n", "row 2 of .* has no name in its first column"),
        (",red,rose,white\nred,0,0,1\nrose,1,0,1\nwhite,1,0,0\n", "costs the same when 'rose' is true"),
        (",red,rose,white\nred,0,1,1\nrose,1,0,1\nwhite,1,1,0\nask,.5,.5,.5\n", "has other actions"),
        ("", "is empty"),
    ],
)
def test_bad_matrices_are_one_line(refused, wines, tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    result = refused("train", wines / "train.csv", "--target", "kind", "--costs", path, "--out", tmp_path / "model")
    assert re.search(message, result), result


def test_matrices_and_other_words_exclude_each_other(refused, wines, tmp_path):
    matrix = wines / "later.csv"
    words = ("train", wines / "train.csv", "--target", "kind", "--out", tmp_path / "model")
    assert "--costs holds all costs: omit --fn" in refused(*words, "--costs", matrix, "--fn", "8", "--fp", "1")
    assert "pos_label='red' is for two classes" in refused(*words, "--costs", matrix, "--pos-label", "red")
    assert "there is no file" in refused(*words, "--costs", tmp_path / "nowhere.csv")
    result = refused(*words)
    assert "has 3 classes (rose: 35, red: 30, white: 24)" in result
    assert "a matrix with these 3 classes" in result
    assert "a matrix with these 3 classes" in refused(*words, "--fn", "8", "--fp", "1")


# models of three classes


def test_training_shows_what_it_learned(wines):
    model = load(wines / "model")
    assert model.classes_.tolist() == NAMES
    assert model.costs_.to_frame().loc["red", "rose"] == 2.5
    assert model.costs_.to_frame().loc["white", "rose"] == 9


def test_evaluation_equals_sums_over_the_rows(adacsl, wines, tmp_path):
    result = json.loads(
        adacsl("evaluate", wines / "model", wines / "test.csv", "--out", tmp_path / "r.csv", "--json").out
    )
    rows = pd.read_csv(tmp_path / "r.csv")
    paid = [COSTS.loc[row.decision, row.label] for row in rows.itertuples()]
    np.testing.assert_allclose(rows["cost"], paid)
    assert result["cost"]["mean"] == pytest.approx(np.mean(paid))
    assert result["classes"] == NAMES
    counts = pd.crosstab(rows["decision"], rows["label"]).reindex(index=NAMES, columns=NAMES, fill_value=0)
    assert result["counts"] == counts.to_numpy().tolist()
    np.testing.assert_allclose(result["money"], counts * COSTS.loc[NAMES, NAMES])
    always = {name: COSTS.loc[name, rows["label"]].mean() for name in NAMES}
    assert result["cheapest_constant"]["mean"] == pytest.approx(min(always.values()))
    assert result["normalized_cost"] == pytest.approx(np.mean(paid) / min(always.values()))
    proba = rows[[f"probability_{name}" for name in NAMES]]
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    expected = proba.to_numpy() @ COSTS.loc[NAMES, NAMES].to_numpy().T
    assert rows["decision"].tolist() == [NAMES[i] for i in expected.argmin(axis=1)]


def test_evaluation_of_three_classes_does_not_depend_on_batches(adacsl, wines):
    words = ("evaluate", wines / "model", wines / "test.csv", "--json")
    batches, whole = adacsl(*words, "--batch-rows", "20").json, adacsl(*words).json
    for name in ("calibration_error", "normalized_cost", "savings", "money"):
        assert np.ravel(batches.pop(name)) == pytest.approx(np.ravel(whole.pop(name)))
    assert batches.pop("cost")["interval"] == pytest.approx(whole.pop("cost")["interval"])
    assert batches == whole


def test_evaluation_for_people(adacsl, wines):
    done = adacsl("evaluate", wines / "model", wines / "test.csv", "--at-most", "0")
    assert done.out.splitlines()[0] == "89 samples of 3 classes"
    assert "(1 is the best constant baseline)" in done.out
    assert "where the cost comes from" in done.out
    assert done.code == 1


def test_rows_may_lack_a_class_but_have_no_other(adacsl, refused, wines, tmp_path):
    frame = pd.read_csv(wines / "test.csv")
    frame[frame["kind"] == "red"].to_csv(tmp_path / "red.csv", index=False)
    result = json.loads(adacsl("evaluate", wines / "model", tmp_path / "red.csv", "--json").out)
    assert np.asarray(result["counts"])[:, 1:].sum() == 0
    assert result["normalized_cost"] is None
    frame.replace({"kind": {"red": "blue"}}).to_csv(tmp_path / "blue.csv", index=False)
    assert "has the classes 'blue', known are 'red', 'rose', 'white'" in refused(
        "evaluate", wines / "model", tmp_path / "blue.csv"
    )


def test_other_costs_change_the_decisions(adacsl, refused, wines, tmp_path):
    costly = COSTS.copy()
    costly["white"] *= 1e6  # missing a white one is costly: call all white
    costly.to_csv(tmp_path / "costly.csv")
    words = ("predict", wines / "model", wines / "test.csv", "--out", tmp_path / "p.csv")
    result = json.loads(adacsl(*words, "--costs", tmp_path / "costly.csv", "--json").out)
    assert result["decided"]["white"] > 80
    rows = pd.read_csv(tmp_path / "p.csv")
    proba = rows[[f"probability_{name}" for name in NAMES]].to_numpy()
    expected = proba @ costly.loc[NAMES, NAMES].to_numpy().T
    np.testing.assert_allclose(rows["expected_cost"], expected.min(axis=1))
    assert "decided " in adacsl(*words).out.splitlines()[0]
    for options in (("--fn", "8", "--fp", "1"), ("--costs", "balanced")):
        assert "among 3 classes: other costs need a matrix" in refused(*words, *options)
    assert "already" in refused(*words, "--keep", "probability_red")
    evaluated = json.loads(
        adacsl("evaluate", wines / "model", wines / "test.csv", "--costs", tmp_path / "costly.csv", "--json").out
    )
    assert sum(evaluated["counts"][2]) == result["decided"]["white"]


def test_columns_of_a_model_of_three_classes(adacsl, refused, wines, tmp_path):
    words = ("explain", wines / "model", wines / "test.csv", "--repeats", "2")
    result = json.loads(adacsl(*words, "--html", tmp_path / "x.html", "--json").out)
    assert len(result["columns"]) == 13
    text = (tmp_path / "x.html").read_text()
    tile = f"<dt>Mean cost per sample</dt><dd>{result['base_cost']:.2g}<span"  # as many digits as the interval tells
    assert tile in text  # the samples are decided as the model does
    assert "Errors of model, by cost" in text
    assert all(name in text for name in NAMES)
    assert "other costs need a model of two classes" in refused(*words, "--costs", wines / "later.csv")


def test_images_of_three_classes(adacsl, tmp_path):
    rng = np.random.default_rng(0)
    for name, light in (("dark", 40), ("grey", 120), ("light", 220)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(8):
            pixels = np.clip(rng.normal(light, 20, (12, 12, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / name / f"{i}.png")
    adacsl("check", tmp_path / "data", "--write-costs", tmp_path / "m.csv")
    words = ["--costs", tmp_path / "m.csv", "--method", "net-bayes", "--epochs", "1", "--image-size", "16"]
    words += ["--ignore", "few-positives"]
    done = adacsl(
        "train", tmp_path / "data", *words, "--device", "cpu", "--out", tmp_path / "model", "--json", "--quiet"
    )
    assert json.loads(done.out)["classes"] == ["dark", "grey", "light"]
    result = adacsl("evaluate", tmp_path / "model", tmp_path / "data", "--json", "--device", "cpu")
    assert json.loads(result.out)["rows"] == 24
    done = adacsl("predict", tmp_path / "model", tmp_path / "data", "--out", tmp_path / "p.csv", "--device", "cpu")
    assert done.code == 0
    assert list(pd.read_csv(tmp_path / "p.csv").columns)[:2] == ["file", "probability_dark"]


# two classes


def test_a_matrix_of_two_classes_is_fn_and_fp(adacsl, place, tmp_path):
    pd.DataFrame([[0, 1], [3, 0]], ["yes", "no"], ["yes", "no"]).to_csv(tmp_path / "two.csv")
    words = ("evaluate", place / "model", place / "rows.csv", "--json")
    by_matrix, by_name = adacsl(*words, "--costs", tmp_path / "two.csv"), adacsl(*words, "--fn", "3", "--fp", "1")
    assert json.loads(by_matrix.out) == json.loads(by_name.out)
    for output, out in ((("--costs", tmp_path / "two.csv"), "a.csv"), (("--fn", "3", "--fp", "1"), "b.csv")):
        adacsl("predict", place / "model", place / "rows.csv", *output, "--out", tmp_path / out)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_thresholds_take_a_matrix_of_two_classes(adacsl, refused, tmp_path):
    rng = np.random.default_rng(0)
    score = rng.random(60)
    label = np.where(rng.random(60) < score, "ill", "well")
    pd.DataFrame({"score": score, "label": label}).to_csv(tmp_path / "scores.csv", index=False)
    pd.DataFrame([[0, 8], [1, 0]], ["well", "ill"], ["well", "ill"]).to_csv(tmp_path / "two.csv")
    words = ("threshold", tmp_path / "scores.csv", "--json")
    by_name = adacsl(*words, "--fn", "8", "--fp", "1", "--pos-label", "ill")
    assert json.loads(adacsl(*words, "--costs", tmp_path / "two.csv").out) == json.loads(by_name.out)
    COSTS.to_csv(tmp_path / "three.csv")
    assert "a threshold separates two classes, but" in refused(*words, "--costs", tmp_path / "three.csv")
