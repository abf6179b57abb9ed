"""Errors of a request name the row, the column and what was expected."""

import copy
import json

import pytest

from adacsl import CostMatrix
from adacsl.serving.app import PredictionService, RequestLimits

OK = {"age": 41.5, "gap": None, "shop": "web", "since": "2020-03-01"}


def refused(client, body, status=422, **headers):
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    answer = client.post("/predict", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", "forty", "expected a number or null, got 'forty' (text)"),
        ("age", [1], "expected a number or null, got [1] (a list)"),
        ("age", float("nan"), "expected a number or null, got nan, which is not a number"),
        ("gap", float("-inf"), "got -inf, which is not a number"),
        ("gap", 10**400, "(a number)"),
        ("age", "nan", "expected a number or null, got 'nan' (text)"),
        ("age", {}, "got {} (an object)"),
        ("shop", ["web"], "expected text or null, got ['web'] (a list)"),
        ("shop", "w" * 1001, "the text has 1,001 characters, the limit is 1,000"),
        ("since", "soon", "expected a date such as 2026-03-31 or null, got 'soon' (text)"),
        ("since", 20200301, "got 20200301 (a number)"),
        ("since", "2020-13-01", "got '2020-13-01' (text)"),
    ],
)
def test_a_wrong_value_is_named_by_row_and_column(client, column, value, message):
    reply = refused(client, {"rows": [OK, OK, OK | {column: value}]})
    (error,) = reply["errors"]
    assert (error["row"], error["column"]) == (2, column)
    assert message in error["message"]
    assert reply["detail"] == f"row 2 (the first is 0), column {column!r}: {error['message']}"


def test_all_wrong_columns_are_named_at_once(client):
    reply = refused(client, {"columns": {"age": ["a", 1], "gap": [0, []], "shop": ["x", "y"], "since": [None, "x"]}})
    assert [(error["row"], error["column"]) for error in reply["errors"]] == [(0, "age"), (1, "gap"), (1, "since")]


def test_a_missing_column_is_named_and_the_nearest_one_offered(client):
    reply = refused(client, {"rows": [OK, {"agee": 1} | {k: v for k, v in OK.items() if k != "age"}]})
    assert reply["errors"][0] | {"message": ""} == {"row": 1, "column": "age", "message": ""}
    assert "this column is missing; did you mean 'agee'? (expected a number or null" in reply["detail"]
    reply = refused(client, {"columns": {name: [value] for name, value in OK.items() if name != "shop"}})
    assert reply["detail"].startswith("column 'shop': this column is missing (expected text or null; got age, gap")


def test_costs_and_times_may_not_be_missing(client_of, instance_costs):
    client, row = client_of(instance_costs), OK | {"amount": 3.0}
    for column, wanted in (("amount", "a number"), ("since", "a date such as 2026-03-31")):
        reply = refused(client, {"rows": [row, row | {column: None}]})
        assert reply["detail"] == f"row 1 (the first is 0), column {column!r}: expected {wanted}, got None (null)"


def test_a_cost_that_cannot_be_computed_is_refused(client_of, instance_costs):
    shared = copy.copy(instance_costs)
    shared.cost_spec_ = CostMatrix(fp=1, fn="12 / amount")
    reply = refused(client_of(shared), {"rows": [OK | {"amount": 0.0}]})
    assert "12 / amount" in reply["detail"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"rows":', "the body is not valid JSON (EOF while parsing a value at line 1 column 8): send {"),
        ("", "the body is not valid JSON"),
        (b"\xff\xfe", "the body is not valid JSON"),
        ("[" * 100_000, "the body is not valid JSON"),
        ("[1]", "expected an object with either rows or columns, got [1] (a list)"),
        ({}, "got an object with nothing"),
        (
            {"rows": [OK], "columns": {k: [v] for k, v in OK.items()}},
            "either rows or columns, got an object with rows, col",
        ),
        ({"rows": [OK], "columns": {}}, "column 'age': this column is missing"),
        ({"rows": {}}, "rows must be a list of objects, got {} (an object)"),
        ({"rows": []}, "there are no rows: send at least one"),
        ({"rows": [OK, 7]}, "row 1 (the first is 0): expected an object, column by column, got 7 (a number)"),
        ({"columns": []}, "columns must be an object of lists, got [] (a list)"),
        ({"columns": {**{k: [v] for k, v in OK.items()}, "gap": 3}}, "column 'gap': expected a list of values, got 3"),
        ({"columns": {**{k: [v] for k, v in OK.items()}, "gap": [1, 2]}}, "column 'gap': it has 2 values, but column"),
        ({"columns": {k: [] for k in OK}}, "there are no rows"),
        ({"rows": [OK] * 51}, "there are more than 50 rows, the limit of a request: send them in several requests"),
        ({"columns": {k: [v] * 51 for k, v in OK.items()}}, "there are more than 50 rows"),
    ],
)
def test_a_body_of_another_form_is_refused(client, body, message):
    assert message in refused(client, body)["detail"]


