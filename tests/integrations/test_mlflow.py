"""An adacsl model as an MLflow model, in a folder of this machine: logged, loaded, served, and never pickled."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, Policy
from adacsl.learners import BoostingLearner

pytest.importorskip("mlflow")
pytest.importorskip("adacsl.integrations.mlflow")

ROWS = pd.DataFrame(np.random.default_rng(0).normal(size=(150, 2)), columns=["debt", "age"])
LABELS = np.where(ROWS["debt"] > 0.5, "bad", "good")
LEVELS = np.digitize(ROWS["debt"], [-0.5, 0.5])


@pytest.fixture(autouse=True)
def no_pickle(monkeypatch):
    """Nothing is read with pickle."""
    import pickle

    def refuse(*_, **__):
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)


@pytest.fixture(scope="module")
def model():
    made = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=6), learner=LogisticRegression(), pos_label="bad", random_state=0
    )
    return made.set_params(policy=Policy(refer=0.2)).fit(ROWS, LABELS)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    from adacsl.integrations.mlflow import save_model

    folder = tmp_path_factory.mktemp("mlflow") / "model"
    save_model(model, folder, input_example=ROWS[:5], metadata={"team": "risk"})
    return folder


def test_the_classifier_comes_back_whole(model, saved):
    from adacsl.integrations.mlflow import load_model

    again = load_model(saved, device="cpu")
    assert again.predict(ROWS).tolist() == model.predict(ROWS).tolist()
    assert "refer" in again.predict(ROWS)
    np.testing.assert_array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))


def test_pyfunc_gives_decisions_probabilities_or_all(model, saved):
    import mlflow.pyfunc

    served = mlflow.pyfunc.load_model(str(saved))
    result = model.decisions(ROWS)
    assert served.predict(ROWS).tolist() == result.labels.tolist()
    proba = served.predict(ROWS, params={"output": "probabilities"})
    assert list(proba.columns) == ["bad", "good"]
    np.testing.assert_array_equal(proba["bad"], model.predict_proba(ROWS)[:, 0])
    table = served.predict(ROWS, params={"output": "all"})
    assert list(table.columns) == ["decision", "probability", "expected_cost"]
    assert table["decision"].tolist() == result.labels.tolist()
    np.testing.assert_array_equal(table["probability"], proba["bad"])
    np.testing.assert_array_equal(table["expected_cost"], result.expected)
    with pytest.raises(ValueError, match="output must be one of decisions, probabilities, all, got 'odds'"):
        served.predict(ROWS, params={"output": "odds"})
    with pytest.raises(mlflow.exceptions.MlflowException, match="age"):
        served.predict(ROWS[["debt"]])


def test_of_three_classes_each_has_a_column(tmp_path):
    import mlflow.pyfunc

    from adacsl.integrations.mlflow import save_model

    costs = CostMatrix.from_array([[0, 2, 9], [1, 0, 3], [4, 2, 0]], rows="predicted")
    model = CostSensitiveClassifier(costs, learner=LogisticRegression(), random_state=0).fit(ROWS.to_numpy(), LEVELS)
    save_model(model, tmp_path / "model")  # no example: no schema of inputs
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    for data in (ROWS.to_numpy(), ROWS):
        table = served.predict(data, params={"output": "all"})
        proba = table[["probability_0", "probability_1", "probability_2"]].to_numpy()
        np.testing.assert_array_equal(proba, model.predict_proba(ROWS.to_numpy()))
        assert table["decision"].tolist() == model.predict(ROWS.to_numpy()).tolist()


def test_the_folder_says_what_it_needs(saved):
    from mlflow.models import Model

    about = Model.load(str(saved))
    assert about.metadata == {"team": "risk"}
    assert about.flavors["python_function"]["loader_module"] == "adacsl.integrations.mlflow"
    assert about.signature.inputs.input_names() == ["debt", "age"]
    lines = (saved / "requirements.txt").read_text().splitlines()
    assert lines[0].startswith("adacsl[train]==")
    assert {line.partition("==")[0] for line in lines[1:]} == {"scikit-learn", "torch"}
    assert json.loads((saved / "python_env.yaml").read_text())["dependencies"] == ["-r requirements.txt"]
    assert {path.suffix for path in (saved / "model").iterdir()} == {".json", ".safetensors"}


def test_boosters_are_named_among_the_requirements(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")

    from adacsl.integrations.mlflow import save_model

    model = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=6), learner=BoostingLearner(library="lightgbm", n_estimators=2), pos_label="bad", cv=None
    )
    save_model(model.fit(ROWS, LABELS), tmp_path / "model")
    assert f"lightgbm=={lightgbm.__version__}" in (tmp_path / "model" / "requirements.txt").read_text()


def test_another_folder_is_not_overwritten(model, saved):
    from adacsl.integrations.mlflow import save_model

    with pytest.raises(FileExistsError, match="holds other files: give a new folder"):
        save_model(model, saved)


def test_mlflows_own_server_serves_it(model, saved, monkeypatch):
    monkeypatch.setenv("_MLFLOW_IS_IN_SERVING_ENVIRONMENT", "true")  # it sets this, and leaves it behind
    import mlflow.pyfunc
    from mlflow.pyfunc import scoring_server
    from starlette.testclient import TestClient

    client = TestClient(scoring_server.init(mlflow.pyfunc.load_model(str(saved))))
    rows = {"dataframe_split": ROWS[:4].to_dict(orient="split", index=False)}
    answer = client.post("/invocations", json=rows)
    assert answer.json() == {"predictions": model.predict(ROWS[:4]).tolist()}
    answer = client.post("/invocations", json=rows | {"params": {"output": "probabilities"}})
    proba = [[row["bad"], row["good"]] for row in answer.json()["predictions"]]
    np.testing.assert_allclose(proba, model.predict_proba(ROWS[:4]))


def test_it_is_logged_to_a_run(model, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    import mlflow

    from adacsl.integrations.mlflow import load_model, log_model

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(Path(tmp_path / "mlruns").as_uri())
    experiment = mlflow.create_experiment("churn")  # another test may have chosen one elsewhere
    try:
        with mlflow.start_run(experiment_id=experiment):
            logged = log_model(model, "churn", input_example=ROWS[:5], tags={"unit": "EUR"})
        assert load_model(logged.model_uri).predict(ROWS).tolist() == model.predict(ROWS).tolist()
        served = mlflow.pyfunc.load_model(logged.model_uri)
        assert served.predict(ROWS).tolist() == model.predict(ROWS).tolist()
    finally:
        mlflow.set_tracking_uri(before)
