"""``--fn "model(loss)"``: learned in training, predicted afterwards, never a feature."""

import numpy as np
import pandas as pd
import pytest

import adacsl as library


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = (rng.uniform(size=400) < 1 / (1 + np.exp(1 - x[:, 0]))).astype(int)
    loss = np.where(y == 1, np.exp(2 + x[:, 1]) * rng.gamma(4, 0.25, 400), np.nan)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "loss": loss, "target": y})


def test_train_predict_evaluate(table, tmp_path, adacsl):
    table[:300].to_csv(tmp_path / "old.csv", index=False)
    table[300:].to_csv(tmp_path / "new.csv", index=False)
    words = ["train", tmp_path / "old.csv", "--fn", "model(loss)", "--fp", 4, "--method", "gbm-bayes"]
    trained = adacsl(*words, "--out", tmp_path / "model")
    assert "excluded from the features" in trained.err
    assert "out of fold, the features explain" in trained.out
    model = library.load(tmp_path / "model")
    assert model.feature_names_in_.tolist() == ["a", "b"]
    adacsl("predict", tmp_path / "model", tmp_path / "new.csv", "--keep", "loss", "--out", tmp_path / "out.csv")
    decided = pd.read_csv(tmp_path / "out.csv")["decision"]
    assert decided.tolist() == model.predict(table[["a", "b"]][300:]).tolist()
    result = adacsl("evaluate", tmp_path / "model", tmp_path / "new.csv", "--json").json
    paid = np.where(table["target"][300:] == 1, table["loss"][300:], 0.0)
    cost = np.where(decided == 1, np.where(table["target"][300:] == 0, 4.0, 0.0), paid).mean()
    assert result["cost"]["mean"] == pytest.approx(cost, rel=1e-6)
    words = ("evaluate", tmp_path / "model", tmp_path / "new.csv", "--json", "--batch-rows", 30)
    assert adacsl(*words).json["cost"]["mean"] == pytest.approx(cost, rel=1e-6)


def test_only_training_learns_costs(table, tmp_path, refused):
    table.assign(score=0.5).to_csv(tmp_path / "scores.csv", index=False)
    words = ["threshold", tmp_path / "scores.csv", "--score-column", "score", "--label-column", "target"]
    assert "learned in training" in refused(*words, "--fn", "model(loss)", "--fp", 4)
