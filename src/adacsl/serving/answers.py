"""From checked rows to decisions, and from decisions to what is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from adacsl.estimators.acting import decide_rows
from adacsl.estimators.policy import Decisions, Policy
from adacsl.estimators.predicting import CostClassifier
from adacsl.estimators.prices import prices_of
from adacsl.serving.contract import Contract, probability_names
from adacsl.serving.rows import Form


def decide(classifier: CostClassifier, contract: Contract, inputs: Any) -> Decisions:
    """Decide about rows as the model was trained to: with its policy, and the prices of these rows."""
    policy = classifier.policy or Policy()
    if contract.picture is not None:
        return decide_rows(classifier, classifier.decision_probabilities(inputs), None, policy)
    if isinstance(policy.time, str):
        policy = replace(policy, time=inputs[policy.time])
    costs = prices_of(classifier, inputs)
    features = inputs[[field.name for field in contract.fields[: contract.features]]]
    table = features if contract.named else features.to_numpy()
    return decide_rows(classifier, classifier.decision_probabilities(table, costs=costs), costs, policy)


def answer_columns(classifier: CostClassifier, found: Decisions) -> dict[str, NDArray[Any]]:
    """Return the answer column by column, under the names that ``adacsl predict`` writes."""
    labels = found.labels if found.costs.square else np.asarray(list(found.counts))[found.actions]
    proba = found.probabilities[None] if found.probabilities.ndim == 1 else found.probabilities.T
    named = dict(zip(probability_names(classifier), proba, strict=True))
    return {"decision": labels, **named, "expected_cost": found.expected}


def write_json(columns: dict[str, NDArray[Any]], notes: list[str], form: Form) -> bytes:
    """Return the answer in the form of the question: records or columns."""
    lists = {name: values.tolist() for name, values in columns.items()}
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)] if form == "rows" else []
    return to_json({form: rows if form == "rows" else lists, "notes": notes}, inf_nan_mode="null")
