"""Order of base estimators under a time limit: expected gain of the stack per second."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

UNIT = 20_000
"""Samples x columns that the seconds of a base estimator refer to: 1,000 samples of 20 columns."""
DOUBT = 0.002
"""Relative gain that counts as observed before any is: a single base estimator does not refute what was expected."""

TINY = 1e-9


class Prior(NamedTuple):
    """What is known of a base estimator before a fit: its family, its seconds on one core, and the gain.

    ``fixed`` + ``slope`` per 20,000 numbers are seconds of a cross-fit in five folds; ``gain`` is the share of the
    stack's out-of-fold log loss that it took away on the development tables (`benchmarks/quality/base_estimators.py`).
    """

    family: str
    fixed: float
    slope: float
    gain: float


class TimePlan:
    """Expected seconds and gains of base estimators, corrected by those that are finished.

    Parameters
    ----------
    n_values : int
        Samples x columns.
    n_classes : int, default 2
        Boosters grow a tree for each of more than two classes.

    Examples
    --------
    >>> quick, slow = Prior("linear", 0.1, 0.1, 0.01), Prior("network", 1.0, 4.0, 0.02)
    >>> plan = TimePlan(20_000)
    >>> plan.seconds(quick), plan.seconds(slow)
    (0.2, 5.0)
    >>> plan.choose([slow, quick], left=60.0), plan.choose([slow], left=4.0)
    (1, None)
    """

    def __init__(self, n_values: int, n_classes: int = 2) -> None:
        self.size, self.n_classes = n_values / UNIT, n_classes
        self._seconds: list[tuple[Prior, float]] = []
        self._gains: list[tuple[Prior, float]] = []

    def observe(self, prior: Prior, seconds: float, gain: float | None = None) -> None:
        """Take note of a finished base estimator: its seconds, and what the stack gained where there was one before."""
        self._seconds.append((prior, seconds))
        if gain is not None:
            self._gains.append((prior, gain))

    def seconds(self, prior: Prior) -> float:
        """Return the seconds to expect here: of this machine, and of the slower of all families and the own one."""
        every = [(self._usual(own), seconds) for own, seconds in self._seconds]
        family = [(self._usual(own), seconds) for own, seconds in self._seconds if own.family == prior.family]
        return self._usual(prior) * max((_ratio(some) for some in (every, family) if some), default=1.0)

    def gain(self, prior: Prior) -> float:
        """Return the share of the stack's log loss to expect; what relatives gained says how much is left for more."""
        family = [(own.gain, gain) for own, gain in self._gains if own.family == prior.family]
        return prior.gain * _ratio([(DOUBT, DOUBT), *family])

    def choose(self, waiting: Sequence[Prior], left: float, shares: Sequence[float] | None = None) -> int | None:
        """Return the place of the largest expected gain per second among those that end in time; None: there is none.

        ``shares`` are the parts of each cross-fit that a task does: 1, or a fold of several.
        """
        parts = [1.0] * len(waiting) if shares is None else shares
        known = [(place, prior, self.seconds(prior)) for place, prior in enumerate(waiting)]
        fitting = [(place, prior, seconds) for place, prior, seconds in known if seconds * parts[place] <= left]
        if not fitting:
            return None
        return max(fitting, key=lambda own: (self.gain(own[1]) / max(own[2], TINY), -own[0]))[0]

    def _usual(self, prior: Prior) -> float:
        trees = self.n_classes if prior.family == "boosting" and self.n_classes > 2 else 1
        return (prior.fixed + prior.slope * self.size) * trees


def _ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the sum of what was observed over the sum of what was expected; a loss counts as no gain."""
    pairs = list(pairs)
    return sum(max(observed, 0.0) for _, observed in pairs) / sum(expected for expected, _ in pairs)
