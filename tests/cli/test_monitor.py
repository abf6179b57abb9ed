"""adacsl monitor: labels from columns and files, exit codes, what is written."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import adacsl as library
from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.estimators.persistence import save_method


def made(n, share, seed, first=0):
    rng = np.random.default_rng(seed)
    bad = rng.random(n) < share
    return pd.DataFrame(
        {
            "id": [f"c{first + i}" for i in range(n)],
            "when": pd.Timestamp("2026-04-01") + pd.to_timedelta(np.arange(n) // 20, unit="D"),
            "a": rng.normal(size=n) + bad,
            "b": rng.normal(size=n) + bad,
            "amount": rng.gamma(2.0, 4.0, n),
            "paid": np.where(bad, "no", "yes"),
        }
    )


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A model, rows like those it was trained on, and others."""
    folder = tmp_path_factory.mktemp("used")
    train = made(2000, 0.1, 0)
    model = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=8), learner=LogisticRegression(), pos_label="no", random_state=0
    )
    notes = {"target": "paid", "costs": {"fn": 8.0, "fp": 1.0}}
    save_method(model.fit(train[["a", "b"]], train["paid"]), folder / "model", notes=notes)
    made(1500, 0.1, 1).to_csv(folder / "same.csv", index=False)
    made(1500, 0.4, 2).to_csv(folder / "other.csv", index=False)
    made(1500, 0.4, 2).drop(columns="paid").to_parquet(folder / "unknown.parquet")
    return folder


def test_exit_codes_and_sentences(adacsl, used):
    well = adacsl("monitor", used / "model", used / "same.csv")
    assert well.code == 0, well.err
    assert well.out.startswith("No change needed")
    assert "labels: column 'paid'" in well.err
    retune = adacsl("monitor", used / "model", used / "other.csv")
    assert retune.code == 4
    assert retune.out.startswith("Re-tune the decision rule: not doing so costs")
    assert "--retuned model2/" in retune.out


def test_without_labels_the_class_prior_is_tested(adacsl, used):
    output = adacsl("monitor", used / "model", used / "unknown.parquet", "--json")
    assert output.code == 4
    assert output.json["labels"] is None
    assert output.json["recommendation"] == "retune"
    assert output.json["prior"]["now"][1] == pytest.approx(0.4, abs=0.06)
    assert output.json["classes"] == ["yes", "no"]


def test_something_to_look_at(adacsl, used, tmp_path):
    made(1500, 0.17, 3).to_csv(tmp_path / "more.csv", index=False)
    output = adacsl("monitor", used / "model", tmp_path / "more.csv", "--tolerance", "0.3")
    assert output.code == 3
    assert output.out.startswith("Review the model")


def test_the_same_numbers_as_in_python(adacsl, used):
    output = adacsl("monitor", used / "model", used / "other.csv", "--labels", "paid", "--json", "--level", "0.9")
    rows, model = pd.read_csv(used / "other.csv"), library.load(used / "model")
    result = library.monitor(model, rows[["a", "b"]], rows["paid"], level=0.9)
    assert output.json["labels"] == result.to_dict()["labels"]
    assert output.json["sentences"] == result.sentences


def test_labels_of_a_file_are_joined(adacsl, used, tmp_path):
    rows = pd.read_csv(used / "other.csv")
    some = rows.sample(600, random_state=0)[["id", "paid"]]
    some.to_csv(tmp_path / "some.csv", index=False)
    pd.concat((some, pd.DataFrame({"id": ["c99999"], "paid": ["no"]}))).to_csv(tmp_path / "more.csv", index=False)
    rows[["paid"]].to_csv(tmp_path / "all.csv", index=False)
    unknown = used / "unknown.parquet"
    joined = adacsl("monitor", used / "model", unknown, "--labels", tmp_path / "some.csv", "--id", "id", "--json")
    more = adacsl("monitor", used / "model", unknown, "--labels", tmp_path / "more.csv", "--id", "id", "--json")
    by_row = adacsl("monitor", used / "model", unknown, "--labels", tmp_path / "all.csv", "--json")
    rows["known"] = rows["paid"].where(rows["id"].isin(some["id"]))
    rows.to_csv(tmp_path / "gaps.csv", index=False)
    gaps = adacsl("monitor", used / "model", tmp_path / "gaps.csv", "--labels", "known", "--json")
    assert joined.json["labelled"] == 600
    assert joined.json["labels"] == gaps.json["labels"] == more.json["labels"]
    assert "1 labels of" in more.err
    assert by_row.json["labelled"] == 1500


