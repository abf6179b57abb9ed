"""Foundation models and AutoML: base estimators like any other, and frozen models behind a small class."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, EnsembleClassifier

COSTS = CostMatrix(fp=1, fn=6)
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
Y = np.where(X["a"] + 0.5 * rng.normal(size=120) > 0, "bad", "good")


def test_tabicl_with_a_checkpoint_made_here_is_a_member(tmp_path):
    tabicl = pytest.importorskip("tabicl", reason="tabicl is not installed")
    torch = pytest.importorskip("torch")
    sizes = {
        "max_classes": 2, "embed_dim": 8, "col_num_blocks": 1, "col_nhead": 1, "col_num_inds": 4, "row_num_blocks": 1,
        "row_nhead": 1, "row_num_cls": 2, "icl_num_blocks": 1, "icl_nhead": 1, "ff_factor": 1,
    }  # fmt: skip
    torch.save({"config": sizes, "state_dict": tabicl.TabICL(**sizes).state_dict()}, tmp_path / "tiny.ckpt")
    member = tabicl.TabICLClassifier(
        model_path=str(tmp_path / "tiny.ckpt"), allow_auto_download=False, n_estimators=1, device="cpu"
    )
    model = EnsembleClassifier(
        COSTS, estimators=[("tabicl", member), ("line", LogisticRegression())], pos_label="bad", random_state=0
    ).fit(X, Y)
    assert set(model.predict(X)) <= {"bad", "good"}


class Predictor:
    """What AutoGluon's TabularPredictor shows: its classes, and probabilities as a frame."""

    def __init__(self):
        self.own = LogisticRegression().fit(X, Y)
        self.class_labels = ["good", "bad"]

    def predict_proba(self, data):
        assert isinstance(data, pd.DataFrame)
        return pd.DataFrame(self.own.predict_proba(data), columns=self.own.classes_)[self.class_labels]


class FittedPredictor(ClassifierMixin, BaseEstimator):
    """The class of the guide."""

    def __init__(self, predictor):
        self.predictor = predictor

    def __sklearn_clone__(self):
        return self

    @property
    def classes_(self):
        return np.asarray(self.predictor.class_labels)

    def fit(self, X, y=None):
        return self

    def predict_proba(self, X):
        return self.predictor.predict_proba(X)[list(self.classes_)].to_numpy()


def test_a_predictor_of_automl_is_decided_for():
    predictor = Predictor()
    model = CostSensitiveClassifier(
        COSTS, learner=FittedPredictor(predictor), decide="tuned", pos_label="bad"
    ).fit(X, Y)  # fmt: skip
    np.testing.assert_allclose(model.decision_scores(X), predictor.predict_proba(X)["bad"], atol=1e-9)
    assert COSTS.mean((Y == "bad").astype(int), (model.predict(X) == "bad").astype(int)) < 0.5
    ensemble = EnsembleClassifier(
        COSTS, estimators=[("automl", FittedPredictor(predictor)), ("line", LogisticRegression())], pos_label="bad",
        random_state=0,
    ).fit(X, Y)  # fmt: skip
    assert set(ensemble.predict(X)) <= {"bad", "good"}
