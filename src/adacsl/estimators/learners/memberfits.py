"""Members of a portfolio, fitted: what each brings to the stack, and what the stack weighs rows by."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.core.heldout import HeldOut, bayes_log_odds, pooled
from adacsl.core.rowwise import relative_prices
from adacsl.core.scores import known, losses_of
from adacsl.estimators.candidates import Candidate
from adacsl.estimators.rows import Rows
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.base import clone

if TYPE_CHECKING:
    from adacsl.estimators.method import Method

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much of a row's price a model may have seen in its features."""


@dataclass
class Fitted:
    """What a member brings to one candidate: log-odds (or K logits) of rows it did not train on, and its model.

    ``by_rows`` is the share of the rows' offsets that its log-odds lack: 0 unless its loss weighed rows by prices.
    """

    name: str
    honest: NDArray[np.float64]
    shift: Any
    model: Any
    watched: NDArray[np.float64] | None
    seconds: float
    by_rows: float = 0.0

    def check(self, held: Sequence[HeldOut]) -> None:
        """Refuse scores that nothing can be built on."""
        if not held or not all(np.all(np.isfinite(self.honest[part.rows])) for part in held):
            raise ValueError("its held-out scores are not finite")


def cut_of(costs: CostMatrix) -> Any:
    """Return the log-odds of the Bayes threshold; of K classes minus the log of what an error about each weighs."""
    return float(bayes_log_odds(costs)) if costs.n_classes == 2 else -np.log(costs.class_weights())


def prices_of(candidate: Candidate, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Return what errors about each class cost for each row, where rows have prices of their own."""
    if candidate.row_costs is None:
        return None
    usual = candidate.class_costs.reduced().to_array().sum(axis=0)
    return np.asarray(relative_prices(candidate.costs.rows(rows), candidate.class_costs) * usual)


def fit_members(shared: Any, members: dict[str, Method]) -> dict[str, list[Fitted]]:
    """Fit some members, for each of the costs; what several need is trained once."""
    from adacsl.estimators.fitting import fit_methods  # noqa: PLC0415  it imports this module

    rows, prices, watch = shared
    asked = [(name, clone(made), costs) for name, made in members.items() for costs in prices]
    for _, made, _ in asked:
        made.check_settings()
    start = time.perf_counter()
    for _ in fit_methods([(made, costs) for _, made, costs in asked], rows, watch=watch):
        pass
    seconds = (time.perf_counter() - start) / len(members)
    found: dict[str, list[Fitted]] = {name: [] for name in members}
    for name, made, _ in asked:
        own = made.candidate_
        honest, by_rows = honest_logits(own, rows)
        watched = None if own.watched is None else own.watched + own.shifted + by_rows * own.offsets(own.watch)
        found[name].append(Fitted(name, honest, own.shifted, own.model, watched, seconds, by_rows))
        found[name][-1].check(own.held)
    return found


def honest_logits(candidate: Candidate, rows: Rows) -> tuple[NDArray[np.float64], float]:
    """Return the held-out log-odds (or K logits) of a member, and the share of the rows' offsets that is in them.

    Weighing rows by their prices moves the odds by as much of a price as the features tell. All of it is given back
    where they tell the price, and nothing where they say nothing of it: the held-out log loss knows.
    """
    logits = pooled(len(rows.y), candidate.held)
    if not candidate.corrects_rows:
        return logits, 0.0
    offsets = candidate.offsets(np.arange(len(rows.y)))
    seen = known(logits)
    weight = rows.weights(seen)

    def loss(share: float) -> float:
        moved = logits[seen] + (share - 1.0) * offsets[seen]
        return float(np.average(losses_of(moved, rows.y[seen]), weights=weight))

    share = min(reversed(SHARES), key=loss)
    return logits + (share - 1.0) * offsets, share


__all__ = ["Fitted", "cut_of", "fit_members", "honest_logits", "prices_of"]
