"""Small fitted models behind an application that is called without a network."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, CostSensitiveClassifier, Policy

FEATURES = ["age", "gap", "shop", "since"]
ARROW = "application/vnd.apache.arrow.stream"


def make_rows(n, seed=0):
    """Numbers with gaps, text, dates and amounts, and labels of two or three classes."""
    rng = np.random.default_rng(seed)
    age, shop = rng.normal(40, 10, n), rng.choice(["web", "city", "mall"], n)
    frame = pd.DataFrame(
        {
            "age": age,
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "shop": shop,
            "since": np.datetime_as_string(np.datetime64("2020-01-01") + rng.integers(0, 9, n)),
            "amount": rng.lognormal(1, 1, n),
        }
    )
    risk = age + 10 * (shop == "web") + rng.normal(0, 8, n)
    return frame, np.where(risk > 52, "yes", "no"), np.digitize(risk, [38, 52])


@pytest.fixture(scope="session")
def rows():
    """Thirty rows to decide about."""
    return make_rows(30, seed=1)[0]


@pytest.fixture(scope="session")
def fitted():
    """Fit a logistic regression on such rows; ``classes=3`` for three classes."""

    def fit(costs, *, features=FEATURES, classes=2, policy=None, plain=False):
        frame, labels, levels = make_rows(200)
        X = frame[["age", "amount"]].to_numpy() if plain else frame[features]
        made = CostSensitiveClassifier(
            costs, learner=LogisticRegression(), pos_label="yes" if classes == 2 else None, random_state=0
        )
        made.set_params(policy=policy)
        return made.fit(X, labels if classes == 2 else levels)

    return fit


@pytest.fixture(scope="session")
def plain(fitted):
    """Two classes, class-wide costs."""
    return fitted(CostMatrix(fp=1, fn=6))


@pytest.fixture(scope="session")
def instance_costs(fitted):
    """A false negative costs the row's amount, which is no feature; at most two referrals a day."""
    model = fitted(CostMatrix(fp=1, fn=6), policy=Policy(refer=0.1, capacity=2, per="day", time="since"))
    model.cost_spec_ = CostMatrix(fp=1, fn="amount")
    return model


@pytest.fixture(scope="session")
def client_of():
    """Return a client of a model's application."""
    from starlette.testclient import TestClient

    from adacsl.serving.app import RequestLimits, make_app

    def of(model, **limits):
        return TestClient(make_app(model, limits=RequestLimits(**limits), device="cpu", threads=2))

    return of


@pytest.fixture(scope="session")
def client(client_of, plain):
    """A client of the plain model that takes at most 50 rows and 100 kB."""
    return client_of(plain, rows=50, body=100_000)


@pytest.fixture(scope="session")
def records():
    """Turn a table into what JSON has: null for what is missing."""

    def of(frame):
        return frame.astype(object).where(frame.notna(), None).to_dict(orient="records")

    return of
