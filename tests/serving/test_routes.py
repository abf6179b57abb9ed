"""Routes for operation: health, readiness, the model, metrics."""

import copy
import re

import numpy as np

OK = {"age": 41.5, "gap": None, "shop": "web", "since": "2020-03-01"}


def counted(client):
    lines = [line for line in client.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_alive_and_ready(client):
    assert client.get("/health").json() == {"status": "alive"}
    assert client.get("/ready").json() == {"status": "ready"}


def test_the_model_is_described(client_of, plain, instance_costs):
    reply = client_of(plain).get("/model").json()
    assert (reply["classes"], reply["pos_label"], reply["costs"]) == (["no", "yes"], "yes", "CostMatrix(fp=1, fn=6)")
    assert reply["policy"] is reply["policy_note"] is None
    assert [(one["name"], one["kind"]) for one in reply["columns"]] == [
        ("age", "number"), ("gap", "number"), ("shop", "text"), ("since", "date"),
    ]  # fmt: skip
    assert reply["threshold"] == plain.threshold_
    assert reply["limits"] == {"rows": 10_000, "bytes": 32 * 2**20}
    reply = client_of(instance_costs).get("/model").json()
    assert reply["policy"] == {"refer": 0.1, "capacity": 2, "per": "day", "time": "since"}
    assert len(reply["columns"]) == 5
    assert reply["columns"][-1]["role"] == "cost"


def test_the_page_describes_the_rows(client):
    page = client.get("/docs").text
    assert "<code>shop</code>" in page
    assert "the probability is that of <b>yes</b>" in page
    assert "at most 50 rows" in page
    assert not re.search(r"(src|href)=\"(https?:)?//", page)  # it is read where there is no way out
    post = client.get("/openapi.json").json()["paths"]["/predict"]["post"]
    forms = post["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    record = forms[0]["properties"]["rows"]["items"]
    assert record["required"] == list(OK)
    assert record["properties"]["gap"]["type"] == ["number", "null"]
    assert {"413", "415", "422", "503"} <= set(post["responses"])


def test_names_in_the_page_are_text(client_of, plain):
    odd = copy.copy(plain)
    odd.feature_names_in_ = np.asarray(["age", "gap", "<script>alert(1)</script>", "since"], dtype=object)
    assert "&lt;script&gt;alert(1)" in (page := client_of(odd).get("/docs").text)
    assert "<script>alert" not in page


def test_requests_rows_decisions_and_costs_are_counted(client_of, plain):
    client = client_of(plain)
    before = counted(client)
    assert before["adacsl_rows_total"] == 0
    costs = []
    for rows in ([OK] * 3, [OK | {"age": 70.0}] * 2):
        costs += [one["expected_cost"] for one in client.post("/predict", json={"rows": rows}).json()["rows"]]
    client.post("/predict", content="{")
    result = counted(client)
    assert result['adacsl_requests_total{status="200"}'] == 2
    assert result['adacsl_requests_total{status="422"}'] == 1
    assert result["adacsl_request_seconds_count"] == result['adacsl_request_seconds_bucket{le="+Inf"}'] == 3
    assert 0 < result["adacsl_request_seconds_sum"] < 60
    assert result["adacsl_rows_total"] == 5
    decisions = {name: count for name, count in result.items() if name.startswith("adacsl_decisions_total")}
    assert sum(decisions.values()) == 5
    assert all(re.fullmatch(r'adacsl_decisions_total\{decision="(yes|no)"\}', name) for name in decisions)
    assert abs(result["adacsl_expected_cost_sum"] - sum(costs)) < 1e-9


def test_other_paths_and_methods_are_not_there(client):
    assert client.get("/predict").status_code == 405
    assert client.get("/nothing").status_code == 404


def test_columns_whose_absence_is_refused_are_needed(client_of, plain, instance_costs):
    for model in (plain, instance_costs):
        client = client_of(model)
        columns = client.get("/model").json()["columns"]
        record = {"age": 41, "gap": 0.5, "shop": "web", "since": "2020-01-03", "amount": 3.0}
        for column in columns:
            name = column["name"]
            without = {key: value for key, value in record.items() if key != name}
            absent = client.post("/predict", json={"rows": [without]}).status_code
            null = client.post("/predict", json={"rows": [record | {name: None}]}).status_code
            assert (column["needed"], column["nullable"]) == (absent == 422, null == 200), name
