"""A sample's score depends on that sample alone: whatever rows are beside it, however many, and in what form."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from adacsl import CostMatrix, EnsembleClassifier, load
from adacsl.base.scores import weighted_sums
from adacsl.datasets.columns import Columns
from adacsl.datasets.encoder import TableEncoder
from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.fitting.candidates import mean_logits
from adacsl.integrations.boosting import Matrix
from adacsl.learners import BoostingLearner
from adacsl.learners.boosting_libraries import LIBRARIES, load_library
from adacsl.neural import NeuralLearner
from adacsl.neural.model import predict_logits
from adacsl.torch.tabular import TableNet

SHOPS = ["web", "city", "mall", "1.0", None]
VALUES = {
    "age": st.one_of(st.just(float("nan")), st.floats(-1e300, 1e300), st.floats(20, 60)),
    "gap": st.one_of(st.just(float("nan")), st.floats(-3, 3), st.sampled_from([0.0, -0.0, 5e-324, 1e39])),
    "shop": st.sampled_from([*SHOPS, "new", "", " web "]),
    "amount": st.floats(0.01, 1e6),
}


def make_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n), "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "shop": rng.choice(np.array(SHOPS, dtype=object), n), "amount": rng.lognormal(1, 1, n),
        }
    )  # fmt: skip
    return frame, np.digitize(frame["age"] + 10 * (frame["shop"] == "web") + rng.normal(0, 8, n), [35, 50])


@pytest.fixture(scope="module", params=["instance", "three"])
def model(request):
    """A small ensemble of every kind of base estimator: two classes with costs of each sample, or three classes."""
    frame, y = make_rows(120)
    boosted = [(name, BoostingLearner(name, n_estimators=6)) for name in LIBRARIES]
    nets = [("net", NeuralLearner(epochs=1)), ("bins", NeuralLearner({"bins": 8}, epochs=1))]
    nets.append(("realmlp", NeuralLearner("realmlp", epochs=1)))
    others = [("logistic", LogisticRegression()), *(["net-instance"] if request.param == "instance" else [])]
    costs = CostMatrix(fp=1, fn="amount" if request.param == "instance" else 4)
    if request.param == "three":
        costs = CostMatrix.from_array([[0, 2, 9], [1, 0, 3], [4, 2, 0]], rows="predicted")
    made = EnsembleClassifier(
        costs, estimators=[*others, *boosted, *nets], cv=2, n_jobs=1, device="cpu", random_state=0
    )
    return made.fit(frame, y if request.param == "three" else (y > 1).astype(int))


def test_one_row_scores_as_it_does_in_any_batch_and_form(model, tmp_path):
    frame, _ = make_rows(70, seed=1)
    frame.iloc[:2, 0] = [1e300, -1e300]
    expected = model.predict_proba(frame)
    for again in (model, load(model.save(tmp_path / "model"), device="cpu")):
        for size in (1, 2, 7, 9, 64):
            parts = [again.predict_proba(frame[i : i + size]) for i in range(0, len(frame), size)]
            np.testing.assert_array_equal(np.concatenate(parts), expected, err_msg=f"{size} rows at a time")
        for form in (pl.from_pandas(frame), Columns({name: frame[name].to_numpy() for name in frame})):
            np.testing.assert_array_equal(again.predict_proba(form), expected)
        np.testing.assert_array_equal(again.predict_proba(frame[::-1])[::-1], expected)
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


@settings(max_examples=10)
@given(rows=st.lists(st.fixed_dictionaries(VALUES), min_size=2, max_size=12))
def test_odd_values_score_alike_alone_and_jointly(model, rows):
    frame = pd.DataFrame(rows)[list(VALUES)].astype({"shop": object})
    alone = [model.predict_proba(frame[i : i + 1]) for i in range(len(frame))]
    np.testing.assert_array_equal(np.concatenate(alone), model.predict_proba(frame))


def test_samples_are_encoded_once_for_equal_encoders(model, monkeypatch):
    frame, _ = make_rows(3)
    calls, kinds = [], {type(own.encoder) for own in model.model_.models}
    for kind in kinds:
        transform = kind.transform
        monkeypatch.setattr(kind, "transform", lambda self, X, own=transform: calls.append(type(self)) or own(self, X))
    model.predict_proba(frame)
    assert len(kinds) == 2
    assert sorted(map(str, calls)) == sorted(map(str, kinds))
    each = np.stack([own.logits(frame) for own in model.model_.models], axis=1)
    shifts = np.stack([np.broadcast_to(shift, each.shape[2:]) for shift in model.model_.shifts])
    np.testing.assert_array_equal(model.model_.columns(frame), each + shifts)


def test_base_estimators_that_take_tables_as_they_are_get_them(model):
    class Kept:
        kind, encoder = "kept", None

        def logits(self, X):
            assert isinstance(X, pd.DataFrame)
            return np.zeros(len(X))

    stack = model.model_
    mixed = type(stack)(stack.stack, ["a", "b"], [Kept(), stack.models[0]], [0.0, stack.shifts[0]])
    if model.costs_.n_classes == 2:
        frame = make_rows(5)[0]
        np.testing.assert_array_equal(mixed.columns(frame)[:, 1], stack.models[0].logits(frame) + stack.shifts[0])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("classes", [2, 3])
def test_boosters_score_rows_together_as_each_would_alone(library, classes, monkeypatch):
    frame, y = make_rows(150)
    learner = BoostingLearner(library, n_estimators=8)
    costs = CostMatrix(fp=1, fn=4) if classes == 2 else CostMatrix.from_array(1.0 - np.eye(3), rows="predicted")
    made = EnsembleClassifier(costs, estimators=[("one", learner)], cv=3, n_jobs=1, random_state=0)
    own = made.fit(frame, y if classes == 3 else (y > 1).astype(int)).model_.models[0]
    x = own.encoder.transform(make_rows(60, seed=2)[0])
    x[:6, 0] = [1e300, -1e300, 3.5e38, 5e-324, np.nan, -0.0]
    module, data = load_library(library), Matrix(x, None, None, own.encoder.categories)
    result = module.margins_of_each(own.boosters, data)
    if library == "catboost":  # the form for many rows
        monkeypatch.setattr(module, "FEW_ROWS", 0)
    for margins, booster in zip(result, own.boosters, strict=True):
        np.testing.assert_array_equal(margins, module.margins(booster, data))
        alone = [module.margins(booster, data._replace(x=x[i : i + 1])) for i in range(len(x))]
        np.testing.assert_array_equal(margins, np.concatenate(alone))


@settings(max_examples=25)
@given(st.integers(1, 70), st.integers(1, 40), st.integers(0, 4), st.integers(0, 99))
def test_weighted_sums_are_those_of_each_row(n, d, k, seed):
    rng = np.random.default_rng(seed)
    x, weights = rng.normal(size=(n, d)), rng.normal(size=(k, d) if k else d)
    result = weighted_sums(x, weights)
    np.testing.assert_allclose(result, x @ weights.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(np.concatenate([weighted_sums(row[None], weights) for row in x]), result)
    np.testing.assert_array_equal(weighted_sums(np.asfortranarray(x), weights), result)


def test_a_mean_of_many_models_is_added_in_one_order():
    parts = list(np.random.default_rng(0).normal(size=(11, 500)))
    alone = [mean_logits([part[i : i + 1] for part in parts]) for i in range(500)]
    np.testing.assert_array_equal(np.concatenate(alone), mean_logits(parts))
    np.testing.assert_array_equal(mean_logits(parts), np.mean(np.stack(parts), axis=0))


def test_an_encoder_fitted_again_forgets_its_levels():
    first, second = pd.DataFrame({"shop": ["a", "b", "b"]}), pd.DataFrame({"shop": ["c", "b", "c"]})
    for encoder in (TableEncoder(), ColumnEncoder()):
        before = encoder.fit(first).transform(second)
        after = encoder.fit(second).transform(second)
        assert not np.array_equal(before, after, equal_nan=True)


@pytest.mark.parametrize("batch", [1, 5, 50, 64])
def test_networks_score_whatever_the_size_of_a_pass(batch):
    net, x = TableNet(6, members=3, seeds=range(3)), torch.randn(131, 6, generator=torch.Generator().manual_seed(0))
    expected = net.eval()(torch.cat((x, x[:5])))[:131].mean(2)
    result = predict_logits(net, x, device=torch.device("cpu"), batch_size=batch)
    np.testing.assert_array_equal(result.numpy(), expected.detach().numpy())
