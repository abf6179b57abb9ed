"""Constant baselines: always the same decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.rows import Rows

with requires("sklearn"):
    from sklearn.base import BaseEstimator


class Constant(BaseEstimator):
    """Learns nothing; for ``decide="negative"`` and ``decide="positive"``."""

    tables_only = False
    learns = False
    trained_by = "adacsl.learners.constant:fit_constants"
    kind = "constant"

    def check(self) -> None:
        """Nothing can be wrong."""

    def adapts(self, candidate: Candidate) -> bool:
        """Return False: there is nothing to adapt."""
        return False

    def logits(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return zeros."""
        return np.zeros(X.shape[0] if hasattr(X, "shape") else len(X))

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return nothing: there is nothing to store."""
        return {}, {}


def fit_constants(candidates: Sequence[Candidate], rows: Rows) -> Iterator[Candidate]:
    """Give every candidate the model that knows nothing."""
    for candidate in candidates:
        candidate.model = Constant()
        held = candidate.hold_out(rows, rows.use)
        held.look(np.full(len(rows.use), np.inf if candidate.method.decide == "positive" else -np.inf))
        candidate.held = [held]
        if candidate.watch is not None:
            candidate.watched = np.zeros(len(candidate.watch))
        yield candidate
