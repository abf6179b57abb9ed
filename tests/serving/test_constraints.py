"""A served model decides at the certified threshold."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, load


@pytest.mark.parametrize("fn", [2, "amount"])
def test_served_decisions_are_those_of_predict(fn, client_of, records, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(2000, 2)), columns=["a", "b"]).assign(amount=rng.lognormal(0.5, 0.5, 2000))
    y = (table["a"] + rng.logistic(size=2000) > 1).astype(int)
    model = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=fn), learner=LogisticRegression(), constraints={"min_recall": 0.9}, random_state=0
    ).fit(table, y)
    client = client_of(load(model.save(tmp_path / "model")))
    some = table[:40]
    answer = client.post("/predict", json={"rows": records(some)}).json()
    assert [each["decision"] for each in answer["rows"]] == model.predict(some).tolist()
    free = CostSensitiveClassifier(CostMatrix(fp=1, fn=fn), learner=LogisticRegression()).fit(table, y)
    assert model.predict(table).sum() > free.predict(table).sum()
    about = client.get("/model").json()
    assert about["constraints"]["min_recall"]["required"] == 0.9