def test_a_body_that_is_too_large_is_refused_before_and_while_it_is_read(client):
    large = json.dumps({"rows": [OK | {"note": "x" * 100_000}]})
    assert "the body has more than 100,000 bytes" in refused(client, large, 413)["detail"]
    parts = (large[i : i + 1000].encode() for i in range(0, len(large), 1000))  # says no length
    answer = client.post("/predict", content=parts)
    assert answer.status_code == 413


def test_other_content_types_are_refused(client):
    reply = refused(client, "a,b", 415, **{"content-type": "text/csv; charset=utf-8"})
    assert reply["detail"].startswith("the content type text/csv is not supported: send application/json or")
    assert refused(client, b"", 415, **{"content-type": "image/png"})["detail"].startswith("the content type image/png")


def test_too_many_requests_are_asked_to_come_again(client_of, plain, monkeypatch):
    from adacsl.serving import app

    monkeypatch.setattr(app, "WAITING", 0)
    client = client_of(plain)
    answer = client.post("/predict", json={"rows": [OK]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "retry" in answer.json()["detail"]
    assert client.get("/ready").status_code == 503
    assert client.get("/health").status_code == 200


def test_an_internal_error_is_not_reported_as_invalid_rows(plain, monkeypatch):
    def broken(*_):
        raise RuntimeError("torn")

    monkeypatch.setattr(type(plain), "decisions", broken)
    service = PredictionService(plain, RequestLimits(), device="cpu")
    with pytest.raises(RuntimeError, match="torn"):
        service.answer_alone(json.dumps({"rows": [OK]}).encode(), "application/json")


@pytest.mark.parametrize("form", ["rows", "columns", "document"])
def test_an_answer_does_not_repeat_long_names(client_of, plain, form):
    client = client_of(plain)
    names = {"k" * 3_000_000: 1, **{f"{i}{'n' * 300_000}": 1 for i in range(8)}}
    body = {"rows": {"rows": [names]}, "columns": {"columns": names}, "document": names}[form]
    answer = client.post("/predict", json=body)
    assert answer.status_code == 422
    assert len(answer.content) < 20_000
    assert "kkkk..." in answer.json()["detail"]


def test_an_answer_does_not_repeat_long_values_or_headers(client):
    for value in ("v" * 50_000, [["v" * 1000] * 40], {"v" * 50_000: {}}):
        reply = refused(client, {"rows": [OK | {"since": value}]})
        assert len(json.dumps(reply)) < 2_000
        assert len(json.dumps(refused(client, {"rows": value}))) < 2_000
    kind = "text/" + "c" * 20_000
    assert len(json.dumps(refused(client, "a", 415, **{"content-type": kind}))) < 3_000


def test_rows_are_limited_by_the_size_of_their_answer(client_of, fitted):
    model = fitted(CostMatrix(fp=1, fn=6), plain=True)
    client = client_of(model, rows=10**9, answer=10_000)
    rows = client.get("/model").json()["limits"]["rows"]
    assert 50 < rows < 150
    one = {"x0": 41.5, "x1": 3.25}
    answer = client.post("/predict", json={"rows": [one] * rows})
    assert 5_000 < len(answer.content) <= 10_000
    assert f"there are more than {rows} rows" in refused(client, {"rows": [one] * (rows + 1)})["detail"]


def test_large_bodies_are_bounded_together_and_small_ones_pass(client_of, plain, monkeypatch):
    from adacsl.serving import app

    monkeypatch.setattr(app, "BODIES", 0)
    client = client_of(plain)
    assert client.post("/predict", json={"rows": [OK]}).status_code == 200
    answer = client.post("/predict", json={"rows": [OK | {"note": "x" * 100_000}]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "large bodies" in answer.json()["detail"]
