"""What ``adacsl predict`` does with rows, wherever they are: probabilities, decisions, and what they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adacsl.cli.models import Opened, probability_columns
from adacsl.cli.policies import decide, decided_labels, timed_by
from adacsl.cli.writing import label_type
from adacsl.core.costs import CostMatrix, unchecked_costs

if TYPE_CHECKING:
    from adacsl.estimators.policy import Decisions, Policy
    from adacsl.estimators.predicting import CostClassifier


class Asked(NamedTuple):
    """What is asked about each row."""

    costs: CostMatrix
    """Some prices may depend on columns."""
    policy: Policy
    kept: list[str]
    """Columns to copy into the output."""
    rows: int
    """How many to hold in memory."""

    @property
    def when(self) -> str | None:
        """The column with the time of each row, where the policy needs it."""
        return timed_by(self.policy)

    @property
    def extra(self) -> list[str]:
        """Columns to read beside the features."""
        return list(dict.fromkeys([*self.kept, *self.costs.columns, *filter(None, [self.when])]))


def result_columns(classifier: CostClassifier) -> list[str]:
    """Return the names of what is found out about a row."""
    return [*probability_columns(classifier), "decision", "expected_cost"]


def output_columns(classifier: CostClassifier, opened: Opened, asked: Asked) -> dict[str, Any]:
    """Return the columns of the output and their kinds."""
    import pyarrow as pa  # noqa: PLC0415

    known = {"file": pa.string()} if opened.unit == "pictures" else {name: opened.kind(name) for name in asked.kept}
    kinds = {name: pa.float64() for name in result_columns(classifier)}
    plain = asked.policy.refer is None and asked.policy.actions is None
    return known | kinds | {"decision": label_type(classifier.classes_) if plain else pa.string()}


class Tally:
    """How many rows there were, how many of each decision, what they are expected to cost, and what was said."""

    def __init__(self) -> None:
        self.rows, self.cost = 0, 0.0
        self.counts: Counter[str] = Counter()
        self.notes: dict[str, None] = {}
        self.prior: Any = None

    def add(self, found: Decisions) -> None:
        """Count rows that were decided."""
        told = {"cost": float(found.expected.sum()), "counts": found.counts, "notes": found.notes, "prior": found.prior}
        self.include({"rows": len(found.actions), **told})

    def include(self, told: Mapping[str, Any]) -> None:
        """Count what another tally tells."""
        self.rows, self.cost = self.rows + told["rows"], self.cost + told["cost"]
        self.counts.update(told["counts"])
        self.notes |= dict.fromkeys(told["notes"])
        self.prior = told["prior"]

    def told(self) -> dict[str, Any]:
        """Return everything."""
        return vars(self) | {"counts": dict(self.counts), "notes": list(self.notes)}


def predict_pieces(
    classifier: CostClassifier, opened: Opened, asked: Asked, write: Callable[..., None], seen: Callable[[int], None]
) -> Tally:
    """Predict and write all rows that were opened; tell how many are seen so far."""
    tally, when = Tally(), asked.when
    scored = _scored(classifier, opened, asked.costs, seen)
    for piece in _joined(list(scored)) if asked.policy.needs_all_rows else scored:
        found = decide(classifier, piece.probability, piece.costs, asked.policy, piece.others.get(when or ""))
        tally.add(found)
        told = {"decision": decided_labels(found), "expected_cost": found.expected}
        write(piece.others | probability_columns(classifier, found.probabilities) | told)
    return tally


class _Scored(NamedTuple):
    """Some rows: their probabilities, their costs, and the columns asked for besides."""

    probability: np.ndarray[Any, Any]
    costs: CostMatrix
    others: dict[str, Any]


def _scored(
    classifier: CostClassifier, opened: Opened, costs: CostMatrix, seen: Callable[[int], None]
) -> Iterator[_Scored]:
    """Yield rows with their probabilities, piece by piece; tell how many there were."""
    done, data = 0, opened.called
    for inputs, others in opened.pieces:
        own = _settled(costs, inputs, others, data if done == 0 else f"{data}, from row {done + 1} on")
        probability = classifier.decision_probabilities(inputs, costs=own)
        yield _Scored(probability, own, others)
        done += len(probability)
        seen(done)


def _settled(costs: CostMatrix, inputs: Any, others: dict[str, Any], what: str) -> CostMatrix:
    """Return the costs of these rows, whose prices may depend on features and on other columns."""
    if costs.settled:
        return costs
    from adacsl.datasets.errors import DataError  # noqa: PLC0415  pandas

    try:
        return costs.of(inputs.assign(**others) if hasattr(inputs, "assign") else others).deciding
    except ValueError as error:
        raise DataError(f"{what}: {error}") from None


def _joined(parts: list[_Scored]) -> Iterator[_Scored]:
    """Yield all rows as one piece; nothing where there are none."""
    import pandas as pd  # noqa: PLC0415

    if not parts:
        return
    others = {name: pd.concat([pd.Series(part.others[name]) for part in parts]) for name in parts[0].others}
    costs = parts[0].costs
    if costs.n_instances is not None:
        table = np.concatenate([part.costs.to_array() for part in parts])
        cells = [[table[:, i, j] for j in range(costs.n_classes)] for i in range(costs.n_actions)]
        costs = unchecked_costs(tuple(map(tuple, cells)), costs.classes)
    yield _Scored(np.concatenate([part.probability for part in parts]), costs, others)
