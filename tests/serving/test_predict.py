"""Answers are the model's decisions in Python."""

import asyncio
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from adacsl import CostMatrix, CostSensitiveClassifier, Policy, load
from adacsl.neural import NeuralLearner
from adacsl.serving.app import PredictionService, RequestLimits, make_app

FEATURES = ["age", "gap", "shop", "since"]
COSTS = [[0, 2, 9], [1, 0, 3], [4, 2, 0]]


def ask(client, records):
    answer = client.post("/predict", json={"rows": records})
    assert answer.status_code == 200, answer.text
    return pd.DataFrame(answer.json()["rows"])


def test_decisions_probabilities_and_costs_are_those_of_the_model(client, plain, rows, records):
    result = ask(client, records(rows))
    proba = plain.predict_proba(rows[FEATURES])[:, 1]
    assert result["decision"].tolist() == plain.predict(rows[FEATURES]).tolist()
    np.testing.assert_array_equal(result["probability"], proba)
    np.testing.assert_allclose(result["expected_cost"], np.minimum(6 * proba, 1 - proba))
    assert set(result["decision"]) == {"yes", "no"}


def test_columns_are_answered_by_columns(client, rows, records):
    listed = {name: [one[name] for one in records(rows)] for name in [*FEATURES, "amount"]}
    by_columns = client.post("/predict", json={"columns": listed}).json()["columns"]
    assert pd.DataFrame(by_columns).equals(ask(client, records(rows)))


def test_per_sample_costs_and_a_daily_capacity_of_referrals(client_of, instance_costs, rows, records):
    result = ask(client_of(instance_costs), records(rows))
    proba = instance_costs.predict_proba(rows[FEATURES])[:, 1]
    alone, refer = np.minimum(proba * rows["amount"], 1 - proba), 0.1
    wanted = alone > refer
    assert wanted.sum() > (result["decision"] == "refer").sum() > 5
    for _, day in result.assign(wanted=wanted, gain=alone - refer).groupby(rows["since"]):
        helped = day[day["decision"] == "refer"]
        assert len(helped) == min(2, day["wanted"].sum())
        assert set(helped.index) == set(day["gain"].nlargest(len(helped)).index)
    np.testing.assert_allclose(result["expected_cost"], np.where(result["decision"] == "refer", refer, alone))


def test_capacity_applies_to_each_request(client_of, fitted, rows, records):
    limited = fitted(CostMatrix(fp=1, fn=6), policy=Policy(refer=0.1, capacity=3))
    client = client_of(limited)
    jointly = ask(client, records(rows))["decision"].eq("refer").sum()
    apart = sum(ask(client, records(rows[i : i + 10]))["decision"].eq("refer").sum() for i in (0, 10, 20))
    assert (jointly, apart) == (3, 9)
    assert "the rows of each request" in client.get("/model").json()["policy_note"]
    assert "3 in all were there" in client.post("/predict", json={"rows": records(rows)}).json()["notes"][0]


def test_three_classes_have_a_probability_each(client_of, fitted, rows, records):
    model = fitted(CostMatrix.from_array(COSTS, rows="predicted"), classes=3)
    result, proba = ask(client_of(model), records(rows)), model.predict_proba(rows[FEATURES])
    np.testing.assert_array_equal(result[["probability_0", "probability_1", "probability_2"]], proba)
    each = proba @ np.asarray(COSTS, dtype=float).T
    assert result["decision"].tolist() == each.argmin(axis=1).tolist()
    np.testing.assert_allclose(result["expected_cost"], each.min(axis=1))


def test_a_model_of_arrays_calls_its_columns_by_their_places(client_of, fitted, rows):
    model = fitted(CostMatrix(fp=1, fn=6), plain=True)
    X = rows[["age", "amount"]].to_numpy()
    result = ask(client_of(model), [{"x0": a, "x1": b} for a, b in X.tolist()])
    assert result["decision"].tolist() == model.predict(X).tolist()


def test_columns_that_the_model_does_not_know_are_ignored(client, rows, records):
    more = records(rows.assign(id="c1", note=[[1]] * len(rows)))
    assert ask(client, more).equals(ask(client, records(rows)))


def test_numbers_and_text_are_taken_as_tables_hold_them(client, records, rows):
    one = records(rows)[0] | {"gap": 1, "shop": "web"}
    spelt = one | {"age": str(one["age"]), "gap": True}
    assert ask(client, [spelt]).equals(ask(client, [one]))


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_a_request_makes_no_data_frame(plain, rows, records, form):
    service = PredictionService(plain, RequestLimits(), device="cpu")
    listed = records(rows) if form == "rows" else {name: [one[name] for one in records(rows)] for name in FEATURES}
    body, called = json.dumps({form: listed}).encode(), []

    def profile(frame, event, function):
        module = frame.f_globals.get("__name__", "") if event == "call" else getattr(function, "__module__", None)
        if (module or "").partition(".")[0] == "pandas":
            called.append(frame.f_code.co_name)

    service.answer_alone(body, "application/json")
    sys.setprofile(profile)
    try:
        service.answer_alone(body, "application/json")
    finally:
        sys.setprofile(None)
    assert called == []


