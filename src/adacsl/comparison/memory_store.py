"""In-memory store: results of a run that has no folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from adacsl.comparison.fits import FitKey, FitResult, Stopped
from adacsl.comparison.store import Failure, Scan, StoredRun, StoredSplit, as_stored, costs_of, now, stamped

if TYPE_CHECKING:
    from adacsl.datasets.segments import Segments


class MemoryStore:
    """Keeps results in memory: a :class:`~adacsl.comparison.store.ResultStore` without a folder.

    Parameters
    ----------
    identity : mapping
        What the results depend on: data and settings.
    """

    def __init__(self, identity: Mapping[str, Any]) -> None:
        self.identity = dict(identity)
        self._results: dict[FitKey, FitResult] = {}
        self._failures: dict[FitKey, Failure] = {}
        self._splits: dict[tuple[str, int], StoredSplit] = {}
        self._segments: dict[str, dict[str, Segments]] = {}
        self._planned: frozenset[FitKey] = frozenset()
        self._stopped: tuple[Stopped, ...] = ()

    def scan(self) -> Scan:
        """Return the fits that are done or failed."""
        costs = {fit: costs_of(result) for fit, result in self._results.items()}
        return Scan(set(self._results), dict(self._failures), {}, costs)

    def write(self, result: FitResult) -> bool:
        """Keep the result of a fit; return whether it is new (the first one stays)."""
        if result.fit in self._results:
            return False
        self._results[result.fit] = as_stored(stamped(result))
        self._failures.pop(result.fit, None)
        return True

    def fail(self, fit: FitKey, error: BaseException | Failure) -> Failure:
        """Keep why a fit has no result; attempts are counted."""
        failure = error if isinstance(error, Failure) else Failure.of(error)
        before = self._failures[fit].attempts if fit in self._failures else 0
        failure = failure._replace(attempts=before + 1, time=now())
        if fit not in self._results:
            self._failures[fit] = failure
        return failure

    def write_split(self, data: str, seed: int, split: StoredSplit) -> None:
        """Keep the test samples of a split, with their labels, units and costs."""
        self._splits[data, seed] = split

    def write_segments(self, data: str, segments: Mapping[str, Segments]) -> None:
        """Keep the segment of each sample of a data set."""
        self._segments[data] = dict(segments)

    def write_plan(self, fits: Iterable[FitKey], stopped: Iterable[Stopped] = ()) -> None:
        """Keep the fits that are planned, and the methods that are not run on all folds."""
        self._planned, self._stopped = frozenset(fits), tuple(sorted(stopped))

    def read(self, fit: FitKey) -> FitResult:
        """Return the result of a fit."""
        return self._results[fit]

    def read_split(self, data: str, seed: int) -> StoredSplit:
        """Return the test samples of a split."""
        return self._splits[data, seed]

    def load(self) -> StoredRun:
        """Return everything that was kept."""
        results = {
            fit: result
            for fit, result in sorted(self._results.items())
            if not any(each.excludes(fit) for each in self._stopped)
        }
        planned = frozenset(fit for fit in self._planned if not any(each.excludes(fit) for each in self._stopped))
        return StoredRun(
            self.identity, results, self._failures, self._splits, self._segments, planned, self._stopped
        )  # fmt: skip