def test_windows_page_and_groups(adacsl, used, tmp_path):
    page = tmp_path / "page.html"
    output = adacsl("monitor", used / "model", used / "other.csv", "--time-column", "when", "--html", page)
    assert output.code == 4
    assert "2026-04-06" in output.out  # a Monday
    assert f"written: {page}" in output.out
    assert "Re-tune" in page.read_text(encoding="utf-8")
    grouped = adacsl("monitor", used / "model", used / "other.csv", "--group-column", "when", "--json")
    assert grouped.json["labels"]["cost"]["estimate"] > 0


def test_costs_of_each_row(adacsl, used):
    output = adacsl("monitor", used / "model", used / "other.csv", "--fn", "amount", "--fp", "1", "--json")
    rows, model = pd.read_csv(used / "other.csv"), library.load(used / "model")
    cost = -model.score(rows[["a", "b"]], rows["paid"], fn=rows["amount"], fp=1.0)
    assert output.json["labels"]["cost"]["estimate"] == pytest.approx(cost)


def test_a_retuned_model_is_written(adacsl, used, tmp_path):
    output = adacsl("monitor", used / "model", used / "other.csv", "--retuned", tmp_path / "m2")
    assert output.code == 4  # what was found, not what was done
    assert adacsl("monitor", tmp_path / "m2", used / "other.csv").code == 0
    rows = pd.read_csv(used / "other.csv")
    cheaper, before = (library.load(folder) for folder in (tmp_path / "m2", used / "model"))
    assert cheaper.score(rows[["a", "b"]], rows["paid"]) > before.score(rows[["a", "b"]], rows["paid"])
    assert adacsl("evaluate", tmp_path / "m2", used / "other.csv").code == 0  # it knows its target and costs


def test_without_labels_the_retuned_model_goes_by_the_shares(adacsl, used, tmp_path):
    assert adacsl("monitor", used / "model", used / "unknown.parquet", "--retuned", tmp_path / "m3").code == 4
    assert library.load(tmp_path / "m3").policy.prior == pytest.approx(0.4, abs=0.06)
    assert adacsl("monitor", tmp_path / "m3", used / "unknown.parquet").code in (0, 3)


def test_nothing_is_written_unless_asked_for(adacsl, used, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adacsl("monitor", used / "model", used / "same.csv")
    assert list(tmp_path.iterdir()) == []


def test_refusals(refused, used, tmp_path):
    unknown, model = used / "unknown.parquet", used / "model"
    rows = pd.read_csv(used / "other.csv")
    rows[["id", "paid"]][:10].to_csv(tmp_path / "few.csv", index=False)
    pd.concat([rows[["id", "paid"]][:2]] * 2).to_csv(tmp_path / "twice.csv", index=False)
    rows[["id", "paid"]].assign(id="x" + rows["id"]).to_csv(tmp_path / "strange.csv", index=False)
    rows.assign(paid="perhaps").to_csv(tmp_path / "perhaps.csv", index=False)
    for words, message in (
        ((unknown, "--labels", "nothing"), "neither a column"),
        ((unknown, "--labels", tmp_path / "few.csv"), "give --id"),
        ((unknown, "--labels", tmp_path / "twice.csv", "--id", "id"), "several labels"),
        ((unknown, "--labels", tmp_path / "strange.csv", "--id", "id"), "the same identifiers"),
        ((tmp_path / "perhaps.csv", "--labels", "paid"), "'perhaps' is none of the classes"),
        ((unknown, "--time-column", "then"), "then"),
        ((unknown, "--tolerance", "-1"), "tolerance"),
    ):
        assert message in refused("monitor", model, *words)