VALUES = {
    "age": st.one_of(st.none(), st.floats(-1e9, 1e9), st.integers(-(2**40), 2**40), st.booleans()),
    "gap": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    "shop": st.one_of(st.none(), st.sampled_from(["web", "mall", ""]), st.text(max_size=9)),
    "since": st.one_of(st.none(), st.dates().map(str)),
}


@settings(max_examples=15)
@given(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=5))
def test_json_changes_no_bit_of_any_row(client, plain, records):
    result = ask(client, records)
    table = pd.DataFrame({name: pd.Series([one[name] for one in records], dtype=object) for name in FEATURES})
    table[["age", "gap"]] = table[["age", "gap"]].astype(float)
    np.testing.assert_array_equal(result["probability"], plain.predict_proba(table)[:, 1])


ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["rows", "columns", *FEATURES]), inner),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.one_of(st.binary(max_size=60), ANYTHING.map(lambda value: json.dumps(value).encode())))
def test_whatever_comes_is_answered_or_refused_with_a_reason(client, body):
    answer = client.post("/predict", content=body)
    assert answer.status_code in (200, 422)
    assert "rows" in answer.json() or "columns" in answer.json() or answer.json()["detail"]


@pytest.mark.parametrize("kind", ["logistic", "net", "trees"])
def test_threads_get_the_answers_that_one_gets(plain, rows, records, kind):
    from sklearn.ensemble import HistGradientBoostingClassifier

    from adacsl import AdaCSLClassifier, CostSensitiveClassifier

    model = plain
    if kind != "logistic":
        costs, y = CostMatrix(fp=1, fn=6), np.where(rows["age"] > 41, "yes", "no")
        trees = CostSensitiveClassifier(costs, learner=HistGradientBoostingClassifier(max_iter=5), pos_label="yes")
        net = AdaCSLClassifier(
            costs, pos_label="yes", cv=None, learner=NeuralLearner(epochs=1), device="cpu", random_state=0
        )
        model = (net if kind == "net" else trees).fit(rows[FEATURES], y)
    service = PredictionService(model, RequestLimits(), device="cpu")
    bodies = [json.dumps({"rows": records(rows[i : i + 7])}).encode() for i in range(8)]
    alone = [service.answer_alone(body, "application/json") for body in bodies]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda body: service.answer_alone(body, "application/json"), bodies * 3)) == alone * 3


def gathered(app, bodies):
    """Send bodies at the same time, and return the answers."""

    async def ask():
        import httpx

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await asyncio.gather(*(client.post("/predict", json=body) for body in bodies))

    return asyncio.run(ask())


def test_waiting_requests_are_batched_and_answered_one_by_one(plain, rows, records, monkeypatch):
    sizes, decisions = [], type(plain).decisions

    def slowly(classifier, inputs):
        sizes.append(inputs.shape[0])
        time.sleep(0.05)
        return decisions(classifier, inputs)

    monkeypatch.setattr(type(plain), "decisions", slowly)
    bodies = [{"rows": records(rows[i : i + 1 + i % 3])} for i in range(12)]
    made = make_app(plain, limits=RequestLimits(rows=9), device="cpu", threads=1)
    answers = gathered(made, [*bodies, {"rows": [{"age": "old"}]}])
    assert [answer.status_code for answer in answers] == [200] * 12 + [422]
    assert sum(sizes) == sum(len(body["rows"]) for body in bodies)
    assert len(sizes) < 12
    assert max(sizes) <= 9
    for answer, body in zip(answers[:12], bodies, strict=True):
        service = PredictionService(plain, RequestLimits(), device="cpu")
        alone = service.answer_alone(json.dumps(body).encode(), "application/json")
        assert answer.json() == json.loads(alone)


def test_an_error_concerns_one_request_of_a_batch(plain, rows, records, monkeypatch):
    decisions = type(plain).decisions

    def picky(classifier, inputs):
        time.sleep(0.02)
        if (inputs["age"] > 1000).any():
            raise ValueError("nobody is that old")
        return decisions(classifier, inputs)

    monkeypatch.setattr(type(plain), "decisions", picky)
    (good,) = records(rows[:1])
    answers = gathered(
        make_app(plain, device="cpu", threads=1), [{"rows": [good]}, {"rows": [good | {"age": 2000}]}] * 4
    )
    assert [answer.status_code for answer in answers] == [200, 422] * 4
    assert "nobody is that old" in answers[1].text


def test_a_saved_pipeline_gets_text_and_gaps_as_they_came(client_of, rows, records, tmp_path):
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "gap"]),
        (OneHotEncoder(handle_unknown="ignore"), ["shop"]),
    )
    learner = make_pipeline(columns, RandomForestClassifier(5, random_state=0))
    made = CostSensitiveClassifier(
        CostMatrix(fp=1, fn=6), learner=learner, pos_label="yes", validation=0.4, random_state=0
    )
    features = rows[["age", "gap", "shop"]]
    made.fit(features, np.where(rows["age"] > 40, "yes", "no"))
    again = load(made.save(tmp_path / "model"))
    result = ask(client_of(again), records(features))
    np.testing.assert_array_equal(result["probability"], made.predict_proba(features)[:, 1])
