"""The decision about a sample is the same in Python, on the command line, over HTTP and in monitoring."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from starlette.testclient import TestClient

from adacsl import CostMatrix, CostSensitiveClassifier, Policy, load, monitor
from adacsl.cli.app import run
from adacsl.fitting.rows import costs_for
from adacsl.monitoring.scored_rows import score_rows
from adacsl.serving.app import RequestLimits, make_app

ARROW = "application/vnd.apache.arrow.stream"
COLUMNS = ["age", "gap", "shop", "since", "amount"]
MAIL = CostMatrix.from_array(
    [[0, 6], [1, 0], [0.1, 3]], rows="predicted", classes=["no", "yes"], actions=["no", "yes", "mail"]
)
MAIL_OF_THREE = CostMatrix.from_array(
    [[0, 2, 9], [1, 0, 3], [4, 2, 0], [0.7, 0.8, 0.9]], rows="predicted", classes=["0", "1", "2"],
    actions=["0", "1", "2", "mail"],
)  # fmt: skip
KINDS = {
    "class-wide": {"costs": CostMatrix(fp=1, fn=6), "learner": LogisticRegression()},
    "over columns": {"costs": CostMatrix(fp=1, fn="0.5 * amount"), "learner": LogisticRegression()},
    "trees": {"costs": CostMatrix(fp=1, fn=6), "learner": HistGradientBoostingClassifier(max_iter=5)},
    "half": {"costs": CostMatrix(fp=1, fn=6), "learner": LogisticRegression(), "decide": "half"},
    "three classes": {
        "costs": CostMatrix.from_array([[0, 2, 9], [1, 0, 3], [4, 2, 0]], rows="predicted"),
        "learner": LogisticRegression(),
    },
}


def samples(n, seed):
    """Numbers with gaps, text, dates and amounts, and labels of two and of three classes."""
    rng = np.random.default_rng(seed)
    age, shop = rng.normal(40, 10, n), rng.choice(["web", "city", "mall", "1"], n)
    frame = pd.DataFrame(
        {
            "age": age,
            "gap": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "shop": shop,
            "since": np.datetime_as_string(np.datetime64("2020-01-01") + rng.integers(0, 4, n)),
            "amount": rng.lognormal(1, 1, n),
        }
    )
    risk = age + 10 * (shop == "web") + rng.normal(0, 8, n)
    return frame, np.where(risk > 52, "yes", "no"), np.digitize(risk, [38, 52])


@pytest.fixture(scope="module")
def models():
    """One fitted model of each kind."""
    frame, labels, levels = samples(300, 0)
    return {
        name: CostSensitiveClassifier(pos_label=None if name == "three classes" else "yes", random_state=0, **how).fit(
            frame, levels if name == "three classes" else labels
        )
        for name, how in KINDS.items()
    }


@st.composite
def policies(draw, kind):
    """Draw a policy that a model of this kind can have."""
    if kind == "half":
        return None
    three = kind == "three classes"
    chosen = {}
    if draw(st.booleans()):
        chosen["refer"] = draw(st.sampled_from([0.05, 0.3, 1.0]))
        chosen["errors"] = draw(st.sampled_from([None, 0.02]))
    if draw(st.booleans()):
        chosen["actions"] = MAIL_OF_THREE if three else MAIL
    if draw(st.booleans()):
        chosen["prior"] = draw(st.sampled_from(["em", [0.2, 0.3, 0.5] if three else 0.35]))
    if "refer" in chosen and draw(st.booleans()):
        chosen |= {"capacity": draw(st.integers(0, 5))} | draw(st.sampled_from([{}, {"per": "day", "time": "since"}]))
    return Policy(**chosen) if chosen else None


def by_cli(model, frame, folder, suffix):
    """Return decisions and probabilities of ``adacsl predict``."""
    data, out = folder / f"rows{suffix}", folder / "out.parquet"
    frame.to_parquet(data) if suffix == ".parquet" else frame.to_csv(data, index=False)
    words = ["predict", str(model), str(data), "--out", str(out), "--batch-rows", "7", "--quiet"]
    policy = load(model).policy
    assert run([*words, *(["--time-column", "since"] if policy is not None and policy.per else [])]) == 0
    result = pd.read_parquet(out)
    return result["decision"].tolist(), result.filter(like="probability").to_numpy()


def by_json(client, frame, orient):
    """Return what a server answers to JSON."""
    plain = frame.astype(object).where(frame.notna(), None)
    body = {"rows": plain.to_dict("records")} if orient == "rows" else {"columns": plain.to_dict("list")}
    answer = client.post("/predict", content=json.dumps(body))
    assert answer.status_code == 200, answer.text
    result = pd.DataFrame(answer.json()[orient])
    return result["decision"].tolist(), result.filter(like="probability").to_numpy()


def by_arrow(client, frame):
    """Return what a server answers to Arrow."""
    sink, table = pa.BufferOutputStream(), pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    answer = client.post("/predict", content=bytes(sink.getvalue()), headers={"content-type": ARROW})
    assert answer.status_code == 200, answer.text
    result = pa.ipc.open_stream(answer.content).read_all().to_pandas()
    return result["decision"].tolist(), result.filter(like="probability").to_numpy()


def by_monitoring(model, frame):
    """Return what monitoring takes for the decisions."""
    rows = score_rows(model, frame, None, costs_for(model, frame), None)
    names = model.decisions(frame).counts
    shares = monitor(model, frame).decided[1]
    np.testing.assert_allclose(shares, np.bincount(rows.decided, minlength=len(names)) / len(frame))
    return [list(names)[action] for action in rows.decided], rows.shifted


def text(decisions):
    """Return decisions as text: a column of labels and other actions may be either."""
    return [str(decision) for decision in decisions]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3)
@given(data=st.data())
def test_every_way_to_decide_is_the_same(models, tmp_path_factory, kind, data):
    model, folder = models[kind], tmp_path_factory.mktemp("same")
    model.policy = data.draw(policies(kind))
    frame = samples(data.draw(st.integers(1, 20)), data.draw(st.integers(1, 99)))[0]
    saved = model.save(folder / "model")
    model = load(saved)
    client = TestClient(make_app(model, limits=RequestLimits(), device="cpu", threads=2))
    arrays = {name: frame[name].to_numpy() for name in COLUMNS}

    def check(part, columns):
        wanted = model.decisions(part)
        assert text(model.predict(part)) == text(wanted.labels)
        given = model.decisions(columns)
        ways = {
            "arrays": (given.labels, given.probabilities),
            "JSON rows": by_json(client, part, "rows"),
            "JSON columns": by_json(client, part, "columns"),
            "Arrow": by_arrow(client, part),
            "monitoring": by_monitoring(model, part),
        }
        for way, (decisions, probabilities) in ways.items():
            assert text(decisions) == text(wanted.labels), way
            shape = wanted.probabilities.shape
            np.testing.assert_allclose(np.reshape(probabilities, shape), wanted.probabilities, rtol=1e-9, err_msg=way)
        return wanted

    wanted = check(frame, arrays)
    for suffix in (".parquet", ".csv"):
        decisions, probabilities = by_cli(saved, frame, folder, suffix)
        assert text(decisions) == text(wanted.labels), suffix
        np.testing.assert_allclose(
            np.reshape(probabilities, wanted.probabilities.shape), wanted.probabilities, rtol=1e-9
        )
    if model.policy is None or not model.policy.needs_all_rows:
        for row in range(min(len(frame), 2)):
            alone = check(frame[row : row + 1], {name: values[row : row + 1] for name, values in arrays.items()})
            assert text(alone.labels) == text(wanted.labels[row : row + 1])


def test_costs_equal_to_those_of_the_training_leave_the_costs_of_other_actions(models):
    """Costs that are given, and equal, mean the same as none: in Python, as they do on the command line."""
    model, frame = models["class-wide"], samples(50, 3)[0]
    model.policy = Policy(actions=MAIL)
    one, other = model.decisions(frame), model.decisions(frame, fp=1, fn=6)
    assert one.costs == other.costs
    assert one.labels.tolist() == other.labels.tolist()
