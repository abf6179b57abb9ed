"""From checked rows to decisions, and from decisions to what is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from adacsl.core.labels import label_name
from adacsl.estimators.acting import REFER, decide_rows, ordered_labels
from adacsl.estimators.policy import Decisions, Policy
from adacsl.estimators.predicting import CostClassifier
from adacsl.estimators.prices import prices_of
from adacsl.serving.contract import Contract, probability_names
from adacsl.serving.rows import Form

NUMBER = 28
"""Bytes of a number in JSON at most, with what separates it from its name and from the next."""


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


def bytes_per_row(classifier: CostClassifier) -> int:
    """Return an upper bound of the bytes of one row of an answer in JSON, the larger of its two forms."""
    names = ["decision", *probability_names(classifier), "expected_cost"]
    added = () if classifier.policy is None or classifier.policy.actions is None else classifier.policy.actions.actions
    labels = [label_name(label) for label in (*ordered_labels(classifier), *(added or ()), REFER)]
    return sum(len(to_json(name)) + NUMBER for name in names) + max(len(to_json(label)) for label in labels)


def write_json(columns: dict[str, NDArray[Any]], notes: list[str], form: Form) -> bytes:
    """Return the answer in the form of the question: records or columns."""
    lists = {name: values.tolist() for name, values in columns.items()}
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)] if form == "rows" else []
    return to_json({form: rows if form == "rows" else lists, "notes": notes}, inf_nan_mode="null")
